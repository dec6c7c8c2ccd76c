//! What the router, transactions and branches tell each other.

use actix::prelude::*;
use bytes::Bytes;
use lineway_wire::sip::draft::{Draft, Failure};
use lineway_wire::sip::transaction::{Pass, Timing};
use tokio::sync::oneshot;

use super::home::Hold;
use super::legs::RelayWay;
use crate::sip::router::sending::Elsewhere;
use crate::sip::script::kemi::Vars;
use crate::sip::script::tm::{Armed, TimingChange};

// ---- router to transaction ---------------------------------------------------------------------

/// `t_relay()` of a request that has its transaction already.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::sip) struct Relay {
    pub(in crate::sip) draft: Box<Draft>,
    pub(in crate::sip) vars: Vars,
    pub(in crate::sip) armed: Armed,
    pub(in crate::sip) timing: TimingChange,
    pub(in crate::sip) way: RelayWay,
    pub(in crate::sip) answer: oneshot::Sender<Result<(), Failure>>,
}

/// The request came once more.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::sip) struct Again(
    #[expect(dead_code, reason = "the call is held for as long as the message is there")]
    pub(in crate::sip) Hold,
);

/// The ACK of its final came.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::sip) struct Acked(
    #[expect(dead_code, reason = "the call is held for as long as the message is there")]
    pub(in crate::sip) Hold,
);

/// The caller cancels it.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::sip) struct Cancelled {
    /// The Reason lines of the CANCEL.
    pub(in crate::sip) reasons: Vec<Bytes>,
    pub(in crate::sip) hold: Hold,
}

/// Times that the script has set behind its `t_relay()`.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::sip) struct Times(pub(in crate::sip) TimingChange);

/// The script replies.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::sip) struct ReplyWith {
    pub(in crate::sip) code: u16,
    pub(in crate::sip) reason: Bytes,
    pub(in crate::sip) lines: Vec<Bytes>,
    /// The request as the script has left it, for a redirection: it names its targets (R111).
    pub(in crate::sip) draft: Option<Box<Draft>>,
    #[expect(dead_code, reason = "the call is held for as long as the message is there")]
    pub(in crate::sip) hold: Hold,
}

/// `t_release()`.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::sip) struct Release;

/// Its chain ends.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Finish;

// ---- branch to transaction ---------------------------------------------------------------------

/// A branch says something.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct BranchSays {
    pub(super) branch: u16,
    pub(super) word: Word,
    /// Its call waits until it is done.
    pub(super) hold: Option<Hold>,
}

/// What a branch says.
pub(super) enum Word {
    /// Its request has left, or could not be sent; said only where that took time.
    Sent(Result<(), Failure>),
    /// A reply that the transaction is to hear of.
    Reply(Pass, Box<Draft>),
    /// It waits no longer.
    Timeout {
        /// It had a provisional.
        spoke: bool,
    },
    /// The same as the last word, but that it can be tried elsewhere.
    Elsewhere(Box<Elsewhere>, Box<Word>),
    /// It was given up before it spoke.
    Gone,
    /// Its actor panicked.
    Broken,
}

// ---- router and transaction to branch ----------------------------------------------------------

/// A reply came for a branch.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::sip) struct Replied {
    /// It, as the reply route that every reply goes through has left it.
    pub(in crate::sip) draft: Box<Draft>,
    /// It answers the branch's CANCEL.
    pub(in crate::sip) of_cancel: bool,
    /// Its call waits until it is done.
    pub(in crate::sip) hold: Hold,
}

/// The transaction does not want the branch any more.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct CancelBranch {
    /// Whole header lines of Reason (R59, R65).
    pub(super) reasons: Vec<Bytes>,
}

/// The transaction has its final.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Settle;

/// The supervisor says that its deadline is over.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Overdue;

/// The script has set other times.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Retime(pub(super) Timing);

/// The transaction is gone.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct EndBranch;
