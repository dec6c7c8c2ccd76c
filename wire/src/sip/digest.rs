//! Digest authentication from the side that asks for it (22; RFC 7616, RFC 8760): challenges,
//! credentials and what they are worth, nonces that need no memory.
//!
//! What the credentials say of the URI is what is hashed: a proxy in front may have changed the
//! Request-URI, so the two are not compared (22.4).

use std::fmt;

use md5::{Digest, Md5};
use sha2::{Sha256, Sha512_256};
use subtle::ConstantTimeEq;

mod challenge;
mod client;
mod credentials;
mod nonce;
mod replay;
#[cfg(test)]
mod tests;

pub use challenge::{Challenge, is_realm};
pub use client::Answer;
pub use credentials::{Credentials, CredentialsError, find};
pub use nonce::{NONCE_LEN, NonceFault, Nonces};
pub use replay::{Replays, Use};

/// Hexadecimal digits of the longest hash.
const MOST_HEX: usize = 64;

/// A hash algorithm of Digest (RFC 8760 2.1). The `-sess` ones are not offered, and refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// `SHA-512-256`.
    Sha512_256,
    /// `SHA-256`.
    Sha256,
    /// `MD5`: what every phone knows.
    Md5,
}

impl Algorithm {
    /// Every algorithm, the strongest first: the order of challenges (RFC 8760 2.4).
    pub const ALL: [Self; 3] = [Self::Sha512_256, Self::Sha256, Self::Md5];

    /// As in a challenge.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sha512_256 => "SHA-512-256",
            Self::Sha256 => "SHA-256",
            Self::Md5 => "MD5",
        }
    }

    /// The algorithm of a token, any case.
    pub fn of(token: &[u8]) -> Option<Self> {
        let is = |algorithm: &Self| algorithm.as_str().as_bytes().eq_ignore_ascii_case(token);
        Self::ALL.into_iter().find(is)
    }

    /// Hexadecimal digits of a hash.
    pub const fn digits(self) -> usize {
        match self {
            Self::Sha512_256 | Self::Sha256 => 64,
            Self::Md5 => 32,
        }
    }
}

/// Some of the algorithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Algorithms(u8);

impl Algorithms {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(0b111);

    /// These and one more.
    #[must_use]
    pub const fn with(self, algorithm: Algorithm) -> Self {
        Self(self.0 | 1 << algorithm as u8)
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in one of them.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it is one of them.
    pub const fn has(self, algorithm: Algorithm) -> bool {
        self.0 & 1 << algorithm as u8 != 0
    }

    /// True for none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each, the strongest first.
    pub fn iter(self) -> impl Iterator<Item = Algorithm> {
        Algorithm::ALL.into_iter().filter(move |algorithm| self.has(*algorithm))
    }
}

/// What is protected (RFC 7616 3.4): `qop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qop {
    /// `auth`: method and URI.
    Auth,
    /// `auth-int`: the body too.
    AuthInt,
}

impl Qop {
    /// As in a header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::AuthInt => "auth-int",
        }
    }
}

/// A hash in lower-case hexadecimal digits: H(A1) of a user, a response. As an H(A1) it is as good
/// as a password, so `Debug` prints none of it.
#[derive(Clone, Copy)]
pub struct Hash {
    algorithm: Algorithm,
    hex: [u8; MOST_HEX],
}

impl Hash {
    /// The hash of texts with a colon between each two.
    pub fn of(algorithm: Algorithm, texts: &[&[u8]]) -> Self {
        let mut hex = [0; MOST_HEX];
        match algorithm {
            Algorithm::Sha512_256 => hash::<Sha512_256>(texts, &mut hex),
            Algorithm::Sha256 => hash::<Sha256>(texts, &mut hex),
            Algorithm::Md5 => hash::<Md5>(texts, &mut hex),
        }
        Self { algorithm, hex }
    }

    /// H(A1): what a password becomes for a user of a realm (RFC 7616 3.4.2).
    pub fn ha1(algorithm: Algorithm, user: &[u8], realm: &[u8], password: &[u8]) -> Self {
        Self::of(algorithm, &[user, realm, password])
    }

    /// Reads hexadecimal digits, any case; `None` unless they are as many as the algorithm has.
    pub fn parse(algorithm: Algorithm, digits: &[u8]) -> Option<Self> {
        let is_hash =
            digits.len() == algorithm.digits() && digits.iter().all(u8::is_ascii_hexdigit);
        is_hash.then(|| {
            let mut hex = [0; MOST_HEX];
            hex[..digits.len()].copy_from_slice(digits);
            hex.make_ascii_lowercase();
            Self { algorithm, hex }
        })
    }

    /// Its algorithm.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Its digits.
    pub fn hex(&self) -> &[u8] {
        &self.hex[..self.algorithm.digits()]
    }
}

/// Compared in a time that does not tell where they differ.
impl PartialEq for Hash {
    fn eq(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm && self.hex.ct_eq(&other.hex).into()
    }
}

impl Eq for Hash {}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({})", self.algorithm.as_str())
    }
}

fn hash<D: Digest>(texts: &[&[u8]], hex: &mut [u8; MOST_HEX]) {
    let mut sum = D::new();
    for (place, text) in texts.iter().enumerate() {
        if place > 0 {
            sum.update(b":");
        }
        sum.update(text);
    }
    write_hex(&sum.finalize(), hex);
}

/// Writes two digits for each byte.
fn write_hex(bytes: &[u8], out: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, out) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        out[0] = DIGITS[usize::from(byte >> 4)];
        out[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// What is hashed into a response, beside H(A1).
struct Asked<'a> {
    qop: Option<Qop>,
    nonce: &'a [u8],
    nc: &'a [u8],
    cnonce: &'a [u8],
    uri: &'a [u8],
}

impl Asked<'_> {
    /// The response of one who knows H(A1) (RFC 7616 3.4.1; without a qop RFC 2617 3.2.2.1).
    fn response(&self, ha1: &Hash, method: &[u8], body: &[u8]) -> Hash {
        let algorithm = ha1.algorithm;
        let ha2 = match self.qop {
            None | Some(Qop::Auth) => Hash::of(algorithm, &[method, self.uri]),
            Some(Qop::AuthInt) => {
                let body = Hash::of(algorithm, &[body]);
                Hash::of(algorithm, &[method, self.uri, body.hex()])
            }
        };
        match self.qop {
            None => Hash::of(algorithm, &[ha1.hex(), self.nonce, ha2.hex()]),
            Some(qop) => {
                let qop = qop.as_str().as_bytes();
                let texts = [ha1.hex(), self.nonce, self.nc, self.cnonce, qop, ha2.hex()];
                Hash::of(algorithm, &texts)
            }
        }
    }
}
