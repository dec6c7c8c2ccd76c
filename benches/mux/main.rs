//! Lines through a mux pair of two processes beside plain chains of one, in one run:
//! `cargo bench --bench mux`; see `docs/performance.md`.

#[allow(dead_code, unused_imports, reason = "each bench uses a part of it")]
#[path = "../beside/mod.rs"]
mod beside;
mod busy;
mod parts;

use std::process::ExitCode;

use clap::Parser;

use beside::{Backends, Instead, Sampling};
use parts::Part;

#[derive(Debug, Parser)]
#[command(name = "cargo bench --bench mux --")]
struct Args {
    /// What to measure [default: all]
    #[arg(value_enum)]
    parts: Vec<Part>,
    #[command(flatten)]
    sampling: Sampling,
    /// Busy children on one parent
    #[arg(long, default_value_t = 1_000)]
    children: usize,
    /// Busy children that they are compared with
    #[arg(long, default_value_t = 10)]
    few: usize,
    /// Payloads of all busy children that are sent each second, where the rate is fixed
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// Idle lines; fewer if the descriptor limit asks for it
    #[arg(long, default_value_t = 5_000)]
    lines: usize,
    /// Program of `HAProxy`
    #[arg(long, default_value = "haproxy")]
    haproxy: String,
    /// Measure this in place of the mux pair
    #[arg(long, value_enum)]
    instead: Option<Instead>,
}

fn main() -> anyhow::Result<ExitCode> {
    let mut args = Args::parse();
    beside::end_with_signals()?;
    beside::fit(&mut args.lines);
    let backends = Backends::start()?;
    let parts = if args.parts.is_empty() { Part::all() } else { &args.parts };
    let mut rows = Vec::new();
    let mut failed = false;
    for part in parts {
        eprintln!("{part:?} ...");
        match part.measure(&args, &backends) {
            Ok(measured) => rows.extend(measured),
            Err(error) => {
                eprintln!("{part:?}: {error:#}");
                failed = true;
            }
        }
    }
    let ours = match args.instead {
        None => "mux pair",
        Some(Instead::Pair) => "plain pair",
        Some(Instead::Plain) => "plain again",
    };
    beside::print(&rows, args.sampling.json, ["peer", ours])?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
