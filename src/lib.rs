//! The `lineway` program: command line, configuration, chain building, start and stop; and
//! [`zmp`], DEALER and ROUTER sockets for other programs.
//!
//! Thin on purpose: what a protocol says is decided in `lineway-wire`, what a line or a socket does
//! lives in `lineway-actors`. Everything but [`zmp`] exists for the program and its tests and is not
//! a stable interface.

pub mod admin;
pub mod chain;
pub mod cli;
pub mod config;
pub mod lines;
pub mod load;
pub mod log;
pub mod run;
pub mod sockets;
pub mod suggest;
pub mod zmp;
