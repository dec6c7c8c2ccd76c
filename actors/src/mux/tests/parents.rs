//! M10 to M13 in the pool, drains by an operator, the service and a reload.

use std::rc::Rc;

use lineway_wire::line::{FinishReason, LineKind};
use lineway_wire::mux::FrameKind;

use super::{
    MILLI, SECOND, Wire, client, connector, counter, ended, entry, fixed, leave, near, open, timer,
};
use crate::line::{Chain, Node, NodeRole};
use crate::registry::LineId;
use crate::settings::NodePlan;
use crate::testkit::{Kit, run};

/// The live parent of a MuxClient that was made last.
#[track_caller]
pub(super) fn parent_of(kit: &Kit) -> LineId {
    let lines = kit.board.registry.snapshot();
    let parents = lines.iter().filter(|line| line.kind == LineKind::Parent);
    parents.map(|line| line.id).max_by_key(|id| id.number).expect("a parent lives")
}

const OPEN: &str = r#"lineway_mux_parents_open{node="mux"}"#;
const EXHAUSTED: &str = r#"lineway_mux_parents_exhausted{node="mux"}"#;

#[test]
fn mux_m13_children_go_to_the_parent_with_the_fewest_and_equal_ones_in_turn() {
    run(async |kit| {
        let chain = near(&kit, client(fixed(3)));
        let mut clients = open(&kit, &chain, 1);
        kit.quiet().await;
        assert_eq!(kit.dials.len(), 3, "the first child opens all");
        let mut wires: Vec<_> = (0..3).map(|at| Wire::dialled(&kit, at)).collect();
        let mut order = Vec::new();
        for _ in 0..6 {
            let came = |wire: &mut Wire| !wire.frames().is_empty();
            order.push(wires.iter_mut().position(came).unwrap_or(9));
            clients.extend(open(&kit, &chain, 1));
            kit.quiet().await;
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
        assert_eq!(wires[0].frames(), ["open+ 3"]);
        if let Some(client) = clients.pop() {
            client.reset();
        }
        for at in [1, 4] {
            clients[at].reset();
        }
        kit.pass(SECOND * 2).await;
        let mut order = Vec::new();
        for wire in &mut wires {
            wire.frames();
        }
        for _ in 0..3 {
            clients.extend(open(&kit, &chain, 1));
            kit.quiet().await;
            let came = |wire: &mut Wire| !wire.frames().is_empty();
            order.push(wires.iter_mut().position(came).unwrap_or(9));
        }
        assert_eq!(order, [1, 1, 2]);
        for client in &clients {
            client.reset();
        }
        kit.pass(SECOND * 2).await;
        assert_eq!(kit.dials.len(), 3);
        kit.assert_metric(OPEN, 3);
        leave(&kit).await;
    });
}

#[test]
fn mux_m13_a_dead_slot_is_filled_by_the_next_child() {
    run(async |kit| {
        let chain = near(&kit, client(fixed(2)));
        let clients = open(&kit, &chain, 2);
        kit.quiet().await;
        // A peer's own idle limit, for instance.
        kit.dials.peer(1).end();
        kit.quiet().await;
        assert!(kit.dials.peer(1).is_dropped());
        assert!(clients[1].is_shut_down() && !clients[0].is_shut_down());
        clients[1].end();
        let more = open(&kit, &chain, 1);
        kit.quiet().await;
        assert_eq!(kit.dials.len(), 3);
        let mut wire = Wire::dialled(&kit, 2);
        assert_eq!(wire.frames(), ["open+ 1"]);
        clients[0].reset();
        more[0].reset();
        kit.pass(SECOND * 2).await;
        leave(&kit).await;
    });
}

#[test]
fn mux_m11_m12_a_counter_that_is_used_up_lives_until_its_last_child() {
    run(async |kit| {
        for capacity in [1, 2, 5] {
            let before = kit.dials.len();
            let chain = near(&kit, client(counter(capacity)));
            let clients = open(&kit, &chain, 2 * capacity as usize);
            kit.reported().await;
            assert_eq!(kit.dials.len(), before + 2);
            kit.assert_metric(EXHAUSTED, 2);
            for (at, half) in clients.chunks(capacity as usize).enumerate() {
                let mut wire = Wire::dialled(&kit, before + at);
                let wanted: Vec<_> = (1..=capacity).map(|cid| format!("open+ {cid}")).collect();
                assert_eq!(wire.frames(), wanted, "{capacity}");
                for (at, client) in half.iter().enumerate() {
                    assert!(!wire.peer.is_dropped());
                    wire.send(FrameKind::Close, at as u32 + 1);
                    client.end();
                    kit.quiet().await;
                }
                assert!(wire.peer.is_dropped(), "its last child is gone");
            }
            kit.assert_empty().await;
        }
    });
}

#[test]
fn mux_m11_m12_a_timer_exhausts_a_parent_at_its_moment() {
    run(async |kit| {
        let chain = near(&kit, client(timer(500)));
        let clients = open(&kit, &chain, 1);
        kit.pass(MILLI * 490).await;
        let brief = open(&kit, &chain, 1);
        kit.pass(MILLI * 20).await;
        assert_eq!(kit.dials.len(), 1);
        let more = open(&kit, &chain, 1);
        kit.quiet().await;
        assert_eq!(kit.dials.len(), 2);
        let mut wires = [0, 1].map(|at| Wire::dialled(&kit, at));
        assert_eq!(wires[0].frames(), ["open+ 1", "open+ 2"]);
        assert_eq!(wires[1].frames(), ["open+ 1"]);
        more[0].reset();
        brief[0].reset();
        kit.pass(MILLI * 400).await;
        assert!(!wires[1].peer.is_dropped(), "young, though it has no child");
        assert!(!wires[0].peer.is_dropped(), "a child lives");
        kit.pass(MILLI * 100).await;
        assert!(wires[1].peer.is_dropped(), "closed at the moment of exhaustion");
        clients[0].reset();
        kit.pass(SECOND * 2).await;
        assert!(wires[0].peer.is_dropped());
        kit.assert_empty().await;
    });
}

#[test]
fn mux_a_parent_that_an_operator_drains_takes_no_child_and_ends_with_its_last() {
    run(async |kit| {
        let chain = near(&kit, client(fixed(1)));
        let first = open(&kit, &chain, 1);
        kit.reported().await;
        assert!(kit.worker.finish_line(parent_of(&kit), FinishReason::Admin));
        kit.pass(SECOND).await;
        let second = open(&kit, &chain, 1);
        kit.reported().await;
        let mut wires = [0, 1].map(|at| Wire::dialled(&kit, at));
        assert_eq!(
            (wires[0].frames(), wires[1].frames()),
            (vec!["open+ 1".to_owned()], vec!["open+ 1".to_owned()])
        );
        first[0].reset();
        kit.quiet().await;
        assert_eq!(wires[0].frames(), ["close 1"]);
        assert!(wires[0].peer.is_dropped());
        // With a child that stays, the drain limit ends it.
        kit.worker.drain_timeout.set(SECOND);
        assert!(kit.worker.finish_line(parent_of(&kit), FinishReason::Admin));
        kit.pass(MILLI * 990).await;
        assert!(!second[0].is_shut_down());
        kit.pass(MILLI * 20).await;
        assert!(second[0].is_shut_down());
        assert_eq!(wires[1].frames(), ["close 1"]);
        second[0].end();
        kit.quiet().await;
        kit.assert_empty().await;
        ended(&kit, "mux", "admin", 1);
        kit.assert_closed("admin", 1);
    });
}

#[test]
fn mux_a_drained_parent_without_a_transport_has_the_same_limit() {
    run(async |kit| {
        kit.worker.drain_timeout.set(SECOND);
        let chain = near(&kit, client(fixed(1)));
        let stuck = open(&kit, &chain, 1);
        kit.reported().await;
        let parent = parent_of(&kit);
        let wire = Wire::dialled(&kit, 0);
        stuck[0].window(0);
        wire.data(1, &super::bytes(2_000_000));
        kit.quiet().await;
        wire.peer.end();
        kit.quiet().await;
        assert!(wire.peer.is_dropped());
        kit.worker.finish_line(parent, FinishReason::Admin);
        kit.pass(SECOND + MILLI * 10).await;
        kit.assert_metric(OPEN, 0);
        stuck[0].reset();
        kit.pass(SECOND * 2).await;
        kit.assert_empty().await;
    });
}

#[test]
fn mux_the_service_drains_and_its_parents_end_with_their_children() {
    run(async |kit| {
        let chain = near(&kit, client(fixed(2)));
        let clients = open(&kit, &chain, 1);
        kit.quiet().await;
        kit.worker.drain_parents();
        kit.quiet().await;
        assert!(kit.dials.peer(1).is_dropped() && !kit.dials.peer(0).is_dropped());
        // Accepted before, and begun later: its parent ends with it.
        let late = open(&kit, &chain, 1);
        kit.quiet().await;
        late[0].reset();
        clients[0].reset();
        kit.pass(SECOND * 2).await;
        kit.assert_empty().await;
        let more = open(&kit, &chain, 1);
        kit.quiet().await;
        kit.worker.finish_lines(FinishReason::Drain, |_| true);
        kit.quiet().await;
        assert!(more[0].is_dropped());
        kit.assert_empty().await;
    });
}

/// Nobody has the node any more, nor the pool behind it.
fn gone(node: &std::rc::Weak<Node>) -> bool {
    node.strong_count() == 0
}

#[test]
fn mux_a_reload_that_changes_the_way_of_parents_ends_them_with_their_children() {
    run(async |kit| {
        let build = |plan: NodePlan| Rc::new(Node::new(plan.into(), &kit.board));
        let [inward, mux, out] = [entry(), client(fixed(1)), connector()].map(build);
        let chain = Rc::new(Chain::new(&[inward.clone(), mux.clone(), out]).expect("a chain"));
        let old = open(&kit, &chain, 1);
        kit.quiet().await;
        // Another connector behind the same MuxClient.
        let out = build(connector());
        let other = Rc::new(Chain::new(&[inward, mux.clone(), out]).expect("a chain"));
        let young = open(&kit, &other, 1);
        kit.quiet().await;
        assert_eq!(kit.dials.len(), 2);
        old[0].reset();
        kit.quiet().await;
        assert!(kit.dials.peer(0).is_dropped(), "the old way took no further child");
        assert!(!kit.dials.peer(1).is_dropped());
        let NodeRole::MuxClient(parents) = &mux.role else {
            return;
        };
        parents.retire(|_| false);
        kit.quiet().await;
        assert!(!kit.dials.peer(1).is_dropped());
        young[0].reset();
        kit.quiet().await;
        assert!(kit.dials.peer(1).is_dropped());
        kit.pass(SECOND * 2).await;
        kit.assert_empty().await;
        let node = Rc::downgrade(&mux);
        drop((chain, other, mux));
        assert!(gone(&node), "nothing holds the node of a reload before");
    });
}

#[test]
fn mux_a_line_of_a_retired_chain_that_joins_late_leaves_no_parent_behind() {
    run(async |kit| {
        let build = |plan: NodePlan| Rc::new(Node::new(plan.into(), &kit.board));
        let [inward, mux, out] = [entry(), client(fixed(2)), connector()].map(build);
        let chain = Rc::new(Chain::new(&[inward, mux.clone(), out]).expect("a chain"));
        let NodeRole::MuxClient(parents) = &mux.role else {
            return;
        };
        parents.retire_for_good();
        // It waited for a probe during the reload, for instance.
        let late = open(&kit, &chain, 1);
        kit.quiet().await;
        let mut wire = Wire::dialled(&kit, 0);
        assert_eq!(wire.frames(), ["open+ 1"]);
        late[0].reset();
        kit.pass(SECOND * 2).await;
        kit.assert_empty().await;
        let node = Rc::downgrade(&mux);
        drop((chain, mux));
        assert!(gone(&node));
    });
}
