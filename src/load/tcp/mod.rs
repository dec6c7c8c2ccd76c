//! `lineway load tcp`: streams, connects, pings and idle lines against a peer, and the peers for them.
//!
//! The load comes from as few threads as possible (each a `current_thread` runtime), since it shares its cores with what
//! it measures.

mod client;
mod modes;
mod report;
mod serve;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use super::DEFAULT_DURATION;

pub use client::load;
pub use report::{ErrorKind, Latency, Report};
pub use serve::{Peer, Server};

/// What `lineway load tcp` takes from the command line.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// HOST:PORT to load; with --serve, the address to listen on (port 0: any free one)
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// Be the peer of a load instead of the load, until SIGINT or SIGTERM
    #[arg(long, value_name = "PEER")]
    pub serve: Option<Peer>,
    /// What each connection does
    #[arg(long, value_enum, default_value_t = Mode::Stream)]
    pub mode: Mode,
    /// Connections at the same time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: u32,
    /// Bytes of one buffer (stream, 0: only read) or one ping [default: 262144, 64]
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=16 << 20))]
    pub size: Option<u32>,
    /// Milliseconds until no further operation starts; idle: that the lines are held [default: 5000, none with --count]
    #[arg(long, value_name = "MS")]
    pub duration_ms: Option<u64>,
    /// Operations (buffers, connects or pings) of all connections together; not for idle
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Connects or pings each second, at fixed times whatever the peer does; a late one counts as late
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub rate: Option<u32>,
    /// Check every echoed byte
    #[arg(long)]
    pub verify: bool,
    /// Milliseconds that a connect or an echo may take
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout_ms: u64,
    /// Threads of the load or of the peer
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: u16,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// No progress bar, and of the result only the exit code and --json
    #[arg(long, short)]
    pub quiet: bool,
}

/// What each connection of a load does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Sends buffers as fast as the peer takes them
    Stream,
    /// Connects, sends one byte, waits for its echo, closes, again
    Connect,
    /// Sends a buffer, waits for its echo, again
    Ping,
    /// Sends one byte, waits for its echo, then holds the line
    Idle,
}

impl Mode {
    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Connect => "connect",
            Self::Ping => "ping",
            Self::Idle => "idle",
        }
    }

    /// What is counted.
    fn unit(self) -> &'static str {
        match self {
            Self::Stream => "buffers",
            Self::Connect => "connects",
            Self::Ping => "pings",
            Self::Idle => "lines",
        }
    }
}

impl Args {
    /// Bytes of one buffer in this mode.
    fn buffer_size(&self) -> usize {
        match self.mode {
            Mode::Stream => self.size.map_or(256 << 10, |size| size as usize),
            Mode::Ping => self.size.map_or(64, |size| size.max(1) as usize),
            Mode::Connect | Mode::Idle => 1,
        }
    }

    /// How long operations start; nothing when only `--count` ends the load.
    fn duration(&self) -> Option<Duration> {
        match (self.duration_ms, self.count) {
            (Some(ms), _) => Some(Duration::from_millis(ms)),
            (None, Some(_)) if self.mode != Mode::Idle => None,
            (None, _) => Some(DEFAULT_DURATION),
        }
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// Runs the load and prints its result, or serves a peer. The exit code is 1 if any operation failed.
///
/// # Errors
/// The target does not resolve or can not be listened on, or a thread can not start.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    raise_descriptor_limit();
    if let Some(peer) = args.serve {
        let server = Server::start(&args.target, peer, args.threads)
            .with_context(|| format!("can not listen on {}", args.target))?;
        println!("{}", server.address());
        serve::wait_for_signal()?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = load(args)?;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else if !args.quiet {
        print!("{report}");
    }
    Ok(if report.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Lets the process open as many descriptors as it may; what can not be raised shows as errors of the load.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
}

#[cfg(test)]
mod tests;
