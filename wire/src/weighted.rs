//! Smooth weighted round robin: which of several targets is next.

/// Gives each of several targets its share of the turns, spread evenly: with weights 5, 1, 1 the
/// order is `a a b a c a a`.
#[derive(Clone, Debug)]
pub struct Weighted {
    targets: Vec<(i64, i64)>,
    total: i64,
}

impl Weighted {
    /// Targets with these weights; a weight of 0 counts as 1.
    pub fn new(weights: impl IntoIterator<Item = u32>) -> Self {
        let targets: Vec<_> = weights.into_iter().map(|w| (i64::from(w.max(1)), 0)).collect();
        Self { total: targets.iter().map(|(weight, _)| weight).sum(), targets }
    }

    /// The index of the target whose turn it is; 0 where there is none or one.
    pub fn choose(&mut self) -> usize {
        if self.targets.len() < 2 {
            return 0;
        }
        for (weight, credit) in &mut self.targets {
            *credit += *weight;
        }
        let mut best = 0;
        for index in 1..self.targets.len() {
            if self.targets[index].1 > self.targets[best].1 {
                best = index;
            }
        }
        self.targets[best].1 -= self.total;
        best
    }
}

#[cfg(test)]
mod tests {
    use super::Weighted;

    #[test]
    fn shares_are_exact_over_one_round_and_spread_evenly() {
        let mut weighted = Weighted::new([5, 1, 1]);
        let turns: Vec<_> = (0..7).map(|_| weighted.choose()).collect();
        assert_eq!(turns, [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn one_target_or_none_is_always_the_first() {
        assert_eq!(Weighted::new([]).choose(), 0);
        assert_eq!(Weighted::new([9]).choose(), 0);
    }

    #[test]
    fn the_largest_weights_do_not_overflow() {
        let mut weighted = Weighted::new([u32::MAX; 16]);
        let turns: Vec<_> = (0..16).map(|_| weighted.choose()).collect();
        assert_eq!(turns, (0..16).collect::<Vec<_>>());
    }
}
