//! `lineway load`: loads a peer and tells what it saw. Not part of the service: it does not know its
//! configuration, so that what it measures of another program is as true as what it measures of this one.

pub mod histogram;
pub mod sip;
pub mod table;
pub mod tcp;
pub mod zmp;

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use self::table::Table;
use self::tcp::Latency;

/// How long a load without `--duration-ms` and `--count` lasts.
const DEFAULT_DURATION: Duration = Duration::from_secs(5);

/// How long operations start; nothing when only `--count` ends the load.
fn duration(duration_ms: Option<u64>, count: Option<u64>) -> Option<Duration> {
    match (duration_ms, count) {
        (Some(ms), _) => Some(Duration::from_millis(ms)),
        (None, Some(_)) => None,
        (None, None) => Some(DEFAULT_DURATION),
    }
}

/// The steps of a progress bar: the operations, or else the milliseconds.
fn steps(count: Option<u64>, duration: Option<Duration>) -> u64 {
    count.unwrap_or_else(|| duration.map_or(0, |duration| duration.as_millis() as u64))
}

/// What the result of a load of single operations begins with.
fn results(
    (mode, target): (&str, &str),
    seconds: f64,
    (operations, per_second): (u64, f64),
    latency: Option<Latency>,
) -> Table {
    let mut table = Table::default();
    table.row([mode, target]);
    table.row(["seconds", &format!("{seconds:.3}")]);
    table.row(["operations", &operations.to_string()]);
    table.row(["each second", &format!("{per_second:.0}")]);
    if let Some(latency) = latency {
        for (name, us) in latency.rows() {
            table.row([name, &format!("{us:.1} µs")]);
        }
    }
    table
}

/// A bar of so many steps; hidden when it is not wanted, and unless standard error is a terminal.
fn progress_bar(total: u64, quiet: bool) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar
}
