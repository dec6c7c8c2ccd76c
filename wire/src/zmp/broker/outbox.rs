//! Answers for clients whose links have no room: each client waits by itself.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::zmp::core::{Completion, CompletionId, Core, HeldCharge, Refused, ReplyId, Submit};
use crate::zmp::outcome::{Errno, SubmitResult};
use crate::zmp::record::{Charge, FRAME_CHARGE, Record, RoutingId};

use super::counters::{Counters, DropReason, LOOK};

/// What a client gets.
#[derive(Debug)]
pub(super) enum Answer {
    /// A REPLY.
    Reply(ReplyId, Record),
    /// An ERROR REPLY: an errno, and the parts of a worker's own.
    Error(ReplyId, Errno, Option<Record>),
    /// DATA.
    Data(Record),
}

impl Answer {
    fn charge(&self) -> Charge {
        match self {
            Self::Reply(_, record) | Self::Data(record) => record.charge(),
            Self::Error(.., parts) => FRAME_CHARGE + 4 + parts.as_ref().map_or(0, Record::charge),
        }
    }
}

/// How much may wait; beyond it a reply becomes an ERROR REPLY EAGAIN, and DATA is dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) each: Charge,
    pub(super) all: Charge,
}

/// What waits for the links of clients.
#[derive(Debug)]
pub(super) struct Outbox {
    limits: Limits,
    clients: HashMap<RoutingId, Waiting>,
    answers: usize,
    charge: Charge,
    next_look: Option<Instant>,
}

#[derive(Debug, Default)]
struct Waiting {
    answers: VecDeque<(Answer, Option<HeldCharge>)>,
    charge: Charge,
    token: Option<CompletionId>,
    /// When it was first seen without a link.
    gone: Option<Instant>,
}

/// The RouterSocket that an outbox sends on, in one step of it.
pub(super) struct Via<'a> {
    pub(super) now: Instant,
    pub(super) core: &'a mut Core,
    pub(super) counters: &'a mut Counters,
}

/// How one attempt to send ended.
enum Attempt {
    /// It was taken, or never will be.
    Over,
    /// No room: the answer, and the token that tells of some.
    Waits(Answer, Option<CompletionId>),
}

impl Outbox {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, clients: HashMap::new(), answers: 0, charge: 0, next_look: None }
    }

    /// Something waits for this client's room.
    pub(super) fn waits(&self, client: &RoutingId) -> bool {
        !self.clients.is_empty() && self.clients.contains_key(client)
    }

    /// How many answers wait.
    pub(super) fn len(&self) -> usize {
        self.answers
    }

    /// What they are charged.
    pub(super) fn charge(&self) -> Charge {
        self.charge
    }

    /// Sends an answer, behind those that wait for the same client. `held` is given back when it
    /// has gone. True when the client waits from here on.
    pub(super) fn give(
        &mut self,
        via: &mut Via<'_>,
        client: &RoutingId,
        answer: Answer,
        held: Option<HeldCharge>,
    ) -> bool {
        if self.waits(client) {
            self.push(via, client, answer, held);
            return false;
        }
        let Some((answer, token)) = via.attempt(client, answer).waits() else {
            via.release(held);
            return false;
        };
        if self.clients.is_empty() {
            self.next_look = Some(via.now);
        }
        self.clients.insert(client.clone(), Waiting { token, ..Waiting::default() });
        self.push(via, client, answer, held);
        true
    }

    /// Takes up to `budget` tokens of links that got room, and names the clients for whom nothing
    /// waits any more. True when that was not all.
    pub(super) fn rooms(
        &mut self,
        via: &mut Via<'_>,
        budget: usize,
        mut freed: impl FnMut(&RoutingId),
    ) -> bool {
        for _ in 0..budget {
            let Some(Completion { id, peer, .. }) = via.core.next_completion() else {
                return false;
            };
            if let Some(client) = peer
                && self.room(via, &client, id)
            {
                freed(&client);
            }
        }
        true
    }

    /// The link of a client got room by this token. True when nothing waits any more.
    fn room(&mut self, via: &mut Via<'_>, client: &RoutingId, token: CompletionId) -> bool {
        let Some(waiting) = self.clients.get_mut(client) else { return false };
        if waiting.token != Some(token) {
            return false;
        }
        waiting.token = None;
        self.send(via, client)
    }

    /// When [`Self::look`] has something to do.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.next_look.filter(|_| !self.clients.is_empty())
    }

    /// Looks after those that wait: what is for an id without a link for `patience` is abandoned
    /// and who got no token is tried again. Names the clients for whom nothing waits any
    /// more.
    pub(super) fn look(
        &mut self,
        via: &mut Via<'_>,
        patience: Duration,
        mut done: impl FnMut(&RoutingId),
    ) {
        let now = via.now;
        if self.next_look().is_none_or(|look| look > now) {
            return;
        }
        let (mut over, mut again) = (Vec::new(), Vec::new());
        for (id, waiting) in &mut self.clients {
            if via.core.has_link(id) {
                waiting.gone = None;
            } else if now >= *waiting.gone.get_or_insert(now) + patience {
                over.push(id.clone());
                continue;
            }
            if waiting.token.is_none() {
                again.push(id.clone());
            }
        }
        for id in over {
            self.abandon(via, &id);
            done(&id);
        }
        for id in again {
            if self.send(via, &id) {
                done(&id);
            }
        }
        let pace = (patience / 8).clamp(LOOK.0, LOOK.1);
        self.next_look = Some(now + pace);
    }

    /// Gives up all that waits.
    pub(super) fn abandon_all(&mut self, via: &mut Via<'_>) {
        let ids: Vec<_> = self.clients.keys().cloned().collect();
        for id in ids {
            self.abandon(via, &id);
        }
    }

    fn abandon(&mut self, via: &mut Via<'_>, client: &RoutingId) {
        let Some(waiting) = self.clients.remove(client) else { return };
        if let Some(token) = waiting.token {
            via.core.disclaim(token);
        }
        self.answers -= waiting.answers.len();
        self.charge -= waiting.charge;
        for (answer, held) in waiting.answers {
            match answer {
                Answer::Reply(reply, _) | Answer::Error(reply, ..) => via.abandon(reply),
                Answer::Data(_) => via.counters.dropped(DropReason::NoRoute),
            }
            via.release(held);
        }
    }

    /// Adds behind what waits for a client. The first one always has room, so that none blocks
    /// itself.
    fn push(
        &mut self,
        via: &mut Via<'_>,
        client: &RoutingId,
        mut answer: Answer,
        held: Option<HeldCharge>,
    ) {
        let Some(waiting) = self.clients.get_mut(client) else { return };
        let charge = answer.charge();
        let fits = waiting.charge.saturating_add(charge) <= self.limits.each
            && self.charge.saturating_add(charge) <= self.limits.all;
        if !fits && !waiting.answers.is_empty() {
            answer = match answer {
                Answer::Reply(reply, _) | Answer::Error(reply, _, Some(_)) => {
                    Answer::Error(reply, Errno::EAGAIN, None)
                }
                Answer::Error(..) => answer,
                Answer::Data(_) => {
                    via.counters.dropped(DropReason::Hwm);
                    via.release(held);
                    return;
                }
            };
        }
        let charge = answer.charge();
        waiting.charge += charge;
        waiting.answers.push_back((answer, held));
        self.charge += charge;
        self.answers += 1;
    }

    /// Sends what waits for a client until there is no room. True when nothing waits any more.
    fn send(&mut self, via: &mut Via<'_>, client: &RoutingId) -> bool {
        let Some(waiting) = self.clients.get_mut(client) else { return false };
        while let Some((answer, held)) = waiting.answers.pop_front() {
            let charge = answer.charge();
            waiting.charge -= charge;
            self.charge -= charge;
            if let Some((answer, token)) = via.attempt(client, answer).waits() {
                // One that is too large for its peer comes back as a smaller one.
                let charge = answer.charge();
                waiting.charge += charge;
                self.charge += charge;
                waiting.answers.push_front((answer, held));
                waiting.token = token;
                return false;
            }
            self.answers -= 1;
            via.release(held);
        }
        self.clients.remove(client);
        true
    }
}

impl Attempt {
    fn waits(self) -> Option<(Answer, Option<CompletionId>)> {
        match self {
            Self::Waits(answer, token) => Some((answer, token)),
            Self::Over => None,
        }
    }
}

impl Via<'_> {
    pub(super) fn release(&mut self, held: Option<HeldCharge>) {
        if let Some(held) = held {
            self.core.release(held);
        }
    }

    fn abandon(&mut self, reply: ReplyId) {
        self.counters.replies_abandoned += 1;
        self.core.abandon_reply(reply);
    }

    fn attempt(&mut self, client: &RoutingId, answer: Answer) -> Attempt {
        match answer {
            Answer::Reply(reply, record) => self.reply(reply, record),
            Answer::Error(reply, errno, parts) => self.error(reply, errno, parts),
            Answer::Data(record) => self.data(client, record),
        }
    }

    fn reply(&mut self, reply: ReplyId, record: Record) -> Attempt {
        let Err(refused) = self.core.try_reply(reply, record) else {
            self.counters.replies += 1;
            return Attempt::Over;
        };
        match refused.error.result {
            SubmitResult::Backpressured => {
                let token = self.core.reply_token(reply, 0);
                Attempt::Waits(Answer::Reply(reply, refused.record), token)
            }
            SubmitResult::InvalidArgument => self.error(reply, Errno::EINVAL, None),
            _ => {
                self.abandon(reply);
                Attempt::Over
            }
        }
    }

    fn error(&mut self, reply: ReplyId, errno: Errno, parts: Option<Record>) -> Attempt {
        let Err(refused) = self.core.try_reply_error(reply, errno, parts.clone()) else {
            self.counters.error(errno);
            return Attempt::Over;
        };
        match refused.error.result {
            SubmitResult::Backpressured => {
                let token = self.core.reply_token(reply, 0);
                Attempt::Waits(Answer::Error(reply, errno, parts), token)
            }
            SubmitResult::InvalidArgument if parts.is_some() => self.error(reply, errno, None),
            _ => {
                self.abandon(reply);
                Attempt::Over
            }
        }
    }

    fn data(&mut self, client: &RoutingId, record: Record) -> Attempt {
        let submitted = self.core.try_submit(self.now, Some(client), record, Submit::Send, 0);
        let Err(refused) = submitted else {
            self.counters.data_to_clients += 1;
            return Attempt::Over;
        };
        let Refused { record, error, token } = *refused;
        match error.result {
            SubmitResult::Backpressured | SubmitResult::OutOfMemory => {
                return Attempt::Waits(Answer::Data(record), token);
            }
            SubmitResult::InvalidArgument => self.counters.dropped(DropReason::TooLarge),
            _ => self.counters.dropped(DropReason::NoRoute),
        }
        Attempt::Over
    }
}
