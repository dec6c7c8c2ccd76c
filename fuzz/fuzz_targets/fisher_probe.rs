//! The fisher's server: the probe at any segmentation.

#![no_main]

#[path = "../checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::fisher::probe(data));
