//! The branch of the own Via (contract 1.4): the same for each copy of a request.

use super::message::Message;

/// The magic cookie (RFC 3261 8.1.1.7).
pub const COOKIE: &[u8] = b"z9hG4bK";

/// Writes the branch of a request: `cookie hash . md5 . index`.
pub fn write(_message: &Message, _index: u32, _out: &mut Vec<u8>) {
    unimplemented!()
}

/// Writes a number in hexadecimal, least significant digit first, without padding.
pub fn write_reversed_hex(_number: u32, _out: &mut Vec<u8>) {
    unimplemented!()
}

/// Reads such a number.
pub fn read_reversed_hex(_text: &[u8]) -> Option<u32> {
    unimplemented!()
}
