//! `lineway load`: loads a peer and tells what it saw. Not part of the service: it does not know its
//! configuration, so that what it measures of another program is as true as what it measures of this one.

pub mod histogram;
pub mod sip;
pub mod table;
pub mod tcp;
pub mod zmp;

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long a load without `--duration-ms` and `--count` lasts.
const DEFAULT_DURATION: Duration = Duration::from_secs(5);

/// A bar of so many steps; hidden when it is not wanted, and unless standard error is a terminal.
fn progress_bar(total: u64, quiet: bool) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar
}
