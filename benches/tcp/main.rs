//! A plain TCP chain of Lineway beside HAProxy in TCP mode, in one run: `cargo bench --bench tcp`; see
//! `docs/performance.md`.

// HAProxy is a name, and these comments are texts of the help.
#![allow(clippy::doc_markdown)]

#[allow(dead_code, unused_imports, reason = "each bench uses a part of it")]
#[path = "../beside/mod.rs"]
mod beside;
mod parts;
mod proxy;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use beside::{Backends, Sampling, haproxy};
use parts::{Part, Side};
use proxy::Kind;

#[derive(Debug, Parser)]
#[command(name = "cargo bench --bench tcp --")]
struct Args {
    /// What to measure [default: all]
    #[arg(value_enum)]
    parts: Vec<Part>,
    #[command(flatten)]
    sampling: Sampling,
    /// Idle lines; fewer if the descriptor limit asks for it
    #[arg(long, default_value_t = 5_000)]
    lines: usize,
    /// Lines that come and go for the growth of memory
    #[arg(long, default_value_t = 100_000)]
    churn: u64,
    /// Program of HAProxy
    #[arg(long, default_value = "haproxy")]
    haproxy: String,
    /// Measure this in place of `lineway run`; {echo}, {echo-backend}, {sink}, {sink-backend} become addresses
    #[arg(long, value_name = "COMMAND")]
    instead: Option<String>,
    /// Measure a second HAProxy in place of `lineway run`: the ratios show what the method can not tell apart
    #[arg(long, conflicts_with = "instead")]
    twice: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let mut args = Args::parse();
    beside::end_with_signals()?;
    beside::fit(&mut args.lines);
    let present = haproxy::is_there(&args.haproxy);
    let haproxy = present.then(|| Kind::HaProxy(args.haproxy.clone()));
    let ours = match &args.instead {
        Some(command) => Some(Kind::Command(command.clone())),
        None if args.twice => haproxy.clone(),
        None => Some(Kind::Lineway),
    };
    let sides = [Side { kind: haproxy }, Side { kind: ours }];
    let backends = Backends::start()?;
    let all = Part::value_variants();
    let mut rows = Vec::new();
    let mut failed = false;
    for part in if args.parts.is_empty() { all } else { &args.parts } {
        eprintln!("{part:?} ...");
        match part.measure(&args, &sides, &backends) {
            Ok(measured) => rows.extend(measured),
            Err(error) => {
                eprintln!("{error:#}");
                failed = true;
            }
        }
    }
    beside::print(&rows, args.sampling.json, ["HAProxy", "Lineway"])?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
