//! What becomes of each message of RFC 4475: dropped, refused with 400, or sound.

use bytes::Bytes;
use lineway_wire::sip::draft::Draft;
use lineway_wire::sip::message::{Limits, Malformed, Message, Name, NameAddr, unfold};
use lineway_wire::sip::own::{Received, SocketId, Transport};
use lineway_wire::sip::{sanity, stream};

use crate::checks;
use crate::torture::{Torture, messages};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It is handled like any other.
    Sound,
    /// It is a request that the usual sanity check answers with 400.
    Refused,
    /// It is no message; nothing answers it.
    Dropped(Malformed),
}

use Outcome::{Dropped, Refused, Sound};

/// Where the document lets a choice, or asks for a 400 to what has no usable Via, From or To, the
/// contract decides (1.1): such messages are dropped.
const OUTCOMES: [(&str, Outcome); 49] = [
    ("wsinv", Sound),
    ("intmeth", Sound),
    ("esc01", Sound),
    ("escnull", Sound),
    ("esc02", Sound),
    ("lwsdisp", Sound),
    ("longreq", Sound),
    // Over UDP the second message is a body that the first one does not announce.
    ("dblreq", Refused),
    ("semiuri", Sound),
    ("transports", Sound),
    ("mpart01", Sound),
    ("unreason", Sound),
    ("noreason", Sound),
    ("badinv01", Dropped(Malformed::Via)),
    ("clerr", Refused),
    ("ncl", Refused),
    ("scalar02", Refused),
    ("scalarlg", Sound),
    ("quotbal", Dropped(Malformed::To)),
    ("ltgtruri", Refused),
    ("lwsruri", Dropped(Malformed::NotSip)),
    ("lwsstart", Dropped(Malformed::NotSip)),
    ("trws", Sound),
    ("escruri", Sound),
    ("baddate", Sound),
    // Contact is not among what the usual check looks at.
    ("regbadct", Sound),
    ("badaspec", Sound),
    ("baddn", Sound),
    ("badvers", Dropped(Malformed::NotSip)),
    ("mismatch01", Refused),
    ("mismatch02", Refused),
    ("bigcode", Dropped(Malformed::NotSip)),
    ("badbranch", Sound),
    ("insuf", Dropped(Malformed::From)),
    ("unkscm", Refused),
    ("novelsc", Refused),
    ("unksm2", Sound),
    ("bext01", Sound),
    ("invut", Sound),
    ("regaut01", Sound),
    ("multi01", Refused),
    ("mcl01", Refused),
    ("bcast", Sound),
    ("zeromf", Sound),
    ("cparam01", Sound),
    ("cparam02", Sound),
    ("regescrt", Sound),
    ("sdp01", Sound),
    ("inv2543", Sound),
];

fn parse(bytes: &[u8]) -> Result<Message, Malformed> {
    Message::parse(Bytes::copy_from_slice(bytes), &Limits::default())
}

fn named(name: &str) -> Message {
    let torture = messages().into_iter().find(|torture| torture.name == name).unwrap();
    parse(&torture.bytes).unwrap()
}

fn outcome(bytes: &[u8]) -> Outcome {
    let message = match parse(bytes) {
        Ok(message) => message,
        Err(malformed) => return Dropped(malformed),
    };
    let received = Received {
        source: "192.0.2.1:5060".parse().unwrap(),
        socket: SocketId(0),
        transport: Transport::Udp,
        connection: None,
    };
    let is_request = message.is_request();
    // The script's check is for requests.
    match sanity::check(&Draft::new(message, received), 17_895, 7) {
        Some(failure) if is_request => {
            assert_eq!(failure.code, 400);
            Refused
        }
        _ => Sound,
    }
}

#[test]
fn sip_r144_sip_r145_the_messages_of_rfc_4475() {
    let messages = messages();
    let told: Vec<_> = messages.iter().map(|one| (one.name, outcome(&one.bytes))).collect();
    for (told, expected) in told.iter().zip(&OUTCOMES) {
        assert_eq!(told, expected);
    }
    assert_eq!(told.len(), OUTCOMES.len());
}

#[test]
fn sip_r015_their_parts_are_where_they_say() {
    for Torture { bytes, .. } in messages() {
        checks::message(&bytes);
    }
}

#[test]
fn bodies_are_as_long_as_they_say() {
    let odd = ["dblreq", "clerr", "ncl", "multi01", "mcl01", "inv2543"];
    for Torture { section, name, bytes } in messages() {
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            matches!(name.trim(), "l" | "content-length").then(|| value.trim().parse().ok())?
        });
        let fits = length == Some(bytes.len() - head);
        assert_eq!(fits, !odd.contains(&name), "{section} {name}: {length:?}");
    }
}

#[test]
fn wsinv_is_understood() {
    let message = named("wsinv");
    assert_eq!(message.to().uri, b"sip:vivekg@chair-dnrc.example.com");
    assert_eq!(message.to().tag(), Some(&b"1918181833n"[..]));
    assert_eq!(message.from().display, br#""J Rosenberg \\\"""#);
    assert_eq!(message.from().tag(), Some(&b"98asjd8"[..]));
    assert_eq!((message.cseq().number, message.cseq().digits), (9, &b"0009"[..]));
    let vias: Vec<_> = message.vias().map(|via| (via.transport, via.host, via.branch())).collect();
    assert_eq!(
        vias,
        [
            (&b"UDP"[..], &b"192.0.2.2"[..], Some(&b"390skdjuw"[..])),
            (b"TCP", b"spindle.example.com", Some(b"z9hG4bK9ikj8")),
            (b"UDP", b"192.168.255.111", Some(b"z9hG4bK30239")),
        ]
    );
    let contact = message.addresses(Name::Contact).next().unwrap().unwrap();
    assert_eq!(contact.params.get(b"newparam"), Some(Some(&b"newvalue"[..])));
    assert_eq!(contact.params.get(b"secondparam"), Some(None));
    assert_eq!(contact.params.get(b"q"), Some(Some(&b"0.33"[..])));
    let route = message.addresses(Name::Route).next().unwrap().unwrap();
    assert!(route.parsed_uri().unwrap().params.has(b"lr"));
    let new = message.named(b"newfangledheader").next().unwrap();
    assert_eq!(unfold(new.value), &b"newfangled value continued newfangled value"[..]);
    assert_eq!(message.first(Name::Subject).unwrap().value, b"");
    assert_eq!(message.body().len(), 150);
}

#[test]
fn intmeth_is_understood() {
    let message = named("intmeth");
    let method = &b"!interesting-Method0123456789_*+`.%indeed'~"[..];
    assert_eq!(message.method().as_bytes(), method);
    assert_eq!(message.cseq().method, message.method());
    let uri = lineway_wire::sip::message::Uri::parse(&message.bytes()[message.uri_at()]).unwrap();
    assert_eq!(uri.user, Some(&b"1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*"[..]));
    assert_eq!(uri.password, Some(&b"&it+has=1,weird!*pas$wo~d_too.(doesn't-it)"[..]));
    assert_eq!(uri.host, b"example.com");
    assert_eq!(message.to().display, b"\"BEL:\\\x07 NUL:\\\0 DEL:\\\x7f\"");
    assert_eq!(message.from().tag(), Some(&b"_token~1'+`*%!-."[..]));
    let spoken = "работающий".as_bytes();
    assert_eq!(message.from().params.get(b"fromParam''~+*_!.-%"), Some(Some(spoken)));
    assert_eq!(message.via().branch(), Some(&b"z9hG4bK-.!%66*_+`'~"[..]));
    let last = message.named(b"extensionHeader-!.%*+_`'~").next().unwrap();
    assert_eq!(last.value, "\u{feff}大停電".as_bytes());
}

#[test]
fn others_are_understood() {
    // An escaped name is another header.
    let escaped = named("esc02");
    let contacts: Vec<_> = escaped.addresses(Name::Contact).flatten().map(|one| one.uri).collect();
    assert_eq!(contacts, [&b"sip:alias1@host1.example.com"[..], b"sip:alias3@host3.example.com"]);
    let long = named("longreq");
    assert_eq!((long.vias().count(), long.headers().count()), (34, 43));
    assert_eq!(named("transports").vias().count(), 5);
    assert_eq!(named("unreason").status(), 200);
    assert_eq!(named("noreason").status(), 100);
    assert_eq!(named("multi01").call_id(), b"multi01.98asdh@192.0.2.1");
    let address = named("badaspec").to().uri.to_vec();
    assert_eq!(address, b"sip:t.watson@example.org");
    // A parameter of the header in one, of the URI in the other.
    for (name, of_header) in [("cparam01", true), ("cparam02", false)] {
        let message = named(name);
        let contact: NameAddr<'_> = message.addresses(Name::Contact).next().unwrap().unwrap();
        assert_eq!(contact.params.has(b"unknownparam"), of_header);
        assert_eq!(contact.parsed_uri().unwrap().params.has(b"unknownparam"), !of_header);
    }
}

#[test]
fn sip_r140_those_that_frame_themselves_come_out_of_a_stream() {
    let all = messages();
    let fits = |one: &&Torture| {
        let length = parse(&one.bytes).map(|message| {
            use lineway_wire::sip::message::ContentLength::Bytes;
            matches!(message.content_length(), Bytes(length) if length == message.body().len() as u64)
        });
        length == Ok(true)
    };
    let framed: Vec<_> = all.iter().filter(fits).collect();
    assert!(framed.len() > 35, "{}", framed.len());
    let mut input = bytes::BytesMut::new();
    for one in &framed {
        input.extend_from_slice(&one.bytes);
    }
    let mut framer = stream::Framer::new(Limits::default());
    for one in framed {
        let next = framer.next(&mut input).unwrap();
        assert_eq!(next, stream::Framed::Message(one.bytes.clone().into()), "{}", one.name);
    }
    assert_eq!(framer.next(&mut input), Ok(stream::Framed::NeedsMore));
}
