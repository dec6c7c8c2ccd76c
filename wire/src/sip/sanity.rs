//! Sanity checks (contract 6.3).

use super::draft::Draft;

/// `sanity_check(message checks, URI checks)`: `None` when all is well, else the reason phrase of
/// a 400. `17895, 7` is the usual set.
pub fn check(_draft: &Draft, _message_checks: i64, _uri_checks: i64) -> Option<&'static str> {
    unimplemented!()
}
