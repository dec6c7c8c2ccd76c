//! Any steps in any order: every request ends once, every token that was given is finished when
//! the way is free, what is counted adds up after each step.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Attach(u8, bool),
    Detach(u8),
    Send(u8, u16),
    Ask(u8, u16, bool),
    Wait(u8, bool),
    Again(u8),
    Forget(u8),
    Write(u8, u16),
    Data(u8, u16),
    Question(u8),
    Answer(u8, u8),
    Weight(u8, u32),
    Flow(u8, bool),
    Recv,
    Reply,
    Abandon,
    Pull,
    Pass(u16),
    Remove(u8),
    Hwm(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let peer = 0..4u8;
    let size = 0..700u16;
    prop_oneof![
        3 => (peer.clone(), any::<bool>()).prop_map(|(peer, dialled)| Step::Attach(peer, dialled)),
        1 => peer.clone().prop_map(Step::Detach),
        6 => (peer.clone(), size.clone()).prop_map(|(peer, size)| Step::Send(peer, size)),
        4 => (peer.clone(), size.clone(), any::<bool>())
            .prop_map(|(peer, size, claim)| Step::Ask(peer, size, claim)),
        2 => (peer.clone(), any::<bool>()).prop_map(|(peer, ask)| Step::Wait(peer, ask)),
        3 => any::<u8>().prop_map(Step::Again),
        1 => any::<u8>().prop_map(Step::Forget),
        6 => (peer.clone(), 0..900u16).prop_map(|(peer, charge)| Step::Write(peer, charge)),
        3 => (peer.clone(), size).prop_map(|(peer, size)| Step::Data(peer, size)),
        3 => peer.clone().prop_map(Step::Question),
        4 => (peer.clone(), any::<u8>()).prop_map(|(peer, which)| Step::Answer(peer, which)),
        1 => (peer.clone(), 0..3u32).prop_map(|(peer, weight)| Step::Weight(peer, weight)),
        2 => (peer.clone(), any::<bool>()).prop_map(|(peer, pause)| Step::Flow(peer, pause)),
        4 => Just(Step::Recv),
        2 => Just(Step::Reply),
        1 => Just(Step::Abandon),
        3 => Just(Step::Pull),
        1 => (0..4000u16).prop_map(Step::Pass),
        1 => peer.prop_map(Step::Remove),
        1 => (0..2000u16).prop_map(Step::Hwm),
    ]
}

/// A socket, its peers, and what it still has to tell.
struct Model {
    rig: Rig,
    endpoints: Vec<EndpointId>,
    /// Both connections of a link, by the number of its peer.
    links: BTreeMap<u8, Vec<ConnectionId>>,
    /// Charge given out and not said to be written.
    unwritten: BTreeMap<ConnectionId, Charge>,
    /// Sequences that each connection has seen.
    asked: BTreeMap<u8, Vec<u64>>,
    epochs: u64,
    questions: u64,
    pending: BTreeSet<CompletionId>,
    claimed: BTreeSet<CompletionId>,
    tokens: BTreeSet<CompletionId>,
    calls: Vec<WaiterId>,
    awake: BTreeSet<WaiterId>,
    replies: Vec<super::super::ReplyId>,
}

const NAMES: [&str; 4] = ["A", "B", "Y", "Z"];

impl Model {
    fn new(kind: SocketKind) -> Self {
        let mut rig = Rig::with(kind, |options| {
            options.reservations = 12;
            options.reply_tokens = 3;
            options.request_timeout = Duration::from_secs(2);
        });
        let endpoints = NAMES.iter().map(|name| rig.endpoint(name)).collect();
        Self {
            rig,
            endpoints,
            links: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            asked: BTreeMap::new(),
            epochs: 0,
            questions: 0,
            pending: BTreeSet::new(),
            claimed: BTreeSet::new(),
            tokens: BTreeSet::new(),
            calls: Vec::new(),
            awake: BTreeSet::new(),
            replies: Vec::new(),
        }
    }

    fn target(&self, peer: u8) -> Option<RoutingId> {
        (self.rig.core.options().kind == Router).then(|| rid(NAMES[usize::from(peer)]))
    }

    fn record(size: u16) -> Record {
        Record::new(vec![7; usize::from(size)])
    }

    fn turn(&mut self, connection: ConnectionId, received: Vec<Inbound>, room: usize) {
        let mut turn = Turn { received, room, ..Turn::default() };
        let result = self.rig.core.turn(self.rig.now, connection, &mut turn);
        result.expect("these peers keep to the protocol");
        let given: Charge = turn.outgoing.iter().map(charge).sum();
        *self.unwritten.entry(connection).or_default() += given;
        if let Some(peer) = self.peer_of(connection) {
            self.asked.entry(peer).or_default().extend(sequences(&turn.outgoing));
        }
        if turn.close.is_some() && !turn.more {
            self.detach(connection);
        }
    }

    /// A peer whose one connection ended closes the other one.
    fn detach(&mut self, connection: ConnectionId) {
        let Some(peer) = self.peer_of(connection) else { return };
        for connection in self.links.remove(&peer).unwrap_or_default() {
            self.unwritten.remove(&connection);
            self.rig.detach(connection);
        }
    }

    fn peer_of(&self, connection: ConnectionId) -> Option<u8> {
        let found = self.links.iter().find(|(_, link)| link.contains(&connection));
        found.map(|(peer, _)| *peer)
    }

    /// The connection of a peer on this lane.
    fn connection(&self, peer: u8, lane: Lane) -> Option<ConnectionId> {
        let link = self.links.get(&peer)?;
        match lane {
            Lane::Application => link.first().copied(),
            Lane::Completion => link.last().copied(),
        }
    }

    fn attach(&mut self, peer: u8, dialled: bool) {
        if self.links.contains_key(&peer) {
            return;
        }
        let origin = if dialled {
            Origin::Dialled(self.endpoints[usize::from(peer)])
        } else {
            Origin::Accepted("tcp://bound".into())
        };
        let (kind, name) = (self.rig.core.options().kind, NAMES[usize::from(peer)]);
        // The last one is a DEALER.
        let link = if peer == 3 || kind == Dealer {
            let peer = if peer == 3 { Dealer } else { Router };
            let attaching = self.rig.attaching(peer, name, origin);
            self.rig.attach(attaching).map(|one| vec![one])
        } else {
            self.rig.two(name, &origin).map(|(first, second)| vec![first, second])
        };
        self.asked.remove(&peer);
        self.links.insert(peer, link.expect("nobody else has this id"));
    }

    fn note(&mut self, attempt: Attempt, waiter: WaiterId) {
        match attempt {
            Attempt::Waits(_) => self.calls.push(waiter),
            Attempt::Done(id) => self.pending.extend(id),
            Attempt::Failed(_) => {}
        }
    }

    fn apply(&mut self, step: Step) {
        let now = self.rig.now;
        match step {
            Step::Attach(peer, dialled) => self.attach(peer, dialled),
            Step::Detach(peer) => {
                if let Some(connection) = self.connection(peer, Lane::Application) {
                    self.detach(connection);
                }
            }
            Step::Send(peer, size) => {
                let target = self.target(peer);
                let submit = Submit::Send;
                let sent =
                    self.rig.core.try_submit(now, target.as_ref(), Self::record(size), submit, 0);
                self.tokens.extend(sent.err().and_then(|refused| refused.token));
            }
            Step::Ask(peer, size, claim) => {
                let target = self.target(peer);
                let submit = Submit::Request { timeout: None, claim };
                match self.rig.core.try_submit(now, target.as_ref(), Self::record(size), submit, 0)
                {
                    Ok(id) => {
                        self.pending.extend(id);
                        self.claimed.extend(id.filter(|_| claim));
                    }
                    Err(refused) => self.tokens.extend(refused.token),
                }
            }
            Step::Wait(peer, ask) => {
                let target = self.target(peer);
                let submit = if ask { ASK } else { Submit::Send };
                let (attempt, waiter) =
                    self.rig.core.begin(now, target.as_ref(), hundred(), submit, 0);
                self.note(attempt, waiter.unwrap_or(WaiterId(0)));
            }
            Step::Again(which) => {
                if !self.calls.is_empty() {
                    let call = self.calls.remove(usize::from(which) % self.calls.len());
                    self.awake.remove(&call);
                    let attempt = self.rig.again(call);
                    self.note(attempt, call);
                }
            }
            Step::Forget(which) => {
                if !self.calls.is_empty() {
                    let call = self.calls.remove(usize::from(which) % self.calls.len());
                    self.awake.remove(&call);
                    self.rig.core.forget(call);
                }
            }
            Step::Write(peer, most) => {
                for connection in self.links.get(&peer).cloned().unwrap_or_default() {
                    if self.peer_of(connection).is_none() {
                        continue;
                    }
                    let unwritten = self.unwritten.entry(connection).or_default();
                    let written = (*unwritten).min(u64::from(most));
                    *unwritten -= written;
                    self.rig.turn_written(connection, written);
                    self.turn(connection, Vec::new(), 500);
                }
            }
            Step::Data(peer, size) => {
                if let Some(connection) = self.connection(peer, Lane::Application) {
                    let inbound = Inbound::Record(Kind::Data, Self::record(size));
                    self.turn(connection, vec![inbound], 0);
                }
            }
            Step::Question(peer) => {
                let connection = self.connection(peer, Lane::Application);
                if let Some(connection) = connection.filter(|_| self.target(0).is_some()) {
                    self.questions += 1;
                    self.turn(connection, vec![request(self.questions, "?")], 0);
                }
            }
            Step::Answer(peer, which) => {
                let Some(connection) = self.connection(peer, Lane::Completion) else { return };
                let asked = self.asked.entry(peer).or_default();
                if !asked.is_empty() {
                    let number = asked[usize::from(which) % asked.len()];
                    self.turn(connection, vec![reply(number, "!")], 0);
                }
            }
            Step::Weight(peer, number) => {
                if let Some(connection) = self.connection(peer, Lane::Application) {
                    self.turn(connection, vec![Inbound::Weight(weight(number))], 0);
                }
            }
            Step::Flow(peer, pause) => {
                self.epochs += 1;
                let state = if pause { paused(self.epochs) } else { running(self.epochs) };
                if let Some(connection) = self.connection(peer, Lane::Completion) {
                    self.turn(connection, vec![state], 0);
                }
            }
            Step::Recv => {
                if let Some(received) = self.rig.recv() {
                    self.replies.extend(received.reply);
                }
            }
            Step::Reply => {
                if let Some(token) = self.replies.pop()
                    && self.rig.core.try_reply(token, record("!")).is_err()
                {
                    self.replies.push(token);
                }
            }
            Step::Abandon => {
                if let Some(token) = self.replies.pop() {
                    self.rig.core.abandon_reply(token);
                }
            }
            Step::Pull => self.pull(),
            Step::Pass(millis) => self.rig.pass(u64::from(millis)),
            Step::Remove(peer) => {
                if let Some(id) = self.target(peer) {
                    self.rig.core.disconnect_rid(now, &id);
                }
            }
            Step::Hwm(hwm) => self.rig.core.set_options(|options| options.send_hwm = hwm.into()),
        }
    }

    fn pull(&mut self) {
        while let Some(completion) = self.rig.core.next_completion() {
            self.took(&completion);
        }
        for id in self.claimed.clone() {
            if let Some(completion) = self.rig.core.claimed(id) {
                self.claimed.remove(&id);
                self.took(&completion);
            }
        }
    }

    fn took(&mut self, completion: &Completion) {
        let known = match completion.outcome {
            Outcome::Request { .. } => self.pending.remove(&completion.id),
            Outcome::Writable | Outcome::Removed => self.tokens.remove(&completion.id),
        };
        assert!(known, "once for each, and for nothing else: {completion:?}");
    }

    fn settle(&mut self) {
        self.rig.check();
        for wake in self.rig.wakes() {
            if let Wake::Waiter(call) = wake {
                self.awake.insert(call);
            }
        }
    }

    /// Every peer comes back, runs and reads, every call tries when it is told: nothing may be
    /// left.
    fn finish(&mut self) {
        self.rig.core.set_options(|options| options.send_hwm = HWM);
        // A call may be pinned to an endpoint whose peer is here by a connection of its own.
        for peer in 0..4 {
            self.apply(Step::Detach(peer));
        }
        for _ in 0..100 {
            for peer in 0..4 {
                self.attach(peer, true);
                self.apply(Step::Weight(peer, 2));
                self.apply(Step::Flow(peer, false));
                self.apply(Step::Write(peer, u16::MAX));
            }
            self.pull();
            self.settle();
            for call in std::mem::take(&mut self.awake) {
                if let Some(place) = self.calls.iter().position(|one| *one == call) {
                    self.calls.remove(place);
                    let attempt = self.rig.again(call);
                    self.note(attempt, call);
                }
            }
            while let Some(received) = self.rig.recv() {
                received.reply.into_iter().for_each(|reply| self.rig.core.abandon_reply(reply));
            }
            for reply in std::mem::take(&mut self.replies) {
                self.rig.core.abandon_reply(reply);
            }
            self.settle();
        }
        self.rig.pass(10_000);
        self.pull();
        assert_eq!(self.calls, [], "every call was woken until it was done");
        assert!(self.tokens.is_empty(), "D-W4: {:?}", self.tokens);
        assert!(self.pending.is_empty(), "D-R1: {:?}", self.pending);
        assert_eq!(self.rig.core.queued(), 0);
        self.rig.check();
    }
}

impl Rig {
    fn turn_written(&mut self, connection: ConnectionId, written: Charge) {
        let mut turn = Turn { written, ..Turn::default() };
        self.core.turn(self.now, connection, &mut turn).expect("no fault of the peer");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn zmp_any_steps_end_well(router in any::<bool>(), steps in prop::collection::vec(step(), 1..120)) {
        let mut model = Model::new(if router { Router } else { Dealer });
        for step in steps {
            model.apply(step);
            model.settle();
        }
        model.finish();
    }
}
