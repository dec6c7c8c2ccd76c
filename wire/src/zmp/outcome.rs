//! Results with the contract's numbers and errno (4.8).

/// An errno of the contract: POSIX names with Linux' numbers, and the library's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// Where the library's own numbers begin.
const OWN: i32 = 156_384_712;

macro_rules! errnos {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        impl Errno {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// The name, such as `EAGAIN`; `None` for a number that the contract does not name.
            pub const fn name(self) -> Option<&'static str> {
                $(if self.0 == $value { return Some(stringify!($name)); })*
                None
            }
        }
    };
}

errnos! {
    /// No such target.
    ENOENT = 2;
    /// Interrupted or failed in the transport.
    EIO = 5;
    /// Nothing at the moment.
    EAGAIN = 11;
    /// No memory, or no reservation.
    ENOMEM = 12;
    /// Refused.
    EACCES = 13;
    /// A required argument is missing.
    EFAULT = 14;
    /// In use.
    EBUSY = 16;
    /// There already.
    EEXIST = 17;
    /// A wrong argument.
    EINVAL = 22;
    /// Not allowed.
    EPERM = 1;
    /// It would wait for itself.
    EDEADLK = 35;
    /// Protocol error.
    EPROTO = 71;
    /// Numbers are used up.
    EOVERFLOW = 75;
    /// The record is too large.
    EMSGSIZE = 90;
    /// The peer's type does not take it.
    EPROTOTYPE = 91;
    /// No such transport.
    EPROTONOSUPPORT = 93;
    /// Not supported.
    ENOTSUP = 95;
    /// The address is in use.
    EADDRINUSE = 98;
    /// The capacity is too small.
    ENOBUFS = 105;
    /// No connection.
    ENOTCONN = 107;
    /// The socket is closed.
    ESHUTDOWN = 108;
    /// The time is over.
    ETIMEDOUT = 110;
    /// Every target refuses.
    ECONNREFUSED = 111;
    /// No route.
    EHOSTUNREACH = 113;
    /// Under way already.
    EALREADY = 114;
    /// Stale.
    ESTALE = 116;
    /// Cancelled.
    ECANCELED = 125;
    /// The operation does not fit the state.
    EFSM = OWN + 51;
    /// The protocols do not fit.
    ENOCOMPATPROTO = OWN + 52;
    /// The context has ended.
    ETERM = OWN + 53;
    /// No thread.
    EMTHREAD = OWN + 54;
}

impl std::fmt::Display for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

macro_rules! results {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $number:literal, $word:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$each])* $variant,)*
        }

        impl $name {
            /// Every one, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The contract's number.
            pub const fn number(self) -> i32 {
                match self { $(Self::$variant => $number,)* }
            }

            /// The word used as metric label and log field.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

results! {
    /// Why a submit failed.
    SubmitResult {
        /// No room at the moment.
        Backpressured = 1, "backpressured";
        /// No peer.
        NotConnected = 2, "not_connected";
        /// No such target.
        NotFound = 3, "not_found";
        /// Socket or context ended.
        Terminated = 4, "terminated";
        /// A required argument is missing.
        InvalidHandle = 5, "invalid_handle";
        /// A wrong argument, or a record too large.
        InvalidArgument = 6, "invalid_argument";
        /// Not for this socket.
        NotSupported = 7, "not_supported";
        /// Not in this state.
        InvalidState = 8, "invalid_state";
        /// Not from this thread.
        ThreadViolation = 9, "thread_violation";
        /// No memory, or no reservation.
        OutOfMemory = 10, "out_of_memory";
        /// Numbers are used up.
        SeqExhausted = 11, "seq_exhausted";
        /// Anything else.
        InternalError = 12, "internal_error";
        /// Every target refuses.
        NotAdmitted = 13, "not_admitted";
    }
}

results! {
    /// How a request ended.
    RequestResult {
        /// With its reply.
        Ok = 0, "ok";
        /// Without one in time.
        TimedOut = 101, "timed_out";
        /// Its target was removed.
        NotFound = 102, "not_found";
        /// Socket or context ended.
        Terminated = 103, "terminated";
        /// The answer was malformed.
        ProtocolError = 104, "protocol_error";
        /// Anything else.
        InternalError = 105, "internal_error";
        /// The peer refused it.
        Rejected = 106, "rejected";
        /// There already.
        Conflict = 107, "conflict";
        /// The peer is busy.
        Busy = 108, "busy";
        /// Its connection ended.
        NotConnected = 109, "not_connected";
        /// A wrong argument.
        InvalidArgument = 110, "invalid_argument";
        /// Not in this state.
        InvalidState = 111, "invalid_state";
        /// Not supported.
        NotSupported = 112, "not_supported";
        /// No room at the peer.
        Backpressured = 113, "backpressured";
    }
}

results! {
    /// Why nothing was received.
    RecvResult {
        /// There is none.
        NoData = 201, "no_data";
        /// Somebody else receives.
        Busy = 202, "busy";
        /// The context has ended.
        Terminated = 203, "terminated";
        /// A required argument is missing.
        InvalidHandle = 204, "invalid_handle";
        /// Not for this socket.
        NotSupported = 205, "not_supported";
        /// Anything else.
        InternalError = 206, "internal_error";
        /// The record has more parts.
        BufferTooSmall = 207, "buffer_too_small";
        /// Not in this state.
        InvalidState = 208, "invalid_state";
    }
}

results! {
    /// Why an option or a control call failed.
    ConfigResult {
        /// No such socket.
        InvalidHandle = 701, "invalid_handle";
        /// A wrong value.
        InvalidArgument = 702, "invalid_argument";
        /// Not for this socket.
        NotSupported = 703, "not_supported";
        /// Anything else.
        InternalError = 704, "internal_error";
        /// Not in this state.
        InvalidState = 705, "invalid_state";
        /// No such thing.
        NotFound = 706, "not_found";
        /// There already.
        Conflict = 707, "conflict";
        /// The capacity is too small.
        BufferTooSmall = 708, "buffer_too_small";
        /// In use.
        Busy = 709, "busy";
    }
}

results! {
    /// Why a bind failed.
    BindResult {
        /// A wrong endpoint.
        InvalidArgument = 501, "invalid_argument";
        /// The address is in use.
        InUse = 502, "in_use";
        /// No such transport.
        NotSupported = 503, "not_supported";
        /// No such socket.
        InvalidHandle = 504, "invalid_handle";
        /// Anything else.
        InternalError = 505, "internal_error";
    }
}

results! {
    /// Why a connect, or a disconnect, failed.
    ConnectResult {
        /// A wrong endpoint.
        InvalidArgument = 601, "invalid_argument";
        /// No such transport.
        NotSupported = 602, "not_supported";
        /// No such socket.
        InvalidHandle = 603, "invalid_handle";
        /// Anything else.
        InternalError = 604, "internal_error";
        /// No such endpoint.
        NotFound = 605, "not_found";
        /// There already.
        Conflict = 606, "conflict";
        /// In use.
        Busy = 607, "busy";
        /// Refused.
        Refused = 608, "refused";
    }
}

results! {
    /// Why a close failed.
    CloseResult {
        /// Another call runs.
        Busy = 401, "busy";
        /// Closed already.
        Shutdown = 402, "shutdown";
        /// No such socket.
        InvalidHandle = 403, "invalid_handle";
        /// Anything else.
        InternalError = 404, "internal_error";
    }
}

impl RequestResult {
    /// The result that an errno of an error reply stands for (4.8); the errno is not zero.
    pub const fn of_errno(errno: Errno) -> Self {
        match errno {
            Errno::ETIMEDOUT => Self::TimedOut,
            Errno::ENOENT => Self::NotFound,
            Errno::ETERM | Errno::ESHUTDOWN => Self::Terminated,
            Errno::EPROTO | Errno::ENOCOMPATPROTO => Self::ProtocolError,
            Errno::EACCES | Errno::ECONNREFUSED | Errno::ECANCELED | Errno::EPROTOTYPE => {
                Self::Rejected
            }
            Errno::EEXIST | Errno::ESTALE => Self::Conflict,
            Errno::EBUSY => Self::Busy,
            Errno::ENOTCONN | Errno::EHOSTUNREACH => Self::NotConnected,
            Errno::EINVAL | Errno::EFAULT => Self::InvalidArgument,
            Errno::EFSM | Errno::EALREADY => Self::InvalidState,
            Errno::ENOTSUP => Self::NotSupported,
            Errno::EAGAIN | Errno::ENOBUFS => Self::Backpressured,
            _ => Self::InternalError,
        }
    }
}

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident($result:ident), $what:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
            #[error("{}: {} ({})", $what, result.as_str(), errno)]
            pub struct $name {
                /// The contract's result.
                pub result: $result,
                /// Its errno.
                pub errno: Errno,
            }

            impl $name {
                /// A result with its errno.
                pub const fn new(result: $result, errno: Errno) -> Self {
                    Self { result, errno }
                }
            }
        )*
    };
}

errors! {
    /// A record was not taken.
    SubmitError(SubmitResult), "not submitted";
    /// Nothing was received.
    RecvError(RecvResult), "nothing received";
    /// An option or a control call failed.
    ConfigError(ConfigResult), "not set";
    /// An endpoint was not bound.
    BindError(BindResult), "not bound";
    /// An endpoint was not connected, or not disconnected.
    ConnectError(ConnectResult), "not connected";
    /// A socket was not closed.
    CloseError(CloseResult), "not closed";
}
