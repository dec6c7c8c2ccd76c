//! The socket as a whole: what it tells its peers, what it tells of itself, how it ends.

use std::num::NonZeroU64;
use std::time::Instant;

use super::links::{LinkKey, State};
use super::{Closing, Core, CoreOptions, FlowState, Readiness, Wake, Weight};
use crate::zmp::monitor::{Event, EventQueue};
use crate::zmp::record::{Charge, FRAME_CHARGE, Kind, Lane, Record, RoutingId, SocketKind};
use crate::zmp::status::{Counters, Hwm, PeerStatus, Status, Waiting};

impl Core {
    /// Moves everything that is to be told to the end of `wakes`, each once, in order.
    pub fn take_wakes(&mut self, wakes: &mut Vec<Wake>) {
        self.wakes.take(wakes);
    }

    // ---- what other parts use -----------------------------------------------------------------

    /// A record goes to a link, whatever is queued there.
    pub(super) fn push(&mut self, key: LinkKey, lane: Lane, kind: Kind, record: Record) {
        let charge = record.charge();
        let Some(link) = self.links.get_mut(key) else { return };
        link.records_out += 1;
        let Some(pipe) = link.pipe(lane) else { return };
        self.counters.sent.count(kind, record.payload());
        self.load.out += charge;
        self.load.out_records += 1;
        self.load.out_queued += charge;
        if pipe.push(kind, record, charge) {
            self.wakes.connection(pipe);
        }
        // Nothing more fits, which is known before somebody tries in vain (D-S1).
        let hwm = self.options.send_hwm;
        if lane == Lane::Application && !pipe.has_room(FRAME_CHARGE, hwm) {
            self.mark_full(key, lane, hwm);
        }
    }

    /// A link had no room for a record.
    pub(super) fn mark_full(&mut self, key: LinkKey, lane: Lane, hwm: Charge) {
        if let Some(pipe) = self.links.get_mut(key).and_then(|link| link.pipe(lane)) {
            if pipe.full.is_none() {
                pipe.set_full(hwm);
            }
            self.refresh(key);
        }
    }

    /// Looks again at whether a link can take records, and tells those who count on it. True when
    /// it can.
    pub(super) fn refresh(&mut self, key: LinkKey) -> bool {
        let Some(link) = self.links.get_mut(key) else { return false };
        let full = link.application().is_none_or(|pipe| pipe.full.is_some());
        let excluded = link.state != State::Active || link.flow.is_paused() || full;
        let writable = !excluded && link.weight.get() > 0;
        let was_excluded = std::mem::replace(&mut link.excluded, excluded);
        let was_writable = std::mem::replace(&mut link.writable, writable);
        match (was_writable, writable) {
            (false, true) => self.writable += 1,
            (true, false) => self.writable -= 1,
            _ => {}
        }
        if self.options.kind == SocketKind::Dealer && was_excluded != excluded {
            if excluded {
                self.scheduler.exclude(key);
            } else {
                self.scheduler.include(key);
            }
        }
        writable
    }

    // ---- what peers are told ------------------------------------------------------------------

    /// `set_receive_flow_state` (D-F1). Setting the state that the socket has does nothing.
    pub fn set_receive_flow_state(&mut self, now: Instant, state: FlowState) {
        let _ = now;
        if self.closed {
            return;
        }
        let Some((state, epoch)) = self.flow.set(state) else { return };
        self.counters.epochs_issued = self.flow.epochs();
        let own = self.options.kind;
        for key in self.links.keys() {
            let Some(link) = self.links.get_mut(key).filter(|link| link.is_ready()) else {
                continue;
            };
            let lane = if link.lanes(own) == 2 { Lane::Completion } else { Lane::Application };
            if let Some(pipe) = link.pipe(lane)
                && pipe.set_flow(state, epoch)
            {
                self.wakes.connection(pipe);
            }
        }
    }

    /// Sets the weight that peers are told (D-G1).
    pub fn set_weight(&mut self, weight: Weight) {
        self.options.weight = weight;
        for key in self.links.keys() {
            let Some(link) = self.links.get_mut(key).filter(|link| link.is_ready()) else {
                continue;
            };
            if let Some(pipe) = link.pipe(Lane::Application)
                && pipe.set_weight(weight)
            {
                self.wakes.connection(pipe);
            }
        }
    }

    // ---- options ------------------------------------------------------------------------------

    /// The options as they are.
    pub fn options(&self) -> &CoreOptions {
        &self.options
    }

    /// Changes options that may change at any time: probe, request timeout, mandatory, duplicates,
    /// the two limits, the size. Neither kind nor routing id nor weight.
    pub fn set_options(&mut self, set: impl FnOnce(&mut CoreOptions)) {
        let (kind, id, weight) =
            (self.options.kind, self.options.routing_id.clone(), self.options.weight);
        set(&mut self.options);
        (self.options.kind, self.options.routing_id, self.options.weight) = (kind, id, weight);
        for key in self.links.keys() {
            self.look_again(key);
        }
        if self.has_input() {
            self.wakes.readable();
        }
    }

    /// A limit may have been raised: what it held back goes on.
    fn look_again(&mut self, key: LinkKey) {
        let (hwm, low) = (self.options.send_hwm, self.options.receive_hwm.div_ceil(2));
        let Some(link) = self.links.get_mut(key) else { return };
        let Some(pipe) = link.pipe(Lane::Application) else { return };
        if pipe.blocked && (low == 0 || pipe.untaken <= low) {
            pipe.blocked = false;
            self.wakes.connection(pipe);
        }
        if pipe.full.is_some() && (hwm == 0 || pipe.outstanding <= hwm.div_ceil(2)) {
            pipe.full = None;
            if self.refresh(key) {
                self.edge(key);
                self.reply_edge(key);
            }
        }
    }

    // ---- what it tells of itself --------------------------------------------------------------

    /// Levels of readiness (2.8).
    pub fn readiness(&self) -> Readiness {
        Readiness {
            input: self.has_input(),
            output: !self.closed && (self.writable > 0 || self.requests.has_writable()),
            completion: self.requests.has_completion(),
        }
    }

    /// The socket at this moment (4.7).
    pub fn status(&self) -> Status {
        let load = &self.load;
        Status {
            ready: self.active > 0,
            bound: !self.endpoints.bound.is_empty(),
            closed: self.closed,
            flow: self.counters.flow,
            send: Waiting {
                pending_msgs: load.out_records,
                pending_bytes: load.out_queued,
                bytes_in_flight: load.out - load.out_queued,
                hwm: Hwm::fixed(self.options.send_hwm),
                oversize_total: self.counters.oversize_out,
            },
            receive: Waiting {
                pending_msgs: load.in_records,
                pending_bytes: load.in_queued,
                bytes_in_flight: load.inward - load.in_queued,
                hwm: Hwm::fixed(self.options.receive_hwm),
                oversize_total: self.counters.oversize_in,
            },
        }
    }

    /// Every link that is not over.
    pub fn peers(&self) -> Vec<PeerStatus> {
        let links = self.links.iter().filter(|link| link.state != State::Ended);
        let peer = |link: &super::links::Link| {
            let pipes = || link.pipes.iter().flatten();
            PeerStatus {
                routing_id: link.name.as_ref().map_or_else(|| link.id.clone(), RoutingId::to_bytes),
                kind: link.peer,
                endpoint: link.endpoint.clone(),
                remote: pipes().next().map_or_else(|| "".into(), |pipe| pipe.remote.clone()),
                connection: link.application().map(|pipe| pipe.id),
                weight: link.weight,
                paused: link.flow.is_paused(),
                ready: link.is_ready(),
                standby: link.state == State::Standby,
                queued_out: pipes().map(|pipe| pipe.outstanding).sum(),
                queued_in: pipes().map(|pipe| pipe.untaken).sum(),
                records_out: link.records_out,
                records_in: link.records_in,
            }
        };
        links.map(peer).collect()
    }

    /// The weights of all ready peers, added up.
    pub fn peer_weights(&self) -> u64 {
        let ready = self.links.iter().filter(|link| link.is_ready());
        ready.map(|link| u64::from(link.weight.get())).sum()
    }

    /// The state that it asked of its peers, and the epoch of that (D-F1); `None` while it never
    /// set one.
    pub fn receive_flow_state(&self) -> Option<(FlowState, NonZeroU64)> {
        self.flow.current()
    }

    /// What was counted since the socket was made.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A decoder refused a record for its size (1.2).
    pub fn count_oversize(&mut self) {
        self.counters.oversize_in += 1;
    }

    /// What all links have queued or under way, in both directions.
    pub fn queued(&self) -> Charge {
        self.load.out + self.load.inward
    }

    /// Watches these kinds of events, at most `capacity` of them at a time.
    pub fn set_monitor(&mut self, mask: u32, capacity: usize) {
        self.monitor.set(mask, capacity);
    }

    /// The next event of the monitor.
    pub fn next_event(&mut self) -> Option<Event> {
        self.monitor.pop()
    }

    /// Adds an event that the socket itself does not see: of dials, binds and handshakes.
    pub fn report(&mut self, event: Event) {
        if self.monitor.push(event) {
            self.wakes.monitor();
        }
    }

    /// The events that wait, and who wants them.
    pub fn monitor(&self) -> &EventQueue {
        &self.monitor
    }

    // ---- the end ------------------------------------------------------------------------------

    /// Takes nothing more; tokens end silently (D-W7). What is queued can still be written.
    pub fn close(&mut self, now: Instant) {
        let _ = now;
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        self.end_waits();
        self.drop_requests();
        self.drop_replies();
        for key in self.links.keys() {
            self.discard_inbound(key);
            let Some(link) = self.links.get_mut(key) else { continue };
            for pipe in link.pipes.iter_mut().flatten() {
                pipe.closing.get_or_insert(Closing::Socket);
                self.wakes.connection(pipe);
            }
        }
        self.check_drained();
    }

    /// Nothing is queued or under way on any link.
    pub fn drained(&self) -> bool {
        self.load.out == 0
    }

    /// Tells who lingers.
    pub(super) fn check_drained(&mut self) {
        if self.closed && self.drained() {
            self.wakes.drained();
        }
    }
}
