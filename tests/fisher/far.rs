//! The far side of a fisher's client, step by step in the hands of the test.

use std::net::TcpStream;

use crate::common::peers;
pub(crate) use crate::common::peers::{Far, send};

pub(crate) const PROBE: &[u8] = b"FISH?";
pub(crate) const REPLY: &[u8] = b"FISH!";

impl Far {
    /// The candidates of one line, each of which has sent its probe (C03).
    #[track_caller]
    pub(crate) fn candidates<const N: usize>(&self) -> [TcpStream; N] {
        let mut all = std::array::from_fn(|_| self.accept());
        for candidate in &mut all {
            assert_eq!(peers::read(candidate, 5), PROBE);
        }
        all
    }
}
