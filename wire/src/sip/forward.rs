//! What is done to a request that goes on (contract 1.3): own Via, received and rport, Path, edits,
//! Content-Length; everything else byte for byte.

mod marks;

use std::fmt::Write;

use smallvec::SmallVec;

use super::branch;
use super::breadth;
use super::draft::Draft;
use super::lumps::{Ends, Patch, content_length};
use super::message::Name;
use super::own::{DEFAULT_PORT, Own, Socket};

pub use marks::top_via;

use marks::{Marks, Scratch};

/// Writes the request as it leaves by this socket; `index` is the branch's (R1 to R7, R15 to R18).
pub fn request(draft: &Draft, own: &Own, sending: &Socket, index: u32, out: &mut Vec<u8>) {
    let Draft { message, lumps, .. } = draft;
    let via = message.via();
    let own_via = own_via(draft, sending, index);
    let marks = Marks::of(draft);
    let length = content_length(message, lumps, sending.transport);

    let mut patches = SmallVec::<[Patch<'_>; 8]>::new();
    patches.push(Patch { at: via.line.0..via.line.0, text: own_via.bytes() });
    patches.extend(marks.patches());
    if let Some(path) = &draft.path {
        let at = route_at(draft);
        for text in [b"Route: ", path.as_ref(), b"\r\n"] {
            patches.push(Patch { at: at..at, text });
        }
    }
    patches.extend(length.patches());

    let received = own.socket(draft.received.socket).unwrap_or(sending);
    let ends = Ends { received, sending };
    let uri = message.uri_at();
    // The one allocation, where the caller's room is too small.
    out.reserve(draft.uri().len() + uri.start + lumps.size(message, uri.end, ends, &patches));
    out.extend_from_slice(&message.bytes()[..uri.start]);
    out.extend_from_slice(draft.uri());
    lumps.apply(message, uri.end, ends, &patches, out);
}

/// The line of the own Via (1.3.2): the port is left out where it is 5060; `i` is the connection
/// that the request came by, so that the reply finds it (R139).
fn own_via(draft: &Draft, sending: &Socket, index: u32) -> Scratch {
    let mut line = Scratch::default();
    line.put(b"Via: SIP/2.0/");
    line.put(sending.transport.as_str().as_bytes());
    line.put(b" ");
    line.put(&sending.host);
    if sending.port != DEFAULT_PORT {
        let _ = write!(line, ":{}", sending.port);
    }
    line.put(b";branch=");
    line.put(&branch::of(draft, index));
    if draft.local_rport {
        line.put(b";rport");
    }
    if let Some(connection) = draft.received.connection {
        line.put(b";i=");
        line.put(&branch::reversed_hex(connection.0));
    }
    if let Some(mark) = draft.loop_mark {
        line.put(b";");
        line.put(breadth::LOOP_PARAM);
        line.put(b"=");
        line.put(&breadth::text(mark));
    }
    line.put(b"\r\n");
    line
}

/// Where a Path goes in (1.3.5): in front of the first Route, so that it is followed first; without
/// one behind the Via.
fn route_at(draft: &Draft) -> usize {
    let Draft { message, lumps, .. } = draft;
    let mut routes = message.all(Name::Route);
    let first = routes.find(|route| !lumps.is_deleted(route.line.clone()));
    first.map_or(message.via().line.1, |route| route.line.start)
}

#[cfg(test)]
mod tests;
