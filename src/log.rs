//! What is written to standard error while the service runs.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::fmt;

use crate::config::{LogFormat, LogSettings};

/// Sends log lines to standard error, as `[log]` says. A reader that is gone is no reason to end.
pub fn init(settings: &LogSettings) {
    let builder = fmt()
        .with_env_filter(settings.level.filter())
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .log_internal_errors(false);
    // The first one stays: tests run several services in one process.
    let _ = match settings.format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
