//! How an input is read: whatever the bytes are, they mean something.

/// An input that is taken from its front.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) const fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// The next byte, 0 behind the last one.
    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    /// The next bytes, fewer where there are no more.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A byte that counts those behind it, and these.
    pub(crate) fn counted(&mut self) -> &'a [u8] {
        let count = self.byte();
        self.take(count.into())
    }

    /// All that is left.
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.0
    }
}
