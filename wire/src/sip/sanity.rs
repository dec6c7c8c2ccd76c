//! Sanity checks (contract 6.3): what no sound request has, found before the script trusts it.

use super::draft::{Draft, Failure};
use super::message::{ContentLength, Header, Message, Name, NameAddr, Params, Start, Uri};

#[cfg(test)]
mod tests;

/// The checks of a message, as bits of the first number. The bits 1, 8 and 16 (versions of the
/// start line and of Via, transport of Via) find nothing: a message that fails them is no message.
mod bit {
    pub(super) const SCHEME: i64 = 2;
    pub(super) const REQUIRED: i64 = 4;
    pub(super) const CSEQ_METHOD: i64 = 32;
    pub(super) const CSEQ_VALUE: i64 = 64;
    pub(super) const LENGTH: i64 = 128;
    pub(super) const EXPIRES: i64 = 256;
    pub(super) const PROXY_REQUIRE: i64 = 512;
    pub(super) const URIS: i64 = 1_024;
    pub(super) const DIGEST: i64 = 2_048;
    pub(super) const TAGS: i64 = 4_096;
    pub(super) const AUTHORIZATION: i64 = 8_192;
    pub(super) const VIA: i64 = 16_384;
}

/// The URIs that [`bit::URIS`] looks at, as bits of the second number.
mod uri_bit {
    pub(super) const REQUEST: i64 = 1;
    pub(super) const FROM: i64 = 2;
    pub(super) const TO: i64 = 4;
    pub(super) const CONTACT: i64 = 8;
}

/// `sanity_check(message checks, URI checks)`: `None` when all is well, else what the request is
/// answered with: a 400, or a 420 of the Proxy-Require check. `17895, 7` is the usual set; `15`
/// looks at Contact too. The message is looked at as it came.
pub fn check(draft: &Draft, message_checks: i64, uri_checks: i64) -> Option<Failure> {
    let message = &draft.message;
    let checks: [(i64, Check, &'static str); 11] = [
        (bit::SCHEME, scheme, "Bad Request URI"),
        (bit::REQUIRED, required, "Header Fields That Must Be Unique Are Repeated"),
        (bit::CSEQ_METHOD, cseq_method, "CSeq method does not match request method"),
        (bit::CSEQ_VALUE, cseq_value, "CSeq number is illegal"),
        (bit::LENGTH, length, "Content-Length mis-match"),
        (bit::EXPIRES, expires, "Expires value is illegal"),
        (bit::VIA, via, "Bad Via"),
        (bit::DIGEST, digest, "Bad Auth Credentials"),
        (bit::AUTHORIZATION, authorization, "Bad Auth Credentials"),
        (bit::TAGS, from_tags, "Many From Tag Params"),
        (bit::TAGS, to_tags, "Many To Tag Params"),
    ];
    for (bit, is_sound, reason) in checks {
        if message_checks & bit != 0 && !is_sound(message) {
            return Some(Failure { code: 400, reason });
        }
    }
    if message_checks & bit::PROXY_REQUIRE != 0 && message.first(Name::ProxyRequire).is_some() {
        return Some(Failure { code: 420, reason: "Bad Proxy-Require Extension" });
    }
    if message_checks & bit::URIS != 0 {
        return uris(message, uri_checks).map(|reason| Failure { code: 400, reason });
    }
    None
}

type Check = fn(&Message) -> bool;

/// The scheme of the Request-URI is one that a proxy can do something with.
fn scheme(message: &Message) -> bool {
    let Start::Request { uri, .. } = message.start() else { return true };
    let scheme = uri.split(|byte| *byte == b':').next().unwrap_or_default();
    [&b"sip"[..], b"sips", b"tel", b"tels", b"urn"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
}

/// From, To, Call-ID and `CSeq` are there once: without them it would be no message, and of two
/// others might read the second (S-28).
fn required(message: &Message) -> bool {
    [Name::From, Name::To, Name::CallId, Name::CSeq]
        .iter()
        .all(|name| message.all(*name).count() == 1)
}

fn cseq_method(message: &Message) -> bool {
    message.cseq().method == message.method()
}

fn cseq_value(message: &Message) -> bool {
    is_u32(message.cseq().digits)
}

/// Content-Length is the number of bytes that came (S-19).
fn length(message: &Message) -> bool {
    match message.content_length() {
        ContentLength::Missing => true,
        ContentLength::Bytes(length) => length == message.body().len() as u64,
        ContentLength::Bad => false,
    }
}

fn expires(message: &Message) -> bool {
    message.first(Name::Expires).is_none_or(|header| is_u32(header.value))
}

/// Every Via can be read to its end.
fn via(message: &Message) -> bool {
    let read = message.vias().last().map(|via| via.at.1);
    let end = message.all(Name::Via).next_back().map(|header| header.value_at.end);
    read == end
}

fn from_tags(message: &Message) -> bool {
    has_one_tag(message.from().params)
}

fn to_tags(message: &Message) -> bool {
    has_one_tag(message.to().params)
}

fn has_one_tag(params: Params<'_>) -> bool {
    params.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"tag")).count() <= 1
}

/// Credentials are those of a digest, with all that it needs.
fn digest(message: &Message) -> bool {
    credentials(message).all(|header| is_digest(header.value).unwrap_or(false))
}

/// The same for credentials that say that they are.
fn authorization(message: &Message) -> bool {
    credentials(message).all(|header| is_digest(header.value).unwrap_or(true))
}

fn credentials(message: &Message) -> impl Iterator<Item = Header<'_>> {
    message.all(Name::Authorization).chain(message.all(Name::ProxyAuthorization))
}

/// Whether a digest has all that it needs; `None` for another scheme.
fn is_digest(value: &[u8]) -> Option<bool> {
    let end = value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len());
    let (scheme, params) = value.split_at(end);
    if !scheme.eq_ignore_ascii_case(b"Digest") {
        return None;
    }
    let needed: [&[u8]; 5] = [b"username", b"realm", b"nonce", b"uri", b"response"];
    let mut has = [false; 5];
    for param in split(params) {
        let Some(equals) = param.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = (param[..equals].trim_ascii(), param[equals + 1..].trim_ascii());
        let is_empty = matches!(value, b"" | b"\"\"");
        if let Some(place) = needed.iter().position(|needed| name.eq_ignore_ascii_case(needed)) {
            has[place] |= !is_empty;
        }
    }
    Some(has == [true; 5])
}

/// The parts between commas that are not quoted.
fn split(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |byte| {
        let is_escaped = std::mem::replace(&mut escaped, false);
        match byte {
            b'\\' if quoted && !is_escaped => escaped = true,
            b'"' if !is_escaped => quoted = !quoted,
            b',' => return !quoted,
            _ => {}
        }
        false
    })
}

/// What is wrong with the URIs that are to be looked at.
fn uris(message: &Message, checks: i64) -> Option<&'static str> {
    let is_bad = |address: NameAddr<'_>| address.parsed_uri().is_err();
    if let (Start::Request { uri, .. }, true) = (message.start(), checks & uri_bit::REQUEST != 0)
        && Uri::parse(uri).is_err()
    {
        return Some("Bad Request URI");
    }
    if checks & uri_bit::FROM != 0 && is_bad(message.from()) {
        return Some("Invalid From Header");
    }
    if checks & uri_bit::TO != 0 && is_bad(message.to()) {
        return Some("Invalid To Header");
    }
    if checks & uri_bit::CONTACT != 0 {
        let mut contacts = message.addresses(Name::Contact);
        if contacts
            .any(|contact| contact.map_or(true, |contact| contact.uri != b"*" && is_bad(contact)))
        {
            return Some("Bad Contact URI");
        }
    }
    None
}

fn is_u32(digits: &[u8]) -> bool {
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
    number.is_some() && digits.iter().all(u8::is_ascii_digit)
}
