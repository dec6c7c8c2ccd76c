//! Max-Forwards (contract 6.1).

use super::draft::Draft;

/// `max_limit`: larger values become this one (R152).
pub const MOST: u32 = 70;

/// `process_maxfwd(limit)`: 1 lowered, 2 added, -1 it was 0, -2 it can not be read.
pub fn process(_draft: &mut Draft, _limit: i64) -> i64 {
    unimplemented!()
}

/// `is_maxfwd_lt(limit)`: 1 lower, -1 not, -2 not there or not readable.
pub fn is_lower(_draft: &Draft, _limit: i64) -> i64 {
    unimplemented!()
}
