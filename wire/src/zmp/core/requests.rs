//! Requests under way, and how they and the wait tokens end.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::Instant;

use super::counted::Counted;
use super::links::LinkKey;
use super::{Completion, CompletionId, Core, HeldCharge, Outcome};
use crate::wheel::{Key, Wheel};
use crate::zmp::outcome::{Errno, RequestResult, SubmitError, SubmitResult};
use crate::zmp::record::{Kind, Record, RoutingId, Sequence};

/// What is known of a request that waits for its reply.
#[derive(Debug)]
pub(super) struct Request {
    id: CompletionId,
    context: u64,
    peer: Option<RoutingId>,
    claim: bool,
    timer: Option<Key>,
}

/// How a request ended.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) result: RequestResult,
    pub(super) errno: Errno,
    pub(super) parts: Option<Record>,
    /// What the reply is charged until its completion is taken.
    pub(super) held: Option<HeldCharge>,
}

impl Ending {
    /// Without an answer of the peer.
    pub(super) const fn of(result: RequestResult, errno: Errno) -> Self {
        Self { result, errno, parts: None, held: None }
    }
}

/// A completion and what it keeps occupied.
#[derive(Debug)]
struct Queued {
    completion: Completion,
    held: Option<HeldCharge>,
}

/// A completion that its submitter takes itself.
#[derive(Debug)]
enum Claim {
    Pending,
    Done(Queued),
}

/// Requests, completions, and the reservations of both and of the wait tokens (D-W9).
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// The last sequence given (1.6); not the id that the submitter sees.
    sequence: u64,
    /// The last id given (D-W8).
    pub(super) id: u64,
    /// Tokens and requests whose record was not taken.
    pub(super) reserved: usize,
    /// Set with the first request: it needs to know when time begins.
    timers: Option<Wheel<(LinkKey, u64)>>,
    /// What [`Core::next_deadline`] said last.
    armed: Option<Instant>,
    fired: Vec<(LinkKey, u64)>,
    queue: VecDeque<Queued>,
    /// WRITABLE and REMOVED records in the queue.
    writables: usize,
    claims: Counted<Claim>,
}

impl Requests {
    /// The next id; a full counter is the end of the socket's numbers (D-W8).
    pub(super) fn next_id(&mut self) -> Result<CompletionId, SubmitError> {
        let next = self.id.checked_add(1).and_then(NonZeroU64::new);
        let next = next.ok_or(SubmitError::new(SubmitResult::SeqExhausted, Errno::EOVERFLOW))?;
        self.id = next.get();
        Ok(CompletionId(next))
    }

    /// There are numbers for one more request.
    pub(super) fn check_numbers(&self) -> Result<(), SubmitError> {
        if self.sequence == u64::MAX || self.id == u64::MAX {
            return Err(SubmitError::new(SubmitResult::SeqExhausted, Errno::EOVERFLOW));
        }
        Ok(())
    }

    pub(super) fn has_completion(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Charge of the replies whose completion was not taken.
    #[cfg(test)]
    pub(super) fn held(&self) -> crate::zmp::record::Charge {
        self.done().filter_map(|queued| queued.held.as_ref()).map(|held| held.charge).sum()
    }

    /// Completions that were not taken.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.done().count()
    }

    #[cfg(test)]
    fn done(&self) -> impl Iterator<Item = &Queued> {
        let claimed = self.claims.values().filter_map(|claim| match claim {
            Claim::Pending => None,
            Claim::Done(queued) => Some(queued),
        });
        self.queue.iter().chain(claimed)
    }

    /// A wait token's record waits to be taken (D-P3).
    pub(super) fn has_writable(&self) -> bool {
        self.writables > 0
    }
}

impl Core {
    /// Makes a request of a record that goes to this link: what its first frame says, and its id.
    /// The reservation was checked.
    pub(super) fn open_request(
        &mut self,
        link: LinkKey,
        deadline: (Instant, Option<Instant>),
        peer: Option<&RoutingId>,
        context: u64,
        claim: bool,
    ) -> Result<(Kind, CompletionId), SubmitError> {
        let requests = &mut self.requests;
        let exhausted = SubmitError::new(SubmitResult::SeqExhausted, Errno::EOVERFLOW);
        let sequence = requests.sequence.checked_add(1).and_then(Sequence::new).ok_or(exhausted)?;
        let id = requests.next_id()?;
        requests.sequence = sequence.get();
        requests.reserved += 1;
        if claim {
            requests.claims.insert(id.0.get(), Claim::Pending);
        }
        let (now, deadline) = deadline;
        let timer = deadline.map(|at| {
            let timers = requests.timers.get_or_insert_with(|| Wheel::new(now));
            let key = timers.insert(at, (link, sequence.get()));
            let next = timers.next_wake();
            if requests.armed.is_none_or(|armed| next.is_some_and(|next| next < armed)) {
                requests.armed = next;
                self.wakes.timer();
            }
            key
        });
        let request = Request { id, context, peer: peer.cloned(), claim, timer };
        if let Some(link) = self.links.get_mut(link) {
            link.requests.insert(sequence.get(), request);
        }
        Ok((Kind::Request(sequence), id))
    }

    /// A REPLY or ERROR REPLY whose turn it is. Nobody waits for one that comes late: it is
    /// dropped (1.6).
    pub(super) fn resolve(
        &mut self,
        link: LinkKey,
        sequence: Sequence,
        ending: impl FnOnce(HeldCharge) -> Ending,
        held: HeldCharge,
    ) {
        let request =
            self.links.get_mut(link).and_then(|link| link.requests.remove(&sequence.get()));
        if let Some(request) = request {
            self.complete(request, ending(held));
        } else {
            self.counters.replies_late += 1;
            self.release(held);
        }
    }

    /// Ends a request that was taken out of its link.
    pub(super) fn complete(&mut self, request: Request, ending: Ending) {
        let Request { id, context, peer, claim, timer } = request;
        let Ending { result, errno, parts, held } = ending;
        if let (Some(timer), Some(timers)) = (timer, &mut self.requests.timers) {
            timers.cancel(timer);
        }
        self.counters.completions[result] += 1;
        let outcome = Outcome::Request { result, errno, parts };
        self.append(Completion { id, context, peer, outcome }, claim, held);
    }

    /// Adds a completion to the queue, or gives it to its submitter.
    pub(super) fn append(&mut self, completion: Completion, claim: bool, held: Option<HeldCharge>) {
        let queued = Queued { completion, held };
        if !claim {
            let is_token = !matches!(queued.completion.outcome, Outcome::Request { .. });
            self.requests.writables += usize::from(is_token);
            self.requests.queue.push_back(queued);
            self.wakes.completions();
            return;
        }
        let id = queued.completion.id;
        match self.requests.claims.get_mut(&id.0.get()) {
            Some(claim) => {
                *claim = Claim::Done(queued);
                self.wakes.completion(id);
            }
            // Its submitter went away.
            None => drop(self.pull(queued)),
        }
    }

    /// A completion is taken: its reservation and its charge are free.
    fn pull(&mut self, queued: Queued) -> Completion {
        self.requests.reserved -= 1;
        if let Some(held) = queued.held {
            self.release(held);
        }
        queued.completion
    }

    /// Notes that a token's completion will be claimed.
    pub(super) fn expect_claim(&mut self, id: CompletionId) {
        self.requests.claims.insert(id.0.get(), Claim::Pending);
    }

    /// The next completion of the queue.
    pub fn next_completion(&mut self) -> Option<Completion> {
        let queued = self.requests.queue.pop_front()?;
        if !matches!(queued.completion.outcome, Outcome::Request { .. }) {
            self.requests.writables -= 1;
        }
        Some(self.pull(queued))
    }

    /// The completion of a request that was submitted with `claim`, or of a claimed token.
    pub fn claimed(&mut self, id: CompletionId) -> Option<Completion> {
        let key = id.0.get();
        if let Claim::Pending = self.requests.claims.get(&key)? {
            return None;
        }
        match self.requests.claims.remove(&key)? {
            Claim::Done(queued) => Some(self.pull(queued)),
            Claim::Pending => None,
        }
    }

    /// Takes a record that waits in the queue out of it; what a token's claimer missed.
    pub(super) fn claim_queued(&mut self, id: CompletionId) -> bool {
        let queue = &mut self.requests.queue;
        let Some(place) = queue.iter().position(|queued| queued.completion.id == id) else {
            return false;
        };
        if let Some(queued) = queue.remove(place) {
            if !matches!(queued.completion.outcome, Outcome::Request { .. }) {
                self.requests.writables -= 1;
            }
            self.requests.claims.insert(id.0.get(), Claim::Done(queued));
            self.wakes.completion(id);
        }
        true
    }

    /// Nobody takes the completion of this claimed request, or of this token, any more. A request
    /// goes on until it ends; a token ends.
    pub fn disclaim(&mut self, id: CompletionId) {
        if let Some(Claim::Done(queued)) = self.requests.claims.remove(&id.0.get()) {
            self.pull(queued);
        }
        self.drop_token(id);
    }

    /// The next time at which [`Self::expire`] has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.requests.timers.as_ref().and_then(Wheel::next_wake)
    }

    /// Ends what is over: requests (D-R4).
    pub fn expire(&mut self, now: Instant) {
        let Some(timers) = &mut self.requests.timers else { return };
        let mut fired = std::mem::take(&mut self.requests.fired);
        timers.expire(now, &mut fired);
        self.requests.armed = timers.next_wake();
        for (link, sequence) in fired.drain(..) {
            let request = self.links.get_mut(link).and_then(|link| link.requests.remove(&sequence));
            if let Some(request) = request {
                self.complete(request, Ending::of(RequestResult::TimedOut, Errno::ETIMEDOUT));
            }
        }
        self.requests.fired = fired;
    }

    /// Ends all requests of a link, in the order in which they were sent.
    pub(super) fn end_requests(&mut self, link: LinkKey, result: RequestResult, errno: Errno) {
        let Some(link) = self.links.get_mut(link) else { return };
        let mut requests: Vec<_> = std::mem::take(&mut link.requests).into_iter().collect();
        requests.sort_unstable_by_key(|(sequence, _)| *sequence);
        for (_, request) in requests {
            self.complete(request, Ending::of(result, errno));
        }
    }

    /// The socket closes: nobody is told of what was asked (2.5).
    pub(super) fn drop_requests(&mut self) {
        for key in self.links.keys() {
            if let Some(link) = self.links.get_mut(key) {
                link.requests.clear();
            }
        }
        self.requests.timers = None;
        self.requests.armed = None;
        let claimed = std::mem::take(&mut self.requests.claims).into_values();
        let claimed = claimed.filter_map(|claim| match claim {
            Claim::Pending => None,
            Claim::Done(queued) => Some(queued),
        });
        let queue = std::mem::take(&mut self.requests.queue);
        for queued in queue.into_iter().chain(claimed) {
            self.release_held(queued.held);
        }
        self.requests.writables = 0;
        self.requests.reserved = 0;
    }

    fn release_held(&mut self, held: Option<HeldCharge>) {
        if let Some(held) = held {
            self.release(held);
        }
    }
}

/// What a REPLY says.
pub(super) fn reply(record: Record, held: HeldCharge) -> Ending {
    Ending { result: RequestResult::Ok, errno: Errno(0), parts: Some(record), held: Some(held) }
}

/// What an ERROR REPLY says: the first part is the errno, four bytes and not zero (1.6).
pub(super) fn error_reply(record: Record, held: HeldCharge) -> Ending {
    let mut parts = record.into_parts();
    let first = <[u8; 4]>::try_from(parts.remove(0).as_ref()).map(i32::from_be_bytes);
    match first {
        Ok(errno) if errno != 0 => Ending {
            result: RequestResult::of_errno(Errno(errno)),
            errno: Errno(errno),
            parts: Record::from_parts(parts),
            held: Some(held),
        },
        _ => Ending {
            result: RequestResult::ProtocolError,
            errno: Errno::EPROTO,
            parts: None,
            held: Some(held),
        },
    }
}
