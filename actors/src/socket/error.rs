//! Errors that bring back what was not sent (D-A2), each with the contract's number and errno.

use lineway_wire::zmp::Record;
use lineway_wire::zmp::core::{CompletionId, Refused};
use lineway_wire::zmp::outcome::{
    Errno, RecvError, RecvResult, RequestResult, SubmitError, SubmitResult,
};

use super::ReplyToken;

/// A record that a socket did not take; the peer has seen nothing of it (D-A3).
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.error)]
pub struct SendError(Box<Refused>);

impl SendError {
    pub(super) fn new(record: Record, error: SubmitError) -> Self {
        Self(Box::new(Refused { record, error, token: None }))
    }

    /// The contract's result.
    pub fn result(&self) -> SubmitResult {
        self.0.error.result
    }

    /// The number of the result (4.8).
    pub fn number(&self) -> i32 {
        self.result().number()
    }

    /// The errno of the result (4.8).
    pub fn errno(&self) -> Errno {
        self.0.error.errno
    }

    /// The wait token that a refused DONTWAIT got (D-D2).
    pub fn token(&self) -> Option<CompletionId> {
        self.0.token
    }

    /// The record.
    pub fn record(&self) -> &Record {
        &self.0.record
    }

    /// The record, to send it again.
    pub fn into_record(self) -> Record {
        self.0.record
    }
}

impl From<Box<Refused>> for SendError {
    fn from(refused: Box<Refused>) -> Self {
        Self(refused)
    }
}

/// A request that was not answered with a reply.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// It was not sent.
    #[error(transparent)]
    NotSent(#[from] SendError),
    /// It was sent, and ended otherwise (D-R4).
    #[error("request failed: {} ({errno})", .result.as_str())]
    Failed {
        /// How it ended.
        result: RequestResult,
        /// The errno of that.
        errno: Errno,
        /// What an error reply had behind its errno.
        parts: Option<Record>,
    },
}

impl RequestError {
    /// The number of the result (4.8).
    pub fn number(&self) -> i32 {
        match self {
            Self::NotSent(error) => error.number(),
            Self::Failed { result, .. } => result.number(),
        }
    }

    /// The errno of the result (4.8).
    pub fn errno(&self) -> Errno {
        match self {
            Self::NotSent(error) => error.errno(),
            Self::Failed { errno, .. } => *errno,
        }
    }
}

/// A reply that was not taken. Where the reply is still owed, its token comes back (R-P3).
#[derive(Debug, thiserror::Error)]
#[error("reply {error}")]
pub struct ReplyError {
    /// Why.
    pub error: SubmitError,
    /// The record; for an error reply that was refused, its errno as the first part.
    pub record: Record,
    /// The token, if it can be used again.
    pub token: Option<ReplyToken>,
}

impl ReplyError {
    /// The number of the result (4.8).
    pub const fn number(&self) -> i32 {
        self.error.result.number()
    }

    /// The errno of the result (4.8).
    pub const fn errno(&self) -> Errno {
        self.error.errno
    }
}

/// Nothing was received into the parts that were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct RecvIntoError {
    /// Why.
    pub error: RecvError,
    /// How many parts the record has that stays where it is; with `BUFFER_TOO_SMALL` (D-V3).
    pub needed: Option<usize>,
}

impl RecvIntoError {
    pub(super) const fn too_small(needed: usize) -> Self {
        let error = RecvError::new(RecvResult::BufferTooSmall, Errno::ENOBUFS);
        Self { error, needed: Some(needed) }
    }

    /// The number of the result (4.8).
    pub const fn number(&self) -> i32 {
        self.error.result.number()
    }

    /// The errno of the result (4.8).
    pub const fn errno(&self) -> Errno {
        self.error.errno
    }
}

impl From<RecvError> for RecvIntoError {
    fn from(error: RecvError) -> Self {
        Self { error, needed: None }
    }
}

/// Nothing is there at the moment, or not in time (D-V4).
pub(super) const NO_DATA: RecvError = RecvError::new(RecvResult::NoData, Errno::EAGAIN);

/// The socket is closed (D-V4).
pub(super) const CLOSED: RecvError = RecvError::new(RecvResult::InvalidState, Errno::ESHUTDOWN);

/// The socket is closed (D-N6).
pub(super) const TERMINATED: SubmitError =
    SubmitError::new(SubmitResult::Terminated, Errno::ESHUTDOWN);
