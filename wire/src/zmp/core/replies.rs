//! Replies that are owed (3.5).

use std::num::NonZeroU64;

use bytes::Bytes;

use super::counted::Counted;
use super::links::LinkKey;
use super::routes::RouteKey;
use super::waiting::{Call, Place};
use super::{COMPLETION_LIMIT, CompletionId, Core, Refused, ReplyId, Submit, WaiterId};
use crate::zmp::outcome::{Errno, SubmitError, SubmitResult};
use crate::zmp::record::{Charge, Kind, Lane, Record, Sequence, SocketKind};

/// What a reply token stands for.
#[derive(Clone, Copy, Debug)]
struct Owed {
    route: RouteKey,
    /// The link that the request came on; its sequence is live there.
    link: LinkKey,
    sequence: Sequence,
}

/// All replies that are owed.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// The last token given; none is given twice (R-P4).
    pub(super) last: u64,
    owed: Counted<Owed>,
    /// Those whose id was not removed: they count against the limit.
    live: usize,
}

impl Core {
    /// One more reply may be owed (R-P4).
    pub(super) fn may_owe(&self) -> bool {
        self.replies.live < self.options.reply_tokens
    }

    /// A REQUEST is taken: its token. `None` when the numbers are used up.
    pub(super) fn owe(&mut self, link: LinkKey, sequence: Sequence) -> Option<ReplyId> {
        let id = self.replies.last.checked_add(1).and_then(NonZeroU64::new)?;
        let asker = self.links.get(link)?;
        let route = match asker.route.filter(|route| self.routes.get(*route).is_some()) {
            Some(route) => route,
            // The link ended long ago, and its id was forgotten.
            None => self.routes.obtain(asker.name.as_ref()?, asker.peer),
        };
        self.replies.last = id.get();
        self.replies.owed.insert(id.get(), Owed { route, link, sequence });
        self.replies.live += 1;
        if let Some(route) = self.routes.get_mut(route) {
            route.owed += 1;
        }
        Some(ReplyId(id))
    }

    /// Answers a request that gets no token with an error reply, whatever is queued.
    pub(super) fn refuse_request(&mut self, key: LinkKey, sequence: Sequence, errno: Errno) {
        let own = self.options.kind;
        let Some(link) = self.links.get_mut(key) else { return };
        link.live.remove(&sequence.get());
        let lane = if link.lanes(own) == 2 { Lane::Completion } else { Lane::Application };
        self.push(key, lane, Kind::ErrorReply(sequence), error_record(errno, None));
    }

    /// Answers a request (R-P1): one attempt on the current link of its peer.
    ///
    /// # Errors
    /// The record comes back. `Backpressured` leaves the reply owed.
    pub fn try_reply(&mut self, reply: ReplyId, record: Record) -> Result<(), Box<Refused>> {
        self.answer(reply, record, Kind::Reply)
    }

    /// Answers a request with an error reply: the errno and more parts (1.6). Only a broker does.
    ///
    /// # Errors
    /// As [`Self::try_reply`]; the record that comes back has the errno as its first part.
    pub fn try_reply_error(
        &mut self,
        reply: ReplyId,
        errno: Errno,
        parts: Option<Record>,
    ) -> Result<(), Box<Refused>> {
        self.answer(reply, error_record(errno, parts), Kind::ErrorReply)
    }

    fn answer(
        &mut self,
        reply: ReplyId,
        record: Record,
        kind: fn(Sequence) -> Kind,
    ) -> Result<(), Box<Refused>> {
        match self.reply_place(reply, &record) {
            Ok((link, lane, owed)) => {
                self.push(link, lane, kind(owed.sequence), record);
                self.settle_reply(reply);
                Ok(())
            }
            Err(error) => {
                if error.result == SubmitResult::Backpressured {
                    self.counters.backpressured += 1;
                }
                Err(Box::new(Refused { record, error, token: None }))
            }
        }
    }

    /// Where a reply goes (R-P2): the Application lane of a DEALER, with its water mark and its
    /// pauses, or the Completion lane of a ROUTER.
    fn reply_place(
        &mut self,
        reply: ReplyId,
        record: &Record,
    ) -> Result<(LinkKey, Lane, Owed), SubmitError> {
        let full = SubmitError::new(SubmitResult::Backpressured, Errno::EAGAIN);
        self.check_size(record)?;
        self.check_open()?;
        let owed = self.owed(reply)?;
        let key = self.routes.get(owed.route).and_then(|route| route.active).ok_or(full)?;
        let link = self.links.get_mut(key).ok_or(full)?;
        if !link.takes(record.payload()) {
            self.counters.oversize_out += 1;
            return Err(SubmitError::new(SubmitResult::InvalidArgument, Errno::EMSGSIZE));
        }
        let paused = link.flow.is_paused();
        let (lane, hwm): (Lane, Charge) = match link.peer {
            SocketKind::Dealer if paused => return Err(full),
            SocketKind::Dealer => (Lane::Application, self.options.send_hwm),
            SocketKind::Router => (Lane::Completion, COMPLETION_LIMIT),
        };
        let pipe = link.pipe(lane).ok_or(full)?;
        if !pipe.has_room(record.charge(), hwm) {
            self.mark_full(key, lane, hwm);
            return Err(full);
        }
        Ok((key, lane, owed))
    }

    /// What this token stands for; nothing once its id was removed (R-P3).
    fn owed(&mut self, reply: ReplyId) -> Result<Owed, SubmitError> {
        let gone = SubmitError::new(SubmitResult::NotFound, Errno::ENOENT);
        let owed = *self.replies.owed.get(&reply.0.get()).ok_or(gone)?;
        if self.routes.get(owed.route).is_none() {
            self.replies.owed.remove(&reply.0.get());
            return Err(gone);
        }
        Ok(owed)
    }

    /// The reply is given, or will not be: its sequence and its slot are free.
    fn settle_reply(&mut self, reply: ReplyId) -> bool {
        let Some(owed) = self.replies.owed.remove(&reply.0.get()) else { return false };
        if let Some(link) = self.links.get_mut(owed.link) {
            link.live.remove(&owed.sequence.get());
        }
        let Some(route) = self.routes.get_mut(owed.route) else { return false };
        route.owed -= 1;
        self.tidy_route(owed.route);
        self.free_replies(1);
        true
    }

    /// Slots are free: a REQUEST that waited for one can be taken.
    pub(super) fn free_replies(&mut self, slots: usize) {
        let stood = !self.may_owe();
        self.replies.live -= slots;
        if stood && self.may_owe() && self.turns.has_requests() {
            self.wakes.readable();
        }
    }

    /// How many replies are owed.
    pub const fn replies_owed(&self) -> usize {
        self.replies.live
    }

    /// The reply will not be given: its slot is free.
    pub fn abandon_reply(&mut self, reply: ReplyId) {
        if self.settle_reply(reply) {
            self.counters.replies_abandoned += 1;
        }
    }

    /// Begins to wait for the room of a reply; a [`super::Wake::Waiter`] says when to try again. The wait
    /// lasts until [`Self::forget`].
    pub fn wait_reply(&mut self, reply: ReplyId) -> WaiterId {
        let place = match self.owed(reply) {
            Ok(owed) => Place::Reply(owed.route),
            Err(_) => Place::Any,
        };
        self.add_call(Call { place, target: None, submit: Submit::Send, context: 0, failed: None })
    }

    /// As [`Self::wait_reply`], but what says when to try again is a [`super::Outcome::Writable`] in the
    /// completion queue, with `context` and the id of the reply's peer: one waits for many. A link
    /// that is new to the id is an edge too; `disconnect_rid` ends it as [`super::Outcome::Removed`].
    /// `None` when the reply is not owed, or no reservation is free.
    pub fn reply_token(&mut self, reply: ReplyId, context: u64) -> Option<CompletionId> {
        let owed = self.owed(reply).ok()?;
        self.issue_token(Place::Reply(owed.route), context).ok()
    }

    /// The socket closes: no reply is given any more.
    pub(super) fn drop_replies(&mut self) {
        self.replies.owed.clear();
        self.replies.live = 0;
    }
}

/// An ERROR REPLY: the errno as four bytes, then the parts (1.6).
fn error_record(errno: Errno, parts: Option<Record>) -> Record {
    let mut record = Record::new(Bytes::copy_from_slice(&errno.0.to_be_bytes()));
    for part in parts.into_iter().flat_map(Record::into_parts) {
        record.push(part);
    }
    record
}
