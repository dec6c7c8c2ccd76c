//! Receiving: items 32 to 36.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lineway::zmp::monitor::EventKind::Disconnected;
use lineway::zmp::{Errno, Outcome, RecvError, RecvResult};

use crate::common::PATIENCE;
use crate::kit::{NOTHING, begin, dealer, is_pending, ms, router, wait};
use crate::raw::{DATA, DEALER, ERROR_REPLY, ROUTER, flow_state, record, weight};

#[test]
fn item_32_without_data_a_receive_that_does_not_wait_says_so() {
    let (d, r) = (dealer("D1"), router("R1"));
    for _ in 0..2 {
        assert_eq!(d.try_recv(), Err(NOTHING));
        assert_eq!(r.try_recv().unwrap_err(), NOTHING);
    }
    assert_eq!((NOTHING.result.number(), NOTHING.errno.0), (201, 11));
    let mut far = d.peer(ROUTER, "R2");
    assert_eq!(d.try_recv(), Err(NOTHING));
    // Half of a record is none.
    far.send(&record(DATA, None, &[b"one", b"two"])[..12]);
    assert_eq!(d.try_recv(), Err(NOTHING));
    far.send(&record(DATA, None, &[b"one", b"two"])[12..]);
    assert_eq!(wait(d.recv()).unwrap().parts(), ["one", "two"]);
    assert_eq!(d.try_recv(), Err(NOTHING));
}

#[test]
fn item_33_too_few_slots_leave_the_record_where_it_is() {
    let (d, r) = (dealer("D1"), router("R1"));
    let mut far = d.peer(ROUTER, "R2");
    far.data(&[b"1", b"2", b"3"]);
    far.data(&[b"next"]);
    for capacity in [0, 1, 2] {
        let mut slots = vec![Bytes::new(); capacity];
        let error = wait(d.recv_into(&mut slots)).unwrap_err();
        assert_eq!((error.number(), error.errno().0, error.needed), (207, 105, Some(3)));
        assert!(d.readiness().input);
    }
    let mut slots = [(); 3].map(|()| Bytes::new());
    assert_eq!(wait(d.recv_into(&mut slots)).unwrap(), 3);
    assert_eq!(slots, ["1", "2", "3"]);
    assert_eq!(d.hear(), b"next");

    // A ROUTER as well, and the request keeps its reply.
    let mut far = r.peer(DEALER, "D2");
    far.request(5, &[b"1", b"2"]);
    let mut slots = [Bytes::new()];
    let error = wait(r.recv_into(&mut slots)).unwrap_err();
    assert_eq!((error.error.result, error.needed), (RecvResult::BufferTooSmall, Some(2)));
    let mut slots = [(); 4].map(|()| Bytes::from_static(b"-"));
    let (from, count, reply) = wait(r.recv_into(&mut slots)).unwrap();
    assert_eq!((from.as_bytes(), count), (&b"D2"[..], 2));
    assert_eq!(slots, ["1", "2", "-", "-"]);
    wait(reply.unwrap().reply("3")).unwrap();
    let reply = far.record();
    assert_eq!((reply.sequence, reply.single()), (Some(5), &b"3"[..]));
}

#[test]
fn item_34_a_record_is_received_whole_and_in_order() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R2");
    let many: Vec<Vec<u8>> =
        (0..1000_u32).map(|n| n.to_be_bytes().repeat(n as usize % 5)).collect();
    let many: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
    let large = vec![3; 1 << 20];
    far.data(&many);
    // Part by part, with a pause of the sender inside of it.
    let bytes = record(DATA, None, &[b"first", &large, b"", b"last"]);
    far.send(&bytes[..bytes.len() - 4]);
    assert_eq!(wait(d.recv()).unwrap().parts(), many);
    assert_eq!(d.try_recv(), Err(NOTHING));
    far.send(&bytes[bytes.len() - 4..]);
    assert_eq!(wait(d.recv()).unwrap().parts(), [&b"first"[..], &large, b"", b"last"]);

    // Peers have their turns, one record each (D-V1).
    let (mut a, mut b) = (d.peer(DEALER, "A"), d.peer(DEALER, "B"));
    for number in 0..10_u8 {
        a.data(&[b"a", &[number]]);
        b.data(&[b"b", &[number]]);
    }
    crate::common::until("all of it is there", || d.status().receive.pending_msgs == 20);
    let mut next = [0_u8; 2];
    for turn in 0..20 {
        let got = wait(d.recv()).unwrap();
        let of = usize::from(got.parts()[0] == "b");
        assert_eq!(got.parts()[1], [next[of]][..]);
        next[of] += 1;
        assert!(next[0].abs_diff(next[1]) <= 1, "turn {turn}: {next:?}");
    }
}

#[test]
fn item_35_nothing_but_data_is_received() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R2");
    d.try_request("question", None, 1).unwrap();
    d.try_request("question", None, 2).unwrap();
    let asked = [far.record().sequence, far.record().sequence];
    far.reply(asked[0].unwrap(), &[b"answer"]);
    far.send(&record(ERROR_REPLY, asked[1], &[&2_u32.to_be_bytes()]));
    far.reply(77, &[b"unasked"]);
    far.send(&[weight(5), flow_state(true, 1), flow_state(false, 2)].concat());
    // A record has no sender for a DEALER: `recv` gives the record alone.
    far.data(&[b"data"]);
    assert_eq!(d.hear(), b"data");
    assert_eq!(d.try_recv(), Err(NOTHING));
    for _ in 0..2 {
        let completion = wait(d.next_completion()).unwrap();
        assert_eq!(completion.peer, None);
        assert!(matches!(completion.outcome, Outcome::Request { .. }));
    }
    d.has_nothing();
    // A REQUEST ends the connection of whoever sends one to a DEALER.
    far.data(&[b"before"]);
    far.request(1, &[b"question"]);
    assert_eq!(d.hear(), b"before");
    assert_eq!(far.end(), [0x7f]);
    d.event(Disconnected);
    d.has_nothing();
}

#[test]
fn item_36_the_timeout_is_that_of_the_beginning() {
    let d = dealer("D1");
    let slot = Bytes::from_static(b"slot");
    d.set_receive_timeout(Some(ms(150))).unwrap();
    let begun = Instant::now();
    let mut slots = [slot.clone()];
    let dealer = d.socket.clone();
    let mut waits = Box::pin(async move {
        let got = dealer.recv_into(&mut slots).await;
        (got, slots)
    });
    assert!(is_pending(&mut waits));
    d.set_receive_timeout(None).unwrap();
    let (got, slots) = wait(waits);
    assert_eq!((got.unwrap_err().error, slots), (NOTHING, [slot.clone()]));
    let took = begun.elapsed();
    assert!((ms(150)..ms(1500)).contains(&took), "{took:?}");
    // For ever means until there is something.
    let receives = begin({
        let dealer = d.socket.clone();
        async move { dealer.recv().await }
    });
    d.set_receive_timeout(Some(Duration::ZERO)).unwrap();
    assert_eq!(wait(d.recv()), Err(NOTHING));
    let mut far = d.peer(ROUTER, "R1");
    far.data(&[b"something"]);
    assert_eq!(receives.join().unwrap().unwrap().parts(), ["something"]);

    // The end of the socket, while somebody waits and afterwards.
    d.set_receive_timeout(Some(PATIENCE)).unwrap();
    let receives = begin({
        let dealer = d.socket.clone();
        let mut slots = [slot.clone()];
        async move { (dealer.recv_into(&mut slots).await, slots) }
    });
    let completes = begin({
        let dealer = d.socket.clone();
        async move { dealer.next_completion().await }
    });
    wait(d.close()).unwrap();
    let closed = RecvError::new(RecvResult::InvalidState, Errno::ESHUTDOWN);
    let (got, slots) = receives.join().unwrap();
    assert_eq!((got.unwrap_err().error, slots), (closed, [slot]));
    assert_eq!(completes.join().unwrap(), Err(closed));
    assert_eq!(d.try_recv(), Err(closed));
    assert_eq!(wait(d.recv()), Err(closed));
    assert_eq!((closed.result.number(), closed.errno.0), (208, 108));
}
