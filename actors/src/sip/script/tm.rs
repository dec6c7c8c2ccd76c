//! What the functions of `KSR.tm` read and change: part of an invocation's context.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lineway_wire::sip::draft::{Draft, Failure, Target};
use lineway_wire::sip::own::Transport;
use lineway_wire::sip::transaction::{Timing, TransactionId};
use smallvec::SmallVec;

/// Which route runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteKind {
    /// `ksr_request_route`.
    #[default]
    Request,
    /// `ksr_reply_route`: before transactions, for every reply.
    Reply,
    /// Armed by `t_on_branch`: once for each branch, before its request is made.
    Branch,
    /// Armed by `t_on_reply`: for each reply of a branch.
    BranchReply,
    /// Armed by `t_on_failure`: when the last branch has failed.
    Failure,
    /// Armed by `t_on_branch_failure`: for each branch that failed.
    BranchFailure,
}

/// The routes that a script has armed, by name (contract 2.11, 2.12).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Armed {
    /// `t_on_branch`.
    pub branch: Option<Arc<str>>,
    /// `t_on_reply`.
    pub reply: Option<Arc<str>>,
    /// `t_on_failure`.
    pub failure: Option<Arc<str>>,
    /// `t_on_branch_failure`: the event route of this name, `tm:branch-failure:NAME` as well.
    pub branch_failure: Option<Arc<str>>,
}

/// Times that a script has set; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimingChange {
    /// `t_set_fr`.
    pub fr: Option<Duration>,
    /// `t_set_fr`, `t_set_fr_inv`.
    pub fr_inv: Option<Duration>,
    /// `t_set_retr`.
    pub t1: Option<Duration>,
    /// `t_set_retr`.
    pub t2: Option<Duration>,
    /// `t_set_max_lifetime`.
    pub max_inv: Option<Duration>,
    /// `t_set_max_lifetime`.
    pub max_noninv: Option<Duration>,
}

impl TimingChange {
    /// The times with what was set.
    pub fn applied_to(&self, timing: Timing) -> Timing {
        Timing {
            fr: self.fr.unwrap_or(timing.fr),
            fr_inv: self.fr_inv.unwrap_or(timing.fr_inv),
            t1: self.t1.unwrap_or(timing.t1),
            t2: self.t2.unwrap_or(timing.t2),
            wt: timing.wt,
            max_inv: self.max_inv.unwrap_or(timing.max_inv),
            max_noninv: self.max_noninv.unwrap_or(timing.max_noninv),
        }
    }
}

/// The final of a branch, for a failure route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchFinal {
    /// The branch's index.
    pub branch: u16,
    /// The status; 408 for one that timed out.
    pub code: u16,
    /// It timed out.
    pub timed_out: bool,
}

/// What a failure route is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The winner: what goes up if the route does nothing.
    pub winner: BranchFinal,
    /// The winner had a reply from outside before it ended (`t_branch_replied`).
    pub winner_replied: bool,
    /// The finals of the leg.
    pub finals: SmallVec<[BranchFinal; 2]>,
}

/// What an invocation knows of its transaction and decides about it.
#[derive(Clone, Debug, Default)]
pub struct Tm {
    /// Which route runs.
    pub route: RouteKind,
    /// The transaction of the message, once it has one; always there in the routes of a transaction.
    pub transaction: Option<TransactionId>,
    /// The routes that are armed: those in force when the route began, changed by the script.
    pub armed: Armed,
    /// Times that the script has set.
    pub timing: TimingChange,
    /// The caller has cancelled it (`t_is_canceled`).
    pub cancelled: bool,
    /// Its lifetime is over (`t_is_expired`).
    pub expired: bool,
    /// The index of the branch that a branch or reply route is about (`$T_branch_idx`).
    pub branch: Option<u16>,
    /// The status of the reply at hand, in the routes of a transaction (`$T_reply_code`,
    /// `t_check_status`); that of the winner in a failure route.
    pub reply_code: u16,
    /// The branch at hand timed out (`t_branch_timeout` in a branch failure route).
    pub branch_timed_out: bool,
    /// The branch at hand had a provisional before its final (`t_branch_replied` in a branch
    /// failure route).
    pub branch_replied: bool,
    /// What a failure route is about.
    pub failed: Option<Box<Failed>>,
    /// The other message of the transaction: in a reply route the request (`$T_req`), in failure
    /// routes the reply that they are about, where one came (`$T_rpl`).
    pub other: Option<Rc<Draft>>,
    /// `t_drop_replies`: which finals of earlier legs are forgotten: `a`, `l` or `n`.
    pub drop_replies: Option<char>,
    /// `t_load_contacts`: groups of targets of one q, the next one last (contract 2.13).
    pub groups: Vec<Vec<Target>>,
    /// `t_cancel_branches` of a reply route: all, all others or this one.
    pub cancel_branches: Option<Branches>,
    /// What the last `t_relay` failed with: the answer at the end of the route (contract 2.14).
    pub owed: Option<Failure>,
    /// The Request-URI and `$du` that have been made a branch already: `t_relay` in a failure route
    /// makes a branch of the Request-URI only if one of both is another. A script that sets one of
    /// both clears it, whatever it sets: the target may be tried again.
    pub used: Option<(Bytes, Option<Bytes>)>,
}

impl RouteKind {
    /// What a script error calls it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "the request route",
            Self::Reply => "the reply route",
            Self::Branch => "a branch route",
            Self::BranchReply => "a reply route of a transaction",
            Self::Failure => "a failure route",
            Self::BranchFailure => "a branch failure route",
        }
    }
}

/// Which branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branches {
    /// All.
    All,
    /// All but the one at hand.
    Others,
    /// The one at hand.
    This,
}

/// What a script wants of transactions. Each gives the result that kemi-signatures has for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TmWant {
    /// `t_relay()`, or `t_relay_to_proto_addr` with where to. 1, or negative with the draft's
    /// `failure` and [`Tm::owed`] set.
    Relay(Option<RelayTo>),
    /// `t_newtran()`: 1, 0 for a copy of a request that is known, negative for an error.
    NewTransaction,
    /// `t_reply()` of a request without a transaction, which gets one: 1 or negative. With a
    /// transaction it is an [`Effect`](super::Effect).
    Reply {
        /// 100 to 699.
        code: u16,
        /// The reason phrase.
        reason: Bytes,
    },
    /// `t_check_trans()`: for a CANCEL 1 if there is such a transaction; 0 for a copy and for the ACK
    /// of a failure or of a 2xx that was made here, which are done with then; else -1.
    CheckTrans,
    /// `t_precheck_trans()`: whether a copy of this request is being handled at this moment.
    PrecheckTrans,
    /// `t_lookup_request()`: whether the message has a transaction.
    LookupRequest,
    /// `t_lookup_cancel()`: whether there is an INVITE that this CANCEL cancels.
    LookupCancel,
    /// `t_release()`: the transaction is given up without a reply.
    Release,
}

/// An explicit destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayTo {
    /// The transport.
    pub transport: Transport,
    /// Host, IPv6 in brackets.
    pub host: Bytes,
    /// Port; 0 = 5060 or what DNS says.
    pub port: u16,
}

impl RelayTo {
    /// As a URI.
    pub fn uri(&self) -> Bytes {
        let host = String::from_utf8_lossy(&self.host);
        let transport = self.transport.word();
        Bytes::from(match self.port {
            0 => format!("sip:{host};transport={transport}"),
            port => format!("sip:{host}:{port};transport={transport}"),
        })
    }
}
