use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{KEPT, Key, Wheel};

fn fired<T>(wheel: &mut Wheel<T>, now: Instant) -> Vec<T> {
    let mut out = Vec::new();
    wheel.expire(now, &mut out);
    out
}

#[test]
fn a_timer_fires_at_the_tick_after_its_deadline_and_never_before() {
    let start = Instant::now();
    let mut wheel = Wheel::new(start);
    let deadline = start + Duration::from_micros(2_001);
    wheel.insert(deadline, "a");
    assert_eq!(fired(&mut wheel, start + Duration::from_micros(2_999)), [""; 0]);
    assert_eq!(wheel.next_wake(), Some(start + Duration::from_millis(3)));
    assert_eq!(fired(&mut wheel, start + Duration::from_millis(3)), ["a"]);
    assert_eq!(wheel.next_wake(), None);
}

#[test]
fn a_deadline_that_is_over_fires_with_the_next_call() {
    let start = Instant::now();
    let mut wheel = Wheel::new(start);
    let now = start + Duration::from_secs(9);
    assert!(fired(&mut wheel, now).is_empty());
    let cancelled = wheel.insert(start, 0);
    wheel.insert(start, 1);
    wheel.insert(now, 2);
    assert!(wheel.next_wake().is_some_and(|wake| wake <= now));
    assert_eq!(wheel.cancel(cancelled), Some(0));
    let mut out = fired(&mut wheel, now);
    out.sort_unstable();
    assert_eq!(out, [1, 2]);
    assert!(wheel.is_empty());
}

#[test]
fn a_key_names_no_later_timer_in_the_same_place() {
    let start = Instant::now();
    let mut wheel = Wheel::new(start);
    let first = wheel.insert(start + Duration::from_millis(1), 1);
    assert_eq!(wheel.cancel(first), Some(1));
    let second = wheel.insert(start + Duration::from_millis(1), 2);
    assert_eq!(first.index, second.index);
    assert_eq!(wheel.cancel(first), None);
    assert_eq!(fired(&mut wheel, start + Duration::from_millis(1)), [2]);
    assert_eq!(wheel.cancel(second), None);
}

#[test]
fn a_deadline_beyond_all_levels_is_kept_and_can_be_cancelled() {
    let start = Instant::now();
    let mut wheel = Wheel::new(start);
    let far = start + Duration::from_secs(20_000 * 365 * 86_400);
    let key = wheel.insert(far, ());
    assert!(fired(&mut wheel, start + Duration::from_secs(1_000_000_000)).is_empty());
    assert!(wheel.next_wake().is_some());
    assert_eq!(wheel.cancel(key), Some(()));
}

#[test]
fn the_memory_of_a_burst_is_given_back() {
    let start = Instant::now();
    let mut wheel = Wheel::new(start);
    for i in 0..10 * KEPT as u64 {
        wheel.insert(start + Duration::from_millis(i), i);
    }
    assert_eq!(fired(&mut wheel, start + Duration::from_secs(60)).len(), 10 * KEPT);
    assert!(wheel.entries.capacity() <= KEPT);
}

/// What a run of the property test does.
#[derive(Clone, Debug)]
enum Step {
    Insert { micros: u64 },
    Cancel { which: prop::sample::Index },
    Advance { micros: u64 },
    Wake,
}

fn step() -> impl Strategy<Value = Step> {
    // Times of every size, so that each level is used and crossed.
    let micros = (0u32..45).prop_flat_map(|bits| 0..=(1u64 << bits));
    prop_oneof![
        4 => micros.clone().prop_map(|micros| Step::Insert { micros }),
        2 => any::<prop::sample::Index>().prop_map(|which| Step::Cancel { which }),
        2 => micros.prop_map(|micros| Step::Advance { micros }),
        2 => Just(Step::Wake),
    ]
}

/// The model: timers ordered by deadline.
#[derive(Default)]
struct Model {
    timers: BTreeMap<(Instant, u32), Key>,
    gone: Vec<Key>,
}

impl Model {
    /// Takes out what must have fired at `now`: the deadlines up to the last whole tick.
    fn expire(&mut self, start: Instant, now: Instant) -> Vec<u32> {
        let ticks = now.duration_since(start).as_millis() as u64;
        let limit = start + Duration::from_millis(ticks);
        let later = self.timers.split_off(&(limit + Duration::from_nanos(1), 0));
        let over = std::mem::replace(&mut self.timers, later);
        self.gone.extend(over.values());
        over.into_keys().map(|(_, id)| id).collect()
    }
}

proptest! {
    #[test]
    fn the_wheel_does_what_a_sorted_map_does(steps in prop::collection::vec(step(), 1..200)) {
        let start = Instant::now();
        let mut now = start;
        let mut wheel = Wheel::new(start);
        let mut model = Model::default();
        for (id, step) in (0u32..).zip(steps) {
            let until = match step {
                Step::Insert { micros } => {
                    let deadline = now + Duration::from_micros(micros);
                    let key = wheel.insert(deadline, id);
                    model.timers.insert((deadline, id), key);
                    now
                }
                Step::Cancel { which } => {
                    if !model.timers.is_empty() {
                        let at = *model.timers.keys().nth(which.index(model.timers.len())).unwrap();
                        let key = model.timers.remove(&at).unwrap();
                        prop_assert_eq!(wheel.cancel(key), Some(at.1));
                        model.gone.push(key);
                    }
                    now
                }
                Step::Advance { micros } => now + Duration::from_micros(micros),
                Step::Wake => wheel.next_wake().map_or(now, |wake| wake.max(now)),
            };
            now = until;
            let mut out = fired(&mut wheel, now);
            out.sort_unstable();
            let mut wanted = model.expire(start, now);
            wanted.sort_unstable();
            prop_assert_eq!(out, wanted);
            prop_assert_eq!(wheel.len(), model.timers.len());
            let earliest = model.timers.keys().next().map(|(deadline, _)| {
                let nanos = deadline.duration_since(start).as_nanos();
                start + Duration::from_millis(nanos.div_ceil(1_000_000) as u64)
            });
            prop_assert_eq!(wheel.next_wake().is_some(), earliest.is_some());
            prop_assert!(wheel.next_wake() <= earliest);
            prop_assert!(wheel.next_wake().is_none_or(|wake| wake > now));
        }
        for key in model.gone {
            prop_assert_eq!(wheel.cancel(key), None);
        }
    }
}
