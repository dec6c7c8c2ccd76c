//! Children of one worker whose clients ended their input and wait for the reply (M31).

use std::collections::BTreeMap;

/// The most of them on one worker (M31).
pub const MOST_KEPT: usize = 1024;

/// The children that stand for the reply alone, oldest first. `C` is whatever reaches one.
#[derive(Debug)]
pub struct Kept<C> {
    children: BTreeMap<u64, C>,
    next: u64,
}

/// The place of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeptPlace(u64);

impl<C> Kept<C> {
    /// Nobody waits.
    pub const fn new() -> Self {
        Self { children: BTreeMap::new(), next: 0 }
    }

    /// One more waits. Gives the oldest one, which is to be closed, where these are too many.
    pub fn enter(&mut self, child: C) -> (KeptPlace, Option<C>) {
        let place = KeptPlace(self.next);
        self.next += 1;
        self.children.insert(place.0, child);
        let oldest = if self.children.len() > MOST_KEPT { self.children.pop_first() } else { None };
        (place, oldest.map(|(_, child)| child))
    }

    /// It does not wait any more; harmless when it was closed.
    pub fn leave(&mut self, place: KeptPlace) {
        self.children.remove(&place.0);
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// True when nobody waits.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }
}

impl<C> Default for Kept<C> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Kept, MOST_KEPT};

    #[test]
    fn mux_m31_more_than_1024_on_a_worker_close_the_oldest_first() {
        let mut kept = Kept::new();
        let places: Vec<_> = (0..MOST_KEPT).map(|child| kept.enter(child)).collect();
        assert!(places.iter().all(|(_, oldest)| oldest.is_none()));
        kept.leave(places[0].0);
        assert_eq!(kept.enter(5000).1, None);
        assert_eq!(kept.enter(5001).1, Some(1));
        kept.leave(places[1].0);
        assert_eq!((kept.len(), kept.enter(5002).1), (MOST_KEPT, Some(2)));
    }
}
