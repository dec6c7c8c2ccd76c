//! The `lines` command.
