//! ConnectionFisherServer on a main line: S01 to S08, cases T-06 and T-20.

use std::rc::Rc;
use std::time::Duration;

use super::{PROOF, SECOND, bytes, connector, entry, server};
use crate::line::Chain;
use crate::testkit::{Kit, Outcome, Peer, run};

/// A chain `in` -> `serve` -> `out` with this delay in milliseconds.
fn chain(kit: &Kit, delay: u64) -> Rc<Chain> {
    let mut entry = entry();
    entry.next = Some("serve".into());
    kit.chain(vec![entry, server("serve", delay, "out"), connector()])
}

fn open(kit: &Kit, delay: u64) -> Peer {
    kit.open(&chain(kit, delay)).1
}

#[track_caller]
fn failed(kit: &Kit, reason: &str, wanted: u32) {
    let series =
        format!(r#"lineway_fisher_probe_failures_total{{node="serve",reason="{reason}"}}"#);
    kit.assert_metric(&series, wanted);
}

#[track_caller]
fn first(kit: &Kit, result: &str, wanted: u32) {
    let series = format!(r#"lineway_fisher_server_first_total{{node="serve",result="{result}"}}"#);
    kit.assert_metric(&series, wanted);
}

#[test]
fn case_t20_fisher_s01_s03_s04_the_probe_is_answered_at_once_and_payload_begins_the_backend() {
    run(async |kit| {
        let client = open(&kit, 1000);
        client.offer(b"FI");
        kit.quiet().await;
        assert_eq!((client.written(), kit.dials.len()), (0, 0));
        client.offer(b"SH?hi");
        kit.quiet().await;
        assert_eq!((client.take(), kit.dials.len()), (PROOF.to_vec(), 1));
        let backend = kit.dials.peer(0);
        assert_eq!(backend.take(), b"hi");
        backend.offer(b"answer");
        kit.quiet().await;
        assert_eq!(client.take(), b"answer");
        first(&kit, "payload", 1);
    });
}

#[test]
fn case_t20_fisher_s03_single_bytes_are_a_probe_and_no_backend_gets_init_for_it() {
    run(async |kit| {
        let client = open(&kit, 0);
        for byte in b"FISH?" {
            assert_eq!(client.written(), 0);
            client.offer(&[*byte]);
            kit.pass(Duration::from_millis(50)).await;
        }
        assert_eq!(client.take(), PROOF);
        kit.pass(SECOND * 250).await;
        assert!(kit.dials.is_empty() && !client.is_dropped(), "S04b: 0 is never");
        client.offer(b"late");
        kit.quiet().await;
        assert_eq!(kit.dials.peer(0).take(), b"late");
    });
}

#[test]
fn case_t20_fisher_s02_a_wrong_probe_closes_and_never_dials() {
    run(async |kit| {
        for wrong in [&b"FISH."[..], &[b'F'; 5000], b"GET / HTTP/1.1\r\n\r\n"] {
            let client = open(&kit, 1000);
            client.offer(&wrong[..4]);
            kit.quiet().await;
            assert!(!client.is_dropped(), "shorter input waits");
            client.offer(&wrong[4..]);
            kit.quiet().await;
            assert_eq!((client.is_dropped(), client.written()), (true, 0));
        }
        kit.pass(SECOND * 2).await;
        assert!(kit.dials.is_empty());
        failed(&kit, "wrong-bytes", 3);
        kit.assert_closed("protocol-error", 3);
        kit.assert_empty().await;
    });
}

#[test]
fn case_t20_fisher_s08_a_probe_that_is_not_whole_after_five_seconds_closes() {
    run(async |kit| {
        let clients = [&b""[..], b"F", b"FISH"].map(|part| {
            let client = open(&kit, 1000);
            client.offer(part);
            client
        });
        kit.pass(Duration::from_millis(4990)).await;
        assert!(clients.iter().all(|client| !client.is_dropped()));
        kit.pass(Duration::from_millis(20)).await;
        assert!(clients.iter().all(|client| client.is_dropped() && client.written() == 0));
        assert!(kit.dials.is_empty());
        failed(&kit, "timeout", 3);
        kit.assert_closed("timeout", 3);
        kit.assert_empty().await;
    });
}

#[test]
fn case_t20_fisher_s04b_s06_an_end_behind_the_probe_is_answered_and_never_dials() {
    run(async |kit| {
        for delay in [0, 1000] {
            let client = open(&kit, delay);
            client.offer(b"FISH?");
            client.end();
            kit.pass(SECOND * 2).await;
            assert_eq!((client.take(), client.is_dropped()), (PROOF.to_vec(), true));
        }
        for part in [&b"FIS"[..], b""] {
            let client = open(&kit, 1000);
            client.offer(part);
            client.end();
            kit.quiet().await;
            assert_eq!((client.written(), client.is_dropped()), (0, true));
        }
        let client = open(&kit, 1000);
        client.offer(b"FISH?");
        kit.quiet().await;
        client.reset();
        kit.quiet().await;
        assert!(client.is_dropped());
        kit.pass(SECOND * 2).await;
        assert!(kit.dials.is_empty());
        first(&kit, "ended", 2 + 1);
        failed(&kit, "closed", 2);
        kit.assert_empty().await;
    });
}

#[test]
fn case_t06_fisher_a_half_close_behind_payload_goes_to_the_backend_and_its_answer_comes() {
    run(async |kit| {
        kit.dials.plan(Outcome::UpAfter(SECOND));
        let client = open(&kit, 1000);
        client.offer(b"FISH?request");
        client.end();
        kit.pass(SECOND * 2).await;
        let backend = kit.dials.peer(0);
        assert_eq!((backend.take(), backend.is_shut_down()), (b"request".to_vec(), true));
        backend.offer(&bytes(1_000_000));
        backend.end();
        kit.quiet().await;
        assert!(client.take() == [PROOF, &bytes(1_000_000)].concat());
        assert!(client.is_shut_down());
        kit.assert_empty().await;
    });
}

#[test]
fn fisher_s04b_a_backend_that_speaks_first_is_dialled_after_the_delay() {
    run(async |kit| {
        let client = open(&kit, 700);
        kit.pass(SECOND).await;
        client.offer(b"FISH?");
        kit.pass(Duration::from_millis(690)).await;
        assert!(kit.dials.is_empty());
        kit.pass(Duration::from_millis(20)).await;
        let backend = kit.dials.peer(0);
        backend.offer(b"220 ready");
        kit.quiet().await;
        assert_eq!(client.take(), b"FISH!220 ready");
        assert_eq!(backend.written(), 0, "Init without payload");
        client.offer(b"HELO");
        kit.quiet().await;
        assert_eq!(backend.take(), b"HELO");
        first(&kit, "dialled", 1);
        first(&kit, "payload", 0);
    });
}

#[test]
fn fisher_s04b_a_loser_that_closes_too_late_was_dialled_and_is_closed_with_it() {
    run(async |kit| {
        let client = open(&kit, 1000);
        client.offer(b"FISH?");
        kit.pass(SECOND * 2).await;
        assert_eq!(kit.dials.len(), 1);
        client.end();
        kit.quiet().await;
        let backend = kit.dials.peer(0);
        assert!(backend.is_shut_down());
        backend.end();
        kit.assert_empty().await;
        first(&kit, "dialled", 1);
        first(&kit, "ended", 0);
    });
}

#[test]
fn fisher_s05_a_client_that_does_not_read_gets_its_answer_when_it_does() {
    run(async |kit| {
        let client = open(&kit, 1000);
        client.window(2);
        client.offer(b"FISH?hi");
        kit.quiet().await;
        assert_eq!(kit.dials.peer(0).take(), b"hi");
        kit.dials.peer(0).offer(b"answer");
        kit.quiet().await;
        assert_eq!(client.take(), b"FI");
        client.open_window();
        kit.quiet().await;
        assert_eq!(client.take(), b"SH!answer");
    });
}

#[test]
fn fisher_s06_a_backend_that_closes_or_refuses_ends_the_client() {
    run(async |kit| {
        kit.dials.plan(Outcome::REFUSED);
        let client = open(&kit, 1000);
        client.offer(b"FISH?hi");
        kit.quiet().await;
        assert_eq!((client.take(), client.is_dropped()), (PROOF.to_vec(), true));
        let client = open(&kit, 1000);
        client.offer(b"FISH?hi");
        kit.quiet().await;
        kit.dials.peer(1).reset();
        kit.quiet().await;
        assert!(client.is_dropped());
        kit.assert_empty().await;
        kit.assert_closed("connect-failed", 1);
        kit.assert_closed("peer-finished", 1);
    });
}

#[test]
fn fisher_s07_after_the_start_every_byte_passes_and_nothing_is_timed_or_counted() {
    run(async |kit| {
        let client = open(&kit, 1000);
        client.offer(b"FISH?FISH?FISH.");
        kit.quiet().await;
        let backend = kit.dials.peer(0);
        assert_eq!(backend.take(), b"FISH?FISH.");
        kit.pass(SECOND * 200).await;
        client.offer(&bytes(3_000_000));
        backend.offer(b"FISH?");
        kit.quiet().await;
        assert!(backend.take() == bytes(3_000_000));
        assert_eq!(client.take(), b"FISH!FISH?");
        failed(&kit, "wrong-bytes", 0);
        failed(&kit, "timeout", 0);
        first(&kit, "payload", 1);
    });
}
