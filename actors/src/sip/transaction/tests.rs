use std::mem::size_of;

use super::{SipBranch, SipTransaction};

/// An INVITE with three branches in flight has to stay below 8 KiB, with what actix, tokio and the
/// messages take beside the actors themselves.
#[test]
fn transactions_and_branches_take_little_room() {
    assert!(size_of::<SipBranch>() <= 352, "{}", size_of::<SipBranch>());
    assert!(size_of::<SipTransaction>() <= 544, "{}", size_of::<SipTransaction>());
}
