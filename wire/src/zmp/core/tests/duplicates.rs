//! Several links of one routing id (3.6).

use super::super::DuplicatePolicy;
use super::*;
use crate::zmp::monitor::{EventKind, READY_EDGE};

fn handover(options: &mut CoreOptions) {
    options.duplicates = DuplicatePolicy::Handover;
}

fn ready(rig: &mut Rig) -> Vec<(Option<ConnectionId>, u64, u32)> {
    std::iter::from_fn(|| rig.core.next_event())
        .filter(|event| event.kind == EventKind::ConnectionReady)
        .map(|event| (event.connection, event.value, event.flags))
        .collect()
}

/// Who gets a record for this id.
fn goes_to(rig: &mut Rig, id: &str, connections: &[ConnectionId]) -> Vec<ConnectionId> {
    rig.send((rig.core.options().kind == Router).then_some(id), record("x")).expect("taken");
    connections.iter().copied().filter(|one| !texts(&rig.write(*one)).is_empty()).collect()
}

#[test]
fn router_r_d1_reject_keeps_the_old_link() {
    let mut rig = Rig::new(Router);
    let old = rig.accept(Dealer, "A");
    rig.write(old);
    let second = rig.attaching(Dealer, "A", Origin::Accepted("tcp://bound".into()));
    assert_eq!(rig.attach(second), Err(Rejection::DuplicateId));
    assert_eq!(rig.core.counters().peers_rejected[Rejection::DuplicateId], 1);
    assert_eq!(goes_to(&mut rig, "A", &[old]), [old]);
    let (a, b) = (rig.endpoint("tcp://a"), rig.endpoint("tcp://b"));
    rig.dial(Dealer, "Z", a);
    let second = rig.attaching(Dealer, "Z", Origin::Dialled(b));
    assert_eq!(rig.attach(second), Err(Rejection::DuplicateId), "both made by us");
}

#[test]
fn router_r_d1_handover_gives_the_id_to_the_new_link() {
    let mut rig = Rig::with(Router, handover);
    let (old, other) = rig.accept_two("A");
    rig.ask(Some("A"), "x").expect("taken");
    let token = rig.fill(Some("A"));
    ready(&mut rig);
    let (new, _) = rig.accept_two("A");
    assert_eq!(ready(&mut rig), [(Some(new), 1, 0)], "their number did not grow");
    let completions = rig.completions();
    let kinds: Vec<_> = completions.iter().map(|one| one.id == token).collect();
    assert_eq!(kinds.len(), 2, "R-D3: the request ended, and an adopted route is an edge");
    for connection in [old, other] {
        let turn = rig.turn(connection, Vec::new(), 0);
        assert_eq!(turn.close, Some(Closing::HandedOver));
        assert!(turn.outgoing.is_empty());
    }
    assert_eq!(goes_to(&mut rig, "A", &[new]), [new]);
    rig.detach(old);
    rig.detach(other);
    assert_eq!(goes_to(&mut rig, "A", &[new]), [new]);
}

#[test]
fn router_r_d1_handover_waits_until_the_new_link_is_whole() {
    let mut rig = Rig::with(Router, handover);
    let (old, _) = rig.accept_two("A");
    let half = rig.attaching(Router, "A", Origin::Accepted("tcp://bound".into()));
    let half = rig.attach(half).expect("attached");
    assert_eq!(goes_to(&mut rig, "A", &[old]), [old]);
    rig.detach(half);
    assert_eq!(goes_to(&mut rig, "A", &[old]), [old]);
}

#[test]
fn router_r_d1_reject_of_the_second_lane_closes_the_first() {
    let mut rig = Rig::new(Router);
    let half = rig.attaching(Router, "A", Origin::Accepted("tcp://bound".into()));
    let half = rig.attach(half).expect("attached");
    // Before its other lane comes, a DEALER of the same id is faster.
    rig.accept(Dealer, "A");
    let mut second = rig.attaching(Router, "A", Origin::Accepted("tcp://bound".into()));
    second.lane = Lane::Completion;
    assert_eq!(rig.attach(second), Err(Rejection::DuplicateId));
    assert_eq!(rig.turn(half, Vec::new(), 0).close, Some(Closing::OtherLane));
    rig.detach(half);
}

#[test]
fn router_r_d1_a_reconnect_of_an_endpoint_replaces_under_either_policy() {
    for kind in [Dealer, Router] {
        let mut rig = Rig::new(kind);
        let endpoint = rig.endpoint("tcp://a");
        let old = rig.dial(Router.filter(kind), "A", endpoint);
        let new = rig.dial(Router.filter(kind), "A", endpoint);
        assert_eq!(rig.turn(old, Vec::new(), 0).close, Some(Closing::HandedOver));
        assert_eq!(goes_to(&mut rig, "A", &[old, new]), [new]);
    }
}

impl SocketKind {
    /// A kind whose link with `own` has one connection.
    fn filter(self, own: SocketKind) -> SocketKind {
        if own == Router { Dealer } else { self }
    }
}

#[test]
fn router_r_d2_the_side_with_the_smaller_id_wins() {
    // The socket is "M".
    for (id, dialled_wins) in [("A", false), ("Z", true), ("MM", true), ("L", false)] {
        for dialled_first in [false, true] {
            for kind in [Dealer, Router] {
                let mut rig = Rig::new(kind);
                let peer = Router.filter(kind);
                let endpoint = rig.endpoint("tcp://a");
                let (dialled, accepted) = if dialled_first {
                    let dialled = rig.dial(peer, id, endpoint);
                    (dialled, rig.accept(peer, id))
                } else {
                    let accepted = rig.accept(peer, id);
                    (rig.dial(peer, id, endpoint), accepted)
                };
                let (winner, standby) =
                    if dialled_wins { (dialled, accepted) } else { (accepted, dialled) };
                let both = [winner, standby];
                assert_eq!(goes_to(&mut rig, id, &both), [winner], "{id} {kind:?}");
                let peers = rig.core.peers();
                assert_eq!(peers.iter().filter(|peer| peer.standby).count(), 1);
                rig.detach(winner);
                assert_eq!(goes_to(&mut rig, id, &both), [standby], "promoted");
            }
        }
    }
}

#[test]
fn dealer_d_g3_a_promoted_standby_uses_its_last_weight() {
    let mut rig = Rig::new(Dealer);
    let endpoint = rig.endpoint("tcp://a");
    let standby = rig.dial(Router, "A", endpoint);
    let winner = rig.accept(Router, "A");
    let other = rig.accept(Router, "B");
    rig.feed(standby, [Inbound::Weight(weight(300))]);
    rig.detach(winner);
    let order: Vec<_> = (0..4).flat_map(|_| goes_to(&mut rig, "", &[standby, other])).collect();
    assert_eq!(order, [standby, standby, other, standby], "A:300 B:100");
}

#[test]
fn router_r_d3_a_link_that_loses_ends_its_requests() {
    let mut rig = Rig::new(Dealer);
    let endpoint = rig.endpoint("tcp://a");
    let dialled = rig.dial(Router, "A", endpoint);
    let id = rig.ask(None, "x").expect("taken");
    ready(&mut rig);
    let accepted = rig.accept(Router, "A");
    let completion = rig.completion();
    assert_eq!(completion.id, id);
    assert_eq!(ready(&mut rig), [(Some(accepted), 1, 0)], "one logical peer");
    assert_eq!(texts(&rig.write(dialled)), ["x"], "what was taken is still written");
    rig.feed(dialled, [reply(1, "void"), data("still read")]);
    assert_eq!((rig.completions(), rig.recv().is_some()), (Vec::new(), true));
    rig.detach(accepted);
    assert_eq!(ready(&mut rig), [(Some(dialled), 1, READY_EDGE)]);
}

#[test]
fn router_r_s2_a_promotion_is_an_edge() {
    let mut rig = Rig::new(Router);
    let endpoint = rig.endpoint("tcp://a");
    let standby = rig.dial(Dealer, "A", endpoint);
    let winner = rig.accept(Dealer, "A");
    let token = rig.fill(Some("A"));
    rig.detach(winner);
    assert_eq!(rig.completion().id, token);
    assert_eq!(goes_to(&mut rig, "A", &[standby]), [standby]);
}

#[test]
fn router_a_standby_is_told_weights_and_flow_states() {
    let mut rig = Rig::new(Router);
    let endpoint = rig.endpoint("tcp://a");
    let standby = rig.dial(Dealer, "A", endpoint);
    rig.accept(Dealer, "A");
    rig.write(standby);
    rig.core.set_weight(weight(7));
    rig.core.set_receive_flow_state(rig.now, FlowState::Paused);
    assert_eq!(rig.write(standby).len(), 2);
}

#[test]
fn dealer_several_links_of_one_id_are_several_candidates() {
    let mut rig = Rig::new(Dealer);
    let peers = [rig.accept(Router, "A"), rig.accept(Router, "A")];
    let order: Vec<_> = (0..4).flat_map(|_| goes_to(&mut rig, "", &peers)).collect();
    assert_eq!(order, [peers[0], peers[1], peers[0], peers[1]], "by the order of attachment");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 200, ..Default::default() })]

    /// Whatever comes and goes: an id with links has one that is used, and what is counted adds up.
    #[test]
    fn router_r_d2_one_link_of_an_id_is_used(
        dealer in proptest::bool::ANY,
        takes_over in proptest::bool::ANY,
        smaller in proptest::bool::ANY,
        steps in proptest::collection::vec((0..5u8, proptest::bool::ANY), 1..40),
    ) {
        let kind = if dealer { Dealer } else { Router };
        let mut rig = Rig::with(kind, |options| if takes_over { handover(options) });
        let id = if smaller { "A" } else { "Z" };
        let endpoints = [rig.endpoint("tcp://a"), rig.endpoint("tcp://b")];
        let mut there = Vec::new();
        for (which, two) in steps {
            let origin = match which {
                0 | 1 => Origin::Dialled(endpoints[usize::from(which)]),
                2 | 3 => Origin::Accepted("tcp://bound".into()),
                _ => {
                    if !there.is_empty() {
                        rig.detach(there.remove(0));
                    }
                    rig.check();
                    continue;
                }
            };
            if kind == Router && two {
                there.extend(rig.two(id, &origin).into_iter().flat_map(|(one, two)| [one, two]));
            } else {
                let attaching = rig.attaching(Router.filter(kind), id, origin);
                there.extend(rig.attach(attaching));
            }
            let target = (kind == Router).then(|| rid(id));
            let asked = rig.core.try_submit(rig.now, target.as_ref(), record("x"), ASK, 0);
            drop(asked);
            rig.check();
            let closing = |rig: &mut Rig, one| rig.turn(one, Vec::new(), 0).close.is_some();
            there.retain(|one| {
                let over = closing(&mut rig, *one);
                if over {
                    rig.detach(*one);
                }
                !over
            });
            let peers = rig.core.peers();
            let used = peers.iter().filter(|peer| peer.ready && !peer.standby).count();
            proptest::prop_assert!(used > 0 || peers.iter().all(|peer| !peer.ready));
            proptest::prop_assert!(kind == Dealer || used <= 1);
        }
        for one in there {
            rig.detach(one);
        }
        rig.completions();
        proptest::prop_assert_eq!(rig.core.queued(), 0);
        proptest::prop_assert!(rig.core.peers().is_empty());
    }
}
