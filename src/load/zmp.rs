//! `lineway load zmp`: requests or records against a ROUTER, from a DEALER of its own.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::ValueEnum;
use indicatif::ProgressBar;
use serde::Serialize;

use super::histogram::Histogram;
use super::tcp::Latency;
use super::{duration, progress_bar, results, steps};
use crate::zmp::{Context, Dealer, Outcome, Record, RequestResult, SocketOptions, SubmitResult};

/// How many operations there are between two looks at the clock and at the progress bar.
const STRIDE: u64 = 256;

/// What `lineway load zmp` takes from the command line.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The ROUTER, such as `tcp://127.0.0.1:5555`
    #[arg(value_name = "ENDPOINT", value_parser = crate::sockets::place)]
    pub endpoint: String,
    /// What is sent
    #[arg(long, value_enum, default_value_t = Mode::Request)]
    pub mode: Mode,
    /// Requests under way at a time
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub outstanding: u32,
    /// Bytes of one record
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=16 << 20))]
    pub size: u32,
    /// Milliseconds until nothing further is sent [default: 5000, none with --count]
    #[arg(long, value_name = "MS")]
    pub duration_ms: Option<u64>,
    /// Requests or records in all
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Milliseconds that the connection, or an answer, may take
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout_ms: u32,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// No progress bar, and of the result only the exit code and --json
    #[arg(long, short)]
    pub quiet: bool,
}

/// What a load sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Requests, each of which is answered
    Request,
    /// Records that nobody answers, as fast as they are taken
    Send,
}

/// The result of a load; its JSON form is what `--json` prints.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `request` or `send`.
    pub mode: &'static str,
    /// What was loaded.
    pub target: String,
    /// From the first record to the last answer, or until the last record was taken.
    pub seconds: f64,
    /// Requests that were answered, or records that were taken.
    pub operations: u64,
    /// Of these, each second.
    pub per_second: f64,
    /// Microseconds of a request; nothing for records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Latency>,
    /// Failures by the contract's result.
    pub errors: BTreeMap<&'static str, u64>,
}

impl Args {
    /// How long operations start; nothing when only `--count` ends the load.
    fn duration(&self) -> Option<Duration> {
        duration(self.duration_ms, self.count)
    }
}

#[derive(Default)]
struct Tally {
    operations: u64,
    latency: Histogram,
    errors: BTreeMap<&'static str, u64>,
}

/// Runs the load and prints its result. The exit code is 1 if anything failed.
///
/// # Errors
/// The endpoint is wrong, nobody is there in time, or a thread can not start.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let context = Context::new()?;
    let loaded = runtime.block_on(load(args, &context)).with_context(|| args.endpoint.clone());
    // The last words of the connection are on their way when this is over.
    context.join();
    let report = loaded?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else if !args.quiet {
        print!("{report}");
    }
    Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn load(args: &Args, context: &Context) -> anyhow::Result<Report> {
    let timeout = Duration::from_millis(args.timeout_ms.into());
    let mut options = SocketOptions::dealer();
    options.send_timeout = Some(timeout);
    options.receive_timeout = None;
    options.core.request_timeout = timeout;
    options.linger = Some(timeout);
    let dealer = context.dealer(options);
    dealer.connect(&args.endpoint).await?;
    let bar = progress_bar(steps(args.count, args.duration()), args.quiet);
    let began = Instant::now();
    let tally = match args.mode {
        Mode::Request => requests(args, &dealer, &bar, began).await?,
        Mode::Send => records(args, &dealer, &bar, began).await?,
    };
    bar.finish_and_clear();
    // What is queued has to leave before a rate means anything.
    dealer.close().await?;
    Ok(Report::new(args, began.elapsed(), tally))
}

/// When nothing further is sent.
struct Until {
    time: Option<Instant>,
    count: u64,
}

impl Until {
    fn new(args: &Args, began: Instant) -> Self {
        let time = args.duration().map(|duration| began + duration);
        Self { time, count: args.count.unwrap_or(u64::MAX) }
    }

    fn is_over(&self, sent: u64, now: Instant) -> bool {
        sent >= self.count || self.time.is_some_and(|time| now >= time)
    }
}

async fn requests(
    args: &Args,
    dealer: &Dealer,
    bar: &ProgressBar,
    began: Instant,
) -> anyhow::Result<Tally> {
    let until = Until::new(args, began);
    let limit = Duration::from_millis(args.timeout_ms.into());
    let payload = vec![0; args.size as usize];
    let mut tally = Tally::default();
    let (mut sent, mut ended) = (0, 0);
    let mut now = began;
    loop {
        while sent - ended < u64::from(args.outstanding) && !until.is_over(sent, now) {
            let at = now.duration_since(began).as_nanos() as u64;
            if let Err(refused) = dealer.try_request(payload.clone(), None, at) {
                let token = refused.token();
                anyhow::ensure!(refused.result() == SubmitResult::Backpressured, refused);
                let Some(token) = token else { break };
                // The connection, or room on it.
                let room = tokio::time::timeout(limit, dealer.writable(token));
                room.await.context("no peer took a request in time")??;
                now = Instant::now();
                continue;
            }
            sent += 1;
        }
        if sent == ended {
            break;
        }
        let completion = match dealer.try_completion() {
            Ok(completion) => completion,
            Err(_) => dealer.next_completion().await?,
        };
        ended += 1;
        now = Instant::now();
        let Outcome::Request { result, .. } = completion.outcome else { continue };
        if result == RequestResult::Ok {
            let took = now.duration_since(began).as_nanos() as u64 - completion.context;
            tally.latency.record(Duration::from_nanos(took));
            tally.operations += 1;
        } else {
            *tally.errors.entry(result.as_str()).or_default() += 1;
        }
        if ended.is_multiple_of(STRIDE) {
            bar.set_position(progress(args, ended, now.duration_since(began)));
        }
    }
    Ok(tally)
}

async fn records(
    args: &Args,
    dealer: &Dealer,
    bar: &ProgressBar,
    began: Instant,
) -> anyhow::Result<Tally> {
    let until = Until::new(args, began);
    let payload = vec![0; args.size as usize];
    let mut tally = Tally::default();
    let mut now = began;
    while !until.is_over(tally.operations, now) {
        dealer.send(Record::new(payload.clone())).await?;
        tally.operations += 1;
        if tally.operations.is_multiple_of(STRIDE) {
            now = Instant::now();
            bar.set_position(progress(args, tally.operations, now.duration_since(began)));
        }
    }
    Ok(tally)
}

/// How far the load is, of its [`steps`].
fn progress(args: &Args, done: u64, elapsed: Duration) -> u64 {
    if args.count.is_some() { done } else { elapsed.as_millis() as u64 }
}

impl Report {
    fn new(args: &Args, took: Duration, tally: Tally) -> Self {
        let seconds = took.as_secs_f64().max(1e-9);
        let mode = match args.mode {
            Mode::Request => "request",
            Mode::Send => "send",
        };
        Self {
            mode,
            target: args.endpoint.clone(),
            seconds,
            operations: tally.operations,
            per_second: tally.operations as f64 / seconds,
            latency_us: Latency::of(&tally.latency),
            errors: tally.errors,
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = results(
            (self.mode, &self.target),
            self.seconds,
            (self.operations, self.per_second),
            self.latency_us,
        );
        for (result, count) in &self.errors {
            table.row([format!("errors: {result}"), count.to_string()]);
        }
        table.fmt(f)
    }
}
