//! The closed sets of label values that no other module owns.

use std::io;

use lineway_wire::fisher::Loss;
use lineway_wire::zmp::core::Disconnected;
use lineway_wire::zmp::monitor::HandshakeFault;
use rustix::io::Errno;

/// Defines an enum whose variants are the values of a label.
macro_rules! closed_set {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// Every value, in the order of the metrics.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word used as metric label and log field.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

closed_set! {
    /// What sort of actor it is; the `kind` label of the actor metrics.
    ActorKind {
        /// One listening socket of one worker.
        Listener = "listener",
        /// A line that came from outside or from a tester.
        MainLine = "main-line",
        /// A candidate of a fisher, until the choice.
        ChildLine = "child-line",
        /// The shared transport under a mux, with its children.
        MuxParent = "mux-parent",
        /// A DEALER.
        DealerSocket = "dealer-socket",
        /// A ROUTER.
        RouterSocket = "router-socket",
        /// One connection of a DEALER or ROUTER.
        PeerConnection = "peer-connection",
        /// One socket or connection that carries SIP.
        SipTransport = "sip-transport",
        /// What runs the script of a `SipRouter` on one worker.
        SipRouter = "sip-router",
        /// What asks the targets of a dispatcher whether they live.
        SipDispatcher = "sip-dispatcher",
        /// A SIP transaction: a main line.
        SipTransaction = "sip-transaction",
        /// A branch of one: a child line.
        SipBranch = "sip-branch",
        /// What a worker has once: its reports, its clock, its name resolver.
        Worker = "worker",
        /// The supervisor.
        Supervisor = "supervisor",
        /// The admin interface.
        Admin = "admin",
    }
}

impl ActorKind {
    /// True for actors that are started again when they end by a panic; a line is not, and neither
    /// is a connection.
    pub const fn is_long_lived(self) -> bool {
        !matches!(
            self,
            Self::MainLine
                | Self::ChildLine
                | Self::MuxParent
                | Self::PeerConnection
                | Self::SipTransaction
                | Self::SipBranch
        )
    }
}

impl ActorKind {
    /// True for the actors of SIP.
    pub(super) const fn is_of_sip(self) -> bool {
        matches!(
            self,
            Self::SipTransport
                | Self::SipRouter
                | Self::SipDispatcher
                | Self::SipTransaction
                | Self::SipBranch
        )
    }

    /// True for the actors of message sockets.
    pub(super) const fn is_of_sockets(self) -> bool {
        matches!(self, Self::DealerSocket | Self::RouterSocket | Self::PeerConnection)
    }
}

closed_set! {
    /// How a fisher's selection came out.
    SelectionOutcome {
        /// A candidate proved itself (C15).
        Won = "won",
        /// Every candidate ended (C12).
        Failed = "failed",
        /// None proved itself in time (C13).
        Timeout = "timeout",
        /// More waited for the choice than may (C05).
        Overflow = "overflow",
        /// The main line ended first (C14).
        Cancelled = "cancelled",
    }
}

impl SelectionOutcome {
    /// The outcome of a selection that ended without a winner for this reason, or with one.
    pub const fn of(failure: Option<Loss>) -> Self {
        match failure {
            None => Self::Won,
            Some(Loss::Timeout) => Self::Timeout,
            Some(Loss::Overflow) => Self::Overflow,
            Some(Loss::Cancelled) => Self::Cancelled,
            Some(_) => Self::Failed,
        }
    }
}

closed_set! {
    /// Why a line did not get past a fisher's server.
    ProbeFailure {
        /// Its first five bytes were no probe (S02).
        WrongBytes = "wrong-bytes",
        /// The probe was not whole in time (S08).
        Timeout = "timeout",
        /// It ended before its probe was whole.
        Closed = "closed",
    }
}

closed_set! {
    /// What came first at a fisher's server after it had answered the probe (S04b).
    ServerFirst {
        /// The payload of the client.
        Payload = "payload",
        /// Nothing in time: the backend was dialled, and may speak first.
        Dialled = "dialled",
        /// The end of the line, as that of a candidate that was not chosen.
        Ended = "ended",
    }
}

closed_set! {
    /// Why a connection could not be accepted (T02).
    AcceptError {
        /// The process has no descriptor left.
        Emfile = "emfile",
        /// The system has no descriptor left.
        Enfile = "enfile",
        /// No memory for socket buffers.
        Enobufs = "enobufs",
        /// No memory.
        Enomem = "enomem",
        /// The client was gone before it was accepted.
        Aborted = "aborted",
        /// Anything else.
        Other = "other",
    }
}

impl AcceptError {
    /// What an error of `accept` means.
    pub fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::MFILE) => Self::Emfile,
            Some(Errno::NFILE) => Self::Enfile,
            Some(Errno::NOBUFS) => Self::Enobufs,
            Some(Errno::NOMEM) => Self::Enomem,
            Some(Errno::CONNABORTED) => Self::Aborted,
            _ => Self::Other,
        }
    }

    /// True when it helps to wait until something is freed.
    pub const fn is_exhaustion(self) -> bool {
        matches!(self, Self::Emfile | Self::Enfile | Self::Enobufs | Self::Enomem)
    }
}

closed_set! {
    /// Why an accepted connection was refused.
    Refused {
        /// Its source is on the blacklist.
        Blacklist = "blacklist",
        /// There is a whitelist, and its source is not on it.
        NotWhitelisted = "not-whitelisted",
    }
}

closed_set! {
    /// How an onward connection came out, its name and every address included (T10, T12).
    DialResult {
        /// An address answered.
        Connected = "connected",
        /// The last address refused.
        Refused = "refused",
        /// No way to the last address.
        Unreachable = "unreachable",
        /// `connect-timeout-ms` was over.
        Timeout = "timeout",
        /// The name does not exist, or has no address of the wanted family.
        NameNotFound = "name-not-found",
        /// The name servers did not answer, or not rightly.
        NameFailed = "name-failed",
        /// The line ended first (L09).
        Cancelled = "cancelled",
        /// Anything else: a local limit, a missing right.
        Other = "other",
    }
}

closed_set! {
    /// How a reload of the configuration came out.
    ReloadResult {
        /// The file is in force.
        Applied = "applied",
        /// The file has an error; nothing changed.
        Rejected = "rejected",
        /// The file is right, but a node could not start; nothing changed.
        Failed = "failed",
    }
}

closed_set! {
    /// Why the handshake of a ZMP connection failed (1.2, 1.5).
    HandshakeFailure {
        /// Its HELLO was wrong, or of a type that does not fit.
        Hello = "hello",
        /// Its READY was wrong.
        Ready = "ready",
        /// It was not whole in time.
        Timeout = "timeout",
        /// The connection ended first, or nothing of this protocol came.
        Other = "other",
    }
}

impl HandshakeFailure {
    /// What was wrong, and how the connection ended.
    pub const fn of(fault: Option<HandshakeFault>, why: Disconnected) -> Self {
        match (fault, why) {
            (Some(HandshakeFault::Hello), _) => Self::Hello,
            (Some(HandshakeFault::Ready), _) => Self::Ready,
            (None, Disconnected::Handshake) => Self::Timeout,
            (None, _) => Self::Other,
        }
    }
}
