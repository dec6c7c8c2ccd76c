//! A plain TCP chain of Lineway beside HAProxy in TCP mode, in one run: `cargo bench --bench tcp`; see
//! `docs/performance.md`.

// HAProxy is a name, and these comments are texts of the help.
#![allow(clippy::doc_markdown)]

#[path = "../beside/mod.rs"]
mod beside;
mod parts;
mod proxy;

use std::process::{Command, ExitCode, Stdio};

use clap::{Parser, ValueEnum};

use beside::Sampling;
use parts::{Part, Side};
use proxy::{Backends, Kind};

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
    fit_lines(&mut args);
    let present = has_haproxy(&args.haproxy);
    if !present {
        eprintln!(
            "{} does not start, so that only Lineway is measured; `apt-get install haproxy` brings it",
            args.haproxy
        );
    }
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

/// Raises the descriptor limit, which the children inherit, and bounds the idle lines by it: a line takes one
/// descriptor here, one at the backend, and two in a proxy, or some more where it splices.
fn fit_lines(args: &mut Args) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
    if let Some(descriptors) = getrlimit(Resource::Nofile).current {
        let lines = (descriptors.saturating_sub(1_000) / 4).max(10) as usize;
        if lines < args.lines {
            eprintln!("{lines} idle lines, since the descriptor limit is {descriptors}");
            args.lines = lines;
        }
    }
}

fn has_haproxy(program: &str) -> bool {
    Command::new(program)
        .arg("-v")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
