//! The actor that a `SipRouter` has on each worker: it takes the messages of its calls in order,
//! runs the script and sends what that decided.

mod calls;
mod core;
mod sending;
#[cfg(test)]
mod tests;
