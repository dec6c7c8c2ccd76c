//! Answers for clients whose links have no room: each client waits by itself.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::zmp::core::{CompletionId, Core, HeldCharge, Refused, ReplyId, Submit};
use crate::zmp::outcome::{Errno, SubmitResult};
use crate::zmp::record::{Charge, FRAME_CHARGE, Record, RoutingId};

use super::counters::{Counters, Drop};

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
            Self::Error(.., parts) => {
                FRAME_CHARGE + 4 + parts.as_ref().map_or(0, Record::charge)
            }
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

enum Attempt {
    Sent,
    /// No room: the answer, and the token that tells of some.
    Waits(Answer, Option<CompletionId>),
    Dropped,
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

    /// Sends an answer behind those that wait for the same client. `held` is given back when it has
    /// gone. True when the client waits from here on.
    pub(super) fn give(
        &mut self,
        core: &mut Core,
        counters: &mut Counters,
        client: RoutingId,
        answer: Answer,
        held: Option<HeldCharge>,
    ) -> bool {
        if self.waits(&client) {
            self.push(core, counters, &client, answer, held);
            return false;
        }
        match attempt(core, counters, &client, answer) {
            Attempt::Waits(answer, token) => {
                let waiting = Waiting { token, ..Waiting::default() };
                self.clients.insert(client.clone(), waiting);
                self.push(core, counters, &client, answer, held);
                true
            }
            Attempt::Sent | Attempt::Dropped => {
                release(core, held);
                false
            }
        }
    }

    /// The link of a client has room, or got some by this token. True when nothing waits any more.
    pub(super) fn room(
        &mut self,
        core: &mut Core,
        counters: &mut Counters,
        client: &RoutingId,
        token: CompletionId,
    ) -> bool {
        let Some(waiting) = self.clients.get_mut(client) else { return false };
        if waiting.token != Some(token) {
            return false;
        }
        waiting.token = None;
        self.send(core, counters, client)
    }

    /// When [`Self::look`] has something to do.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.next_look.filter(|_| !self.clients.is_empty())
    }

    /// Looks after those that wait: what is for an id without a link for `patience` is abandoned
    /// and who got no token is tried again. Names the clients for whom nothing waits any more.
    pub(super) fn look(
        &mut self,
        now: Instant,
        core: &mut Core,
        counters: &mut Counters,
        patience: Duration,
        mut done: impl FnMut(&RoutingId),
    ) {
        if self.clients.is_empty() {
            self.next_look = None;
            return;
        }
        let pace = (patience / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        if *self.next_look.get_or_insert(now) > now {
            return;
        }
        self.next_look = Some(now + pace);
        let mut over = Vec::new();
        let mut again = Vec::new();
        for (id, waiting) in &mut self.clients {
            if core.has_link(id) {
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
            self.abandon(core, counters, &id);
            done(&id);
        }
        for id in again {
            if self.send(core, counters, &id) {
                done(&id);
            }
        }
    }

    /// Gives up all that waits.
    pub(super) fn abandon_all(&mut self, core: &mut Core, counters: &mut Counters) {
        let ids: Vec<_> = self.clients.keys().cloned().collect();
        for id in ids {
            self.abandon(core, counters, &id);
        }
    }

    fn abandon(&mut self, core: &mut Core, counters: &mut Counters, client: &RoutingId) {
        let Some(waiting) = self.clients.remove(client) else { return };
        if let Some(token) = waiting.token {
            core.disclaim(token);
        }
        self.answers -= waiting.answers.len();
        self.charge -= waiting.charge;
        for (answer, held) in waiting.answers {
            match answer {
                Answer::Reply(reply, _) | Answer::Error(reply, ..) => {
                    counters.replies_abandoned += 1;
                    core.abandon_reply(reply);
                }
                Answer::Data(_) => counters.dropped(Drop::NoRoute),
            }
            release(core, held);
        }
    }

    fn push(
        &mut self,
        core: &mut Core,
        counters: &mut Counters,
        client: &RoutingId,
        mut answer: Answer,
        held: Option<HeldCharge>,
    ) {
        let Some(waiting) = self.clients.get_mut(client) else { return };
        let charge = answer.charge();
        let first = waiting.answers.is_empty();
        let fits = waiting.charge.saturating_add(charge) <= self.limits.each
            && self.charge.saturating_add(charge) <= self.limits.all;
        if !fits && !first {
            match answer {
                Answer::Reply(reply, _) | Answer::Error(reply, ..) => {
                    answer = Answer::Error(reply, Errno::EAGAIN, None);
                }
                Answer::Data(_) => {
                    counters.dropped(Drop::Hwm);
                    release(core, held);
                    return;
                }
            }
        }
        let charge = answer.charge();
        waiting.charge += charge;
        waiting.answers.push_back((answer, held));
        self.charge += charge;
        self.answers += 1;
    }

    /// Sends what waits for a client until there is no room. True when nothing waits any more.
    fn send(&mut self, core: &mut Core, counters: &mut Counters, client: &RoutingId) -> bool {
        let Some(waiting) = self.clients.get_mut(client) else { return false };
        while let Some((answer, held)) = waiting.answers.pop_front() {
            let charge = answer.charge();
            match attempt(core, counters, client, answer) {
                Attempt::Sent | Attempt::Dropped => {
                    release(core, held);
                    waiting.charge -= charge;
                    self.charge -= charge;
                    self.answers -= 1;
                }
                Attempt::Waits(answer, token) => {
                    // An answer too large for its peer comes back as a smaller one.
                    let rest = answer.charge();
                    waiting.charge = waiting.charge - charge + rest;
                    self.charge = self.charge - charge + rest;
                    waiting.answers.push_front((answer, held));
                    waiting.token = token;
                    return false;
                }
            }
        }
        self.clients.remove(client);
        true
    }
}

fn release(core: &mut Core, held: Option<HeldCharge>) {
    if let Some(held) = held {
        core.release(held);
    }
}

fn attempt(
    core: &mut Core,
    counters: &mut Counters,
    client: &RoutingId,
    answer: Answer,
) -> Attempt {
    match answer {
        Answer::Reply(reply, record) => match core.try_reply(reply, record) {
            Ok(()) => {
                counters.replies += 1;
                Attempt::Sent
            }
            Err(refused) => match refused.error.result {
                SubmitResult::Backpressured => {
                    let token = core.reply_token(reply, 0);
                    Attempt::Waits(Answer::Reply(reply, refused.record), token)
                }
                SubmitResult::InvalidArgument => {
                    attempt(core, counters, client, Answer::Error(reply, Errno::EINVAL, None))
                }
                _ => gone(counters),
            },
        },
        Answer::Error(reply, errno, parts) => match core.try_reply_error(reply, errno, parts) {
            Ok(()) => {
                counters.error(errno);
                Attempt::Sent
            }
            Err(refused) => match refused.error.result {
                SubmitResult::Backpressured => {
                    let token = core.reply_token(reply, 0);
                    // What comes back has the errno in front.
                    let parts = Record::from_parts(refused.record.into_parts().into_iter().skip(1));
                    Attempt::Waits(Answer::Error(reply, errno, parts), token)
                }
                SubmitResult::InvalidArgument if refused.record.parts().len() > 1 => {
                    attempt(core, counters, client, Answer::Error(reply, errno, None))
                }
                _ => gone(counters),
            },
        },
        Answer::Data(record) => {
            let Err(refused) =
                core.try_submit(Instant::now(), Some(client), record, Submit::Send, 0)
            else {
                counters.data_to_clients += 1;
                return Attempt::Sent;
            };
            let Refused { record, error, token } = *refused;
            match error.result {
                SubmitResult::Backpressured | SubmitResult::OutOfMemory => {
                    return Attempt::Waits(Answer::Data(record), token);
                }
                SubmitResult::InvalidArgument => counters.dropped(Drop::TooLarge),
                _ => counters.dropped(Drop::NoRoute),
            }
            Attempt::Dropped
        }
    }
}

fn gone(counters: &mut Counters) -> Attempt {
    counters.replies_abandoned += 1;
    Attempt::Dropped
}
