//! What waits for the choice, and what comes with it: C05, C06, C10, C11, C16 to C18.

use std::rc::Rc;
use std::sync::Arc;

use bytes::BytesMut;
use lineway_wire::fisher::{QUEUE_BUFFERS, QUEUE_BYTES};
use lineway_wire::line::{Direction, LineKind};

use super::{PROBE, PROOF, QUEUED, SECOND, WATCHED, bytes, cast, fisher, lost, outcome};
use crate::line::{ByteQueue, End, LineParts, MainLine, Stage, StageOut, Stages};
use crate::metrics::ActorKind;
use crate::registry::{LineId, LineView};
use crate::spawn;
use crate::testkit::{Kit, Outcome, Peer, run, socket};

/// More than a read takes.
const MUCH: usize = 300_000;

#[test]
fn fisher_c06_the_source_stops_at_the_first_payload_and_the_handshake_moves_on() {
    run(async |kit| {
        let (id, client, peers) = cast(&kit, 2).await;
        client.offer(b"a");
        kit.reported().await;
        client.offer(b"bc");
        kit.reported().await;
        assert_eq!(client.offered(), 2, "the application is not read any more");
        kit.assert_metric(QUEUED, 1);
        let line = kit.line(id).expect("it lives");
        assert!(line.paused(Direction::Upstream).paused());
        assert!(!line.paused(Direction::Downstream).paused());
        peers[0].offer(PROOF);
        kit.reported().await;
        assert_eq!((client.offered(), peers[0].take()), (0, b"abc".to_vec()));
        assert!(!line.paused(Direction::Upstream).paused());
        kit.assert_metric(QUEUED, 0);
        let pauses = r#"lineway_pauses_total{direction="upstream",node="in",reason="queue"}"#;
        kit.assert_metric(pauses, 1);
    });
}

#[test]
fn fisher_c05_one_read_of_the_source_keeps_far_within_the_limits_and_is_never_lost() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 2).await;
        client.offer(&bytes(3 * QUEUE_BYTES));
        kit.quiet().await;
        let read = client.read() as usize;
        assert!(read < QUEUE_BYTES / 2 && QUEUE_BUFFERS > 2, "{read}");
        peers[1].offer(PROOF);
        kit.quiet().await;
        assert!(peers[1].take() == bytes(3 * QUEUE_BYTES));
    });
}

#[test]
fn fisher_c17_c18_the_queue_leaves_in_order_and_the_source_runs_again_when_it_is_empty() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 2).await;
        peers[0].window(0);
        peers[1].window(0);
        client.offer(&bytes(MUCH));
        kit.quiet().await;
        let (read, mut got) = (client.read() as usize, Vec::new());
        assert!(read > 1000 && read < MUCH);
        peers[1].open_window();
        kit.quiet().await;
        assert_eq!(peers[1].held(), 0, "C18: another's window frees nothing");
        peers[0].offer(PROOF);
        kit.quiet().await;
        assert_eq!(client.read() as usize, read, "C18: nor does the choice alone");
        peers[0].window(read - 1);
        kit.quiet().await;
        assert_eq!((client.read() as usize, peers[0].held()), (read, read - 1));
        got.extend(peers[0].take_some(1));
        kit.quiet().await;
        assert!(client.read() as usize > read, "the queue is empty");
        peers[0].open_window();
        kit.quiet().await;
        got.extend(peers[0].take());
        assert!(got == bytes(MUCH), "C17: another order, or bytes were lost");
        assert_eq!(peers[1].held(), 0);
    });
}

#[test]
fn fisher_c10_a_winner_whose_transport_stood_before_the_choice_gets_the_rest_of_its_probe_first() {
    run(async |kit| {
        kit.dials.plan(Outcome::UpAfter(SECOND));
        let (_, client) = kit.open(&fisher(&kit, 1));
        client.offer(b"hello");
        kit.quiet().await;
        let peer = kit.dials.peer(0);
        peer.window(3);
        kit.pass(SECOND).await;
        assert_eq!(peer.held(), 3);
        // It does not wait for the whole probe.
        peer.offer(PROOF);
        kit.quiet().await;
        assert_eq!(peer.held(), 3);
        peer.open_window();
        kit.quiet().await;
        assert_eq!(peer.take(), [PROBE, b"hello"].concat());
    });
}

#[test]
fn fisher_c11_c16_a_client_that_does_not_read_holds_no_proof_back_and_gets_the_body_first() {
    run(async |kit| {
        for size in [10, MUCH] {
            let (_, client, peers) = cast(&kit, 2).await;
            client.window(0);
            client.offer(b"hello");
            kit.quiet().await;
            peers[1].offer(&[PROOF, &bytes(size)].concat());
            kit.reported().await;
            kit.assert_metric(WATCHED, 0);
            assert_eq!(peers[1].take(), b"hello", "chosen though the client is paused");
            let read = peers[1].read();
            peers[1].offer(b"later");
            kit.quiet().await;
            assert_eq!(peers[1].read(), read, "C16: the winner is not read meanwhile");
            client.window(5);
            kit.quiet().await;
            assert_eq!(peers[1].read(), read);
            let mut got = client.take();
            client.open_window();
            kit.quiet().await;
            got.extend(client.take());
            assert!(got == [&bytes(size), &b"later"[..]].concat(), "{size}");
        }
    });
}

#[test]
fn fisher_c16_bytes_behind_the_proof_stay_few_however_much_the_winner_sends() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 1).await;
        client.window(0);
        peers[0].offer(&[PROOF, &bytes(5_000_000)].concat());
        kit.pass(SECOND).await;
        // The high-water mark and one read, as on any line.
        let (read, most) = (peers[0].read(), 512 * 1024 + 64 * 1024);
        assert!(read <= most, "{read}");
        assert!(!client.is_dropped());
    });
}

#[test]
fn fisher_c17_payload_that_comes_while_the_queue_leaves_goes_behind_it() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 2).await;
        client.read_at_most(1000);
        peers[0].write_at_most(7);
        let (sent, mut got) = (bytes(20_000), Vec::new());
        for (place, piece) in sent.chunks(1111).enumerate() {
            client.offer(piece);
            if place == 3 {
                peers[0].offer(PROOF);
            }
            kit.quiet().await;
            got.extend(peers[0].take());
        }
        assert!(got == sent);
    });
}

/// Gives so many buffers of so many bytes for the first payload, as no source of a line does.
struct Flood {
    buffers: usize,
    bytes: usize,
}

impl Stage for Flood {
    fn payload(&mut self, _: Direction, input: &mut ByteQueue, out: &mut StageOut<'_>) {
        input.clear(out.pool());
        for _ in 0..self.buffers {
            out.towards(Direction::Upstream).push(BytesMut::from(&vec![b'x'; self.bytes][..]));
        }
        out.init_next();
    }
}

/// A line of three candidates behind such a stage.
fn flood(kit: &Kit, buffers: usize, bytes: usize) -> Peer {
    let chain = fisher(kit, 3);
    let id = LineId { worker: 0, number: 1_000_000 };
    let (socket, client) = socket();
    let parts = LineParts {
        view: Arc::new(LineView::new(id, LineKind::Main, "in".into(), None, None)),
        chain: Rc::clone(&chain),
        near: End::Socket(socket),
        stages: Stages::new(vec![Box::new(Flood { buffers, bytes })]),
        far: chain.begin_far(&kit.worker),
    };
    let line = MainLine::new(&kit.worker, parts, None, None);
    spawn::start(ActorKind::MainLine, kit.board.metrics.actors(), |_| line, |_| {});
    client
}

#[test]
fn fisher_c05_a_payload_that_breaks_a_limit_closes_the_line_at_once_and_frees_everything() {
    run(async |kit| {
        for (buffers, bytes, breaks) in [
            (1, QUEUE_BYTES, false),
            (1, QUEUE_BYTES + 1, true),
            (QUEUE_BUFFERS, 1, false),
            (QUEUE_BUFFERS + 1, 1, true),
        ] {
            let client = flood(&kit, buffers, bytes);
            kit.quiet().await;
            client.offer(b"!");
            kit.reported().await;
            assert_eq!(client.is_dropped(), breaks, "{buffers} of {bytes} bytes");
            if !breaks {
                kit.assert_metric(QUEUED, (buffers * bytes) as u32);
                client.reset();
                kit.pass(SECOND * 2).await;
            }
            let peers = kit.dials.len() - 3..kit.dials.len();
            assert!(peers.map(|at| kit.dials.peer(at)).all(|p| p.is_dropped() && p.written() == 5));
            kit.assert_empty().await;
        }
        lost(&kit, "overflow", 6);
        outcome(&kit, "overflow", 2);
        kit.assert_closed("overflow", 2);
    });
}
