//! Complaints about such sockets, as the whole kind of their fault: routes, limits, lives of peers.

use std::io::Write as _;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use lineway::zmp::monitor::EventKind::{ConnectionReady, Disconnected, SendFlowPaused};
use lineway::zmp::{
    Context, DuplicatePolicy, Errno, Outcome, Record, RequestResult, SocketKind, SocketOptions,
    SubmitResult, status,
};

use crate::common::until;
use crate::kit::{
    BLOCKED, HUGE, NOTHING, Under, begin, dealer, dealer_with, id, listen_small, ms, parts,
    refusal, router, router_with, wait,
};
use crate::raw::{
    CONTROL, DATA, DEALER, ERROR_REPLY, MORE, Peer, REPLY, REQUEST, ROUTER, Ready, frame, hello,
    listen, record,
};

/// The text of a number, as long as all others.
fn numbered(number: usize) -> String {
    format!("{number:010}")
}

/// What a handshake with one lane takes, and whatever is to follow at once.
fn handshake(name: &[u8], behind: &[u8]) -> Vec<u8> {
    [&hello(DEALER, name)[..], &Ready::new(DEALER, name).bytes(), behind].concat()
}

#[test]
fn case_z01_a_second_peer_with_the_same_id_is_refused_for_all_to_see() {
    let r = router("R1");
    let at = r.bound();
    let mut first = r.accepts(at, DEALER, "D1");
    first.data(&[b"one"]);
    assert_eq!(r.hear(), ("D1".to_owned(), b"one".to_vec()));
    for attempt in 1..=10 {
        let mut second = Peer::dial(at);
        let begun = Instant::now();
        second.send(&handshake(b"D1", &record(DATA, None, &[b"two"])));
        second.end();
        assert!(begun.elapsed() < ms(1000), "{:?}", begun.elapsed());
        r.event(Disconnected);
        let rejected = r.counters().peers_rejected;
        assert_eq!(rejected[lineway::zmp::Rejection::DuplicateId], attempt);
        assert_eq!(rejected.total(), attempt);
        first.data(&[b"one more"]);
        assert_eq!(r.hear(), ("D1".to_owned(), b"one more".to_vec()));
        wait(r.send(&id("D1"), "back")).unwrap();
        assert_eq!(first.record().single(), b"back");
    }
    assert_eq!(r.try_recv().unwrap_err(), NOTHING);
    assert_eq!((r.events(ConnectionReady), r.peers().len()), (0, 1));
    // Another id is another peer, and an id is free again when its peer has left.
    let mut other = r.accepts(at, DEALER, "D2");
    other.data(&[b"other"]);
    assert_eq!(r.hear().0, "D2");
    drop(first);
    until("D1 is gone", || r.peers().len() == 1);
    let mut third = r.accepts(at, DEALER, "D1");
    third.data(&[b"three"]);
    assert_eq!(r.hear(), ("D1".to_owned(), b"three".to_vec()));

    // With handover the new one takes the id, and the old one sees its end.
    r.set_duplicate_policy(DuplicatePolicy::Handover).unwrap();
    let mut fourth = Peer::connect(at, DEALER, b"D1");
    third.end();
    fourth.data(&[b"four"]);
    assert_eq!(r.hear(), ("D1".to_owned(), b"four".to_vec()));
    assert_eq!(r.peers().len(), 2);
}

#[test]
fn case_z04_a_send_that_waits_ends_when_its_peer_leaves() {
    // Ten messages, behind one that keeps the connection busy.
    let limit = (HUGE + 64 + 10 * (1024 + 64)) as u64;
    let r = router_with("R1", |options| {
        options.core.send_hwm = limit;
        options.send_timeout = None;
    });
    let at = r.bound();
    let mut other = r.accepts(at, DEALER, "D2");
    let stuck = r.accepts(at, DEALER, "D1");
    let d1 = id("D1");
    r.try_send(&d1, vec![0; HUGE], 0).unwrap();
    for _ in 0..10 {
        wait(r.send(&d1, vec![1; 1024])).unwrap();
    }
    let refused = r.try_send(&d1, vec![2; 1024], 0).unwrap_err();
    assert_eq!(refusal(&refused), BLOCKED);
    let blocked = begin({
        let (router, to) = (r.socket.clone(), d1.clone());
        async move { router.send(&to, vec![2; 1024]).await }
    });
    // Meanwhile others are sent to.
    for number in 0..10 {
        wait(r.send(&id("D2"), numbered(number))).unwrap();
        assert_eq!(other.record().single(), numbered(number).as_bytes());
    }
    let begun = Instant::now();
    drop(stuck);
    let error = blocked.join().unwrap().unwrap_err();
    assert_eq!(refusal(&error), (SubmitResult::NotConnected, Errno::EHOSTUNREACH, false));
    assert!(begun.elapsed() < ms(1900), "{:?}", begun.elapsed());
    // With a limit to its time as well; and one that comes back in time gets the record.
    r.set_send_timeout(Some(ms(300))).unwrap();
    let error = wait(r.send(&d1, "nobody")).unwrap_err();
    assert_eq!(error.errno(), Errno::EHOSTUNREACH);
    assert_eq!(refusal(&r.try_send(&d1, "nobody", 0).unwrap_err()).1, Errno::EHOSTUNREACH);
    let mut back = r.accepts(at, DEALER, "D1");
    back.send(&crate::raw::flow_state(true, 1));
    r.event(SendFlowPaused);
    r.set_send_timeout(None).unwrap();
    let across = begin({
        let (router, to) = (r.socket.clone(), d1.clone());
        async move { router.send(&to, "across").await }
    });
    drop(back);
    r.event(Disconnected);
    let mut back = r.accepts(at, DEALER, "D1");
    across.join().unwrap().unwrap();
    assert_eq!(back.record().single(), b"across");
}

#[test]
fn case_z05_every_drop_is_counted_by_its_reason() {
    const FIT: u64 = 37;
    let whole = HUGE as u64 + 64;
    let r = router_with("R1", |options| {
        options.core.mandatory = false;
        options.core.send_hwm = whole + FIT * (1024 + 64);
    });
    let at = r.bound();
    let nobody = id("NOPE");
    for number in 0..50 {
        r.try_send(&nobody, numbered(number), 0).unwrap();
        wait(r.send(&nobody, numbered(number))).unwrap();
    }
    let dropped = || r.counters().dropped;
    assert_eq!((dropped()[status::Drop::NoRoute], dropped().total()), (100, 100));
    let mut far = r.accepts(at, DEALER, "D1");
    // It takes nothing until the end, and the first record keeps the connection busy.
    let d1 = id("D1");
    r.try_send(&d1, vec![0; HUGE], 0).unwrap();
    let record = |number: u8| vec![number; 1024];
    for number in 1..=100 {
        if number % 2 == 0 {
            r.try_send(&d1, record(number), 0).unwrap();
        } else {
            wait(r.send(&d1, record(number))).unwrap();
        }
    }
    assert_eq!(dropped()[status::Drop::Hwm], 100 - FIT);
    assert_eq!((dropped()[status::Drop::NoRoute], dropped().total()), (100, 200 - FIT));
    assert_eq!(far.record().single().len(), HUGE);
    for number in 1..=u8::try_from(FIT).unwrap() {
        assert_eq!(far.record().single(), record(number));
    }
    r.written();
    wait(r.send(&d1, "end")).unwrap();
    assert_eq!(far.record().single(), b"end");
    // Paused is another way to have no room.
    far.send(&crate::raw::flow_state(true, 1));
    r.event(SendFlowPaused);
    r.try_send(&d1, "paused", 0).unwrap();
    assert_eq!(dropped()[status::Drop::Hwm], 101 - FIT);
    // What waits for a peer that ends is lost, and counted as that.
    far.send(&crate::raw::flow_state(false, 2));
    r.event(lineway::zmp::monitor::EventKind::SendFlowResumed);
    for text in [vec![0; HUGE], vec![1; 10], vec![2; 10]] {
        r.try_send(&d1, text, 0).unwrap();
    }
    drop(far);
    r.event(Disconnected);
    // Those that the connection had begun are broken, the others had no peer.
    let lost = || dropped()[status::Drop::NoPeer] + dropped()[status::Drop::Broken];
    until("they are counted", || lost() == 3);
    assert_eq!(r.counters().tokens_issued, 0);
}

#[test]
fn case_z07_a_burst_arrives_or_is_counted() {
    const RECORDS: usize = 10_000;
    let thousand = 1000 * (10 + 64);
    for (hwm, mandatory) in [(4_096_000, true), (thousand, true), (thousand, false)] {
        let r = router_with("R1", |options| {
            options.core.send_hwm = hwm;
            options.core.mandatory = mandatory;
            options.send_timeout = None;
        });
        let at = r.bound();
        let mut far = r.accepts(at, DEALER, "D1");
        let reads = std::thread::spawn(move || {
            let mut arrived = Vec::with_capacity(RECORDS);
            loop {
                let record = far.record();
                let number =
                    std::str::from_utf8(record.single()).unwrap().parse::<usize>().unwrap();
                if number == RECORDS {
                    return arrived;
                }
                arrived.push(number);
            }
        });
        let d1 = id("D1");
        wait(async {
            for number in 0..RECORDS {
                r.send(&d1, numbered(number)).await.unwrap();
            }
        });
        r.written();
        wait(r.send(&d1, numbered(RECORDS))).unwrap();
        let arrived = reads.join().unwrap();
        assert!(arrived.is_sorted_by(|a, b| a < b), "in order, each once");
        let dropped = r.counters().dropped[status::Drop::Hwm];
        assert_eq!(arrived.len() as u64 + dropped, RECORDS as u64, "{hwm} {mandatory}");
        if mandatory {
            assert_eq!(dropped, 0);
        }
    }
}

#[test]
fn case_z10_a_peer_that_closed_has_no_turn() {
    let d = dealer("D1");
    let (mut a, mut b) = (d.peer(DEALER, "A"), d.peer(DEALER, "B"));
    let send = |number: usize| wait(d.send(numbered(number))).unwrap();
    (0..10).for_each(send);
    for number in 0..5 {
        assert_eq!(a.record().single(), numbered(2 * number).as_bytes());
        assert_eq!(b.record().single(), numbered(2 * number + 1).as_bytes());
    }
    // Without a word to the sender, which finds out by itself.
    let second = listen();
    drop(std::mem::replace(&mut a.listener, second.0));
    a.stream.shutdown(Shutdown::Both).unwrap();
    for number in 10..20 {
        send(number);
        std::thread::sleep(ms(1));
    }
    d.event(Disconnected);
    (20..30).for_each(send);
    let mut arrived = Vec::new();
    while arrived.last() != Some(&29) {
        let record = b.record();
        arrived.push(std::str::from_utf8(record.single()).unwrap().parse::<usize>().unwrap());
    }
    assert!(arrived.is_sorted_by(|a, b| a < b));
    assert_eq!(arrived.iter().filter(|number| **number >= 20).count(), 10, "{arrived:?}");
    // What was given to the connection before its end was seen can be lost: a few at most.
    let lost = 20 - arrived.len();
    assert!(lost <= 3, "{lost} lost: {arrived:?}");
    assert_eq!(d.peers().len(), 1);
    // It comes back, at another place: every second one is its again.
    let mut a = d.peer_at(listen(), DEALER, "A");
    for number in 0..5 {
        d.say(numbered(number));
        d.say(numbered(number));
        assert_eq!(a.record().single(), numbered(number).as_bytes());
        assert_eq!(b.record().single(), numbered(number).as_bytes());
    }
    // A reset is no panic either, nor is one while a record is half written.
    b.weighs(&d, 0);
    d.try_send(vec![1; HUGE], 0).unwrap();
    a.read_at_least(100);
    socket2::SockRef::from(&a.stream).set_linger(Some(Duration::ZERO)).unwrap();
    a.leave(&d);
    b.weighs(&d, 1);
    d.say("alive");
    assert_eq!(b.record().single(), b"alive");
}

#[test]
fn case_z13_a_record_that_breaks_off_is_never_seen() {
    let r = router("R1");
    let at = r.bound();
    let mut d2 = r.accepts(at, DEALER, "D2");
    let bytes = record(DATA, None, &[b"A", b"", b"tail"]);
    let mut request = record(REQUEST, Some(3), &[b"question", b"tail"]);
    request.pop();
    let cuts = (1..bytes.len()).map(|cut| bytes[..cut].to_vec());
    for cut in cuts.chain([request]) {
        let mut peer = r.accepts(at, DEALER, "D1");
        peer.send(&cut);
        peer.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(peer.end(), [0x0a], "{cut:x?}");
        r.event(Disconnected);
    }
    d2.data(&[b"whole", b"record"]);
    let got = wait(r.recv()).unwrap();
    assert_eq!((got.from.as_bytes(), got.record.parts().len()), (&b"D2"[..], 2));
    assert_eq!(got.record.parts(), ["whole", "record"]);
    assert_eq!(r.try_recv().unwrap_err(), NOTHING);
    assert_eq!((r.status().receive.pending_bytes, r.status().receive.bytes_in_flight), (0, 0));
    // Between records it is an orderly end.
    let mut peer = r.accepts(at, DEALER, "D1");
    peer.send(&bytes);
    peer.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(wait(r.recv()).unwrap().record.parts(), ["A", "", "tail"]);
    assert_eq!(peer.end(), b"");
}

#[test]
fn case_z13_a_record_half_written_is_lost_and_counted_and_not_sent_again() {
    let d = dealer("D1");
    let mut a = d.peer_at(listen_small(), DEALER, "A");
    let mut b = d.peer(ROUTER, "B");
    let lost = Record::from_parts([vec![3; HUGE].into(), "tail".into()]).unwrap();
    wait(d.send(lost)).unwrap();
    a.read_at_least(1000);
    assert_eq!(a.record_within(Duration::ZERO), None);
    a.leave(&d);
    until("it is counted", || d.counters().dropped[status::Drop::Broken] == 1);
    d.say(parts(&["next", "whole"]));
    assert_eq!(b.record().parts, [b"next".to_vec(), b"whole".to_vec()]);
    a.back(&d);
    // The accumulator of A is new, and B keeps what it had when A took the one that was lost.
    d.say("B again");
    assert_eq!(b.record().single(), b"B again");
    d.say("first of A");
    assert_eq!(a.record().single(), b"first of A");
    assert_eq!(d.counters().dropped.total(), 1);
    // A request of which the answer can not come ends at once.
    b.weighs(&d, 0);
    let id = d.try_request(vec![4; HUGE], None, 0);
    assert!(id.is_err(), "A is a DEALER");
    b.weighs(&d, 1);
    let mut c = d.peer_at(listen_small(), ROUTER, "C");
    b.weighs(&d, 0);
    let id = d.try_request(vec![4; HUGE], None, 9).unwrap();
    c.read_at_least(1000);
    c.leave(&d);
    let completions = std::iter::from_fn(|| wait(d.next_completion()).ok());
    let ended = completions.into_iter().find(|completion| completion.id == id).unwrap();
    assert!(matches!(ended.outcome, Outcome::Request { result: RequestResult::NotConnected, .. }));
}

#[test]
fn case_z16_the_timer_is_for_the_handshake_and_no_longer() {
    let limit = ms(400);
    let r = router_with("R1", |options| options.handshake_interval = limit);
    let at = r.bound();
    let mut good = r.accepts(at, DEALER, "good");
    let mut half = Peer::dial(at);
    half.send(&hello(DEALER, b"half"));
    let mut slow = Peer::dial(at);
    let mut silent = Peer::dial(at);
    let begun = Instant::now();
    let trickle = std::thread::spawn(move || {
        for byte in hello(DEALER, b"0123456789012345678901234567890123456789") {
            if !slow.try_send(&[byte]) {
                break;
            }
            std::thread::sleep(limit / 8);
        }
        (slow.end(), begun.elapsed())
    });
    assert_eq!(silent.end(), [6]);
    let took = begun.elapsed();
    assert!(took + ms(20) >= limit && took < limit * 4, "{took:?}");
    assert_eq!(half.end(), [6]);
    let (codes, took) = trickle.join().unwrap();
    assert!(codes.is_empty() || codes == [6], "{codes:?}");
    assert!(took + ms(20) >= limit && took < limit * 5, "{took:?}");
    // The good one was quiet for longer than that.
    while begun.elapsed() < limit * 3 {
        good.silent(limit);
    }
    good.data(&[b"still here"]);
    assert_eq!(r.hear(), ("good".to_owned(), b"still here".to_vec()));
    assert_eq!(r.peers().len(), 1);
    assert_eq!(r.event(Disconnected).value, 3);
}

#[test]
fn case_z16_silent_connections_do_not_keep_others_waiting() {
    let r = router_with("R1", |options| options.max_handshakes = 64);
    let at = r.bound();
    let silent: Vec<_> = (0..1000).map(|_| Peer::dial(at)).collect();
    let mut times: Vec<_> = (0..9)
        .map(|number| {
            let begun = Instant::now();
            let mut good = Peer::connect(at, DEALER, numbered(number).as_bytes());
            good.data(&[b"hello"]);
            assert_eq!(r.hear().1, b"hello");
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    // The middle one: this machine has other things to do as well.
    assert!(times[4] < ms(100), "{times:?}");
    drop(silent);
}

#[test]
fn case_z17_a_handshake_may_come_in_any_pieces() {
    let r = router("R1");
    let at = r.bound();
    let bytes = handshake(b"D1", &record(DATA, None, &[b"hi"]));
    let check = |mut peer: Peer| {
        let got = wait(r.recv()).unwrap();
        assert_eq!((got.from.as_bytes(), got.record.parts()), (&b"D1"[..], &["hi".into()][..]));
        peer.data(&[b""]);
        assert_eq!(wait(r.recv()).unwrap().record.parts(), [""]);
        peer.expect_hello();
        assert_eq!(peer.expect_ready(), (1, 0));
        drop(peer);
        r.event(Disconnected);
    };
    let mut whole = Peer::dial(at);
    whole.send(&bytes);
    check(whole);
    let mut single = Peer::dial(at);
    for byte in &bytes {
        single.stream.write_all(&[*byte]).unwrap();
    }
    check(single);
    // Inside of every header and at every edge of a body, the first part on its way alone.
    let ready = 8 + 5;
    let data = ready + 121;
    let cuts =
        [1, 2, 3, 7, 8, 9, ready, ready + 1, ready + 8, ready + 60, data, data + 4, data + 8];
    for cut in cuts {
        let mut peer = Peer::dial(at);
        peer.send(&bytes[..cut]);
        if cut >= ready {
            peer.read_at_least(ready);
        }
        peer.send(&bytes[cut..]);
        check(peer);
    }
}

#[test]
fn case_z19_an_odd_message_breaks_nothing_but_its_connection() {
    let r = router("R1");
    let at = r.bound();
    let mut other = r.accepts(at, DEALER, "other");
    let odd: [(Vec<u8>, u8); 6] = [
        (frame(0, REQUEST, Some(0), b"x"), 8),
        (frame(0, 9, None, b"x"), 7),
        (frame(CONTROL, REQUEST, Some(1), b"x"), 3),
        ([frame(MORE, DATA, None, b"x"), frame(0, REQUEST, Some(1), b"y")].concat(), 9),
        (record(REPLY, Some(1), &[b"x"]), 7),
        (record(ERROR_REPLY, Some(1), &[&[0, 0, 0, 1]]), 7),
    ];
    for (bytes, code) in odd {
        let mut peer = r.accepts(at, DEALER, "D1");
        peer.data(&[b"before"]);
        peer.send(&bytes);
        peer.try_send(&record(DATA, None, &[b"behind"]));
        assert_eq!(peer.end(), [code], "{bytes:x?}");
        r.event(Disconnected);
        // What came before it was right, what came with it or behind it does not exist.
        assert_eq!(r.hear(), ("D1".to_owned(), b"before".to_vec()));
        assert_eq!(r.try_recv().unwrap_err(), NOTHING);
        other.data(&[b"and I?"]);
        assert_eq!(r.hear(), ("other".to_owned(), b"and I?".to_vec()));
    }
    // Looks like something, and is plain DATA.
    let mut good = r.accepts(at, DEALER, "D1");
    let envelope: [&[u8]; 4] = [b"\x01", b"\x01", b"\x01", &7_u64.to_be_bytes()];
    good.data(&envelope);
    let got = wait(r.recv()).unwrap();
    assert!(got.reply.is_none());
    assert_eq!(got.record.parts(), envelope);
    let many: Vec<_> = (0..1000_u16).map(u16::to_be_bytes).collect();
    let many: Vec<&[u8]> = many.iter().map(<[u8; 2]>::as_slice).collect();
    good.data(&many);
    assert_eq!(wait(r.recv()).unwrap().record.parts(), many);
    good.request(5, &[b"ping"]);
    let asked = wait(r.recv()).unwrap();
    wait(asked.reply.unwrap().reply("pong")).unwrap();
    let reply = good.record();
    assert_eq!((reply.kind, reply.sequence, reply.single()), (REPLY, Some(5), &b"pong"[..]));
    other.data(&[b"still here"]);
    assert_eq!(r.hear().1, b"still here");
}

/// A ROUTER in a context that others share.
fn router_in(context: &Context, name: &str) -> Under<lineway::zmp::Router> {
    let mut options = SocketOptions::new(SocketKind::Router, id(name));
    options.linger = Some(Duration::ZERO);
    options.reconnect_interval = ms(50);
    options.receive_timeout = Some(crate::common::PATIENCE);
    Under::new(context.router(options))
}

#[test]
fn case_z21_a_route_follows_the_id_that_a_new_connection_says() {
    let context = Context::new().unwrap();
    let a = router_in(&context, "A");
    let b1 = router_in(&context, "B1");
    let endpoint = format!("tcp://{}", b1.bound());
    wait(a.connect(&endpoint)).unwrap();
    a.event(ConnectionReady);
    wait(a.send(&id("B1"), "to B1")).unwrap();
    assert_eq!(b1.hear(), ("A".to_owned(), b"to B1".to_vec()));
    wait(b1.send(&id("A"), "from B1")).unwrap();
    assert_eq!(a.hear(), ("B1".to_owned(), b"from B1".to_vec()));
    wait(b1.close()).unwrap();
    let b2 = router_in(&context, "B2");
    wait(b2.bind(&endpoint)).unwrap();
    let begun = Instant::now();
    a.event(ConnectionReady);
    // The interval with its random part, and the handshakes of two lanes.
    assert!(begun.elapsed() < ms(1000), "{:?}", begun.elapsed());
    wait(a.send(&id("B2"), "to B2")).unwrap();
    assert_eq!(b2.hear(), ("A".to_owned(), b"to B2".to_vec()));
    let gone = a.try_send(&id("B1"), "to B1", 0).unwrap_err();
    assert_eq!(refusal(&gone), (SubmitResult::NotConnected, Errno::EHOSTUNREACH, false));
    // Taken back and made again at once, a hundred times.
    for number in 0..100 {
        wait(a.disconnect(&endpoint)).unwrap();
        wait(a.connect(&endpoint)).unwrap();
        a.event(ConnectionReady);
        let to = id("B2");
        let asks = a.request(&to, numbered(number), None);
        let answers = async {
            let asked = b2.recv().await.unwrap();
            asked.reply.unwrap().reply(asked.record).await
        };
        let (answer, answered) = wait(async { tokio::join!(asks, answers) });
        assert_eq!(answer.unwrap().parts(), [numbered(number)]);
        answered.unwrap();
    }
    until("nothing is left of them", || b2.peers().len() == 1 && a.peers().len() == 1);
}

#[test]
fn case_z25_a_limit_of_one_is_for_records_only() {
    let small = |options: &mut SocketOptions| {
        (options.core.send_hwm, options.core.receive_hwm) = (1, 1);
    };
    for endpoint in ["tcp://127.0.0.1:*", "ipc://*", "inproc://one"] {
        let context = Context::new().unwrap();
        let mut options = SocketOptions::new(SocketKind::Router, id("R1"));
        small(&mut options);
        let r = Under::new(context.router(options));
        let mut options = SocketOptions::new(SocketKind::Dealer, id("D1"));
        small(&mut options);
        let d = Under::new(context.dealer(options));
        let at = wait(r.bind(endpoint)).unwrap();
        let begun = Instant::now();
        wait(d.connect(&at)).unwrap();
        d.event(ConnectionReady);
        assert!(begun.elapsed() < ms(1000), "{:?}", begun.elapsed());
        for question in [&["one"][..], &["one", "", "three"]] {
            wait(async {
                for _ in 0..100 {
                    let asks = d.request(parts(question), None);
                    let answers = async {
                        let asked = r.recv().await.unwrap();
                        asked.reply.unwrap().reply(asked.record).await
                    };
                    let (answer, answered) = tokio::join!(asks, answers);
                    assert_eq!(answer.unwrap().parts(), question);
                    answered.unwrap();
                }
            });
        }
    }
    // The second record that nobody reads waits outside.
    let d = dealer_with("D1", small);
    let mut far = d.peer_at(listen_small(), ROUTER, "R1");
    far.send(&[record(DATA, None, &[b"one"]), record(DATA, None, &[b"two", b"parts"])].concat());
    far.send(&crate::raw::weight(5));
    until("the first is there", || d.readiness().input);
    far.silent(ms(50));
    assert_eq!(d.status().receive.pending_msgs, 1);
    assert_eq!(d.events(lineway::zmp::monitor::EventKind::PeerWeightChanged), 0);
    assert_eq!(d.hear(), b"one");
    assert_eq!(wait(d.recv()).unwrap().parts(), ["two", "parts"]);
    // What stands behind them in the stream comes once they are taken (1.4).
    assert_eq!(d.event(lineway::zmp::monitor::EventKind::PeerWeightChanged).value, 5);
    // And the second one that can not be written is refused.
    wait(d.send(vec![1; HUGE])).unwrap();
    assert_eq!(refusal(&d.try_send("second", 0).unwrap_err()), BLOCKED);
    assert_eq!(far.record().single().len(), HUGE);
    wait(d.send("second")).unwrap();
    assert_eq!(far.record().single(), b"second");
}
