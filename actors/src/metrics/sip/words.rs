//! The closed sets of what transactions, scripts, the registrar, the dispatcher and authentication
//! count.

use lineway_wire::sip::transaction::{CancelWhy, Kind};

use crate::sip::script::tm::RouteKind;

closed_set! {
    /// Of which method a transaction is; the `kind` label.
    SipKind {
        /// INVITE.
        Invite = "invite",
        /// Any other.
        Other = "non-invite",
    }
}

impl From<Kind> for SipKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Invite => Self::Invite,
            Kind::Other => Self::Other,
        }
    }
}

closed_set! {
    /// How a transaction came out; the `reason` label.
    SipClosed {
        /// A 2xx of a branch went up.
        Answered = "answered",
        /// A failure of a branch went up, or one that was made of those.
        Failed = "failed",
        /// No branch had a final in time: the 408 that went up was made here.
        Timeout = "timeout",
        /// The caller cancelled it.
        Cancelled = "cancelled",
        /// What went up is the script's, or tells an error of sending.
        Local = "local",
        /// It was given up without a reply (`t_release`), or its actor is gone.
        Released = "released",
    }
}

closed_set! {
    /// How a branch ended; the `result` label.
    SipBranchEnd {
        /// By a 2xx.
        Answered = "answered",
        /// By a final of 300 and above.
        Failed = "failed",
        /// It had no final in time.
        Timeout = "timeout",
        /// By the 487 of a CANCEL, or it was given up when it was not wanted any more.
        Cancelled = "cancelled",
        /// Its request could not be sent.
        Unsent = "unsent",
        /// Its actor is gone.
        Broken = "broken",
    }
}

closed_set! {
    /// What was sent again by the clock; the `what` label.
    SipAgain {
        /// The request of a branch (R34).
        Request = "request",
        /// The final to an INVITE, until its ACK (R41).
        Reply = "reply",
        /// The CANCEL of a branch (R58).
        Cancel = "cancel",
    }
}

closed_set! {
    /// Which wait was over; the `kind` label.
    SipTimeout {
        /// `fr-timer-ms`: no reply at all.
        Fr = "fr",
        /// `fr-inv-timer-ms`: it rang, and nobody answered.
        FrInv = "fr-inv",
        /// `max-inv-lifetime-ms`, `max-noninv-lifetime-ms`.
        Lifetime = "lifetime",
        /// The wait for the ACK of a failure.
        Ack = "ack",
    }
}

closed_set! {
    /// Why a branch was cancelled; the `reason` label.
    SipCancel {
        /// Another branch has answered (R65).
        Answered = "answered",
        /// Another branch has a 6xx, or the script has replied (R74).
        Refused = "refused",
        /// The caller does not want it (R53).
        Caller = "caller",
        /// It rang too long (R39).
        Timeout = "timeout",
        /// `t_cancel_branches`.
        Script = "script",
    }
}

impl From<CancelWhy> for SipCancel {
    fn from(why: CancelWhy) -> Self {
        match why {
            CancelWhy::Answered => Self::Answered,
            CancelWhy::Refused => Self::Refused,
            CancelWhy::Caller => Self::Caller,
        }
    }
}

closed_set! {
    /// Whether the CANCEL of a caller found its INVITE; the `result` label.
    SipCancelFound {
        /// It did.
        Matched = "matched",
        /// `unmatched-cancel` says what became of it.
        Unmatched = "unmatched",
    }
}

closed_set! {
    /// What became of an ACK to a failure; the `what` label.
    SipAck {
        /// It was made here, for a branch (R43).
        Made = "made",
        /// It was the caller's, and ended here (R42).
        Absorbed = "absorbed",
    }
}

closed_set! {
    /// Why a request got no transaction, but a 503; the `reason` label.
    SipRefused {
        /// `max-transactions` live.
        Limit = "max-transactions",
        /// The service or the chain ends.
        Drain = "drain",
    }
}

closed_set! {
    /// Which route of a script ran; the `route` label.
    SipRoute {
        /// `ksr_request_route`.
        Request = "request",
        /// `ksr_reply_route`.
        Reply = "reply",
        /// Armed by `t_on_branch`.
        Branch = "branch",
        /// Armed by `t_on_reply`.
        BranchReply = "branch-reply",
        /// Armed by `t_on_failure`.
        Failure = "failure",
        /// Armed by `t_on_branch_failure`.
        BranchFailure = "branch-failure",
    }
}

impl From<RouteKind> for SipRoute {
    fn from(route: RouteKind) -> Self {
        match route {
            RouteKind::Request => Self::Request,
            RouteKind::Reply => Self::Reply,
            RouteKind::Branch => Self::Branch,
            RouteKind::BranchReply => Self::BranchReply,
            RouteKind::Failure => Self::Failure,
            RouteKind::BranchFailure => Self::BranchFailure,
        }
    }
}

closed_set! {
    /// What became of a binding, or of a REGISTER that was refused; the `result` label.
    SipRegistration {
        /// A binding is there that was not.
        Registered = "registered",
        /// A binding lives on.
        Refreshed = "refreshed",
        /// The phone took it away.
        Removed = "removed",
        /// Its time was over.
        Expired = "expired",
        /// The REGISTER got a failure.
        Refused = "refused",
    }
}

closed_set! {
    /// What became of a `lookup`; the `result` label.
    SipLookup {
        /// There is a binding.
        Found = "found",
        /// There is none.
        Missing = "not-found",
        /// It could not be found out.
        Failed = "failed",
    }
}

closed_set! {
    /// How a target of the dispatcher is; the `state` label.
    SipTargetState {
        /// Taken.
        Active = "active",
        /// It failed, not often enough to be left out.
        Trying = "trying",
        /// Left out until it answers.
        Inactive = "inactive",
        /// Left out until the script says otherwise.
        Disabled = "disabled",
    }
}

closed_set! {
    /// What became of an OPTIONS to a target; the `result` label.
    SipProbe {
        /// It answered.
        Answered = "answered",
        /// It did not, or not well.
        Failed = "failed",
    }
}

closed_set! {
    /// What an authentication came to; the `result` label.
    SipAuth {
        /// The user is who it says.
        Passed = "ok",
        /// It has not tried.
        NoCredentials = "no-credentials",
        /// The password is another.
        BadPassword = "bad-password",
        /// There is no such user.
        NoUser = "no-such-user",
        /// The nonce is too old, or none of ours.
        Stale = "stale-nonce",
        /// The nonce was used already.
        Reused = "reused-nonce",
        /// From or To are of another user.
        Mismatch = "other-user",
        /// The credentials can not be read.
        Malformed = "malformed",
    }
}
