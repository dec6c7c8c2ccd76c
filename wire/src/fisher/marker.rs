//! One of the two markers, as it comes in at any segmentation.

use super::MARKER_LEN;

/// Waits for the five bytes of a marker. They are looked at when all of them are there (C08).
#[derive(Clone, Copy, Debug)]
pub struct Marker {
    expected: [u8; MARKER_LEN],
    got: [u8; MARKER_LEN],
    len: usize,
}

/// What some more bytes mean for a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All of them were taken, and more are needed.
    More,
    /// The marker is whole and right; this many of the bytes belonged to it.
    Right(usize),
    /// The marker is whole and wrong.
    Wrong,
}

impl Marker {
    /// Waits for this marker.
    pub const fn new(expected: [u8; MARKER_LEN]) -> Self {
        Self { expected, got: [0; MARKER_LEN], len: 0 }
    }

    /// Takes the next bytes. Not to be called again after `Right` or `Wrong`.
    pub fn feed(&mut self, bytes: &[u8]) -> Step {
        let taken = bytes.len().min(MARKER_LEN - self.len);
        self.got[self.len..self.len + taken].copy_from_slice(&bytes[..taken]);
        self.len += taken;
        if self.len < MARKER_LEN {
            Step::More
        } else if self.got == self.expected {
            Step::Right(taken)
        } else {
            Step::Wrong
        }
    }

    /// Bytes that were taken so far: 4 at most while it is not whole.
    pub const fn kept(&self) -> usize {
        self.len
    }
}
