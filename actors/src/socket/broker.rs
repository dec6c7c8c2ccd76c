//! The broker between a RouterSocket and the DealerSocket behind it (section 7).

use std::task::Waker;
use std::time::Instant;

use lineway_wire::zmp::broker::{Broker, BrokerSettings, Status};

use super::answering::{Answering, BATCH, Machine, STEPS, Watched};
use super::{Dealer, Router};

/// Starts a broker on this thread: requests and DATA of the clients of `router` go to the workers
/// of `dealer`, and what these answer goes back (B-1 to B-5).
///
/// It wants to be the only one that receives from the two and that takes their completions.
///
/// # Panics
/// Outside of a tokio `LocalSet`.
pub fn start(router: &Router, dealer: &Dealer, settings: BrokerSettings) -> Answering {
    Answering::start(Task {
        broker: Broker::new(settings),
        router: Watched::new(router),
        dealer: Watched::new(dealer),
        waiting: 0,
        closed: false,
    })
}

/// A broker and its sockets.
#[derive(Debug)]
struct Task {
    broker: Broker,
    router: Watched,
    dealer: Watched,
    /// What the process knows of answers that wait (B-7).
    waiting: i64,
    /// One of the sockets is closed: nothing is left to do.
    closed: bool,
}

impl Machine for Task {
    fn turn(&mut self, now: Instant, waker: &Waker) -> bool {
        let (mut at_router, mut at_dealer) = (true, true);
        let mut steps = STEPS;
        while (at_router || at_dealer) && steps > 0 {
            steps -= 1;
            let (mut more_of_clients, mut more_of_workers) = (false, false);
            if at_router {
                let broker = &mut self.broker;
                match self.router.step(waker, |core| broker.at_router(now, core, BATCH)) {
                    Some(more) => more_of_clients = more,
                    None => self.closed = true,
                }
            }
            if at_dealer || self.broker.wants_dealer() {
                let broker = &mut self.broker;
                match self.dealer.step(waker, |core| broker.at_dealer(now, core, BATCH)) {
                    Some(more) => more_of_workers = more,
                    None => self.closed = true,
                }
            }
            if self.closed {
                self.shut(now, waker);
                return false;
            }
            at_router = more_of_clients || self.broker.wants_router();
            at_dealer = more_of_workers || self.broker.wants_dealer();
        }
        self.count();
        at_router || at_dealer
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.broker.next_deadline()
    }

    fn stop(&mut self, deadline: Instant) {
        self.broker.stop(deadline);
    }

    fn is_over(&self) -> bool {
        self.closed || self.broker.is_over()
    }

    fn status(&self) -> Status {
        self.broker.status()
    }
}

impl Task {
    /// A socket was closed under the broker. Where it is the DealerSocket, clients still learn that
    /// their requests have ended.
    fn shut(&mut self, now: Instant, waker: &Waker) {
        self.broker.stop(now);
        self.broker.give_up();
        let broker = &mut self.broker;
        while self.router.step(waker, |core| broker.at_router(now, core, BATCH)) == Some(true) {}
        self.count();
    }

    fn count(&mut self) {
        let waiting = self.broker.status().waiting_charge.cast_signed();
        let before = std::mem::replace(&mut self.waiting, waiting);
        if waiting != before {
            self.router.moved(waiting - before);
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.router.moved(-self.waiting);
    }
}

#[cfg(test)]
pub(super) mod tests;
