//! Links: what the socket keeps for each peer, and for each of its connections.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use slab::Slab;

use super::counted::Counted;
use super::requests::Request;
use super::routes::RouteKey;
use super::{Closing, ConnectionId, Origin, Weight};
use crate::zmp::flow::{PeerFlow, Pending};
use crate::zmp::record::{Charge, Kind, Lane, Outgoing, Record, RoutingId, SocketKind};

/// The Completion lane has no water mark, but holds this much and no more, in bytes.
pub const COMPLETION_LIMIT: Charge = 64 << 20;

/// Room for this many records is always kept.
const KEPT: usize = 16;

/// Names one link, and no later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LinkKey {
    index: u32,
    serial: u64,
}

/// Where a link is in its life; the picture is at [`super::Core`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A connection of it is missing.
    Assembling,
    /// Records may go to it.
    Active,
    /// Another link of its routing id is active (R-D2).
    Standby,
    /// Over. Its connections are to close, and what it brought may still be taken.
    Ended,
}

impl State {
    pub(super) fn is_over(self) -> bool {
        self == Self::Ended
    }
}

/// One connection of a link.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) id: ConnectionId,
    pub(super) local: Arc<str>,
    pub(super) remote: Arc<str>,
    queue: VecDeque<(Kind, Record)>,
    /// Charge of what is queued, and of what the connection has and did not yet write.
    pub(super) outstanding: Charge,
    /// No room: free again when no more than this is outstanding.
    pub(super) full: Option<Charge>,
    /// What goes between records.
    controls: Pending,
    /// Where in the order of records: behind this many.
    controls_after: u64,
    pushed: u64,
    popped: u64,
    /// The most records that waited since the queue was empty.
    peak: usize,
    /// Charge of all that was taken.
    pub(super) taken: Charge,
    /// Charge of what arrived and was not taken.
    pub(super) untaken: Charge,
    /// Its reading waits for room.
    pub(super) blocked: bool,
    /// Woken, and had no turn since.
    pub(super) told: bool,
    /// It left with nothing more to write.
    hungry: bool,
    pub(super) closing: Option<Closing>,
}

impl Pipe {
    pub(super) fn new(id: ConnectionId, local: Arc<str>, remote: Arc<str>) -> Self {
        Self {
            id,
            local,
            remote,
            queue: VecDeque::new(),
            outstanding: 0,
            full: None,
            controls: Pending::new(),
            controls_after: 0,
            pushed: 0,
            popped: 0,
            peak: 0,
            taken: 0,
            untaken: 0,
            blocked: false,
            told: false,
            hungry: true,
            closing: None,
        }
    }

    /// The rule of 4.2: an empty queue takes one record of any size.
    pub(super) fn has_room(&self, charge: Charge, hwm: Charge) -> bool {
        let after = self.outstanding.saturating_add(charge);
        self.full.is_none() && (hwm == 0 || self.outstanding == 0 || after <= hwm)
    }

    /// A record was refused for want of room: there is room again at the low-water mark, or with
    /// an empty queue where less than that was in the way.
    pub(super) fn set_full(&mut self, hwm: Charge) {
        let low = hwm.div_ceil(2);
        self.full = Some(if self.outstanding > low { low } else { 0 });
    }

    /// Written, or lost. True when there is room again.
    pub(super) fn drained(&mut self, charge: Charge) -> bool {
        self.outstanding -= charge;
        let freed = self.full.is_some_and(|mark| self.outstanding <= mark);
        if freed {
            self.full = None;
        }
        freed
    }

    /// Queues a record. True when the connection does not know of any.
    pub(super) fn push(&mut self, kind: Kind, record: Record, charge: Charge) -> bool {
        self.outstanding += charge;
        self.pushed += 1;
        self.queue.push_back((kind, record));
        self.peak = self.peak.max(self.queue.len());
        std::mem::take(&mut self.hungry)
    }

    /// Sets the weight to tell. True when the connection does not know of anything to write.
    pub(super) fn set_weight(&mut self, weight: Weight) -> bool {
        self.controls.set_weight(weight);
        self.controls_set()
    }

    /// Sets the flow state to tell. True as with [`Self::set_weight`].
    pub(super) fn set_flow(
        &mut self,
        state: super::FlowState,
        epoch: std::num::NonZeroU64,
    ) -> bool {
        self.controls.set_flow(state, epoch);
        self.controls_set()
    }

    /// Behind every record that is committed (1.4).
    fn controls_set(&mut self) -> bool {
        self.controls_after = self.pushed;
        !self.controls.is_empty() && std::mem::take(&mut self.hungry)
    }

    /// The next thing to write.
    pub(super) fn pop(&mut self) -> Option<Outgoing> {
        if self.popped >= self.controls_after
            && let Some(control) = self.controls.pop()
        {
            return Some(control);
        }
        let (kind, record) = self.queue.pop_front()?;
        self.popped += 1;
        Some(Outgoing::Record(kind, record))
    }

    /// Nothing waits to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.controls.is_empty()
    }

    /// The connection was given what it has room for: with nothing left it is woken by the next
    /// record. The memory of a burst is given back when less than that suffices.
    pub(super) fn rest(&mut self) {
        self.hungry = self.is_empty();
        if self.hungry {
            let peak = std::mem::take(&mut self.peak).max(KEPT);
            if peak < self.queue.capacity() / 4 {
                self.queue.shrink_to(self.queue.capacity() / 2);
            }
        }
    }

    /// Records that were not written and never will be.
    pub(super) fn discard(&mut self) -> impl Iterator<Item = (Kind, Record)> + '_ {
        self.controls = Pending::new();
        self.popped = self.pushed;
        self.queue.drain(..)
    }
}

/// A peer.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) state: State,
    pub(super) peer: SocketKind,
    /// The routing id of its HELLO.
    pub(super) id: Bytes,
    /// The id by which this ROUTER knows it.
    pub(super) name: Option<RoutingId>,
    pub(super) route: Option<RouteKey>,
    pub(super) endpoint: Arc<str>,
    pub(super) origin: Origin,
    /// The largest record that it takes; 0 = no limit.
    pub(super) largest: u64,
    /// By lane.
    pub(super) pipes: [Option<Pipe>; 2],
    pub(super) weight: Weight,
    pub(super) flow: PeerFlow,
    /// Active, running, of positive weight and with room: counted in the socket.
    pub(super) writable: bool,
    /// As [`Self::writable`], whatever the weight: the scheduler knows that itself.
    pub(super) excluded: bool,
    /// It has its place in the turns of those that have something to take.
    pub(super) in_turn: bool,
    /// The connection of the Application lane; what arrived came on it.
    pub(super) connection: ConnectionId,
    /// What this side asked, by sequence.
    pub(super) requests: Counted<Request>,
    /// What the peer asked and was not answered. The peer chooses these numbers.
    pub(super) live: HashSet<u64>,
    /// What arrived and was not taken.
    pub(super) inbound: VecDeque<(Kind, Record)>,
    pub(super) records_out: u64,
    pub(super) records_in: u64,
}

impl Link {
    /// Connections that its link has (1.4).
    pub(super) fn lanes(&self, own: SocketKind) -> u8 {
        own.lanes_with(self.peer)
    }

    pub(super) fn pipe(&mut self, lane: Lane) -> Option<&mut Pipe> {
        self.pipes[usize::from(lane.byte())].as_mut()
    }

    pub(super) fn application(&self) -> Option<&Pipe> {
        self.pipes[0].as_ref()
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Active | State::Standby)
    }

    /// The peer takes records of this size.
    pub(super) fn takes(&self, payload: u64) -> bool {
        self.largest == 0 || payload <= self.largest
    }

    /// Which side made it.
    pub(super) fn is_dialled(&self) -> bool {
        matches!(self.origin, Origin::Dialled(_))
    }
}

/// All links.
#[derive(Debug, Default)]
pub(super) struct Links {
    slab: Slab<(u64, Link)>,
    serial: u64,
}

impl Links {
    pub(super) fn insert(&mut self, link: Link) -> LinkKey {
        self.serial += 1;
        let index = self.slab.insert((self.serial, link)) as u32;
        LinkKey { index, serial: self.serial }
    }

    pub(super) fn get(&self, key: LinkKey) -> Option<&Link> {
        let (serial, link) = self.slab.get(key.index as usize)?;
        (*serial == key.serial).then_some(link)
    }

    pub(super) fn get_mut(&mut self, key: LinkKey) -> Option<&mut Link> {
        let (serial, link) = self.slab.get_mut(key.index as usize)?;
        (*serial == key.serial).then_some(link)
    }

    pub(super) fn remove(&mut self, key: LinkKey) -> Option<Link> {
        self.get(key)?;
        Some(self.slab.remove(key.index as usize).1)
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn keys(&self) -> Vec<LinkKey> {
        let key = |(index, (serial, _)): (usize, &(u64, Link))| LinkKey {
            index: index as u32,
            serial: *serial,
        };
        self.slab.iter().map(key).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.slab.iter().map(|(_, (_, link))| link)
    }
}

/// What is queued in all links together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Charge queued, or with a connection and not written.
    pub(super) out: Charge,
    /// Records queued to be written, and their charge.
    pub(super) out_records: u64,
    pub(super) out_queued: Charge,
    /// Charge that arrived and was not taken.
    pub(super) inward: Charge,
    /// Records that wait to be taken, and their charge.
    pub(super) in_records: u64,
    pub(super) in_queued: Charge,
}
