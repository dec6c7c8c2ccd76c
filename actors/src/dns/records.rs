//! What is asked for and what comes: addresses, and the service records of SIP.

use std::rc::Rc;
use std::time::Duration;

use lineway_wire::dial::{Families, Family, RESOLUTION_DELAY};
use lineway_wire::sip::locate::{Answer, Naptr, Srv};
use tokio::time::{Instant, timeout_at};

use super::{Addresses, DnsError, Lookup};

/// How long the family that comes first is waited for when only the other one's addresses are
/// there: to go where earlier copies of a request went is worth more than a moment.
const PREFERRED_DELAY: Duration = Duration::from_secs(1);

/// The sort of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Servers of a service (RFC 2782).
    Srv,
    /// Services of a domain (RFC 3403).
    Naptr,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::A, Self::Aaaa, Self::Srv, Self::Naptr];

    /// An answer of this kind without records.
    pub(super) fn nothing(self) -> Records {
        match self {
            Self::A | Self::Aaaa => Records::Addresses([].into()),
            Self::Srv => Records::Srv([].into()),
            Self::Naptr => Records::Naptr([].into()),
        }
    }
}

impl From<Family> for Kind {
    fn from(family: Family) -> Self {
        match family {
            Family::V4 => Self::A,
            Family::V6 => Self::Aaaa,
        }
    }
}

/// The records of an answer; none = the name exists without such a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Records {
    Addresses(Addresses),
    Srv(Rc<[Srv]>),
    Naptr(Rc<[Naptr]>),
}

impl Records {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Addresses(list) => list.is_empty(),
            Self::Srv(list) => list.is_empty(),
            Self::Naptr(list) => list.is_empty(),
        }
    }

    /// The addresses; of other records there are none.
    pub(super) fn addresses(self) -> Addresses {
        if let Self::Addresses(list) = self { list } else { [].into() }
    }
}

/// The answer to a search for servers. A name that does not exist has no such record.
pub(super) fn answer(result: Result<Records, DnsError>, kind: Kind) -> Answer {
    let records = match result {
        Ok(records) => records,
        Err(DnsError::NotFound) => kind.nothing(),
        Err(DnsError::Failed) => return Answer::Failed,
    };
    match records {
        Records::Addresses(list) => Answer::Addresses(list.to_vec()),
        Records::Srv(list) => Answer::Srv(list.to_vec()),
        Records::Naptr(list) => Answer::Naptr(list.to_vec()),
    }
}

/// The addresses of a lookup in one answer. Once there are some, a family whose server is slow is
/// not waited for much longer.
pub(super) async fn addresses(mut lookup: Lookup, families: Families) -> Answer {
    let (mut found, mut failed) = (Vec::new(), false);
    let mut until: Option<Instant> = None;
    loop {
        let next = match until {
            None => lookup.next().await,
            Some(until) => timeout_at(until, lookup.next()).await.unwrap_or(None),
        };
        let Some(answer) = next else { break };
        match answer.result {
            Ok(list) => found.extend_from_slice(&list),
            Err(error) => failed |= error == DnsError::Failed,
        }
        if !found.is_empty() {
            let preferred = answer.family == families.first;
            let delay = if preferred { RESOLUTION_DELAY } else { PREFERRED_DELAY };
            until = Some(Instant::now() + delay);
        }
    }
    if found.is_empty() && failed { Answer::Failed } else { Answer::Addresses(found) }
}
