//! What the benches share that measure Lineway beside a peer in one run.

pub(crate) mod haproxy;
mod lines;
mod load;
mod process;
mod service;
mod side;
mod table;

use anyhow::Context;

pub(crate) use lines::{SETTLE, fit, open_lines, resident_for_each};
pub(crate) use load::{CONNECTING, connects, load, ping_p50, streams};
pub(crate) use process::{Backends, Process, cpu_seconds_of, end_with_signals};
pub(crate) use service::{Nodes, Ready, free_addresses, service, start_ready};
pub(crate) use side::{Instead, Node, Side};
pub(crate) use table::{Must, Row, render};

/// Measures both sides, A B A B, and returns the rows with the medians. A side that can not be
/// started here is nothing.
///
/// Both are started anew each time: how the threads of one process come to lie moves its figures.
pub(crate) fn in_turn<S>(
    rounds: usize,
    rows: &[(String, Must)],
    start: impl Fn(usize) -> anyhow::Result<Option<S>>,
    figures: impl Fn(&S) -> anyhow::Result<Vec<f64>>,
) -> anyhow::Result<Vec<Row>> {
    let mut samples: [Vec<Vec<f64>>; 2] = Default::default();
    for _ in 0..rounds {
        let sides = [start(0)?, start(1)?];
        for (at, (side, samples)) in sides.iter().zip(&mut samples).enumerate() {
            if let Some(side) = side {
                let name = ["the peer", "ours"][at];
                samples.push(figures(side).with_context(|| format!("measuring {name}"))?);
            }
        }
    }
    let row = |at: usize, (name, must): &(String, Must)| {
        let [peer, ours] =
            samples.each_ref().map(|side| median(side.iter().map(|round| round[at]).collect()));
        Row::new(name, peer, ours, *must)
    };
    Ok(rows.iter().enumerate().map(|(at, name)| row(at, name)).collect())
}

// No doc comment: clap would print it as what the bench is.
// How much is measured, and how it is printed: what every bench is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Sampling {
    /// Samples of each side, taken in turn
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// Seconds of one sample
    #[arg(long, default_value_t = 2.0)]
    pub(crate) seconds: f64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

/// The middle sample, or the mean of the two in the middle.
fn median(mut samples: Vec<f64>) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match (samples.len(), samples.len() % 2) {
        (0, _) => None,
        (_, 1) => Some(samples[middle]),
        _ => Some(f64::midpoint(samples[middle - 1], samples[middle])),
    }
}

/// Prints the rows as JSON or as a table.
pub(crate) fn print(rows: &[Row], json: bool, names: [&str; 2]) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(rows)?);
    } else {
        print!("{}", render(rows, names));
    }
    Ok(())
}
