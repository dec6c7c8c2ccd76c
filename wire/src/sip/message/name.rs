//! Header names.

/// Which header a line is; compact and long names are one (RFC 3261 7.3.3), case does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is the header of its name")]
pub enum Name {
    Via,
    From,
    To,
    CallId,
    CSeq,
    Contact,
    MaxForwards,
    Route,
    RecordRoute,
    ContentLength,
    ContentType,
    ContentEncoding,
    Expires,
    MinExpires,
    Subject,
    Supported,
    Require,
    ProxyRequire,
    Unsupported,
    Allow,
    Accept,
    UserAgent,
    Server,
    Authorization,
    ProxyAuthorization,
    WwwAuthenticate,
    ProxyAuthenticate,
    Event,
    AllowEvents,
    ReferTo,
    ReferredBy,
    SessionExpires,
    Path,
    Date,
    Reason,
    /// Any other name.
    Other,
}
