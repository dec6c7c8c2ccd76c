//! Credentials, as they are read (RFC 3261 25.1, RFC 7616 3.4).

use std::borrow::Cow;

use super::{Algorithm, Asked, Hash, Qop};
use crate::sip::message::{Header, Message, Name, is_token, unfold};

/// Headers with credentials that are looked at in one message; a request has one for each proxy
/// that asked.
const MOST_HEADERS: usize = 16;

/// Parameters of one header. There are a dozen that mean something.
const MOST_PARAMS: usize = 32;

/// Why a header has no credentials that can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// The scheme is not Digest.
    #[error("not Digest")]
    Scheme,
    /// A parameter is broken, there twice, or missing.
    #[error("broken credentials")]
    Malformed,
    /// An algorithm, a qop or a form of the user's name that is never asked for here.
    #[error("an algorithm or qop that was not offered")]
    Unsupported,
}

/// The credentials of one header. Texts are without quotes, escapes and folds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// The user.
    pub username: Cow<'a, [u8]>,
    /// The realm that they are for.
    pub realm: Cow<'a, [u8]>,
    /// The nonce that they answer.
    pub nonce: Cow<'a, [u8]>,
    /// The URI that is hashed.
    pub uri: Cow<'a, [u8]>,
    /// The proof.
    pub response: Hash,
    /// What is protected; `None` for the old form.
    pub qop: Option<Qop>,
    /// How often the nonce was used, this time counted; 0 without a qop.
    pub count: u32,
    /// The digits of the count as written: they are hashed.
    nc: Cow<'a, [u8]>,
    cnonce: Cow<'a, [u8]>,
}

impl<'a> Credentials<'a> {
    /// Reads the value of a header.
    ///
    /// # Errors
    /// There are none that can be checked.
    pub fn parse(value: &'a [u8]) -> Result<Self, CredentialsError> {
        let mut text = Text(value);
        text.white();
        if !text.token().eq_ignore_ascii_case(b"Digest") {
            return Err(CredentialsError::Scheme);
        }
        let mut read = Read::default();
        for _ in 0..MOST_PARAMS {
            text.white();
            // An empty element of a list means nothing.
            if text.takes(b',') {
                continue;
            }
            let name = text.token();
            if name.is_empty() {
                return if text.0.is_empty() { read.credentials() } else { Err(MALFORMED) };
            }
            text.white();
            if !text.takes(b'=') {
                return Err(MALFORMED);
            }
            text.white();
            let value = text.value().ok_or(MALFORMED)?;
            read.take(name, value)?;
            text.white();
            if !text.takes(b',') && !text.0.is_empty() {
                return Err(MALFORMED);
            }
        }
        Err(MALFORMED)
    }

    /// The algorithm of the proof.
    pub const fn algorithm(&self) -> Algorithm {
        self.response.algorithm()
    }

    /// Whether whoever made them knows this H(A1), for a request with this method and body.
    pub fn prove(&self, ha1: &Hash, method: &[u8], body: &[u8]) -> bool {
        let asked = Asked {
            qop: self.qop,
            nonce: &self.nonce,
            nc: &self.nc,
            cnonce: &self.cnonce,
            uri: &self.uri,
        };
        ha1.algorithm() == self.algorithm() && asked.response(ha1, method, body) == self.response
    }
}

/// The credentials of a request for a realm, in headers of this name, with the header that has
/// them; without a realm the first.
///
/// # Errors
/// `None`: there are none for it. `Some`: they may be those that can not be read.
pub fn find<'a>(
    message: &'a Message,
    name: Name,
    realm: Option<&[u8]>,
) -> Result<(Header<'a>, Credentials<'a>), Option<CredentialsError>> {
    let mut failed = None;
    for header in message.all(name).take(MOST_HEADERS) {
        match Credentials::parse(header.value) {
            Ok(found) if realm.is_none_or(|realm| *found.realm == *realm) => {
                return Ok((header, found));
            }
            Ok(_) | Err(CredentialsError::Scheme) => {}
            Err(error) => failed = Some(error),
        }
    }
    Err(failed)
}

const MALFORMED: CredentialsError = CredentialsError::Malformed;

/// What was read so far.
#[derive(Default)]
struct Read<'a> {
    username: Option<Cow<'a, [u8]>>,
    realm: Option<Cow<'a, [u8]>>,
    nonce: Option<Cow<'a, [u8]>>,
    uri: Option<Cow<'a, [u8]>>,
    response: Option<Cow<'a, [u8]>>,
    algorithm: Option<Cow<'a, [u8]>>,
    qop: Option<Cow<'a, [u8]>>,
    nc: Option<Cow<'a, [u8]>>,
    cnonce: Option<Cow<'a, [u8]>>,
}

impl<'a> Read<'a> {
    fn take(&mut self, name: &[u8], value: Cow<'a, [u8]>) -> Result<(), CredentialsError> {
        let mut lower = [0; 9];
        let Some(lower) = lower.get_mut(..name.len()) else { return Ok(()) };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let place = match &*lower {
            b"username" => &mut self.username,
            b"realm" => &mut self.realm,
            b"nonce" => &mut self.nonce,
            b"uri" => &mut self.uri,
            b"response" => &mut self.response,
            b"algorithm" => &mut self.algorithm,
            b"qop" => &mut self.qop,
            b"nc" => &mut self.nc,
            b"cnonce" => &mut self.cnonce,
            // Never offered: the name could not be found in a table.
            b"userhash" if value.eq_ignore_ascii_case(b"true") => {
                return Err(CredentialsError::Unsupported);
            }
            _ => return Ok(()),
        };
        // Two of a kind: which of them would the others believe?
        if place.replace(value).is_some() { Err(MALFORMED) } else { Ok(()) }
    }

    fn credentials(self) -> Result<Credentials<'a>, CredentialsError> {
        let algorithm = match self.algorithm {
            None => Algorithm::Md5,
            Some(token) => Algorithm::of(&token).ok_or(CredentialsError::Unsupported)?,
        };
        let qop = match self.qop.as_deref() {
            None => None,
            Some(token) if token.eq_ignore_ascii_case(b"auth") => Some(Qop::Auth),
            Some(token) if token.eq_ignore_ascii_case(b"auth-int") => Some(Qop::AuthInt),
            Some(_) => return Err(CredentialsError::Unsupported),
        };
        let (nc, cnonce, count) = match (qop, self.nc, self.cnonce) {
            (None, ..) => (Cow::Borrowed(&b""[..]), Cow::Borrowed(&b""[..]), 0),
            (Some(_), Some(nc), Some(cnonce)) => {
                let count = count(&nc).ok_or(MALFORMED)?;
                (nc, cnonce, count)
            }
            (Some(_), ..) => return Err(MALFORMED),
        };
        let response = self.response.ok_or(MALFORMED)?;
        Ok(Credentials {
            username: self.username.ok_or(MALFORMED)?,
            realm: self.realm.ok_or(MALFORMED)?,
            nonce: self.nonce.ok_or(MALFORMED)?,
            uri: self.uri.ok_or(MALFORMED)?,
            response: Hash::parse(algorithm, &response).ok_or(MALFORMED)?,
            qop,
            count,
            nc,
            cnonce,
        })
    }
}

/// Eight hexadecimal digits.
fn count(nc: &[u8]) -> Option<u32> {
    let is_count = nc.len() == 8 && nc.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(nc).ok().filter(|_| is_count)?;
    u32::from_str_radix(text, 16).ok()
}

/// What is left to read of a value.
struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    fn white(&mut self) {
        let is_white = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let end = self.0.iter().position(|byte| !is_white(byte)).unwrap_or(self.0.len());
        self.0 = &self.0[end..];
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_there = self.0.first() == Some(&byte);
        self.0 = &self.0[usize::from(is_there)..];
        is_there
    }

    fn token(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !is_token(*byte)).unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        token
    }

    /// A quoted string, or what stands there up to a comma or white space.
    fn value(&mut self) -> Option<Cow<'a, [u8]>> {
        if self.takes(b'"') {
            return self.quoted();
        }
        let ends = |byte: &u8| matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n' | b'"');
        let end = self.0.iter().position(ends).unwrap_or(self.0.len());
        let (value, rest) = self.0.split_at(end);
        self.0 = rest;
        (!value.is_empty()).then_some(Cow::Borrowed(value))
    }

    /// What stands before the closing quote.
    fn quoted(&mut self) -> Option<Cow<'a, [u8]>> {
        let mut at = 0;
        let mut escapes = false;
        let inside = loop {
            match self.0.get(at)? {
                b'"' => break &self.0[..at],
                b'\\' => {
                    escapes = true;
                    at += 2;
                }
                _ => at += 1,
            }
        };
        self.0 = &self.0[at + 1..];
        let text = unfold(inside);
        if !escapes {
            return Some(text);
        }
        let mut out = Vec::with_capacity(text.len());
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            out.push(if *byte == b'\\' { *bytes.next()? } else { *byte });
        }
        Some(Cow::Owned(out))
    }
}
