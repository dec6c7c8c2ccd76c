//! An endpoint that a socket connects to, again and again (4.3).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;
use lineway_wire::dial::DialError;
use lineway_wire::zmp::Lane;
use lineway_wire::zmp::core::{ConnectionId, EndpointId};
use lineway_wire::zmp::endpoint::Endpoint;

use crate::socket::transport::{Arrived, dial};
use crate::socket::{SocketEnv, SocketOptions};

/// One endpoint that the socket was told to connect to.
///
/// ```text
///   Waits --its time--> Dials --up--> Link --one of two ends--> Ends
///     ^                   |            |                         |
///     |                 failed     the only one ends         the other does
///     |                   v            v                         v
///     +------ again ---- Down <--------+-------------------------+
/// ```
pub(super) struct Remote {
    /// Its number in the socket.
    pub(super) id: EndpointId,
    /// Its name in the socket.
    pub(super) name: Arc<str>,
    /// As it was asked for.
    given: String,
    endpoint: Endpoint,
    stage: Stage,
    /// Dials and links that came to nothing, since the last link that was ready.
    failures: u32,
    /// Waits so far.
    waits: u64,
}

enum Stage {
    Waits(Instant),
    Dials(Dialing),
    Link { first: ConnectionId, second: Second },
    Ends(ConnectionId),
    Down,
}

/// The Completion lane of a link between two ROUTERs (1.4).
enum Second {
    None,
    Dials(Dialing),
    Up(ConnectionId),
}

struct Dialing {
    dial: LocalBoxFuture<'static, Result<Arrived, DialError>>,
    delayed: bool,
}

/// What became of an endpoint.
pub(super) enum Step {
    /// Nothing for now.
    Waits,
    /// A dial is under way and takes its time.
    Delayed,
    /// A connection is up, for this lane; it is to be told to [`Remote::up`].
    Arrived(Lane, Arrived),
    /// A dial failed. The other connection of its link is to end.
    Failed {
        /// Why.
        error: DialError,
        /// The other one.
        other: Option<ConnectionId>,
    },
}

impl Remote {
    pub(super) const fn new(
        id: EndpointId,
        name: Arc<str>,
        given: String,
        endpoint: Endpoint,
        now: Instant,
    ) -> Self {
        let stage = Stage::Waits(now);
        Self { id, name, given, endpoint, stage, failures: 0, waits: 0 }
    }

    /// True for the name that it was given, and for the one that it has.
    pub(super) fn is_named(&self, text: &str) -> bool {
        self.given == text || &*self.name == text
    }

    /// When [`Self::poll`] has something to do though nothing woke it.
    pub(super) const fn next_wake(&self) -> Option<Instant> {
        match self.stage {
            Stage::Waits(until) => Some(until),
            _ => None,
        }
    }

    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        options: &Rc<SocketOptions>,
        env: &SocketEnv,
    ) -> Step {
        if matches!(self.stage, Stage::Waits(until) if until <= now) {
            self.stage = Stage::Dials(self.dial(options, env));
        }
        let (dialing, lane, other) = match &mut self.stage {
            Stage::Dials(dialing) => (dialing, Lane::Application, None),
            Stage::Link { first, second: Second::Dials(dialing) } => {
                (dialing, Lane::Completion, Some(*first))
            }
            _ => return Step::Waits,
        };
        match dialing.dial.as_mut().poll(cx) {
            Poll::Pending if std::mem::replace(&mut dialing.delayed, true) => Step::Waits,
            Poll::Pending => Step::Delayed,
            Poll::Ready(Ok(arrived)) => Step::Arrived(lane, arrived),
            Poll::Ready(Err(error)) => {
                self.stage = other.map_or(Stage::Down, Stage::Ends);
                Step::Failed { error, other }
            }
        }
    }

    fn dial(&self, options: &Rc<SocketOptions>, env: &SocketEnv) -> Dialing {
        let dial = dial(self.endpoint.clone(), Rc::clone(options), env.clone());
        Dialing { dial: Box::pin(dial), delayed: false }
    }

    /// The connection of this lane is up.
    pub(super) fn up(&mut self, lane: Lane, connection: ConnectionId) {
        match (&mut self.stage, lane) {
            (Stage::Link { second, .. }, Lane::Completion) => *second = Second::Up(connection),
            (stage, _) => *stage = Stage::Link { first: connection, second: Second::None },
        }
    }

    /// The peer of its first connection is known, and whether there are two lanes to it. The other
    /// one is dialled at once.
    pub(super) fn knows_lanes(
        &mut self,
        connection: ConnectionId,
        two: bool,
        options: &Rc<SocketOptions>,
        env: &SocketEnv,
    ) {
        let waits = matches!(
            self.stage,
            Stage::Link { first, second: Second::None } if first == connection
        );
        if two && waits {
            let second = Second::Dials(self.dial(options, env));
            self.stage = Stage::Link { first: connection, second };
        }
    }

    /// A connection of it is ready.
    pub(super) const fn ready(&mut self) {
        self.failures = 0;
    }

    /// A connection of it has ended; gives the other one of its link, which is to end as well.
    pub(super) fn ended(&mut self, connection: ConnectionId) -> Option<ConnectionId> {
        match self.stage {
            Stage::Link { first, second: Second::Up(second) } => {
                let other = if connection == first { second } else { first };
                self.stage = Stage::Ends(other);
                Some(other)
            }
            Stage::Link { first: only, .. } | Stage::Ends(only) if only == connection => {
                self.stage = Stage::Down;
                None
            }
            _ => None,
        }
    }

    /// Lets it be dialled again after a wait, if nothing of it is left; gives the wait.
    pub(super) fn again(&mut self, now: Instant, options: &SocketOptions) -> Option<Duration> {
        if !matches!(self.stage, Stage::Down) {
            return None;
        }
        let wait = self.wait(options);
        self.waits += 1;
        self.failures = self.failures.saturating_add(1);
        self.stage = Stage::Waits(now + wait);
        Some(wait)
    }

    /// The base and a random part, or the base doubled with each failure up to the most (4.3).
    fn wait(&self, options: &SocketOptions) -> Duration {
        let base = options.reconnect_interval;
        if let Some(most) = options.reconnect_interval_max {
            let doubled = base.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
            return doubled.min(most.max(base));
        }
        // Sockets that lost one peer at the same time come back at different ones.
        let mut dice = DefaultHasher::new();
        (options.core.routing_id.as_bytes(), &self.name, self.waits).hash(&mut dice);
        let millis = u64::try_from(base.as_millis()).unwrap_or(u64::MAX).max(1);
        base + Duration::from_millis(dice.finish() % millis)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::{Duration, Instant};

    use lineway_wire::zmp::core::EndpointId;
    use lineway_wire::zmp::{RoutingId, SocketKind};

    use super::{Remote, Stage};
    use crate::socket::SocketOptions;

    fn waits(most: Option<u64>, times: usize) -> Vec<u128> {
        let id = RoutingId::new("D1").unwrap();
        let mut options = SocketOptions::new(SocketKind::Dealer, id);
        options.reconnect_interval_max = most.map(Duration::from_millis);
        let (name, now) = ("tcp://127.0.0.1:1", Instant::now());
        let endpoint = name.parse().unwrap();
        let mut remote = Remote::new(EndpointId(1), name.into(), name.into(), endpoint, now);
        let options = Rc::new(options);
        (0..times)
            .map(|_| {
                remote.stage = Stage::Down;
                remote.again(now, &options).unwrap().as_millis()
            })
            .collect()
    }

    #[test]
    fn reconnect_4_3_without_a_maximum_each_wait_is_the_base_and_a_random_part_below_it() {
        let waits = waits(None, 200);
        assert!(waits.iter().all(|wait| (100..200).contains(wait)), "{waits:?}");
        let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
        assert!(*least < 110 && *most > 190, "they spread: {waits:?}");
    }

    #[test]
    fn reconnect_4_3_with_a_maximum_the_wait_doubles_up_to_it_without_a_random_part() {
        assert_eq!(waits(Some(1000), 6), [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(waits(Some(1000), 60)[59], 1000);
        assert_eq!(waits(Some(50), 2), [100, 100], "never below the base");
    }
}
