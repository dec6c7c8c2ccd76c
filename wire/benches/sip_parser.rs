//! What reading one INVITE of 875 bytes costs, beside two other parsers:
//! `cargo bench -p lineway-wire --bench sip_parser`; see `docs/performance.md`.

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use ezk_sip_types::header::typed::{CSeq, CallID, FromTo, Via};
use ezk_sip_types::msg::{Line, MessageLine, PullParser};
use ezk_sip_types::parse::Parse;
use ezk_sip_types::{Headers, Name};
use lineway_wire::sip::message::{Limits, Message};
use rsip::headers::ToTypedHeader;
use rsip::message::HeadersExt;

/// Messages of one sample: few, so that most samples are over before the scheduler takes the core.
const MESSAGES: u32 = 50;
/// Samples of each row, taken in turn; the least disturbed one counts.
const ROUNDS: usize = 401;
/// The time that a row may take, as a part of that of another parser.
const AT_MOST: f64 = 0.2;

const INVITE: &str = "INVITE sip:bob@biloxi.example.com SIP/2.0\r\n\
    Via: SIP/2.0/UDP proxy.example.com;branch=z9hG4bK4b43c2ff8.1\r\n\
    Via: SIP/2.0/UDP 192.0.2.101:5060;branch=z9hG4bK74bf9;rport=5060\r\n\
    Max-Forwards: 69\r\n\
    Record-Route: <sip:proxy.example.com;lr>\r\n\
    From: \"Alice\" <sip:alice@atlanta.example.com>;tag=9fxced76sl\r\n\
    To: \"Bob\" <sip:bob@biloxi.example.com>\r\n\
    Call-ID: 3848276298220188511@atlanta.example.com\r\n\
    CSeq: 31862 INVITE\r\n\
    Contact: <sip:alice@192.0.2.101:5060;transport=udp>\r\n\
    Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, UPDATE\r\n\
    Supported: replaces, timer\r\n\
    User-Agent: Example Softphone/4.2.0 (Linux\r\n\
    Content-Type: application/sdp\r\n\
    Content-Length: 243\r\n\
    \r\n\
    v=0\r\n\
    o=alice 2890844526 2890844526 IN IP4 client.atlanta.example.com\r\n\
    s=-\r\n\
    c=IN IP4 192.0.2.101\r\n\
    t=0 0\r\n\
    m=audio 49172 RTP/AVP 0 8 101\r\n\
    a=rtpmap:0 PCMU/8000\r\n\
    a=rtpmap:8 PCMA/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\n\
    a=fmtp:101 0-15\r\n\
    a=sendrecv\r\n";

/// Ours: the lines, and the top Via, From, To, Call-ID and `CSeq`, as every message needs them.
fn ours(bytes: &Bytes) {
    black_box(Message::parse(bytes.clone(), &Limits::default()).expect("a message"));
}

/// rsip: the lines.
fn rsip_lines(bytes: &Bytes) {
    black_box(rsip::SipMessage::try_from(&bytes[..]).expect("a message"));
}

/// rsip: the same as ours.
fn rsip_needed(bytes: &Bytes) {
    let message = rsip::SipMessage::try_from(&bytes[..]).expect("a message");
    black_box(message.via_header().and_then(ToTypedHeader::typed).expect("a Via"));
    black_box(message.from_header().and_then(ToTypedHeader::typed).expect("a From"));
    black_box(message.to_header().and_then(ToTypedHeader::typed).expect("a To"));
    black_box(message.call_id_header().expect("a Call-ID"));
    black_box(message.cseq_header().and_then(ToTypedHeader::typed).expect("a CSeq"));
}

fn ezk(bytes: &Bytes) -> Headers {
    let mut parser = PullParser::new(bytes, 0);
    let text = |line| std::str::from_utf8(line).expect("UTF-8");
    let first = text(parser.next().expect("a line").expect("all of it"));
    black_box(MessageLine::parse(bytes)(first).expect("a start line"));
    let mut headers = Headers::with_capacity(16);
    for line in parser {
        let (_, line) = Line::parse(bytes, text(line.expect("all of it"))).expect("a header");
        headers.insert(line.name, line.value);
    }
    headers
}

/// ezk-sip-types: the lines.
fn ezk_lines(bytes: &Bytes) {
    black_box(ezk(bytes));
}

/// ezk-sip-types: the same as ours.
fn ezk_needed(bytes: &Bytes) {
    let headers = ezk(bytes);
    black_box(headers.get_named::<Via>().expect("a Via"));
    black_box(headers.get::<FromTo>(Name::FROM).expect("a From"));
    black_box(headers.get::<FromTo>(Name::TO).expect("a To"));
    black_box(headers.get_named::<CallID>().expect("a Call-ID"));
    black_box(headers.get_named::<CSeq>().expect("a CSeq"));
}

type Read = fn(&Bytes);

struct Row {
    what: &'static str,
    read: Read,
    nanoseconds: f64,
}

impl Row {
    fn sample(&mut self, bytes: &Bytes) {
        let begun = Instant::now();
        for _ in 0..MESSAGES {
            (self.read)(black_box(bytes));
        }
        let each = begun.elapsed().as_secs_f64() * 1e9 / f64::from(MESSAGES);
        self.nanoseconds = self.nanoseconds.min(each);
    }
}

fn main() {
    assert_eq!(INVITE.len(), 875);
    let bytes = Bytes::from(INVITE.as_bytes().to_vec());
    let rows: [(&str, Read); 5] = [
        ("Lineway: lines, Via, From, To, Call-ID, CSeq", ours),
        ("rsip: lines", rsip_lines),
        ("rsip: lines, Via, From, To, Call-ID, CSeq", rsip_needed),
        ("ezk-sip-types: lines", ezk_lines),
        ("ezk-sip-types: lines, Via, From, To, Call-ID, CSeq", ezk_needed),
    ];
    let mut rows = rows.map(|(what, read)| Row { what, read, nanoseconds: f64::INFINITY });
    for _ in 0..ROUNDS {
        for row in &mut rows {
            row.sample(&bytes);
        }
    }
    let [ours, others @ ..] = &rows;
    println!("| | ns | Lineway by it | at most | reached |");
    println!("|---|---:|---:|---:|---|");
    println!("| {} | {:.0} | | | |", ours.what, ours.nanoseconds);
    for row in others {
        let ratio = ours.nanoseconds / row.nanoseconds;
        let reached = if ratio <= AT_MOST { "yes" } else { "NO" };
        println!("| {} | {:.0} | {ratio:.3} | {AT_MOST} | {reached} |", row.what, row.nanoseconds);
    }
}
