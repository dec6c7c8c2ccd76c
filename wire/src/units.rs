//! Values that can only be right: what a configuration number becomes once it was read.

use std::fmt;
use std::num::NonZeroU16;
use std::time::Duration;

/// A TCP or UDP port, 1 to 65535; or [`Port::ANY`], where the system chooses (T01, "port 0").
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(u16);

impl Port {
    /// The system chooses a free port. Never the result of [`Port::new`].
    pub const ANY: Self = Self(0);

    /// A port from a number; `None` unless it is 1 to 65535.
    pub fn new(number: i64) -> Option<Self> {
        let number = u16::try_from(number).ok()?;
        NonZeroU16::new(number).map(|n| Self(n.get()))
    }

    /// The number; 0 for [`Port::ANY`].
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Port({})", self.0)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteCount(u64);

impl ByteCount {
    /// A count of bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of bytes as a length in memory; the largest length where it does not fit.
    pub fn as_len(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// A time in whole milliseconds. For many settings 0 means "no limit": [`Millis::limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Millis(u64);

impl Millis {
    /// A time of so many milliseconds.
    pub const fn new(millis: u64) -> Self {
        Self(millis)
    }

    /// The number of milliseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The time.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// The time, or `None` where 0 switches the limit off.
    pub const fn limit(self) -> Option<Duration> {
        if self.0 == 0 { None } else { Some(self.duration()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Millis, Port};

    #[test]
    fn a_port_is_1_to_65535() {
        for wrong in [0, -1, 65_536, i64::MAX, i64::MIN] {
            assert_eq!(Port::new(wrong), None, "{wrong}");
        }
        assert_eq!(Port::new(1).map(Port::get), Some(1));
        assert_eq!(Port::new(65_535).map(Port::get), Some(65_535));
    }

    #[test]
    fn zero_milliseconds_are_no_limit() {
        assert_eq!(Millis::new(0).limit(), None);
        assert_eq!(Millis::new(2).limit(), Some(Millis::new(2).duration()));
    }
}
