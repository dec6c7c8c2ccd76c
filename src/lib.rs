//! The `lineway` program: command line, configuration, chain building, start and stop.
//!
//! Thin on purpose: what a protocol says is decided in `lineway-wire`, what a line does lives in
//! `lineway-actors`. This package is a program; its library exists for its own tests and is not a
//! stable interface.

pub mod admin;
pub mod chain;
pub mod cli;
pub mod config;
pub mod lines;
pub mod load;
pub mod log;
pub mod run;
pub mod suggest;
