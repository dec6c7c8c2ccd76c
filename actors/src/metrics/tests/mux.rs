//! The metrics of the mux.

use std::collections::BTreeSet;
use std::sync::Arc;

use lineway_wire::line::Direction;
use lineway_wire::mux::{ChildEnd, Dropped, FrameKind, ParentPause};

use super::super::{Metrics, NodeMetrics, ParentMetrics, ParentNow};
use super::{families, open, service, text};

fn node(metrics: &Metrics, name: &str) -> Arc<NodeMetrics> {
    metrics.node(&Arc::from(name), "MuxClient")
}

fn value(metrics: &Metrics, name: &str, labels: &[(&str, &str)]) -> u64 {
    let labels: Vec<_> = [("node", "mux")].iter().chain(labels).copied().collect();
    let value = text(metrics).value(name, &labels);
    value.unwrap_or_else(|| panic!("no {name} of {labels:?}")) as u64
}

fn gauges(metrics: &Metrics) -> [u64; 7] {
    [
        "lineway_mux_parents_open",
        "lineway_mux_parents_exhausted",
        "lineway_mux_children_open",
        "lineway_mux_children_paused",
        "lineway_mux_queued_bytes",
        "lineway_mux_cids_leased",
        "lineway_mux_cids_used",
    ]
    .map(|name| value(metrics, name, &[]))
}

fn now(exhausted: bool, paused: u64, queued: u64, cids: [u32; 2]) -> ParentNow {
    ParentNow { exhausted, paused, queued, cids_leased: cids[0], cids_used: cids[1] }
}

/// Counts something of everything.
fn live(parent: &mut ParentMetrics) {
    for end in ChildEnd::ALL {
        parent.child_opened();
        parent.child_closed(end);
    }
    for direction in Direction::ALL {
        for kind in FrameKind::ALL {
            parent.frames(direction, kind, 3);
        }
        parent.payload(direction, 1000);
    }
    for why in Dropped::ALL {
        parent.dropped(why, 2);
    }
    for why in ParentPause::ALL {
        parent.paused(why);
    }
    parent.show(now(true, 1, 100, [1024, 17]));
    parent.lost(77);
    parent.half_close_agreed();
    parent.retried();
}

#[test]
fn case_m07_each_counter_of_a_mux_moves_by_what_was_counted() {
    let metrics = service(&[("mux", "MuxClient")], 0);
    let mut parent = node(&metrics, "mux").mux_parent();
    live(&mut parent);
    parent.frames(Direction::Upstream, FrameKind::Data, 4);
    parent.frames(Direction::Upstream, FrameKind::Data, 0);
    let value = |name: &str, labels: &[(&str, &str)]| value(&metrics, name, labels);
    for end in ChildEnd::ALL.into_iter().filter(|end| end.on_client()) {
        let reason = [("reason", end.as_str())];
        assert_eq!(value("lineway_mux_children_closed_total", &reason), 1, "{end:?}");
    }
    assert_eq!(value("lineway_mux_children_opened_total", &[]), ChildEnd::ALL.len() as u64);
    for direction in Direction::ALL {
        let direction = ("direction", direction.as_str());
        assert_eq!(value("lineway_mux_payload_bytes_total", &[direction]), 1000);
        for kind in FrameKind::ALL {
            let labels = [direction, ("kind", kind.as_str())];
            let more = if labels[0].1 == "upstream" && kind == FrameKind::Data { 4 } else { 0 };
            assert_eq!(value("lineway_mux_frames_total", &labels), 3 + more, "{labels:?}");
        }
    }
    for why in Dropped::ALL {
        let reason = [("reason", why.as_str())];
        assert_eq!(value("lineway_mux_dropped_frames_total", &reason), 2, "{why:?}");
    }
    for why in ParentPause::ALL {
        let reason = [("reason", why.as_str())];
        assert_eq!(value("lineway_mux_parent_pauses_total", &reason), 1, "{why:?}");
    }
    assert_eq!(value("lineway_mux_lost_bytes_total", &[]), 77);
    assert_eq!(value("lineway_mux_half_close_agreements_total", &[]), 1);
    assert_eq!(value("lineway_mux_parent_retries_total", &[]), 1);
}

#[test]
fn mux_m08_the_gauges_of_a_node_are_sums_over_its_live_parents() {
    let metrics = service(&[("mux", "MuxClient")], 0);
    let node = node(&metrics, "mux");
    let (mut one, mut other) = (node.mux_parent(), node.mux_parent());
    one.show(now(false, 2, 300, [1024, 600]));
    other.show(now(true, 0, 0, [1024, 1024]));
    one.child_opened();
    one.child_opened();
    other.child_opened();
    assert_eq!(gauges(&metrics), [2, 1, 3, 2, 300, 2048, 1624]);
    one.show(now(false, 1, 100, [2048, 700]));
    one.child_closed(ChildEnd::Finished);
    assert_eq!(gauges(&metrics), [2, 1, 2, 1, 100, 3072, 1724]);
    other.child_closed(ChildEnd::PeerClosed);
    drop(other);
    assert_eq!(gauges(&metrics), [1, 0, 1, 1, 100, 2048, 700], "unused numbers return");
    one.child_closed(ChildEnd::Finished);
    drop(one);
    assert_eq!(gauges(&metrics), [0; 7]);
    let panicked = value(&metrics, "lineway_mux_children_closed_total", &[("reason", "panic")]);
    assert_eq!(panicked, 0);
}

#[test]
fn a_parent_that_panics_leaves_nothing_in_the_gauges_and_every_child_is_counted_once() {
    let metrics = service(&[("mux", "MuxClient")], 0);
    let mut parent = node(&metrics, "mux").mux_parent();
    for _ in 0..3 {
        parent.child_opened();
    }
    parent.child_closed(ChildEnd::Reset);
    parent.show(now(true, 2, 900, [1024, 3]));
    let ended = std::thread::spawn(move || {
        let _parent = parent;
        panic!("of this test");
    });
    assert!(ended.join().is_err());
    assert_eq!(gauges(&metrics), [0; 7]);
    let closed =
        |reason| value(&metrics, "lineway_mux_children_closed_total", &[("reason", reason)]);
    assert_eq!((closed("reset"), closed("panic")), (1, 2));
}

#[test]
fn case_m01_traffic_of_a_mux_makes_no_series() {
    for type_name in ["MuxClient", "MuxServer"] {
        let metrics = service(&[("mux", type_name)], 1);
        let before = text(&metrics).series();
        let mut parent = metrics.node(&Arc::from("mux"), type_name).mux_parent();
        live(&mut parent);
        assert_eq!(text(&metrics).series(), before);
        assert_eq!(open(&metrics).series().len(), before.len());
    }
}

#[test]
fn mux_m08_a_server_has_no_cids_and_nothing_else_that_only_a_client_has() {
    let metrics = service(&[("c", "MuxClient"), ("s", "MuxServer"), ("e", "EchoServer")], 0);
    let page = text(&metrics);
    let mux = |node| -> BTreeSet<&str> {
        families(&page, node).into_iter().filter(|name| name.starts_with("lineway_mux_")).collect()
    };
    let only: BTreeSet<&str> = &mux("c") - &mux("s");
    let makes = [
        "lineway_mux_cids_leased",
        "lineway_mux_cids_used",
        "lineway_mux_parent_retries_total",
        "lineway_mux_parents_exhausted",
    ];
    assert_eq!(only, BTreeSet::from(makes));
    assert!(mux("s").is_subset(&mux("c")) && mux("s").len() == 12);
    let kinds = |node: &str| {
        ["main", "child", "parent"]
            .map(|kind| page.value("lineway_lines_open", &[("node", node), ("kind", kind)]))
    };
    assert_eq!(kinds("c"), [None, None, Some(0.0)]);
    assert_eq!(kinds("s"), [None, Some(0.0), Some(0.0)]);
    assert_eq!(mux("e"), BTreeSet::new());
    // Harmless where there is nothing to count in.
    live(&mut metrics.node(&Arc::from("e"), "EchoServer").mux_parent());
    assert_eq!(text(&metrics).series(), page.series());
}
