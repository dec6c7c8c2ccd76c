//! What a line's registration costs the thread of the supervisor: `cargo bench --bench supervisor`; see
//! `docs/performance.md`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use lineway_actors::health::Health;
use lineway_actors::messages::{Closed, DeadlineKind, Report, Reports, Unwatch, Watch};
use lineway_actors::metrics::Metrics;
use lineway_actors::registry::{LineId, LineView, Registry};
use lineway_actors::supervisor::{self, SupervisorHandle};
use lineway_actors::wire::line::{FinishReason, LineKind};
use lineway_actors::worker::timers::now;
use serde::Serialize;
use tokio::sync::oneshot;

// What the program has.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Workers that report at once.
const WORKERS: u16 = 2;
/// CPU of a line's whole registration, in microseconds.
const MUST: f64 = 2.0;
/// What a line watches and never reaches.
const DEADLINE: Duration = Duration::from_secs(3600);

#[derive(Debug, Parser)]
#[command(name = "cargo bench --bench supervisor --")]
struct Args {
    /// Samples of each row, taken in turn
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Lines of one worker in one sample
    #[arg(long, default_value_t = 200_000)]
    lines: u64,
    /// Lines of one message
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Lines that are open all the while
    #[arg(long, default_value_t = 5_000)]
    open: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

/// How long the lines of a batch live.
#[derive(Debug, Clone, Copy)]
enum Lives {
    /// Opened, connected and closed in messages of their own.
    On,
    /// All in one message: none of it reaches the registry or the wheel.
    Briefly,
}

impl Lives {
    const ALL: [Self; 2] = [Self::On, Self::Briefly];

    const fn name(self) -> &'static str {
        match self {
            Self::On => "CPU µs for each line, opened, connected and closed in three messages",
            Self::Briefly => "CPU µs for each line, all in one message",
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    measure: &'static str,
    median: f64,
    least: f64,
    most: f64,
    reached: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    ensure!(args.rounds > 0 && args.lines > 0, "nothing to measure");
    let mut samples: [Vec<f64>; 2] = Default::default();
    for _ in 0..args.rounds {
        for (lives, samples) in Lives::ALL.into_iter().zip(&mut samples) {
            samples.push(sample(&args, lives)?);
        }
    }
    let rows: Vec<_> = Lives::ALL.into_iter().zip(samples).map(|(l, s)| row(l, s)).collect();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        println!("| measure | median | least | most | must reach | reached |");
        println!("|---|---:|---:|---:|---:|---|");
        for Row { measure, median, least, most, reached } in rows {
            let reached = if reached { "yes" } else { "NO" };
            println!("| {measure} | {median:.2} | {least:.2} | {most:.2} | < {MUST} | {reached} |");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(lives: Lives, mut samples: Vec<f64>) -> Row {
    samples.sort_by(f64::total_cmp);
    let median = samples[samples.len() / 2];
    let (least, most) = (samples[0], samples[samples.len() - 1]);
    Row { measure: lives.name(), median, least, most, reached: median < MUST }
}

/// CPU of the supervisor's thread for each line, in microseconds.
fn sample(args: &Args, lives: Lives) -> anyhow::Result<f64> {
    let house = House::start()?;
    let standing: Vec<_> = (0..args.open).map(|n| Line::new(WORKERS, n).opened()).collect();
    send(&house.supervisor, WORKERS, standing);
    house.settle(args.open)?;
    let before = house.cpu()?;
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let supervisor = &house.supervisor;
            scope.spawn(move || work(supervisor, worker, args, lives));
        }
    });
    house.settle(args.open)?;
    let spent = house.cpu()?.saturating_sub(before);
    house.end()?;
    Ok(spent.as_secs_f64() * 1e6 / (args.lines * u64::from(WORKERS)) as f64)
}

/// Plays a worker whose lines come and go as fast as the supervisor takes their reports.
fn work(supervisor: &SupervisorHandle, worker: u16, args: &Args, lives: Lives) {
    let mut next = 0;
    while next < args.lines {
        let until = args.lines.min(next + args.batch);
        let lines: Vec<_> = (next..until).map(|number| Line::new(worker, number)).collect();
        next = until;
        match lives {
            Lives::On => {
                let began = lines.iter().flat_map(|line| [line.opened(), line.watched()]);
                send(supervisor, worker, began.collect());
                send(supervisor, worker, lines.iter().map(Line::unwatched).collect());
                send(supervisor, worker, lines.iter().map(Line::closed).collect());
            }
            Lives::Briefly => {
                let all = lines.iter().flat_map(|line| {
                    [line.opened(), line.watched(), line.unwatched(), line.closed()]
                });
                send(supervisor, worker, all.collect());
            }
        }
    }
}

/// Sends a message; one that finds no room comes back and is sent again.
fn send(supervisor: &SupervisorHandle, worker: u16, reports: Vec<Report>) {
    let mut reports = Reports { worker, reports };
    while let Err(back) = supervisor.report(reports) {
        reports = back;
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Line {
    id: LineId,
}

impl Line {
    const fn new(worker: u16, number: u64) -> Self {
        Self { id: LineId { worker, number } }
    }

    fn opened(&self) -> Report {
        let peer = Some(([192, 0, 2, 1], 40_000).into());
        let view = LineView::new(self.id, LineKind::Main, Arc::from("in"), None, peer);
        Report::Opened(Arc::new(view))
    }

    fn watched(&self) -> Report {
        let (id, kind) = (self.id, DeadlineKind::Connect);
        Report::Watch(Watch { id, generation: 1, kind, deadline: now() + DEADLINE })
    }

    const fn unwatched(&self) -> Report {
        Report::Unwatch(Unwatch { id: self.id, generation: 1 })
    }

    const fn closed(&self) -> Report {
        Report::Closed(Closed { id: self.id, reason: FinishReason::PeerFinished })
    }
}

/// A supervisor on a thread of its own.
struct House {
    supervisor: SupervisorHandle,
    /// What the kernel says of the thread's time.
    schedstat: PathBuf,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl House {
    fn start() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (tell, told) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            tokio::task::LocalSet::new().block_on(&runtime, async {
                let health = Health::new(WORKERS, now());
                let supervisor = supervisor::start(Registry::new(), Metrics::new("bench"), health);
                // Neither can fail while the bench goes on.
                let _ = tell.send((supervisor, std::fs::read_link("/proc/thread-self")));
                let _ = stopped.await;
            });
        });
        let (supervisor, own) = told.recv().context("the supervisor does not start")?;
        let schedstat = PathBuf::from("/proc").join(own?).join("schedstat");
        Ok(Self { supervisor, schedstat, stop, thread })
    }

    /// Waits until everything was handled, and sees that it was.
    fn settle(&self, open: u64) -> anyhow::Result<()> {
        while self.supervisor.waiting() > 0 {
            if self.thread.is_finished() {
                bail!("the supervisor ended");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let there = self.supervisor.registry().len() as u64;
        ensure!(there == open, "{there} lines are open, not {open}");
        Ok(())
    }

    /// CPU of the thread so far, user and system; exact while it sleeps.
    fn cpu(&self) -> anyhow::Result<Duration> {
        let text = std::fs::read_to_string(&self.schedstat)
            .with_context(|| format!("no {}", self.schedstat.display()))?;
        let nanos = text.split_whitespace().next().context("schedstat is empty")?;
        Ok(Duration::from_nanos(nanos.parse()?))
    }

    fn end(self) -> anyhow::Result<()> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow::anyhow!("the supervisor's thread panicked"))
    }
}
