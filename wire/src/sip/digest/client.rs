//! The other side: credentials that answer a challenge, for whoever calls through a proxy that asks
//! for them.

use std::fmt::Write;

use super::{Algorithm, Asked, Hash, Qop};

/// What credentials are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The user.
    pub user: &'a str,
    /// The realm of the challenge.
    pub realm: &'a str,
    /// Its nonce.
    pub nonce: &'a str,
    /// The algorithm that was chosen of those offered.
    pub algorithm: Algorithm,
    /// The qop that was chosen of those offered.
    pub qop: Option<Qop>,
    /// How often the nonce was used, this time counted.
    pub count: u32,
    /// The client's nonce.
    pub cnonce: &'a str,
    /// The Request-URI.
    pub uri: &'a str,
}

impl Answer<'_> {
    /// The value of an Authorization or Proxy-Authorization header.
    pub fn credentials(&self, password: &str, method: &str, body: &[u8]) -> String {
        let (user, realm) = (self.user.as_bytes(), self.realm.as_bytes());
        let ha1 = Hash::ha1(self.algorithm, user, realm, password.as_bytes());
        let nc = format!("{:08x}", self.count);
        let asked = Asked {
            qop: self.qop,
            nonce: self.nonce.as_bytes(),
            nc: nc.as_bytes(),
            cnonce: self.cnonce.as_bytes(),
            uri: self.uri.as_bytes(),
        };
        let response = asked.response(&ha1, method.as_bytes(), body);
        let response = String::from_utf8_lossy(response.hex());
        let mut out = format!(
            "Digest username={}, realm={}, nonce={}, uri=\"{}\", response=\"{response}\", \
             algorithm={}",
            quoted(self.user),
            quoted(self.realm),
            quoted(self.nonce),
            self.uri,
            self.algorithm.as_str()
        );
        if let Some(qop) = self.qop {
            // Writing to a String never fails.
            let _ = write!(out, ", qop={}, nc={nc}, cnonce={}", qop.as_str(), quoted(self.cnonce));
        }
        out
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
