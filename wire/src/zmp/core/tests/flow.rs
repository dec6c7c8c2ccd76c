//! Weights and receive-flow states (1.7, 2.9, 2.10).

use super::*;
use crate::zmp::monitor::{Event, EventKind, SEND_FLOW_WRITABLE, STALE_EPOCH};

fn events(rig: &mut Rig, kind: EventKind) -> Vec<Event> {
    let all = std::iter::from_fn(|| rig.core.next_event());
    all.filter(|event| event.kind == kind).collect()
}

fn state(state: FlowState, number: u64) -> Outgoing {
    Outgoing::FlowState { state, epoch: epoch(number) }
}

#[test]
fn dealer_d_f1_setting_the_same_state_sends_nothing() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    for _ in 0..2 {
        rig.core.set_receive_flow_state(rig.now, FlowState::Paused);
    }
    assert_eq!(rig.write(peer), [state(FlowState::Paused, 1)]);
    rig.core.set_receive_flow_state(rig.now, FlowState::Running);
    assert_eq!(rig.write(peer), [state(FlowState::Running, 2)]);
    assert_eq!(rig.core.counters().epochs_issued, 2);
}

#[test]
fn dealer_d_f1_a_first_running_is_sent() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.core.set_receive_flow_state(rig.now, FlowState::Running);
    assert_eq!(rig.write(peer), [state(FlowState::Running, 1)]);
}

#[test]
fn dealer_d_f2_a_peer_that_comes_learns_the_state_and_the_weight() {
    let mut rig = Rig::with(Dealer, |options| options.probe = true);
    let before = rig.accept(Router, "A");
    let probe = Outgoing::Record(Kind::Data, record(""));
    assert_eq!(rig.write(before), std::slice::from_ref(&probe), "never set: nothing is sent; D-O3");
    rig.core.set_weight(weight(300));
    rig.core.set_receive_flow_state(rig.now, FlowState::Paused);
    let after = rig.accept(Router, "B");
    let said = [Outgoing::Weight(weight(300)), state(FlowState::Paused, 1)];
    assert_eq!(rig.write(after), [said.to_vec(), vec![probe]].concat(), "1.5");
    assert_eq!(rig.write(before), said);
}

#[test]
fn zmp_controls_never_overtake_a_committed_record() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.send(None, record("1")).expect("taken");
    rig.core.set_receive_flow_state(rig.now, FlowState::Paused);
    rig.send(None, record("2")).expect("taken");
    let expected = [
        Outgoing::Record(Kind::Data, record("1")),
        state(FlowState::Paused, 1),
        Outgoing::Record(Kind::Data, record("2")),
    ];
    assert_eq!(rig.write(peer), expected);
}

#[test]
fn zmp_pending_controls_keep_the_newest_in_the_order_of_their_stamps() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.send(None, record("1")).expect("taken");
    rig.core.set_receive_flow_state(rig.now, FlowState::Paused);
    rig.core.set_weight(weight(7));
    rig.core.set_receive_flow_state(rig.now, FlowState::Running);
    let out = rig.write(peer);
    assert_eq!(out[1..], [Outgoing::Weight(weight(7)), state(FlowState::Running, 2)]);
    rig.core.set_weight(weight(8));
    rig.core.set_weight(weight(7));
    assert_eq!(rig.write(peer), [], "the peer has that value");
}

#[test]
fn zmp_controls_skip_the_hwm_and_a_pause() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.fill(None);
    rig.feed(peer, [paused(1)]);
    rig.core.set_weight(weight(7));
    assert_eq!(rig.write(peer).len(), 11, "D-F5: what was admitted is finished");
}

#[test]
fn dealer_d_f4_duplicate_and_older_epochs_are_stale() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.feed(peer, [paused(5), paused(5), running(4)]);
    assert!(rig.core.peers()[0].paused);
    let flow = rig.core.status().flow;
    assert_eq!((flow.pause_applied_total, flow.resume_applied_total, flow.stale_total), (1, 0, 2));
    let stale = events(&mut rig, EventKind::FlowStateStale);
    let told: Vec<_> = stale.iter().map(|event| (event.value, event.flags)).collect();
    assert_eq!(told, [(5, STALE_EPOCH), (4, STALE_EPOCH)]);
    rig.feed(peer, [paused(6)]);
    assert_eq!(rig.core.status().flow.pause_applied_total, 1, "the epoch counts, nothing changed");
    rig.feed(peer, [running(6)]);
    assert!(rig.core.peers()[0].paused);
}

#[test]
fn dealer_d_f5_a_pause_is_that_peers_alone() {
    let mut rig = Rig::new(Dealer);
    let (first, second) = (rig.accept(Router, "A"), rig.accept(Router, "B"));
    rig.feed(first, [paused(1)]);
    for _ in 0..3 {
        rig.send(None, record("x")).expect("the other one");
    }
    assert_eq!((rig.write(first).len(), rig.write(second).len()), (0, 3));
}

#[test]
fn dealer_d_f6_running_publishes_writable_and_promises_nothing() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.fill(None);
    rig.feed(peer, [paused(1)]);
    let token = rig.send(None, hundred()).expect_err("both are in the way").token;
    rig.core.next_completion();
    rig.feed(peer, [running(2)]);
    let outcomes: Vec<_> = rig.completions().into_iter().map(|one| one.id).collect();
    assert!(outcomes.contains(&token.expect("a token")));
    rig.send(None, hundred()).expect_err("the limit is still there");
    let resumed = events(&mut rig, EventKind::SendFlowResumed);
    assert_eq!(resumed[0].flags, 0, "SEND_FLOW_WRITABLE only when nothing else blocks");
    rig.write(peer);
    rig.feed(peer, [paused(3), running(4)]);
    assert_eq!(events(&mut rig, EventKind::SendFlowResumed)[0].flags, SEND_FLOW_WRITABLE);
}

#[test]
fn dealer_d_f7_a_new_connection_begins_running() {
    let mut rig = Rig::new(Dealer);
    let endpoint = rig.endpoint("tcp://a");
    let peer = rig.dial(Router, "A", endpoint);
    rig.feed(peer, [paused(9)]);
    rig.pass(250);
    rig.detach(peer);
    let flow = rig.core.status().flow;
    assert_eq!((flow.paused_connections, flow.resume_applied_total), (0, 0));
    assert_eq!(flow.pause_duration, Duration::from_millis(250), "4.7: also by a disconnect");
    let peer = rig.dial(Router, "A", endpoint);
    assert!(!rig.core.peers()[0].paused);
    rig.feed(peer, [paused(1)]);
    assert_eq!(rig.core.status().flow.paused_connections, 1, "its epochs begin anew");
}

#[test]
fn dealer_d_g1_both_use_the_others_weight() {
    let mut rig = Rig::with(Dealer, |options| options.weight = weight(0));
    let peer = rig.accept(Router, "A");
    assert_eq!(rig.write(peer), [Outgoing::Weight(weight(0))]);
    rig.send(None, record("x")).expect("the peer's weight counts here");
}

#[test]
fn dealer_d_g2_a_change_raises_one_event() {
    let mut rig = Rig::new(Dealer);
    rig.accept(Router, "A");
    let peer = rig.accept(Router, "B");
    let weights = [100, 7, 7, 0].map(|number| Inbound::Weight(weight(number)));
    rig.feed(peer, weights);
    let changed = events(&mut rig, EventKind::PeerWeightChanged);
    let told: Vec<_> = changed.iter().map(|event| event.value).collect();
    assert_eq!(told, [7, 0]);
    assert!(changed.iter().all(|event| {
        event.connection == Some(peer) && event.lane == Lane::Application && event.routing_id == "B"
    }));
    assert_eq!((rig.recv(), rig.completions()), (None, Vec::new()), "2.10: nothing else shows");
}

#[test]
fn zmp_malformed_controls_are_counted_and_without_effect() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.feed(peer, [Inbound::Malformed, Inbound::Malformed]);
    let counters = rig.core.counters();
    assert_eq!((counters.malformed, counters.flow.stale_total), (2, 0));
}

#[test]
fn dealer_d_w2_other_weight_changes_look_again() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.feed(peer, [paused(1)]);
    rig.send(None, hundred()).expect_err("paused");
    rig.feed(peer, [Inbound::Weight(weight(5))]);
    assert_eq!(rig.completions(), [], "it is paused all the same");
    rig.feed(peer, [Inbound::Weight(weight(0)), Inbound::Weight(weight(5))]);
    assert_eq!(rig.completion().outcome, Outcome::Writable, "from 0 to positive is an edge");
}
