//! What another parser, ezk-sip-types, makes of the same messages.

use bytes::Bytes;
use ezk_sip_types::header::typed::{CSeq, CallID, ContentLength, FromTo, Via};
use ezk_sip_types::msg::{Line, MessageLine, PullParser};
use ezk_sip_types::parse::Parse;
use ezk_sip_types::{Headers, Name as TheirName};
use lineway_wire::sip::message::{ContentLength as OurLength, Limits, Message};

use crate::torture::messages;

/// A message as it reads it; `None` where it does not.
struct Theirs {
    line: MessageLine,
    headers: Headers,
    lines: usize,
    body: usize,
}

fn theirs(bytes: &Bytes) -> Option<Theirs> {
    let mut parser = PullParser::new(bytes, 0);
    let text = |line| std::str::from_utf8(line).ok();
    let first = text(parser.next()?.ok()?)?;
    let (_, line) = MessageLine::parse(bytes)(first).ok()?;
    let (mut headers, mut lines) = (Headers::new(), 0);
    for line in parser.by_ref() {
        let (_, line) = Line::parse(bytes, text(line.ok()?)?).ok()?;
        headers.insert(line.name, line.value);
        lines += 1;
    }
    Some(Theirs { line, headers, lines, body: bytes.len() - parser.head_end() })
}

/// Where both understand a part of a message they understand the same.
#[test]
fn both_read_the_same() {
    let (mut both, mut parts) = (0, 0);
    let mut agree = |is_same: bool, what: &str, name: &str| {
        assert!(is_same, "{what} of {name}");
        parts += 1;
    };
    for torture in messages() {
        let name = torture.name;
        let bytes = Bytes::from(torture.bytes);
        let Ok(ours) = Message::parse(bytes.clone(), &Limits::default()) else { continue };
        let Some(theirs) = theirs(&bytes) else { continue };
        both += 1;
        match &theirs.line {
            MessageLine::Request(line) => {
                let method = line.method.to_string();
                agree(method.as_bytes() == ours.method().as_bytes(), "method", name);
            }
            MessageLine::Response(line) => {
                agree(line.code.into_u16() == ours.status(), "status", name);
            }
        }
        agree(theirs.lines == ours.headers().count(), "lines", name);
        agree(theirs.body == ours.body().len(), "body", name);
        // It takes the last of a repeated header, and no name with white space behind it.
        if ["multi01", "mcl01", "wsinv"].contains(&name) {
            continue;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if let Ok(id) = theirs.headers.get_named::<CallID>() {
            agree(id.0.as_bytes() == ours.call_id(), "Call-ID", name);
        }
        if let Ok(cseq) = theirs.headers.get_named::<CSeq>() {
            agree(cseq.cseq == ours.cseq().number, "CSeq", name);
            agree(cseq.method.to_string() == text(ours.cseq().method.as_bytes()), "CSeq", name);
        }
        if let Ok(vias) = theirs.headers.get_named::<Vec<Via>>() {
            agree(vias.len() == ours.vias().count(), "count of Via", name);
            for (theirs, ours) in vias.iter().zip(ours.vias()) {
                agree(theirs.transport.as_bytes() == ours.transport, "transport", name);
                agree(theirs.sent_by.host.to_string() == text(ours.host), "host", name);
                agree(theirs.sent_by.port == ours.port, "port", name);
                let branch = theirs.params.get_val("branch").map(ToString::to_string);
                // It resolves what looks like an escape.
                let is_escaped = ours.branch().is_some_and(|branch| branch.contains(&b'%'));
                agree(is_escaped || branch == ours.branch().map(text), "branch", name);
            }
        }
        for (header, ours) in [(TheirName::FROM, ours.from()), (TheirName::TO, ours.to())] {
            if let Ok(theirs) = theirs.headers.get::<FromTo>(header) {
                let tag = theirs.tag.map(|tag| tag.to_string());
                agree(tag == ours.tag().map(text), "tag", name);
            }
        }
        if let Ok(length) = theirs.headers.get_named::<ContentLength>() {
            let same = ours.content_length() == OurLength::Bytes(length.0 as u64);
            agree(same, "Content-Length", name);
        }
    }
    assert!(both > 30 && parts > 300, "{both} messages, {parts} parts");
}
