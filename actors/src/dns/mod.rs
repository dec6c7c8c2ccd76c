//! How host names become addresses (T10): within their TTL, without hurting lines of other names.

mod ask;
mod cache;
mod files;
mod message;
mod resolver;
mod table;

use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::LocalBoxFuture;
use lineway_wire::dial::DialError;
use smallvec::SmallVec;

pub use resolver::Resolver;
pub use table::StaticNames;

use crate::settings::DomainStrategy;

/// The addresses of one family of a name.
pub type Addresses = SmallVec<[IpAddr; 4]>;

/// Which families of a name are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// The family that is tried first.
    pub preferred: Family,
    /// The other one, if it may be used.
    pub other: Option<Family>,
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4, record type A.
    V4,
    /// IPv6, record type AAAA.
    V6,
}

impl Family {
    /// True for an address of this family.
    pub const fn has(self, ip: IpAddr) -> bool {
        matches!((self, ip), (Self::V4, IpAddr::V4(_)) | (Self::V6, IpAddr::V6(_)))
    }
}

impl Wanted {
    /// The wanted families, each with whether it is the preferred one.
    pub fn families(self) -> impl Iterator<Item = (bool, Family)> {
        [(true, Some(self.preferred)), (false, self.other)]
            .into_iter()
            .filter_map(|(preferred, family)| Some((preferred, family?)))
    }

    /// What `domain-strategy` asks for.
    pub const fn of(strategy: DomainStrategy) -> Self {
        let (preferred, other) = match strategy {
            DomainStrategy::PreferIpv4 => (Family::V4, Some(Family::V6)),
            DomainStrategy::PreferIpv6 => (Family::V6, Some(Family::V4)),
            DomainStrategy::OnlyIpv4 => (Family::V4, None),
            DomainStrategy::OnlyIpv6 => (Family::V6, None),
        };
        Self { preferred, other }
    }
}

/// Why a name has no addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// The name, or an address of this family, does not exist.
    #[error("the name does not exist or has no such address")]
    NotFound,
    /// No name server had an answer in time.
    #[error("no name server had an answer in time")]
    Failed,
    /// Too many questions are under way.
    #[error("too many names are being resolved")]
    TooMany,
}

impl From<DnsError> for DialError {
    fn from(error: DnsError) -> Self {
        match error {
            DnsError::NotFound => Self::NameNotFound,
            _ => Self::NameFailed,
        }
    }
}

/// The answer for one family of a name.
#[derive(Clone, Debug)]
pub struct Answer {
    /// True for the preferred family.
    pub preferred: bool,
    /// Its addresses.
    pub addresses: Result<Addresses, DnsError>,
}

type Pending = LocalBoxFuture<'static, Result<Addresses, DnsError>>;

/// Answers as they come: one for each wanted family. Dropping it ends the interest in them.
pub struct Lookup {
    families: SmallVec<[(bool, Source); 2]>,
}

enum Source {
    Known(Result<Addresses, DnsError>),
    Asked(Pending),
}

impl Lookup {
    /// A lookup without answers yet; [`Self::known`] and [`Self::asked`] add them.
    pub fn new() -> Self {
        Self { families: SmallVec::new() }
    }

    /// Adds an answer that is there.
    #[must_use]
    pub fn known(mut self, preferred: bool, answer: Result<Addresses, DnsError>) -> Self {
        self.families.push((preferred, Source::Known(answer)));
        self
    }

    /// Adds an answer that will come.
    #[must_use]
    pub fn asked(mut self, preferred: bool, answer: Pending) -> Self {
        self.families.push((preferred, Source::Asked(answer)));
        self
    }

    /// The next answer; `None` once all have come.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        let ready = self.families.iter_mut().enumerate().find_map(|(at, (_, source))| {
            let answer = match source {
                Source::Known(answer) => answer.clone(),
                Source::Asked(future) => match future.as_mut().poll(cx) {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => return None,
                },
            };
            Some((at, answer))
        });
        match ready {
            Some((at, addresses)) => {
                let (preferred, _) = self.families.swap_remove(at);
                Poll::Ready(Some(Answer { preferred, addresses }))
            }
            None if self.families.is_empty() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Default for Lookup {
    fn default() -> Self {
        Self::new()
    }
}

/// Where names are looked up: the name servers, or a table that plays them.
pub trait Names {
    /// Asks for the addresses of a name.
    fn lookup(&self, name: &Arc<str>, wanted: Wanted) -> Lookup;

    /// A connect to an address of this name failed: the next lookup does not trust what is kept.
    fn distrust(&self, name: &str);
}
