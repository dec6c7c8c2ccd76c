//! The answers of RFC 3261 16.3 and 8.2.1 that a proxy of this kind leaves out (`strict-answers`).

use bytes::Bytes;

use super::draft::{Draft, Failure};
use super::message::{Method, Name, Uri};
use super::own::Own;

#[cfg(test)]
mod tests;

/// A scheme that nothing here can be sent to (RFC 3261 16.3 step 2).
const SCHEME: Failure = Failure { code: 416, reason: "Unsupported URI Scheme" };

/// What it wants of a proxy is not there (RFC 3261 16.3 step 5). The reply lists it in Unsupported.
const EXTENSION: Failure = Failure { code: 420, reason: "Bad Extension" };

/// This host does not serve that method (RFC 3261 8.2.1).
const METHOD: Failure = Failure { code: 405, reason: "Method Not Allowed" };

/// The methods that are served where this host itself is addressed.
const ALLOW: &[u8] = b"Allow: OPTIONS, REGISTER, CANCEL, ACK\r\n";

/// What a request that just came in is refused with, and whole header lines of that reply:
///
/// - 416 where the scheme of the Request-URI is none of sip, sips and tel;
/// - 420 for any Proxy-Require, as there is no extension here;
/// - 405 for a request to this host itself (an own Request-URI without a user) that begins
///   something which is not served there. One within a dialog may come from a strict router,
///   which puts an own Record-Route into the Request-URI (R118).
///
/// `None` for all others; for an ACK, which nothing answers; and for a CANCEL, whose INVITE was
/// asked before (8.2.2.3).
pub fn check(draft: &Draft, own: &Own) -> Option<(Failure, Vec<Bytes>)> {
    let message = &draft.message;
    let method = message.method();
    if !message.is_request() || matches!(method, Method::Ack | Method::Cancel) {
        return None;
    }
    // What is no URI at all is a matter of sanity checks.
    let uri = Uri::parse(draft.received_uri()).ok();
    if uri.is_some_and(|uri| !uri.is_sip() && !uri.is_tel()) {
        return Some((SCHEME, Vec::new()));
    }
    if message.first(Name::ProxyRequire).is_some() {
        return Some((EXTENSION, Vec::new()));
    }
    let serves = matches!(method, Method::Options | Method::Register);
    let in_dialog = message.to().tag().is_some();
    let to_us = uri.is_some_and(|uri| uri.user.is_none() && own.is_own_uri(&uri));
    (to_us && !serves && !in_dialog).then(|| (METHOD, vec![Bytes::from_static(ALLOW)]))
}
