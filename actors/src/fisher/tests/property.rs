//! Whatever client and candidates do: one outcome, and no byte lost, doubled or out of order.

use std::io;
use std::time::Duration;

use proptest::prelude::*;

use super::{PROBE, PROOF, SECOND, bytes, fisher};
use crate::metrics::SelectionOutcome;
use crate::testkit::{Journal, Kit, Outcome, Peer, run};

#[derive(Clone, Copy, Debug)]
enum Act {
    /// So many more bytes of the client's payload, or of a candidate's proof and payload.
    Send(usize),
    /// A reply that proves nothing, if it is the first.
    Lie,
    Take(usize),
    Window(usize),
    WriteAtMost(usize),
    End,
    /// Of a candidate that has not proved itself, or of nobody.
    Reset,
    Panic,
    Wait(u64),
    /// Until everybody waits; without it acts happen in one instant.
    Quiet,
}

fn act() -> impl Strategy<Value = (usize, Act)> {
    let act = prop_oneof![
        3 => (1..12usize).prop_map(Act::Send),
        2 => (1..150_000usize).prop_map(Act::Send),
        1 => Just(Act::Lie),
        2 => (1..100_000usize).prop_map(Act::Take),
        2 => (0..60_000usize).prop_map(Act::Window),
        1 => (50..20_000usize).prop_map(Act::WriteAtMost),
        1 => Just(Act::End),
        1 => Just(Act::Reset),
        1 => Just(Act::Panic),
        2 => (1..600u64).prop_map(Act::Wait),
        5 => Just(Act::Quiet),
    ];
    (0..6usize, act)
}

fn plan() -> impl Strategy<Value = Outcome> {
    let refused = |ms| Outcome::Fails(io::ErrorKind::ConnectionRefused, Duration::from_millis(ms));
    prop_oneof![
        4 => Just(Outcome::Up),
        3 => (0..1500u64).prop_map(|ms| Outcome::UpAfter(Duration::from_millis(ms))),
        1 => (0..1500u64).prop_map(refused),
        1 => Just(Outcome::Hangs),
    ]
}

/// One side and all that it will have sent, in order.
struct Side {
    peer: Peer,
    script: Vec<u8>,
    sent: usize,
    got: Vec<u8>,
    ended: bool,
}

impl Side {
    fn new(peer: Peer, script: Vec<u8>) -> Self {
        Self { peer, script, sent: 0, got: Vec::new(), ended: false }
    }

    fn send(&mut self, n: usize) {
        if !self.ended {
            let to = (self.sent + n).min(self.script.len());
            self.peer.offer(&self.script[self.sent..to]);
            self.sent = to;
        }
    }

    /// Its candidate can not have been chosen.
    fn unproved(&self) -> bool {
        self.sent < PROOF.len() && self.script.starts_with(PROOF)
    }

    async fn act(&mut self, kit: &Kit, act: Act) {
        match act {
            Act::Send(n) => self.send(n),
            Act::Lie if self.unproved() && self.sent == 0 => {
                self.script.splice(..PROOF.len(), *b"FISH ");
                self.send(PROOF.len());
            }
            Act::Reset if self.unproved() => {
                self.ended = true;
                self.peer.reset();
            }
            Act::Panic if self.unproved() => {
                self.ended = true;
                self.peer.explode();
            }
            Act::Lie | Act::Reset | Act::Panic => {}
            Act::Take(n) => self.got.extend(self.peer.take_some(n)),
            Act::Window(n) => self.peer.window(n),
            Act::WriteAtMost(n) => self.peer.write_at_most(n),
            Act::End => {
                self.ended = true;
                self.peer.end();
            }
            Act::Wait(millis) => kit.pass(Duration::from_millis(millis)).await,
            Act::Quiet => kit.quiet().await,
        }
    }

    /// Takes all that is left.
    fn drain(&mut self) {
        self.peer.open_window();
        self.got.extend(self.peer.take());
    }
}

async fn play(kit: Kit, plans: Vec<Outcome>, acts: Vec<(usize, Act)>) {
    let journal = Journal::new();
    let _guard = journal.install();
    for plan in &plans {
        kit.dials.plan(*plan);
    }
    let (_, client) = kit.open(&fisher(&kit, plans.len() as u32));
    let mut client = Side::new(client, bytes(700_000));
    // So that an early end finds something queued, and cancels nothing (L09).
    client.send(1);
    kit.quiet().await;
    let candidate = |at: usize| {
        let script = [PROOF, &bytes(700_000 + at)[at..]].concat();
        Side::new(kit.dials.peer(at), script)
    };
    let mut far: Vec<_> = (0..plans.len()).map(candidate).collect();
    for (at, act) in acts {
        let most = far.len();
        let side = if at < 2 { &mut client } else { &mut far[(at - 2) % most] };
        side.act(&kit, act).await;
        let passed = far.iter().map(|side| side.peer.written().saturating_sub(5)).max();
        let queued = client.peer.read() - passed.unwrap_or(0);
        assert!(queued <= (512 + 64) * 1024, "{queued} bytes wait");
    }
    for side in far.iter().chain([&client]) {
        side.peer.open_window();
    }
    // Over the deadline of the selection.
    kit.pass(SECOND * 6).await;
    client.drain();
    far.iter_mut().for_each(Side::drain);
    kit.quiet().await;
    let chosen: Vec<_> = (0..far.len()).filter(|at| far[*at].got.len() > PROBE.len()).collect();
    assert!(chosen.len() <= 1, "payload went to {chosen:?}");
    client.ended = true;
    client.peer.end();
    if let [winner] = chosen[..] {
        let winner = &mut far[winner];
        winner.ended = true;
        winner.peer.end();
        kit.pass(SECOND).await;
        winner.drain();
        client.drain();
        assert!(winner.got == [PROBE, &client.script[..client.sent]].concat(), "upstream");
        assert!(client.got == winner.script[PROOF.len()..winner.sent], "downstream");
        assert!(winner.peer.is_shut_down() && client.peer.is_shut_down());
    }
    kit.pass(SECOND).await;
    for (at, side) in far.iter().enumerate() {
        assert!(side.peer.is_dropped(), "{at} was left behind");
        assert!(chosen.contains(&at) || PROBE.starts_with(&side.got), "{at} got {:?}", side.got);
    }
    assert!(client.peer.is_dropped());
    kit.assert_empty().await;
    settled(&kit, plans.len(), chosen.len(), client.got.len());
    assert_eq!(journal.count("line closed"), 1 + plans.len(), "{:#?}", journal.lines());
}

/// One outcome, which is that of the bytes; every candidate ended once.
fn settled(kit: &Kit, candidates: usize, won: usize, got: usize) {
    let count = |outcome: &str| {
        let series =
            format!(r#"lineway_fisher_selections_total{{node="fish",result="{outcome}"}}"#);
        kit.metric(&series) as usize
    };
    let outcomes: usize = SelectionOutcome::ALL.iter().map(|o| count(o.as_str())).sum();
    assert_eq!((outcomes, count("won")), (1, won));
    assert!(won == 1 || got == 0, "the client got bytes of nobody");
    let lost: f64 = lineway_wire::fisher::Loss::ALL
        .iter()
        .map(|why| {
            let why = why.as_str();
            kit.metric(&format!(r#"lineway_fisher_lost_total{{node="fish",reason="{why}"}}"#))
        })
        .sum();
    assert_eq!(lost as usize + won, candidates);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn fisher_any_interleaving_has_one_outcome_and_every_byte_once_in_order(
        plans in prop::collection::vec(plan(), 1..4),
        acts in prop::collection::vec(act(), 0..60),
    ) {
        run(async |kit| play(kit, plans, acts).await);
    }
}
