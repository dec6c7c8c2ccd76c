//! Messages that a transaction makes by itself: the ACK of a failure, CANCEL, and replies.

use bytes::Bytes;

use crate::sip::draft::Draft;
use crate::sip::message::Message;

/// The ACK of a final of 300 and above (R43, R44, R120): built from the INVITE as it was sent.
pub fn ack(sent: &Message, reply: &Message) -> Vec<u8> {
    todo!()
}

/// The CANCEL of a branch (R54, R59, R65, R120), with these whole header lines of Reason.
pub fn cancel(sent: &Message, reasons: &[Bytes]) -> Vec<u8> {
    todo!()
}

/// The To tag of replies that a transaction makes (R109): one for each transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub [u8; 41]);

/// Writes a reply that is made here with the transaction's own tag (R38, R77, R79, R108): like a
/// stateless one, with these whole header lines behind (challenges, what the script appended).
pub fn reply_headers(
    draft: &Draft,
    code: u16,
    reason: &[u8],
    tag: &Tag,
    lines: &[Bytes],
    out: &mut Vec<u8>,
) {
    todo!()
}
