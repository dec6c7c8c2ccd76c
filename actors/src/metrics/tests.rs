use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lineway_wire::line::{Direction, FinishReason, LineKind, PauseReason};

use crate::health::Health;

use super::{AcceptError, ActorKind, DialResult, Metrics, Refused};

mod mux;
mod socket;
mod strict;

use strict::{Format, Page};

/// A service of these nodes on so many workers, nothing counted yet.
fn service(nodes: &[(&str, &'static str)], workers: u16) -> Metrics {
    let metrics = Metrics::new("1.2.3");
    let health = Health::new(workers, Instant::now());
    metrics.register(health.collector()).unwrap();
    for (name, type_name) in nodes {
        metrics.node(&Arc::from(*name), type_name);
        health.passive(&Arc::from(*name));
    }
    for worker in 0..workers {
        metrics.worker(worker);
    }
    metrics
}

fn text(metrics: &Metrics) -> Page {
    strict::parse(&metrics.text(), Format::Text).expect("the text page is right")
}

fn open(metrics: &Metrics) -> Page {
    strict::parse(&metrics.open_metrics(), Format::OpenMetrics).expect("the page is right")
}

/// A listener with traffic, so that the samples are not all 0.
fn with_traffic(metrics: &Metrics, name: &str) {
    let node = metrics.node(&Arc::from(name), "TcpListener");
    for _ in 0..3 {
        node.opened(LineKind::Main);
    }
    node.closed(LineKind::Main, FinishReason::Idle, Duration::from_millis(1500));
    node.payload(Direction::Upstream, 12_345_678);
    node.payload(Direction::Downstream, 1_000);
    node.queued_add(4096);
    node.queued_sub(96);
    node.paused(Direction::Upstream, PauseReason::Queue);
    node.accept_error(AcceptError::Aborted);
    node.refused(Refused::Blacklist);
    metrics.worker(0).lag(Duration::from_micros(300));
}

#[test]
fn case_m01_traffic_makes_no_series_and_ten_nodes_stay_under_500_lines() {
    let mixed = [
        ("a", "TcpListener"),
        ("b", "TcpListener"),
        ("c", "TcpListener"),
        ("d", "TcpListener"),
        ("e", "TcpListener"),
        ("f", "TcpConnector"),
        ("g", "TcpConnector"),
        ("h", "TcpConnector"),
        ("i", "EchoServer"),
        ("j", "TesterServer"),
    ];
    let mut listeners = mixed.map(|(name, _)| (name, "TcpListener"));
    listeners[9].1 = "TcpConnector";
    let muxes = [
        ("a", "TcpListener"),
        ("b", "MuxClient"),
        ("c", "TcpConnector"),
        ("d", "TcpListener"),
        ("e", "ConnectionFisherServer"),
        ("f", "MuxServer"),
        ("g", "TcpConnector"),
        ("h", "ConnectionFisherServer"),
        ("i", "EchoServer"),
        ("j", "TesterServer"),
    ];
    // A broker beside lines. Ten sockets have more, as a type of node has all that it can count.
    let sockets = [
        ("a", "TcpListener"),
        ("b", "TcpConnector"),
        ("c", "RouterSocket"),
        ("d", "DealerSocket"),
        ("e", "EchoServer"),
        ("f", "TcpConnector"),
        ("g", "TcpConnector"),
        ("h", "ConnectionFisherServer"),
        ("i", "EchoServer"),
        ("j", "TesterServer"),
    ];
    for (nodes, workers) in [(mixed, 8), (listeners, 2), (muxes, 2), (sockets, 2)] {
        let metrics = service(&nodes, workers);
        let before = text(&metrics).series();
        for _ in 0..1000 {
            with_traffic(&metrics, "a");
        }
        assert_eq!(text(&metrics).series(), before);
        for page in [metrics.text(), metrics.open_metrics()] {
            let lines = page.lines().count();
            assert!(lines < 500, "{lines} lines");
        }
    }
}

#[test]
fn case_m03_any_name_reads_back_from_both_formats() {
    for name in [
        "in\"1\\x\ny",
        "\\n",
        "\\\\\"",
        "edge-1.tcp",
        "9in",
        "ورودی",
        "a,b=\"c\"} 7",
        " ",
        "\r\t",
        "{}#",
    ] {
        let metrics = service(&[(name, "TcpListener")], 1);
        with_traffic(&metrics, name);
        for page in [text(&metrics), open(&metrics)] {
            let labels = [("node", name), ("direction", "upstream")];
            let value = page.value("lineway_payload_bytes_total", &labels);
            assert_eq!(value, Some(12_345_678.0), "{name:?}");
        }
    }
    let metrics = service(&[("in\"1\\x\ny", "TcpListener")], 0);
    assert!(metrics.text().contains(r#"node="in\"1\\x\ny""#));
}

#[test]
fn case_m04_names_follow_the_rules() {
    let metrics = service(&[("edge-1.tcp", "TcpListener"), ("9in", "TcpConnector")], 1);
    for family in &text(&metrics).families {
        let name = family.name.as_str();
        assert!(name.starts_with("lineway_") || name.starts_with("process_"), "{name}");
        assert_eq!(name.ends_with("_total"), family.kind == "counter", "{name}");
        assert!(!family.help.is_empty(), "{name}");
        for suffix in ["_bucket", "_sum", "_count"] {
            assert!(!name.ends_with(suffix), "{name}");
        }
    }
}

#[test]
fn case_m05_both_formats_pass_a_strict_parser_and_say_the_same() {
    let metrics = service(&[("a", "TcpListener"), ("b", "TcpListener"), ("c", "TcpListener")], 2);
    with_traffic(&metrics, "b");
    let (text, open) = (text(&metrics), open(&metrics));
    assert_eq!(text.families.len(), open.families.len());
    for (a, b) in text.families.iter().zip(&open.families) {
        // Of a process everything may move between two scrapes.
        if a.name.starts_with("process_") {
            continue;
        }
        assert_eq!(a.samples, b.samples, "{}", a.name);
        assert_eq!(a.help, b.help);
    }
    let build = open.families.iter().find(|f| f.name == "lineway_build").unwrap();
    assert_eq!(build.kind, "info");
    let histogram =
        open.value("lineway_line_lifetime_seconds_bucket", &[("node", "b"), ("le", "10")]).unwrap();
    assert!((histogram - 1.0).abs() < f64::EPSILON);
}

#[test]
fn case_m05_the_strict_parser_is_strict() {
    let good = "# HELP a_total x\n# TYPE a_total counter\na_total{n=\"1\"} 1\n";
    assert!(strict::parse(good, Format::Text).is_ok());
    for wrong in [
        "# HELP a_total x\n# TYPE a_total counter\na_total 1",
        "# TYPE a_total counter\na_total 1\n",
        "a_total 1\n",
        "# HELP a x\n# TYPE a gauge\na 1\n# HELP a x\n# TYPE a gauge\na{n=\"1\"} 1\n",
        "# HELP a x\n# TYPE a gauge\na 1\nb 1\n",
        "# HELP a x\n# TYPE a gauge\na 1\na 2\n",
        "# HELP a x\n# TYPE a gauge\na{n=\"\\x\"} 1\n",
        "# HELP a x\n# TYPE a gauge\na{n=\"1\" } 1\n",
        "# HELP a x\n# TYPE a gauge\na{n=\"1\"}\n",
        "# HELP a-b x\n# TYPE a-b gauge\na-b 1\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n",
    ] {
        assert!(strict::parse(wrong, Format::Text).is_err(), "{wrong}");
    }
    let good = "# HELP a x\n# TYPE a counter\na_total 1\n# EOF\n";
    assert!(strict::parse(good, Format::OpenMetrics).is_ok());
    for wrong in [
        "# HELP a x\n# TYPE a counter\na_total 1\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total 1\n# EOF\n",
        "# HELP a x\n# TYPE a counter\na 1\n# EOF\n",
        "# HELP a x\n# TYPE a counter\na_total 1\n# EOF\n\n",
        "# HELP a \"x\"\n# TYPE a gauge\na 1\n# EOF\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n# EOF\n",
    ] {
        assert!(strict::parse(wrong, Format::OpenMetrics).is_err(), "{wrong}");
    }
}

#[test]
fn case_m04_case_m05_the_linter_finds_nothing() {
    let metrics = service(
        &[("in\"1\\x\ny", "TcpListener"), ("ورودی", "TcpConnector"), ("9in", "TesterClient")],
        2,
    );
    with_traffic(&metrics, "in\"1\\x\ny");
    let linter = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut linter = match linter {
        Ok(linter) => linter,
        Err(error) if std::env::var("CI").as_deref() == Ok("true") => {
            panic!("promtool of the package prometheus is needed: {error}")
        }
        Err(error) => {
            eprintln!("skipped: promtool of the package prometheus does not run: {error}");
            return;
        }
    };
    let page = metrics.text();
    let mut stdin = linter.stdin.take().unwrap();
    stdin.write_all(page.as_bytes()).unwrap();
    drop(stdin);
    let result = linter.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success() && said.is_empty(), "{said}");
}

#[test]
fn case_m07_each_counter_moves_by_what_was_counted() {
    let metrics = service(&[], 0);
    with_traffic(&metrics, "in");
    let dial = metrics.node(&Arc::from("out"), "TcpConnector");
    dial.dialled(DialResult::Refused, Duration::from_millis(2));
    dial.dialled(DialResult::Cancelled, Duration::from_millis(2));
    let page = text(&metrics);
    let value = |name: &str, labels: &[(&str, &str)]| page.value(name, labels).unwrap() as u64;
    let main = [("node", "in"), ("kind", "main")];
    assert_eq!(value("lineway_lines_open", &main), 2);
    assert_eq!(value("lineway_lines_opened_total", &main), 3);
    let idle = [("node", "in"), ("kind", "main"), ("reason", "idle")];
    assert_eq!(value("lineway_lines_closed_total", &idle), 1);
    let down = [("node", "in"), ("direction", "downstream")];
    assert_eq!(value("lineway_payload_bytes_total", &down), 1000);
    assert_eq!(value("lineway_queued_bytes", &[("node", "in")]), 4000);
    let pause = [("node", "in"), ("direction", "upstream"), ("reason", "queue")];
    assert_eq!(value("lineway_pauses_total", &pause), 1);
    let aborted = [("node", "in"), ("reason", "aborted")];
    assert_eq!(value("lineway_accept_errors_total", &aborted), 1);
    let black = [("node", "in"), ("reason", "blacklist")];
    assert_eq!(value("lineway_accept_refused_total", &black), 1);
    let refused = [("node", "out"), ("result", "refused")];
    assert_eq!(value("lineway_dials_total", &refused), 1);
    assert_eq!(value("lineway_dial_seconds_count", &[("node", "out")]), 1);
    assert_eq!(value("lineway_build_info", &[("version", "1.2.3")]), 1);
    assert_eq!(value("lineway_worker_lag_seconds_count", &[("worker", "0")]), 1);
}

/// The families in which a node has series.
fn families<'a>(page: &'a Page, node: &str) -> BTreeSet<&'a str> {
    let has = |f: &&strict::Family| {
        f.samples.iter().any(|s| s.labels.get("node").is_some_and(|n| n == node))
    };
    page.families.iter().filter(has).map(|f| f.name.as_str()).collect()
}

#[test]
fn a_node_has_only_the_series_of_what_it_can_do() {
    let metrics = service(
        &[("l", "TcpListener"), ("c", "TcpConnector"), ("t", "TesterClient"), ("e", "EchoServer")],
        0,
    );
    let page = text(&metrics);
    let families = |node| families(&page, node);
    let lines = BTreeSet::from([
        "lineway_lines_open",
        "lineway_lines_opened_total",
        "lineway_lines_closed_total",
        "lineway_payload_bytes_total",
        "lineway_queued_bytes",
        "lineway_pauses_total",
        "lineway_line_lifetime_seconds",
    ]);
    let accept = BTreeSet::from(["lineway_accept_errors_total", "lineway_accept_refused_total"]);
    let ready = BTreeSet::from(["lineway_node_ready"]);
    let lines = &lines | &ready;
    assert_eq!(families("l"), &lines | &accept);
    assert_eq!(families("t"), lines);
    assert_eq!(
        families("c"),
        &ready | &BTreeSet::from(["lineway_dials_total", "lineway_dial_seconds"])
    );
    assert_eq!(families("e"), ready);
}

#[test]
fn the_series_of_a_forgotten_node_go_away() {
    let metrics = service(&[("a", "TcpListener")], 1);
    // What all message sockets share, and what is counted of SIP's actors, stays where there was one.
    metrics.node(&Arc::from("r"), "RouterSocket");
    metrics.node(&Arc::from("s"), "SipListener");
    let before = text(&metrics).series();
    let name = Arc::from("b");
    for type_name in [
        "TcpListener",
        "TcpConnector",
        "TesterClient",
        "EchoServer",
        "ConnectionFisherClient",
        "ConnectionFisherServer",
        "MuxClient",
        "MuxServer",
        "DealerSocket",
        "RouterSocket",
        "SipListener",
        "SipRouter",
    ] {
        let node = metrics.node(&name, type_name);
        assert!(Arc::ptr_eq(&node, &metrics.node(&name, type_name)));
        metrics.forget_node("b");
        assert_eq!(text(&metrics).series(), before, "{type_name}");
        node.opened(LineKind::Main);
        assert_eq!(text(&metrics).series(), before, "{type_name}");
    }
}

#[test]
fn a_name_that_comes_back_with_another_type_has_the_series_of_that_type() {
    let metrics = service(&[("a", "TcpListener")], 1);
    metrics.node(&Arc::from("a"), "TcpConnector");
    assert_eq!(text(&metrics).series(), text(&service(&[("a", "TcpConnector")], 1)).series());
}

#[test]
fn every_closed_set_has_its_places_in_order() {
    for (place, kind) in ActorKind::ALL.iter().enumerate() {
        assert_eq!(*kind as usize, place);
    }
    for (place, kind) in LineKind::ALL.iter().enumerate() {
        assert_eq!(*kind as usize, place);
    }
    for (place, kind) in Direction::ALL.iter().enumerate() {
        assert_eq!(*kind as usize, place);
    }
}
