//! URIs: sip, sips, tel and what else has a scheme.

use std::net::IpAddr;

use super::Params;
use super::via::{host_end, number};

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
    /// The host as written, IPv6 with its brackets; empty for what is neither sip nor sips.
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
    pub fn parse(text: &'a [u8]) -> Result<Self, UriError> {
        // What is above ASCII is let through: it does no harm to the parts.
        let is_out = |byte: &u8| matches!(byte, 0..=0x20 | 0x7f | b'<' | b'>' | b'"');
        let colon = memchr::memchr(b':', text).ok_or(UriError)?;
        let (scheme, rest) = (&text[..colon], &text[colon + 1..]);
        let is_scheme =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let begins = scheme.first().is_some_and(u8::is_ascii_alphabetic);
        if !begins || rest.is_empty() || !scheme.iter().all(is_scheme) || rest.iter().any(is_out) {
            return Err(UriError);
        }
        let uri = Self {
            text,
            scheme,
            user: None,
            password: None,
            host: b"",
            port: None,
            params: Params(b""),
            headers: None,
        };
        if uri.is_sip() {
            uri.with_sip(rest)
        } else if uri.is_tel() {
            uri.with_tel(rest)
        } else {
            Ok(uri)
        }
    }

    fn with_sip(mut self, rest: &'a [u8]) -> Result<Self, UriError> {
        let mut at = 0;
        if let Some(end) = memchr::memchr(b'@', rest) {
            let (user, password) = match memchr::memchr(b':', &rest[..end]) {
                Some(colon) => (&rest[..colon], Some(&rest[colon + 1..end])),
                None => (&rest[..end], None),
            };
            if user.is_empty() {
                return Err(UriError);
            }
            (self.user, self.password) = (Some(user), password);
            at = end + 1;
        }
        let host_end = host_end(rest, at, rest.len()).ok_or(UriError)?;
        self.host = &rest[at..host_end];
        let mut rest = &rest[host_end..];
        if let Some(port) = rest.strip_prefix(b":") {
            let digits = port.iter().take_while(|byte| byte.is_ascii_digit()).count();
            self.port = Some(number(&port[..digits]).ok_or(UriError)?);
            rest = &port[digits..];
        }
        if let Some(query) = memchr::memchr(b'?', rest) {
            self.headers = Some(&rest[query + 1..]);
            rest = &rest[..query];
        }
        match rest {
            [] => Ok(self),
            [b';', params @ ..] => Ok(Self { params: Params(params), ..self }),
            _ => Err(UriError),
        }
    }

    fn with_tel(mut self, rest: &'a [u8]) -> Result<Self, UriError> {
        let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
        self.user = Some(&rest[..end]);
        self.params = Params(rest.get(end + 1..).unwrap_or_default());
        if end == 0 { Err(UriError) } else { Ok(self) }
    }

    /// The user; of a telephone number (`;user=phone`) without the parameters of the number.
    pub fn number(&self) -> Option<&'a [u8]> {
        self.user.map(|user| &user[..user.len() - self.number_params().len()])
    }
    /// The parameters of a telephone number in the user, with their first `;`; mostly empty.
    pub fn number_params(&self) -> &'a [u8] {
        let at = self.user.and_then(|user| Some((user, memchr::memchr(b';', user)?)));
        let is_phone = || {
            let kind = self.params.get(b"user").flatten();
            self.is_sip() && kind.is_some_and(|kind| kind.eq_ignore_ascii_case(b"phone"))
        };
        at.filter(|_| is_phone()).map_or(b"", |(user, at)| &user[at..])
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

/// The address that a host is, with or without brackets; `None` for a name.
pub fn host_ip(host: &[u8]) -> Option<IpAddr> {
    let bare = host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    let address: IpAddr = std::str::from_utf8(bare.unwrap_or(host)).ok()?.parse().ok()?;
    (bare.is_none() || address.is_ipv6()).then_some(address)
}

#[cfg(test)]
mod tests;
