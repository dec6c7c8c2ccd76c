//! URIs: sip, sips, tel and what else has a scheme.

use std::net::IpAddr;

/// Why a text is no URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a URI")]
pub struct UriError;

/// A URI, as slices of what was written. Escapes stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uri<'a> {
    /// The whole of it.
    pub text: &'a [u8],
    /// The scheme as written, without the colon.
    pub scheme: &'a [u8],
    /// The user; for tel the number. `None` without an `@`.
    pub user: Option<&'a [u8]>,
    /// The password.
    pub password: Option<&'a [u8]>,
    /// The host as written, IPv6 with its brackets; empty for tel.
    pub host: &'a [u8],
    /// The port, where one is written.
    pub port: Option<u16>,
    /// What follows the first `;` behind the host, without it; headers not included.
    pub params: Params<'a>,
    /// What follows the `?`, without it.
    pub headers: Option<&'a [u8]>,
}

impl<'a> Uri<'a> {
    /// Reads a URI (RFC 3261 25.1, RFC 3966).
    ///
    /// # Errors
    /// It has no scheme, no host (sip, sips), a bad port, or bytes that can not be in one.
    pub fn parse(_text: &'a [u8]) -> Result<Self, UriError> {
        unimplemented!()
    }
    /// True for sip and sips.
    pub fn is_sip(&self) -> bool {
        self.scheme.eq_ignore_ascii_case(b"sip") || self.is_sips()
    }
    /// True for sips.
    pub fn is_sips(&self) -> bool {
        self.scheme.eq_ignore_ascii_case(b"sips")
    }
    /// True for tel.
    pub fn is_tel(&self) -> bool {
        self.scheme.eq_ignore_ascii_case(b"tel")
    }
}

/// Parameters such as `;lr;transport=tcp`: the text behind the first semicolon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params<'a>(pub &'a [u8]);

impl<'a> Params<'a> {
    /// The value of a parameter (any case); `Some(None)` where it has none. Quotes are left out.
    pub fn get(&self, _name: &[u8]) -> Option<Option<&'a [u8]>> {
        unimplemented!()
    }
    /// True where it is there, with or without a value.
    pub fn has(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }
    /// Each parameter with its value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        std::iter::empty()
    }
}

/// The address that a host is, with or without brackets; `None` for a name.
pub fn host_ip(_host: &[u8]) -> Option<IpAddr> {
    unimplemented!()
}
