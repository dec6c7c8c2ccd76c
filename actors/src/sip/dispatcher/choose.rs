//! Which target of a set is chosen, and in which order the others follow.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{Member, Set, Target};

/// How a target is chosen (`ds_select_dst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// By this hash: what has the same goes to the same target while that is active.
    Hash(u64),
    /// One after the other.
    Turn,
    /// By this random number.
    Random(u64),
    /// The highest priority first, of equal ones the first of the configuration.
    Priority,
    /// As often as the weight says; where no active target has one, one after the other.
    Weight,
}

/// A target that was chosen, and those that are next; goes with the message.
#[derive(Clone, Debug)]
pub struct Selection {
    current: Arc<Target>,
    /// The next one last.
    rest: Vec<Arc<Target>>,
}

impl Selection {
    /// The chosen one.
    pub const fn current(&self) -> &Arc<Target> {
        &self.current
    }

    /// Goes on to the next target that is active; false where none is left.
    pub fn next(&mut self, now: Instant) -> bool {
        while let Some(target) = self.rest.pop() {
            if target.is_active(now) {
                self.current = target;
                return true;
            }
        }
        false
    }
}

impl Set {
    pub(super) fn select(&self, by: Algorithm, now: Instant) -> Option<Selection> {
        let is_active = |member: &&Member| member.target.is_active(now);
        let mut active: Vec<&Member> = self.members.iter().filter(is_active).collect();
        let most = active.len() as u64;
        if most == 0 {
            return None;
        }
        let first = match by {
            Algorithm::Hash(hash) => {
                // A target that is out changes nothing for who goes to another one.
                let place = (hash % self.members.len() as u64) as usize;
                let before = self.members[..place].iter().filter(is_active).count();
                before % active.len()
            }
            Algorithm::Turn => (self.turn() % most) as usize,
            Algorithm::Random(number) => (number % most) as usize,
            Algorithm::Priority => {
                active.sort_by_key(|member| std::cmp::Reverse(member.priority));
                0
            }
            Algorithm::Weight => self.by_weight(&active),
        };
        active.rotate_left(first);
        let mut rest: Vec<_> =
            active.iter().rev().map(|member| Arc::clone(&member.target)).collect();
        let current = rest.pop()?;
        Some(Selection { current, rest })
    }

    fn turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// In as many turns as all weights are together each gets as many as its weight is, spread out.
    fn by_weight(&self, active: &[&Member]) -> usize {
        let turn = self.turn();
        let sum: u64 = active.iter().map(|member| u64::from(member.weight)).sum();
        if sum == 0 {
            return (turn % active.len() as u64) as usize;
        }
        // A step of the golden ratio comes by every place before it comes by one again.
        let mut step = (sum as f64 * 0.618_034) as u64;
        while step > 1 && !are_coprime(step, sum) {
            step -= 1;
        }
        let mut place = (turn % sum) * step.max(1) % sum;
        active
            .iter()
            .position(|member| match place.checked_sub(u64::from(member.weight)) {
                Some(left) => {
                    place = left;
                    false
                }
                None => true,
            })
            .unwrap_or_default()
    }
}

const fn are_coprime(mut a: u64, mut b: u64) -> bool {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}
