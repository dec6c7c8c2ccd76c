//! What answers a RouterSocket of the service: workers behind a DealerSocket, or an [`Echo`]
//! (section 7).
//!
//! ```text
//!   clients ==> ROUTER --[ at_router ]--> arrivals --[ at_dealer ]--> DEALER ==> workers
//!                  ^                         |  no worker: Held, PAUSED   |
//!                  |                         +--<-- WRITABLE --<----------+
//!                  +---- answers, Outbox --------<---------- completions -+
//! ```
//!
//! A [`Broker`] decides; it never holds both sockets at once. Its owner calls [`Broker::at_router`]
//! and [`Broker::at_dealer`] in turns, each in one step of that socket, as long as one of them has
//! something to do.
//!
//! What a client sent keeps its charge on that client's link until a worker takes it, so that
//! everything that is held is held inside `receive-hwm-bytes` of each link (B-1).

use std::time::{Duration, Instant};

use bytes::Bytes;
use slab::Slab;

use super::core::{
    CompletionId, Core, FlowState, HeldCharge, Outcome, Received, Refused, ReplyId, Submit,
};
use super::outcome::{Errno, RequestResult, SubmitError, SubmitResult};
use super::record::{Record, RoutingId};

mod counters;
mod echo;
mod held;
mod outbox;

pub use counters::{BrokerSettings, Counters, DropReason, Status};
pub use echo::Echo;

use held::{Entry, Held, Taken};
use outbox::{Answer, Limits, Outbox, Via};

/// DATA that waits is looked at no more often than this.
const LEAST_LOOK: Duration = Duration::from_secs(1);

/// Joins the clients of a ROUTER with the workers of a DEALER (B-1 to B-5).
#[derive(Debug)]
pub struct Broker {
    settings: BrokerSettings,
    /// The DealerSocket's `request-timeout`, as it was in the last step there.
    timeout: Duration,
    /// What came from clients and has not been offered to workers.
    arrivals: Vec<(Instant, Received, HeldCharge)>,
    held: Held,
    /// No worker takes this sort, by [`held::Sort`].
    blocked: [Option<Blocked>; 2],
    in_flight: Slab<Flight>,
    /// What is for clients and has not been offered to their links.
    answers: Vec<(RoutingId, Answer)>,
    /// Charges of what workers took.
    returns: Vec<HeldCharge>,
    outbox: Outbox,
    flow: Flow,
    /// Clients that may have their turn again are only looked for at the DealerSocket.
    unstalled: bool,
    stopping: Option<Instant>,
    counters: Counters,
}

/// A request that a worker has; its key is the context of the submit.
#[derive(Debug)]
struct Flight {
    client: RoutingId,
    reply: ReplyId,
}

/// What a refusal waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    /// The WRITABLE of this token.
    Token(CompletionId),
    /// Any completion: it frees a reservation (D-W9).
    Reservation,
}

/// The one receive-flow state of the RouterSocket (B-1).
#[derive(Debug, Default)]
struct Flow {
    paused: bool,
    /// What the socket was told.
    told: bool,
    /// The most that were held since the pause began.
    most: usize,
}

impl Flow {
    /// `held` wait for workers, `free` tells that none is known to refuse.
    fn update(&mut self, held: usize, free: bool) -> bool {
        if self.paused {
            self.most = self.most.max(held);
            self.paused = !(free && held * 2 < self.most);
            false
        } else {
            self.paused = held > 0 && !free;
            self.most = held;
            self.paused
        }
    }
}

impl Broker {
    /// A broker between two sockets that it has not seen.
    pub fn new(settings: BrokerSettings) -> Self {
        let limits = Limits { each: settings.waiting_each, all: settings.waiting_all };
        Self {
            settings,
            timeout: Duration::ZERO,
            arrivals: Vec::new(),
            held: Held::default(),
            blocked: [None; 2],
            in_flight: Slab::new(),
            answers: Vec::new(),
            returns: Vec::new(),
            outbox: Outbox::new(limits),
            flow: Flow::default(),
            unstalled: false,
            stopping: None,
            counters: Counters::default(),
        }
    }

    /// One step at the RouterSocket: gives clients what is for them, takes up to `budget` of what
    /// they sent. True when that was not all.
    pub fn at_router(&mut self, now: Instant, router: &mut Core, budget: usize) -> bool {
        for held in self.returns.drain(..) {
            router.release(held);
        }
        let again = now + self.timeout.max(LEAST_LOOK);
        let gone = |entry: &Entry| !router.has_connection(entry.charge.connection);
        // A client that comes back again and again would hold as much each time.
        for entry in self.held.look(now, again, gone) {
            self.counters.dropped(DropReason::NoRoute);
            router.release(entry.charge);
        }
        let mut via = Via { now, core: router, counters: &mut self.counters };
        let (held, unstalled) = (&mut self.held, &mut self.unstalled);
        let more = self.outbox.rooms(&mut via, budget, |client| {
            held.stall(client, false);
            *unstalled = true;
        });
        for (client, answer) in self.answers.drain(..) {
            if self.outbox.give(&mut via, &client, answer, None) {
                held.stall(&client, true);
            }
        }
        self.outbox.look(&mut via, self.timeout, |client| {
            held.stall(client, false);
            *unstalled = true;
        });
        if self.stopping.is_some_and(|deadline| deadline <= now) {
            self.outbox.abandon_all(&mut via);
        }
        if self.flow.paused != self.flow.told {
            self.flow.told = self.flow.paused;
            let state = if self.flow.paused { FlowState::Paused } else { FlowState::Running };
            router.set_receive_flow_state(now, state);
        }
        if self.stopping.is_some() {
            return more;
        }
        while self.arrivals.len() < budget {
            let Some((received, held)) = router.recv_held() else { return more };
            self.arrivals.push((now, received, held));
        }
        true
    }

    /// One step at the DealerSocket: takes up to `budget` completions and records of workers,
    /// offers workers what came from clients and what is held. True when that was not all.
    pub fn at_dealer(&mut self, now: Instant, dealer: &mut Core, budget: usize) -> bool {
        self.timeout = dealer.options().request_timeout;
        // DATA first: the replies behind it are completions once it is taken (D-R6).
        let mut more = self.take_data(dealer, budget);
        more |= self.take_completions(dealer, budget);
        self.offer_arrivals(now, dealer);
        // What stands behind a request that expires may have a worker.
        more |= self.expire(now, budget);
        more |= self.offer_held(now, dealer, budget);
        if self.stopping.is_some_and(|deadline| deadline <= now) {
            self.give_up();
        }
        self.unstalled = false;
        let free = self.blocked == [None; 2];
        let paused = self.flow.update(self.held.ready(), free);
        self.counters.pauses += u64::from(paused);
        // What was taken last is told the clients with RUNNING once, at the end.
        self.flow.paused |= self.stopping.is_some();
        more
    }

    /// There is something for [`Self::at_router`].
    pub fn wants_router(&self) -> bool {
        !self.answers.is_empty() || !self.returns.is_empty() || self.flow.paused != self.flow.told
    }

    /// There is something for [`Self::at_dealer`].
    pub fn wants_dealer(&self) -> bool {
        !self.arrivals.is_empty() || self.unstalled
    }

    /// When both steps are due, whatever happens until then.
    pub fn next_deadline(&self) -> Option<Instant> {
        let stop = self.stopping.filter(|_| !self.is_over());
        let deadlines = [self.held.next_due(), self.outbox.next_look(), stop];
        deadlines.into_iter().flatten().min()
    }

    /// Takes nothing more from clients. What was taken is answered until `deadline`; then it ends
    /// with ERROR REPLY ESHUTDOWN.
    pub fn stop(&mut self, deadline: Instant) {
        self.stopping = Some(self.stopping.map_or(deadline, |before| before.min(deadline)));
        self.flow.paused = true;
    }

    /// It was stopped, and owes nothing any more.
    pub fn is_over(&self) -> bool {
        self.stopping.is_some()
            && self.in_flight.is_empty()
            && self.held.requests() + self.held.data() + self.outbox.len() == 0
            && self.arrivals.is_empty()
            && !self.wants_router()
    }

    /// Counters, and how it stands.
    pub fn status(&self) -> Status {
        Status {
            counters: self.counters,
            held_requests: self.held.requests(),
            held_data: self.held.data(),
            in_flight: self.in_flight.len(),
            waiting_answers: self.outbox.len(),
            waiting_charge: self.outbox.charge(),
            paused: self.flow.paused,
            draining: self.stopping.is_some(),
        }
    }

    fn take_completions(&mut self, dealer: &mut Core, budget: usize) -> bool {
        for _ in 0..budget {
            let Some(completion) = dealer.next_completion() else { return false };
            for blocked in &mut self.blocked {
                if *blocked == Some(Blocked::Token(completion.id))
                    || *blocked == Some(Blocked::Reservation)
                {
                    *blocked = None;
                }
            }
            if let Outcome::Request { result, errno, parts } = completion.outcome {
                self.completed(completion.context, result, errno, parts);
            }
        }
        true
    }

    /// A completion becomes the reply by its token; a failure an ERROR REPLY (B-5).
    fn completed(
        &mut self,
        context: u64,
        result: RequestResult,
        errno: Errno,
        parts: Option<Record>,
    ) {
        let Some(Flight { client, reply }) = self.in_flight.try_remove(context as usize) else {
            return;
        };
        let answer = if result == RequestResult::Ok {
            Answer::Reply(reply, parts.unwrap_or_else(|| Record::new(Bytes::new())))
        } else {
            let errno = if errno.0 == 0 { errno_of(result) } else { errno };
            Answer::Error(reply, errno, parts)
        };
        self.answers.push((client, answer));
    }

    /// DATA of workers is taken at once, whatever becomes of it: the replies behind it wait for
    /// that (B-3, D-R6).
    fn take_data(&mut self, dealer: &mut Core, budget: usize) -> bool {
        for _ in 0..budget {
            let Some(Received { record, .. }) = dealer.recv() else { return false };
            if !self.settings.data_envelope {
                self.counters.dropped(DropReason::NoRoute);
                continue;
            }
            let mut parts = record.into_parts().into_iter();
            let client = parts.next().and_then(RoutingId::new);
            match (client, Record::from_parts(parts)) {
                (Some(client), Some(record)) => self.answers.push((client, Answer::Data(record))),
                _ => self.counters.dropped(DropReason::Malformed),
            }
        }
        true
    }

    fn offer_arrivals(&mut self, now: Instant, dealer: &mut Core) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        for (at, received, charge) in arrivals.drain(..) {
            let Received { from, mut record, reply } = received;
            let Some(client) = from else {
                // Only a DEALER gives no sender.
                self.returns.push(charge);
                continue;
            };
            self.counters.requests += u64::from(reply.is_some());
            if reply.is_none() && self.settings.data_envelope {
                let id = std::iter::once(client.to_bytes());
                record = Record::from_parts(id.chain(record.into_parts()))
                    .unwrap_or_else(|| Record::new(Bytes::new()));
            }
            let entry = Entry { record, charge, reply, due: at + self.timeout };
            let stalled = self.outbox.waits(&client);
            if stalled || self.held.ready() > 0 || self.blocked[entry.sort() as usize].is_some() {
                self.held.push(&client, stalled, entry);
            } else if let Some(entry) = self.submit(now, dealer, &client, entry) {
                self.held.push(&client, false, entry);
            }
        }
        self.arrivals = arrivals;
    }

    fn offer_held(&mut self, now: Instant, dealer: &mut Core, budget: usize) -> bool {
        for _ in 0..budget {
            let blocked = self.blocked;
            let next = self.held.next(|sort| blocked[sort as usize].is_none());
            let Some(Taken { client, entry, place }) = next else { return false };
            if let Some(entry) = self.submit(now, dealer, &client, entry) {
                self.held.put_back(Taken { client, entry, place });
            }
        }
        true
    }

    /// Offers one entry to the workers (B-2). It comes back when none takes it at the moment.
    fn submit(
        &mut self,
        now: Instant,
        dealer: &mut Core,
        client: &RoutingId,
        entry: Entry,
    ) -> Option<Entry> {
        let sort = entry.sort();
        let Entry { record, charge, reply, due } = entry;
        let (submit, context) = match reply {
            Some(reply) if due <= now => {
                self.fail(client, reply, charge, Errno::ETIMEDOUT);
                return None;
            }
            Some(_) => (
                Submit::Request { timeout: Some(due - now), claim: false },
                self.in_flight.vacant_key(),
            ),
            None => (Submit::Send, 0),
        };
        let Err(refused) = dealer.try_submit(now, None, record, submit, context as u64) else {
            self.returns.push(charge);
            match reply {
                Some(reply) => {
                    self.in_flight.insert(Flight { client: client.clone(), reply });
                }
                None => self.counters.data_to_workers += 1,
            }
            return None;
        };
        let Refused { record, error, token } = *refused;
        match (error.result, reply) {
            (SubmitResult::Backpressured | SubmitResult::OutOfMemory, _) => {
                let blocked = token.map_or(Blocked::Reservation, Blocked::Token);
                self.blocked[sort as usize] = Some(blocked);
                return Some(Entry { record, charge, reply, due });
            }
            (_, Some(reply)) => {
                self.fail(client, reply, charge, errno_of_submit(error));
            }
            (SubmitResult::InvalidArgument, None) => self.drop_data(DropReason::TooLarge, charge),
            (_, None) => self.drop_data(DropReason::NoRoute, charge),
        }
        None
    }

    /// What waited for a worker until its time was over gets ETIMEDOUT (B-4).
    fn expire(&mut self, now: Instant, budget: usize) -> bool {
        for _ in 0..budget {
            let Some((client, entry)) = self.held.expired(now) else { return false };
            self.refuse(client, entry, Errno::ETIMEDOUT);
        }
        true
    }

    /// Ends everything that was taken with ERROR REPLY ESHUTDOWN at the next step at the
    /// RouterSocket: the time to stop is over, or there is no DealerSocket any more.
    pub fn give_up(&mut self) {
        for (_, Received { from, reply, .. }, charge) in std::mem::take(&mut self.arrivals) {
            if let (Some(client), Some(reply)) = (from, reply) {
                self.fail(&client, reply, charge, Errno::ESHUTDOWN);
            } else {
                self.drop_data(DropReason::NoRoute, charge);
            }
        }
        while let Some((client, entry)) = self.held.pop() {
            self.refuse(client, entry, Errno::ESHUTDOWN);
        }
        let flights = self.in_flight.drain();
        self.answers.extend(flights.map(|Flight { client, reply }| {
            (client, Answer::Error(reply, Errno::ESHUTDOWN, None))
        }));
    }

    fn refuse(&mut self, client: RoutingId, entry: Entry, errno: Errno) {
        if let Some(reply) = entry.reply {
            self.fail(&client, reply, entry.charge, errno);
        } else {
            self.drop_data(DropReason::NoRoute, entry.charge);
        }
    }

    fn drop_data(&mut self, reason: DropReason, charge: HeldCharge) {
        self.counters.dropped(reason);
        self.returns.push(charge);
    }

    fn fail(&mut self, client: &RoutingId, reply: ReplyId, charge: HeldCharge, errno: Errno) {
        self.returns.push(charge);
        self.answers.push((client.clone(), Answer::Error(reply, errno, None)));
    }
}

/// The errno of an error reply for a request that ended so (B-5).
pub const fn errno_of(result: RequestResult) -> Errno {
    match result {
        RequestResult::TimedOut => Errno::ETIMEDOUT,
        RequestResult::NotFound => Errno::ENOENT,
        RequestResult::Terminated => Errno::ESHUTDOWN,
        RequestResult::ProtocolError => Errno::EPROTO,
        RequestResult::Ok | RequestResult::InternalError => Errno::EIO,
        RequestResult::Rejected => Errno::ECONNREFUSED,
        RequestResult::Conflict => Errno::EEXIST,
        RequestResult::Busy => Errno::EBUSY,
        RequestResult::NotConnected => Errno::EHOSTUNREACH,
        RequestResult::InvalidArgument => Errno::EINVAL,
        RequestResult::InvalidState => Errno::EALREADY,
        RequestResult::NotSupported => Errno::ENOTSUP,
        RequestResult::Backpressured => Errno::EAGAIN,
    }
}

/// The errno of an error reply for a request that no worker will ever take.
const fn errno_of_submit(error: SubmitError) -> Errno {
    errno_of(match error.result {
        SubmitResult::Backpressured => RequestResult::Backpressured,
        SubmitResult::NotConnected => RequestResult::NotConnected,
        SubmitResult::NotFound => RequestResult::NotFound,
        SubmitResult::Terminated => RequestResult::Terminated,
        SubmitResult::InvalidHandle | SubmitResult::InvalidArgument => {
            RequestResult::InvalidArgument
        }
        SubmitResult::NotSupported => RequestResult::NotSupported,
        SubmitResult::InvalidState => RequestResult::InvalidState,
        SubmitResult::NotAdmitted => RequestResult::Rejected,
        SubmitResult::ThreadViolation
        | SubmitResult::OutOfMemory
        | SubmitResult::SeqExhausted
        | SubmitResult::InternalError => RequestResult::InternalError,
    })
}

#[cfg(test)]
mod kit;
#[cfg(test)]
mod tests;
