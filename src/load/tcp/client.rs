//! The load itself: threads that share the connections, the order in which operations start, progress.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::ProgressBar;
use tokio::sync::{Semaphore, watch};

use super::report::{Report, Tally};
use super::{Args, Mode, modes};
use crate::load::progress_bar;

/// Between two drawings of the progress bar.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Idle lines that open at the same time: a burst of all of them would only measure the backlog of the peer.
const OPENING: usize = 64;

/// What all connections of a load share.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) args: Args,
    pub(super) address: SocketAddr,
    pub(super) size: usize,
    pub(super) timeout: Duration,
    pub(super) start: Instant,
    pub(super) deadline: Option<Instant>,
    /// Operations handed out.
    tickets: AtomicU64,
    /// Operations that ended, for the progress bar.
    pub(super) done: AtomicU64,
    pub(super) hold: Hold,
}

/// Idle lines: they open some at a time, and all are held from when the last one is open.
#[derive(Debug)]
pub(super) struct Hold {
    /// Who may open.
    pub(super) turns: Semaphore,
    expected: u64,
    opened: AtomicU64,
    duration: Duration,
    end: watch::Sender<Option<Instant>>,
}

impl Hold {
    fn new(args: &Args) -> Self {
        Self {
            turns: Semaphore::new(OPENING),
            expected: args.connections.into(),
            opened: AtomicU64::new(0),
            duration: args.duration().unwrap_or_default(),
            end: watch::Sender::new(None),
        }
    }

    /// A line is open, or failed to open.
    pub(super) fn opened(&self) {
        if self.opened.fetch_add(1, Relaxed) + 1 == self.expected {
            self.end.send_replace(Some(Instant::now() + self.duration));
        }
    }

    /// Waits until the lines have been held long enough.
    pub(super) async fn over(&self) {
        let end = match self.end.subscribe().wait_for(Option::is_some).await {
            Ok(end) => *end,
            Err(_) => None,
        };
        if let Some(end) = end {
            tokio::time::sleep_until(end.into()).await;
        }
    }
}

impl Plan {
    /// Waits until the next operation may start and returns the time from which its latency counts; nothing when no
    /// operation is left. With `--rate`, an operation that starts late counts from when it should have started, so
    /// that a slow peer can not hide behind the load it slows down.
    pub(super) async fn next(&self) -> Option<Instant> {
        let ticket = self.tickets.fetch_add(1, Relaxed);
        if self.args.count.is_some_and(|count| ticket >= count) {
            return None;
        }
        let Some(rate) = self.args.rate else {
            return (!self.over()).then(Instant::now);
        };
        let due = self.start + Duration::from_secs_f64(ticket as f64 / f64::from(rate));
        if self.deadline.is_some_and(|deadline| due >= deadline) {
            return None;
        }
        if due > Instant::now() {
            tokio::time::sleep_until(due.into()).await;
            return Some(Instant::now());
        }
        // Long after the end, what is still due says nothing that the late ones before it did not say.
        (!self.over()).then_some(due)
    }

    fn over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// A runtime for one thread.
pub(super) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Loads the target and returns what was seen.
///
/// # Errors
/// The target does not resolve or a thread can not start. What fails later is in the report.
pub fn load(args: &Args) -> anyhow::Result<Report> {
    let address = args
        .target
        .to_socket_addrs()
        .with_context(|| format!("{} is no HOST:PORT that resolves", args.target))?
        .next()
        .with_context(|| format!("{} has no address", args.target))?;
    let start = Instant::now();
    let plan = Arc::new(Plan {
        args: args.clone(),
        address,
        size: args.buffer_size(),
        timeout: args.timeout(),
        start,
        deadline: args.duration().map(|duration| start + duration),
        tickets: AtomicU64::new(0),
        done: AtomicU64::new(0),
        hold: Hold::new(args),
    });
    let (results, arrived) = channel();
    let threads = u32::from(args.threads).min(args.connections);
    for at in 0..threads {
        let share = args.connections / threads + u32::from(at < args.connections % threads);
        start_thread(plan.clone(), share, results.clone()).context("can not start a thread")?;
    }
    drop(results);
    let bar = progress_bar(total(&plan), plan.args.quiet);
    let mut tally = Tally::default();
    loop {
        match arrived.recv_timeout(DRAW_EVERY) {
            Ok(part) => tally.merge(&part),
            Err(RecvTimeoutError::Timeout) => draw(&bar, &plan),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    bar.finish_and_clear();
    Ok(Report::new(args.mode, &args.target, args.connections, start.elapsed(), tally))
}

fn start_thread(plan: Arc<Plan>, share: u32, results: Sender<Tally>) -> io::Result<()> {
    let runtime = runtime()?;
    thread::Builder::new().name("load".into()).spawn(move || {
        let local = tokio::task::LocalSet::new();
        let tally = local.block_on(&runtime, async {
            let connections: Vec<_> = (0..share)
                .map(|_| tokio::task::spawn_local(modes::connection(plan.clone())))
                .collect();
            let mut tally = Tally::default();
            for connection in connections {
                // A task ends by a panic only, and the panic has been printed.
                if let Ok(part) = connection.await {
                    tally.merge(&part);
                }
            }
            tally
        });
        // The other end is gone only if the load itself was given up.
        let _ = results.send(tally);
    })?;
    Ok(())
}

/// Over the operations, the idle lines or else the time.
fn total(plan: &Plan) -> u64 {
    match (plan.args.mode, plan.args.count, plan.deadline) {
        (Mode::Stream | Mode::Connect | Mode::Ping, Some(count), _) => count,
        (_, _, Some(deadline)) => (deadline - plan.start).as_millis() as u64,
        (_, _, None) => 0,
    }
}

fn draw(bar: &ProgressBar, plan: &Plan) {
    let done = plan.done.load(Relaxed);
    let elapsed = plan.start.elapsed();
    bar.set_position(if plan.args.count.is_some() && plan.args.mode != Mode::Idle {
        done
    } else {
        elapsed.as_millis() as u64
    });
    let rate = done as f64 / elapsed.as_secs_f64().max(1e-9);
    bar.set_message(format!("{done} {} ({rate:.0}/s)", plan.args.mode.unit()));
}
