//! Whatever two peers do: the same bytes come out in order, memory is bounded, and the line ends
//! exactly once.

use std::time::Duration;

use lineway_wire::line::{Direction, FinishReason};
use proptest::prelude::*;

use super::{OFF, chain_with, marks};
use crate::line::pool::BUFFER;
use crate::testkit::{Journal, Kit, Outcome, Peer, run};

const HIGH: usize = 40_000;
const LOW: usize = 10_000;

#[derive(Clone, Copy, Debug)]
enum Act {
    Offer(usize),
    Take(usize),
    Window(usize),
    ReadAtMost(usize),
    WriteAtMost(usize),
    End,
    Wait(u64),
    /// Until everybody waits.
    Quiet,
}

fn act() -> impl Strategy<Value = (bool, Act)> {
    let act = prop_oneof![
        4 => (1..150_000usize).prop_map(Act::Offer),
        4 => (1..100_000usize).prop_map(Act::Take),
        2 => (0..60_000usize).prop_map(Act::Window),
        1 => (1..20_000usize).prop_map(Act::ReadAtMost),
        1 => (50..20_000usize).prop_map(Act::WriteAtMost),
        1 => Just(Act::End),
        2 => (1..500u64).prop_map(Act::Wait),
        4 => Just(Act::Quiet),
    ];
    (any::<bool>(), act)
}

/// One side: what it has sent and got.
struct Side {
    peer: Peer,
    sent: Vec<u8>,
    got: Vec<u8>,
    ended: bool,
}

impl Side {
    fn new(peer: Peer) -> Self {
        peer.window(10_000);
        Self { peer, sent: Vec::new(), got: Vec::new(), ended: false }
    }

    async fn act(&mut self, kit: &Kit, act: Act) {
        match act {
            Act::Offer(n) if !self.ended => {
                let from = self.sent.len();
                self.sent.extend((from..from + n).map(|i| (i * 31 % 251) as u8));
                self.peer.offer(&self.sent[from..]);
            }
            Act::Offer(_) => {}
            Act::Take(n) => self.got.extend(self.peer.take_some(n)),
            Act::Window(n) => self.peer.window(n),
            Act::ReadAtMost(n) => self.peer.read_at_most(n),
            Act::WriteAtMost(n) => self.peer.write_at_most(n),
            Act::End => {
                self.ended = true;
                self.peer.end();
            }
            Act::Wait(millis) => kit.pass(Duration::from_millis(millis)).await,
            Act::Quiet => kit.quiet().await,
        }
    }
}

/// What the line read of one side and has not written to the other is within the marks.
fn bounded(from: &Side, to: &Side) {
    let queued = from.peer.read() - to.peer.written();
    assert!(queued <= (HIGH + BUFFER) as u64, "{queued} bytes wait");
}

async fn play(kit: Kit, up_after: u64, acts: Vec<(bool, Act)>) {
    let journal = Journal::new();
    let _guard = journal.install();
    let chain = chain_with(&kit, |entry, end| {
        marks(&mut entry.socket, HIGH as u64, LOW as u64);
        marks(&mut end.socket, HIGH as u64, LOW as u64);
        (entry.initial_idle_timeout, entry.active_idle_timeout) = (OFF, OFF);
        end.idle_timeout = OFF;
    });
    kit.dials.plan(Outcome::UpAfter(Duration::from_millis(up_after)));
    let (id, client) = kit.open(&chain);
    let mut client = Side::new(client);
    // So that an early end finds something queued, and cancels nothing (L09).
    client.act(&kit, Act::Offer(1)).await;
    kit.quiet().await;
    let mut server = Side::new(kit.dials.peer(0));
    for (at_client, act) in acts {
        let side = if at_client { &mut client } else { &mut server };
        side.act(&kit, act).await;
        bounded(&client, &server);
        bounded(&server, &client);
        if let Some(line) = kit.line(id) {
            for direction in Direction::ALL {
                assert!(line.queued(direction) <= (HIGH + BUFFER) as u64);
            }
        }
    }
    for side in [&mut client, &mut server] {
        side.act(&kit, Act::End).await;
        side.peer.open_window();
        side.act(&kit, Act::Wait(1000)).await;
    }
    for side in [&mut client, &mut server] {
        side.act(&kit, Act::Take(usize::MAX)).await;
        assert!(side.peer.is_shut_down() && side.peer.is_dropped());
    }
    assert!(client.sent == server.got, "upstream bytes");
    assert!(server.sent == client.got, "downstream bytes");
    kit.assert_empty().await;
    assert_eq!(journal.count("line closed"), 1);
    let closed: f64 = FinishReason::ALL.iter().map(|r| kit.closed(r.as_str())).sum();
    assert!((closed - 1.0).abs() < 0.5 && kit.closed("peer-finished") > 0.5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn line_l02_l06_l07_any_segmentation_stall_and_half_close_delivers_everything_once(
        up_after in 0..2000u64,
        acts in prop::collection::vec(act(), 0..60),
    ) {
        run(async |kit| play(kit, up_after, acts).await);
    }
}
