//! Rules 2 and 20 to 24, and what else is so without state alone.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::cases::shapes;
use crate::kit::{Scene, Setup, TO_BOB};
use crate::raw::Udp;

#[test]
fn sip_r002_each_request_has_its_own_branch() {
    let scene = Scene::new(TO_BOB);
    let base = scene.request("INVITE", "c1");
    let mut seen = HashSet::new();
    let mut others: Vec<_> =
        (2..30).map(|n| base.replace("CSeq: 1", &format!("CSeq: {n}"))).collect();
    others.extend((2..30).map(|n| base.replace("Call-ID: c1", &format!("Call-ID: c{n}"))));
    others.extend((2..30).map(|n| base.replace("bK", &format!("bK{n}"))));
    others.push(base.replace("tag=a1", "tag=a2"));
    others.push(base.replace("sip:bob@127.0.0.1:", "sip:carol@127.0.0.1:"));
    others.push(base.replace("UDP 127.0.0.1", "UDP 127.0.0.9"));
    others.push(base.clone());
    let count = others.len();
    for other in others {
        let came = scene.pass(&other);
        let branch = came.branch();
        assert!(branch.starts_with("z9hG4bK"), "{came:?}");
        assert!(seen.insert(branch), "it was there: {came:?}");
    }
    assert_eq!(seen.len(), count);
}

#[test]
fn sip_r020_a_retransmission_gets_the_same_branch() {
    let scene = Scene::new(TO_BOB);
    for method in ["INVITE", "OPTIONS"] {
        let sent = scene.request(method, "c1");
        let first = scene.pass(&sent);
        for _ in 0..3 {
            assert_eq!(scene.pass(&sent), first, "the same bytes");
        }
    }
}

#[test]
fn sip_r021_no_100_no_absorption_and_nothing_is_sent_on_its_own() {
    let scene = Scene::new(TO_BOB);
    let sent = scene.request("INVITE", "c1");
    for _ in 0..3 {
        scene.pass(&sent);
    }
    scene.proxy.answers_first(&scene.alice, "c1");
    scene.proxy.sends_first(&scene.alice, &scene.bob, "c1");
    // A transaction would send its INVITE again after half a second.
    scene.bob.stays_silent(Duration::from_millis(700));
    scene.proxy.answers_first(&scene.alice, "c1");
}

#[test]
fn sip_r022_ack_of_a_failure_and_cancel_carry_the_invite_s_branch_and_are_not_answered() {
    let scene = Scene::new(TO_BOB);
    let invite = scene.request("INVITE", "c1");
    let came = scene.pass(&invite);
    let cancel = scene.pass(invite.replace("INVITE", "CANCEL"));
    assert!(cancel.first().starts_with("CANCEL sip:bob@"), "{cancel:?}");
    assert_eq!(cancel.branch(), came.branch());
    let busy = scene.answer(&came, "487 Request Terminated");
    assert_eq!(busy.status(), 487, "no answer to CANCEL came from here: {busy:?}");
    // No ACK was made here: the next that Bob gets is the caller's.
    let to = format!("To: {}", busy.one("To"));
    let ack = invite.replace("INVITE", "ACK").replace("To: <sip:bob@127.0.0.1>", &to);
    let ack = scene.pass(&ack);
    assert!(ack.first().starts_with("ACK sip:bob@"), "{ack:?}");
    assert_eq!(ack.branch(), came.branch());
    assert_eq!(ack.one("To"), busy.one("To"));
    scene.proxy.answers_first(&scene.alice, "c1");
}

#[test]
fn sip_r023_100_is_relayed() {
    let scene = Scene::new(TO_BOB);
    let came = scene.pass(scene.request("INVITE", "c1"));
    for _ in 0..2 {
        assert_eq!(scene.answer(&came, "100 Trying").first(), "SIP/2.0 100 Trying");
    }
}

#[test]
fn sip_r024_another_cseq_has_another_branch() {
    let scene = Scene::new(TO_BOB);
    let sent = scene.request("INVITE", "c1");
    let first = scene.pass(&sent).branch();
    let second = scene.pass(sent.replace("CSeq: 1 ", "CSeq: 2 ")).branch();
    assert_ne!(first, second);
    // As text the same number twice is the same.
    assert_eq!(scene.pass(&sent).branch(), first);
}

#[test]
fn case_s28_memory_stays_flat_and_nothing_takes_long() {
    let proxy = Setup::one_worker().built_in();
    let scene = Scene { proxy, alice: Udp::new(), bob: Udp::new() };
    let shapes = shapes(&scene);
    let mut best = vec![Duration::MAX; shapes.len()];
    let mut before = 0;
    for round in 0..20 {
        for ((_, sent), best) in shapes.iter().zip(&mut best) {
            let begun = Instant::now();
            scene.send(sent);
            scene.proxy.served_behind(&scene.alice, &scene.bob);
            *best = begun.elapsed().min(*best);
        }
        if round == 4 {
            before = scene.proxy.service.rss();
        }
    }
    let grown = scene.proxy.service.rss().saturating_sub(before);
    assert!(grown < 2 << 20, "{grown} bytes");
    for ((name, _), took) in shapes.iter().zip(best) {
        // With a good request and its reply behind it.
        assert!(took < Duration::from_millis(10), "({name}): {took:?}");
    }
}
