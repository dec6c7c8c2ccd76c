//! Lineway: command line, configuration, chain building, admin interface, start and stop.

pub mod admin;
pub mod lines;
