//! Sockets, the wires between them, and applications that do no more than they were woken for.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::*;

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
    pub(super) by: usize,
    pub(super) kind: RecordKind,
    /// Of a reply: the number of the request.
    pub(super) answers: Option<u64>,
    /// The order of admission.
    pub(super) order: u64,
    /// The connections of `by` that could take it when it was admitted.
    pub(super) could_take: Vec<u64>,
    /// Where it went out.
    pub(super) on: Option<u64>,
    /// It must not go out any more: its request has ended for want of a connection.
    pub(super) dead: bool,
}

/// It is taken with `recv`.
pub(super) fn is_input(kind: RecordKind) -> bool {
    matches!(kind, RecordKind::Data | RecordKind::Request)
}

/// One side of a wire.
#[derive(Debug, Default)]
pub(super) struct End {
    pub(super) core: usize,
    pub(super) id: u64,
    pub(super) attached: bool,
    pub(super) woken: bool,
    pub(super) more: bool,
    pub(super) blocked: bool,
    /// The socket wants it closed, once all is written.
    pub(super) closing: bool,
    /// The other side has closed: nothing follows what is in `inbox`.
    pub(super) eof: bool,
    pub(super) inbox: VecDeque<Inbound>,
    /// Given out, and not written.
    pub(super) unwritten: VecDeque<(Charge, Inbound)>,
    pub(super) reserved: Charge,
    pub(super) taken: Charge,
    pub(super) last_order: u64,
    /// What arrived and was not taken: numbers in order.
    pub(super) arrived: VecDeque<(u64, RecordKind)>,
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
    pub(super) weight: u32,
    pub(super) paused: bool,
    /// The socket of this side considers the link ended.
    pub(super) over: bool,
    /// All lanes were attached once.
    pub(super) ready: bool,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) number: u64,
    pub(super) record: Record,
    pub(super) target: Option<usize>,
    pub(super) request: bool,
}

#[derive(Debug)]
pub(super) struct Owed {
    pub(super) reply: ReplyId,
    pub(super) request: u64,
    pub(super) from: usize,
    pub(super) waiter: Option<WaiterId>,
    pub(super) retry: bool,
}

/// What an application knows of its socket.
#[derive(Debug, Default)]
pub(super) struct App {
    pub(super) readable: bool,
    pub(super) completions: bool,
    pub(super) timer_at: Option<Instant>,
    pub(super) last_id: u64,
    /// With their targets.
    pub(super) tokens: BTreeMap<CompletionId, Option<usize>>,
    /// With their numbers, and when they may time out.
    pub(super) requests: BTreeMap<CompletionId, (u64, Instant)>,
    pub(super) claimed: HashSet<CompletionId>,
    pub(super) claims_ready: VecDeque<CompletionId>,
    pub(super) calls: BTreeMap<WaiterId, Call>,
    pub(super) woken_calls: VecDeque<WaiterId>,
    pub(super) owed: VecDeque<Owed>,
    /// A target was removed once.
    pub(super) removals: bool,
    pub(super) endpoints: HashMap<usize, EndpointId>,
    pub(super) given_out: u64,
    pub(super) admitted: u64,
    pub(super) closed: bool,
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) cores: [Core; 3],
    pub(super) apps: [App; 3],
    pub(super) wires: Vec<Wire>,
    pub(super) told: HashMap<(u64, usize), Told>,
    pub(super) sent: HashMap<u64, Sent>,
    pub(super) numbers: u64,
    pub(super) orders: u64,
    pub(super) connections: u64,
    pub(super) links: u64,
}

pub(super) fn name(core: usize) -> RoutingId {
    rid(NAMES[core])
}

pub(super) fn arriving(outgoing: Outgoing) -> Inbound {
    match outgoing {
        Outgoing::Record(kind, record) => Inbound::Record(kind, record),
        Outgoing::Weight(weight) => Inbound::Weight(weight),
        Outgoing::FlowState { state, epoch } => Inbound::FlowState { state, epoch },
    }
}

pub(super) fn number_of(record: &Record) -> u64 {
    u64::from_be_bytes(record.parts()[0].as_ref().try_into().expect("a number"))
}

/// The number of a record that arrived; that of an error reply is behind the errno.
pub(super) fn number_in(kind: Kind, record: &Record) -> u64 {
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

    pub(super) fn add_endpoint(&mut self, pair: usize, dialler: usize) {
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
    pub(super) fn check_limits(&self, core: usize) {
        let of_dealers = |peer: &PeerStatus| peer.kind == Dealer || KINDS[core] == Dealer;
        for peer in self.cores[core].peers().iter().filter(|peer| of_dealers(peer)) {
            for queued in [peer.queued_out, peer.queued_in] {
                let alone = LARGEST.contains(&queued);
                assert!(queued <= LIMIT || alone, "{core}: {peer:?}");
            }
        }
    }

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
            for link in links {
                self.end_link(link, dialler, true);
            }
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
                for link in links {
                    self.end_link(link, core, true);
                }
            }
            self.wake(core);
            self.drain_completions(core);
            self.drain_claims(core);
            let tokens = &self.apps[core].tokens;
            let left = tokens.values().filter(|target| **target == Some(peer)).count();
            assert!(!there || left == 0, "tokens of a target that was removed");
        }
    }

    /// The socket closes: nobody is told of what was asked, and who waits learns it (D-W7).
    pub(super) fn close(&mut self, core: usize) {
        self.cores[core].close(self.now);
        let app = &mut self.apps[core];
        app.closed = true;
        app.tokens.clear();
        app.requests.clear();
        app.claimed.clear();
        app.claims_ready.clear();
        app.owed.clear();
        let links: Vec<_> = self.wires.iter().map(|wire| wire.link).collect();
        for link in links {
            if self.told.contains_key(&(link, core)) {
                self.end_link(link, core, true);
            }
        }
        // What ended links had brought, too.
        let ends = self.wires.iter_mut().flat_map(|wire| &mut wire.ends);
        ends.filter(|end| end.core == core).for_each(|end| end.arrived.clear());
        self.wake(core);
    }

    /// What was admitted and never given out, as the socket has counted it.
    pub(super) fn check_lost(&self, core: usize) {
        let lost = self.apps[core].admitted - self.apps[core].given_out;
        assert_eq!(self.cores[core].counters().dropped[Drop::NoPeer], lost, "{core}");
    }

    /// Nothing that arrived waits to be taken.
    pub(super) fn check_taken(&self) {
        for end in self.wires.iter().flat_map(|wire| &wire.ends) {
            let left: Vec<_> = end.arrived.iter().filter(|(_, kind)| is_input(*kind)).collect();
            assert!(left.is_empty(), "{left:?} was not taken from {}", end.id);
        }
    }
}
