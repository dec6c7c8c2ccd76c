//! Rules 123 to 136: the registrar.

use crate::kit::fresh;
use crate::raw::{Sip, Tcp, Udp, parameter, request};
use crate::stage::{CALM, Stage};

/// Saves what is registered, sends the rest to where that is.
const REGISTRAR: &str = "function call()
    if KSR.is_REGISTER() then
        KSR.registrar.save(\"location\", 0)
    elseif KSR.registrar.lookup(\"location\") < 0 then
        KSR.sl.send_reply(404, \"Not Found\")
    else
        KSR.tm.t_relay()
    end
end";

/// The same, one group of phones after the other.
const SERIAL: &str = "function call()
    if KSR.is_REGISTER() then
        KSR.registrar.save(\"location\", 0)
    elseif KSR.registrar.lookup(\"location\") < 0 then
        KSR.sl.send_reply(404, \"Not Found\")
    else
        KSR.tm.t_load_contacts()
        following()
    end
end
function following()
    if KSR.tm.t_next_contacts() > 0 then
        KSR.tm.t_on_failure(\"following\")
        KSR.tm.t_relay()
    end
end";

fn registrar(phones: usize) -> Stage {
    Stage::with(phones, CALM, REGISTRAR)
}

impl Stage {
    /// A REGISTER of Bob's with these header lines, in the dialog of a registration.
    fn register_text(&self, registration: &str, cseq: u32, lines: &str) -> String {
        let uri = format!("sip:{}", self.proxy.udp());
        request("REGISTER", &uri, &self.alice.via(&fresh("reg")), registration)
            .replace("CSeq: 1 ", &format!("CSeq: {cseq} "))
            .replace("Contact: <sip:alice@127.0.0.1:15060>\r\n", lines)
    }

    #[track_caller]
    fn register(&self, registration: &str, cseq: u32, lines: &str) -> Sip {
        self.send(self.register_text(registration, cseq, lines));
        self.alice.receive()
    }

    /// Registers; the bindings that the 200 has.
    #[track_caller]
    fn registers(&self, registration: &str, cseq: u32, lines: &str) -> Vec<Binding> {
        bindings(&self.register(registration, cseq, lines))
    }

    /// The bindings of now.
    #[track_caller]
    fn bound(&self) -> Vec<Binding> {
        self.registers(&fresh("query"), 1, "")
    }

    fn contact(&self, phone: usize) -> String {
        format!("sip:p{phone}@{}", self.phones[phone].at())
    }
}

/// One value of Contact.
#[derive(Debug, PartialEq, Eq)]
struct Binding {
    uri: String,
    q: Option<String>,
    expires: u32,
}

#[track_caller]
fn bindings(ok: &Sip) -> Vec<Binding> {
    assert_eq!(ok.status(), 200, "{ok:?}");
    let all = ok.all("Contact").join(", ");
    let values = all.split("<sip:").skip(1).map(|value| value.trim_end_matches([',', ' ']));
    values
        .map(|value| {
            let (uri, parameters) = value.split_once('>').expect("an end");
            let expires = parameter(parameters, "expires").expect("expires");
            let expires = expires.parse().expect("a number");
            Binding { uri: format!("sip:{uri}"), q: parameter(parameters, "q"), expires }
        })
        .collect()
}

fn uris(bindings: &[Binding]) -> Vec<&str> {
    bindings.iter().map(|binding| binding.uri.as_str()).collect()
}

#[test]
fn sip_r123_200_lists_the_bindings_with_expires() {
    let stage = registrar(0);
    let first = stage.registers("r1", 1, "Contact: <sip:bob@192.0.2.1>;expires=300\r\n");
    assert_eq!((uris(&first), first[0].expires), (vec!["sip:bob@192.0.2.1"], 300));
    let lines = "Contact: <sip:bob@192.0.2.2;transport=tcp>;q=0.5;expires=120, \"B\" <sip:bob@192.0.2.3>;expires=90\r\n\
                 m: <sip:bob@192.0.2.4>;q=1.0\r\nExpires: 200\r\n";
    let all = stage.registers("r2", 1, lines);
    // By q from high to low, unspecified last, of those the oldest first.
    assert_eq!(
        uris(&all),
        [
            "sip:bob@192.0.2.4",
            "sip:bob@192.0.2.2;transport=tcp",
            "sip:bob@192.0.2.1",
            "sip:bob@192.0.2.3",
        ]
    );
    let q: Vec<_> =
        all.iter().map(|one| one.q.as_deref().map(|q| q.parse::<f32>().unwrap())).collect();
    assert_eq!(q, [Some(1.0), Some(0.5), None, None]);
    let expires: Vec<_> = all.iter().map(|one| one.expires).collect();
    for (is, was) in expires.iter().zip([200, 120, 300, 90]) {
        assert!(*is <= was && *is + 20 > was, "{expires:?}");
    }
}

#[test]
fn sip_r124_lookup_rewrites_the_request_uri_to_the_contact() {
    let stage = registrar(1);
    let contact = stage.contact(0) + ";x=1";
    stage.registers("r1", 1, &format!("Contact: <{contact}>\r\n"));
    stage.call("c1");
    let came = stage.gets(0, "INVITE");
    assert_eq!(came.first(), format!("INVITE {contact} SIP/2.0"));
    assert_eq!(came.one("To"), "<sip:bob@127.0.0.1>");
    stage.passes(0, &came, "200 OK");
    // With a Path it goes by that.
    let path = format!("<sip:{};lr>", stage.phones[0].at());
    let lines = format!("Contact: <sip:far@192.0.2.1>\r\nPath: {path}\r\nSupported: path\r\n");
    stage.registers("r1", 2, &format!("Contact: <{contact}>;expires=0\r\n"));
    stage.registers("r1", 3, &lines);
    stage.call("c2");
    let came = stage.gets(0, "INVITE");
    assert_eq!(came.first(), "INVITE sip:far@192.0.2.1 SIP/2.0");
    assert_eq!(came.one("Route"), path);
}

#[test]
fn sip_r125_expires_0_removes_then_404() {
    let stage = registrar(1);
    let contact = stage.contact(0);
    stage.registers("r1", 1, &format!("Contact: <{contact}>\r\n"));
    let left = stage.registers("r1", 2, &format!("Contact: <{contact}>;expires=0\r\n"));
    assert!(left.is_empty(), "{left:?}");
    stage.send(stage.request("INVITE", "c1"));
    assert_eq!(stage.alice.receive().status(), 404);
    // By the header, and one of two.
    stage.registers("r1", 3, &format!("Contact: <{contact}>, <sip:b@192.0.2.1>\r\n"));
    let left = stage.registers("r1", 4, "Contact: <sip:b@192.0.2.1>\r\nExpires: 0\r\n");
    assert_eq!(uris(&left), [contact.as_str()]);
    // One that is not there is no error.
    let left = stage.registers("r1", 5, "Contact: <sip:c@192.0.2.1>;expires=0\r\n");
    assert_eq!(uris(&left), [contact.as_str()]);
}

#[test]
fn sip_r126_a_star_only_with_expires_0_else_400() {
    let stage = registrar(0);
    stage.registers("r1", 1, "Contact: <sip:b@192.0.2.1>, <sip:b@192.0.2.2>\r\n");
    for (n, lines) in [
        "Contact: *\r\n",
        "Contact: *\r\nExpires: 60\r\n",
        "Contact: *;expires=0\r\n",
        "Contact: *, <sip:b@192.0.2.1>\r\nExpires: 0\r\n",
        "Contact: *\r\nContact: <sip:b@192.0.2.1>\r\nExpires: 0\r\n",
        "Contact: <sip:b@192.0.2.1>\r\nContact: *\r\nExpires: 0\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let refused = stage.register("r1", 2 + n as u32, lines);
        assert_eq!(refused.status(), 400, "{lines:?}");
    }
    assert_eq!(stage.bound().len(), 2);
    let left = stage.registers("r1", 20, "Contact: *\r\nExpires: 0\r\n");
    assert!(left.is_empty());
    assert!(stage.bound().is_empty());
}

#[test]
fn sip_r127_no_contact_is_a_query() {
    let stage = registrar(0);
    assert!(stage.bound().is_empty());
    stage.registers("r1", 1, "Contact: <sip:b@192.0.2.1>\r\n");
    // It changes nothing, whatever else it has.
    let asked = stage.registers("r1", 1, "Expires: 0\r\n");
    assert_eq!(uris(&asked), ["sip:b@192.0.2.1"]);
    assert_eq!(uris(&stage.bound()), ["sip:b@192.0.2.1"]);
}

#[test]
fn sip_r128_parameter_over_header_over_3600_with_a_floor_of_60() {
    let stage = registrar(0);
    let contact = "Contact: <sip:b@192.0.2.1>";
    let cases = [
        ("", "", 3600),
        ("", "Expires: 200\r\n", 200),
        (";expires=100", "Expires: 200\r\n", 100),
        (";expires=100", "", 100),
        (";expires=59", "", 60),
        (";expires=1", "", 60),
        ("", "Expires: 5\r\n", 60),
        (";expires=100000", "", 100_000),
    ];
    for (n, (parameter, header, wanted)) in cases.into_iter().enumerate() {
        let lines = format!("{contact}{parameter}\r\n{header}");
        let bound = stage.registers("r1", 1 + n as u32, &lines);
        let expires = bound[0].expires;
        assert!(expires <= wanted && expires + 5 >= wanted, "{lines:?}: {expires}");
    }
    let bounds = ", min-expires = 120, max-expires = 600";
    let stage = Stage::with(0, &format!("{CALM}{bounds}"), REGISTRAR);
    for (cseq, (given, wanted)) in [(1, 120), (300, 300), (9999, 600)].into_iter().enumerate() {
        let lines = format!("{contact};expires={given}\r\n");
        let bound = stage.registers("r1", 1 + cseq as u32, &lines);
        assert!(bound[0].expires <= wanted && bound[0].expires + 5 >= wanted, "{bound:?}");
    }
}

#[test]
fn sip_r129_several_contacts_fork_in_parallel() {
    let stage = registrar(3);
    let all: Vec<_> = (0..3).map(|n| format!("<{}>", stage.contact(n))).collect();
    stage.registers("r1", 1, &format!("Contact: {}\r\n", all.join(", ")));
    stage.call("c1");
    let came = stage.all_get("INVITE");
    for (n, sip) in came.iter().enumerate() {
        assert_eq!(sip.first(), format!("INVITE {} SIP/2.0", stage.contact(n)));
        stage.passes(n, sip, "180 Ringing");
    }
    stage.passes(2, &came[2], "200 OK");
    stage.gets(0, "CANCEL");
    stage.gets(1, "CANCEL");
}

#[test]
fn sip_r130_groups_of_q_are_tried_from_high_to_low() {
    let stage = Stage::with(4, CALM, SERIAL);
    let lines: Vec<_> = [(0, ";q=0.2"), (1, ";q=0.8"), (2, ";q=0.2"), (3, "")]
        .iter()
        .map(|(n, q)| format!("Contact: <{}>{q}\r\n", stage.contact(*n)))
        .collect();
    stage.registers("r1", 1, &lines.concat());
    stage.call("c1");
    let came = stage.gets(1, "INVITE");
    for n in [0, 2, 3] {
        stage.quiet_at(n, "c1");
    }
    stage.refuses(1, &came, "486 Busy Here");
    let (first, third) = (stage.gets(0, "INVITE"), stage.gets(2, "INVITE"));
    stage.quiet_at(3, "c1");
    stage.refuses(0, &first, "480 Away");
    stage.refuses(2, &third, "480 Away");
    let last = stage.gets(3, "INVITE");
    stage.quiet("c1");
    stage.passes(3, &last, "200 OK");
}

#[test]
fn sip_r131_an_unknown_user_is_404() {
    let stage = registrar(1);
    stage.registers("r1", 1, &format!("Contact: <{}>\r\n", stage.contact(0)));
    for method in ["INVITE", "MESSAGE"] {
        let sent = stage
            .request(method, method)
            .replace(&format!("{method} sip:bob"), &format!("{method} sip:carol"));
        stage.send(sent);
        assert_eq!(stage.alice.receive().status(), 404);
    }
    stage.quiet_at(0, "INVITE");
}

#[test]
fn sip_r132_a_lower_cseq_of_the_same_call_id_is_400() {
    let stage = registrar(0);
    let contact = |expires| format!("Contact: <sip:b@192.0.2.1>;expires={expires}\r\n");
    stage.registers("r1", 10, &contact(100));
    assert_eq!(stage.register("r1", 9, &contact(200)).status(), 400);
    assert_eq!(stage.register("r1", 9, &contact(0)).status(), 400);
    let bound = stage.bound();
    assert!(bound[0].expires <= 100, "{bound:?}");
    // A higher one, and any of another Call-ID, is taken.
    assert!(stage.registers("r1", 11, &contact(300))[0].expires > 200);
    assert!(stage.registers("r2", 1, &contact(400))[0].expires > 300);
}

#[test]
fn sip_r133_refusals_say_why_in_p_registrar_error() {
    let stage = Stage::with(0, &format!("{CALM}, max-contacts = 2"), REGISTRAR);
    let contact = "Contact: <sip:b@192.0.2.1>\r\n";
    stage.registers("r1", 10, contact);
    let refused = stage.register("r1", 9, contact);
    assert!(!refused.one("P-Registrar-Error").is_empty(), "{refused:?}");
    let refused = stage.register("r1", 11, "Contact: *\r\n");
    assert_eq!(refused.status(), 400);
    assert!(!refused.one("P-Registrar-Error").is_empty(), "{refused:?}");
    let more = "Contact: <sip:b@192.0.2.2>, <sip:b@192.0.2.3>\r\n";
    let refused = stage.register("r2", 1, more);
    assert_eq!(refused.status(), 503);
    assert!(!refused.one("P-Registrar-Error").is_empty(), "{refused:?}");
    assert_eq!(stage.bound().len(), 1);
}

#[test]
fn sip_r134_the_same_contact_updates() {
    let stage = registrar(0);
    let uri = "sip:b@192.0.2.1;transport=udp";
    stage.registers("r1", 1, &format!("Contact: <{uri}>;q=0.1;expires=100\r\n"));
    for (registration, cseq) in [("r1", 2), ("r2", 1)] {
        let bound = stage.registers(
            registration,
            cseq,
            &format!("Contact: \"x\" <{uri}>;q=0.7;expires=900\r\n"),
        );
        assert_eq!(uris(&bound), [uri]);
        assert!(bound[0].expires > 800, "{bound:?}");
        assert!(bound[0].q.as_deref().is_some_and(|q| q.starts_with("0.7")), "{bound:?}");
    }
    // By its instance, where it has one: another address of the same phone.
    let instance = "+sip.instance=\"<urn:uuid:00000000-0000-1000-8000-000A95A0E128>\"";
    stage.registers("r3", 1, &format!("Contact: <sip:b@192.0.2.7>;{instance}\r\n"));
    let bound = stage.registers("r3", 2, &format!("Contact: <sip:b@192.0.2.8>;{instance}\r\n"));
    assert_eq!(uris(&bound).len(), 2, "{bound:?}");
    assert!(uris(&bound).contains(&"sip:b@192.0.2.8"), "{bound:?}");
}

#[test]
fn sip_r135_users_are_case_insensitive() {
    let stage = registrar(1);
    let lines = format!("Contact: <{}>\r\n", stage.contact(0));
    let text = stage.register_text("r1", 1, &lines).replace("To: <sip:bob@", "To: <sip:BoB@");
    stage.send(text);
    assert_eq!(stage.alice.receive().status(), 200);
    assert_eq!(stage.bound().len(), 1);
    for user in ["bob", "BOB", "bOb"] {
        let sent = stage
            .request("MESSAGE", user)
            .replace("MESSAGE sip:bob@", &format!("MESSAGE sip:{user}@"));
        stage.send(sent);
        let came = stage.gets(0, "MESSAGE");
        stage.passes(0, &came, "200 OK");
    }
}

#[test]
fn sip_r136_the_same_cseq_at_once_is_a_copy() {
    let stage = registrar(0);
    let contact = "Contact: <sip:b@192.0.2.1>;expires=100\r\n";
    stage.registers("r1", 5, contact);
    // In a transaction of its own, as behind a proxy that has forgotten.
    for _ in 0..3 {
        assert_eq!(uris(&stage.registers("r1", 5, contact)), ["sip:b@192.0.2.1"]);
    }
    assert!(stage.registers("r1", 6, contact)[0].expires <= 100);
}

#[test]
fn sip_s5_a_phone_behind_nat_is_reached_where_it_registered_from() {
    let lua = REGISTRAR.replace(
        "KSR.registrar.save",
        "KSR.force_rport() KSR.nathelper.fix_nated_register() KSR.registrar.save",
    );
    let stage = Stage::with(0, CALM, &lua);
    let phone = Udp::new();
    let uri = format!("sip:{}", stage.proxy.udp());
    let text = request("REGISTER", &uri, "SIP/2.0/UDP 10.0.0.9:5060;branch=z9hG4bKr", "r1")
        .replace("<sip:alice@127.0.0.1:15060>", "<sip:bob@10.0.0.9:5060>");
    phone.send(stage.proxy.udp(), text);
    let ok = phone.receive();
    let received = format!("received=\"sip:{}", phone.at());
    assert!(ok.one("Contact").contains(&received), "{ok:?}");
    stage.call("c1");
    assert_eq!(phone.hear().first(), "INVITE sip:bob@10.0.0.9:5060 SIP/2.0");
    // And over its connection.
    let mut phone = Tcp::connect(stage.proxy.tcp());
    let text = request("REGISTER", &uri, "SIP/2.0/TCP 10.0.0.8:5060;branch=z9hG4bKr", "r2")
        .replace("To: <sip:bob@", "To: <sip:carol@")
        .replace("<sip:alice@127.0.0.1:15060>", "<sip:carol@10.0.0.8:5060;transport=tcp>");
    phone.send(text);
    assert_eq!(phone.receive().status(), 200);
    let call = stage.request("INVITE", "c2").replace("INVITE sip:bob@", "INVITE sip:carol@");
    stage.begin(&call);
    assert_eq!(phone.receive().first(), "INVITE sip:carol@10.0.0.8:5060;transport=tcp SIP/2.0");
}
