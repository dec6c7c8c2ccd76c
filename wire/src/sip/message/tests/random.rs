//! Any bytes at all.

use proptest::prelude::*;

use super::*;

/// All that can be asked of a message, and that its parts are where they say.
pub(super) fn ask(message: &Message) {
    let bytes = message.bytes();
    let mut end = message.headers_at();
    for header in message.headers() {
        assert_eq!(header.line.start, end, "lines follow each other");
        assert_eq!(&bytes[header.value_at.clone()], header.value);
        assert!(bytes[header.line.clone()].starts_with(header.written));
        assert_eq!(Name::of(header.written), header.name);
        assert!(bytes[header.line.clone()].ends_with(b"\n"));
        assert!(header.line.contains(&(header.value_at.start.min(header.line.end - 1))));
        end = header.line.end;
        let _ = unfold(header.value);
    }
    assert_eq!(end, message.headers_end());
    let empty = &bytes[message.headers_end()..message.body_at()];
    assert!(matches!(empty, b"\n" | b"\r\n"));
    assert_eq!(message.body(), &bytes[message.body_at()..]);
    match message.start() {
        Start::Request { method, uri } => {
            assert_eq!(&bytes[message.uri_at()], uri);
            assert!(bytes.starts_with(method.as_bytes()));
            let _ = Uri::parse(uri).map(ask_uri);
        }
        Start::Reply { code, .. } => assert!(code < 1000),
    }
    assert_eq!(message.vias().next(), Some(message.via()));
    for via in message.vias() {
        assert_eq!(&bytes[via.at.0..via.at.1], via.text);
        assert!(via.at.0 < via.sent_by_end && via.sent_by_end <= via.at.1);
        assert!(via.line.0 < via.at.0 && via.at.1 < via.line.1);
        for (name, value) in via.params.iter() {
            let written = &bytes[via.param_at(name).unwrap()];
            assert!(
                written.starts_with(b";") && value.is_none_or(|value| value.len() < written.len())
            );
        }
    }
    let contacts = message.addresses(Name::Contact).chain(message.addresses(Name::Route)).flatten();
    for one in [message.from(), message.to()].into_iter().chain(contacts) {
        assert_eq!(&bytes[one.at.clone()], one.text);
        assert_eq!(&bytes[one.uri_at.clone()], one.uri);
        assert!(one.line.start < one.at.start && one.at.end <= one.line.end);
        let _ = (one.tag(), one.parsed_uri().map(ask_uri));
    }
    assert!(!message.call_id().is_empty() && !message.cseq().digits.is_empty());
    assert_eq!(call_id_of(bytes), Some(message.call_id()));
    let _ = (message.content_length(), message.method());
}

fn ask_uri(uri: Uri<'_>) {
    let parts = uri.host.len() + uri.params.0.len() + uri.user.map_or(0, <[u8]>::len);
    assert!(parts < uri.text.len());
    assert!(!uri.is_sip() || !uri.host.is_empty());
    let _ = (host_ip(uri.host), uri.params.iter().count());
}

/// Texts that make up messages, so that random ones get far.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known = proptest::sample::select(vec![
        "Via: SIP/2.0/UDP h;branch=z9hG4bK1",
        "From: <sip:a@b>;tag=1",
        "To: \"x\" <sip:a@b>",
        "Call-ID: 1",
        "CSeq: 1 INVITE",
        "m: <sip:a@b>, sip:c@d",
        "\r\n",
        "\n",
        "\r",
        " ",
        "\t",
        ";",
        ",",
        "\"",
        "<",
        ">",
        "\\",
        "=",
        ":",
        "l: 5",
        "v: SIP / 2.0 / TCP [::1]:1",
        "SIP/2.0",
        "@",
        "[",
        "]",
        "?",
        "Route: <sip:h;lr>",
        "\0",
        "i",
        "f",
        "t",
        "x",
    ])
    .prop_map(|text| text.as_bytes().to_vec());
    prop_oneof![8 => known, 1 => proptest::collection::vec(any::<u8>(), 0..4)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn whatever_comes_is_a_message_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(message) = parse(&bytes) {
            ask(&message);
        }
        let _ = (call_id_of(&bytes), Uri::parse(&bytes).map(ask_uri), unfold(&bytes).len());
        let _ = NameAddr::parse(&bytes).map(|one| (one.tag().is_some(), one.parsed_uri().is_ok()));
    }

    #[test]
    fn sip_r015_the_parts_of_a_message_are_its_bytes(
        pieces in proptest::collection::vec(piece(), 0..30),
        places in proptest::collection::vec(any::<proptest::sample::Index>(), 30),
    ) {
        let mut bytes = INVITE.as_bytes().to_vec();
        for (piece, place) in pieces.iter().zip(&places).take(4) {
            let at = place.index(bytes.len());
            bytes.splice(at..at, piece.iter().copied());
        }
        if let Ok(message) = parse(&bytes) {
            ask(&message);
        }
        let built = [b"INVITE sip:a SIP/2.0\r\n".to_vec(), pieces.concat()].concat();
        if let Ok(message) = parse(&built) {
            ask(&message);
        }
    }
}
