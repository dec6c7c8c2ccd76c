//! Frames: their header, and what is wrong with one (1.1, 1.2).

/// Codes of an ERROR frame (1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// `01`.
    Magic,
    /// `02`.
    Version,
    /// `03`.
    Flags,
    /// `04`.
    Size,
    /// `05`.
    SocketType,
    /// `06`.
    HandshakeTimeout,
    /// `07`.
    Kind,
    /// `08`.
    Sequence,
    /// `09`.
    Multipart,
    /// `0A`.
    Incomplete,
    /// `7F`.
    Internal,
}

/// The peer broke the protocol: its connection ends, with an ERROR frame where that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct ProtocolError {
    /// The code of the ERROR frame.
    pub code: ErrorCode,
    /// What is wrong, for the log.
    pub what: &'static str,
}
