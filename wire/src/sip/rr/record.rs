//! Record-Route: this proxy stays on the way of the dialog (16.6 step 4).

use bytes::{BufMut, Bytes, BytesMut};

use super::super::draft::Draft;
use super::super::lumps::{Insert, LumpId, Marker};

/// `record_route()`: 1, or -1 when it was done already, and for a reply. One line with the address
/// of the receiving socket (R112, R114); two where the request leaves by another one, the sending
/// one on top, each with `r2=on` (R143). `append_fromtag` adds `;ftag=`.
pub fn record_route(draft: &mut Draft, append_fromtag: bool) -> i64 {
    if draft.record_routed || !draft.message.is_request() {
        return -1;
    }
    draft.record_routed = true;
    let lump = draft.lumps.anchor(draft.message.headers_at());
    draft.rr_lines = Some((lump, append_fromtag));
    put_lines(draft, lump, append_fromtag);
    1
}

/// `record_route_preset(first, second)`: lines with these addresses, parameters included, in this
/// order; the second may be empty.
pub fn record_route_preset(
    draft: &mut Draft,
    first: &[u8],
    second: &[u8],
    append_fromtag: bool,
) -> i64 {
    let is_bad = |address: &[u8]| address.iter().any(|byte| !is_in_uri(*byte));
    if draft.record_routed
        || !draft.message.is_request()
        || first.is_empty()
        || is_bad(first)
        || is_bad(second)
    {
        return -1;
    }
    draft.record_routed = true;
    let mut lines = BytesMut::new();
    for address in [first, second].into_iter().filter(|address| !address.is_empty()) {
        lines.put_slice(HEAD);
        lines.put_slice(address);
        put_params(draft, append_fromtag, &mut lines);
        lines.put_slice(b";lr>\r\n");
    }
    draft.lumps.insert(draft.message.headers_at(), lines.freeze());
    1
}

/// `add_rr_param(text)` such as `;nat=yes`, before or after `record_route()`: 1, or -1 where it can
/// not be in a URI, or is too late: behind `record_route_preset()` or `msg_apply_changes()`.
pub fn add_rr_param(draft: &mut Draft, text: &[u8]) -> i64 {
    let fits = draft.rr_params.len() + text.len() <= MOST_PARAMS;
    let is_late = draft.record_routed && draft.rr_lines.is_none();
    if is_late || !fits || !text.starts_with(b";") || text.iter().any(|byte| !is_in_uri(*byte)) {
        return -1;
    }
    draft.rr_params.extend_from_slice(text);
    if let Some((lump, append_fromtag)) = draft.rr_lines {
        draft.lumps.clear(lump);
        put_lines(draft, lump, append_fromtag);
    }
    1
}

const HEAD: &[u8] = b"Record-Route: <sip:";

/// Bytes of all parameters together.
const MOST_PARAMS: usize = 1024;

/// What would end the URI or the line can not be in it.
const fn is_in_uri(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>' | b'"' | b',')
}

/// Which lines it takes is known when the sending socket is.
fn put_lines(draft: &mut Draft, lump: LumpId, append_fromtag: bool) {
    let mut tail = BytesMut::from(&b";lr"[..]);
    put_params(draft, append_fromtag, &mut tail);
    tail.put_slice(b">\r\n");
    let tail = Insert::Bytes(tail.freeze());
    let head = Insert::Bytes(Bytes::from_static(HEAD));
    let both = Insert::Bytes(Bytes::from_static(b";r2=on"));
    let (received, sending) =
        (Insert::Marker(Marker::ReceivedAll), Insert::Marker(Marker::SendingAll));
    let one = [Insert::IfSocketsSame, head.clone(), received.clone(), tail.clone()];
    let inner = [Insert::IfSocketsDiffer, head.clone(), received, both.clone(), tail.clone()];
    let outer = [Insert::IfSocketsDiffer, head, sending, both, tail];
    draft.lumps.before(lump, one);
    draft.lumps.before(lump, inner);
    draft.lumps.before(lump, outer);
}

fn put_params(draft: &Draft, append_fromtag: bool, out: &mut BytesMut) {
    let from = draft.message.from();
    if let Some(tag) = from.tag().filter(|tag| append_fromtag && !tag.is_empty())
        && tag.iter().all(|byte| is_in_uri(*byte) && *byte != b';')
    {
        out.put_slice(b";ftag=");
        out.put_slice(tag);
    }
    out.put_slice(&draft.rr_params);
}
