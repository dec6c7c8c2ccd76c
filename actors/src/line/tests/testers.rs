//! Ends that are no connections: `EchoServer`, `TesterClient`, `TesterServer`.

use std::rc::Rc;

use lineway_wire::tester::CHUNK_SIZES;

use super::{SECOND, bytes};
use crate::line::{Chain, End, TesterClient};
use crate::settings::{NodeSettings, TesterSettings};
use crate::testkit::{Kit, Peer, run, settings};

fn tester(chunk_count: usize) -> TesterSettings {
    TesterSettings { chunk_count, ..settings::tester() }
}

fn tester_chain(kit: &Kit, chunks: usize, end: NodeSettings) -> Rc<Chain> {
    kit.chain(vec![
        settings::node("in", NodeSettings::TesterClient(tester(chunks)), Some("out")),
        settings::node("out", end, None),
    ])
}

fn ask(kit: &Kit, chain: &Rc<Chain>, flow: u8, chunks: usize) {
    let near = End::TesterClient(Box::new(TesterClient::new(flow, chunks)));
    kit.board.testers.expect(1);
    kit.worker.open_main_line(chain, near, None, None, None);
}

#[test]
fn echo_everything_comes_back_and_the_end_behind_it() {
    run(async |kit| {
        let (_, client) = kit.open(&kit.echo_chain());
        client.read_at_most(1000);
        client.offer(&bytes(500_000));
        client.end();
        kit.quiet().await;
        assert!(client.take() == bytes(500_000));
        assert!(client.is_shut_down());
        kit.assert_empty().await;
    });
}

#[test]
fn echo_a_client_that_does_not_read_is_paused_and_memory_stays_bounded() {
    run(async |kit| {
        let (_, client) = kit.open(&kit.echo_chain());
        client.window(0);
        client.offer_endless();
        kit.quiet().await;
        let read = client.read();
        let mark = 512 * 1024 + 64 * 1024;
        assert!((512 * 1024..=3 * mark).contains(&read), "{read}");
        client.end();
        client.offer(&bytes(1_000_000));
        client.open_window();
        kit.quiet().await;
        let got = client.take();
        assert_eq!(got.len() as u64, read + 1_000_000);
        assert!(got[read as usize..] == bytes(1_000_000));
        assert!(client.is_shut_down());
        kit.assert_empty().await;
    });
}

#[test]
fn tester_client_and_server_agree_on_every_count_of_chunks() {
    run(async |kit| {
        for chunks in 1..=CHUNK_SIZES.len() {
            let end = NodeSettings::TesterServer(tester(chunks));
            ask(&kit, &tester_chain(&kit, chunks, end), chunks as u8, chunks);
            assert!(kit.board.testers.all_reported().await, "{chunks} chunks");
            assert_eq!(kit.board.testers.score(), (chunks, 0));
            kit.assert_empty().await;
        }
        let total: usize =
            (1..=CHUNK_SIZES.len()).map(|n| CHUNK_SIZES[..n].iter().sum::<usize>()).sum();
        for direction in ["upstream", "downstream"] {
            let series =
                format!(r#"lineway_payload_bytes_total{{direction="{direction}",node="in"}}"#);
            assert!((kit.metric(&series) - total as f64).abs() < 0.5);
        }
    });
}

/// Carries bytes between the far socket of one line and the near socket of another, as a network
/// does; `corrupt` says which byte of the request is changed on the way.
async fn carry(kit: &Kit, asks: &Peer, answers: &Peer, corrupt: Option<usize>) {
    let mut carried = 0;
    asks.window(100_000);
    answers.window(100_000);
    loop {
        let (mut there, back) = (asks.take(), answers.take());
        if let Some(place) = corrupt.and_then(|at| at.checked_sub(carried))
            && place < there.len()
        {
            there[place] ^= 0x10;
        }
        carried += there.len();
        answers.offer(&there);
        asks.offer(&back);
        if asks.is_shut_down() || asks.is_dropped() {
            answers.end();
        }
        if answers.is_shut_down() || answers.is_dropped() {
            asks.end();
        }
        kit.quiet().await;
        if asks.is_dropped() && answers.is_dropped() {
            return;
        }
    }
}

/// A `TesterClient` before a connector, a listener before a `TesterServer`, and the test between.
async fn over_the_network(kit: &Kit, corrupt: Option<usize>) {
    const CHUNKS: usize = 9;
    let connector = settings::connector(([198, 51, 100, 1], 80).into());
    ask(kit, &tester_chain(kit, CHUNKS, connector), 5, CHUNKS);
    kit.quiet().await;
    let asks = kit.dials.peer(kit.dials.len() - 1);
    let server = kit.chain(vec![
        settings::node("server", settings::listener(([192, 0, 2, 9], 7000).into()), Some("end")),
        settings::node("end", NodeSettings::TesterServer(tester(CHUNKS)), None),
    ]);
    let (_, answers) = kit.open(&server);
    carry(kit, &asks, &answers, corrupt).await;
    kit.assert_empty().await;
}

#[test]
fn tester_a_line_over_the_network_is_right_and_one_changed_byte_is_wrong() {
    run(async |kit| {
        over_the_network(&kit, None).await;
        assert_eq!(kit.board.testers.score(), (1, 0));
        let last = CHUNK_SIZES[..9].iter().sum::<usize>() - 1;
        for (wrong, place) in [1, 40_000, last].into_iter().enumerate() {
            over_the_network(&kit, Some(place)).await;
            assert_eq!(kit.board.testers.score(), (1, wrong + 1));
        }
        assert!(!kit.board.testers.all_reported().await);
        let errors =
            r#"lineway_lines_closed_total{kind="main",node="server",reason="protocol-error"}"#;
        assert!((kit.metric(errors) - 3.0).abs() < 0.5);
    });
}

#[test]
fn tester_a_server_that_ends_too_early_is_wrong_at_once() {
    run(async |kit| {
        let connector = settings::connector(([198, 51, 100, 1], 80).into());
        ask(&kit, &tester_chain(&kit, 3, connector), 1, 3);
        kit.quiet().await;
        kit.dials.peer(0).end();
        kit.pass(SECOND).await;
        assert_eq!(kit.board.testers.score(), (0, 1));
        kit.assert_empty().await;
    });
}
