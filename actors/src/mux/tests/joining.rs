//! A child and its parent meet, whatever happens to either at this moment.

use lineway_wire::mux::FrameKind;

use super::{SECOND, Wire, client, counter, ended, fixed, leave, near, open, timer};
use crate::testkit::{Outcome, run};

#[test]
fn mux_m14_a_child_that_comes_when_its_parent_is_lost_is_not_forgotten() {
    run(async |kit| {
        let chain = near(&kit, client(fixed(1)));
        let first = open(&kit, &chain, 1);
        kit.quiet().await;
        first[0].reset();
        kit.pass(SECOND * 2).await;
        // Both in one instant: the parent may be gone before the child has its first turn.
        kit.dials.peer(0).end();
        let child = open(&kit, &chain, 1);
        child[0].offer(b"hello");
        kit.pass(SECOND).await;
        assert_eq!(kit.dials.len(), 2);
        let mut wire = Wire::dialled(&kit, 1);
        assert_eq!(wire.frames(), ["open+ 1", "data 1 hello"]);
        wire.send(FrameKind::Close, 1);
        child[0].end();
        leave(&kit).await;
    });
}

#[test]
fn mux_m12_a_child_that_comes_when_its_parent_is_exhausted_is_not_forgotten() {
    run(async |kit| {
        let chain = near(&kit, client(timer(100)));
        let first = open(&kit, &chain, 1);
        kit.quiet().await;
        first[0].reset();
        kit.pass(super::MILLI * 50).await;
        // Joins a parent that drains before the child has its first turn.
        let child = open(&kit, &chain, 1);
        kit.worker.drain_parents();
        child[0].offer(b"hello");
        kit.quiet().await;
        let mut wire = Wire::dialled(&kit, 0);
        assert_eq!(wire.frames(), ["open+ 1", "close 1", "open+ 2", "data 2 hello"]);
        wire.send(FrameKind::Close, 2);
        child[0].end();
        kit.quiet().await;
        assert!(wire.peer.is_dropped());
        kit.assert_empty().await;
    });
}

#[test]
fn mux_m11_the_only_child_of_a_parent_is_not_forgotten() {
    run(async |kit| {
        let chain = near(&kit, client(counter(1)));
        kit.dials.plan(Outcome::UpAfter(SECOND));
        let child = open(&kit, &chain, 1);
        kit.pass(SECOND * 2).await;
        let mut wire = Wire::dialled(&kit, 0);
        assert_eq!(wire.frames(), ["open+ 1"]);
        child[0].reset();
        kit.pass(SECOND * 2).await;
        kit.assert_empty().await;
    });
}

#[test]
fn line_l08_a_parent_that_panics_ends_its_children_and_the_next_child_makes_another() {
    run(async |kit| {
        let chain = near(&kit, client(fixed(1)));
        let clients = open(&kit, &chain, 3);
        kit.quiet().await;
        let mut wire = Wire::dialled(&kit, 0);
        assert_eq!(wire.frames().len(), 3);
        clients[0].offer(&[1; 1000]);
        wire.peer.explode();
        // Joins an actor that is about to panic.
        let late = open(&kit, &chain, 1);
        kit.quiet().await;
        for client in clients.iter().chain(&late) {
            assert!(client.is_shut_down());
            client.end();
        }
        kit.quiet().await;
        kit.assert_empty().await;
        kit.assert_closed("panic", 4);
        let child = open(&kit, &chain, 1);
        kit.quiet().await;
        assert_eq!(Wire::dialled(&kit, 1).frames(), ["open+ 1"]);
        child[0].reset();
        kit.pass(SECOND * 2).await;
        leave(&kit).await;
    });
}

#[test]
fn mux_a_child_that_panics_gives_its_credit_back_and_its_neighbours_go_on() {
    run(async |kit| {
        let chain = near(&kit, client(fixed(1)));
        let clients = open(&kit, &chain, 2);
        kit.quiet().await;
        let mut wire = Wire::dialled(&kit, 0);
        wire.peer.window(1000);
        clients[0].offer(&super::bytes(600_000));
        clients[0].window(0);
        wire.data(1, &super::bytes(600_000));
        kit.quiet().await;
        clients[0].open_window();
        clients[0].explode();
        wire.peer.open_window();
        kit.quiet().await;
        let frames = wire.frames();
        assert_eq!(frames.last().map(String::as_str), Some("close 1"), "{frames:?}");
        clients[1].offer(b"still here");
        wire.data(2, b"so am I");
        kit.quiet().await;
        assert_eq!(wire.frames(), ["data 2 still here"]);
        assert_eq!(clients[1].take(), b"so am I");
        clients[1].reset();
        kit.pass(SECOND * 2).await;
        leave(&kit).await;
        ended(&kit, "mux", "panic", 1);
        kit.assert_closed("panic", 1);
    });
}
