use super::*;

const INVITE: &str = "INVITE sip:bob@127.0.0.1:5060 SIP/2.0\r\n\
    Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1\r\n\
    Max-Forwards: 70\r\n\
    From: <sip:alice@127.0.0.1>;tag=a1\r\n\
    To: <sip:bob@127.0.0.1>\r\n\
    Call-ID: c1@127.0.0.1\r\n\
    CSeq: 1 INVITE\r\n\
    Contact: <sip:alice@127.0.0.1:15060>\r\n\
    Content-Length: 0\r\n\r\n";

fn parse(text: impl AsRef<[u8]>) -> Result<Message, Malformed> {
    Message::parse(Bytes::copy_from_slice(text.as_ref()), &Limits::default())
}

#[test]
fn the_parts_of_a_request() {
    let message = parse(INVITE).unwrap();
    assert!(message.is_request());
    assert_eq!(message.status(), 0);
    assert_eq!(
        message.start(),
        Start::Request { method: Method::Invite, uri: b"sip:bob@127.0.0.1:5060" }
    );
    assert_eq!(&message.bytes()[message.uri_at()], b"sip:bob@127.0.0.1:5060");
    assert_eq!(message.method(), Method::Invite);
    assert_eq!(message.call_id(), b"c1@127.0.0.1");
    assert_eq!(message.cseq(), CSeq { number: 1, digits: b"1", method: Method::Invite });
    assert_eq!(message.from().tag(), Some(&b"a1"[..]));
    assert_eq!(message.from().uri, b"sip:alice@127.0.0.1");
    assert_eq!(message.to().tag(), None);
    assert_eq!(message.content_length(), ContentLength::Bytes(0));
    assert_eq!(message.headers().count(), 8);
    assert_eq!(message.body(), b"");
    assert_eq!(&message.bytes()[message.headers_end()..], b"\r\n");
    let via = message.via();
    assert_eq!((via.transport, via.host, via.port), (&b"UDP"[..], &b"127.0.0.1"[..], Some(15060)));
    assert_eq!(via.branch(), Some(&b"z9hG4bKc1"[..]));
    assert_eq!(&message.bytes()[via.param_at(b"branch").unwrap()], b";branch=z9hG4bKc1");
    assert_eq!(&message.bytes()[..via.sent_by_end].last_chunk::<6>(), &Some(b":15060"));
    assert!(!via.shares_line);
    assert_eq!(message.vias().collect::<Vec<_>>(), [via]);
}
