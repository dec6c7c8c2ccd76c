//! What keeps forks from growing without end (RFC 5393): the detection of loops, and Max-Breadth.

use std::io::Write;

use bytes::Bytes;
use md5::{Digest, Md5};

use super::draft::{Draft, Failure};
use super::message::{Header, Method, Name};
use super::own::{Own, Transport};

#[cfg(test)]
mod tests;

/// The parameter of the own Via that carries the mark of a request.
pub const LOOP_PARAM: &[u8] = b"loop";

/// A header of RFC 5393 5.
const MAX_BREADTH: &[u8] = b"Max-Breadth";

/// The request was here before, and nothing about it has changed.
const LOOPED: Failure = Failure { code: 482, reason: "Loop Detected" };

/// What may be spread is less than what it would be spread over.
pub const TOO_BROAD: Failure = Failure { code: 440, reason: "Max-Breadth Exceeded" };

/// Marks a request that just came in, so that what goes on carries the mark in the own Via, and says
/// whether it was here before (`loop-detection`): 482.
///
/// A request that comes back with something changed that routing stands on is a spiral, and passes
/// (RFC 5393 4.2.2). An ACK and a CANCEL are not refused: nothing answers the first, and the
/// other follows its INVITE.
pub fn detect(draft: &mut Draft, own: &Own) -> Option<Failure> {
    if !draft.message.is_request() {
        return None;
    }
    let mark = mark(draft);
    draft.loop_mark = Some(mark);
    let written = text(mark);
    let looped = draft.message.vias().any(|via| {
        let there = via.params.get(LOOP_PARAM).flatten();
        let transport = Transport::of(via.transport);
        there == Some(&written) && own.is_own(via.host, via.port, transport)
    });
    let asks = !matches!(draft.message.method(), Method::Ack | Method::Cancel);
    (looped && asks).then_some(LOOPED)
}

/// The mark as it stands in a Via.
pub(super) fn text(mark: u64) -> [u8; 16] {
    let mut text = [b'0'; 16];
    // Sixteen digits: it fits.
    let _ = write!(&mut text[..], "{mark:016x}");
    text
}

/// What a turn through the same place has in common with the one before: what tells requests apart,
/// and what the choice of the next hop stands on. Not the Via, which grows; of where it came from
/// only the address, as the port of a connection is another each time. A server that gives a
/// request back on purpose has an address of its own: that is a spiral.
fn mark(draft: &Draft) -> u64 {
    let message = &draft.message;
    let mut md5 = Md5::new();
    let mut put = |bytes: &[u8]| {
        // With its length, so that no two requests are one text.
        md5.update((bytes.len() as u64).to_be_bytes());
        md5.update(bytes);
    };
    put(draft.received_uri());
    put(message.from().tag().unwrap_or_default());
    put(message.to().tag().unwrap_or_default());
    put(message.call_id());
    put(&message.cseq().number.to_be_bytes());
    put(draft.received.source.ip().to_string().as_bytes());
    for name in [Name::Route, Name::ProxyRequire, Name::ProxyAuthorization] {
        for header in message.all(name) {
            put(header.value);
        }
        put(name.as_str().as_bytes());
    }
    let sum: [u8; 16] = md5.finalize().into();
    sum[..8].iter().fold(0, |mark, byte| mark << 8 | u64::from(*byte))
}

/// Over how many branches a request may be spread from here on (RFC 5393 5.3.3): what it says, and
/// not more than `most`; that where it says nothing that can be read.
pub fn allowed(draft: &Draft, most: u32) -> u32 {
    let said = header(draft).and_then(|header| {
        let text = draft.lumps.text(draft.message.bytes(), header.value_at);
        let digits = text.trim_ascii();
        let number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        // A number that is larger than any is one.
        number.then(|| std::str::from_utf8(digits).ok()?.parse().ok().or(Some(u32::MAX)))?
    });
    said.map_or(most, |said| said.min(most))
}

/// What each of so many branches that are open at once gets of that (RFC 5393 5.3.3.1); together
/// all of it. A fork that follows when others are over may take what those had.
///
/// # Errors
/// [`TOO_BROAD`]: it does not suffice for one each.
pub fn shares(
    allowed: u32,
    branches: u32,
) -> Result<impl ExactSizeIterator<Item = u32> + Clone, Failure> {
    if branches > allowed {
        return Err(TOO_BROAD);
    }
    let (each, left) = match branches {
        0 => (0, 0),
        _ => (allowed / branches, allowed % branches),
    };
    Ok((0..branches).map(move |branch| each + u32::from(branch < left)))
}

/// Writes what a branch got into its request.
pub fn write(draft: &mut Draft, share: u32) {
    let at = header(draft).map(|header| header.value_at);
    let replaced = at.is_some_and(|at| draft.lumps.replace(at, Bytes::from(share.to_string())));
    if !replaced {
        let first = draft.message.headers_at();
        draft.lumps.insert(first, Bytes::from(format!("Max-Breadth: {share}\r\n")));
    }
}

/// The first one that no edit has taken out.
fn header(draft: &Draft) -> Option<Header<'_>> {
    let there = |header: &Header<'_>| !draft.lumps.is_deleted(header.line.clone());
    draft.message.named(MAX_BREADTH).find(there)
}
