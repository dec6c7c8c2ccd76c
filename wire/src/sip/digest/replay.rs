//! Which uses of a nonce were seen: credentials are good for one request, which may come several
//! times over a network that loses and repeats.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

/// What a use of a nonce is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The first with this count.
    First,
    /// The same request once more.
    Again,
    /// Another request with credentials that were used.
    Reused,
    /// There was no room to remember it.
    Unwatched,
}

/// The uses of nonces, for as long as a nonce lives at least. The number of uses is bounded: once
/// all places are taken, uses pass unwatched until older ones are forgotten.
#[derive(Debug)]
pub struct Replays {
    most: usize,
    lifetime: Duration,
    since: Instant,
    /// By number of the nonce and count; the value stands for the request.
    recent: HashMap<(u64, u32), u64>,
    before: HashMap<(u64, u32), u64>,
}

impl Replays {
    /// Room for so many uses, each for the life of a nonce or twice that.
    pub fn new(most: usize, lifetime: Duration, now: Instant) -> Self {
        let (recent, before) = (HashMap::new(), HashMap::new());
        Self { most: most / 2, lifetime, since: now, recent, before }
    }

    /// Notes the use of a nonce, by its number and count. `request` is the same for copies of a
    /// request, and another for other requests.
    pub fn note(&mut self, nonce: u64, count: u32, request: u64, now: Instant) -> Use {
        let passed = now.saturating_duration_since(self.since);
        if passed >= self.lifetime {
            let recent = std::mem::take(&mut self.recent);
            self.before = if passed < 2 * self.lifetime { recent } else { HashMap::new() };
            self.since = now;
        }
        let known = |seen: u64| if seen == request { Use::Again } else { Use::Reused };
        if let Some(seen) = self.before.get(&(nonce, count)) {
            return known(*seen);
        }
        let is_full = self.recent.len() >= self.most;
        match self.recent.entry((nonce, count)) {
            Entry::Occupied(seen) => known(*seen.get()),
            Entry::Vacant(_) if is_full => Use::Unwatched,
            Entry::Vacant(place) => {
                place.insert(request);
                Use::First
            }
        }
    }
}
