//! The numbers of one parent's children (M07, M08, M09).

/// The greatest number that a child gets: 4294967295 is never given (M09).
pub const LAST_CID: u32 = u32::MAX - 1;

/// So many numbers are in one lease, or what is left of them (M08).
pub const LEASE: u32 = 1024;

/// The lease behind a parent's mark, the greatest number that was ever leased to it: its first and
/// its last number. `None` when the parent, which takes `most` children in all, has every number
/// (M08, M09).
pub fn lease_behind(mark: u32, most: u32) -> Option<(u32, u32)> {
    let most = most.min(LAST_CID);
    (mark < most).then(|| (mark + 1, most.min(mark.saturating_add(LEASE))))
}

/// The numbers of one parent: what was leased, and what of it is used.
///
/// ```text
/// 1 ......... used ......... leased ......... most
///   given to        can be         not granted
///   children        given          by anybody
/// ```
///
/// The first lease is there from the start. The second half of each lease is the time in which the
/// next one comes.
#[derive(Clone, Debug)]
pub struct Cids {
    most: u32,
    leased: u32,
    used: u32,
    /// With this many used, half of the last lease is.
    half: u32,
    asked: bool,
}

impl Cids {
    /// The numbers of a parent that takes `most` children in all, at most [`LAST_CID`] and at least
    /// one. The first lease is granted (M08).
    pub fn new(most: u32) -> Self {
        let most = most.clamp(1, LAST_CID);
        let leased = most.min(LEASE);
        Self { most, leased, used: 0, half: half(1, leased), asked: false }
    }

    /// The next number, counted from 1 up and each given once (M07). `None` when the lease is used
    /// up: the child waits without Open (M08), for ever if the numbers [are spent](Self::is_spent).
    #[expect(clippy::should_implement_trait, reason = "None is not the end: a lease may come")]
    pub fn next(&mut self) -> Option<u32> {
        if self.used == self.leased {
            return None;
        }
        self.used += 1;
        Some(self.used)
    }

    /// True when the next lease is to be asked for: half of the last one is used, and there are
    /// more numbers. Said once for each lease (M08).
    pub fn wants(&mut self) -> bool {
        let wants = !self.asked && self.used >= self.half && self.leased < self.most;
        self.asked |= wants;
        wants
    }

    /// Adds the lease of `first` to `last`. False, and nothing is added, unless it stands directly
    /// behind what was leased before and ends within what the parent may use.
    pub fn granted(&mut self, first: u32, last: u32) -> bool {
        if first != self.leased + 1 || last < first || last > self.most {
            return false;
        }
        self.leased = last;
        self.half = half(first, last);
        self.asked = false;
        true
    }

    /// How many numbers the parent takes in all; what a request for a lease says.
    pub const fn most(&self) -> u32 {
        self.most
    }

    /// How many numbers were leased, which is also the greatest of them.
    pub const fn leased(&self) -> u32 {
        self.leased
    }

    /// How many numbers were given to children, which is also the greatest of them.
    pub const fn used(&self) -> u32 {
        self.used
    }

    /// True when every number was given: the parent takes no further child (M09, M11).
    pub const fn is_spent(&self) -> bool {
        self.used == self.most
    }

    /// Counts from 1 again, and its leases with it: another transport is another parent to its peer
    /// (M07, M14).
    pub fn restart(&mut self) {
        *self = Self::new(self.most);
    }
}

/// How many numbers are used when half of the lease is, rounded up.
const fn half(first: u32, last: u32) -> u32 {
    first + (last - first) / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Cids, LAST_CID, LEASE, lease_behind};

    /// Uses so many numbers.
    fn take(cids: &mut Cids, count: u32) {
        for _ in 0..count {
            assert!(cids.next().is_some());
        }
    }

    #[test]
    fn mux_m07_numbers_count_from_1_up() {
        let mut cids = Cids::new(LAST_CID);
        for cid in 1..=LEASE {
            assert_eq!(cids.next(), Some(cid));
        }
        assert_eq!((cids.used(), cids.leased()), (1024, 1024));
    }

    #[test]
    fn mux_m08_the_first_lease_is_there_from_the_start_and_never_above_the_capacity() {
        for (most, leased) in [(0, 1), (1, 1), (1023, 1023), (1024, 1024), (5000, 1024)] {
            assert_eq!(Cids::new(most).leased(), leased, "{most}");
        }
    }

    #[test]
    fn mux_m08_the_next_lease_is_asked_for_once_when_half_is_used() {
        let mut cids = Cids::new(3000);
        take(&mut cids, 511);
        assert!(!cids.wants());
        take(&mut cids, 1);
        assert!(cids.wants() && !cids.wants());
        take(&mut cids, 512);
        assert!(!cids.wants());
        assert!(cids.granted(1025, 2048));
        assert!(!cids.wants());
        take(&mut cids, 511);
        assert!(!cids.wants());
        take(&mut cids, 1);
        assert!(cids.wants());
        assert!(cids.granted(2049, 3000));
        take(&mut cids, 952 + 512);
        assert!(!cids.wants(), "there are no more");
    }

    #[test]
    fn mux_m08_a_child_waits_until_a_lease_comes() {
        let mut cids = Cids::new(LAST_CID);
        take(&mut cids, LEASE);
        assert_eq!(cids.next(), None);
        assert!(cids.wants());
        assert_eq!(cids.next(), None);
        assert!(!cids.is_spent());
        assert!(cids.granted(1025, 1026));
        assert_eq!([cids.next(), cids.next(), cids.next()], [Some(1025), Some(1026), None]);
    }

    #[test]
    fn mux_m08_a_lease_stands_behind_the_mark_and_ends_with_the_capacity() {
        assert_eq!(lease_behind(1024, LAST_CID), Some((1025, 2048)));
        assert_eq!(lease_behind(1500, 2000), Some((1501, 2000)));
        assert_eq!(lease_behind(1999, 2000), Some((2000, 2000)));
        assert_eq!(lease_behind(2000, 2000), None);
        assert_eq!(lease_behind(3000, 2000), None);
    }

    #[test]
    fn mux_m09_no_lease_has_the_last_number() {
        let last = 4_294_967_294;
        assert_eq!(lease_behind(last - 1000, u32::MAX), Some((last - 999, last)));
        assert_eq!(lease_behind(last, u32::MAX), None);
        assert_eq!(lease_behind(u32::MAX, u32::MAX), None);
    }

    #[test]
    fn mux_m08_a_lease_in_the_wrong_place_is_refused() {
        let mut cids = Cids::new(5000);
        take(&mut cids, 600);
        assert!(cids.wants());
        let wrong = [(1, 1024), (1024, 2048), (1026, 2048), (1025, 1024), (1025, 5001), (0, 0)];
        for (first, last) in wrong {
            assert!(!cids.granted(first, last), "{first} to {last}");
        }
        assert!(!cids.wants(), "what was asked for is still to come");
        assert!(cids.granted(1025, 2048));
        assert!(!cids.granted(1025, 2048), "twice");
        assert_eq!((cids.used(), cids.leased()), (600, 2048));
    }

    #[test]
    fn mux_m09_the_last_number_is_never_given() {
        let mut cids = Cids::new(u32::MAX);
        assert_eq!(cids.most(), 4_294_967_294);
        assert!(!cids.granted(1025, 4_294_967_295));
        assert!(cids.granted(1025, 4_294_967_294));
        cids.used = 4_294_967_293;
        assert!(!cids.is_spent());
        assert_eq!(cids.next(), Some(4_294_967_294));
        assert!(cids.is_spent() && !cids.wants());
        assert_eq!(cids.next(), None);
        assert!(!cids.granted(4_294_967_295, 4_294_967_295));
    }

    #[test]
    fn mux_m11_a_capacity_is_spent_with_its_last_number() {
        let mut cids = Cids::new(2);
        assert!(!cids.is_spent());
        assert_eq!([cids.next(), cids.next(), cids.next()], [Some(1), Some(2), None]);
        assert!(cids.is_spent() && !cids.wants());
    }

    #[test]
    fn mux_m14_a_fresh_transport_counts_from_1_again_and_asks_anew() {
        let mut cids = Cids::new(LAST_CID);
        take(&mut cids, 700);
        assert!(cids.wants());
        cids.restart();
        assert!(!cids.wants(), "the first lease is there");
        assert!(cids.granted(1025, 2048));
        assert_eq!(cids.next(), Some(1));
        take(&mut cids, 2047);
        assert_eq!(cids.next(), None);
    }

    /// What happens to a parent's numbers.
    #[derive(Clone, Debug)]
    enum Step {
        /// So many children come.
        Take(u32),
        /// The supervisor answers, with so many.
        Grant(u32),
        /// Any lease comes, from a supervisor that knows nothing.
        Stray(u32, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..1500u32).prop_map(Step::Take),
            (1..=LEASE).prop_map(Step::Grant),
            (0..9000u32, 0..9000u32).prop_map(|(first, last)| Step::Stray(first, last)),
            (any::<u32>(), any::<u32>()).prop_map(|(first, last)| Step::Stray(first, last)),
        ]
    }

    proptest! {
        #[test]
        fn mux_m07_m08_m09_in_order_and_never_twice_whatever_is_granted_when(
            most in prop_oneof![1..6000u32, (LAST_CID - 10)..=u32::MAX],
            steps in prop::collection::vec(step(), 1..40),
        ) {
            let mut cids = Cids::new(most);
            let (mut last_given, mut underway) = (0, false);
            for step in steps {
                match step {
                    Step::Take(count) => {
                        for _ in 0..count {
                            let Some(cid) = cids.next() else {
                                prop_assert_eq!(cids.used(), cids.leased());
                                break;
                            };
                            prop_assert_eq!(cid, last_given + 1);
                            prop_assert!(cid != 0 && cid != u32::MAX && cid <= most);
                            last_given = cid;
                        }
                    }
                    Step::Grant(count) if underway => {
                        let first = cids.leased() + 1;
                        prop_assert!(cids.granted(first, (cids.leased() + count).min(cids.most())));
                        underway = false;
                    }
                    Step::Grant(_) => {}
                    Step::Stray(first, last) => {
                        let before = cids.leased();
                        let taken = cids.granted(first, last);
                        prop_assert_eq!(taken, cids.leased() > before);
                        underway &= !taken;
                    }
                }
                let wants = cids.wants();
                prop_assert!(!(wants && underway), "asked twice");
                underway |= wants;
                prop_assert!(!cids.wants(), "asked twice");
                prop_assert!(cids.used() <= cids.leased() && cids.leased() <= cids.most());
                prop_assert!(cids.is_spent() || underway || cids.used() < cids.leased());
            }
        }
    }
}
