//! Sockets, the wires between them, and applications that do no more than they were woken for.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::*;
use crate::zmp::core::ReplyId;

/// A DEALER and two ROUTERs; who dials whom.
pub(super) const KINDS: [SocketKind; 3] = [Dealer, Router, Router];
pub(super) const PAIRS: [(usize, usize); 3] = [(0, 1), (2, 0), (1, 2)];
const NAMES: [&str; 3] = ["D", "R1", "R2"];

/// Limit of each link, in each direction.
pub(super) const LIMIT: Charge = 1000;
/// Tokens and requests of a socket together.
pub(super) const RESERVATIONS: usize = 10;
/// Replies that a ROUTER owes at most.
pub(super) const REPLY_TOKENS: usize = 4;

/// What was admitted, by the number that its first part carries.
#[derive(Debug)]
pub(super) struct Sent {
    by: usize,
    kind: Kind2,
    /// Of a reply: the number of the request.
    answers: Option<u64>,
    /// The order of admission.
    order: u64,
    /// The connections of `by` that could take it when it was admitted.
    could_take: Vec<u64>,
    /// Where it went out.
    on: Option<u64>,
    /// It must not go out any more: its request has ended for want of a connection.
    dead: bool,
}

/// What a record is, without its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind2 {
    Data,
    Request,
    Reply,
    ErrorReply,
}

impl Kind2 {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Data => Self::Data,
            Kind::Request(_) => Self::Request,
            Kind::Reply(_) => Self::Reply,
            Kind::ErrorReply(_) => Self::ErrorReply,
        }
    }

    fn is_input(self) -> bool {
        matches!(self, Self::Data | Self::Request)
    }
}

/// One side of a wire.
#[derive(Debug)]
pub(super) struct End {
    pub(super) core: usize,
    pub(super) id: u64,
    pub(super) attached: bool,
    pub(super) woken: bool,
    more: bool,
    blocked: bool,
    /// The socket wants it closed, once all is written.
    closing: bool,
    /// The other side has closed: nothing follows what is in `inbox`.
    eof: bool,
    inbox: VecDeque<Inbound>,
    /// Given out, and not written.
    unwritten: VecDeque<(Charge, Inbound)>,
    reserved: Charge,
    taken: Charge,
    last_order: u64,
    /// What arrived and was not taken: numbers in order.
    arrived: VecDeque<(u64, Kind2)>,
}

#[derive(Debug)]
pub(super) struct Wire {
    pub(super) pair: usize,
    pub(super) lane: Lane,
    /// Wires of one link have the same.
    pub(super) link: u64,
    /// The dialling side is the first.
    pub(super) ends: [End; 2],
}

/// What one side of a link has told the other one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    weight: u32,
    paused: bool,
    /// The socket of this side considers the link ended.
    pub(super) over: bool,
    /// All lanes were attached once.
    ready: bool,
}

#[derive(Debug)]
pub(super) struct Call {
    number: u64,
    record: Record,
    pub(super) target: Option<usize>,
    request: bool,
}

#[derive(Debug)]
pub(super) struct Owed {
    reply: ReplyId,
    request: u64,
    from: usize,
    waiter: Option<WaiterId>,
    retry: bool,
}

/// What an application knows of its socket.
#[derive(Debug, Default)]
pub(super) struct App {
    readable: bool,
    completions: bool,
    timer_at: Option<Instant>,
    last_id: u64,
    /// With their targets.
    pub(super) tokens: BTreeMap<CompletionId, Option<usize>>,
    /// With their numbers, and when they may time out.
    pub(super) requests: BTreeMap<CompletionId, (u64, Instant)>,
    claimed: HashSet<CompletionId>,
    claims_ready: VecDeque<CompletionId>,
    pub(super) calls: BTreeMap<WaiterId, Call>,
    woken_calls: VecDeque<WaiterId>,
    pub(super) owed: VecDeque<Owed>,
    /// A target was removed once.
    removals: bool,
    endpoints: HashMap<usize, EndpointId>,
    given_out: u64,
    admitted: u64,
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) cores: [Core; 3],
    pub(super) apps: [App; 3],
    pub(super) wires: Vec<Wire>,
    pub(super) told: HashMap<(u64, usize), Told>,
    pub(super) sent: HashMap<u64, Sent>,
    numbers: u64,
    orders: u64,
    connections: u64,
    links: u64,
}

pub(super) fn name(core: usize) -> RoutingId {
    rid(NAMES[core])
}

fn arriving(outgoing: Outgoing) -> Inbound {
    match outgoing {
        Outgoing::Record(kind, record) => Inbound::Record(kind, record),
        Outgoing::Weight(weight) => Inbound::Weight(weight),
        Outgoing::FlowState { state, epoch } => Inbound::FlowState { state, epoch },
    }
}

fn number_of(record: &Record) -> u64 {
    u64::from_be_bytes(record.parts()[0].as_ref().try_into().expect("a number"))
}

/// The number of a record that arrived; that of an error reply is behind the errno.
fn number_in(kind: Kind, record: &Record) -> u64 {
    let part = usize::from(matches!(kind, Kind::ErrorReply(_)));
    u64::from_be_bytes(record.parts()[part].as_ref().try_into().expect("a number"))
}

impl World {
    pub(super) fn new() -> Self {
        let cores = std::array::from_fn(|core| {
            let mut options = CoreOptions::new(KINDS[core], name(core));
            (options.send_hwm, options.receive_hwm) = (LIMIT, LIMIT);
            options.reservations = RESERVATIONS;
            options.reply_tokens = REPLY_TOKENS;
            Core::new(options)
        });
        let mut world = Self {
            now: Instant::now(),
            cores,
            apps: Default::default(),
            wires: Vec::new(),
            told: HashMap::new(),
            sent: HashMap::new(),
            numbers: 0,
            orders: 0,
            connections: 0,
            links: 0,
        };
        for (pair, (dialler, acceptor)) in PAIRS.into_iter().enumerate() {
            world.cores[acceptor].bound("bound".into());
            world.add_endpoint(pair, dialler);
        }
        world
    }

    fn add_endpoint(&mut self, pair: usize, dialler: usize) {
        let endpoint = self.cores[dialler].add_endpoint(format!("pair {pair}").into(), None);
        self.apps[dialler].endpoints.insert(pair, endpoint);
    }

    /// Notes what a step of a socket wants to be told.
    pub(super) fn wake(&mut self, core: usize) {
        let mut wakes = Vec::new();
        self.cores[core].take_wakes(&mut wakes);
        for wake in wakes {
            let app = &mut self.apps[core];
            match wake {
                Wake::Connection(id) => {
                    let ends = self.wires.iter_mut().flat_map(|wire| &mut wire.ends);
                    ends.filter(|end| end.id == id.0).for_each(|end| end.woken = true);
                }
                Wake::Readable => app.readable = true,
                Wake::Completions => app.completions = true,
                Wake::Completion(id) => {
                    assert!(app.claimed.contains(&id), "{id:?} is nobody's");
                    app.claims_ready.push_back(id);
                }
                Wake::Waiter(id) => {
                    if let Some(owed) = app.owed.iter_mut().find(|owed| owed.waiter == Some(id)) {
                        owed.retry = true;
                    } else if app.calls.contains_key(&id) && !app.woken_calls.contains(&id) {
                        app.woken_calls.push_back(id);
                    }
                }
                Wake::Timer => app.timer_at = self.cores[core].next_deadline(),
                Wake::Monitor | Wake::Drained => {}
            }
        }
        super::invariants::check(&self.cores[core], 0);
        self.check_limits(core);
    }

    /// A queue holds no more than its limit, or one record that began on an empty one.
    fn check_limits(&self, core: usize) {
        let of_dealers = |peer: &PeerStatus| peer.kind == Dealer || KINDS[core] == Dealer;
        for peer in self.cores[core].peers().iter().filter(|peer| of_dealers(peer)) {
            for queued in [peer.queued_out, peer.queued_in] {
                let alone = LARGEST.contains(&queued);
                assert!(queued <= LIMIT || alone, "{core}: {peer:?}");
            }
        }
    }

    // ---- wires --------------------------------------------------------------------------------

    fn told(&mut self, link: u64, core: usize) -> &mut Told {
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
            End {
                core,
                id: self.connections,
                attached: false,
                woken: false,
                more: false,
                blocked: false,
                closing: false,
                eof: false,
                inbox: VecDeque::new(),
                unwritten: VecDeque::new(),
                reserved: 0,
                taken: 0,
                last_order: 0,
                arrived: VecDeque::new(),
            }
        });
        self.wires.push(Wire { pair, lane, link, ends });
        let wire = self.wires.len() - 1;
        let order = if acceptor_first { [1, 0] } else { [0, 1] };
        for end in order {
            self.attach(wire, end, lanes);
        }
        true
    }

    fn attach(&mut self, wire: usize, end: usize, lanes: u8) {
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
    fn hang_up(&mut self, wire: usize, end: usize) {
        let ends = &mut self.wires[wire].ends;
        ends[end].attached = false;
        ends[end].inbox.clear();
        ends[end].unwritten.clear();
        ends[1 - end].eof = true;
    }

    /// The socket does not count with a link any more; `removed` with what it brought neither.
    fn end_link(&mut self, link: u64, core: usize, removed: bool) {
        let told = self.told(link, core);
        let was_over = std::mem::replace(&mut told.over, true);
        let never = !told.ready;
        if was_over || !(removed || never) {
            return;
        }
        for wire in self.wires.iter_mut().filter(|wire| wire.link == link) {
            wire.ends.iter_mut().filter(|end| end.core == core).for_each(|end| end.arrived.clear());
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

    fn note_arrivals(&mut self, link: u64, wire: usize, end: usize, received: &[Inbound]) {
        let core = self.wires[wire].ends[end].core;
        for inbound in received {
            let told = self.told(link, core);
            match inbound {
                Inbound::Weight(weight) => told.weight = weight.get(),
                Inbound::FlowState { state, .. } => told.paused = *state == FlowState::Paused,
                Inbound::Record(kind, record) if !told.over => {
                    let arrived = (number_in(*kind, record), Kind2::of(*kind));
                    self.wires[wire].ends[end].arrived.push_back(arrived);
                }
                Inbound::Record(..) | Inbound::Malformed => {}
            }
        }
    }

    /// Each record goes out once, in the order of admission, to a peer that could take it.
    fn note_outgoing(&mut self, wire: usize, end: usize, outgoing: &Outgoing) {
        let Outgoing::Record(kind, record) = outgoing else { return };
        let end = &mut self.wires[wire].ends[end];
        let sent = self.sent.get_mut(&number_in(*kind, record)).expect("was admitted");
        assert_eq!((sent.by, sent.kind), (end.core, Kind2::of(*kind)));
        assert_eq!(sent.on.replace(end.id), None, "it goes out once");
        assert!(!sent.dead, "nothing is replayed");
        assert!(sent.order > end.last_order, "in the order of admission");
        end.last_order = sent.order;
        assert!(sent.could_take.contains(&end.id), "{sent:?} on {}", end.id);
        self.apps[end.core].given_out += 1;
    }

    /// The connections of a socket that may get a record.
    fn takers(&self, core: usize, target: Option<usize>, reply: bool) -> Vec<u64> {
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

    // ---- submitting ---------------------------------------------------------------------------

    fn record(&mut self, padding: Option<usize>) -> (u64, Record) {
        self.numbers += 1;
        let mut record = Record::new(self.numbers.to_be_bytes().to_vec());
        if let Some(padding) = padding {
            record.push(vec![0; padding]);
        }
        (self.numbers, record)
    }

    fn admitted(&mut self, by: usize, number: u64, kind: Kind2, answers: Option<u64>, could_take: Vec<u64>) {
        assert!(!could_take.is_empty(), "{number} was admitted for nobody");
        self.orders += 1;
        self.apps[by].admitted += 1;
        let order = self.orders;
        let sent = Sent { by, kind, answers, order, could_take, on: None, dead: false };
        assert!(self.sent.insert(number, sent).is_none());
    }

    fn new_id(&mut self, core: usize, id: CompletionId) {
        let app = &mut self.apps[core];
        assert!(id.0.get() > app.last_id, "no id is given twice");
        app.last_id = id.0.get();
    }

    fn asked(&mut self, core: usize, number: u64, id: CompletionId, timeout: Duration, claim: bool) {
        self.new_id(core, id);
        self.apps[core].requests.insert(id, (number, self.now + timeout));
        if claim {
            self.apps[core].claimed.insert(id);
        }
    }

    fn reserved(&self, core: usize) -> usize {
        self.apps[core].tokens.len() + self.apps[core].requests.len()
    }

    /// DONTWAIT.
    pub(super) fn submit(&mut self, core: usize, target: Option<usize>, wish: Wish) {
        let takers = self.takers(core, target, false);
        let full = self.reserved(core) == RESERVATIONS;
        let (number, record) = self.record(wish.padding);
        let id = target.map(name);
        let submit = wish.submit();
        let core_ = &mut self.cores[core];
        let submitted = core_.try_submit(self.now, id.as_ref(), record.clone(), submit, number);
        match submitted {
            Ok(submitted) => {
                assert_eq!(submitted.is_some(), wish.request);
                let kind = if wish.request { Kind2::Request } else { Kind2::Data };
                self.admitted(core, number, kind, None, takers);
                if let Some(id) = submitted {
                    assert!(!full, "a reservation more than there are");
                    self.asked(core, number, id, wish.timeout, wish.claim);
                }
                self.wake(core);
                self.no_token_slept(core, target);
            }
            Err(refused) => {
                assert_eq!(refused.record, record, "it comes back");
                match (refused.error.result, refused.token) {
                    (SubmitResult::Backpressured, Some(token)) => {
                        assert!(!full);
                        self.new_id(core, token);
                        self.apps[core].tokens.insert(token, target);
                    }
                    (SubmitResult::Backpressured, None) => assert!(full && wish.request),
                    (SubmitResult::OutOfMemory, None) => assert!(full && !wish.request),
                    (SubmitResult::NotConnected, None) => assert!(takers.is_empty()),
                    (SubmitResult::NotAdmitted, None) => {
                        assert_eq!(target.map(|target| KINDS[target]), Some(Dealer));
                    }
                    other => panic!("{other:?}"),
                }
                self.wake(core);
            }
        }
    }

    /// A record was admitted, so nobody may wait for the same target without knowing (D-W4).
    fn no_token_slept(&mut self, core: usize, target: Option<usize>) {
        self.drain_completions(core);
        self.drain_claims(core);
        let slept: Vec<_> =
            self.apps[core].tokens.iter().filter(|(_, place)| **place == target).collect();
        assert!(slept.is_empty(), "{core}: no edge for {slept:?}");
    }

    /// NONE.
    pub(super) fn begin(&mut self, core: usize, target: Option<usize>, wish: Wish) {
        let takers = self.takers(core, target, false);
        let (number, record) = self.record(wish.padding);
        let id = target.map(name);
        let (attempt, waiter) =
            self.cores[core].begin(self.now, id.as_ref(), record, wish.submit(), number);
        assert_eq!(matches!(attempt, Attempt::Waits(_)), waiter.is_some());
        let call = |record| Call { number, record, target, request: wish.request };
        match attempt {
            Attempt::Waits(record) => {
                let waiter = waiter.expect("an id");
                self.apps[core].calls.insert(waiter, call(record));
            }
            Attempt::Done(submitted) => self.call_done(core, &call(Record::new("")), submitted, takers),
            Attempt::Failed(refused) => self.call_failed(core, target, &refused.error),
        }
        self.wake(core);
    }

    /// A call that was woken tries again. False when none was.
    pub(super) fn again(&mut self, core: usize) -> bool {
        let Some(waiter) = self.apps[core].woken_calls.pop_front() else { return false };
        let Some(call) = self.apps[core].calls.remove(&waiter) else { return true };
        let takers = self.takers(core, call.target, false);
        match self.cores[core].again(self.now, waiter, call.record.clone()) {
            Attempt::Waits(record) => {
                assert_eq!(record, call.record);
                self.apps[core].calls.insert(waiter, call);
            }
            Attempt::Done(submitted) => self.call_done(core, &call, submitted, takers),
            Attempt::Failed(refused) => self.call_failed(core, call.target, &refused.error),
        }
        self.wake(core);
        true
    }

    fn call_done(&mut self, core: usize, call: &Call, submitted: Submitted, takers: Vec<u64>) {
        assert_eq!(submitted.is_some(), call.request);
        let kind = if call.request { Kind2::Request } else { Kind2::Data };
        self.admitted(core, call.number, kind, None, takers);
        if let Some(id) = submitted {
            self.asked(core, call.number, id, Wish::CALL_TIMEOUT, false);
        }
    }

    fn call_failed(&self, core: usize, target: Option<usize>, error: &SubmitError) {
        let right = match error.result {
            // No reservation is free.
            SubmitResult::Backpressured => true,
            SubmitResult::NotFound => self.apps[core].removals || target.is_some(),
            SubmitResult::NotConnected => target.is_some(),
            SubmitResult::NotAdmitted => target.is_some_and(|target| KINDS[target] == Dealer),
            _ => false,
        };
        assert!(right, "{error}");
    }

    /// The time of the oldest call is over. False when there is none.
    pub(super) fn give_up(&mut self, core: usize, dropped: bool) -> bool {
        let Some((waiter, _)) = self.apps[core].calls.pop_first() else { return false };
        if dropped {
            self.cores[core].forget(waiter);
        } else {
            self.cores[core].give_up(waiter);
        }
        self.wake(core);
        true
    }

    // ---- receiving ----------------------------------------------------------------------------

    /// Takes a record, if the application was told of one. True when there was one.
    pub(super) fn recv(&mut self, core: usize) -> bool {
        if !self.apps[core].readable {
            return false;
        }
        let parts = self.cores[core].next_parts();
        let input = self.cores[core].readiness().input;
        let received = self.cores[core].recv();
        assert_eq!(received.is_some(), input);
        assert_eq!(received.as_ref().map(|received| received.record.parts().len()), parts);
        let Some(received) = received else {
            self.apps[core].readable = false;
            self.wake(core);
            return false;
        };
        let number = number_of(&received.record);
        let sent = &self.sent[&number];
        let own = KINDS[core] == Router;
        assert_eq!(received.from, own.then(|| name(sent.by)));
        assert_eq!(received.reply.is_some(), sent.kind == Kind2::Request);
        if let Some(reply) = received.reply {
            let from = sent.by;
            let owed = Owed { reply, request: number, from, waiter: None, retry: false };
            self.apps[core].owed.push_back(owed);
            assert!(self.apps[core].owed.len() <= REPLY_TOKENS);
        }
        self.take_arrived(core, number);
        self.wake(core);
        true
    }

    /// A record was taken: no input that arrived before it on its connection is left (D-R6).
    fn take_arrived(&mut self, core: usize, number: u64) {
        let ends = self.wires.iter_mut().flat_map(|wire| &mut wire.ends);
        let place = |end: &End| end.arrived.iter().position(|(other, _)| *other == number);
        let (end, place) = ends
            .filter(|end| end.core == core)
            .find_map(|end| place(end).map(|place| (end, place)))
            .expect("it arrived, and was not taken before");
        let overtaken = end.arrived.iter().take(place).find(|(_, kind)| kind.is_input());
        assert_eq!(overtaken, None, "by {number}");
        end.arrived.remove(place);
    }

    /// Takes a completion, if the application was told of one. True when there was one.
    pub(super) fn complete(&mut self, core: usize) -> bool {
        if !self.apps[core].completions {
            return false;
        }
        let ready = self.cores[core].readiness().completion;
        let completion = self.cores[core].next_completion();
        assert_eq!(completion.is_some(), ready);
        let Some(completion) = completion else {
            self.apps[core].completions = false;
            return false;
        };
        assert!(!self.apps[core].claimed.contains(&completion.id), "it is claimed");
        self.completed(core, completion);
        self.wake(core);
        true
    }

    fn drain_completions(&mut self, core: usize) {
        while self.complete(core) {}
    }

    /// Takes what is there for those that take their completions themselves.
    pub(super) fn drain_claims(&mut self, core: usize) -> bool {
        let mut any = false;
        while let Some(id) = self.apps[core].claims_ready.pop_front() {
            let completion = self.cores[core].claimed(id).expect("it was told to be there");
            assert_eq!(completion.id, id);
            self.apps[core].claimed.remove(&id);
            self.completed(core, completion);
            self.wake(core);
            any = true;
        }
        any
    }

    /// The newest token's completion does not go through the queue.
    pub(super) fn claim_token(&mut self, core: usize) -> bool {
        let unclaimed = |id: &&CompletionId| !self.apps[core].claimed.contains(*id);
        let Some(&token) = self.apps[core].tokens.keys().rev().find(unclaimed) else {
            return false;
        };
        self.apps[core].claimed.insert(token);
        assert!(self.cores[core].claim_token(token));
        self.wake(core);
        true
    }

    /// Each id that was given ends once, as its life says.
    fn completed(&mut self, core: usize, completion: Completion) {
        let Completion { id, peer, outcome, context } = completion;
        if let Some(target) = self.apps[core].tokens.remove(&id) {
            assert_eq!(peer, target.map(name));
            assert!(outcome == Outcome::Writable || self.apps[core].removals, "{outcome:?}");
            return;
        }
        let (number, due) = self.apps[core].requests.remove(&id).expect("an id that was given");
        assert_eq!(context, number);
        let Outcome::Request { result, parts, .. } = outcome else { panic!("{outcome:?}") };
        let on = self.sent[&number].on;
        match result {
            RequestResult::Ok | RequestResult::Rejected => {
                let parts = parts.expect("the reply");
                let reply = number_of(&parts);
                assert_eq!(self.sent[&reply].answers, Some(number));
                let is_error = self.sent[&reply].kind == Kind2::ErrorReply;
                assert_eq!(is_error, result == RequestResult::Rejected);
                self.take_arrived(core, reply);
            }
            RequestResult::TimedOut => assert!(self.now >= due),
            RequestResult::NotConnected | RequestResult::NotFound => {
                assert!(result == RequestResult::NotConnected || self.apps[core].removals);
                let mut ends = self.wires.iter().flat_map(|wire| {
                    wire.ends.iter().map(|end| (self.told[&(wire.link, end.core)], end))
                });
                if let Some(on) = on {
                    let gone = ends.any(|(told, end)| end.id == on && told.over);
                    assert!(gone, "{number} was lost on a connection that is there");
                }
                // What the application cut off itself is still written.
                let lost = result == RequestResult::NotConnected && on.is_none();
                self.sent.get_mut(&number).expect("was admitted").dead = lost;
            }
            other => panic!("{other:?}"),
        }
    }

    /// Answers the first request that is owed a reply and may be tried. False when there is none.
    pub(super) fn reply(&mut self, core: usize, padding: Option<usize>, error: bool) -> bool {
        let owed = &self.apps[core].owed;
        let Some(place) = owed.iter().position(|owed| owed.waiter.is_none() || owed.retry) else {
            return false;
        };
        let Owed { reply, request, from, waiter, .. } = owed[place];
        let takers = self.takers(core, Some(from), true);
        let (number, record) = self.record(padding);
        let replied = if error {
            self.cores[core].try_reply_error(reply, Errno::EACCES, Some(record))
        } else {
            self.cores[core].try_reply(reply, record)
        };
        let over = match replied {
            Ok(()) => {
                let kind = if error { Kind2::ErrorReply } else { Kind2::Reply };
                self.admitted(core, number, kind, Some(request), takers);
                true
            }
            Err(refused) => match refused.error.result {
                SubmitResult::NotFound => {
                    assert!(self.apps[core].removals);
                    true
                }
                result => {
                    assert_eq!(result, SubmitResult::Backpressured);
                    false
                }
            },
        };
        if over {
            waiter.into_iter().for_each(|waiter| self.cores[core].forget(waiter));
            self.apps[core].owed.remove(place);
        } else {
            let waiter = waiter.unwrap_or_else(|| self.cores[core].wait_reply(reply));
            let owed = &mut self.apps[core].owed[place];
            (owed.waiter, owed.retry) = (Some(waiter), false);
        }
        self.wake(core);
        true
    }

    /// The oldest reply will not be given. False when none is owed.
    pub(super) fn abandon(&mut self, core: usize) -> bool {
        let Some(owed) = self.apps[core].owed.pop_front() else { return false };
        self.cores[core].abandon_reply(owed.reply);
        owed.waiter.into_iter().for_each(|waiter| self.cores[core].forget(waiter));
        self.wake(core);
        true
    }

    // ---- the rest -----------------------------------------------------------------------------

    pub(super) fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        for core in 0..self.cores.len() {
            if self.apps[core].timer_at.is_some_and(|at| at <= self.now) {
                self.cores[core].expire(self.now);
                self.apps[core].timer_at = self.cores[core].next_deadline();
                self.wake(core);
            }
        }
    }

    /// `disconnect_rid`, or `disconnect` of the endpoint and `connect` again.
    pub(super) fn remove(&mut self, pair: usize, side: usize, endpoint: bool) {
        let (dialler, acceptor) = PAIRS[pair];
        let (core, peer) = if side == 0 { (dialler, acceptor) } else { (acceptor, dialler) };
        let links: Vec<_> =
            self.wires.iter().filter(|wire| wire.pair == pair).map(|wire| wire.link).collect();
        if endpoint {
            self.apps[dialler].removals = true;
            links.into_iter().for_each(|link| self.end_link(link, dialler, true));
            let old = self.apps[dialler].endpoints[&pair];
            assert!(self.cores[dialler].remove_endpoint(self.now, old));
            self.add_endpoint(pair, dialler);
            self.wake(dialler);
        } else if KINDS[core] == Router {
            let there = self.cores[core].disconnect_rid(self.now, &name(peer));
            self.apps[core].removals |= there;
            if there {
                let whole = |link: &u64| self.told[&(*link, core)].ready;
                let links: Vec<_> = links.into_iter().filter(whole).collect();
                links.into_iter().for_each(|link| self.end_link(link, core, true));
            }
            self.wake(core);
            self.drain_completions(core);
            self.drain_claims(core);
            let tokens = &self.apps[core].tokens;
            let left = tokens.values().filter(|target| **target == Some(peer)).count();
            assert!(!there || left == 0, "tokens of a target that was removed");
        }
    }

    /// What was admitted and never given out, as the socket has counted it.
    pub(super) fn check_lost(&self, core: usize) {
        let lost = self.apps[core].admitted - self.apps[core].given_out;
        assert_eq!(self.cores[core].counters().dropped[Drop::NoPeer], lost, "{core}");
    }

    /// Nothing that arrived waits to be taken.
    pub(super) fn check_taken(&self) {
        for end in self.wires.iter().flat_map(|wire| &wire.ends) {
            let left: Vec<_> = end.arrived.iter().filter(|(_, kind)| kind.is_input()).collect();
            assert!(left.is_empty(), "{left:?} was not taken from {}", end.id);
        }
    }
}
