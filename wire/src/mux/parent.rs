//! One side of one parent: its children, what waits of each, and who goes next.

mod limits;
mod local;
mod receive;
mod sound;
mod transmit;
mod turns;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::child::{ByKey, Child, ChildKey, Inward, Outward, Owed, Owner, Wire};
use super::cids::Cids;
use super::reason::{ChildEnd, Dropped, FrameKind, ParentPause};
use crate::line::PauseReason;
use crate::queue::Buffers;
use limits::Stalls;
use turns::Turns;

/// Which side of the wire a parent is.
#[derive(Clone, Debug)]
pub enum Side {
    /// Opens children, each under the next of its numbers (M07, M15).
    Client(Cids),
    /// Has children opened, at most so many at a time (M17, M32).
    Server {
        /// `max-children`.
        most: usize,
    },
}

/// What one parent may hold, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `child-buffer-limit`, in bytes (M24).
    pub child_buffer: usize,
    /// `child-buffer-resume-threshold`, in bytes (M23).
    pub child_resume: usize,
    /// `child-stall-timeout-ms` (M24, M25).
    pub child_stall: Duration,
    /// `parent-buffer-limit`, in bytes; `None` = off (M25).
    pub parent_buffer: Option<usize>,
    /// `half-close` (M30).
    pub half_close: bool,
    /// `half-close-timeout-ms` (M31).
    pub half_close_timeout: Duration,
    /// How long the last Data of a child that is gone may take to leave (T05).
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            child_buffer: 8 << 20,
            child_resume: 512 << 10,
            child_stall: Duration::from_secs(10),
            parent_buffer: Some(32 << 20),
            half_close: true,
            half_close_timeout: Duration::from_secs(2),
            linger: Duration::from_secs(60),
        }
    }
}

/// What a parent has for its owner.
#[derive(Debug)]
pub enum Event<T> {
    /// The peer opened this child: a line is to be made for it, and handed to [`Parent::attach`]
    /// before anything else is asked of the parent (M17).
    Opened(ChildKey),
    /// The Open of this child is out (M15).
    Est(ChildKey),
    /// The source of this child is to stop for this reason (M26, M27).
    Pause(ChildKey, PauseReason),
    /// This reason to stop is over.
    Resume(ChildKey, PauseReason),
    /// Nothing follows what was delivered to this child; its other direction goes on (M30).
    InputEnded(ChildKey),
    /// This child stands for the reply alone (M31).
    Kept(ChildKey),
    /// It does so no more.
    KeptNoMore(ChildKey),
    /// Both directions of this child ended with Fin: nothing follows what was delivered to it, and
    /// its line ends by itself (M30).
    Over(ChildKey, T),
    /// The child is over, behind what was delivered to it; nothing more is asked of its line.
    Finish(ChildKey, T, ChildEnd),
}

/// What passed since it was asked for last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that were sent, by kind.
    pub sent: [u64; FrameKind::ALL.len()],
    /// Frames that came, by kind; dropped ones included.
    pub received: [u64; FrameKind::ALL.len()],
    /// Payload bytes that were sent.
    pub sent_bytes: u64,
    /// Payload bytes that came for a child.
    pub received_bytes: u64,
    /// Frames that were dropped, by reason.
    pub dropped: [u64; Dropped::ALL.len()],
    /// Times that reading was paused, by reason.
    pub pauses: [u64; ParentPause::ALL.len()],
    /// Children that began.
    pub opened: u64,
    /// Children that ended, by reason.
    pub ended: [u64; ChildEnd::ALL.len()],
    /// Bytes that were thrown away (M20, M24, M25).
    pub lost_bytes: u64,
    /// Times that the peer agreed to half-closes (M30): once for each parent.
    pub agreed: u64,
}

/// Control frames that may wait before reading is paused (M32).
pub const MOST_CONTROL: usize = 4096;

/// One side of one parent. Its owner reads and writes the transport, and asks after each call for
/// [deliveries](Self::poll_delivery) first and [events](Self::poll_event) then.
#[derive(Debug)]
pub struct Parent<T> {
    side: Side,
    limits: Limits,
    children: ByKey<Child<T>>,
    cids: HashMap<u32, ChildKey>,
    next_key: u64,
    /// The transport is up (`Est`).
    up: bool,
    /// The transport took not all that it was given (M27).
    blocked: bool,
    /// The transport is gone (M20).
    lost: bool,
    /// The transport takes nothing any more, and what came by it is still read.
    muted: bool,
    /// No child is taken any more (M11, M12).
    exhausted: bool,
    /// The peer understands half-closes (M30).
    agreed: bool,
    /// Children without Open, in the order in which they joined.
    waiting: BTreeSet<ChildKey>,
    /// Children that owe control frames (M28).
    control: VecDeque<ChildKey>,
    /// How many frames these owe.
    owed: usize,
    /// Cids that get Close and nothing else (M32).
    refused: VecDeque<u32>,
    /// Children with Data to send, each in its turn (M29).
    ready: Turns,
    /// Children with something to deliver.
    due: VecDeque<ChildKey>,
    events: VecDeque<Event<T>>,
    /// Bytes in the queues of all children.
    queued: usize,
    /// Children that did not take FlowResume since their last FlowPause went out.
    paused: usize,
    pause: Option<ParentPause>,
    stalls: Stalls,
    counts: Counts,
}

impl<T: Owner> Parent<T> {
    /// A parent without children, whose transport is not up.
    pub fn new(side: Side, limits: Limits) -> Self {
        Self {
            side,
            limits,
            children: ByKey::default(),
            cids: HashMap::new(),
            next_key: 0,
            up: false,
            blocked: false,
            lost: false,
            muted: false,
            exhausted: false,
            agreed: false,
            waiting: BTreeSet::new(),
            control: VecDeque::new(),
            owed: 0,
            refused: VecDeque::new(),
            ready: Turns::default(),
            due: VecDeque::new(),
            events: VecDeque::new(),
            queued: 0,
            paused: 0,
            pause: None,
            stalls: Stalls::default(),
            counts: Counts::default(),
        }
    }

    /// The transport is up (`Est`).
    pub const fn established(&mut self) {
        self.up = true;
    }

    /// The next thing that the owner has to do.
    pub fn poll_event(&mut self) -> Option<Event<T>> {
        self.events.pop_front()
    }

    /// Whoever has this child, while somebody has it.
    pub fn owner(&self, key: ChildKey) -> Option<&T> {
        self.children.get(&key)?.owner.as_ref()
    }

    /// Children that live, those without Open included.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// True without a child.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// The keys of its children, in the order in which they came.
    pub fn all_keys(&self) -> Vec<ChildKey> {
        let mut keys: Vec<_> = self.children.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    /// Bytes that wait in the queues of its children.
    pub const fn queued(&self) -> usize {
        self.queued
    }

    /// Children to which FlowPause was sent, and no FlowResume since.
    pub const fn paused(&self) -> usize {
        self.paused
    }

    /// Why the transport is not to be read, if so (M32): nothing but these three stops it.
    pub const fn stops_reading(&self) -> Option<ParentPause> {
        self.pause
    }

    /// Takes no further child: it is exhausted (M12), or drained by an operator. A server answers
    /// further Opens with Close.
    pub const fn exhaust(&mut self) {
        self.exhausted = true;
    }

    /// True once it takes no further child.
    pub const fn is_exhausted(&self) -> bool {
        self.exhausted || self.lost
    }

    /// True when it takes no further child, has none, and owes nothing: it is to be closed (M12).
    pub fn is_over(&self) -> bool {
        self.is_exhausted() && self.children.is_empty() && (self.lost || self.refused.is_empty())
    }

    /// The numbers of a client's side.
    pub const fn cids(&mut self) -> Option<&mut Cids> {
        match &mut self.side {
            Side::Client(cids) => Some(cids),
            Side::Server { .. } => None,
        }
    }

    /// What passed since this was called last.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    const fn is_server(&self) -> bool {
        matches!(self.side, Side::Server { .. })
    }

    /// The transport is gone (M20). Children of which something was sent are over, behind what has
    /// come for them. Gives how many others there are, which wait for [another](Self::again).
    pub fn transport_lost(&mut self, pool: &impl Buffers) -> usize {
        self.up = false;
        self.blocked = false;
        self.lost = true;
        let mut gone: Vec<_> = Vec::new();
        for (key, child) in &mut self.children {
            // What is not read any more freezes nobody (M24, M25).
            child.full = false;
            match child.wire {
                Wire::Open(_) => gone.push(*key),
                Wire::Waiting if std::mem::take(&mut child.transport_paused) && !child.left => {
                    self.events.push_back(Event::Resume(*key, PauseReason::Transport));
                }
                Wire::Waiting | Wire::Over => {}
            }
        }
        self.stalls.clear();
        // In the order in which they came, whatever the table's is.
        gone.sort_unstable();
        for key in gone {
            self.wire_over(key, ChildEnd::ParentLost, pool);
            self.sweep(key);
        }
        for key in std::mem::take(&mut self.control) {
            if let Some(child) = self.children.get_mut(&key) {
                child.in_control = false;
            }
        }
        self.refused.clear();
        self.judge_reading();
        self.waiting.len()
    }

    /// The transport takes nothing any more. Frames that nobody can send keep nothing from being
    /// read: the end of the transport stands behind what is left to read (M20, M32).
    pub fn mute(&mut self) {
        self.muted = true;
        self.refused.clear();
        self.judge_reading();
    }

    /// True while too many control frames wait (M32).
    fn is_control_full(&self) -> bool {
        !self.muted && self.owed + self.refused.len() > MOST_CONTROL
    }

    /// Another transport is on its way, for the children that wait (M14).
    pub fn again(&mut self) {
        self.lost = false;
        self.muted = false;
        if std::mem::take(&mut self.agreed) {
            // Whose end of input waited for its Open waits for another agreement (M30).
            for key in &self.waiting {
                if let Some(child) = self.children.get_mut(key)
                    && child.outward == Outward::Ended
                    && child.reply_since.is_none()
                {
                    child.reply_since = Some(child.joined);
                    self.events.push_back(Event::Kept(*key));
                    self.stalls.happened(*key);
                }
            }
        }
        if let Side::Client(cids) = &mut self.side {
            cids.restart();
        }
    }

    /// Ends the children without Open that joined up to this time (M14).
    pub fn give_up_waiting(&mut self, until: Instant, pool: &impl Buffers) {
        while let Some(key) = self.waiting.first().copied() {
            if self.children.get(&key).is_some_and(|child| child.joined > until) {
                return;
            }
            self.waiting.pop_first();
            self.wire_over(key, ChildEnd::ParentFailed, pool);
            self.sweep(key);
        }
    }

    /// When the first of the children without Open joined.
    pub fn waiting_since(&self) -> Option<Instant> {
        self.waiting.first().and_then(|key| self.children.get(key)).map(|child| child.joined)
    }

    /// The child is over before its time: what it has to send is lost, and nothing comes for it any
    /// more.
    fn wire_over(&mut self, key: ChildKey, end: ChildEnd, pool: &impl Buffers) {
        self.leave_wire(key);
        self.drop_unsent(key, pool);
        self.keep_no_more(key);
        self.close_inward(key, end);
    }

    /// No frame of this child comes or goes any more.
    fn leave_wire(&mut self, key: ChildKey) {
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        if let Wire::Open(cid) = std::mem::replace(&mut child.wire, Wire::Over) {
            self.cids.remove(&cid);
        }
        self.owed -= child.owed.count();
        child.owed = Owed::default();
        if std::mem::take(&mut child.told_paused) {
            self.paused -= 1;
        }
        self.unwake(key);
    }

    /// Nothing comes for this child any more; what has come is still delivered.
    fn close_inward(&mut self, key: ChildKey, end: ChildEnd) {
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        child.end.get_or_insert(end);
        child.inward = Inward::Closed;
        self.tell_end(key);
    }

    /// Frames of this child are owed.
    fn owe(&mut self, key: ChildKey, frame: Owed) {
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        if !matches!(child.wire, Wire::Open(_)) {
            return;
        }
        if child.owed.add(frame) {
            self.owed += 1;
            if !std::mem::replace(&mut child.in_control, true) {
                self.control.push_back(key);
            }
        }
    }

    /// A frame is not owed any more, sent or not.
    fn settle(&mut self, key: ChildKey, frame: Owed) -> bool {
        let Some(child) = self.children.get_mut(&key) else {
            return false;
        };
        let was = child.owed.take(frame);
        self.owed -= usize::from(was);
        was
    }

    /// Takes the child away once nothing is left to do for it.
    fn sweep(&mut self, key: ChildKey) {
        let over = |child: &Child<T>| child.wire == Wire::Over && child.delivered();
        if !self.children.get(&key).is_some_and(over) {
            return;
        }
        self.unwake(key);
        if let Some(child) = self.children.remove(&key) {
            debug_assert!(child.out.is_empty(), "a child that is over has bytes to send");
            let end = child.end.unwrap_or(ChildEnd::Finished);
            self.counts.ended[end as usize] += 1;
            if let Some(owner) = child.owner {
                self.events.push_back(Event::Over(key, owner));
            }
        }
        if self.children.is_empty() {
            // What many children needed is not kept for none.
            self.children.shrink_to(64);
            self.cids.shrink_to(64);
        }
        self.tidy();
    }

    /// Children that are gone do not add up in the lists while nobody takes anything from these.
    fn tidy(&mut self) {
        let most = 2 * self.children.len() + 64;
        let [little, much] = self.ready.lists();
        for list in [&mut self.control, little, much, &mut self.due] {
            if list.len() > most {
                list.retain(|key| self.children.contains_key(key));
                list.shrink_to(most);
            }
        }
    }
}

#[cfg(test)]
mod tests;
