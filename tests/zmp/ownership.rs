//! Who has a record: items 21 to 24.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use bytes::Bytes;
use lineway::zmp::{Dealer, Errno, Record, RecvResult, SubmitResult};

use crate::common::until;
use crate::kit::{
    BLOCKED, HUGE, NOTHING, Under, begin, dealer, dealer_with, listen_small, ms, parts, refusal,
    wait,
};
use crate::raw::{DEALER, ROUTER};

/// Payloads that are alive.
#[derive(Clone, Default)]
struct Alive(Arc<AtomicUsize>);

struct Owned(Vec<u8>, Alive);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.1.0.fetch_sub(1, SeqCst);
    }
}

impl Alive {
    /// A record of one part, of so many bytes.
    fn record(&self, length: usize) -> Record {
        self.0.fetch_add(1, SeqCst);
        Record::new(Bytes::from_owner(Owned(vec![5; length], self.clone())))
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

#[test]
fn item_21_every_call_takes_the_record_and_gives_it_back_only_in_an_error() {
    let alive = Alive::default();
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    // Taken: it is gone once it is written, whichever size.
    for length in [0, 1, 1000, 100_000] {
        wait(d.send(alive.record(length))).unwrap();
        assert_eq!(far.record().single().len(), length);
        d.try_send(alive.record(length), 0).unwrap();
        assert_eq!(far.record().single().len(), length);
        d.try_request(alive.record(length), Some(ms(60_000)), 0).unwrap();
        assert_eq!(far.record().single().len(), length);
    }
    until("nothing is kept", || alive.count() == 0);

    // Not taken: it comes back, whole and once.
    far.pauses(&d, 1);
    d.set_send_timeout(Some(ms(20))).unwrap();
    let check = |error: lineway::zmp::SendError| {
        assert_eq!(alive.count(), 1);
        assert_eq!(error.record().parts()[0], [5; 7][..]);
        drop(error.into_record());
        assert_eq!(alive.count(), 0);
    };
    check(d.try_send(alive.record(7), 0).unwrap_err());
    check(d.try_request(alive.record(7), None, 0).unwrap_err());
    check(wait(d.send(alive.record(7))).unwrap_err());
    match wait(d.request(alive.record(7), None)).unwrap_err() {
        lineway::zmp::RequestError::NotSent(error) => check(error),
        other @ lineway::zmp::RequestError::Failed { .. } => panic!("{other}"),
    }
    d.set_max_message_size(4).unwrap();
    check(d.try_send(alive.record(7), 0).unwrap_err());
    d.set_max_message_size(0).unwrap();
    // A call that is given up leaves nothing.
    d.set_send_timeout(None).unwrap();
    let mut given_up = Box::pin(d.send(alive.record(7)));
    assert!(crate::kit::is_pending(&mut given_up));
    drop(given_up);
    assert_eq!(alive.count(), 0);
    let waits = begin({
        let (dealer, record) = (d.socket.clone(), alive.record(7));
        async move { dealer.send(record).await }
    });
    wait(d.close()).unwrap();
    let closed = waits.join().unwrap().unwrap_err();
    assert_eq!(refusal(&closed), (SubmitResult::Terminated, Errno::ESHUTDOWN, false));
    check(closed);
    check(d.try_send(alive.record(7), 0).unwrap_err());
}

#[test]
fn item_21_what_waits_in_a_queue_goes_with_its_peer() {
    let alive = Alive::default();
    let d = dealer("D1");
    let mut far = d.peer_at(listen_small(), DEALER, "A");
    d.try_send(alive.record(HUGE), 0).unwrap();
    assert_eq!(alive.count(), 1);
    assert_eq!(refusal(&d.try_send("behind it", 0).unwrap_err()), BLOCKED);
    far.leave(&d);
    until("nothing is kept", || alive.count() == 0);
    assert_eq!(d.status().send.pending_bytes, 0);
}

/// Sends that fail, of every sort, and none of them seen by the peer.
fn failures(d: &Under<Dealer>) {
    for _ in 0..3 {
        d.try_send(parts(&["never", "sent"]), 0).unwrap_err();
        d.try_request("never asked", None, 0).unwrap_err();
        wait(d.send("never sent")).unwrap_err();
        wait(d.request("never asked", None)).unwrap_err();
    }
}

#[test]
fn item_22_a_submit_that_failed_shows_the_peer_nothing() {
    let d = dealer_with("D1", |options| options.send_timeout = Some(ms(10)));
    let mut far = d.peer(ROUTER, "R1");
    far.pauses(&d, 1);
    failures(&d);
    far.resumes(&d, 2);
    d.set_max_message_size(2).unwrap();
    failures(&d);
    d.set_max_message_size(0).unwrap();
    // The caller's copy goes out once, and is all that ever did.
    let before = far.seen.len();
    let copy = parts(&["sent", "now"]);
    d.try_send(copy.clone(), 0).unwrap();
    assert_eq!(far.record().parts, [b"sent".to_vec(), b"now".to_vec()]);
    assert_eq!(far.seen.len() - before, 2 * 8 + 7);
    // The first sequence on the wire is that of the first request that was taken.
    d.try_request("asked", None, 0).unwrap();
    let asked = far.record();
    assert_eq!((asked.sequence, asked.single()), (Some(1), &b"asked"[..]));
    assert_eq!(far.controls, []);
}

#[test]
fn item_23_a_request_that_failed_completes_nothing() {
    let d = dealer_with("D1", |options| {
        options.send_timeout = Some(ms(10));
        options.core.max_message_size = 8;
    });
    let mut far = d.peer(ROUTER, "R1");
    let error = d.try_request("larger than that", None, 99).unwrap_err();
    let too_large = (SubmitResult::InvalidArgument, Errno::EMSGSIZE, false);
    assert_eq!((refusal(&error), error.number(), error.errno().0), (too_large, 6, 90));
    far.pauses(&d, 1);
    let error = wait(d.request("late", None)).unwrap_err();
    assert_eq!((error.number(), error.errno()), (1, Errno::EAGAIN));
    d.barrier(&mut far);
    d.has_nothing();
    far.resumes(&d, 2);
    d.barrier(&mut far);
    d.has_nothing();
    assert_eq!(d.counters().completions.total(), 0);
    assert_eq!(d.counters().tokens_issued, 0);
}

#[test]
fn item_24_receive_moves_all_parts_or_none() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    far.data(&[b"one", b"", b"three"]);
    let slot = Bytes::from_static(b"slot");
    let mut slots = [(); 5].map(|()| slot.clone());
    let error = wait(d.recv_into(&mut slots[..2])).unwrap_err();
    assert_eq!((error.error.result, error.needed), (RecvResult::BufferTooSmall, Some(3)));
    assert_eq!(slots, ["slot"; 5]);
    assert_eq!(wait(d.recv_into(&mut slots)).unwrap(), 3);
    assert_eq!(slots, ["one", "", "three", "slot", "slot"]);
    // Nothing: nothing moves.
    d.set_receive_timeout(Some(ms(10))).unwrap();
    assert_eq!(wait(d.recv_into(&mut slots)).unwrap_err().error, NOTHING);
    assert_eq!(slots, ["one", "", "three", "slot", "slot"]);
    let status = d.status();
    assert_eq!((status.receive.pending_msgs, status.receive.pending_bytes), (0, 0));

    // What was received is the application's alone: the socket keeps no share of it.
    far.data(&[&vec![7; 300_000]]);
    let record = wait(d.recv()).unwrap();
    let [part] = record.into_parts().into_inner().unwrap();
    assert_eq!(part.len(), 300_000);
    until("nobody else has it", || part.is_unique());
}
