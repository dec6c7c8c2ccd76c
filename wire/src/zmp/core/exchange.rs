//! One exchange with a connection: what it wrote and read, and what it is to write.

use std::time::Instant;

use super::links::{LinkKey, State};
use super::requests::{error_reply, reply};
use super::{Closing, ConnectionId, Core, HeldCharge, Turn};
use super::{FlowState, Weight};
use crate::zmp::flow::FlowChange;
use crate::zmp::frame::{ErrorCode, ProtocolError};
use crate::zmp::monitor::{EventKind, SEND_FLOW_WRITABLE, STALE_EPOCH};
use crate::zmp::record::{Charge, Inbound, Kind, Lane, Outgoing, Record, SocketKind};
use crate::zmp::status::Drop;

/// What the headers of a record are counted when a turn is filled, in bytes.
const HEADERS: u64 = 16;

impl Core {
    /// One exchange with a connection. One that is unknown, because it was refused or has ended, is
    /// told to close.
    ///
    /// # Errors
    /// The peer broke the protocol with a record that no decoder can judge: a REQUEST at a DEALER,
    /// a live sequence again, a REPLY on a wrong lane. What came before it was taken.
    pub fn turn(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        turn: &mut Turn,
    ) -> Result<(), ProtocolError> {
        let Some(&(key, lane)) = self.connections.get(&connection.0) else {
            turn.received.clear();
            (turn.written, turn.more, turn.close) = (0, false, Some(Closing::Removed));
            return Ok(());
        };
        let written = std::mem::take(&mut turn.written);
        if let Some(pipe) = self.links.get_mut(key).and_then(|link| link.pipe(lane)) {
            pipe.told = false;
            pipe.blocked = turn.blocked;
        }
        if written > 0 {
            self.written(key, lane, written);
        }
        let received = if turn.received.is_empty() {
            Ok(())
        } else {
            self.receive(now, key, lane, connection, &mut turn.received)
        };
        self.fill(key, lane, turn);
        received
    }

    /// So many records were given to a connection that ended before they were wholly written. They
    /// are counted, and not sent again.
    pub fn lost(&mut self, records: u64) {
        self.counters.dropped[Drop::Broken] += records;
    }

    /// Charge comes back: somebody may send again.
    fn written(&mut self, key: LinkKey, lane: Lane, written: Charge) {
        let own = self.options.kind;
        let Some(link) = self.links.get_mut(key) else { return };
        let replies = if link.lanes(own) == 2 { Lane::Completion } else { Lane::Application };
        let Some(pipe) = link.pipe(lane) else { return };
        let written = written.min(pipe.outstanding);
        let freed = pipe.drained(written);
        self.load.out -= written;
        if freed {
            if lane == Lane::Application {
                self.refresh(key);
                if self.links.get(key).is_some_and(|link| link.writable) {
                    self.edge(key);
                }
            }
            if lane == replies {
                self.reply_edge(key);
            }
        }
        self.check_drained();
    }

    /// Gives what waits, as much as there is room for.
    fn fill(&mut self, key: LinkKey, lane: Lane, turn: &mut Turn) {
        turn.receive_hwm = self.options.receive_hwm;
        let Some(link) = self.links.get_mut(key) else { return };
        turn.ready = link.is_ready();
        let Some(pipe) = link.pipe(lane) else { return };
        let mut room = turn.room as u64;
        let (mut records, mut charge) = (0, 0);
        while room > 0 {
            let Some(outgoing) = pipe.pop() else { break };
            let size = match &outgoing {
                Outgoing::Record(_, record) => {
                    records += 1;
                    charge += record.charge();
                    record.payload() + HEADERS * record.parts().len() as u64
                }
                Outgoing::Weight(_) | Outgoing::FlowState { .. } => 2 * HEADERS,
            };
            room = room.saturating_sub(size);
            turn.outgoing.push(outgoing);
        }
        pipe.rest();
        turn.more = !pipe.is_empty();
        turn.taken = pipe.taken;
        turn.close = pipe.closing;
        self.load.out_records -= records;
        self.load.out_queued -= charge;
    }

    fn receive(
        &mut self,
        now: Instant,
        key: LinkKey,
        lane: Lane,
        connection: ConnectionId,
        received: &mut Vec<Inbound>,
    ) -> Result<(), ProtocolError> {
        let mut result = Ok(());
        for inbound in received.drain(..) {
            match inbound {
                Inbound::Record(kind, record) => {
                    result = self.receive_record(key, lane, connection, kind, record);
                    if result.is_err() {
                        break;
                    }
                }
                Inbound::Weight(weight) if lane == Lane::Application => {
                    self.receive_weight(key, weight);
                }
                Inbound::FlowState { state, epoch } => {
                    self.receive_flow(now, key, lane, state, epoch);
                }
                Inbound::Weight(_) | Inbound::Malformed => self.counters.malformed += 1,
            }
        }
        self.show_inbound(key);
        result
    }

    fn receive_record(
        &mut self,
        key: LinkKey,
        lane: Lane,
        connection: ConnectionId,
        kind: Kind,
        record: Record,
    ) -> Result<(), ProtocolError> {
        let own = self.options.kind;
        let charge = record.charge();
        let Some(link) = self.links.get_mut(key) else { return Ok(()) };
        judge(own, lane, kind)?;
        if let Kind::Request(sequence) = kind
            && !link.state.is_over()
            && !link.live.insert(sequence.get())
        {
            return Err(ProtocolError {
                code: ErrorCode::Sequence,
                what: "a request has the sequence of one that was not answered",
            });
        }
        link.records_in += 1;
        self.counters.received.count(kind, record.payload());
        let over = link.state.is_over();
        let first = link.inbound.is_empty();
        let Some(pipe) = link.pipe(lane) else { return Ok(()) };
        pipe.untaken += charge;
        self.load.inward += charge;
        let held = HeldCharge { connection, charge };
        if over || self.closed {
            self.counters.dropped[Drop::Broken] += 1;
            self.release(held);
            return Ok(());
        }
        match kind {
            // Nothing is in front of it: it is a completion at once (D-R6).
            Kind::Reply(sequence) if first || lane == Lane::Completion => {
                self.resolve(key, sequence, |held| reply(record, held), held);
            }
            Kind::ErrorReply(sequence) if first || lane == Lane::Completion => {
                self.resolve(key, sequence, |held| error_reply(record, held), held);
            }
            _ => {
                link.inbound.push_back((kind, record));
                self.load.in_records += 1;
                self.load.in_queued += charge;
            }
        }
        Ok(())
    }

    /// The peer's weight (1.7, D-G2).
    fn receive_weight(&mut self, key: LinkKey, weight: Weight) {
        let Some(link) = self.links.get_mut(key) else { return };
        if link.state.is_over() {
            return;
        }
        let old = std::mem::replace(&mut link.weight, weight);
        if old == weight {
            return;
        }
        let active = link.state == State::Active;
        if active && self.options.kind == SocketKind::Dealer {
            self.scheduler.set_weight(key, weight);
        }
        self.tell(key, EventKind::PeerWeightChanged, u64::from(weight.get()), 0);
        let writable = self.refresh(key);
        // From nothing to something is an edge whatever else is in the way (D-W2).
        if active && (writable || old.get() == 0) {
            self.edge(key);
        }
    }

    /// The peer's flow state (1.7, D-F4).
    fn receive_flow(
        &mut self,
        now: Instant,
        key: LinkKey,
        lane: Lane,
        state: FlowState,
        epoch: std::num::NonZeroU64,
    ) {
        let own = self.options.kind;
        let Some(link) = self.links.get_mut(key) else { return };
        let right = if link.lanes(own) == 2 { Lane::Completion } else { Lane::Application };
        if link.state.is_over() || lane != right {
            self.counters.flow.stale_total += 1;
            return;
        }
        let change = link.flow.accept(state, epoch, now);
        self.counters.flow.accepted(change);
        match change {
            FlowChange::Paused => {
                self.refresh(key);
                self.tell(key, EventKind::SendFlowPaused, epoch.get(), 0);
            }
            FlowChange::Resumed { .. } => {
                let writable = self.refresh(key);
                let flags = if writable { SEND_FLOW_WRITABLE } else { 0 };
                self.tell(key, EventKind::SendFlowResumed, epoch.get(), flags);
                // With weight 0 it is nobody's target (D-W1).
                if self.links.get(key).is_some_and(|link| link.weight.get() > 0) {
                    self.edge(key);
                }
                self.reply_edge(key);
            }
            FlowChange::Same => {}
            FlowChange::Stale => {
                self.tell(key, EventKind::FlowStateStale, epoch.get(), STALE_EPOCH);
            }
        }
    }
}

/// What a peer may send to a socket of this kind on this lane (1.4, 1.6, X-8).
fn judge(own: SocketKind, lane: Lane, kind: Kind) -> Result<(), ProtocolError> {
    let (code, what) = match (own, lane, kind) {
        (SocketKind::Dealer, _, Kind::Request(_)) => {
            (ErrorCode::Internal, "a request came to a DEALER")
        }
        (SocketKind::Router, Lane::Application, Kind::Reply(_) | Kind::ErrorReply(_)) => {
            (ErrorCode::Kind, "a reply came on the Application lane of a ROUTER")
        }
        (SocketKind::Router, Lane::Completion, Kind::Data | Kind::Request(_)) => {
            (ErrorCode::Kind, "something else than a reply came on the Completion lane")
        }
        _ => return Ok(()),
    };
    Err(ProtocolError { code, what })
}
