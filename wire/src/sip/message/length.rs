//! Content-Length.

/// What the Content-Length headers of a message say (S-19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentLength {
    /// There is none.
    Missing,
    /// One number; several equal headers are one.
    Bytes(u64),
    /// Not a number, negative, above what a `u64` holds, or several that differ.
    Bad,
}

impl ContentLength {
    /// What one more header adds to it.
    pub(super) fn and(self, value: &[u8]) -> Self {
        let digit = |digit: &u8| digit.is_ascii_digit().then(|| u64::from(digit - b'0'));
        let number = value.iter().try_fold(0_u64, |sum, byte| {
            sum.checked_mul(10).zip(digit(byte)).and_then(|(sum, digit)| sum.checked_add(digit))
        });
        match (self, number.filter(|_| !value.is_empty())) {
            (Self::Missing, Some(number)) => Self::Bytes(number),
            (Self::Bytes(before), Some(number)) if before == number => self,
            _ => Self::Bad,
        }
    }
}
