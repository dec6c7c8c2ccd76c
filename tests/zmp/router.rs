//! What is a ROUTER's own: names of peers, routes, replies that are owed (section 3).

use lineway::zmp::monitor::EventKind::{ConnectionReady, Disconnected};
use lineway::zmp::{
    ConfigError, ConfigResult, Errno, FlowState, Outcome, RequestError, RequestResult, SubmitResult,
};

use crate::common::until;
use crate::kit::{BLOCKED, NOTHING, dealer, id, ms, parts, refusal, router, router_with, wait};
use crate::raw::{DEALER, Peer, REPLY, flow_state};

const UNREACHABLE: (SubmitResult, Errno, bool) =
    (SubmitResult::NotConnected, Errno::EHOSTUNREACH, false);

#[test]
fn router_r_o2_a_connect_may_name_its_peer_and_a_reconnect_keeps_the_name() {
    let r = router("R1");
    let (listener, endpoint) = crate::raw::listen();
    wait(r.connect_with_id(&endpoint, id("alias"))).unwrap();
    for number in 0..3 {
        // It may call itself what it likes.
        let mut peer = Peer::accept(&listener, DEALER, format!("D{number}").as_bytes());
        r.event(ConnectionReady);
        wait(r.send(&id("alias"), "by alias")).unwrap();
        assert_eq!(peer.record().single(), b"by alias");
        peer.data(&[b"from it"]);
        assert_eq!(r.hear(), ("alias".to_owned(), b"from it".to_vec()));
        let unknown = r.try_send(&id(&format!("D{number}")), "by id", 0).unwrap_err();
        assert_eq!(refusal(&unknown), UNREACHABLE);
        drop(peer);
        r.event(Disconnected);
    }
    // One shot: the next connect has no name but its peer's.
    let mut other = r.peer(DEALER, "D9");
    wait(r.send(&id("D9"), "by id")).unwrap();
    assert_eq!(other.record().single(), b"by id");
}

#[test]
fn router_r_o3_a_peer_without_an_id_gets_one() {
    let r = router("R1");
    let at = r.bound();
    let mut peers = [r.accepts(at, DEALER, ""), r.accepts(at, DEALER, "")];
    let mut seen = Vec::new();
    for peer in &mut peers {
        peer.request(1, &[b"who am I?"]);
        let asked = wait(r.recv()).unwrap();
        assert_eq!((asked.from.as_bytes().len(), asked.from.as_bytes()[0]), (5, 0));
        wait(r.send(&asked.from, "data")).unwrap();
        assert_eq!(peer.record().single(), b"data");
        wait(asked.reply.unwrap().reply("answer")).unwrap();
        assert_eq!(peer.record().single(), b"answer");
        seen.push(asked.from);
    }
    assert_ne!(seen[0], seen[1]);
}

#[test]
fn router_r_q1_only_routers_are_asked() {
    let r = router("R1");
    let at = r.bound();
    let mut peer = r.accepts(at, DEALER, "D1");
    let refused = (SubmitResult::NotAdmitted, Errno::EPROTOTYPE, false);
    assert_eq!(refusal(&r.try_request(&id("D1"), "?", None, 0).unwrap_err()), refused);
    let unknown = (SubmitResult::NotFound, Errno::ENOENT, false);
    for (to, expected) in [("D1", refused), ("nobody", unknown)] {
        match wait(r.request(&id(to), "?", None)).unwrap_err() {
            RequestError::NotSent(error) => assert_eq!(refusal(&error), expected, "{to}"),
            other @ RequestError::Failed { .. } => panic!("{other}"),
        }
    }
    r.set_mandatory(false).unwrap();
    assert_eq!(refusal(&r.try_request(&id("nobody"), "?", None, 0).unwrap_err()), UNREACHABLE);
    wait(r.send(&id("D1"), "data")).unwrap();
    assert_eq!(peer.record().single(), b"data");
    // Between two of the library: the completion has the id (R-Q2).
    let other = router("R2");
    wait(other.connect(&format!("tcp://{at}"))).unwrap();
    other.event(ConnectionReady);
    r.event(ConnectionReady);
    let request = r.try_request(&id("R2"), parts(&["a", "b"]), None, 3).unwrap();
    let asked = wait(other.recv()).unwrap();
    assert_eq!(
        (asked.from.as_bytes(), asked.record.parts()),
        (&b"R1"[..], &["a".into(), "b".into()][..])
    );
    wait(asked.reply.unwrap().reply("c")).unwrap();
    let completion = wait(r.next_completion()).unwrap();
    assert_eq!((completion.id, completion.peer), (request, Some(id("R2"))));
    assert!(matches!(completion.outcome, Outcome::Request { result: RequestResult::Ok, .. }));
}

#[test]
fn router_r_s2_tokens_are_bound_to_their_id() {
    let r = router("R1");
    let at = r.bound();
    let (mut one, mut two) = (r.accepts(at, DEALER, "one"), r.accepts(at, DEALER, "two"));
    one.send(&flow_state(true, 1));
    two.send(&flow_state(true, 1));
    until("both are paused", || r.status().flow.paused_connections == 2);
    let for_one = r.try_send(&id("one"), "for one", 1).unwrap_err();
    let for_two = r.try_send(&id("two"), "for two", 2).unwrap_err();
    assert_eq!((refusal(&for_one), refusal(&for_two)), (BLOCKED, BLOCKED));
    two.send(&flow_state(false, 2));
    let woken = wait(r.next_completion()).unwrap();
    assert_eq!((Some(woken.id), woken.peer), (for_two.token(), Some(id("two"))));
    assert_eq!(r.try_completion(), Err(NOTHING));
    wait(r.send(&id("two"), "for two")).unwrap();
    assert_eq!(two.record().single(), b"for two");
    // The other one is removed (R-S3).
    r.disconnect_rid(&id("one")).unwrap();
    let removed = wait(r.next_completion()).unwrap();
    assert_eq!((Some(removed.id), removed.outcome), (for_one.token(), Outcome::Removed));
    assert_eq!(one.end(), b"");
    r.event(Disconnected);
    let unknown = ConfigError::new(ConfigResult::NotFound, Errno::ENOENT);
    assert_eq!(r.disconnect_rid(&id("one")), Err(unknown));
    assert_eq!(r.disconnect_rid(&id("nobody")), Err(unknown));
    // A connection of its own may bring it back.
    let mut one = r.accepts(at, DEALER, "one");
    wait(r.send(&id("one"), "again")).unwrap();
    assert_eq!(one.record().single(), b"again");
}

#[test]
fn router_r_p3_a_reply_is_owed_across_connections_and_given_once() {
    let r = router_with("R1", |options| options.send_timeout = Some(ms(50)));
    let at = r.bound();
    let mut peer = r.accepts(at, DEALER, "D1");
    peer.request(7, &[b"question"]);
    let owed = wait(r.recv()).unwrap().reply.unwrap();
    peer.request(8, &[b"not answered"]);
    drop(wait(r.recv()).unwrap());
    assert_eq!(r.counters().replies_abandoned, 1);
    drop(peer);
    r.event(Disconnected);
    // No link: it waits in vain, and is owed as before.
    let refused = wait(owed.reply("answer")).unwrap_err();
    assert_eq!((refused.number(), refused.errno()), (1, Errno::EAGAIN));
    let mut peer = r.accepts(at, DEALER, "D1");
    wait(refused.token.unwrap().reply(refused.record)).unwrap();
    let reply = peer.record();
    assert_eq!((reply.kind, reply.sequence, reply.single()), (REPLY, Some(7), &b"answer"[..]));
    // An answer may be empty (R-P5), and its receiver may be removed meanwhile.
    peer.request(9, &[b""]);
    peer.request(10, &[b""]);
    let [first, second] = [(); 2].map(|()| wait(r.recv()).unwrap().reply.unwrap());
    assert!(first.id() < second.id());
    wait(first.reply("")).unwrap();
    assert_eq!(peer.record().single(), b"");
    r.disconnect_rid(&id("D1")).unwrap();
    let gone = second.try_reply("late").unwrap_err();
    assert_eq!((gone.number(), gone.errno()), (3, Errno::ENOENT));
    assert!(gone.token.is_none());
}

#[test]
fn router_r_p4_without_a_free_token_requests_wait_and_data_does_not() {
    let r = router_with("R1", |options| options.core.reply_tokens = 2);
    let at = r.bound();
    let (mut asks, mut sends) = (r.accepts(at, DEALER, "asks"), r.accepts(at, DEALER, "sends"));
    for sequence in 1..=5 {
        asks.request(sequence, &[&[sequence as u8]]);
    }
    let mut owed = Vec::new();
    for sequence in 1..=2 {
        let asked = wait(r.recv()).unwrap();
        assert_eq!(asked.record.parts(), [&[sequence][..]]);
        owed.push(asked.reply.unwrap());
    }
    until("the others are there", || r.status().receive.pending_msgs == 3);
    // Nothing can be taken: the level says so as well (R-V5).
    assert!(!r.readiness().input);
    assert_eq!(r.try_recv().unwrap_err(), NOTHING);
    sends.data(&[b"data"]);
    assert_eq!(r.hear(), ("sends".to_owned(), b"data".to_vec()));
    // Each that is given or given up lets one more in.
    wait(owed.remove(0).reply("one")).unwrap();
    let third = wait(r.recv()).unwrap();
    assert_eq!(third.record.parts(), [&[3][..]]);
    assert_eq!(r.try_recv().unwrap_err(), NOTHING);
    drop(owed);
    let fourth = wait(r.recv()).unwrap();
    assert_eq!(fourth.record.parts(), [&[4][..]]);
    drop(third);
    assert_eq!(wait(r.recv()).unwrap().record.parts(), [&[5][..]]);
    assert_eq!(asks.record().sequence, Some(1));
}

#[test]
fn router_r_d2_two_that_connect_to_each_other_use_one_link() {
    let (a, b) = (router("A"), router("B"));
    let (to_a, to_b) = (format!("tcp://{}", a.bound()), format!("tcp://{}", b.bound()));
    wait(a.connect(&to_b)).unwrap();
    wait(b.connect(&to_a)).unwrap();
    // That of the smaller id wins on both sides; the other one stands by.
    let settled = |socket: &lineway::zmp::Router, used: &str| {
        let peers = socket.peers();
        let used = |peer: &lineway::zmp::status::PeerStatus| {
            peer.ready && (peer.standby != peer.endpoint.starts_with(used))
        };
        peers.len() == 2 && peers.iter().all(used)
    };
    until("one link is used", || settled(&a, &to_b) && settled(&b, &to_b));
    for number in 0..20 {
        let text = format!("{number}");
        wait(a.send(&id("B"), text.clone())).unwrap();
        wait(b.send(&id("A"), text.clone())).unwrap();
        assert_eq!(b.hear(), ("A".to_owned(), text.clone().into_bytes()));
        assert_eq!(a.hear(), ("B".to_owned(), text.into_bytes()));
    }
    // It ends: the one that stood by is used at once.
    wait(a.disconnect(&to_b)).unwrap();
    until("the other is used", || a.peers().len() == 1 && b.peers().len() == 1);
    wait(a.send(&id("B"), "promoted")).unwrap();
    assert_eq!(b.hear(), ("A".to_owned(), b"promoted".to_vec()));
    wait(b.send(&id("A"), "promoted")).unwrap();
    assert_eq!(a.hear(), ("B".to_owned(), b"promoted".to_vec()));
}

#[test]
fn one_application_over_every_transport() {
    for endpoint in ["tcp://127.0.0.1:*", "tcp://[::1]:*", "ipc://*", "inproc://name"] {
        let context = lineway::zmp::Context::new().unwrap();
        let r = context.router(lineway::zmp::SocketOptions::router());
        let d = context.dealer(lineway::zmp::SocketOptions::dealer());
        let Ok(real) = wait(r.bind(endpoint)) else {
            assert!(endpoint.contains("::1"), "{endpoint}");
            continue;
        };
        wait(d.connect(&real)).unwrap();
        let asks = d.request(parts(&["a", "", "c"]), None);
        let answers = async {
            let asked = r.recv().await.unwrap();
            asked.reply.unwrap().reply(asked.record).await
        };
        let (answer, answered) = wait(async { tokio::join!(asks, answers) });
        assert_eq!(answer.unwrap().parts(), ["a", "", "c"], "{endpoint}");
        answered.unwrap();
        r.set_receive_flow_state(FlowState::Paused).unwrap();
        until("it is told", || d.status().flow.paused_connections == 1);
        assert_eq!(refusal(&d.try_send("paused", 0).unwrap_err()), BLOCKED);
        r.set_receive_flow_state(FlowState::Running).unwrap();
        assert!(matches!(wait(d.next_completion()).unwrap().outcome, Outcome::Writable));
        wait(d.send("running")).unwrap();
        assert_eq!(wait(r.recv()).unwrap().record.parts(), ["running"]);
        // The same place is free again at once (4.4).
        wait(r.close()).unwrap();
        let again = context.router(lineway::zmp::SocketOptions::router());
        assert_eq!(wait(again.bind(&real)).unwrap(), real);
        let taken = context.router(lineway::zmp::SocketOptions::router());
        let error = wait(taken.bind(&real)).unwrap_err();
        assert_eq!((error.result.number(), error.errno.0), (502, 98), "{endpoint}");
        wait(d.send("to the next")).unwrap();
        assert_eq!(wait(again.recv()).unwrap().record.parts(), ["to the next"]);
    }
    let (d, refused) = (dealer("D1"), [("tls://127.0.0.1:1", 503, 93), ("tcp://x", 501, 22)]);
    for (endpoint, number, errno) in refused {
        let error = wait(d.bind(endpoint)).unwrap_err();
        assert_eq!((error.result.number(), error.errno.0), (number, errno), "{endpoint}");
        let error = wait(d.connect(endpoint)).unwrap_err();
        assert_eq!(
            (error.result.number(), error.errno.0),
            (if number == 503 { 602 } else { 601 }, errno)
        );
    }
}
