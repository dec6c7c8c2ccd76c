//! Sanity checks (contract 6.3).

use super::draft::{Draft, Failure};

/// `sanity_check(message checks, URI checks)`: `None` when all is well, else what the request is
/// answered with: a 400, or a 420 of the Proxy-Require check. `17895, 7` is the usual set.
pub fn check(_draft: &Draft, _message_checks: i64, _uri_checks: i64) -> Option<Failure> {
    unimplemented!()
}
