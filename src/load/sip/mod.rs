//! `lineway load sip`: calls or OPTIONS through a proxy, and the phone that answers them.
//!
//! The phones are simple ones: a request is sent again until it has a final reply, whatever
//! provisional ones came, and the far phone answers each copy alike, so that neither keeps timers
//! for what the other may have missed.

mod callee;
mod caller;
mod link;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;

use super::histogram::Histogram;
use super::tcp::Latency;
use super::{duration, progress_bar, results, steps};

pub use callee::Callee;

/// What is of no use to the phone that answers.
const LOADING: [&str; 9] = [
    "mode",
    "uri",
    "transport",
    "outstanding",
    "rate",
    "duration_ms",
    "count",
    "timeout_ms",
    "json",
];

/// What `lineway load sip` takes from the command line.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// HOST:PORT of the proxy; with --serve, the address to listen on (port 0: any free one)
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// Be the phone that answers calls, over UDP, until SIGINT or SIGTERM
    #[arg(long, conflicts_with_all = LOADING)]
    pub serve: bool,
    /// What each operation is
    #[arg(long, value_enum, default_value_t = Mode::Options)]
    pub mode: Mode,
    /// Whom to call; without it sip:load@TARGET, for OPTIONS sip:TARGET
    #[arg(long, value_name = "URI", value_parser = uri)]
    pub uri: Option<String>,
    /// By what
    #[arg(long, value_enum, default_value_t = By::Udp)]
    pub transport: By,
    /// Calls or OPTIONS under way at a time
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub outstanding: u32,
    /// Operations each second at most; one that is due waits while --outstanding are under way
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: Option<u32>,
    /// Milliseconds until nothing further is started [default: 5000, none with --count]
    #[arg(long, value_name = "MS")]
    pub duration_ms: Option<u64>,
    /// Operations in all
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Milliseconds that each request of an operation may take
    #[arg(long, value_name = "MS", default_value_t = 8_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout_ms: u64,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// No progress bar, and of the result only the exit code and --json
    #[arg(long, short)]
    pub quiet: bool,
}

/// What an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// OPTIONS and its answer
    Options,
    /// INVITE, its answers, ACK, BYE, its answer
    Call,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::Options => "options",
            Self::Call => "call",
        }
    }
}

/// How requests travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Datagrams
    Udp,
    /// One TCP connection
    Tcp,
}

impl By {
    /// As in a Via.
    const fn word(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        }
    }
}

fn uri(text: &str) -> Result<String, String> {
    match lineway_wire::sip::message::Uri::parse(text.as_bytes()) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The result of a load; its JSON form is what `--json` prints.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `options` or `call`.
    pub mode: &'static str,
    /// What was loaded.
    pub target: String,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Operations that ended well.
    pub operations: u64,
    /// Of these, each second.
    pub per_second: f64,
    /// Microseconds from a request to its final answer: that of the OPTIONS, of the INVITE of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Latency>,
    /// Requests that were sent again.
    pub retransmissions: u64,
    /// Failures: the status, or `timeout`.
    pub errors: BTreeMap<String, u64>,
}

/// What a load has seen.
#[derive(Debug, Default)]
struct Tally {
    operations: u64,
    latency: Histogram,
    retransmissions: u64,
    errors: BTreeMap<String, u64>,
}

impl Args {
    /// How long operations start; nothing when only `--count` ends the load.
    fn duration(&self) -> Option<Duration> {
        duration(self.duration_ms, self.count)
    }
}

/// Runs the load and prints its result, or serves the phone. The exit code is 1 if anything failed.
///
/// # Errors
/// The target does not resolve, can not be reached or can not be listened on.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if args.serve {
        return runtime.block_on(async {
            let callee = Callee::bind(&args.target)
                .await
                .with_context(|| format!("can not listen on {}", args.target))?;
            println!("{}", callee.address());
            tokio::select! {
                ended = callee.serve() => ended?,
                signal = signal() => signal?,
            }
            Ok(ExitCode::SUCCESS)
        });
    }
    let report = runtime.block_on(load(args)).with_context(|| args.target.clone())?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else if !args.quiet {
        print!("{report}");
    }
    Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn signal() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Puts the load on the target.
///
/// # Errors
/// It does not resolve or can not be reached.
pub async fn load(args: &Args) -> anyhow::Result<Report> {
    let target = tokio::net::lookup_host(&args.target).await?.next().context("no address")?;
    let link = link::Link::open(args.transport, target).await?;
    let bar = progress_bar(steps(args.count, args.duration()), args.quiet);
    let (took, tally) = caller::Caller::new(args, link, target).run(&bar).await?;
    bar.finish_and_clear();
    let seconds = took.as_secs_f64().max(1e-9);
    Ok(Report {
        mode: args.mode.name(),
        target: args.target.clone(),
        seconds,
        operations: tally.operations,
        per_second: tally.operations as f64 / seconds,
        latency_us: Latency::of(&tally.latency),
        retransmissions: tally.retransmissions,
        errors: tally.errors,
    })
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = results(
            (self.mode, &self.target),
            self.seconds,
            (self.operations, self.per_second),
            self.latency_us,
        );
        table.row(["retransmissions", &self.retransmissions.to_string()]);
        for (why, count) in &self.errors {
            table.row([format!("errors: {why}"), count.to_string()]);
        }
        table.fmt(f)
    }
}
