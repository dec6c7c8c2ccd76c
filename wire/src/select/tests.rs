use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{CandidateId, Event, Selection};

type Race = Selection<&'static str, u8>;

fn drain(race: &mut Race) -> Vec<Event<&'static str, u8>> {
    std::iter::from_fn(|| race.poll()).collect()
}

#[test]
fn fisher_c15_the_first_good_one_wins_and_the_others_are_lost_before_the_outcome() {
    let mut race = Race::new();
    let a = race.start("a").unwrap();
    let b = race.start("b").unwrap();
    let c = race.start("c").unwrap();
    assert!(race.win(b));
    assert!(!race.win(a), "a second winner");
    assert_eq!(
        drain(&mut race),
        [Event::Lost(a, "a"), Event::Lost(c, "c"), Event::Settled(Ok((b, "b")))]
    );
    assert_eq!(race.poll(), None);
}

#[test]
fn fisher_c02_nothing_is_started_after_a_winner() {
    let mut race = Race::new();
    let a = race.start("a").unwrap();
    race.win(a);
    assert_eq!(race.start("b"), Err("b"));
    race.set_deadline(Instant::now());
    assert_eq!(race.deadline(), None, "C04: no deadline after the choice");
}

#[test]
fn fisher_c12_a_failed_one_leaves_the_others_and_the_last_one_ends_it_with_the_greatest_error() {
    let mut race = Race::new();
    let a = race.start("a").unwrap();
    assert_eq!(race.fail(a, 7), Some("a"));
    assert_eq!(race.poll(), None, "more may come");
    let b = race.start("b").unwrap();
    race.no_more(0);
    assert_eq!(race.poll(), None);
    assert_eq!(race.fail(b, 3), Some("b"));
    assert_eq!(race.fail(b, 9), None, "ended before");
    assert_eq!(drain(&mut race), [Event::Settled(Err(7))]);
}

#[test]
fn a_sealed_one_that_is_not_decided_takes_more_once_it_is_open_again() {
    let mut race = Race::new();
    let a = race.start("a").unwrap();
    race.no_more(0);
    race.reopen();
    let b = race.start("b").unwrap();
    race.fail(a, 1);
    race.fail(b, 2);
    assert_eq!(race.poll(), None, "more may come");
    race.no_more(0);
    assert_eq!(drain(&mut race), [Event::Settled(Err(2))]);
    race.reopen();
    assert_eq!(race.start("c"), Err("c"), "it is decided");
}

#[test]
fn fisher_c13_the_deadline_ends_every_candidate() {
    let now = Instant::now();
    let mut race = Race::new();
    let a = race.start("a").unwrap();
    race.no_more(0);
    race.set_deadline(now + Duration::from_secs(5));
    race.expire(now + Duration::from_millis(4_999), 4);
    assert_eq!(race.poll(), None);
    race.expire(now + Duration::from_secs(5), 4);
    assert_eq!(drain(&mut race), [Event::Lost(a, "a"), Event::Settled(Err(4))]);
}

#[test]
fn fisher_c14_cancel_ends_every_candidate_and_what_comes_after_changes_nothing() {
    let mut race = Race::new();
    let a = race.start("a").unwrap();
    let b = race.start("b").unwrap();
    race.cancel(1);
    assert_eq!(race.fail(b, 9), Some("b"), "ended by itself before it was told");
    assert!(!race.win(a));
    assert_eq!(drain(&mut race), [Event::Lost(a, "a"), Event::Settled(Err(1))]);
}

#[derive(Clone, Debug)]
enum Step {
    Start,
    NoMore,
    Win(u32),
    Fail(u32, u8),
    Note(u8),
    Deadline(u64),
    Pass(u64),
    Cancel,
    Poll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Start),
        1 => Just(Step::NoMore),
        2 => (0..8u32).prop_map(Step::Win),
        5 => (0..8u32, any::<u8>()).prop_map(|(id, error)| Step::Fail(id, error)),
        1 => any::<u8>().prop_map(Step::Note),
        1 => (0..100u64).prop_map(Step::Deadline),
        2 => (0..30u64).prop_map(Step::Pass),
        1 => Just(Step::Cancel),
        3 => Just(Step::Poll),
    ]
}

/// What a selection gave away, told by its owner.
#[derive(Default)]
struct Ledger {
    started: u32,
    /// How often each candidate ended.
    ends: Vec<u32>,
    outcomes: usize,
}

impl Ledger {
    fn end(&mut self, id: CandidateId, value: u32) {
        assert_eq!(id.index(), value as usize, "another candidate's value");
        self.ends[id.index()] += 1;
    }

    fn take(&mut self, event: Event<u32, u8>) {
        assert_eq!(self.outcomes, 0, "an event after the outcome");
        match event {
            Event::Lost(id, value) => self.end(id, value),
            Event::Settled(outcome) => {
                self.outcomes += 1;
                if let Ok((id, value)) = outcome {
                    self.end(id, value);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_interleaving_has_one_outcome_and_ends_each_candidate_once(
        steps in proptest::collection::vec(step(), 0..60)
    ) {
        let mut now = Instant::now();
        let mut race = Selection::<u32, u8>::new();
        let mut ledger = Ledger::default();
        for step in steps {
            match step {
                Step::Start => {
                    let open = !race.is_decided();
                    if let Ok(id) = race.start(ledger.started) {
                        prop_assert!(open);
                        prop_assert_eq!(id.index(), ledger.started as usize);
                        ledger.started += 1;
                        ledger.ends.push(0);
                    }
                }
                Step::NoMore => race.no_more(0),
                Step::Win(id) => {
                    let decided = race.is_decided();
                    prop_assert!(!(race.win(CandidateId(id)) && decided));
                }
                Step::Fail(id, error) => {
                    if let Some(value) = race.fail(CandidateId(id), error) {
                        ledger.end(CandidateId(id), value);
                    }
                }
                Step::Note(error) => race.note(error),
                Step::Deadline(ms) => race.set_deadline(now + Duration::from_millis(ms)),
                Step::Pass(ms) => {
                    now += Duration::from_millis(ms);
                    let due = race.deadline().is_some_and(|deadline| now >= deadline);
                    race.expire(now, 200);
                    prop_assert!(!due || race.is_decided());
                }
                Step::Cancel => race.cancel(201),
                Step::Poll => {
                    if let Some(event) = race.poll() {
                        ledger.take(event);
                    }
                }
            }
        }
        // Whatever happened, an owner that gives up gets to the end.
        race.cancel(202);
        while let Some(event) = race.poll() {
            ledger.take(event);
        }
        prop_assert_eq!(ledger.outcomes, 1);
        prop_assert_eq!(race.running(), 0);
        prop_assert!(ledger.ends.iter().all(|ends| *ends == 1), "{:?}", ledger.ends);
        prop_assert_eq!(race.deadline(), None);
    }
}
