//! Names to addresses (T10), and to the servers of a SIP domain (RFC 3263): a stub resolver for
//! each worker.
//!
//! [`Names`] is what a line asks, [`Resolver`] asks real name servers, [`StaticNames`] answers from
//! a map. A [`Lookup`] gives the answers of both families as they arrive, so that a
//! [`Dial`](lineway_wire::dial::Dial) can race them.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, ready};
use lineway_wire::dial::{DialError, Families, Family};
use lineway_wire::sip::locate::{self, Question};

use crate::settings::DomainStrategy;

mod cache;
mod exchange;
mod fixed;
mod lookup;
mod message;
mod records;
mod resolver;
mod system;
#[cfg(test)]
mod tests;

pub use fixed::StaticNames;
pub use lookup::{Answer, Lookup};
pub use resolver::Resolver;
pub use system::SystemFiles;

/// Addresses of one family; empty = the name exists without such an address.
pub type Addresses = Rc<[std::net::IpAddr]>;

/// What a line asks for the addresses of a name.
pub trait Names {
    /// Starts a lookup, or joins the one that runs for the same name. Dropping the last lookup of
    /// a name ends its questions. `name` is in lower case and without a final dot.
    fn lookup(&self, name: &Arc<str>, families: Families) -> Lookup;

    /// No connection to any address of this name: the next lookup asks again, whatever is left of
    /// the answer's lifetime.
    fn distrust(&self, name: &str);

    /// The SRV records of a name such as `_sip._udp.example.com`. Whoever knows addresses only has
    /// none. Dropping the last future that asks the same ends the question.
    fn servers(&self, _name: &Arc<str>) -> LocalBoxFuture<'static, locate::Answer> {
        ready(locate::Answer::Srv(vec![])).boxed_local()
    }

    /// The NAPTR records of a domain, likewise.
    fn services(&self, _name: &Arc<str>) -> LocalBoxFuture<'static, locate::Answer> {
        ready(locate::Answer::Naptr(vec![])).boxed_local()
    }

    /// Answers one question of a search for the servers of a SIP domain (RFC 3263).
    fn records(&self, question: &Question) -> LocalBoxFuture<'static, locate::Answer> {
        let (Question::Address(name, _) | Question::Srv(name) | Question::Naptr(name)) = question;
        let Ok(name) = std::str::from_utf8(name).map(Arc::from) else {
            return ready(locate::Answer::Failed).boxed_local();
        };
        match question {
            Question::Address(_, families) => {
                records::addresses(self.lookup(&name, *families), *families).boxed_local()
            }
            Question::Srv(_) => self.servers(&name),
            Question::Naptr(_) => self.services(&name),
        }
    }
}

/// Why a name has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DnsError {
    /// The name does not exist, in any family.
    #[error("the name does not exist")]
    NotFound,
    /// No server gave a usable answer in time.
    #[error("no name server gave a usable answer")]
    Failed,
}

impl From<DnsError> for DialError {
    fn from(error: DnsError) -> Self {
        match error {
            DnsError::NotFound => Self::NameNotFound,
            DnsError::Failed => Self::NameFailed,
        }
    }
}

impl From<DomainStrategy> for Families {
    fn from(strategy: DomainStrategy) -> Self {
        let (first, both) = match strategy {
            DomainStrategy::PreferIpv4 => (Family::V4, true),
            DomainStrategy::PreferIpv6 => (Family::V6, true),
            DomainStrategy::OnlyIpv4 => (Family::V4, false),
            DomainStrategy::OnlyIpv6 => (Family::V6, false),
        };
        Self { first, both }
    }
}
