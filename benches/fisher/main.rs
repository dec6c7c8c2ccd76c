//! A line through a fisher pair of two processes beside a plain chain of one, in one run:
//! `cargo bench --bench fisher`; see `docs/performance.md`.

#[allow(dead_code, unused_imports, reason = "each bench uses a part of it")]
#[path = "../beside/mod.rs"]
mod beside;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use beside::{Instead, Must, Node, Process, Row, Sampling, Side, connects, in_turn, ping_p50};

/// Workers of each process.
const WORKERS: usize = 2;

#[derive(Debug, Parser)]
#[command(name = "cargo bench --bench fisher --")]
struct Args {
    /// What to measure [default: all]
    #[arg(value_enum)]
    parts: Vec<Part>,
    #[command(flatten)]
    sampling: Sampling,
    /// Candidates of each line
    #[arg(long, default_value_t = 2)]
    tries: u32,
    /// Measure this in place of the fisher pair
    #[arg(long, value_enum)]
    instead: Option<Instead>,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Connects each second and their CPU
    Connect,
    /// Round trip of 64 bytes
    Ping,
}

impl Part {
    fn rows(self) -> Vec<(String, Must)> {
        match self {
            Self::Connect => vec![
                ("connect + 1 byte + close, each second".into(), Must::RatioAtLeast(0.45)),
                ("CPU µs for each of them, all processes".into(), Must::Nothing),
            ],
            Self::Ping => vec![("64-byte ping-pong p50, µs".into(), Must::RatioAtMost(1.5))],
        }
    }

    fn figures(self, seconds: f64, side: &Side) -> anyhow::Result<Vec<f64>> {
        match self {
            Self::Connect => Ok(connects(side.entry, seconds, || side.cpu_seconds())?.to_vec()),
            Self::Ping => Ok(vec![ping_p50(side.entry, seconds)?]),
        }
    }

    fn measure(self, args: &Args, echo: SocketAddr) -> anyhow::Result<Vec<Row>> {
        let start = |at| match at {
            0 => Side::plain(echo, WORKERS).map(Some),
            _ => Side::ours(args.instead, echo, WORKERS, nodes(args.tries)).map(Some),
        };
        in_turn(args.sampling.rounds, &self.rows(), start, |side| {
            self.figures(args.sampling.seconds, side)
        })
    }
}

/// What makes a pair of processes a fisher pair, with so many candidates of each line.
fn nodes(tries: u32) -> [Node; 2] {
    let settings = format!("simultaneous-tries-perline = {tries}");
    [("ConnectionFisherClient", settings), ("ConnectionFisherServer", String::new())]
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    beside::end_with_signals()?;
    let (_backend, echo) = Process::start_peer("echo")?;
    let all = Part::value_variants();
    let mut rows = Vec::new();
    let mut failed = false;
    for part in if args.parts.is_empty() { all } else { &args.parts } {
        eprintln!("{part:?} ...");
        match part.measure(&args, echo) {
            Ok(measured) => rows.extend(measured),
            Err(error) => {
                eprintln!("{part:?}: {error:#}");
                failed = true;
            }
        }
    }
    let ours = match args.instead {
        None => "fisher pair",
        Some(Instead::Pair) => "plain pair",
        Some(Instead::Plain) => "plain again",
    };
    beside::print(&rows, args.sampling.json, ["plain chain", ours])?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
