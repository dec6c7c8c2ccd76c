//! Messages that a transaction makes by itself: the ACK of a failure, CANCEL, and replies.

use bytes::Bytes;

use crate::sip::draft::Draft;
use crate::sip::message::{Message, Name};
use crate::sip::own::Own;
use crate::sip::sl::{self, TAG_LEN, put};

#[cfg(test)]
mod tests;

/// What the fixed part of a tag stands on beside the own address.
const TAG_WORDS: &[u8] = b"Lineway transaction";

/// The reason phrase of the 100 that an INVITE gets at once (R31).
pub const TRYING: &str = "trying -- your call is important to us";

/// The ACK of a final of 300 and above (R43, R44, R120): built from the INVITE as it was sent, with
/// the To of the reply.
pub fn ack(sent: &Message, reply: &Message) -> Vec<u8> {
    hop_by_hop(sent, b"ACK", &reply.bytes()[reply.to().line], &[])
}

/// The CANCEL of a branch (R54, R59, R65, R120): built from the INVITE as it was sent, with these
/// whole header lines of Reason.
pub fn cancel(sent: &Message, reasons: &[Bytes]) -> Vec<u8> {
    hop_by_hop(sent, b"CANCEL", &sent.bytes()[sent.to().line], reasons)
}

/// What of an INVITE that was sent is needed for its ACK and its CANCEL: both come out the same from
/// this as from the whole.
pub fn core_of(sent: &Message) -> Vec<u8> {
    hop_by_hop(sent, b"INVITE", &sent.bytes()[sent.to().line], &[])
}

/// A request that ends at the next hop (RFC 3261 9.1, 17.1.1.3): of what was sent the request line,
/// the own Via, Max-Forwards, From, Call-ID, the number of `CSeq` and Route, in their order.
fn hop_by_hop(sent: &Message, method: &[u8], to: &[u8], lines: &[Bytes]) -> Vec<u8> {
    let bytes = sent.bytes();
    // Behind the method.
    let rest = sent.uri_at().start.saturating_sub(1);
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(method);
    put(&bytes[rest..sent.headers_at()], &mut out);
    let mut seen = [false; 6];
    for header in sent.headers() {
        let once = match header.name {
            Name::Via => Some(0),
            Name::From => Some(1),
            Name::To => Some(2),
            Name::CallId => Some(3),
            Name::CSeq => Some(4),
            Name::MaxForwards => Some(5),
            Name::Route => None,
            _ => continue,
        };
        if once.is_some_and(|place: usize| std::mem::replace(&mut seen[place], true)) {
            continue;
        }
        match header.name {
            Name::Via => put(&bytes[header.line.start..sent.via().at.1], &mut out),
            Name::To => put(to, &mut out),
            Name::CSeq => {
                out.extend_from_slice(b"CSeq: ");
                out.extend_from_slice(sent.cseq().digits);
                out.push(b' ');
                put(method, &mut out);
            }
            _ => put(&bytes[header.line], &mut out),
        }
    }
    for line in lines {
        put(line, &mut out);
    }
    out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    out
}

/// The To tag of replies that a transaction makes (R109): one for each transaction, and the same
/// for whoever makes it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub [u8; TAG_LEN]);

impl Tag {
    /// The tag of the transaction that this request began.
    pub fn new(own: &Own, request: &Message) -> Self {
        Self(sl::tag(&sl::fixed(TAG_WORDS, own), b'-', request))
    }
}

/// Writes a reply that is made here with the transaction's own tag (R38, R77, R79, R108): like a
/// stateless one, with these whole header lines behind (challenges, what the script appended). One
/// below 180 has no tag, so neither has the 100 (R30). Where it goes is [`sl::Back::of`].
pub fn reply_headers(
    draft: &Draft,
    code: u16,
    reason: &[u8],
    tag: &Tag,
    lines: &[Bytes],
    out: &mut Vec<u8>,
) {
    sl::write(draft, code, reason, || tag.0, lines, out);
}
