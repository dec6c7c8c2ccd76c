use super::*;
use crate::testkit::{Kit, run, settings};

const SECOND: Duration = Duration::from_secs(1);

fn service(kit: &Kit) -> Service {
    let plan = Arc::new(settings::plan(Vec::new()));
    Service::new(kit.board.clone(), vec![kit.actor.clone()], plan)
}

#[test]
fn case_m16_a_drain_ends_an_idle_line_when_its_time_is_over() {
    run(async |kit| {
        let mut service = service(&kit);
        let (_, client) = kit.open(&kit.echo_chain());
        client.offer(b"x");
        kit.quiet().await;
        let start = tokio::time::Instant::now();
        assert_eq!(service.drain(SECOND * 3).await, 1);
        let took = start.elapsed();
        assert!(took >= SECOND * 3 && took < Duration::from_millis(3500), "{took:?}");
        assert!(client.is_dropped());
        assert!((kit.closed("drain") - 1.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}

#[test]
fn a_drain_is_over_with_the_last_line() {
    run(async |kit| {
        let mut service = service(&kit);
        let (_, client) = kit.open(&kit.echo_chain());
        client.offer(b"the last words");
        let start = tokio::time::Instant::now();
        let drained = async {
            let left = service.drain(SECOND * 60).await;
            (left, start.elapsed())
        };
        let ends = async {
            kit.pass(SECOND).await;
            assert!(!client.is_dropped(), "a line has its time");
            client.end();
        };
        let ((left, took), ()) = tokio::join!(drained, ends);
        assert_eq!(left, 0);
        assert!(took >= SECOND && took < SECOND * 2, "{took:?}");
        assert_eq!(client.take(), b"the last words");
        assert!((kit.closed("peer-finished") - 1.0).abs() < 0.5);
    });
}

#[test]
fn a_second_signal_ends_lines_at_once_whatever_they_have_queued() {
    run(async |kit| {
        let service = service(&kit);
        let (_, client) = kit.open(&kit.echo_chain());
        client.window(0);
        client.offer(b"never read");
        kit.quiet().await;
        let start = tokio::time::Instant::now();
        assert_eq!(service.end_lines().await, 1);
        assert!(start.elapsed() < SECOND);
        kit.assert_empty().await;
    });
}

#[test]
fn an_operator_closes_one_line_and_no_other() {
    run(async |kit| {
        let service = service(&kit);
        let chain = kit.echo_chain();
        let ((id, one), (_, other)) = (kit.open(&chain), kit.open(&chain));
        kit.quiet().await;
        assert!(service.finisher().finish_line(id).await);
        kit.quiet().await;
        assert!(one.is_dropped() && !other.is_dropped());
        assert!(!service.finisher().finish_line(id).await, "it is gone");
        let nowhere = LineId { worker: 9, ..id };
        assert!(!service.finisher().finish_line(nowhere).await);
        assert!((kit.closed("admin") - 1.0).abs() < 0.5);
    });
}

#[test]
fn a_reload_forgets_a_removed_node_when_its_lines_had_their_time() {
    run(async |kit| {
        let mut service = service(&kit);
        let echo = |name| settings::node(name, NodeSettings::EchoServer, None);
        let to = ([198, 51, 100, 1], 80).into();
        let gone = settings::node("gone", settings::connector(to), None);
        let first = settings::plan(vec![echo("kept"), gone]);
        service.reload(Arc::new(first)).await.unwrap();
        let dials = r#"lineway_dials_total{node="gone""#;
        assert!(kit.board.metrics.text().contains(dials));
        let second = Arc::new(settings::plan(vec![echo("kept"), echo("more")]));
        let changes = service.reload(second).await.unwrap();
        assert_eq!(changes.removed, [Arc::from("gone")]);
        assert_eq!(changes.added, [Arc::from("more")]);
        let start = tokio::time::Instant::now();
        service.after_reload(&changes).await;
        assert!(start.elapsed() >= SECOND * 10, "drain-timeout-ms");
        assert!(!kit.board.metrics.text().contains(dials));
        assert!(
            kit.metric(r#"lineway_reloads_total{result="applied"}"#) >= 2.0,
            "both are counted"
        );
    });
}

#[test]
fn what_a_reload_has_left_to_do_spares_a_node_that_is_back_though_none_of_its_listeners_looked() {
    run(async |kit| {
        let mut service = service(&kit);
        let entry = settings::listener(([192, 0, 2, 9], 7000).into());
        let plan = settings::plan(vec![
            settings::node("in", entry, Some("out")),
            settings::node("out", NodeSettings::EchoServer, None),
        ]);
        let changes = Changes { removed: vec![Arc::from("in")], ..Changes::default() };
        service.install(Arc::new(plan), Bindings::default(), false).await;
        service.after_reload(&changes).await;
        let page = kit.board.metrics.text();
        assert!(page.contains(r#"lineway_lines_opened_total{kind="main",node="in"}"#), "{page}");
    });
}
