//! Requests and completions: items 25 to 31.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use lineway::zmp::monitor::EventKind::{ConnectionReady, Disconnected};
use lineway::zmp::{
    Completion, Errno, FlowState, Outcome, Readiness, RequestError, RequestResult, SubmitResult,
};

use crate::common::until;
use crate::kit::{BLOCKED, NOTHING, begin, dealer, dealer_with, level, ms, parts, refusal, wait};
use crate::raw::{DEALER, ERROR_REPLY, Peer, REQUEST, ROUTER, Record, record};

/// How a request ended.
#[track_caller]
fn result(completion: &Completion) -> (RequestResult, Errno) {
    match completion.outcome {
        Outcome::Request { result, errno, .. } => (result, errno),
        _ => panic!("{completion:?}"),
    }
}

const TIMED_OUT: (RequestResult, Errno) = (RequestResult::TimedOut, Errno::ETIMEDOUT);
const NOT_CONNECTED: (RequestResult, Errno) = (RequestResult::NotConnected, Errno::EHOSTUNREACH);

#[test]
fn item_25_every_request_that_was_taken_completes_once() {
    const REQUESTS: u64 = 300;
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    let mut expected = HashMap::new();
    let mut ids = HashSet::new();
    for number in 0..REQUESTS {
        // Every third one is answered, with an error, or not at all.
        let timeout = if number % 3 == 2 { ms(50) } else { ms(60_000) };
        let id = d.try_request(format!("{number}"), Some(timeout), number).unwrap();
        assert!(ids.insert(id), "{id:?} twice");
        expected.insert(number, id);
        let asked = far.record();
        assert_eq!((asked.kind, asked.sequence), (REQUEST, Some(number + 1)));
        match number % 3 {
            0 => far.reply(number + 1, &[b"yes", asked.single()]),
            1 => far.send(&record(ERROR_REPLY, asked.sequence, &[&16_u32.to_be_bytes(), b"no"])),
            _ => {}
        }
    }
    // Twice the same, and one that nobody asked for, are late (1.6).
    far.reply(1, &[b"again"]);
    far.reply(1000, &[b"unasked"]);
    for _ in 0..REQUESTS {
        let completion = wait(d.next_completion()).unwrap();
        let number = completion.context;
        assert_eq!(expected.remove(&number), Some(completion.id));
        assert_eq!(completion.peer, None);
        let Outcome::Request { result, errno, parts } = completion.outcome else { panic!() };
        let parts = parts.map(|record| record.into_parts().into_vec());
        let (want, has) = match number % 3 {
            0 => {
                let parts = vec!["yes".into(), number.to_string().into()];
                ((RequestResult::Ok, Errno(0)), Some(parts))
            }
            1 => ((RequestResult::Busy, Errno::EBUSY), Some(vec!["no".into()])),
            _ => (TIMED_OUT, None),
        };
        assert_eq!((result, errno), want, "{number}");
        assert_eq!(parts, has, "{number}");
    }
    d.barrier(&mut far);
    d.has_nothing();
    assert_eq!(d.counters().replies_late, 2);

    // Errors that are none (1.6), and an end of the connection.
    let bodies: [&[&[u8]]; 3] = [&[&[0; 4], b"x"], &[&[0, 0, 2]], &[b""]];
    for body in bodies {
        let id = d.try_request("?", None, 7).unwrap();
        let asked = far.record();
        far.send(&record(ERROR_REPLY, asked.sequence, body));
        let completion = wait(d.next_completion()).unwrap();
        assert_eq!((completion.id, completion.context), (id, 7));
        let Outcome::Request { result, errno, parts } = completion.outcome else { panic!() };
        assert_eq!((result, errno, parts), (RequestResult::ProtocolError, Errno::EPROTO, None));
    }
    let id = d.try_request("?", None, 8).unwrap();
    far.leave(&d);
    let completion = wait(d.next_completion()).unwrap();
    assert_eq!((completion.id, result(&completion)), (id, NOT_CONNECTED));
    d.has_nothing();
}

#[test]
fn item_25_a_removed_endpoint_ends_its_requests() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    let id = d.try_request("?", None, 5).unwrap();
    far.record();
    far.pauses(&d, 1);
    let token = d.try_send("?", 6).unwrap_err().token().unwrap();
    wait(d.disconnect(&far.endpoint)).unwrap();
    let mut got = [(); 2].map(|()| wait(d.next_completion()).unwrap());
    got.sort_by_key(|completion| completion.context);
    assert_eq!((got[0].id, result(&got[0])), (id, (RequestResult::NotFound, Errno::ENOENT)));
    // A DEALER's token waits for whoever comes (D-W1); only its last target takes it along (D-W6).
    assert_eq!((got[1].id, &got[1].outcome), (token, &Outcome::Removed));
    assert_eq!(far.end(), b"");
    assert_eq!(wait(d.disconnect(&far.endpoint)).unwrap_err().errno, Errno::ENOENT);
}

/// How a request ended that was not sent, and how long it took.
fn refused(d: &crate::kit::Under<lineway::zmp::Dealer>) -> ((SubmitResult, Errno, bool), Duration) {
    let begun = Instant::now();
    match wait(d.request("question", None)).unwrap_err() {
        RequestError::NotSent(error) => (refusal(&error), begun.elapsed()),
        RequestError::Failed { .. } => panic!("it was sent"),
    }
}

#[test]
fn item_26_a_waiting_request_ends_for_the_right_reason() {
    let d = dealer_with("D1", |options| options.send_timeout = Some(ms(150)));
    let nobody = (SubmitResult::NotConnected, Errno::ENOTCONN, false);
    let (why, took) = refused(&d);
    assert_eq!(why, nobody);
    assert!((ms(150)..ms(1500)).contains(&took), "{took:?}");
    // A DEALER is nobody to ask.
    let mut a = d.peer(DEALER, "A");
    assert_eq!(refused(&d).0, nobody);
    // Nor is a ROUTER of weight 0, which is there.
    let mut b = d.peer(ROUTER, "B");
    b.weighs(&d, 0);
    let (why, _) = refused(&d);
    assert_eq!(why, (SubmitResult::NotAdmitted, Errno::ECONNREFUSED, false));
    // One that takes nothing.
    b.weighs(&d, 1);
    b.pauses(&d, 1);
    assert_eq!(refused(&d).0, (SubmitResult::Backpressured, Errno::EAGAIN, false));
    d.has_nothing();
    // Whoever waits gets the one that comes, its handshake included.
    d.set_send_timeout(None).unwrap();
    wait(d.disconnect(&b.endpoint)).unwrap();
    until("B is gone", || d.peers().len() == 1);
    let asks = begin({
        let dealer = d.socket.clone();
        async move { dealer.request("question", None).await }
    });
    let mut c = d.peer(ROUTER, "C");
    let asked = c.record();
    c.reply(asked.sequence.unwrap(), &[b"answer"]);
    assert_eq!(asks.join().unwrap().unwrap().parts(), ["answer"]);
    d.barrier(&mut a);
}

#[test]
fn item_26_a_waiting_request_stays_with_its_endpoint() {
    let d = dealer_with("D1", |options| options.send_timeout = None);
    let (mut a, mut b) = (d.peer(ROUTER, "A"), d.peer(ROUTER, "B"));
    a.pauses(&d, 1);
    b.pauses(&d, 1);
    let asks = begin({
        let dealer = d.socket.clone();
        async move { dealer.request("question", None).await }
    });
    // A was chosen: it stays so while B could take it, and while A is away.
    a.leave(&d);
    b.resumes(&d, 2);
    d.say("for B");
    assert_eq!(b.record().single(), b"for B");
    a.back(&d);
    let asked = a.record();
    assert_eq!((asked.kind, asked.single()), (REQUEST, &b"question"[..]));
    a.reply(asked.sequence.unwrap(), &[b"answer"]);
    assert_eq!(asks.join().unwrap().unwrap().parts(), ["answer"]);
    d.say("for A or B");

    // Its endpoint is removed: that ends it (D-N6).
    let d = dealer_with("D2", |options| options.send_timeout = None);
    let (mut a, mut b) = (d.peer(ROUTER, "A"), d.peer(ROUTER, "B"));
    a.pauses(&d, 1);
    b.pauses(&d, 1);
    let asks = begin({
        let dealer = d.socket.clone();
        async move { dealer.request("question", None).await }
    });
    wait(d.disconnect(&a.endpoint)).unwrap();
    match asks.join().unwrap().unwrap_err() {
        RequestError::NotSent(error) => {
            assert_eq!(refusal(&error), (SubmitResult::NotFound, Errno::ENOENT, false));
        }
        other @ RequestError::Failed { .. } => panic!("{other}"),
    }
    b.resumes(&d, 2);
    d.barrier(&mut b);
    d.has_nothing();
}

#[test]
fn item_27_dontwait_tries_once_and_keeps_no_payload() {
    let d = dealer("D1");
    let mut a = d.peer(ROUTER, "A");
    let mut b = d.peer(ROUTER, "B");
    let mut c = d.peer(DEALER, "C");
    c.weighs(&d, 0);
    a.pauses(&d, 1);
    b.pauses(&d, 1);
    let refused = d.try_request(parts(&["que", "stion"]), None, 21).unwrap_err();
    assert_eq!(refusal(&refused), BLOCKED);
    // One that can only be sent to is no reason to ask again.
    c.weighs(&d, 1);
    d.say("to C");
    assert_eq!(c.record().single(), b"to C");
    d.has_nothing();
    b.resumes(&d, 2);
    let writable = wait(d.next_completion()).unwrap();
    assert_eq!((Some(writable.id), writable.context), (refused.token(), 21));
    assert_eq!(writable.outcome, Outcome::Writable);
    // Nothing was sent by itself.
    c.weighs(&d, 0);
    d.say("first at B");
    assert_eq!(b.record().single(), b"first at B");
    // Chosen again: by then B is the one that takes nothing.
    b.pauses(&d, 3);
    a.resumes(&d, 2);
    let id = d.try_request(refused.into_record(), None, 22).unwrap();
    let asked = a.record();
    assert_eq!(asked.parts, [b"que".to_vec(), b"stion".to_vec()]);
    a.reply(asked.sequence.unwrap(), &[b"answer"]);
    let completion = wait(d.next_completion()).unwrap();
    assert_eq!((completion.id, completion.context), (id, 22));
    d.has_nothing();
}

#[test]
fn item_28_the_time_of_a_request_begins_when_it_is_taken() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    far.pauses(&d, 1);
    let refused = d.try_request("question", Some(ms(150)), 1).unwrap_err();
    // Longer than its timeout, which did not begin.
    d.set_receive_timeout(Some(ms(200))).unwrap();
    assert_eq!(wait(d.next_completion()), Err(NOTHING));
    d.set_receive_timeout(Some(crate::common::PATIENCE)).unwrap();
    far.resumes(&d, 2);
    assert_eq!(wait(d.next_completion()).unwrap().outcome, Outcome::Writable);
    let begun = Instant::now();
    let id = d.try_request(refused.into_record(), Some(ms(150)), 2).unwrap();
    let completion = wait(d.next_completion()).unwrap();
    let took = begun.elapsed();
    assert_eq!((completion.id, result(&completion)), (id, TIMED_OUT));
    assert!((ms(150)..ms(1500)).contains(&took), "{took:?}");
    far.record();

    // The link is lost: at once, and nothing is asked again.
    let begun = Instant::now();
    let ids = [3, 4, 5].map(|context| d.try_request("lost", Some(ms(60_000)), context).unwrap());
    far.leave(&d);
    for id in ids {
        let completion = wait(d.next_completion()).unwrap();
        assert_eq!((completion.id, result(&completion)), (id, NOT_CONNECTED));
    }
    assert!(begun.elapsed() < ms(5000));
    far.back(&d);
    d.say("first on the new one");
    assert_eq!(far.record().single(), b"first on the new one");
    // Nor is it answered through another connection (D-R3): sequences of before mean nothing.
    far.reply(2, &[b"late"]);
    far.reply(3, &[b"late"]);
    d.barrier(&mut far);
    d.has_nothing();
    assert_eq!(d.counters().replies_late, 2);
}

#[test]
fn item_29_reservations_that_are_full() {
    const FULL: (SubmitResult, Errno, bool) = (SubmitResult::Backpressured, Errno::EAGAIN, false);
    let d = dealer_with("D1", |options| {
        assert_eq!(options.core.reservations, 65_536);
        options.core.reservations = 4;
        options.send_timeout = Some(ms(50));
    });
    let mut far = d.peer(ROUTER, "R1");
    let asked: Vec<Record> = (0..3)
        .map(|context| {
            d.try_request("question", None, context).unwrap();
            far.record()
        })
        .collect();
    far.pauses(&d, 1);
    // Three requests and one token.
    let token = d.try_send("data", 3).unwrap_err();
    assert_eq!(refusal(&token), BLOCKED);
    for _ in 0..2 {
        assert_eq!(refusal(&d.try_request("one more", None, 9).unwrap_err()), FULL);
        match wait(d.request("one more", None)).unwrap_err() {
            RequestError::NotSent(error) => assert_eq!(refusal(&error), FULL),
            other @ RequestError::Failed { .. } => panic!("{other}"),
        }
        let error = d.try_send("one more", 9).unwrap_err();
        assert_eq!(refusal(&error), (SubmitResult::OutOfMemory, Errno::ENOMEM, false));
        assert_eq!((error.number(), error.errno().0), (10, 12));
    }
    // A completion holds its place until it is pulled.
    far.reply(asked[1].sequence.unwrap(), &[b"answer"]);
    d.barrier(&mut far);
    assert_eq!(refusal(&d.try_request("one more", None, 9).unwrap_err()), FULL);
    assert_eq!(wait(d.next_completion()).unwrap().context, 1);
    let second = d.try_request("one more", None, 9).unwrap_err();
    assert_eq!(refusal(&second), BLOCKED);
    assert_ne!(second.token(), token.token());
    // What needs no place is sent as before.
    far.resumes(&d, 2);
    d.try_send("data", 0).unwrap();
    assert_eq!(far.record().single(), b"data");
}

#[test]
fn item_30_a_reply_waits_behind_data_that_was_not_taken() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    let completion = Readiness { completion: true, ..Readiness::default() };
    let input = Readiness { input: true, ..Readiness::default() };
    let mut arrived = d.poller(input).unwrap();
    let id = d.try_request("question", None, 31).unwrap();
    let asked = far.record();
    let data = record(crate::raw::DATA, None, &[b"mul", b"ti", b"part"]);
    let reply = record(crate::raw::REPLY, asked.sequence, &[b"ans", b"wer"]);
    // In one write, so that both are there when the first is.
    far.send(&[data.clone(), reply, data].concat());
    assert_eq!(level(&mut arrived), input);
    until("all of it is there", || d.status().receive.pending_msgs == 3);
    assert!(!d.readiness().completion);
    assert_eq!(d.try_completion(), Err(NOTHING));
    assert_eq!(wait(d.recv()).unwrap().parts(), ["mul", "ti", "part"]);
    let mut complete = d.poller(completion).unwrap();
    assert_eq!(level(&mut complete), completion);
    let got = d.try_completion().unwrap();
    assert_eq!((got.id, got.context), (id, 31));
    let Outcome::Request { result: RequestResult::Ok, parts: Some(answer), .. } = got.outcome
    else {
        panic!()
    };
    assert_eq!(answer.parts(), ["ans", "wer"]);
    assert!(!d.readiness().completion);
    assert_eq!(wait(d.recv()).unwrap().parts().len(), 3);
    d.has_nothing();
}

#[test]
fn item_31_a_reply_that_comes_too_late_completes_nothing() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    // Behind DATA that nobody takes while its time runs out.
    d.try_request("question", Some(ms(100)), 1).unwrap();
    let asked = far.record();
    far.data(&[b"in front"]);
    far.reply(asked.sequence.unwrap(), &[b"behind"]);
    until("both are there", || d.status().receive.pending_msgs == 2);
    let completion = wait(d.next_completion()).unwrap();
    assert_eq!((completion.context, result(&completion)), (1, TIMED_OUT));
    assert_eq!(d.hear(), b"in front");
    d.barrier(&mut far);
    d.has_nothing();
    assert_eq!(d.counters().replies_late, 1);

    // Held back by a ROUTER that was asked to pause, replies included.
    d.set_receive_flow_state(FlowState::Paused).unwrap();
    d.try_request("question", Some(ms(100)), 2).unwrap();
    let asked = far.record();
    assert_eq!(far.controls.len(), 1);
    let completion = wait(d.next_completion()).unwrap();
    assert_eq!((completion.context, result(&completion)), (2, TIMED_OUT));
    d.set_receive_flow_state(FlowState::Running).unwrap();
    far.control();
    far.reply(asked.sequence.unwrap(), &[b"late"]);
    d.barrier(&mut far);
    d.has_nothing();
    assert_eq!(d.counters().replies_late, 2);
    assert_eq!(d.counters().completions.total(), 2);
}

#[test]
fn requests_of_many_threads_are_answered_each_with_its_own() {
    let d = dealer("D1");
    let at = d.bound();
    let mut peer = Peer::connect(at, ROUTER, b"R1");
    d.event(ConnectionReady);
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let dealer = d.socket.clone();
            std::thread::spawn(move || {
                for number in 0..50 {
                    let text = format!("{thread}:{number}");
                    let record = parts(&[&text, "tail"]);
                    let reply = wait(dealer.request(record, None)).unwrap();
                    assert_eq!(reply.parts(), [text.as_bytes(), b"tail"]);
                }
            })
        })
        .collect();
    for _ in 0..200 {
        let asked = peer.record();
        let parts: Vec<_> = asked.parts.iter().map(Vec::as_slice).collect();
        peer.reply(asked.sequence.unwrap(), &parts);
    }
    for thread in threads {
        thread.join().unwrap();
    }
    drop(peer);
    d.event(Disconnected);
}
