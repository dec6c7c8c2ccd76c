//! `lineway run`: the life of the service.

use std::process::ExitCode;

use crate::config::{LoadOptions, Loaded};

/// What the command line says about a run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// How the configuration was loaded; a reload does it the same way.
    pub load: LoadOptions,
}

/// Runs the service until it is told to stop.
///
/// # Errors
/// Whatever keeps the service from starting or ends it early.
pub fn run(loaded: Loaded, options: &RunOptions) -> anyhow::Result<ExitCode> {
    let _ = (loaded, options);
    anyhow::bail!("not built yet")
}
