use std::net::SocketAddr;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{
    ATTEMPT_DELAY, Dial, DialError, Families, Family, MOST_ADDRESSES, RESOLUTION_DELAY, Step,
};

const BOTH: Families = Families { first: Family::V4, both: true };
const ONE: Families = Families { first: Family::V4, both: false };
const LIMIT: Duration = Duration::from_secs(10);

fn v4(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 80))
}

fn v6(last: u16) -> SocketAddr {
    SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, last], 80))
}

fn start(step: Step) -> SocketAddr {
    match step {
        Step::Start { address, .. } => address,
        other => panic!("{other:?} is no start"),
    }
}

#[test]
fn tcp_t10_one_address_is_tried_at_once_and_the_deadline_is_its_only_timer() {
    let now = Instant::now();
    let mut dial = Dial::new(now + LIMIT);
    dial.add_address(v4(1));
    assert_eq!(dial.step(now), Step::Start { candidate: 0, address: v4(1) });
    assert_eq!(dial.step(now), Step::Wait);
    assert_eq!(dial.next_wake(), now + LIMIT);
}

#[test]
fn tcp_t10_families_alternate_with_a_delay_between_attempts() {
    let now = Instant::now();
    let mut dial = Dial::new(now + LIMIT);
    let name = dial.add_name(BOTH);
    assert_eq!(dial.step(now), Step::Wait);
    dial.answer(now, name, Family::V4, Ok(&[v4(1), v4(2)]));
    dial.answer(now, name, Family::V6, Ok(&[v6(1)]));
    assert_eq!(start(dial.step(now)), v4(1));
    assert_eq!(dial.step(now), Step::Wait);
    assert_eq!(dial.next_wake(), now + ATTEMPT_DELAY);
    assert_eq!(start(dial.step(now + ATTEMPT_DELAY)), v6(1));
    assert_eq!(start(dial.step(now + 2 * ATTEMPT_DELAY)), v4(2));
}

#[test]
fn tcp_t10_the_next_attempt_follows_a_failure_at_once() {
    let now = Instant::now();
    let mut dial = Dial::new(now + LIMIT);
    dial.add_address(v4(1));
    dial.add_address(v4(2));
    assert_eq!(start(dial.step(now)), v4(1));
    dial.failed(DialError::Refused);
    assert_eq!(start(dial.step(now)), v4(2));
}

#[test]
fn tcp_t10_the_other_family_waits_a_little_for_the_preferred_one() {
    let now = Instant::now();
    let mut dial = Dial::new(now + LIMIT);
    let name = dial.add_name(BOTH);
    dial.answer(now, name, Family::V6, Ok(&[v6(1)]));
    assert_eq!(dial.step(now), Step::Wait);
    assert_eq!(dial.next_wake(), now + RESOLUTION_DELAY);
    assert_eq!(start(dial.step(now + RESOLUTION_DELAY)), v6(1));
    dial.answer(now + RESOLUTION_DELAY, name, Family::V4, Ok(&[v4(1)]));
    assert_eq!(start(dial.step(now + RESOLUTION_DELAY + ATTEMPT_DELAY)), v4(1));
}

#[test]
fn tcp_t10_an_empty_answer_of_the_preferred_family_is_not_waited_for() {
    let now = Instant::now();
    let mut dial = Dial::new(now + LIMIT);
    let name = dial.add_name(BOTH);
    dial.answer(now, name, Family::V4, Ok(&[]));
    dial.answer(now, name, Family::V6, Ok(&[v6(1)]));
    assert_eq!(start(dial.step(now)), v6(1));
}

#[test]
fn tcp_t12_all_refused_fails_at_once_with_the_most_telling_error() {
    let now = Instant::now();
    let mut dial = Dial::new(now + LIMIT);
    let name = dial.add_name(BOTH);
    dial.answer(now, name, Family::V6, Err(DialError::NameNotFound));
    dial.answer(now, name, Family::V4, Ok(&[v4(1), v4(2)]));
    assert_eq!(start(dial.step(now)), v4(1));
    dial.failed(DialError::Refused);
    assert_eq!(start(dial.step(now)), v4(2));
    dial.failed(DialError::Unreachable);
    assert_eq!(dial.step(now), Step::Failed(DialError::Refused));
}

#[test]
fn case_t25_a_name_that_is_not_there_fails_as_soon_as_that_is_known() {
    let now = Instant::now();
    let mut dial = Dial::new(now + LIMIT);
    let name = dial.add_name(BOTH);
    dial.answer(now, name, Family::V4, Err(DialError::NameNotFound));
    assert_eq!(dial.step(now), Step::Wait);
    dial.answer(now, name, Family::V6, Err(DialError::NameNotFound));
    assert_eq!(dial.step(now), Step::Failed(DialError::NameNotFound));
}

#[test]
fn tcp_t12_the_deadline_holds_for_names_and_addresses_together() {
    let now = Instant::now();
    let mut dial = Dial::new(now + LIMIT);
    dial.add_name(ONE);
    assert_eq!(dial.step(now + LIMIT), Step::Failed(DialError::Timeout));
}

#[test]
fn a_later_target_waits_until_the_names_before_it_are_answered() {
    let now = Instant::now();
    let mut dial = Dial::new(now + LIMIT);
    let name = dial.add_name(ONE);
    dial.add_address(v4(9));
    assert_eq!(dial.step(now), Step::Wait);
    dial.answer(now, name, Family::V4, Err(DialError::NameFailed));
    assert_eq!(start(dial.step(now)), v4(9));
}

proptest! {
    /// Whatever the answers and results, and whenever they come: every address is started at most
    /// once, never more than the limit, and a race that nobody wins ends.
    #[test]
    fn a_race_ends_and_starts_each_address_once(
        answers in prop::collection::vec((any::<bool>(), 0_u8..12, any::<bool>()), 0..4),
        pauses in prop::collection::vec(0_u64..400, 1..64),
    ) {
        let begun = Instant::now();
        let mut now = begun;
        let mut dial = Dial::new(begun + LIMIT);
        let name = dial.add_name(BOTH);
        dial.add_address(v4(200));
        let mut answers = answers.into_iter();
        let mut seen = Vec::new();
        let mut running = 0;
        let mut pauses = pauses.into_iter().cycle();
        let error = loop {
            match dial.step(now) {
                Step::Start { address, candidate } => {
                    prop_assert_eq!(candidate, seen.len());
                    prop_assert!(!seen.contains(&address));
                    seen.push(address);
                    running += 1;
                }
                Step::Failed(error) => break error,
                Step::Wait => {
                    prop_assert!(dial.next_wake() > now || running > 0);
                    match answers.next() {
                        Some((preferred, count, good)) => {
                            let family = if preferred { Family::V4 } else { Family::V6 };
                            let list: Vec<_> = (0..count)
                                .map(|n| if preferred { v4(n) } else { v6(u16::from(n)) })
                                .filter(|address| !seen.contains(address))
                                .collect();
                            let twice = list.iter().any(|a| dial.knows(a));
                            let answer = if good && !twice { Ok(list.as_slice()) } else { Err(DialError::NameFailed) };
                            dial.answer(now, name, family, answer);
                        }
                        None if running > 0 => {
                            running -= 1;
                            dial.failed(DialError::Refused);
                        }
                        None => {}
                    }
                    now += Duration::from_millis(pauses.next().unwrap_or(1) + 1);
                }
            }
        };
        prop_assert!(seen.len() <= MOST_ADDRESSES);
        prop_assert!(now < begun + LIMIT || error == DialError::Timeout);
    }
}
