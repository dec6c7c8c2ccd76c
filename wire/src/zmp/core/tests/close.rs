//! The end of a socket.

use super::*;

#[test]
fn dealer_d_w7_close_ends_tokens_and_requests_silently() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.ask(None, "x").expect("taken");
    rig.fill(None);
    rig.feed(peer, [data("unread"), reply(1, "unread")]);
    rig.core.close(rig.now);
    assert_eq!((rig.completions(), rig.recv()), (Vec::new(), None));
    assert_eq!(rig.core.next_deadline(), None);
    let shutdown = error(SubmitResult::Terminated, Errno::ESHUTDOWN);
    let refused = rig.send(None, hundred()).expect_err("closed");
    assert_eq!((refused.error, refused.token), (shutdown, None));
    assert_eq!(rig.ask(None, "x").expect_err("closed").error, shutdown);
    let late = rig.attaching(Router, "B", Origin::Accepted("tcp://bound".into()));
    assert_eq!(rig.attach(late), Err(Rejection::Closed));
    assert_eq!(rig.core.counters().tokens_finished, 1);
    let status = rig.core.status();
    assert!(status.closed && !rig.core.readiness().output);
}

#[test]
fn zmp_close_lingers_until_everything_is_written() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.send(None, record("1")).expect("taken");
    rig.wakes();
    rig.core.close(rig.now);
    assert!(!rig.core.drained());
    assert!(!rig.wakes().contains(&Wake::Drained));
    let turn = rig.turn(peer, Vec::new(), 0);
    assert_eq!((texts(&turn.outgoing), turn.close), (vec!["1".into()], Some(Closing::Socket)));
    assert!(!rig.core.drained(), "it is under way");
    rig.turn(peer, Vec::new(), record("1").charge());
    assert!(rig.core.drained());
    assert!(rig.wakes().contains(&Wake::Drained));
}

#[test]
fn zmp_a_link_that_ends_counts_as_drained() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.send(None, record("1")).expect("taken");
    rig.core.close(rig.now);
    rig.wakes();
    rig.detach(peer);
    assert!(rig.core.drained() && rig.wakes().contains(&Wake::Drained));
    assert_eq!(rig.core.counters().dropped[crate::zmp::status::Drop::NoPeer], 1);
}

#[test]
fn zmp_closing_an_idle_socket_is_over_at_once() {
    let mut rig = Rig::new(Router);
    rig.core.close(rig.now);
    assert_eq!(rig.wakes(), [Wake::Drained]);
    rig.core.close(rig.now);
    assert_eq!(rig.wakes(), [], "a second time does nothing");
    rig.core.set_receive_flow_state(rig.now, FlowState::Paused);
    assert_eq!(rig.core.counters().epochs_issued, 0);
}

#[test]
fn zmp_what_comes_after_close_is_dropped_and_still_read() {
    let mut rig = Rig::new(Router);
    let peer = rig.accept(Dealer, "A");
    rig.feed(peer, [request(1, "x")]);
    let token = rig.recv().expect("a request").reply.expect("a token");
    rig.core.close(rig.now);
    rig.feed(peer, [data("late")]);
    assert_eq!((rig.recv(), rig.core.queued()), (None, 0));
    assert_eq!(rig.turn(peer, Vec::new(), 0).taken, 65 + 68);
    let refused = rig.core.try_reply(token, record("y")).expect_err("closed");
    assert_eq!(refused.error, error(SubmitResult::Terminated, Errno::ESHUTDOWN));
}
