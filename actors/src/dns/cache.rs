//! Answers that are still good (T10): within their TTL, bounded in number.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Addresses, DnsError, Family};

/// No answer is kept longer, whatever its TTL.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// No denial is kept longer (RFC 2308 allows hours; people who just made a name do not).
const LONGEST_DENIAL: Duration = Duration::from_secs(30);

/// How many answers are kept.
const KEPT: usize = 4096;

type Key = (Arc<str>, Family);

#[derive(Debug)]
struct Kept {
    answer: Result<Addresses, DnsError>,
    until: Instant,
}

/// Answers by name and family.
#[derive(Debug, Default)]
pub(super) struct Cache {
    answers: HashMap<Key, Kept>,
}

impl Cache {
    /// A kept answer that is still good.
    pub(super) fn get(&self, key: &Key, now: Instant) -> Option<Result<Addresses, DnsError>> {
        self.answers.get(key).filter(|kept| now < kept.until).map(|kept| kept.answer.clone())
    }

    /// Keeps an answer for its TTL; one of 0 is used once and not kept. A failure of the servers
    /// is no answer.
    pub(super) fn put(
        &mut self,
        key: Key,
        answer: Result<Addresses, DnsError>,
        ttl: Duration,
        now: Instant,
    ) {
        let longest = match answer {
            Ok(_) => LONGEST,
            Err(DnsError::NotFound) => LONGEST_DENIAL,
            Err(_) => return,
        };
        let ttl = ttl.min(longest);
        if ttl.is_zero() {
            return;
        }
        if self.answers.len() >= KEPT && !self.answers.contains_key(&key) {
            self.make_room(now);
        }
        self.answers.insert(key, Kept { answer, until: now + ttl });
    }

    /// Forgets what is kept of a name.
    pub(super) fn forget(&mut self, name: &str) {
        self.answers.retain(|(kept, _), _| **kept != *name);
    }

    fn make_room(&mut self, now: Instant) {
        self.answers.retain(|_, kept| now < kept.until);
        if self.answers.len() >= KEPT {
            let soonest = self.answers.iter().min_by_key(|(_, kept)| kept.until);
            if let Some(key) = soonest.map(|(key, _)| key.clone()) {
                self.answers.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::{Duration, Instant};

    use super::{Cache, KEPT};
    use crate::dns::{Addresses, DnsError, Family};

    const SECOND: Duration = Duration::from_secs(1);

    fn key(name: &str) -> super::Key {
        (name.into(), Family::V4)
    }

    fn one() -> Addresses {
        [IpAddr::from([192, 0, 2, 1])].into_iter().collect()
    }

    #[test]
    fn tcp_t10_an_answer_is_good_for_its_ttl_and_no_longer() {
        let now = Instant::now();
        let mut cache = Cache::default();
        cache.put(key("a"), Ok(one()), SECOND, now);
        assert_eq!(cache.get(&key("a"), now), Some(Ok(one())));
        assert_eq!(cache.get(&key("a"), now + SECOND), None);
        cache.put(key("b"), Ok(one()), Duration::ZERO, now);
        assert_eq!(cache.get(&key("b"), now), None, "a TTL of 0 is used once");
    }

    #[test]
    fn tcp_t10_a_denial_is_kept_for_half_a_minute_at_most_and_a_failure_never() {
        let now = Instant::now();
        let mut cache = Cache::default();
        cache.put(key("a"), Err(DnsError::NotFound), 3600 * SECOND, now);
        assert_eq!(cache.get(&key("a"), now + 29 * SECOND), Some(Err(DnsError::NotFound)));
        assert_eq!(cache.get(&key("a"), now + 30 * SECOND), None);
        cache.put(key("b"), Err(DnsError::Failed), SECOND, now);
        assert_eq!(cache.get(&key("b"), now), None);
    }

    #[test]
    fn case_t25_a_distrusted_name_is_asked_again() {
        let now = Instant::now();
        let mut cache = Cache::default();
        cache.put(key("a"), Ok(one()), SECOND, now);
        cache.put(key("b"), Ok(one()), SECOND, now);
        cache.forget("a");
        assert_eq!(cache.get(&key("a"), now), None);
        assert!(cache.get(&key("b"), now).is_some());
    }

    #[test]
    fn the_cache_is_bounded_and_the_soonest_to_end_goes_first() {
        let now = Instant::now();
        let mut cache = Cache::default();
        for n in 0..=KEPT {
            let ttl = SECOND * u32::try_from(n + 1).unwrap();
            cache.put(key(&n.to_string()), Ok(one()), ttl, now);
        }
        assert_eq!(cache.answers.len(), KEPT);
        assert_eq!(cache.get(&key("0"), now), None);
        assert!(cache.get(&key("1"), now).is_some());
    }
}
