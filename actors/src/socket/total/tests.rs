use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::{Reader, Total};

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A link of the test, with the wakes that it got.
struct Link {
    reader: Reader,
    woken: Arc<Woken>,
}

impl Link {
    fn new(total: &Arc<Total>) -> Self {
        Self { reader: Reader::new(total), woken: Arc::default() }
    }

    fn may_read(&mut self, outstanding: u64) -> bool {
        self.reader.may_read(outstanding, &Waker::from(Arc::clone(&self.woken)))
    }

    fn woken(&self) -> usize {
        self.woken.0.swap(0, Ordering::Relaxed)
    }
}

fn links<const N: usize>(limit: u64) -> (Arc<Total>, [Link; N]) {
    let total = Arc::new(Total::new(limit));
    let links = std::array::from_fn(|_| Link::new(&total));
    (total, links)
}

#[test]
fn total_b7_the_largest_queue_stops_first_and_none_is_read_at_the_limit() {
    let (total, [mut large, mut small, mut empty]) = links(1000);
    total.moved(700);
    assert!(!large.may_read(600), "300 are left");
    assert!(small.may_read(100));
    assert!(empty.may_read(0));
    total.moved(250);
    assert!(!small.may_read(100), "50 are left");
    assert!(empty.may_read(0));
    total.moved(50);
    assert!(!empty.may_read(0), "nothing is left");
    assert_eq!(total.waiting(), 3);
}

#[test]
fn total_b7_those_that_fit_again_are_woken_the_smallest_first() {
    let (total, [mut large, mut small, mut empty]) = links(1000);
    total.moved(1000);
    assert!(!large.may_read(600) && !small.may_read(100) && !empty.may_read(0));
    total.moved(-50);
    assert_eq!([large.woken(), small.woken(), empty.woken()], [0, 0, 1]);
    total.moved(-100);
    assert_eq!([large.woken(), small.woken(), empty.woken()], [0, 1, 0]);
    assert!(!large.may_read(600), "it asks again, and is still parked once");
    total.moved(-450);
    assert_eq!([large.woken(), small.woken(), empty.woken()], [1, 0, 0]);
    assert!(large.may_read(600) && small.may_read(100) && empty.may_read(0));
    assert_eq!(total.waiting(), 0);
}

#[test]
fn total_b7_a_higher_limit_wakes_and_none_is_no_limit() {
    let (total, [mut link]) = links(1000);
    total.moved(1000);
    assert!(!link.may_read(0));
    total.set_limit(2000);
    assert_eq!(link.woken(), 1);
    assert!(link.may_read(1000));
    total.set_limit(0);
    assert_eq!(total.limit(), None);
    total.moved(1 << 40);
    assert!(link.may_read(1 << 40));
}

#[test]
fn total_b7_one_at_a_time_reads_its_open_record_to_the_end() {
    let (total, [mut first, mut second, mut third]) = links(1000);
    for link in [&mut first, &mut second, &mut third] {
        link.reader.holds(400);
    }
    assert_eq!(total.used(), 1200);
    assert!(first.may_read(400) && first.reader.is_finishing(), "beyond its share");
    assert!(!second.may_read(400) && !third.may_read(400));
    first.reader.holds(900);
    assert!(first.may_read(900), "to the end of its record");

    // The record is whole, and in the queue of its socket.
    total.moved(900);
    first.reader.holds(0);
    first.reader.finished();
    assert!(!first.may_read(900), "its next record is within its share, or waits");
    assert!(!second.may_read(400), "first what is whole is to be taken");
    assert_eq!([first.woken(), second.woken(), third.woken()], [0, 0, 0]);
    total.moved(-700);
    assert_eq!([first.woken(), second.woken(), third.woken()], [0, 0, 1]);
    assert!(third.may_read(400) && third.reader.is_finishing());
    assert!(!second.may_read(400));
    drop(third);
    assert_eq!(second.woken(), 1, "there is room again");
    assert!(second.may_read(400) && !second.reader.is_finishing());
    drop(first);
    drop(second);
    assert_eq!((total.used(), total.waiting()), (200, 0));
}

#[test]
fn total_b7_one_that_ends_in_its_open_record_passes_its_right_on() {
    let (_, [mut first, mut second, mut third]) = links(1000);
    for link in [&mut first, &mut second, &mut third] {
        link.reader.holds(1000);
    }
    assert!(first.may_read(1000));
    assert!(!second.may_read(1000) && !third.may_read(1000));
    drop(first);
    assert_eq!([second.woken(), third.woken()], [1, 0]);
    assert!(second.may_read(1000) && second.reader.is_finishing());
}

#[test]
fn total_b7_one_that_stalls_in_its_open_record_passes_its_right_on() {
    let (_, [mut silent, mut other]) = links(100);
    silent.reader.holds(100);
    other.reader.holds(100);
    assert!(silent.may_read(100));
    silent.reader.stalls();
    assert!(silent.reader.is_finishing(), "nobody waits for it");
    assert!(!other.may_read(100));
    silent.reader.stalls();
    assert_eq!(other.woken(), 1);
    assert!(!silent.may_read(100));
    assert!(other.may_read(100));
    other.reader.stalls();
    assert_eq!(silent.woken(), 1, "and has it back in its turn");
    assert!(silent.may_read(100));
}

#[test]
fn total_b7_a_link_that_fits_again_leaves_the_queue_of_those_that_finish() {
    let (total, [mut first, mut second]) = links(1000);
    first.reader.holds(600);
    second.reader.holds(600);
    assert!(first.may_read(600));
    assert!(!second.may_read(600));
    total.set_limit(10_000);
    assert_eq!(second.woken(), 1);
    assert!(second.may_read(600) && !second.reader.is_finishing());
    assert!(first.may_read(600) && !first.reader.is_finishing());
    total.set_limit(1000);
    assert!(second.may_read(600) && second.reader.is_finishing(), "nobody has the right");
}
