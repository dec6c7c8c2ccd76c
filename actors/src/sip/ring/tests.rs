//! Rings: order, limits, who is woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use bytes::Bytes;
use lineway_wire::sip::own::{Received, SocketId, Transport};

use super::{Arrival, Ring, RingLimits, Rings, RoomWait, WOKEN};

fn arrival(bytes: Vec<u8>) -> Arrival {
    let source = ([192, 0, 2, 1], 5060).into();
    let socket = SocketId(0);
    let received = Received { source, socket, transport: Transport::Udp, connection: None };
    Arrival { bytes: Bytes::from(bytes), received, at: Instant::now() }
}

fn batch(sizes: &[usize]) -> Vec<Arrival> {
    sizes.iter().map(|size| arrival(vec![b'x'; *size])).collect()
}

fn sizes(batch: &[Arrival]) -> Vec<usize> {
    batch.iter().map(|arrival| arrival.bytes.len()).collect()
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn counted() -> (Arc<Count>, Waker) {
    let count = Arc::<Count>::default();
    (Arc::clone(&count), Waker::from(count))
}

fn take(ring: &Ring, most: usize) -> Option<Vec<Arrival>> {
    let mut taken = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    ring.poll_take(&mut taken, most, &mut cx).is_ready().then_some(taken)
}

#[test]
fn what_is_pushed_is_taken_in_order() {
    let ring = Ring::new(RingLimits::default());
    ring.push(&mut batch(&[1, 2, 3]));
    ring.push(&mut batch(&[4]));
    assert_eq!(sizes(&take(&ring, 3).unwrap()), [1, 2, 3]);
    assert_eq!(sizes(&take(&ring, 3).unwrap()), [4]);
    assert!(take(&ring, 3).is_none());
}

#[test]
fn room_is_limited_in_bytes_and_number_until_it_was_handled() {
    let ring = Ring::new(RingLimits { bytes: 100, count: 3 });
    let mut over = batch(&[40, 40, 40]);
    ring.push(&mut over);
    assert_eq!(sizes(&over), [40], "100 bytes");
    let mut over = batch(&[1, 1]);
    ring.push(&mut over);
    assert_eq!(sizes(&over), [1], "3 messages");
    take(&ring, 3).unwrap();
    ring.push(&mut over);
    assert_eq!(over.len(), 1, "taken is not handled");
    ring.handled(81, 3);
    ring.push(&mut over);
    assert!(over.is_empty());
    assert_eq!(ring.load(), (1, 1));
}

#[test]
fn a_message_above_the_limit_goes_alone() {
    let ring = Ring::new(RingLimits { bytes: 10, count: 3 });
    let mut over = batch(&[50, 1]);
    ring.push(&mut over);
    assert_eq!(sizes(&over), [1]);
    assert_eq!(sizes(&take(&ring, 9).unwrap()), [50]);
    ring.handled(50, 1);
    ring.push(&mut over);
    assert!(over.is_empty());
}

#[test]
fn the_owner_is_woken_once_for_a_rush() {
    let ring = Ring::new(RingLimits::default());
    let (count, waker) = counted();
    let mut cx = Context::from_waker(&waker);
    let mut taken = Vec::new();
    assert_eq!(ring.poll_take(&mut taken, 9, &mut cx), Poll::Pending);
    for _ in 0..3 {
        ring.push(&mut batch(&[1, 1]));
    }
    assert_eq!(count.0.load(Relaxed), 1);
    assert_eq!(ring.poll_take(&mut taken, 9, &mut cx), Poll::Ready(()));
    assert_eq!(taken.len(), 6);
}

#[test]
fn those_that_wait_for_room_are_woken_in_order_and_none_is_forgotten() {
    const WAITING: usize = WOKEN * 3;
    let ring = Ring::new(RingLimits { bytes: 1 << 20, count: 8 });
    ring.push(&mut batch(&[1; 8]));
    let mut waiting: Vec<_> = (0..WAITING).map(|_| (RoomWait::default(), counted())).collect();
    for _ in 0..2 {
        // A second look does not take a second place.
        for (wait, (_, waker)) in &mut waiting {
            assert!(ring.poll_room(wait, &mut Context::from_waker(waker)).is_pending());
        }
    }
    let woken = |waiting: &[(RoomWait, (Arc<Count>, Waker))]| -> Vec<usize> {
        waiting.iter().map(|(_, (count, _))| count.0.load(Relaxed)).collect()
    };
    take(&ring, 8).unwrap();
    ring.handled(3, 3);
    assert_eq!(woken(&waiting).iter().sum::<usize>(), 0, "not half of it is free");
    ring.handled(1, 1);
    let first: Vec<_> = (0..WAITING).map(|at| usize::from(at < WOKEN)).collect();
    assert_eq!(woken(&waiting), first);
    ring.handled(4, 4);
    assert_eq!(woken(&waiting), [1; WAITING], "an empty ring has room for all");
    let (wait, (_, waker)) = &mut waiting[0];
    assert!(ring.poll_room(wait, &mut Context::from_waker(waker)).is_ready());
}

#[test]
fn datagrams_leave_half_of_the_room_to_connections_that_wait() {
    let ring = Ring::new(RingLimits { bytes: 1 << 20, count: 8 });
    ring.push_datagrams(&mut batch(&[1; 8]));
    let (count, waker) = counted();
    let mut cx = Context::from_waker(&waker);
    let mut wait = RoomWait::default();
    assert!(ring.poll_room(&mut wait, &mut cx).is_pending());
    // As fast as the owner handles them, others come.
    for _ in 0..8 {
        take(&ring, 1).unwrap();
        ring.handled(1, 1);
        ring.push_datagrams(&mut batch(&[1, 1]));
    }
    assert_eq!(count.0.load(Relaxed), 1);
    ring.push_datagrams(&mut batch(&[1; 8]));
    assert_eq!(ring.load().0, 8, "nobody waits");
}

#[test]
fn one_that_was_woken_too_late_waits_again() {
    let ring = Ring::new(RingLimits { bytes: 1 << 20, count: 2 });
    let (count, waker) = counted();
    let mut cx = Context::from_waker(&waker);
    let mut wait = RoomWait::default();
    for round in 1..=3 {
        ring.push(&mut batch(&[1, 1]));
        assert!(ring.poll_room(&mut wait, &mut cx).is_pending());
        take(&ring, 2).unwrap();
        ring.handled(2, 2);
        assert_eq!(count.0.load(Relaxed), round);
    }
    assert!(ring.poll_room(&mut wait, &mut cx).is_ready());
}

#[test]
fn a_cleared_ring_has_its_room_and_wakes_who_waits() {
    let ring = Ring::new(RingLimits { bytes: 10, count: 2 });
    ring.push(&mut batch(&[5, 5]));
    take(&ring, 1).unwrap();
    let (count, waker) = counted();
    let mut wait = RoomWait::default();
    assert!(ring.poll_room(&mut wait, &mut Context::from_waker(&waker)).is_pending());
    ring.clear();
    assert_eq!((ring.load(), count.0.load(Relaxed)), ((0, 0), 1));
    assert!(take(&ring, 1).is_none());
    // What was taken before and is handled now changes nothing.
    ring.handled(5, 1);
    assert_eq!(ring.load(), (0, 0));
}

#[test]
fn a_call_has_one_owner_and_owners_share_the_calls() {
    let rings = Rings::new(4, RingLimits::default(), 7);
    let mut calls = [0; 4];
    for call in 0..4000 {
        let call_id = format!("{call}@192.0.2.1");
        let owner = rings.owner(call_id.as_bytes());
        assert_eq!(rings.owner(call_id.as_bytes()), owner);
        calls[usize::from(owner)] += 1;
    }
    assert!(calls.iter().all(|calls| (800..1200).contains(calls)), "{calls:?}");
    assert_eq!(Rings::new(1, RingLimits::default(), 7).owner(b"any"), 0);
}
