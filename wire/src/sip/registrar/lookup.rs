//! Where a lookup leads.

use bytes::Bytes;

use super::{Binding, answer};
use crate::sip::draft::Target;
use crate::sip::message::{Method, Uri};
use crate::sip::own::Own;

/// Why a lookup finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missed {
    /// There is no binding (R131).
    #[error("no binding")]
    Unknown,
    /// There is none that takes the method.
    #[error("no binding takes the method")]
    Method,
}

/// The targets of a request to this URI, the first for its Request-URI, the rest for branches
/// (R124, R129): from the highest q down, unspecified last, oldest first; at most `most`. A GRUU
/// leads to its instance alone (RFC 5627); of several ways to one instance only the one that was
/// refreshed last is taken (RFC 5626 5.3).
///
/// # Errors
/// [`Missed`].
pub fn lookup(
    bindings: &[Binding],
    uri: &Uri<'_>,
    method: Method<'_>,
    own: &Own,
    most: usize,
    now: u64,
) -> Result<Vec<Target>, Missed> {
    let wanted = uri.params.get(b"gr");
    let is_wanted = |binding: &&Binding| match wanted {
        None => true,
        // A temporary one: none was given out.
        Some(None) => false,
        Some(Some(gr)) => binding
            .instance
            .as_ref()
            .is_some_and(|instance| answer::bare(instance).eq_ignore_ascii_case(gr)),
    };
    let live = bindings.iter().filter(|binding| binding.is_live(now)).filter(is_wanted);
    let mut live = live.peekable();
    if live.peek().is_none() {
        return Err(Missed::Unknown);
    }
    let mut found: Vec<&Binding> = Vec::new();
    for binding in live.filter(|binding| binding.methods.is_none_or(|set| set.allow(method))) {
        let same_phone =
            |other: &&mut &Binding| other.instance.is_some() && other.instance == binding.instance;
        match found.iter_mut().find(same_phone) {
            Some(other) if other.changed <= binding.changed => *other = binding,
            Some(_) => {}
            None => found.push(binding),
        }
    }
    if found.is_empty() {
        return Err(Missed::Method);
    }
    found.sort_by_key(|binding| binding.rank());
    found.truncate(most);
    Ok(found.into_iter().map(|binding| target(binding, own)).collect())
}

/// Whether one is there.
pub fn is_registered(bindings: &[Binding], now: u64) -> bool {
    bindings.iter().any(|binding| binding.is_live(now))
}

fn target(binding: &Binding, own: &Own) -> Target {
    let is_its = |(transport, address)| {
        let mut sockets = own.sockets.iter();
        sockets.find(|socket| socket.transport == transport && socket.address == address)
    };
    let first_hop = binding.path.as_ref().and_then(first_hop);
    Target {
        uri: binding.uri.clone(),
        dst_uri: first_hop.or_else(|| binding.received.clone()),
        q: binding.q,
        flags: binding.flags,
        socket: binding.socket.and_then(is_its).map(|socket| socket.id),
        path: binding.path.clone(),
    }
}

/// The URI of a Path's first entry, which was written with brackets.
fn first_hop(path: &Bytes) -> Option<Bytes> {
    let end = memchr::memchr(b'>', path)?;
    Some(path.slice(1..end))
}
