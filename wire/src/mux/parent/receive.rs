//! What comes from the peer.

use std::time::Instant;

use super::{Event, Parent, Side};
use crate::line::PauseReason;
use crate::mux::child::{Child, ChildKey, Inward, Outward, Owed, Owner, Wire};
use crate::mux::frame::{HALF_CLOSE, HEADER_BYTES, Header};
use crate::mux::reason::{ChildEnd, Dropped, FrameKind};
use crate::queue::{Buffers, ByteQueue};

impl<T: Owner> Parent<T> {
    /// Takes the whole frames at the front of `input`; the rest waits there (M06). Gives how many
    /// bytes were taken.
    ///
    /// Stops behind each child that was opened, so that its line stands before its Data comes:
    /// call it again until it takes nothing. Stops, too, while too many control frames wait (M32):
    /// frames may be left in `input` once [`Self::stops_reading`] says so no more. What was not taken
    /// before the transport was lost is thrown away (M20).
    pub fn receive(&mut self, now: Instant, input: &mut ByteQueue, pool: &impl Buffers) -> usize {
        let before = input.len();
        if self.lost {
            input.clear(pool);
            return before;
        }
        while !self.is_control_full()
            && let Some(header) = Header::of_whole_frame(input)
        {
            input.advance(HEADER_BYTES, pool);
            let length = usize::from(header.length);
            let left = input.len() - length;
            let opened = self.frame(now, header, input, pool);
            // M03: what nobody took is skipped.
            input.advance(input.len() - left, pool);
            if opened {
                break;
            }
        }
        self.judge_reading();
        before - input.len()
    }

    /// One frame, whose payload stands at the front of `input`. True if it opened a child.
    fn frame(
        &mut self,
        now: Instant,
        header: Header,
        input: &mut ByteQueue,
        pool: &impl Buffers,
    ) -> bool {
        let Some(kind) = FrameKind::of(header.flags) else {
            self.dropped(Dropped::UnknownFlag);
            return false;
        };
        self.counts.received[kind as usize] += 1;
        if header.length > 0 && kind != FrameKind::Data {
            self.dropped(Dropped::PayloadOnControl);
        }
        if kind == FrameKind::Open {
            return self.opened(now, header);
        }
        let Some(key) = self.cids.get(&header.cid).copied() else {
            self.dropped(Dropped::UnknownCid);
            return false;
        };
        match kind {
            FrameKind::Open => {}
            FrameKind::Close => self.closed(key, pool),
            FrameKind::FlowPause => self.flow(key, true),
            FrameKind::FlowResume if header.pad == HALF_CLOSE && self.takes_agreement() => {
                self.agreed();
            }
            FrameKind::FlowResume => self.flow(key, false),
            FrameKind::Data => self.data(now, key, header, input, pool),
            FrameKind::Fin => self.fin(key),
        }
        false
    }

    const fn dropped(&mut self, why: Dropped) {
        self.counts.dropped[why as usize] += 1;
    }

    fn opened(&mut self, now: Instant, header: Header) -> bool {
        let Side::Server { most } = self.side else {
            // A client's peer opens nothing.
            let lives = self.cids.contains_key(&header.cid);
            self.dropped(if lives { Dropped::OpenLiveCid } else { Dropped::UnknownCid });
            return false;
        };
        if self.cids.contains_key(&header.cid) {
            self.dropped(Dropped::OpenLiveCid);
            return false;
        }
        if self.children.len() >= most || self.exhausted {
            let end = if self.exhausted { ChildEnd::Drain } else { ChildEnd::MaxChildren };
            self.counts.opened += 1;
            self.counts.ended[end as usize] += 1;
            if !self.muted {
                self.refused.push_back(header.cid);
            }
            return false;
        }
        self.next_key += 1;
        let key = ChildKey(self.next_key);
        self.counts.opened += 1;
        self.children.insert(key, Child::new(None, Wire::Open(header.cid), now));
        self.cids.insert(header.cid, key);
        self.events.push_back(Event::Opened(key));
        if header.pad == HALF_CLOSE && self.limits.half_close {
            self.owe(key, Owed::ANSWER);
            if !std::mem::replace(&mut self.agreed, true) {
                self.counts.agreed += 1;
            }
        }
        true
    }

    /// True when a mark on FlowResume has a meaning (M30).
    const fn takes_agreement(&self) -> bool {
        self.limits.half_close && !self.is_server()
    }

    /// The peer understands half-closes: ends that were kept become Fin (M30).
    fn agreed(&mut self) {
        if std::mem::replace(&mut self.agreed, true) {
            return;
        }
        self.counts.agreed += 1;
        for key in self.all_kept() {
            self.keep_no_more(key);
            self.outward(key);
        }
    }

    fn closed(&mut self, key: ChildKey, pool: &impl Buffers) {
        // M18: it is not answered, and one of ours that crosses it is not sent.
        self.wire_over(key, ChildEnd::PeerClosed, pool);
        self.sweep(key);
    }

    /// The peer takes no more Data of this child, or takes it again (M26).
    fn flow(&mut self, key: ChildKey, paused: bool) {
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        if child.is_closing() {
            return self.dropped(Dropped::Closing);
        }
        if std::mem::replace(&mut child.peer_paused, paused) == paused {
            return;
        }
        if !child.left {
            let event = if paused { Event::Pause } else { Event::Resume };
            self.events.push_back(event(key, PauseReason::Peer));
        }
        self.outward(key);
    }

    fn data(
        &mut self,
        now: Instant,
        key: ChildKey,
        header: Header,
        input: &mut ByteQueue,
        pool: &impl Buffers,
    ) {
        let length = usize::from(header.length);
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        let dropped = match child.inward {
            _ if length == 0 => Some(Dropped::EmptyData),
            Inward::Fin | Inward::FinTold => Some(Dropped::AfterFin),
            Inward::Closed => Some(Dropped::Closing),
            Inward::Flowing => None,
        };
        if let Some(dropped) = dropped {
            return self.dropped(dropped);
        }
        input.move_front(length, &mut child.queue, pool);
        if child.reply_since.is_some() {
            child.reply_since = Some(now);
        }
        self.queued += length;
        self.counts.received_bytes += u64::from(header.length);
        self.filled(now, key);
        self.mind_flow(key);
        self.deliver(key);
    }

    fn fin(&mut self, key: ChildKey) {
        let agreed = self.agreed;
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        match child.inward {
            _ if !agreed => return self.dropped(Dropped::FinUnagreed),
            Inward::Flowing => {}
            Inward::Fin | Inward::FinTold => return self.dropped(Dropped::AfterFin),
            Inward::Closed => return self.dropped(Dropped::Closing),
        }
        child.inward = Inward::Fin;
        let over = child.outward == Outward::Fin;
        self.mind_flow(key);
        self.tell_end(key);
        if over {
            self.fins(key);
        }
        self.sweep(key);
    }
}
