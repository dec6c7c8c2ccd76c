//! Small questions about a message: what scripts know as `siputils`. Each gives 1 for yes and -1
//! for no.

use super::draft::Draft;
use super::own::Own;

/// `has_totag()`: the message belongs to a dialog.
pub fn has_totag(_draft: &Draft) -> i64 {
    unimplemented!()
}

/// `is_request()`.
pub fn is_request(draft: &Draft) -> i64 {
    if draft.message.is_request() { 1 } else { -1 }
}

/// `is_reply()`.
pub fn is_reply(draft: &Draft) -> i64 {
    -is_request(draft)
}

/// `is_first_hop()`: a request came straight from its sender, a reply straight from the one who
/// made it.
pub fn is_first_hop(_draft: &Draft, _own: &Own) -> i64 {
    unimplemented!()
}

/// `is_tel_number(text)`: digits, with a `+` in front or without.
pub fn is_tel_number(_text: &[u8]) -> i64 {
    unimplemented!()
}
