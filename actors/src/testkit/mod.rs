//! The kit that tests actors: it plays the neighbours of any of them, the network and the clock.

pub mod settings;
