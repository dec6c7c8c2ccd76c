//! What goes to the peer: control frames first, then Data in turns.

use super::{Event, Parent, Side};
use crate::line::PauseReason;
use crate::mux::child::{Child, ChildKey, Inward, Outward, Owed, Owner, Wire};
use crate::mux::cids::Cids;
use crate::mux::frame::{HEADER_BYTES, Header, MOST_SENT};
use crate::mux::reason::{ChildEnd, FrameKind};
use crate::queue::{Buffers, ByteQueue};

/// The most bytes that stand before a control frame in user space (M28).
const MOST_AHEAD: usize = 64 * 1024;

/// Data is rather sent with the next write than cut to less than this.
const LEAST_CUT: usize = 2 * 1024;

impl<T: Owner> Parent<T> {
    /// Puts frames behind what still waits for the transport in `out`. While that is not empty,
    /// the transport is paused (M27): Opens and Data wait, other control frames do not (M28).
    /// Gives how many bytes were added.
    pub fn transmit(&mut self, out: &mut ByteQueue, pool: &impl Buffers) -> usize {
        if !self.up {
            return 0;
        }
        let before = out.len();
        self.set_blocked(before > 0);
        self.send_control(out, pool);
        if !self.blocked {
            self.send_opens(out, pool);
            self.send_data(out, pool);
        }
        self.judge_reading();
        out.len() - before
    }

    /// True when [`Self::transmit`] would add something to an empty queue.
    pub fn has_frames(&self) -> bool {
        let sends = |key| self.children.get(key).is_some_and(Child::sends);
        let opens = || !self.waiting.is_empty() && self.can_open();
        let owes = self.owed > 0 || !self.refused.is_empty();
        self.up && (owes || opens() || self.ready.iter().any(sends))
    }

    fn can_open(&self) -> bool {
        match &self.side {
            Side::Client(cids) => cids.used() < cids.leased(),
            Side::Server { .. } => false,
        }
    }

    /// Whoever writes while the transport is paused is stopped; whoever does not is left alone
    /// (M27).
    fn set_blocked(&mut self, blocked: bool) {
        let was = std::mem::replace(&mut self.blocked, blocked);
        if !blocked || was {
            return;
        }
        for key in self.ready.iter() {
            if let Some(child) = self.children.get_mut(key)
                && child.sends()
                && !child.left
                && !std::mem::replace(&mut child.transport_paused, true)
            {
                self.events.push_back(Event::Pause(*key, PauseReason::Transport));
            }
        }
    }

    fn put(&mut self, header: Header, kind: FrameKind, out: &mut ByteQueue, pool: &impl Buffers) {
        out.append(&header.encode(), pool);
        self.counts.sent[kind as usize] += 1;
    }

    fn send_control(&mut self, out: &mut ByteQueue, pool: &impl Buffers) {
        let fits = |out: &ByteQueue| out.len() + 4 * HEADER_BYTES <= MOST_AHEAD;
        while fits(out)
            && let Some(cid) = self.refused.pop_front()
        {
            self.put(Header::control(FrameKind::Close, cid), FrameKind::Close, out, pool);
        }
        while fits(out)
            && let Some(key) = self.control.pop_front()
        {
            self.send_control_of(key, out, pool);
        }
    }

    /// All control frames that one child owes, in the only order that makes sense.
    fn send_control_of(&mut self, key: ChildKey, out: &mut ByteQueue, pool: &impl Buffers) {
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        child.in_control = false;
        let Wire::Open(cid) = child.wire else {
            return;
        };
        if self.settle(key, Owed::ANSWER) {
            let kind = FrameKind::FlowResume;
            self.put(Header::control(kind, cid).with_half_close(true), kind, out, pool);
        }
        if self.settle(key, Owed::FLOW)
            && let Some(child) = self.children.get_mut(&key)
        {
            child.told_paused = !child.told_paused;
            let kind = if child.told_paused {
                self.paused += 1;
                FrameKind::FlowPause
            } else {
                self.paused -= 1;
                FrameKind::FlowResume
            };
            self.put(Header::control(kind, cid), kind, out, pool);
        }
        if self.settle(key, Owed::FIN) {
            self.put(Header::control(FrameKind::Fin, cid), FrameKind::Fin, out, pool);
            if let Some(child) = self.children.get_mut(&key) {
                child.outward = Outward::Fin;
                if matches!(child.inward, Inward::Fin | Inward::FinTold) {
                    self.fins(key);
                }
            }
        }
        if self.settle(key, Owed::CLOSE) {
            self.put(Header::control(FrameKind::Close, cid), FrameKind::Close, out, pool);
            self.wire_over(key, ChildEnd::Finished, pool);
        }
        self.sweep(key);
    }

    /// Both directions ended with Fin: the child is over, and no Close is sent (M30).
    pub(super) fn fins(&mut self, key: ChildKey) {
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        child.end.get_or_insert(ChildEnd::Finished);
        self.leave_wire(key);
    }

    /// Opens go out with an unpaused transport alone, and with them the children's Est (M15).
    fn send_opens(&mut self, out: &mut ByteQueue, pool: &impl Buffers) {
        while out.len() + HEADER_BYTES <= MOST_AHEAD
            && let Some(key) = self.waiting.first().copied()
        {
            let Some(cid) = self.cids().and_then(Cids::next) else {
                break;
            };
            self.waiting.pop_first();
            let Some(child) = self.children.get_mut(&key) else {
                continue;
            };
            child.wire = Wire::Open(cid);
            if child.reply_since.is_some() {
                self.stalls.happened(key);
            }
            self.cids.insert(cid, key);
            let kind = FrameKind::Open;
            let header = Header::control(kind, cid).with_half_close(self.limits.half_close);
            self.put(header, kind, out, pool);
            self.events.push_back(Event::Est(key));
            self.mind_flow(key);
            self.outward(key);
        }
        // What a child owes from before its Open goes with it.
        self.send_control(out, pool);
    }

    fn send_data(&mut self, out: &mut ByteQueue, pool: &impl Buffers) {
        if !self.control.is_empty() {
            // There was no room for these; none of them may come behind the Data of its child.
            return;
        }
        while let Some((key, little)) = self.ready.first() {
            let room = MOST_AHEAD.saturating_sub(out.len() + HEADER_BYTES);
            let Some(child) = self.children.get_mut(&key) else {
                self.ready.had(little, 0);
                continue;
            };
            let (Wire::Open(cid), true) = (child.wire, child.sends()) else {
                child.in_ready = false;
                self.ready.had(little, 0);
                continue;
            };
            let waits = child.out.len();
            if room < waits.min(LEAST_CUT) {
                return;
            }
            let length = waits.min(MOST_SENT).min(room);
            self.ready.had(little, length);
            let buffers = child.out.buffers();
            out.append(&Header::data(cid, length as u16).encode(), pool);
            child.out.move_front(length, out, pool);
            if let Some(owner) = &child.owner {
                owner.give_back(length, buffers - child.out.buffers());
            }
            child.in_ready = false;
            if child.reply_since.is_some() {
                self.stalls.happened(key);
            }
            self.counts.sent[FrameKind::Data as usize] += 1;
            self.counts.sent_bytes += length as u64;
            self.outward(key);
            if child_is_done(self, key) {
                // M19: its end stands right behind its Data.
                self.send_control(out, pool);
            }
        }
    }
}

/// True when a child owes the end of its direction.
fn child_is_done<T>(parent: &Parent<T>, key: ChildKey) -> bool {
    let owed = parent.children.get(&key).map(|child| child.owed).unwrap_or_default();
    owed.has(Owed::FIN) || owed.has(Owed::CLOSE)
}
