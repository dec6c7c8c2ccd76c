//! What is to be written on one connection: frames, in order, as slices for a vectored write.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use super::control;
use super::frame::{EXTENSION_BYTES, HEADER_BYTES, Header};
use super::record::{Charge, Kind, Outgoing, Record};

/// A payload of so many bytes is not copied behind its header.
const LARGE: usize = 4096;

/// So many written bytes stay in front of the copied ones before the rest moves up.
const MOVE_UP: usize = 64 * 1024;

/// A buffer that grew above this is given back once it is empty.
const KEPT: usize = 256 * 1024;

/// What stands next in line.
#[derive(Debug)]
enum Piece {
    /// So many of the copied bytes.
    Copied(usize),
    /// Bytes of their own.
    Shared(Bytes),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Copied(length) => *length,
            Self::Shared(bytes) => bytes.len(),
        }
    }
}

/// Bytes that end together.
#[derive(Clone, Copy, Debug)]
struct Unit {
    bytes: usize,
    charge: Charge,
}

/// The bytes that wait to be written, in order. Headers and small payloads are copied into one
/// buffer, which is used again and again; large payloads stay where they are.
#[derive(Debug, Default)]
pub struct Writer {
    /// Copied bytes; those before `head` are written.
    copied: Vec<u8>,
    head: usize,
    /// What is not written yet; none of them is empty.
    pieces: VecDeque<Piece>,
    units: VecDeque<Unit>,
    /// Written bytes of the first unit.
    written_of_unit: usize,
    length: usize,
}

impl Writer {
    /// Adds the frames of a record or a control frame.
    ///
    /// # Panics
    /// A part above the 4 GiB that a frame can have: the socket does not take one.
    #[inline]
    pub fn push(&mut self, outgoing: Outgoing) {
        match outgoing {
            Outgoing::Record(kind, record) => self.record(kind, record),
            Outgoing::Weight(weight) => {
                self.control(|to| control::put_weight(to, weight));
            }
            Outgoing::FlowState { state, epoch } => {
                self.control(|to| control::put_flow_state(to, state, epoch));
            }
        }
    }

    /// Adds bytes that are frames already: a handshake, an ERROR.
    pub fn push_bytes(&mut self, bytes: Bytes) {
        self.control(|to| to.extend_from_slice(&bytes));
    }

    fn control(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let before = self.copied.len();
        put(&mut self.copied);
        let bytes = self.copied.len() - before;
        if bytes > 0 {
            self.add_copied(bytes);
            self.units.push_back(Unit { bytes, charge: 0 });
        }
    }

    #[inline]
    fn record(&mut self, mut kind: Kind, record: Record) {
        let charge = record.charge();
        let before = self.length;
        let parts = record.into_parts();
        let mut left = parts.len();
        for part in parts {
            left -= 1;
            let size = u32::try_from(part.len()).expect("the socket refuses larger parts");
            let (header, length) = Header::part(kind, left > 0, size).encode();
            kind = Kind::Data;
            if part.len() < LARGE {
                self.copied.reserve(HEADER_BYTES + EXTENSION_BYTES + part.len());
                self.copied.extend_from_slice(&header[..length]);
                self.copied.extend_from_slice(&part);
                self.add_copied(length + part.len());
            } else {
                self.copied.extend_from_slice(&header[..length]);
                self.add_copied(length);
                self.length += part.len();
                self.pieces.push_back(Piece::Shared(part));
            }
        }
        self.units.push_back(Unit { bytes: self.length - before, charge });
    }

    #[inline]
    fn add_copied(&mut self, bytes: usize) {
        self.length += bytes;
        match self.pieces.back_mut() {
            Some(Piece::Copied(length)) => *length += bytes,
            _ => self.pieces.push_back(Piece::Copied(bytes)),
        }
    }

    /// Fills `slices` from the front with what waits; gives how many it filled.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut copied = &self.copied[self.head..];
        let mut filled = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(match piece {
                Piece::Shared(bytes) => bytes,
                Piece::Copied(length) => {
                    let (these, rest) = copied.split_at(*length);
                    copied = rest;
                    these
                }
            });
            filled += 1;
        }
        filled
    }

    /// So many bytes were written, no more than wait; gives the charge of the records that are
    /// wholly written by that.
    pub fn advance(&mut self, written: usize) -> Charge {
        debug_assert!(written <= self.length, "more was written than waits");
        self.length -= written;
        let mut left = written;
        while left > 0
            && let Some(piece) = self.pieces.front_mut()
        {
            let of_this = left.min(piece.len());
            let whole = of_this == piece.len();
            match piece {
                Piece::Copied(length) => {
                    *length -= of_this;
                    self.head += of_this;
                }
                Piece::Shared(bytes) => bytes.advance(of_this),
            }
            if whole {
                self.pieces.pop_front();
            }
            left -= of_this;
        }
        self.reuse();
        self.wholly_written(written)
    }

    /// Makes room in the buffer of copied bytes, and gives it back when it has grown.
    fn reuse(&mut self) {
        let waiting = self.copied.len() - self.head;
        if waiting == 0 {
            self.copied.clear();
            self.head = 0;
            if self.copied.capacity() > KEPT {
                self.copied = Vec::new();
            }
        } else if self.head >= MOVE_UP.max(waiting) {
            self.copied.drain(..self.head);
            self.head = 0;
        }
    }

    /// The charge of the units that end within the next `written` bytes.
    fn wholly_written(&mut self, written: usize) -> Charge {
        self.written_of_unit += written;
        let mut charge = 0;
        while let Some(unit) = self.units.front()
            && unit.bytes <= self.written_of_unit
        {
            self.written_of_unit -= unit.bytes;
            charge += unit.charge;
            self.units.pop_front();
        }
        charge
    }

    /// Records that are not wholly written.
    pub fn records(&self) -> usize {
        self.units.iter().filter(|unit| unit.charge > 0).count()
    }

    /// Bytes that wait.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests;
