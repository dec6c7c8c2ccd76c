//! The functions of a script: `KSR` and its modules, one table for each.

mod core;

use super::function::Function;

/// Every function that a script can call.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    [core::FUNCTIONS].into_iter().flatten()
}
