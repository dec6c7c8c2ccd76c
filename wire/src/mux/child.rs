//! One child of a parent: what waits for it, what waits of it, and how its two directions end.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Instant;

use super::reason::ChildEnd;
use crate::queue::ByteQueue;

/// Names one child at its parent, on this side of the wire; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChildKey(pub u64);

/// Spreads keys over a table. They are this side's own numbers, so that no peer can choose them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing; the table looks at both ends of the result.
        self.0 = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
}

/// A table by the keys of children.
pub(super) type ByKey<V> = HashMap<ChildKey, V, BuildHasherDefault<KeyHasher>>;

/// Whoever has a child: the line behind or before it.
pub trait Owner {
    /// How many more bytes it takes at the moment.
    fn room(&self) -> usize;

    /// Bytes of it, in so many buffers, have left for the transport, or are lost.
    fn give_back(&self, bytes: usize, buffers: usize);
}

/// Frames that a child owes, as one state and not as a list (M32).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owed(u8);

impl Owed {
    /// The answer that agrees to half-closes (M30).
    pub(super) const ANSWER: Self = Self(1);
    /// FlowPause or FlowResume, whichever is true when it goes out.
    pub(super) const FLOW: Self = Self(2);
    /// Fin (M30).
    pub(super) const FIN: Self = Self(4);
    /// Close (M18).
    pub(super) const CLOSE: Self = Self(8);

    pub(super) const fn has(self, frame: Self) -> bool {
        self.0 & frame.0 != 0
    }

    /// Adds a frame; true if it was not owed before.
    pub(super) const fn add(&mut self, frame: Self) -> bool {
        let had = self.has(frame);
        self.0 |= frame.0;
        !had
    }

    /// Takes a frame away; true if it was owed.
    pub(super) const fn take(&mut self, frame: Self) -> bool {
        let had = self.has(frame);
        self.0 &= !frame.0;
        had
    }

    pub(super) const fn count(self) -> usize {
        self.0.count_ones() as usize
    }
}

/// Where a child stands with the peer.
///
/// ```text
///   Waiting --Open--> Open --Close either way, two Fins, parent lost--> Over
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// No byte of it was handed to a transport (M14); it has no cid.
    Waiting,
    /// It lives under this cid.
    Open(u32),
    /// No frame of it comes or goes any more.
    Over,
}

/// How the direction to the peer ends, behind its Data (M19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outward {
    /// It goes on.
    Flowing,
    /// Its input ended: Fin is due, if the peer agrees (M30, M31).
    Ended,
    /// Fin was sent.
    Fin,
    /// Close is due.
    Closing,
}

/// How the direction from the peer ends, behind its Data (M19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inward {
    /// It goes on.
    Flowing,
    /// Fin came.
    Fin,
    /// Fin came, and the child's line has been told.
    FinTold,
    /// Nothing comes any more.
    Closed,
}

#[derive(Debug)]
pub(super) struct Child<T> {
    /// `None` until a line was made for it, and when that line is gone or was told Finish.
    pub(super) owner: Option<T>,
    /// Its line is gone, or was told Finish.
    pub(super) left: bool,
    pub(super) wire: Wire,
    pub(super) owed: Owed,
    /// It stands among those that owe frames.
    pub(super) in_control: bool,
    /// It stands among those with Data to send.
    pub(super) in_ready: bool,
    /// It stands among those with something to deliver.
    pub(super) in_due: bool,
    /// It stands among those at their limit (M24).
    pub(super) full: bool,
    pub(super) out: ByteQueue,
    pub(super) outward: Outward,
    /// FlowPause came (M26).
    pub(super) peer_paused: bool,
    /// Its source was stopped because the transport is (M27).
    pub(super) transport_paused: bool,
    pub(super) queue: ByteQueue,
    pub(super) inward: Inward,
    /// Its own side takes nothing (M21).
    pub(super) local_paused: bool,
    /// FlowPause was sent, and no FlowResume since.
    pub(super) told_paused: bool,
    /// Since when it stands for the reply alone: the last byte of that, or the end of its client's
    /// input (M31).
    pub(super) reply_since: Option<Instant>,
    /// The time under which it stands among those with a limit of time.
    pub(super) wake: Option<Instant>,
    /// When it joined.
    pub(super) joined: Instant,
    /// Why it is over, once something has decided that.
    pub(super) end: Option<ChildEnd>,
}

impl<T> Child<T> {
    pub(super) fn new(owner: Option<T>, wire: Wire, now: Instant) -> Self {
        Self {
            owner,
            left: false,
            wire,
            owed: Owed::default(),
            in_control: false,
            in_ready: false,
            in_due: false,
            full: false,
            out: ByteQueue::default(),
            outward: Outward::Flowing,
            peer_paused: false,
            transport_paused: false,
            queue: ByteQueue::default(),
            inward: Inward::Flowing,
            local_paused: false,
            told_paused: false,
            reply_since: None,
            wake: None,
            joined: now,
            end: None,
        }
    }

    /// True when Data may go out.
    pub(super) fn sends(&self) -> bool {
        matches!(self.wire, Wire::Open(_)) && !self.peer_paused && !self.out.is_empty()
    }

    /// True when nothing is to be delivered to its line any more.
    pub(super) const fn delivered(&self) -> bool {
        self.left || matches!(self.inward, Inward::FinTold)
    }

    /// True when nothing but its Close is left to send (M05).
    pub(super) fn is_closing(&self) -> bool {
        self.outward == Outward::Closing && self.out.is_empty()
    }

    /// True while something of it is to leave before its peer can end it: a reply is not overdue
    /// before that (M31).
    pub(super) fn is_unsent(&self) -> bool {
        self.wire == Wire::Waiting || !self.out.is_empty()
    }

    /// True when its line is done with it, or it is being closed, and what it has to send is not
    /// out (T05).
    pub(super) fn lingers(&self) -> bool {
        match self.outward {
            Outward::Closing => self.is_unsent(),
            Outward::Ended => self.left,
            Outward::Flowing | Outward::Fin => false,
        }
    }
}
