//! What is done to a request that goes on (contract 1.3): own Via, received and rport, Path, edits,
//! Content-Length; everything else byte for byte.

use super::draft::Draft;
use super::own::{Own, Socket};

/// Writes the request as it leaves by this socket; `index` is the branch's.
pub fn request(_draft: &Draft, _own: &Own, _sending: &Socket, _index: u32, _out: &mut Vec<u8>) {
    unimplemented!()
}
