//! What the lines of the children ask, and what is delivered to them.

use std::time::Instant;

use super::{Event, Parent};
use crate::line::PauseReason;
use crate::mux::child::{Child, ChildKey, Inward, Outward, Owed, Owner, Wire};
use crate::mux::reason::ChildEnd;
use crate::queue::{Buffers, ByteQueue};

impl<T: Owner> Parent<T> {
    /// A child joins a client's side; its Open goes out with the next [`Self::transmit`] that can
    /// (M15). Keys grow from child to child.
    pub fn join(&mut self, now: Instant, key: ChildKey, owner: T) {
        debug_assert!(!self.children.contains_key(&key), "a key is used twice");
        self.counts.opened += 1;
        self.children.insert(key, Child::new(Some(owner), Wire::Waiting, now));
        self.waiting.insert(key);
    }

    /// A line was made for a child that the peer opened (M17).
    pub fn attach(&mut self, key: ChildKey, owner: T) {
        if let Some(child) = self.children.get_mut(&key) {
            child.owner = Some(owner);
        }
        self.deliver(key);
        self.tell_end(key);
        self.sweep(key);
    }

    /// Payload of a child, towards the peer; all of it is taken. What can not be sent any more is
    /// lost.
    pub fn payload(&mut self, key: ChildKey, payload: &mut ByteQueue, pool: &impl Buffers) {
        let blocked = self.blocked;
        let Some(child) = self.children.get_mut(&key) else {
            return payload.clear(pool);
        };
        if child.wire == Wire::Over || child.outward != Outward::Flowing {
            self.counts.lost_bytes += payload.len() as u64;
            if let Some(owner) = &child.owner {
                owner.give_back(payload.len(), payload.buffers());
            }
            return payload.clear(pool);
        }
        payload.move_to(&mut child.out);
        if blocked && !child.out.is_empty() && !child.transport_paused {
            child.transport_paused = true;
            self.events.push_back(Event::Pause(key, PauseReason::Transport));
        }
        self.outward(key);
    }

    /// The input of a child ended; what it sent before goes first (M19, M30, M31).
    pub fn input_ended(&mut self, now: Instant, key: ChildKey) {
        let keeps = !self.agreed && !self.is_server();
        let closes = !self.agreed && self.is_server();
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        if child.wire == Wire::Over || child.outward != Outward::Flowing {
            return;
        }
        child.outward = Outward::Ended;
        if closes {
            // M31: Close at once, behind its Data; the other direction is over with it.
            child.outward = Outward::Closing;
            self.close_inward(key, ChildEnd::Finished);
            self.mind_flow(key);
        } else if keeps && child.inward == Inward::Flowing {
            self.keep(now, key);
        }
        self.outward(key);
        self.happened_by(now);
        self.sweep(key);
    }

    /// The line of a child takes nothing at the moment (M21).
    pub fn pause(&mut self, key: ChildKey) {
        if let Some(child) = self.children.get_mut(&key) {
            child.local_paused = true;
        }
        self.mind_flow(key);
    }

    /// It takes payload again (M23).
    pub fn resume(&mut self, key: ChildKey) {
        if let Some(child) = self.children.get_mut(&key) {
            child.local_paused = false;
        }
        self.mind_flow(key);
        self.deliver(key);
    }

    /// The line of a child has room again, after [`Owner::room`] was 0.
    pub fn has_room(&mut self, key: ChildKey) {
        self.deliver(key);
    }

    /// The line of a child is gone. Close goes out behind its Data (M18, M19); not after two Fins
    /// (M30).
    pub fn gone(&mut self, now: Instant, key: ChildKey, end: ChildEnd, pool: &impl Buffers) {
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        child.owner = None;
        child.left = true;
        let lost = child.queue.len();
        child.queue.clear(pool);
        child.end.get_or_insert(end);
        self.counts.lost_bytes += lost as u64;
        self.undelivered(key, lost);
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        let fins = matches!(child.inward, Inward::Fin | Inward::FinTold)
            && matches!(child.outward, Outward::Ended | Outward::Fin)
            && end == ChildEnd::Finished;
        let unsent = child.wire == Wire::Waiting
            && (child.out.is_empty() || !matches!(end, ChildEnd::Finished));
        if unsent {
            // Nobody has heard of it (L09).
            self.waiting.remove(&key);
            self.wire_over(key, end, pool);
        } else if child.wire != Wire::Over {
            if !fins {
                child.outward = Outward::Closing;
                child.inward = Inward::Closed;
            }
            self.keep_no_more(key);
            self.mind_flow(key);
            self.outward(key);
            self.happened_by(now);
        }
        self.sweep(key);
    }

    /// Ends a child from the middle (L04): Close to the peer and Finish to its line, each behind
    /// the bytes before it, or `at_once`.
    pub fn close(&mut self, key: ChildKey, end: ChildEnd, at_once: bool, pool: &impl Buffers) {
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        child.end.get_or_insert(end);
        if at_once {
            let lost = child.queue.len();
            child.queue.clear(pool);
            if lost > 0 {
                // Whatever ended it before: this is why it lost bytes.
                child.end = Some(end);
            }
            self.counts.lost_bytes += lost as u64;
            self.undelivered(key, lost);
            self.drop_unsent(key, pool);
        }
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        match child.wire {
            Wire::Waiting if child.out.is_empty() => {
                self.waiting.remove(&key);
                self.wire_over(key, end, pool);
            }
            Wire::Over => {}
            _ => {
                child.outward = Outward::Closing;
                self.keep_no_more(key);
                self.mind_flow(key);
                self.outward(key);
            }
        }
        self.close_inward(key, end);
        self.sweep(key);
    }

    /// What this child has to send is lost.
    pub(super) fn drop_unsent(&mut self, key: ChildKey, pool: &impl Buffers) {
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        self.counts.lost_bytes += child.out.len() as u64;
        if let Some(owner) = &child.owner {
            owner.give_back(child.out.len(), child.out.buffers());
        }
        child.out.clear(pool);
    }

    /// The next payload for a line: to whom, and what. Whatever has no room is asked again after
    /// [`Self::has_room`]. The child is still there: [`Self::owner`] has it.
    pub fn poll_delivery(
        &mut self,
        now: Instant,
        pool: &impl Buffers,
    ) -> Option<(ChildKey, ByteQueue)> {
        self.happened_by(now);
        while let Some(key) = self.due.pop_front() {
            let Some(child) = self.children.get_mut(&key) else {
                continue;
            };
            child.in_due = false;
            if child.queue.is_empty() {
                // All before it was handed out with the call before this one.
                self.tell_end(key);
                self.sweep(key);
                continue;
            }
            if child.local_paused {
                continue;
            }
            let Some(room) = child.owner.as_ref().map(Owner::room).filter(|room| *room > 0) else {
                continue;
            };
            let mut payload = ByteQueue::default();
            let taken = child.queue.len().min(room);
            if taken == child.queue.len() {
                std::mem::swap(&mut payload, &mut child.queue);
                child.in_due = true;
                self.due.push_back(key);
            } else {
                child.queue.move_front(taken, &mut payload, pool);
            }
            self.stalls.drained(now, key);
            self.undelivered(key, taken);
            self.mind_flow(key);
            self.deliver(key);
            return Some((key, payload));
        }
        None
    }

    /// Something may be there to deliver to this child.
    pub(super) fn deliver(&mut self, key: ChildKey) {
        if let Some(child) = self.children.get_mut(&key)
            && !child.in_due
            && !child.local_paused
            && child.owner.is_some()
            && !child.queue.is_empty()
        {
            child.in_due = true;
            self.due.push_back(key);
        }
    }

    /// Tells a line that nothing follows, once all before it was delivered (M19).
    pub(super) fn tell_end(&mut self, key: ChildKey) {
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        if !child.queue.is_empty() || child.left {
            return;
        }
        match child.inward {
            Inward::Fin => {
                child.inward = Inward::FinTold;
                self.events.push_back(Event::InputEnded(key));
            }
            Inward::Closed => {
                let end = child.end.unwrap_or(ChildEnd::PeerClosed);
                if let Some(owner) = child.owner.take() {
                    child.left = true;
                    self.events.push_back(Event::Finish(key, owner, end));
                }
            }
            Inward::Flowing | Inward::FinTold => {}
        }
    }

    /// Puts a child where its outward direction belongs: Data first, then its end (M19).
    pub(super) fn outward(&mut self, key: ChildKey) {
        let agreed = self.agreed;
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        if child.wake.is_none() && child.lingers() {
            self.stalls.happened(key);
        }
        if child.sends() {
            if !std::mem::replace(&mut child.in_ready, true) {
                self.ready.push(key, child.out.len());
            }
            return;
        }
        if !child.out.is_empty() {
            return;
        }
        if std::mem::take(&mut child.transport_paused) && !child.left {
            self.events.push_back(Event::Resume(key, PauseReason::Transport));
        }
        match child.outward {
            Outward::Closing => {
                self.settle(key, Owed::FIN);
                self.owe(key, Owed::CLOSE);
            }
            Outward::Ended if agreed && !child.peer_paused => self.owe(key, Owed::FIN),
            _ => {
                self.settle(key, Owed::FIN);
            }
        }
    }
}
