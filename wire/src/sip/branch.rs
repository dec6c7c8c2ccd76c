//! The branch of the own Via (contract 1.4): the same for each copy of a request.
//!
//! `cookie hash . md5 . index`: the hash stands on Call-ID and `CSeq` number, the MD5 on what tells
//! transactions apart, the index is that of the branch in a fork. ACK to a non-2xx and CANCEL have
//! all of that in common with their INVITE, so that they get its branch (RFC 3261 16.11).

use md5::{Digest, Md5};
use smallvec::SmallVec;

use super::draft::Draft;
use super::message::{Message, Method};

/// The magic cookie (RFC 3261 8.1.1.7).
pub const COOKIE: &[u8] = b"z9hG4bK";

/// The branch of a request (R2, R3, R20, R22, R24).
pub fn of(draft: &Draft, index: u32) -> SmallVec<[u8; 56]> {
    let mut branch = SmallVec::from_slice(COOKIE);
    branch.extend_from_slice(&reversed_hex(hash(&draft.message).into()));
    branch.push(b'.');
    for byte in md5(draft) {
        branch.push(DIGITS[usize::from(byte >> 4)]);
        branch.push(DIGITS[usize::from(byte & 15)]);
    }
    branch.push(b'.');
    branch.extend_from_slice(&reversed_hex(index));
    branch
}

/// The hash of Call-ID and `CSeq` number, the same for all messages of a transaction.
pub fn hash(message: &Message) -> u16 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(message.call_id());
    hasher.update(&message.cseq().number.to_be_bytes());
    let sum = hasher.finalize();
    #[expect(clippy::cast_possible_truncation, reason = "both halves are folded into one")]
    let folded = (sum ^ (sum >> 16)) as u16;
    folded
}

fn md5(draft: &Draft) -> [u8; 16] {
    let message = &draft.message;
    let via = message.via();
    let mut md5 = Md5::new();
    md5.update(message.from().tag().unwrap_or_default());
    if !matches!(message.method(), Method::Invite | Method::Ack | Method::Cancel) {
        md5.update(message.to().tag().unwrap_or_default());
    }
    md5.update(message.call_id());
    md5.update(draft.received_uri());
    md5.update(message.cseq().number.to_be_bytes());
    md5.update(via.host);
    md5.update(via.port_text.unwrap_or_default());
    md5.update(via.branch().unwrap_or_default());
    md5.finalize().into()
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A number in hexadecimal, least significant digit first, without padding.
pub fn reversed_hex(mut number: u32) -> SmallVec<[u8; 8]> {
    let mut text = SmallVec::new();
    loop {
        text.push(DIGITS[(number & 15) as usize]);
        number >>= 4;
        if number == 0 {
            return text;
        }
    }
}

/// Reads such a number: one to eight digits of any case.
pub fn read_reversed_hex(text: &[u8]) -> Option<u32> {
    if !(1..=8).contains(&text.len()) {
        return None;
    }
    text.iter()
        .rev()
        .try_fold(0, |number, &digit| Some(number << 4 | char::from(digit).to_digit(16)?))
}

#[cfg(test)]
mod tests;
