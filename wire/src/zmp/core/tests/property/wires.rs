//! Connections between sockets, turn by turn.

use super::world::*;
use super::*;

impl World {
    pub(super) fn told(&mut self, link: u64, core: usize) -> &mut Told {
        let told = Told { weight: 100, paused: false, over: false, ready: false };
        self.told.entry((link, core)).or_insert(told)
    }

    /// Dials what is missing between two sockets: one connection. False when nothing is.
    pub(super) fn connect(&mut self, pair: usize, acceptor_first: bool) -> bool {
        let (dialler, acceptor) = PAIRS[pair];
        let lanes = KINDS[dialler].lanes_with(KINDS[acceptor]);
        let own: Vec<_> = self.wires.iter().filter(|wire| wire.pair == pair).collect();
        let alive: Vec<_> = own.iter().filter(|wire| wire.ends[0].attached).collect();
        // Nothing on the wire tells which two connections of an id belong together, so a second
        // link begins when nothing is left of the first one.
        let left = own.iter().filter(|wire| wire.ends[1].attached).count();
        if lanes == 2 && left != alive.len() {
            return false;
        }
        let (lane, link) = match alive.as_slice() {
            [] => (Lane::Application, None),
            [one] if lanes == 2 && one.lane == Lane::Application => {
                let lost = own.iter().any(|wire| wire.link == one.link && wire.lane != one.lane);
                if lost || self.told[&(one.link, dialler)].over {
                    return false;
                }
                (Lane::Completion, Some(one.link))
            }
            _ => return false,
        };
        let link = link.unwrap_or_else(|| {
            self.links += 1;
            self.links
        });
        let ends = [dialler, acceptor].map(|core| {
            self.connections += 1;
            End { core, id: self.connections, ..End::default() }
        });
        self.wires.push(Wire { pair, lane, link, ends });
        let wire = self.wires.len() - 1;
        let order = if acceptor_first { [1, 0] } else { [0, 1] };
        for end in order {
            self.attach(wire, end, lanes);
        }
        true
    }

    pub(super) fn attach(&mut self, wire: usize, end: usize, lanes: u8) {
        let Wire { pair, lane, link, ends } = &self.wires[wire];
        let (pair, lane, link) = (*pair, *lane, *link);
        let (core, peer) = (ends[end].core, ends[1 - end].core);
        let origin = match end {
            0 => Origin::Dialled(self.apps[core].endpoints[&pair]),
            _ => Origin::Accepted("bound".into()),
        };
        let attaching = Attaching {
            connection: ConnectionId(ends[end].id),
            peer: KINDS[peer],
            routing_id: name(peer).to_bytes(),
            peer_max_message_size: 0,
            lane,
            origin,
            local: "local".into(),
            remote: "remote".into(),
        };
        self.told(link, core);
        let attached = self.cores[core].attach(self.now, attaching);
        self.wires[wire].ends[end].attached = attached.is_ok();
        if attached.is_err() {
            self.hang_up(wire, end);
        }
        let side = self.wires.iter().filter(|wire| wire.link == link);
        let there = side.flat_map(|wire| &wire.ends).filter(|end| end.core == core && end.attached);
        if there.count() == usize::from(lanes) {
            let told = self.told(link, core);
            told.ready |= !told.over;
        }
        self.wake(core);
    }

    /// One side of a wire is gone: what it has not written is lost, and what it has not read.
    pub(super) fn hang_up(&mut self, wire: usize, end: usize) {
        let ends = &mut self.wires[wire].ends;
        ends[end].attached = false;
        ends[end].inbox.clear();
        ends[end].unwritten.clear();
        ends[1 - end].eof = true;
    }

    /// The socket does not count with a link any more; `removed` with what it brought neither.
    pub(super) fn end_link(&mut self, link: u64, core: usize, removed: bool) {
        let told = self.told(link, core);
        let was_over = std::mem::replace(&mut told.over, true);
        let never = !told.ready;
        if was_over || !(removed || never) {
            return;
        }
        for wire in self.wires.iter_mut().filter(|wire| wire.link == link) {
            // A reply may be a completion already.
            for end in wire.ends.iter_mut().filter(|end| end.core == core) {
                end.arrived.retain(|(_, kind)| !is_input(*kind));
            }
        }
    }

    /// A connection ends on one side, which learns it at once; the other one when it has read all.
    pub(super) fn drop_end(&mut self, wire: usize, end: usize) -> bool {
        let End { core, id, attached, .. } = self.wires[wire].ends[end];
        if !attached {
            return false;
        }
        self.hang_up(wire, end);
        self.end_link(self.wires[wire].link, core, false);
        self.cores[core].detach(self.now, ConnectionId(id), Disconnected::Transport);
        self.wake(core);
        // What was asked on it has ended (D-R3).
        self.drain_completions(core);
        for (id, (number, _)) in &self.apps[core].requests {
            let here = self.sent[number].on == Some(self.wires[wire].ends[end].id);
            assert!(!here || self.apps[core].claimed.contains(id), "{id:?} has not ended");
        }
        true
    }

    /// One turn of a connection, if there is a reason for one. True when there was.
    pub(super) fn step(&mut self, wire: usize, end: usize, room: usize, most: usize) -> bool {
        let Wire { lane, link, ref ends, .. } = self.wires[wire];
        let core = ends[end].core;
        if !ends[end].attached {
            return false;
        }
        let mut written = 0;
        let mut wrote = false;
        for _ in 0..most {
            let ends = &mut self.wires[wire].ends;
            let Some((charge, inbound)) = ends[end].unwritten.pop_front() else { break };
            written += charge;
            wrote = true;
            if ends[1 - end].attached {
                ends[1 - end].inbox.push_back(inbound);
            }
        }
        let this = &mut self.wires[wire].ends[end];
        let limit = if lane == Lane::Completion { 0 } else { LIMIT };
        let mut received = Vec::new();
        while received.len() < most && !this.blocked {
            let Some(inbound) = this.inbox.front() else { break };
            let charge = match inbound {
                Inbound::Record(_, record) => record.charge(),
                _ => 0,
            };
            let outstanding = this.reserved - this.taken;
            if limit > 0 && charge > 0 && outstanding > 0 && outstanding + charge > limit {
                this.blocked = true;
                wrote = true;
                break;
            }
            this.reserved += charge;
            received.extend(this.inbox.pop_front());
        }
        let idle = this.unwritten.is_empty();
        if !(wrote || !received.is_empty() || this.woken || (this.more && idle && room > 0)) {
            if this.closing && idle || this.eof && this.inbox.is_empty() {
                return self.drop_end(wire, end);
            }
            return false;
        }
        this.woken = false;
        let mut turn = Turn { received, written, blocked: this.blocked, ..Turn::default() };
        turn.room = if idle { room } else { 0 };
        self.note_arrivals(link, wire, end, &turn.received);
        let id = self.wires[wire].ends[end].id;
        self.cores[core].turn(self.now, ConnectionId(id), &mut turn).expect("no fault of the peer");
        assert!(turn.received.is_empty() && turn.written == 0);
        let this = &mut self.wires[wire].ends[end];
        assert!(turn.taken >= this.taken && turn.taken <= this.reserved);
        if turn.taken > this.taken {
            this.blocked = false;
        }
        this.taken = turn.taken;
        this.more = turn.more;
        this.closing |= turn.close.is_some();
        for outgoing in turn.outgoing {
            self.note_outgoing(wire, end, &outgoing);
            let entry = (charge(&outgoing), arriving(outgoing));
            self.wires[wire].ends[end].unwritten.push_back(entry);
        }
        self.wake(core);
        true
    }

    pub(super) fn note_arrivals(
        &mut self,
        link: u64,
        wire: usize,
        end: usize,
        received: &[Inbound],
    ) {
        let core = self.wires[wire].ends[end].core;
        for inbound in received {
            let told = self.told(link, core);
            match inbound {
                Inbound::Weight(weight) => told.weight = weight.get(),
                Inbound::FlowState { state, .. } => told.paused = *state == FlowState::Paused,
                Inbound::Record(kind, record) if !told.over => {
                    let arrived = (number_in(*kind, record), RecordKind::from(*kind));
                    self.wires[wire].ends[end].arrived.push_back(arrived);
                }
                Inbound::Record(..) | Inbound::Malformed => {}
            }
        }
    }

    /// Each record goes out once, in the order of admission, to a peer that could take it.
    pub(super) fn note_outgoing(&mut self, wire: usize, end: usize, outgoing: &Outgoing) {
        let Outgoing::Record(kind, record) = outgoing else { return };
        let end = &mut self.wires[wire].ends[end];
        let sent = self.sent.get_mut(&number_in(*kind, record)).expect("was admitted");
        assert_eq!((sent.by, sent.kind), (end.core, RecordKind::from(*kind)));
        assert_eq!(sent.on.replace(end.id), None, "it goes out once");
        assert!(!sent.dead, "nothing is replayed");
        assert!(sent.order > end.last_order, "in the order of admission");
        end.last_order = sent.order;
        assert!(sent.could_take.contains(&end.id), "{sent:?} on {}", end.id);
        self.apps[end.core].given_out += 1;
    }

    /// The connections of a socket that may get a record.
    pub(super) fn takers(&self, core: usize, target: Option<usize>, reply: bool) -> Vec<u64> {
        let mut takers = Vec::new();
        for wire in &self.wires {
            let Some(end) = wire.ends.iter().position(|end| end.core == core) else { continue };
            let (own, peer) = (&wire.ends[end], wire.ends[1 - end].core);
            let two = KINDS[core].lanes_with(KINDS[peer]) == 2;
            let lane = if reply && two { Lane::Completion } else { Lane::Application };
            let told = self.told[&(wire.link, core)];
            let held = if reply { told.paused && !two } else { told.paused || told.weight == 0 };
            let right = wire.lane == lane && target.is_none_or(|target| target == peer);
            if right && own.attached && told.ready && !told.over && !held {
                takers.push(own.id);
            }
        }
        takers
    }
}
