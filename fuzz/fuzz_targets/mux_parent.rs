//! The mux: one side of a parent under any bytes and operations.

#![no_main]

#[path = "../checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::mux::parent(data));
