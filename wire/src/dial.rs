//! The race of a connect: several addresses, the first that answers wins (RFC 8305, T10, T12).
//!
//! Nothing is connected or resolved here: names' answers and connects' results come in, the next
//! attempt or the one outcome goes out.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

/// The next attempt begins this long after the one before, if that neither failed nor answered
/// (RFC 8305 5).
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// How long the preferred family's answer is waited for when the other one's came first
/// (RFC 8305 3).
pub const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// Addresses that one race tries at most.
pub const MOST_ADDRESSES: usize = 16;

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4, record type A.
    V4,
    /// IPv6, record type AAAA.
    V6,
}

impl Family {
    /// The family of an address.
    pub const fn of(address: &IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

/// Which families of a name are used, and which comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Families {
    /// The family whose addresses come first.
    pub first: Family,
    /// Whether the other family is used too.
    pub both: bool,
}

impl Families {
    /// Whether addresses of `family` are used.
    pub fn contains(self, family: Family) -> bool {
        self.both || family == self.first
    }
}

/// Why no address answered; the first words are the more telling ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum DialError {
    /// An address refused.
    #[error("refused")]
    Refused,
    /// There is no way to an address.
    #[error("unreachable")]
    Unreachable,
    /// The time for the connect is over.
    #[error("timeout")]
    Timeout,
    /// A local limit or a missing right, and whatever else the system says.
    #[error("other")]
    Other,
    /// The name servers did not answer, or not rightly.
    #[error("name-failed")]
    NameFailed,
    /// The name does not exist, or has no address of a wanted family.
    #[error("name-not-found")]
    NameNotFound,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Begin a connect to this address; its result is told with the candidate's number.
    Start {
        /// The attempt's number, from 0.
        candidate: usize,
        /// Where to.
        address: SocketAddr,
    },
    /// Nothing before [`Dial::next_wake`] or the next result.
    Wait,
    /// No address will answer. Attempts that still run are to be dropped.
    Failed(DialError),
}

/// One of the places to connect to, with the answers of its name.
#[derive(Debug, Default)]
struct Target {
    /// The family that is tried first; of no meaning for a place that needs no name.
    first: Option<Family>,
    /// Addresses not tried yet: of the preferred family, of the other one.
    waiting: [VecDeque<SocketAddr>; 2],
    /// Answers that have not come yet: of the preferred family, of the other one.
    asked: [bool; 2],
    /// The other family's answer came first; its addresses wait until then.
    hold: Option<Instant>,
    /// The family whose turn it is.
    turn: usize,
}

/// The race to connect one line.
///
/// Targets are tried in the order in which they were entered: a later one only once the names of
/// those before have been answered. Within a target families alternate, the preferred one first.
///
/// ```text
///   resolving ---answer---> racing ---connected---> (the owner keeps that one)
///       |                     |
///       +---all failed, or the deadline---> Failed, once
/// ```
#[derive(Debug)]
pub struct Dial {
    deadline: Instant,
    targets: SmallVec<[Target; 1]>,
    started: usize,
    running: usize,
    next_attempt: Option<Instant>,
    error: Option<DialError>,
}

impl Dial {
    /// A race that must be decided by `deadline`.
    pub fn new(deadline: Instant) -> Self {
        Self {
            deadline,
            targets: SmallVec::new(),
            started: 0,
            running: 0,
            next_attempt: None,
            error: None,
        }
    }

    /// A place that needs no name.
    pub fn add_address(&mut self, address: SocketAddr) {
        let mut target = Target::default();
        target.waiting[0].push_back(address);
        self.targets.push(target);
    }

    /// A place whose name is being resolved. Gives the target's number for [`Self::answer`].
    pub fn add_name(&mut self, families: Families) -> usize {
        let asked = [true, families.both];
        self.targets.push(Target { first: Some(families.first), asked, ..Target::default() });
        self.targets.len() - 1
    }

    /// The answer for one family of a target's name.
    pub fn answer(
        &mut self,
        now: Instant,
        target: usize,
        family: Family,
        answer: Result<&[SocketAddr], DialError>,
    ) {
        let Some(target) = self.targets.get_mut(target) else {
            return;
        };
        let family = usize::from(target.first != Some(family));
        target.asked[family] = false;
        match answer {
            Ok(addresses) => {
                let room = MOST_ADDRESSES.saturating_sub(target.waiting[family].len());
                target.waiting[family].extend(addresses.iter().take(room));
                if family == 1 && target.asked[0] && !addresses.is_empty() {
                    target.hold = Some(now + RESOLUTION_DELAY);
                }
            }
            Err(error) => note(&mut self.error, error),
        }
        if !target.asked[0] {
            target.hold = None;
        }
    }

    /// An attempt failed.
    pub fn failed(&mut self, error: DialError) {
        self.running = self.running.saturating_sub(1);
        note(&mut self.error, error);
        // RFC 8305 5: the next attempt does not wait for the delay then.
        self.next_attempt = None;
    }

    /// What to do at this time. Call again until it is [`Step::Wait`] or [`Step::Failed`].
    pub fn step(&mut self, now: Instant) -> Step {
        if now >= self.deadline {
            return Step::Failed(DialError::Timeout);
        }
        if self.started < MOST_ADDRESSES
            && self.next_attempt.is_none_or(|at| now >= at)
            && let Some(address) = self.next_address(now)
        {
            let candidate = self.started;
            self.started += 1;
            self.running += 1;
            self.next_attempt = Some(now + ATTEMPT_DELAY);
            return Step::Start { candidate, address };
        }
        let spent = self.started >= MOST_ADDRESSES;
        if self.running == 0 && (spent || !self.has_more()) {
            return Step::Failed(self.error.unwrap_or(DialError::NameNotFound));
        }
        Step::Wait
    }

    /// True while more addresses wait or may still come.
    pub fn has_more(&self) -> bool {
        let more = |t: &Target| t.asked.contains(&true) || t.waiting.iter().any(|w| !w.is_empty());
        self.targets.iter().any(more)
    }

    /// When [`Self::step`] has something to do though nothing was told.
    pub fn next_wake(&self) -> Instant {
        let holds = self.targets.iter().filter_map(|target| target.hold);
        let waiting = self.targets.iter().flat_map(|t| &t.waiting).any(|list| !list.is_empty());
        let attempt = self.next_attempt.filter(|_| waiting && self.started < MOST_ADDRESSES);
        holds.chain(attempt).fold(self.deadline, Instant::min)
    }

    fn next_address(&mut self, now: Instant) -> Option<SocketAddr> {
        for target in &mut self.targets {
            if target.hold.is_some_and(|until| now < until) {
                return None;
            }
            target.hold = None;
            for family in [target.turn, 1 - target.turn] {
                if let Some(address) = target.waiting[family].pop_front() {
                    target.turn = 1 - family;
                    return Some(address);
                }
            }
            if target.asked.contains(&true) {
                return None;
            }
        }
        None
    }
}

#[cfg(test)]
impl Dial {
    /// True while this address waits for its turn.
    fn knows(&self, address: &SocketAddr) -> bool {
        self.targets.iter().flat_map(|t| &t.waiting).any(|list| list.contains(address))
    }
}

/// The most telling error stays.
fn note(kept: &mut Option<DialError>, error: DialError) {
    *kept = Some(kept.map_or(error, |kept| kept.min(error)));
}

#[cfg(test)]
mod tests;
