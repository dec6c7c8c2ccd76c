use super::*;
use crate::sip::kit::{self, Text};
use crate::sip::lumps::Ends;

mod edits;
mod whole;

/// The request of the case S-15.
fn options() -> Text {
    Text::of(
        "OPTIONS sip:bob@127.0.0.1:15071 SIP/2.0
Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKl1
Max-Forwards: 70
From: <sip:alice@127.0.0.1>;tag=a1
To: <sip:bob@127.0.0.1>
Call-ID: l1@127.0.0.1
CSeq: 1 OPTIONS
User-Agent: PBX
Date: Mon, 25 Nov 2013 17:47:25 GMT
Contact: <sip:alice@10.0.0.9:5060>
Content-Length: 0",
    )
}

/// A request with a body.
fn message() -> Text {
    Text::of(
        "MESSAGE sip:bob@127.0.0.1:15071 SIP/2.0
Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKl2
Max-Forwards: 70
From: <sip:alice@127.0.0.1>;tag=a1
To: <sip:bob@127.0.0.1>
Call-ID: l2@127.0.0.1
CSeq: 1 MESSAGE
User-Agent: PBX
X-A: one
X-A: two alice
X-A: three
Subject: hello
 alice folded
m: <sip:alice@10.0.0.9:5060>
Content-Type: text/plain
Content-Length: 11",
    )
    .body(b"hello alice")
}

fn expression(text: &str) -> Expression {
    Expression::parse(text.as_bytes(), &mut Patterns::new()).expect("an expression")
}

fn pattern(text: &str) -> std::sync::Arc<Regex> {
    Patterns::new().get(text.as_bytes(), Flags::ANY_CASE).expect("a pattern")
}

/// What leaves: edits applied, Content-Length as this transport wants it, start line as it came.
pub(super) fn out_by(draft: &Draft, transport: Transport) -> String {
    let own = kit::own();
    let ends = Ends { received: &own.sockets[0], sending: &own.sockets[0] };
    let length = content_length(&draft.message, &draft.lumps, transport);
    let patches: Vec<_> = length.patches().collect();
    let mut out = Vec::new();
    draft.lumps.apply(&draft.message, 0, ends, &patches, &mut out);
    String::from_utf8(out).expect("text")
}

fn out(draft: &Draft) -> String {
    out_by(draft, Transport::Udp)
}

/// The lines that differ: `-` what is gone, `+` what came.
fn changes(draft: &Draft) -> Vec<String> {
    changes_by(draft, Transport::Udp)
}

fn changes_by(draft: &Draft, transport: Transport) -> Vec<String> {
    let before = String::from_utf8(draft.message.bytes().to_vec()).expect("text");
    let after = out_by(draft, transport);
    let (before, after): (Vec<_>, Vec<_>) =
        (before.split("\r\n").collect(), after.split("\r\n").collect());
    let gone = before.iter().filter(|line| !after.contains(line)).map(|line| format!("-{line}"));
    let come = after.iter().filter(|line| !before.contains(line)).map(|line| format!("+{line}"));
    gone.chain(come).collect()
}
