use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use super::{FlowChange, PeerFlow, Pending, SendFlow};
use crate::zmp::core::{FlowState, Weight};
use crate::zmp::record::Outgoing;

const RUNNING: FlowState = FlowState::Running;
const PAUSED: FlowState = FlowState::Paused;

fn epoch(epoch: u64) -> NonZeroU64 {
    NonZeroU64::new(epoch).unwrap()
}

fn weight(weight: u32) -> Weight {
    Weight::new(weight).unwrap()
}

fn flow(state: FlowState, number: u64) -> Outgoing {
    Outgoing::FlowState { state, epoch: epoch(number) }
}

fn drain(pending: &mut Pending) -> Vec<Outgoing> {
    std::iter::from_fn(|| pending.pop()).collect()
}

#[test]
fn flow_d_f1_the_same_state_again_changes_nothing_and_does_not_nest() {
    let mut flow = SendFlow::new();
    assert_eq!(flow.set(PAUSED), Some((PAUSED, epoch(1))));
    assert_eq!(flow.set(PAUSED), None);
    assert_eq!(flow.current(), Some((PAUSED, epoch(1))));
    assert_eq!(flow.set(RUNNING), Some((RUNNING, epoch(2))), "one RUNNING ends every PAUSED");
    assert_eq!(flow.set(RUNNING), None);
    assert_eq!(flow.epochs(), 2);
}

#[test]
fn flow_d_f1_the_first_running_counts_as_a_setting() {
    let mut flow = SendFlow::new();
    assert_eq!(flow.set(RUNNING), Some((RUNNING, epoch(1))));
    assert_eq!(flow.set(RUNNING), None);
}

#[test]
fn flow_d_f2_a_socket_that_never_set_a_state_tells_none() {
    let flow = SendFlow::new();
    assert_eq!(flow.current(), None);
    assert_eq!(flow.epochs(), 0);
}

#[test]
fn flow_x_7_epochs_of_two_sockets_are_their_own_and_grow_by_one() {
    let (mut one, mut other) = (SendFlow::new(), SendFlow::new());
    for number in 1..10 {
        let state = if number % 2 == 1 { PAUSED } else { RUNNING };
        assert_eq!(one.set(state), Some((state, epoch(number))));
    }
    assert_eq!(other.set(PAUSED), Some((PAUSED, epoch(1))));
}

#[test]
fn flow_d_f4_an_epoch_that_is_not_above_the_last_one_is_stale() {
    let now = Instant::now();
    let mut flow = PeerFlow::new();
    assert_eq!(flow.accept(PAUSED, epoch(5), now), FlowChange::Paused);
    assert_eq!(flow.accept(RUNNING, epoch(5), now), FlowChange::Stale);
    assert_eq!(flow.accept(RUNNING, epoch(4), now), FlowChange::Stale);
    assert!(flow.is_paused());
    assert_eq!((flow.state(), flow.epoch()), (PAUSED, 5));
}

#[test]
fn flow_1_7_a_newer_epoch_with_the_same_state_only_counts_as_the_last_one() {
    let now = Instant::now();
    let mut flow = PeerFlow::new();
    assert_eq!(
        flow.accept(RUNNING, epoch(3), now),
        FlowChange::Same,
        "a connection begins running"
    );
    assert_eq!(flow.accept(PAUSED, epoch(3), now), FlowChange::Stale);
    assert_eq!(flow.accept(PAUSED, epoch(9), now), FlowChange::Paused);
    let later = now + Duration::from_secs(1);
    assert_eq!(flow.accept(PAUSED, epoch(10), later), FlowChange::Same);
    let resumed = FlowChange::Resumed { paused_for: Duration::from_secs(3) };
    assert_eq!(flow.accept(RUNNING, epoch(11), now + Duration::from_secs(3)), resumed);
    assert_eq!(flow.state(), RUNNING);
}

#[test]
fn flow_d_f7_a_connection_begins_running_whatever_the_one_before_it_had() {
    let now = Instant::now();
    let mut first = PeerFlow::new();
    assert_eq!(first.accept(PAUSED, epoch(7), now), FlowChange::Paused);
    assert_eq!(first.end(now + Duration::from_millis(40)), Some(Duration::from_millis(40)));
    assert_eq!(first.end(now), None, "a pause ends once");
    let mut second = PeerFlow::new();
    assert_eq!(second.end(now), None);
    assert_eq!(second.accept(PAUSED, epoch(1), now), FlowChange::Paused);
}

#[test]
fn pending_1_7_paused_weight_running_gives_weight_then_running() {
    let mut pending = Pending::new();
    pending.set_flow(PAUSED, epoch(1));
    pending.set_weight(weight(300));
    pending.set_flow(RUNNING, epoch(2));
    assert_eq!(drain(&mut pending), [Outgoing::Weight(weight(300)), flow(RUNNING, 2)]);
    assert!(pending.is_empty());
}

#[test]
fn pending_1_7_each_slot_holds_its_newest_value_at_its_newest_stamp() {
    let mut pending = Pending::new();
    pending.set_weight(weight(1));
    pending.set_flow(PAUSED, epoch(1));
    pending.set_weight(weight(2));
    assert_eq!(drain(&mut pending), [flow(PAUSED, 1), Outgoing::Weight(weight(2))]);
    pending.set_weight(weight(3));
    pending.set_flow(RUNNING, epoch(2));
    assert_eq!(drain(&mut pending), [Outgoing::Weight(weight(3)), flow(RUNNING, 2)]);
}

#[test]
fn pending_1_5_the_default_weight_is_not_told() {
    let mut pending = Pending::new();
    pending.set_weight(Weight::DEFAULT);
    assert_eq!(pending.pop(), None);
    pending.set_weight(weight(0));
    assert_eq!(pending.pop(), Some(Outgoing::Weight(weight(0))));
}

#[test]
fn pending_1_7_a_weight_is_told_when_it_differs_from_the_last_one_told() {
    let mut pending = Pending::new();
    pending.set_weight(weight(300));
    assert_eq!(drain(&mut pending), [Outgoing::Weight(weight(300))]);
    pending.set_weight(weight(300));
    assert!(pending.is_empty());
    pending.set_weight(weight(7));
    pending.set_weight(weight(300));
    assert!(pending.is_empty(), "it is back at what the peer has");
    pending.set_weight(Weight::DEFAULT);
    assert_eq!(drain(&mut pending), [Outgoing::Weight(Weight::DEFAULT)]);
}
