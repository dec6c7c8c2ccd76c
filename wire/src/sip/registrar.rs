//! The registrar (contract 5; RFC 3261 10.3): what a REGISTER says, what it changes of the bindings
//! of its address of record, what it is answered, and where a lookup leads.
//!
//! Pure: bindings are data, and time is an argument, in whole seconds since the Unix epoch. All that
//! is kept is a copy of its own with a limit of its own, so that no binding holds on to a message.

mod answer;
mod lookup;
mod methods;
mod read;
mod update;

use std::net::SocketAddr;

use bytes::Bytes;

use super::own::Transport;

pub use answer::{error_line, lines};
pub use lookup::{Missed, is_registered, lookup};
pub use methods::Methods;
pub use read::{Ask, Contact, Register, aor};
pub use update::{Origin, Saved, Update};

/// The longest address of record.
pub const LONGEST_AOR: usize = 255;
/// The longest Contact URI, and the longest received address.
pub const LONGEST_URI: usize = 512;
/// The longest Call-ID, `+sip.instance`, and what is kept of a User-Agent.
pub const LONGEST_WORD: usize = 255;
/// The longest Path.
pub const LONGEST_PATH: usize = 2048;
/// What all bindings of one address take in the Contact of a 200, about: it has to fit into a
/// datagram with everything else, whatever `max-contacts` says.
pub const MOST_LISTED: usize = 32 * 1024;
/// What a binding takes there beside its texts, at least.
const LISTED_EACH: usize = 64;
/// For how long the same CSeq is a copy of the same REGISTER (R136).
const COPY_TIME: u64 = 20;

/// One binding of an address of record. Those of one address stand in the order in which they were
/// made; a refresh keeps the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The Contact URI as written.
    pub uri: Bytes,
    /// q in thousandths; `None` = unspecified.
    pub q: Option<u16>,
    /// When it is over.
    pub expires: u64,
    /// When it was made or refreshed last.
    pub changed: u64,
    /// The Call-ID of the REGISTER that did so.
    pub call_id: Bytes,
    /// Its CSeq number.
    pub cseq: u32,
    /// Where that really came from, as a URI (`fix_nated_register`).
    pub received: Option<Bytes>,
    /// The Path as the value of a Route (RFC 3327).
    pub path: Option<Bytes>,
    /// The own socket that it came in by.
    pub socket: Option<(Transport, SocketAddr)>,
    /// The User-Agent, or the beginning of a long one.
    pub user_agent: Option<Bytes>,
    /// What the phone takes; `None` = it did not say.
    pub methods: Option<Methods>,
    /// `+sip.instance`, without its quotes (RFC 5626).
    pub instance: Option<Bytes>,
    /// `reg-id`, for one of several ways to an instance.
    pub reg_id: Option<u32>,
    /// The number of the binding, different from all others of its store.
    pub ruid: u64,
    /// The branch flags that it was saved with.
    pub flags: u32,
}

impl Binding {
    /// Whether it is still there.
    pub const fn is_live(&self, now: u64) -> bool {
        self.expires > now
    }

    /// What it takes of [`MOST_LISTED`].
    fn listed(&self) -> usize {
        let texts = [Some(&self.uri), self.received.as_ref(), self.instance.as_ref()];
        texts.into_iter().flatten().map(Bytes::len).sum::<usize>() + LISTED_EACH
    }

    /// By what a list and a lookup are sorted: high q first, unspecified last; what is equal keeps
    /// its order.
    fn rank(&self) -> std::cmp::Reverse<Option<u16>> {
        std::cmp::Reverse(self.q)
    }
}

/// What a router has set for its registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `min-expires`: shorter ones are made that long.
    pub min_expires: u32,
    /// `max-expires`: longer ones are made that short; 0 = no limit.
    pub max_expires: u32,
    /// `max-contacts` of an address; 0 = as many as [`MOST_LISTED`] allows.
    pub max_contacts: u32,
}

/// Why a REGISTER changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} {reason}: {error}")]
pub struct Refusal {
    /// The status.
    pub code: u16,
    /// The reason phrase.
    pub reason: &'static str,
    /// What `P-Registrar-Error` says (R133).
    pub error: &'static str,
}

impl Refusal {
    /// `max-contacts`, or more than a 200 could list.
    pub const TOO_MANY: Self = Self::full("Too many registered contacts");
    /// `max-bindings`: the store is full.
    pub const FULL: Self = Self::full("Too many bindings");
    /// A CSeq that is behind, or the same one late (R132).
    pub const CSEQ: Self = Self::bad("Invalid CSeq number");
    /// `*` without `Expires: 0` (R126).
    pub const STAR_EXPIRES: Self = Self::bad("* used in contact and expires is not zero");
    /// `*` beside another Contact.
    pub const STAR_BESIDE: Self = Self::bad("* used in contact and more than 1 contact");
    /// A q that is none.
    pub const BAD_Q: Self = Self::bad("Invalid q param in contact");
    /// A Contact that can not be read.
    pub const BAD_CONTACT: Self = Self::bad("Contact parse error");
    /// A Contact or received address above its limit.
    pub const LONG_CONTACT: Self = Self::bad("Contact/received too long");
    /// A Path that can not be read, or above its limit.
    pub const BAD_PATH: Self = Self::bad("Path parse error");
    /// A Call-ID above its limit.
    pub const LONG_CALL_ID: Self = Self::bad("Callid too long");
    /// An address of record above its limit.
    pub const LONG_AOR: Self = Self::bad("Address Of Record too long");
    /// No address of record: no URI, or one without a user.
    pub const NO_AOR: Self = Self::bad("No user in the Address Of Record");

    const fn bad(error: &'static str) -> Self {
        Self { code: 400, reason: "Bad Request", error }
    }
    const fn full(error: &'static str) -> Self {
        Self { code: 503, reason: "Service Unavailable", error }
    }
}

#[cfg(test)]
mod tests;
