//! SIP: one message of any bytes, and a stream at any segmentation (1.1; R015, R140, R144).

use bytes::{Bytes, BytesMut};
use lineway_wire::sip::message::{
    Limits, Message, Name, NameAddr, Start, Uri, call_id_of, host_ip, unfold,
};
use lineway_wire::sip::stream::{Framed, Framer, StreamError};

use super::input::Input;

/// Any bytes are a message or none; of a message every part is where it says, and all parts
/// together are its bytes.
pub(crate) fn message(data: &[u8]) {
    let _ = (Uri::parse(data).map(uri), unfold(data).len());
    let _ = NameAddr::parse(data).map(|one| (one.tag().is_some(), one.parsed_uri().map(uri)));
    let Ok(message) = Message::parse(Bytes::copy_from_slice(data), &Limits::default()) else {
        let _ = call_id_of(data);
        return;
    };
    assert_eq!(call_id_of(data), Some(message.call_id()));
    let bytes = message.bytes();
    assert!(data.ends_with(bytes));
    match message.start() {
        Start::Request { method, uri: text } => {
            assert_eq!(&bytes[message.uri_at()], text);
            assert!(bytes.starts_with(method.as_bytes()));
            let _ = Uri::parse(text).map(uri);
        }
        Start::Reply { code, .. } => assert!(code < 1000 && code == message.status()),
    }
    lines(&message);
    vias(&message);
    addresses(&message);
    assert!(!message.cseq().digits.is_empty());
    let _ = (message.content_length(), message.method());
}

/// The lines follow each other from the start line to the body.
fn lines(message: &Message) {
    let bytes = message.bytes();
    let mut end = message.headers_at();
    assert!(bytes[..end].ends_with(b"\n"));
    for header in message.headers() {
        let line = &bytes[header.line.clone()];
        assert_eq!(header.line.start, end, "lines follow each other");
        assert!(line.starts_with(header.written) && line.ends_with(b"\n"));
        assert_eq!(&bytes[header.value_at.clone()], header.value);
        // A broken line behind what every message needs has no name, and is all value.
        let has_name = header.line.start < header.value_at.start;
        assert_eq!(has_name, !header.written.is_empty());
        assert!(header.value_at.start >= header.line.start);
        assert!(header.value_at.end <= header.line.end);
        assert_eq!(Name::of(header.written), header.name);
        assert!(message.named(header.written).any(|other| other == header));
        let _ = unfold(header.value);
        end = header.line.end;
    }
    assert_eq!(end, message.headers_end());
    assert!(matches!(&bytes[end..message.body_at()], b"\n" | b"\r\n"));
    assert_eq!(message.body(), &bytes[message.body_at()..]);
}

fn vias(message: &Message) {
    let bytes = message.bytes();
    assert_eq!(message.vias().next(), Some(message.via()));
    for via in message.vias() {
        assert_eq!(&bytes[via.at.0..via.at.1], via.text);
        assert!(via.at.0 < via.sent_by_end && via.sent_by_end <= via.at.1);
        assert!(via.line.0 < via.at.0 && via.at.1 < via.line.1);
        for (name, value) in via.params.iter() {
            let written = &bytes[via.param_at(name).expect("it is there")];
            assert!(written.starts_with(b";") && via.text.len() > written.len());
            assert!(value.is_none_or(|value| value.len() < via.params.0.len()));
        }
    }
}

fn addresses(message: &Message) {
    let bytes = message.bytes();
    let lists = [Name::Contact, Name::Route, Name::RecordRoute];
    let lists = lists.into_iter().flat_map(|name| message.addresses(name)).flatten();
    for one in [message.from(), message.to()].into_iter().chain(lists) {
        assert_eq!(&bytes[one.at.clone()], one.text);
        assert_eq!(&bytes[one.uri_at.clone()], one.uri);
        assert!(one.at.start <= one.uri_at.start && one.uri_at.end <= one.at.end);
        assert!(one.line.start < one.at.start && one.at.end < one.line.end);
        let _ = (one.tag(), one.parsed_uri().map(uri));
    }
}

fn uri(uri: Uri<'_>) {
    let parts = [uri.scheme, uri.user.unwrap_or_default(), uri.host, uri.params.0];
    assert!(parts.iter().map(|part| part.len()).sum::<usize>() <= uri.text.len());
    assert!(!uri.is_sip() || !uri.host.is_empty());
    let _ = (host_ip(uri.host), uri.params.iter().count());
}

/// What a stream gave, and how it ended or what was left of it.
type Given = (Vec<Framed>, Result<Vec<u8>, StreamError>);

/// A stream means the same in pieces as whole, and nothing of it is lost.
///
/// The input: the limit of a message in units of 64 bytes; the lengths of the pieces, counted by a
/// byte; the bytes.
pub(crate) fn stream(data: &[u8]) {
    let mut input = Input::new(data);
    let message_bytes = usize::from(input.byte()) * 64;
    let limits = Limits { message_bytes, header_bytes: message_bytes / 2, headers: 40 };
    let cuts = input.counted();
    let stream = input.rest();

    let whole = frames(limits, &[], stream);
    let pieces = frames(limits, cuts, stream);
    assert_eq!(pieces, whole, "of {stream:?}");
    let messages = whole.0.iter().filter_map(|framed| match framed {
        Framed::Message(bytes) => Some(bytes),
        _ => None,
    });
    let mut rest = stream;
    for message in messages {
        let at = rest.windows(message.len()).position(|window| window == message);
        let at = at.expect("messages come in order, as they are");
        assert!(rest[..at].iter().all(|byte| matches!(byte, b'\r' | b'\n')));
        assert!(message.len() <= message_bytes);
        rest = &rest[at + message.len()..];
    }
}

fn frames(limits: Limits, cuts: &[u8], stream: &[u8]) -> Given {
    let (mut framer, mut input, mut given) = (Framer::new(limits), BytesMut::new(), Vec::new());
    let mut pieces = Input::new(stream);
    for length in cuts.iter().map(|cut| usize::from(*cut)).chain([stream.len()]) {
        input.extend_from_slice(pieces.take(length));
        loop {
            match framer.next(&mut input) {
                Ok(Framed::NeedsMore) => break,
                Ok(framed) => given.push(framed),
                Err(error) => {
                    let again = framer.next(&mut input).expect_err("for good");
                    assert_eq!((again.fault, again.headers), (error.fault, None));
                    return (given, Err(error));
                }
            }
        }
    }
    (given, Ok(input.to_vec()))
}
