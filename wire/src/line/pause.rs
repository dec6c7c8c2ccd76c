//! Why a source is stopped (L06): a source runs only when no reason holds.

/// One reason for which a source is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PauseReason {
    /// A queue on the way is at its high-water mark, or waits for a choice (T04, C06).
    Queue = 1,
    /// The onward transport takes nothing (M27).
    Transport = 2,
    /// The other side of the wire asked for it (M26).
    Peer = 4,
}

impl PauseReason {
    /// Every reason, in the order of the metrics.
    pub const ALL: [Self; 3] = [Self::Queue, Self::Transport, Self::Peer];

    /// The word used as metric label, log field and admin field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Transport => "transport",
            Self::Peer => "peer",
        }
    }
}

/// The set of reasons that hold for one source.
///
/// Repeated `pause` and `resume` without `pause` are harmless (L06).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseReasons(u8);

impl PauseReasons {
    /// No reason: the source runs.
    pub const NONE: Self = Self(0);

    /// Adds a reason. True if the source ran until this call.
    pub fn pause(&mut self, reason: PauseReason) -> bool {
        let ran = self.0 == 0;
        self.0 |= reason as u8;
        ran
    }

    /// Adds all reasons of another set.
    pub const fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Takes a reason away. True if the source runs from this call on and did not before.
    pub fn resume(&mut self, reason: PauseReason) -> bool {
        let stood = self.0 != 0;
        self.0 &= !(reason as u8);
        stood && self.0 == 0
    }

    /// True while any reason holds.
    pub const fn paused(self) -> bool {
        self.0 != 0
    }

    /// True while this reason holds.
    pub const fn holds(self, reason: PauseReason) -> bool {
        self.0 & reason as u8 != 0
    }

    /// The set as bits, for a relaxed atomic that others read.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set from bits that [`Self::bits`] gave; bits without a reason are left out.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    /// The words of the reasons that hold, in the order of [`PauseReason::ALL`].
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        PauseReason::ALL.into_iter().filter(move |r| self.holds(*r)).map(PauseReason::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::{PauseReason, PauseReasons};

    #[test]
    fn line_l06_the_source_runs_only_when_no_reason_holds() {
        let mut reasons = PauseReasons::default();
        assert!(reasons.pause(PauseReason::Queue));
        assert!(!reasons.pause(PauseReason::Peer));
        assert!(!reasons.resume(PauseReason::Queue));
        assert!(reasons.paused());
        assert!(reasons.resume(PauseReason::Peer));
        assert!(!reasons.paused());
    }

    #[test]
    fn line_l06_repeated_pause_and_resume_without_pause_are_harmless() {
        let mut reasons = PauseReasons::default();
        assert!(!reasons.resume(PauseReason::Transport));
        assert!(reasons.pause(PauseReason::Transport));
        assert!(!reasons.pause(PauseReason::Transport));
        assert!(reasons.resume(PauseReason::Transport));
        assert!(!reasons.resume(PauseReason::Transport));
        assert_eq!(reasons, PauseReasons::NONE);
    }

    #[test]
    fn bits_come_back_as_the_same_set() {
        let mut reasons = PauseReasons::default();
        reasons.pause(PauseReason::Queue);
        reasons.pause(PauseReason::Peer);
        assert_eq!(PauseReasons::from_bits(reasons.bits()), reasons);
        assert_eq!(reasons.words().collect::<Vec<_>>(), ["queue", "peer"]);
    }
}
