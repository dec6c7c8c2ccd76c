//! Challenges, as they are written.

use super::{Algorithm, Algorithms};

/// Whether a text can be a realm: 1 to 255 bytes that need no escape between quotes.
pub fn is_realm(text: &[u8]) -> bool {
    let wrong = |byte: &u8| byte.is_ascii_control() || matches!(byte, b'"' | b'\\');
    (1..=255).contains(&text.len()) && !text.iter().any(wrong)
}

/// What a challenge says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// For the proxy (407) in place of the server (401).
    pub proxy: bool,
    /// The realm: [`is_realm`].
    pub realm: &'a [u8],
    /// The nonce.
    pub nonce: &'a [u8],
    /// `qop="auth"` is offered.
    pub auth: bool,
    /// `qop="auth-int"` is offered.
    pub auth_int: bool,
    /// `stale=true`: the password was right, the nonce was not; nobody needs to be asked.
    pub stale: bool,
}

impl Challenge<'_> {
    /// The header line of each algorithm, the strongest first (RFC 8760 2.4), with their line ends.
    pub fn lines(&self, algorithms: Algorithms) -> impl Iterator<Item = Vec<u8>> {
        algorithms.iter().map(|algorithm| self.line(algorithm))
    }

    fn line(&self, algorithm: Algorithm) -> Vec<u8> {
        let name = if self.proxy { "Proxy-Authenticate" } else { "WWW-Authenticate" };
        let mut out = Vec::with_capacity(160 + self.realm.len());
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
        put(&[name.as_bytes(), b": Digest realm=\"", self.realm]);
        put(&[b"\", nonce=\"", self.nonce, b"\""]);
        match (self.auth, self.auth_int) {
            (false, false) => {}
            (true, false) => put(&[b", qop=\"auth\""]),
            (false, true) => put(&[b", qop=\"auth-int\""]),
            (true, true) => put(&[b", qop=\"auth,auth-int\""]),
        }
        if self.stale {
            put(&[b", stale=true"]);
        }
        put(&[b", algorithm=", algorithm.as_str().as_bytes(), b"\r\n"]);
        out
    }
}
