//! Answers within their lifetime.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::DnsError;
use super::records::{Kind, Records};

/// Names that one worker keeps answers of.
const MAX_NAMES: usize = 4_096;

/// The longest lifetime of an answer with records, whatever its TTL says.
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest lifetime of an answer without records; RFC 2308 5 allows more.
const MAX_NEGATIVE_TTL: Duration = Duration::from_secs(30);

/// How long a failure is kept, and how young an answer is that nobody can distrust: however many
/// lines fail, a name is asked for about once a second at most.
const SHORT: Duration = Duration::from_secs(1);

/// Answers by name and kind, bounded in number.
#[derive(Debug, Default)]
pub(super) struct Cache {
    names: HashMap<Arc<str>, Answers>,
}

/// The answers of a name by kind.
type Answers = [Option<Entry>; Kind::ALL.len()];

#[derive(Debug)]
struct Entry {
    result: Result<Records, DnsError>,
    since: Instant,
    until: Instant,
}

impl Cache {
    /// The answer of this kind, if it is still within its lifetime.
    pub(super) fn get(
        &self,
        name: &str,
        kind: Kind,
        now: Instant,
    ) -> Option<Result<Records, DnsError>> {
        let entry = self.names.get(name)?[kind as usize].as_ref()?;
        (now < entry.until).then(|| entry.result.clone())
    }

    /// Keeps an answer for `ttl` within the limits of its kind; a TTL of 0 is for one use and not
    /// kept.
    pub(super) fn put(
        &mut self,
        name: &Arc<str>,
        kind: Kind,
        result: Result<Records, DnsError>,
        ttl: Duration,
        now: Instant,
    ) {
        let limit = match &result {
            Ok(records) if !records.is_empty() => MAX_TTL,
            Ok(_) | Err(DnsError::NotFound) => MAX_NEGATIVE_TTL,
            Err(DnsError::Failed) => SHORT,
        };
        let ttl = ttl.min(limit);
        if ttl.is_zero() {
            return;
        }
        if !self.names.contains_key(name) {
            self.make_room(now);
        }
        let answers = self.names.entry(Arc::clone(name)).or_default();
        answers[kind as usize] = Some(Entry { result, since: now, until: now + ttl });
    }

    /// Forgets what is known of a name, unless they are fresh.
    pub(super) fn distrust(&mut self, name: &str, now: Instant) {
        if let Some(answers) = self.names.get_mut(name) {
            for answer in answers {
                answer.take_if(|entry| now.duration_since(entry.since) >= SHORT);
            }
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.names.clear();
    }

    fn make_room(&mut self, now: Instant) {
        if self.names.len() < MAX_NAMES {
            return;
        }
        self.names.retain(|_, answers| until(answers).is_some_and(|until| now < until));
        if self.names.len() >= MAX_NAMES {
            let soonest = self.names.iter().min_by_key(|(_, answers)| until(answers));
            if let Some(name) = soonest.map(|(name, _)| Arc::clone(name)) {
                self.names.remove(&name);
            }
        }
    }
}

/// When the last answer of a name is over.
fn until(answers: &Answers) -> Option<Instant> {
    answers.iter().flatten().map(|entry| entry.until).max()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn addresses(last: u8) -> Records {
        Records::Addresses([IpAddr::from([127, 0, 0, last])].into())
    }

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn tcp_t10_answers_live_as_long_as_their_kind_may() {
        let now = Instant::now();
        let name: Arc<str> = "dest.test".into();
        for (result, ttl, lives) in [
            (Ok(addresses(1)), secs(5), secs(5)),
            (Ok(addresses(1)), secs(u64::from(u32::MAX)), MAX_TTL),
            (Ok(Kind::A.nothing()), secs(3_600), MAX_NEGATIVE_TTL),
            (Err(DnsError::NotFound), secs(3_600), MAX_NEGATIVE_TTL),
            (Err(DnsError::NotFound), secs(7), secs(7)),
            (Err(DnsError::Failed), secs(3_600), SHORT),
        ] {
            let mut cache = Cache::default();
            cache.put(&name, Kind::A, result.clone(), ttl, now);
            let last = now + lives - Duration::from_millis(1);
            assert_eq!(cache.get(&name, Kind::A, last), Some(result));
            assert_eq!(cache.get(&name, Kind::A, now + lives), None);
            for other in [Kind::Aaaa, Kind::Srv, Kind::Naptr] {
                assert_eq!(cache.get(&name, other, now), None);
            }
        }
    }

    #[test]
    fn tcp_t10_a_ttl_of_zero_is_not_kept() {
        let now = Instant::now();
        let mut cache = Cache::default();
        cache.put(&"a".into(), Kind::A, Ok(addresses(1)), secs(0), now);
        assert_eq!(cache.get("a", Kind::A, now), None);
    }

    #[test]
    fn case_t25_a_distrusted_answer_is_forgotten_unless_it_is_fresh() {
        let now = Instant::now();
        let mut cache = Cache::default();
        cache.put(&"a".into(), Kind::A, Ok(addresses(1)), secs(60), now);
        cache.distrust("a", now + SHORT / 2);
        assert!(cache.get("a", Kind::A, now + SHORT / 2).is_some());
        cache.distrust("a", now + SHORT);
        assert_eq!(cache.get("a", Kind::A, now + SHORT), None);
    }

    #[test]
    fn tcp_t10_the_cache_is_bounded_and_loses_what_ends_first() {
        let now = Instant::now();
        let mut cache = Cache::default();
        for n in 0..MAX_NAMES as u64 {
            let name: Arc<str> = format!("n{n}").into();
            cache.put(&name, Kind::A, Ok(addresses(1)), secs(10 + n), now);
        }
        cache.put(&"more".into(), Kind::A, Ok(addresses(2)), secs(5), now);
        assert_eq!(cache.names.len(), MAX_NAMES);
        assert_eq!(cache.get("n0", Kind::A, now), None);
        assert!(cache.get("n1", Kind::A, now).is_some());
        // With the first ones over, they make room and nothing else goes.
        let later = now + secs(100);
        cache.put(&"later".into(), Kind::A, Ok(addresses(3)), secs(5), later);
        assert!(cache.names.len() < MAX_NAMES);
        assert!(cache.get("n91", Kind::A, later).is_some());
    }
}
