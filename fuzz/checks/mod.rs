//! What the fuzz targets check, on its own: a test of `wire` runs the same over the corpus and over
//! random input, so that it is checked where no fuzzer is.

pub(crate) mod fisher;
mod input;
pub(crate) mod mux;
pub(crate) mod sip;
pub(crate) mod zmp;
