//! Whatever clients, backends and the transport between two muxes do: no byte is lost, doubled or
//! out of order, and every child ends once.

use std::time::Duration;

use proptest::prelude::*;

use super::{
    SECOND, buffers, bytes, client_with, connector, counter, entry, fixed, server_with, timer,
};
use crate::settings::MuxMode;
use crate::testkit::{Kit, Peer, run};

#[derive(Clone, Copy, Debug)]
enum Act {
    /// A line comes.
    Open,
    Send(usize),
    Take(usize),
    Window(usize),
    WriteAtMost(usize),
    End,
    Reset,
    Panic,
    Wait(u64),
    Quiet,
}

fn act() -> impl Strategy<Value = (usize, bool, Act)> {
    let act = prop_oneof![
        3 => Just(Act::Open),
        3 => (1..12usize).prop_map(Act::Send),
        5 => (1..600_000usize).prop_map(Act::Send),
        3 => (1..400_000usize).prop_map(Act::Take),
        2 => (0..60_000usize).prop_map(Act::Window),
        1 => (500..20_000usize).prop_map(Act::WriteAtMost),
        2 => Just(Act::End),
        1 => Just(Act::Reset),
        1 => Just(Act::Panic),
        2 => (1..400u64).prop_map(Act::Wait),
        5 => Just(Act::Quiet),
    ];
    (0..6usize, any::<bool>(), act)
}

fn mode() -> impl Strategy<Value = MuxMode> {
    prop_oneof![
        (1..4u32).prop_map(fixed),
        (1..4u32).prop_map(counter),
        (61..800u64).prop_map(timer),
    ]
}

/// One side of a line, and what it will have sent.
struct Side {
    peer: Peer,
    script: Vec<u8>,
    sent: usize,
    got: Vec<u8>,
    ended: bool,
    /// It was reset or panicked, so that nothing of it is owed to the other.
    broke: bool,
}

impl Side {
    fn new(peer: Peer, seed: usize) -> Self {
        let script = bytes(1_500_000 + seed).split_off(seed);
        Self { peer, script, sent: 0, got: Vec::new(), ended: false, broke: false }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Send(n) if !self.ended && !self.broke => {
                let to = (self.sent + n).min(self.script.len());
                self.peer.offer(&self.script[self.sent..to]);
                self.sent = to;
            }
            Act::Take(n) => self.got.extend(self.peer.take_some(n)),
            Act::Window(n) => self.peer.window(n),
            Act::WriteAtMost(n) => self.peer.write_at_most(n),
            Act::End if !self.broke => {
                self.ended = true;
                self.peer.end();
            }
            Act::Reset => {
                self.broke = true;
                self.peer.reset();
            }
            Act::Panic => {
                self.broke = true;
                self.peer.explode();
            }
            _ => {}
        }
    }

    fn drain(&mut self) {
        self.peer.open_window();
        self.got.extend(self.peer.take());
    }
}

/// A line: its client, and its backend once it is dialled.
struct Pair {
    client: Side,
    backend: Option<Side>,
}

async fn play(kit: Kit, mode: MuxMode, limit: u64, acts: Vec<(usize, bool, Act)>) {
    let mux = client_with(mode, |mux| buffers(&mut mux.mux, limit, limit / 2));
    let demux = server_with(|mux| buffers(&mut mux.mux, limit, limit / 2));
    let chain = kit.chain(vec![entry(), mux, demux, connector()]);
    let mut pairs: Vec<Pair> = Vec::new();
    for (at, far, act) in acts {
        match act {
            Act::Open if pairs.len() < 6 => {
                let dialled = kit.dials.len();
                let (_, client) = kit.open(&chain);
                let mut client = Side::new(client, 2 * pairs.len());
                client.act(Act::Send(1));
                kit.quiet().await;
                assert_eq!(kit.dials.len(), dialled + 1, "the child is dialled");
                let backend = Side::new(kit.dials.peer(dialled), 2 * pairs.len() + 1);
                pairs.push(Pair { client, backend: Some(backend) });
            }
            Act::Wait(millis) => kit.pass(Duration::from_millis(millis)).await,
            Act::Quiet => kit.quiet().await,
            _ => {
                if let Some(Pair { client, backend: Some(backend) }) = pairs.get_mut(at) {
                    if far { backend.act(act) } else { client.act(act) }
                }
            }
        }
        for pair in &pairs {
            held(pair, limit as usize);
        }
    }
    settle(&kit, &mut pairs).await;
    for pair in &pairs {
        delivered(pair);
    }
    kit.worker.drain_parents();
    kit.quiet().await;
    kit.assert_empty().await;
    let count = pairs.len();
    for node in ["mux", "demux"] {
        let opened = kit.metric(&format!(r#"lineway_mux_children_opened_total{{node="{node}"}}"#));
        let ends = lineway_wire::mux::ChildEnd::ALL.map(|end| {
            let name = "lineway_mux_children_closed_total";
            kit.metric(&format!(r#"{name}{{node="{node}",reason="{}"}}"#, end.as_str()))
        });
        assert_eq!((opened as usize, ends.iter().sum::<f64>() as usize), (count, count), "{node}");
    }
}

/// What was read of a client and not written to its backend is bounded.
fn held(pair: &Pair, limit: usize) {
    let Pair { client, backend: Some(backend) } = pair else {
        return;
    };
    // Two lines with their marks and a read, two credits, and the queue of one child.
    let most = 2 * (512 + 64 + 256) * 1024 + limit + 65_536 + 256 * 1024;
    let held = client.peer.read().saturating_sub(backend.peer.written());
    assert!(held as usize <= most, "{held} bytes wait");
}

/// Everybody takes what there is and ends.
async fn settle(kit: &Kit, pairs: &mut [Pair]) {
    for _ in 0..3 {
        for pair in &mut *pairs {
            pair.client.drain();
            pair.backend.iter_mut().for_each(Side::drain);
        }
        kit.pass(SECOND).await;
    }
    for side in pairs.iter_mut().flat_map(|p| p.backend.iter_mut().chain([&mut p.client])) {
        side.drain();
        side.act(Act::End);
    }
    kit.pass(SECOND * 5).await;
    for side in pairs.iter_mut().flat_map(|p| p.backend.iter_mut().chain([&mut p.client])) {
        side.drain();
        assert!(side.peer.is_dropped(), "a line is left");
    }
}

fn delivered(pair: &Pair) {
    let Pair { client, backend: Some(backend) } = pair else {
        return;
    };
    for (from, to) in [(client, backend), (backend, client)] {
        assert!(from.script.starts_with(&to.got), "out of order");
        assert!(to.got.len() <= from.sent);
        if !client.broke && !backend.broke {
            assert_eq!(to.got.len(), from.sent, "all of it");
            assert!(to.peer.is_shut_down());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn mux_any_interleaving_delivers_every_byte_once_in_order_and_ends_every_child_once(
        mode in mode(),
        limit in prop_oneof![Just(8u64 << 20), 300_000..1_000_000u64],
        acts in prop::collection::vec(act(), 0..80),
    ) {
        run(async |kit| play(kit, mode, limit, acts).await);
    }
}
