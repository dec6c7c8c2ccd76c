use std::collections::HashSet;
use std::num::NonZeroU64;
use std::time::Duration;

use super::{Counters, Drop, FlowStatus, Hwm, Label, RecordKind, Status, Tally, Traffic};
use crate::zmp::core::{Disconnected, Rejection};
use crate::zmp::flow::FlowChange;
use crate::zmp::outcome::RequestResult;
use crate::zmp::record::Kind;

fn closed<L: Label + std::fmt::Debug>() {
    let words: HashSet<_> = L::ALL.iter().map(|label| label.as_str()).collect();
    assert_eq!(words.len(), L::ALL.len(), "each word once: {words:?}");
    for (index, label) in L::ALL.iter().enumerate() {
        assert_eq!(label.index(), index, "{label:?}");
        let word = label.as_str();
        assert!(word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{word}");
    }
}

#[test]
fn labels_are_closed_sets_of_words() {
    closed::<RecordKind>();
    closed::<Drop>();
    closed::<Rejection>();
    closed::<Disconnected>();
    closed::<RequestResult>();
    let drops: Vec<_> = Drop::ALL.iter().map(|drop| drop.as_str()).collect();
    assert_eq!(drops, ["no_route", "hwm", "no_peer", "broken"]);
}

#[test]
fn counters_count_by_label() {
    let mut counters = Counters::default();
    counters.completions[RequestResult::Backpressured] += 2;
    counters.completions[RequestResult::Ok] += 1;
    counters.dropped[Drop::Broken] += 1;
    let counted: Vec<_> = counters.completions.iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counted, [(RequestResult::Ok, 1), (RequestResult::Backpressured, 2)]);
    assert_eq!(counters.completions.total(), 3);
    assert_eq!(counters.dropped.iter().map(|(_, count)| count).collect::<Vec<_>>(), [0, 0, 0, 1]);
    assert_eq!(Tally::<Rejection, 4>::default().total(), 0);
}

#[test]
fn counters_of_records_go_by_kind() {
    let one = NonZeroU64::MIN;
    let mut traffic = Traffic::default();
    for (kind, payload) in [
        (Kind::Data, 5),
        (Kind::Request(one), 6),
        (Kind::Reply(one), 7),
        (Kind::ErrorReply(one), 4),
    ] {
        traffic.count(kind, payload);
    }
    traffic.count(Kind::Data, 0);
    let bytes: Vec<_> = traffic.bytes.iter().map(|(kind, bytes)| (kind.as_str(), bytes)).collect();
    assert_eq!(bytes, [("data", 5), ("request", 6), ("reply", 7), ("error_reply", 4)]);
    assert_eq!(traffic.records[RecordKind::Data], 2);
    assert_eq!(traffic.records.total(), 5);
}

#[test]
fn status_4_7_a_pause_that_ends_with_its_connection_is_no_resume() {
    let mut flow = FlowStatus::default();
    assert_eq!(flow.pause_duration, Duration::ZERO, "none has ended");
    flow.accepted(FlowChange::Paused);
    flow.accepted(FlowChange::Paused);
    flow.accepted(FlowChange::Same);
    flow.accepted(FlowChange::Stale);
    assert_eq!((flow.paused_connections, flow.pause_applied_total, flow.stale_total), (2, 2, 1));
    flow.accepted(FlowChange::Resumed { paused_for: Duration::from_millis(30) });
    assert_eq!((flow.paused_connections, flow.resume_applied_total), (1, 1));
    assert_eq!(flow.pause_duration, Duration::from_millis(30));
    flow.ended(None);
    assert_eq!(flow.paused_connections, 1, "another connection ended");
    flow.ended(Some(Duration::from_millis(20)));
    let expected = FlowStatus {
        paused_connections: 0,
        pause_applied_total: 2,
        resume_applied_total: 1,
        stale_total: 1,
        pause_duration: Duration::from_millis(20),
    };
    assert_eq!(flow, expected);
}

#[test]
fn status_4_7_flags_and_detail() {
    let mut status = Status::default();
    assert_eq!(status.state_flags(), 0);
    assert_eq!(status.detail(), 1 << 5);
    status.ready = true;
    assert_eq!(status.state_flags(), 1);
    status.bound = true;
    status.closed = true;
    assert_eq!(status.state_flags(), 0b1011);
    assert_eq!(Status::MINIMUM_CHARGE, 64);
}

#[test]
fn status_x_4_nothing_is_planned_beside_what_is_applied() {
    let hwm = Hwm::fixed(4_096_000);
    assert_eq!((hwm.planned, hwm.applied, hwm.deferred), (4_096_000, 4_096_000, 0));
}
