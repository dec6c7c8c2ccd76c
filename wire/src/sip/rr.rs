//! Record-Route and Route (contract 6.2).

use super::draft::Draft;
use super::own::Own;

/// `record_route()`: `append_fromtag` adds `;ftag=`. 1, or -1 when it was done already.
pub fn record_route(_draft: &mut Draft, _own: &Own, _append_fromtag: bool) -> i64 {
    unimplemented!()
}

/// `record_route_preset(addr1, addr2)`; the second may be empty.
pub fn record_route_preset(
    _draft: &mut Draft,
    _first: &[u8],
    _second: &[u8],
    _append_fromtag: bool,
) -> i64 {
    unimplemented!()
}

/// `loose_route()`: 1 go on by Route or Request-URI, -1 no Route of use, -3 preloaded and nothing left.
pub fn loose_route(_draft: &mut Draft, _own: &Own) -> i64 {
    unimplemented!()
}

/// `add_rr_param(text)`.
pub fn add_rr_param(_draft: &mut Draft, _text: &[u8]) -> i64 {
    unimplemented!()
}

/// `check_route_param(regex)` on the Route that was removed.
pub fn check_route_param(_draft: &Draft, _pattern: &str) -> i64 {
    unimplemented!()
}

/// `is_direction("upstream" | "downstream")` by `ftag`.
pub fn is_direction(_draft: &Draft, _which: &str) -> i64 {
    unimplemented!()
}
