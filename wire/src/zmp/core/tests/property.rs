//! Sockets beside a plain model of what was admitted, under operations at random.

use proptest::prelude::*;

use super::*;
use crate::zmp::core::ReplyId;
use crate::zmp::status::{Drop, PeerStatus, RecordKind};

mod submits;
mod takes;
mod wires;
mod world;

use world::{PAIRS, World};

/// Charges of single records above the limit: 1,500 bytes behind the number, and behind an errno.
const LARGEST: [Charge; 2] = [72 + 64 + 1500, 68 + 72 + 64 + 1500];

/// What an application submits.
#[derive(Clone, Copy, Debug)]
struct Wish {
    padding: Option<usize>,
    request: bool,
    claim: bool,
    timeout: Duration,
}

impl Wish {
    const CALL_TIMEOUT: Duration = Duration::from_millis(700);

    fn submit(&self) -> Submit {
        if self.request {
            Submit::Request { timeout: Some(self.timeout), claim: self.claim }
        } else {
            Submit::Send
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Submit { core: usize, target: usize, wish: Wish },
    Begin { core: usize, target: usize, wish: Wish },
    Again(usize),
    GiveUp { core: usize, dropped: bool },
    Step { wire: usize, end: usize, room: usize, most: usize },
    Recv(usize),
    Complete(usize),
    Claims(usize),
    ClaimToken(usize),
    Reply { core: usize, padding: Option<usize>, error: bool },
    Abandon(usize),
    Connect { pair: usize, acceptor_first: bool },
    Drop { wire: usize, end: usize },
    Weight { core: usize, weight: u32 },
    Flow { core: usize, paused: bool },
    Pass(u64),
    Remove { pair: usize, side: usize, endpoint: bool },
}

fn padding() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![3 => Just(None), 3 => Just(Some(100)), 2 => Just(Some(600)), 1 => Just(Some(1500))]
}

fn wish() -> impl Strategy<Value = Wish> {
    let timeout = prop_oneof![Just(50), Just(700), Just(100_000)];
    (padding(), any::<bool>(), any::<bool>(), timeout).prop_map(
        |(padding, request, claim, timeout)| Wish {
            padding,
            request,
            claim,
            timeout: Duration::from_millis(timeout),
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let core = 0..3usize;
    let room = prop_oneof![Just(0), Just(1), Just(300), Just(1 << 16)];
    prop_oneof![
        12 => (core.clone(), 0..3usize, wish())
            .prop_map(|(core, target, wish)| Op::Submit { core, target, wish }),
        4 => (core.clone(), 0..3usize, wish())
            .prop_map(|(core, target, wish)| Op::Begin { core, target, wish }),
        4 => core.clone().prop_map(Op::Again),
        1 => (core.clone(), any::<bool>())
            .prop_map(|(core, dropped)| Op::GiveUp { core, dropped }),
        40 => (any::<prop::sample::Index>(), 0..2usize, room, 0..4usize)
            .prop_map(|(wire, end, room, most)| Op::Step { wire: wire.index(8), end, room, most }),
        10 => core.clone().prop_map(Op::Recv),
        6 => core.clone().prop_map(Op::Complete),
        3 => core.clone().prop_map(Op::Claims),
        2 => core.clone().prop_map(Op::ClaimToken),
        8 => (1..3usize, padding(), any::<bool>())
            .prop_map(|(core, padding, error)| Op::Reply { core, padding, error }),
        1 => (1..3usize).prop_map(Op::Abandon),
        6 => (0..3usize, any::<bool>())
            .prop_map(|(pair, acceptor_first)| Op::Connect { pair, acceptor_first }),
        2 => (0..8usize, 0..2usize).prop_map(|(wire, end)| Op::Drop { wire, end }),
        2 => (core.clone(), prop_oneof![Just(0u32), Just(100), 1..500u32])
            .prop_map(|(core, weight)| Op::Weight { core, weight }),
        2 => (core, any::<bool>()).prop_map(|(core, paused)| Op::Flow { core, paused }),
        3 => prop_oneof![Just(1u64), Just(60), Just(800)].prop_map(Op::Pass),
        1 => (0..3usize, 0..2usize, any::<bool>())
            .prop_map(|(pair, side, endpoint)| Op::Remove { pair, side, endpoint }),
    ]
}

/// The wires that were made last: the older ones are mostly over.
fn recent(world: &World, back: usize) -> Option<usize> {
    world.wires.len().checked_sub(back + 1)
}

/// A DEALER chooses itself; a ROUTER does not send to itself.
fn target(core: usize, target: usize) -> Option<usize> {
    match core {
        0 => None,
        core if core == target => Some(0),
        _ => Some(target),
    }
}

fn run(world: &mut World, op: Op) {
    match op {
        Op::Submit { core, target: to, wish } => world.submit(core, target(core, to), wish),
        Op::Begin { core, target: to, wish } => {
            let wish = Wish { claim: false, timeout: Wish::CALL_TIMEOUT, ..wish };
            world.begin(core, target(core, to), wish);
        }
        Op::Again(core) => drop(world.again(core)),
        Op::GiveUp { core, dropped } => drop(world.give_up(core, dropped)),
        Op::Step { wire, end, room, most } => {
            if let Some(wire) = recent(world, wire) {
                world.step(wire, end, room, most);
            }
        }
        Op::Recv(core) => drop(world.recv(core)),
        Op::Complete(core) => drop(world.complete(core)),
        Op::Claims(core) => drop(world.drain_claims(core)),
        Op::ClaimToken(core) => drop(world.claim_token(core)),
        Op::Reply { core, padding, error } => drop(world.reply(core, padding, error)),
        Op::Abandon(core) => drop(world.abandon(core)),
        Op::Connect { pair, acceptor_first } => drop(world.connect(pair, acceptor_first)),
        Op::Drop { wire, end } => {
            if let Some(wire) = recent(world, wire) {
                world.drop_end(wire, end);
            }
        }
        Op::Weight { core, weight: w } => {
            world.cores[core].set_weight(weight(w));
            world.wake(core);
        }
        Op::Flow { core, paused } => {
            let state = if paused { FlowState::Paused } else { FlowState::Running };
            world.cores[core].set_receive_flow_state(world.now, state);
            world.wake(core);
        }
        Op::Pass(millis) => world.pass(millis),
        Op::Remove { pair, side, endpoint } => world.remove(pair, side, endpoint),
    }
}

/// Everybody does what is to be done, until nothing is.
fn settle(world: &mut World) {
    loop {
        let mut moved = false;
        for (pair, (dialler, acceptor)) in PAIRS.into_iter().enumerate() {
            let closed = world.apps[dialler].closed || world.apps[acceptor].closed;
            moved |= !closed && world.connect(pair, false);
        }
        for wire in 0..world.wires.len() {
            for end in 0..2 {
                moved |= world.step(wire, end, 1 << 16, 16);
            }
        }
        for core in 0..3 {
            moved |= world.recv(core);
            moved |= world.complete(core);
            moved |= world.drain_claims(core);
            moved |= world.reply(core, None, false);
            moved |= world.again(core);
            moved |= world.abandon_closed(core);
        }
        if !moved {
            return;
        }
    }
}

fn follow(ops: Vec<Op>, closes: Option<usize>) {
    let mut world = World::new();
    for pair in [0, 1, 2, 2] {
        world.connect(pair, false);
    }
    for op in ops {
        run(&mut world, op);
    }
    for core in 0..3 {
        world.cores[core].set_weight(weight(100));
        world.cores[core].set_receive_flow_state(world.now, FlowState::Running);
        world.wake(core);
    }
    if let Some(core) = closes {
        world.close(core);
    }
    settle(&mut world);
    // What a late reply or a lost one has left.
    world.pass(200_000);
    settle(&mut world);
    for core in 0..3 {
        check_end(&world, core, closes);
    }
    world.check_taken();
}

/// What is left of a socket when everybody has done what was to be done.
fn check_end(world: &World, core: usize, closed: Option<usize>) {
    let (socket, app) = (&world.cores[core], &world.apps[core]);
    assert!(app.requests.is_empty(), "{core}: never ended: {:?}", app.requests);
    // Who waits for the socket that closed goes on to do so; a DEALER may have chosen it.
    let gone = |target: Option<usize>| closed.is_some() && closed == target;
    let tokens: Vec<_> = app.tokens.iter().filter(|(_, target)| !gone(**target)).collect();
    assert!(tokens.is_empty(), "{core}: never ended: {tokens:?}");
    let chosen = |target: Option<usize>| closed.is_some() && target.is_none();
    let calls = app.calls.values().filter(|call| !gone(call.target) && !chosen(call.target));
    assert_eq!(calls.count(), 0, "{core}: never woken: {:?}", app.calls.keys());
    assert!(app.owed.is_empty(), "{core}: never answered: {:?}", app.owed);
    assert_eq!(socket.queued(), 0, "{core}: charge is left");
    assert!(socket.drained());
    let status = socket.status();
    assert_eq!((status.send.pending_msgs, status.receive.pending_msgs), (0, 0));
    assert_eq!(status.flow.paused_connections, 0);
    assert_eq!(socket.next_deadline(), None);
    let counters = socket.counters();
    assert_eq!(counters.tokens_issued - counters.tokens_finished, app.tokens.len() as u64);
    assert!(socket.peers().iter().all(|peer| peer.weight == Weight::DEFAULT && peer.ready));
    let peers = match closed {
        None => 2,
        Some(closed) => usize::from(closed != core),
    };
    assert_eq!(socket.peers().len(), peers);
    world.check_lost(core);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sockets_keep_what_they_promised(
        ops in prop::collection::vec(op(), 1..500),
        closes in prop::option::weighted(0.2, 0..3usize),
    ) {
        follow(ops, closes);
    }
}
