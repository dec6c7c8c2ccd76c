//! `inproc://`: endpoints of one context, with the same frames as every other transport.

/// The inproc endpoints of one context; a clone is the same context.
#[derive(Clone, Debug, Default)]
pub struct Inproc {}
