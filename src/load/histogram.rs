//! Durations counted in buckets of at most 1/64 of their value, so that percentiles of any number of samples take
//! constant memory.

use std::time::Duration;

/// Each power of two is cut in `1 << FINE` buckets.
const FINE: u32 = 6;

/// Counts of durations, with at most 1.6 % error for each sample (the maximum is exact).
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Histogram {
    /// Counts one duration; what is longer than 584 years counts as that.
    pub fn record(&mut self, sample: Duration) {
        let nanos = u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX);
        let at = bucket(nanos);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.total += 1;
        self.max = self.max.max(nanos);
    }

    /// Adds what another histogram counted.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// How many samples were counted.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The longest sample, exact; zero when there is none.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The duration that the part `fraction` (0 to 1) of all samples does not exceed (nearest rank, upper edge of
    /// the bucket, never above the maximum); zero when there is none.
    pub fn percentile(&self, fraction: f64) -> Duration {
        let rank = ((self.total as f64 * fraction).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(upper_edge(at).min(self.max));
            }
        }
        Duration::ZERO
    }
}

/// The bucket of a value: values below `2 << FINE` have one each, then each power of two has `1 << FINE`.
fn bucket(value: u64) -> usize {
    let bits = 64 - value.leading_zeros();
    let shift = bits.saturating_sub(FINE + 1);
    ((shift as usize) << FINE) + (value >> shift) as usize
}

/// The largest value of a bucket.
fn upper_edge(bucket: usize) -> u64 {
    let shift = (bucket >> FINE).saturating_sub(1);
    let top = (bucket - (shift << FINE)) as u64;
    (top << shift) + ((1u64 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_hold_their_values_and_lie_close() {
        for value in
            (0..2_000).chain((11..64).flat_map(|p| [(1u64 << p) - 1, 1 << p, (1 << p) + 1]))
        {
            let at = bucket(value);
            let edge = upper_edge(at);
            assert!(edge >= value, "{value} in {at} up to {edge}");
            assert!(edge - value <= value / 64, "{value} in {at} up to {edge}");
            assert!(at == 0 || upper_edge(at - 1) < value, "{value} in {at}");
        }
        assert_eq!(upper_edge(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let mut h = Histogram::default();
        for nanos in 1..=100 {
            h.record(Duration::from_nanos(nanos));
        }
        assert_eq!(h.percentile(0.5), Duration::from_nanos(50));
        assert_eq!(h.percentile(0.99), Duration::from_nanos(99));
        assert_eq!(h.percentile(1.0), Duration::from_nanos(100));
        assert_eq!(h.percentile(0.0), Duration::from_nanos(1));
        assert_eq!(h.len(), 100);
    }

    #[test]
    fn no_percentile_exceeds_the_exact_maximum() {
        let mut h = Histogram::default();
        h.record(Duration::from_nanos(1_000_001));
        assert_eq!(h.percentile(0.5), h.max());
        assert_eq!(h.max(), Duration::from_nanos(1_000_001));
    }

    #[test]
    fn empty_is_zero() {
        let h = Histogram::default();
        assert!(h.is_empty());
        assert_eq!(h.percentile(0.99), Duration::ZERO);
    }

    #[test]
    fn merged_is_as_if_counted_together() {
        let (mut a, mut b, mut both) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for nanos in [5, 700, 90_000] {
            a.record(Duration::from_nanos(nanos));
            both.record(Duration::from_nanos(nanos));
        }
        for nanos in [6, 8_000_000] {
            b.record(Duration::from_nanos(nanos));
            both.record(Duration::from_nanos(nanos));
        }
        a.merge(&b);
        assert_eq!(a.counts, both.counts);
        assert_eq!((a.len(), a.max()), (both.len(), both.max()));
    }
}
