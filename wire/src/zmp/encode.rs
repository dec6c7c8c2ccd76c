//! What is to be written on one connection: frames, in order, as slices for a vectored write.

use std::io::IoSlice;

use bytes::Bytes;

use super::record::{Charge, Outgoing};

/// The bytes that wait to be written, in order.
#[derive(Debug, Default)]
pub struct Writer {}

#[allow(clippy::unimplemented, unused_variables)]
impl Writer {
    /// Adds the frames of a record or a control frame.
    pub fn push(&mut self, outgoing: Outgoing) {
        unimplemented!()
    }

    /// Adds bytes that are frames already: a handshake, an ERROR.
    pub fn push_bytes(&mut self, bytes: Bytes) {
        unimplemented!()
    }

    /// Fills `slices` from the front with what waits; gives how many it filled.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        unimplemented!()
    }

    /// So many bytes were written; gives the charge of the records that are wholly written by that.
    pub fn advance(&mut self, written: usize) -> Charge {
        unimplemented!()
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        unimplemented!()
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
