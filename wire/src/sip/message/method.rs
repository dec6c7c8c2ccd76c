//! Methods.

/// The method of a request; case matters (RFC 3261 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method<'a> {
    /// INVITE.
    Invite,
    /// ACK.
    Ack,
    /// BYE.
    Bye,
    /// CANCEL.
    Cancel,
    /// OPTIONS.
    Options,
    /// REGISTER.
    Register,
    /// PRACK (RFC 3262).
    Prack,
    /// SUBSCRIBE (RFC 6665).
    Subscribe,
    /// NOTIFY (RFC 6665).
    Notify,
    /// PUBLISH (RFC 3903).
    Publish,
    /// INFO (RFC 6086).
    Info,
    /// REFER (RFC 3515).
    Refer,
    /// MESSAGE (RFC 3428).
    Message,
    /// UPDATE (RFC 3311).
    Update,
    /// Any other token.
    Other(&'a [u8]),
}

impl<'a> Method<'a> {
    /// The method that a token names.
    pub fn of(token: &'a [u8]) -> Self {
        match token {
            b"INVITE" => Self::Invite,
            b"ACK" => Self::Ack,
            b"BYE" => Self::Bye,
            b"CANCEL" => Self::Cancel,
            b"OPTIONS" => Self::Options,
            b"REGISTER" => Self::Register,
            b"PRACK" => Self::Prack,
            b"SUBSCRIBE" => Self::Subscribe,
            b"NOTIFY" => Self::Notify,
            b"PUBLISH" => Self::Publish,
            b"INFO" => Self::Info,
            b"REFER" => Self::Refer,
            b"MESSAGE" => Self::Message,
            b"UPDATE" => Self::Update,
            other => Self::Other(other),
        }
    }

    /// The token.
    pub const fn as_bytes(self) -> &'a [u8] {
        match self {
            Self::Invite => b"INVITE",
            Self::Ack => b"ACK",
            Self::Bye => b"BYE",
            Self::Cancel => b"CANCEL",
            Self::Options => b"OPTIONS",
            Self::Register => b"REGISTER",
            Self::Prack => b"PRACK",
            Self::Subscribe => b"SUBSCRIBE",
            Self::Notify => b"NOTIFY",
            Self::Publish => b"PUBLISH",
            Self::Info => b"INFO",
            Self::Refer => b"REFER",
            Self::Message => b"MESSAGE",
            Self::Update => b"UPDATE",
            Self::Other(token) => token,
        }
    }
}
