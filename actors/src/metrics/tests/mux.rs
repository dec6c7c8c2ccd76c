//! The metrics of the mux.

use std::array;
use std::collections::BTreeSet;
use std::sync::Arc;

use lineway_wire::mux::{ChildEnd, Counts, Dropped, FrameKind, ParentPause};

use super::super::{Metrics, NodeMetrics, ParentNow};
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

/// Something of everything, all of it different.
fn counts() -> Counts {
    let from = |first: u64| move |place: usize| first + place as u64;
    Counts {
        sent: array::from_fn(from(100)),
        received: array::from_fn(from(200)),
        sent_bytes: 1000,
        received_bytes: 2000,
        dropped: array::from_fn(from(300)),
        pauses: array::from_fn(from(400)),
        opened: ended().iter().sum::<u64>() + 7,
        ended: ended(),
        lost_bytes: 77,
        agreed: 1,
    }
}

fn ended() -> [u64; ChildEnd::ALL.len()] {
    array::from_fn(|place| 500 + place as u64)
}

/// So many children came, and so many ended for this reason.
fn children(opened: u64, end: ChildEnd, ended: u64) -> Counts {
    let mut counts = Counts { opened, ..Counts::default() };
    counts.ended[end as usize] = ended;
    counts
}

#[test]
fn case_m07_each_counter_of_a_mux_moves_by_what_was_counted() {
    for (type_name, sent, received) in
        [("MuxClient", "upstream", "downstream"), ("MuxServer", "downstream", "upstream")]
    {
        let metrics = service(&[("mux", type_name)], 0);
        let mut parent = metrics.node(&Arc::from("mux"), type_name).mux_parent();
        parent.count(&Counts::default());
        parent.count(&counts());
        parent.retried();
        let value = |name: &str, labels: &[(&str, &str)]| value(&metrics, name, labels);
        let reason = |name: &str, reason: &str| value(name, &[("reason", reason)]);
        let client = type_name == "MuxClient";
        for (end, count) in ChildEnd::ALL.into_iter().zip(ended()) {
            if if client { end.on_client() } else { end.on_server() } {
                assert_eq!(reason("lineway_mux_children_closed_total", end.as_str()), count);
            }
        }
        assert_eq!(value("lineway_mux_children_opened_total", &[]), counts().opened);
        assert_eq!(value("lineway_mux_children_open", &[]), 7);
        for (direction, bytes, frames) in [(sent, 1000, 100), (received, 2000, 200)] {
            let direction = ("direction", direction);
            assert_eq!(value("lineway_mux_payload_bytes_total", &[direction]), bytes);
            for (count, kind) in (frames..).zip(FrameKind::ALL) {
                let labels = [direction, ("kind", kind.as_str())];
                assert_eq!(value("lineway_mux_frames_total", &labels), count, "{labels:?}");
            }
        }
        for (count, why) in (300..).zip(Dropped::ALL) {
            assert_eq!(reason("lineway_mux_dropped_frames_total", why.as_str()), count);
        }
        for (count, why) in (400..).zip(ParentPause::ALL) {
            assert_eq!(reason("lineway_mux_parent_pauses_total", why.as_str()), count);
        }
        assert_eq!(value("lineway_mux_lost_bytes_total", &[]), 77);
        assert_eq!(value("lineway_mux_half_close_agreements_total", &[]), 1);
        if client {
            assert_eq!(value("lineway_mux_parent_retries_total", &[]), 1);
        }
    }
}

#[test]
fn mux_m08_the_gauges_of_a_node_are_sums_over_its_live_parents() {
    let metrics = service(&[("mux", "MuxClient")], 0);
    let node = node(&metrics, "mux");
    let (mut one, mut other) = (node.mux_parent(), node.mux_parent());
    one.show(now(false, 2, 300, [1024, 600]));
    other.show(now(true, 0, 0, [1024, 1024]));
    one.count(&children(2, ChildEnd::Finished, 0));
    other.count(&children(1, ChildEnd::Finished, 0));
    assert_eq!(gauges(&metrics), [2, 1, 3, 2, 300, 2048, 1624]);
    one.show(now(false, 1, 100, [2048, 700]));
    one.count(&children(0, ChildEnd::Finished, 1));
    assert_eq!(gauges(&metrics), [2, 1, 2, 1, 100, 3072, 1724]);
    other.count(&children(0, ChildEnd::PeerClosed, 1));
    drop(other);
    assert_eq!(gauges(&metrics), [1, 0, 1, 1, 100, 2048, 700], "unused numbers return");
    one.count(&children(0, ChildEnd::Finished, 1));
    drop(one);
    assert_eq!(gauges(&metrics), [0; 7]);
    let panicked = value(&metrics, "lineway_mux_children_closed_total", &[("reason", "panic")]);
    assert_eq!(panicked, 0);
}

#[test]
fn a_parent_that_panics_leaves_nothing_in_the_gauges_and_every_child_is_counted_once() {
    let metrics = service(&[("mux", "MuxClient")], 0);
    let mut parent = node(&metrics, "mux").mux_parent();
    parent.count(&children(3, ChildEnd::Reset, 1));
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
        parent.count(&counts());
        parent.show(now(true, 1, 100, [1024, 17]));
        parent.retried();
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
    let makes =
        ["lineway_mux_cids_leased", "lineway_mux_cids_used", "lineway_mux_parent_retries_total"];
    assert_eq!(only, BTreeSet::from(makes));
    assert!(mux("s").is_subset(&mux("c")) && mux("s").len() == 13);
    let kinds = |node: &str| {
        ["main", "child", "parent"]
            .map(|kind| page.value("lineway_lines_open", &[("node", node), ("kind", kind)]))
    };
    assert_eq!(kinds("c"), [None, None, Some(0.0)]);
    assert_eq!(kinds("s"), [None, Some(0.0), Some(0.0)]);
    assert_eq!(mux("e"), BTreeSet::new());
    // Harmless where there is nothing to count in.
    let mut parent = metrics.node(&Arc::from("e"), "EchoServer").mux_parent();
    parent.count(&counts());
    parent.show(now(true, 1, 100, [1024, 17]));
    assert_eq!(text(&metrics).series(), page.series());
}
