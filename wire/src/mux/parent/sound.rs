//! What always holds of a parent, between two calls.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

use super::Parent;
use crate::mux::child::{Child, ChildKey, Inward, Outward, Owed, Owner, Wire};

impl<T: Owner> Parent<T> {
    /// For tests: panics unless all that is kept twice (sums, lists and their marks, tables) agrees
    /// with what it was taken from. Looks at every child.
    pub fn assert_sound(&self) {
        let sum = |of: fn(&Child<T>) -> usize| self.children.values().map(of).sum::<usize>();
        assert_eq!(self.queued, sum(|child| child.queue.len()), "queued");
        assert_eq!(self.owed, sum(|child| child.owed.count()), "owed");
        assert_eq!(self.paused, sum(|child| usize::from(child.told_paused)), "paused");

        let waits = |child: &Child<T>| child.wire == Wire::Waiting;
        assert_same("waiting", self.waiting.iter().copied(), self.keys(waits));
        let cids = self.children.iter().filter_map(|(key, child)| match child.wire {
            Wire::Open(cid) => Some((cid, *key)),
            Wire::Waiting | Wire::Over => None,
        });
        assert_same("cids", self.cids.iter().map(|(cid, key)| (*cid, *key)), cids);
        assert_same("full", self.stalls.full_keys(), self.keys(|child| child.full));
        let timed = self.children.iter().filter_map(|(key, child)| Some((child.wake?, *key)));
        assert_same("timed", self.stalls.timed_keys(), timed);

        self.assert_list(
            "control",
            &self.control,
            |child| child.in_control,
            |child| child.owed != Owed::default(),
        );
        let ready = self.ready.iter().copied().collect();
        self.assert_list("ready", &ready, |child| child.in_ready, Child::sends);
        self.assert_list("due", &self.due, |child| child.in_due, |_| false);
        for (key, child) in &self.children {
            self.assert_child_sound(*key, child);
        }
    }

    fn keys(&self, which: impl Fn(&Child<T>) -> bool) -> impl Iterator<Item = ChildKey> {
        self.children.iter().filter(move |(_, child)| which(child)).map(|(key, _)| *key)
    }

    /// Nobody stands twice in a list; marks are right; whoever must be there is there; and those
    /// that are gone do not add up.
    fn assert_list(
        &self,
        name: &str,
        list: &VecDeque<ChildKey>,
        marked: impl Fn(&Child<T>) -> bool,
        must: impl Fn(&Child<T>) -> bool,
    ) {
        let keys: HashSet<_> = list.iter().copied().collect();
        assert_eq!(keys.len(), list.len(), "twice in {name}");
        assert!(list.len() <= 2 * self.children.len() + 65, "{name}: {}", list.len());
        for (key, child) in &self.children {
            let there = keys.contains(key);
            assert!(!there || marked(child), "{key:?} in {name} without its mark");
            assert!(there || !marked(child), "{key:?} not in {name} in spite of its mark");
            assert!(there || !must(child), "{key:?} is missing in {name}");
        }
    }

    fn assert_child_sound(&self, key: ChildKey, child: &Child<T>) {
        let open = matches!(child.wire, Wire::Open(_));
        assert!(open || child.owed == Owed::default(), "{key:?} owes without a cid");
        assert!(child.wire != Wire::Over || child.out.is_empty(), "{key:?} is over and sends");
        assert!(child.wire != Wire::Over || !child.delivered(), "{key:?} is to be swept");
        assert!(!child.left || child.queue.is_empty(), "{key:?} left, and keeps a queue");
        assert!(!child.left || child.owner.is_none(), "{key:?} left, and has an owner");
        let due = Child::lingers(child) && child.wake.is_none() && child.wire != Wire::Over;
        assert!(!due || self.stalls.is_untimed(key), "{key:?} lingers without an end");
        if child.reply_since.is_some() {
            assert_eq!(child.outward, Outward::Ended, "{key:?} is kept");
            assert!(
                child.wake.is_some() || self.stalls.is_untimed(key),
                "{key:?} is kept for ever"
            );
        }
        let at_limit = child.queue.len() >= self.limits.child_buffer;
        assert!(!at_limit || child.full || self.lost || !open, "{key:?} is full");
        if open && child.inward == Inward::Flowing && child.outward != Outward::Closing {
            let told = child.told_paused != child.owed.has(Owed::FLOW);
            let pauses = child.local_paused || child.queue.len() >= self.limits.child_resume;
            assert!(told || !pauses, "{key:?}: the peer does not hear of its pause");
            assert!(!told || pauses || !child.queue.is_empty(), "{key:?}: nor of its resume");
        }
    }
}

fn assert_same<K: Eq + Hash + Debug>(
    name: &str,
    kept: impl Iterator<Item = K>,
    truth: impl Iterator<Item = K>,
) {
    let (kept, truth): (HashSet<_>, HashSet<_>) = (kept.collect(), truth.collect());
    assert_eq!(kept, truth, "{name}");
}
