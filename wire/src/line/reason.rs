//! Why a line ended (L08).

use std::fmt;

/// Why a line ended: one closed set that is the metric label, the log field and the admin field
/// (L08).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FinishReason {
    /// Either side ended or reset its connection.
    PeerFinished,
    /// The onward connection was refused, unreachable or its name did not resolve (T12).
    ConnectFailed,
    /// A time limit other than idleness: connect, linger, probe, tester.
    Timeout,
    /// Nothing moved for the idle time (T06).
    Idle,
    /// A limit on bytes or buffers would have been broken.
    Overflow,
    /// The other side sent what the protocol does not allow.
    ProtocolError,
    /// The service or the node is stopping and the drain limit is over.
    Drain,
    /// An operator closed the line.
    Admin,
    /// The line's actor, or one that it depends on, panicked.
    Panic,
}

impl FinishReason {
    /// Every reason, in the order of the metrics.
    pub const ALL: [Self; 9] = [
        Self::PeerFinished,
        Self::ConnectFailed,
        Self::Timeout,
        Self::Idle,
        Self::Overflow,
        Self::ProtocolError,
        Self::Drain,
        Self::Admin,
        Self::Panic,
    ];

    /// The word used as metric label, log field and admin field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PeerFinished => "peer-finished",
            Self::ConnectFailed => "connect-failed",
            Self::Timeout => "timeout",
            Self::Idle => "idle",
            Self::Overflow => "overflow",
            Self::ProtocolError => "protocol-error",
            Self::Drain => "drain",
            Self::Admin => "admin",
            Self::Panic => "panic",
        }
    }
}

impl fmt::Display for FinishReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::FinishReason;

    #[test]
    fn line_l08_every_reason_has_a_word_of_its_own_and_its_place_in_all() {
        let mut words: Vec<_> = FinishReason::ALL.iter().map(|r| r.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), FinishReason::ALL.len());
        for (place, reason) in FinishReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, place);
        }
    }
}
