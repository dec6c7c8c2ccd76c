//! Children that end with the bench, and what `/proc` tells of them.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Ticks of `/proc/PID/stat` each second: `USER_HZ`, 100 on every Linux that Rust builds for.
const TICKS: f64 = 100.0;

/// How long a process may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Children alive, for the signal handler.
static ALIVE: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A child that is killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pid: Pid,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("can not start {}", command.get_program().display()))?;
        let pid = Pid::from_child(&child);
        alive().push(pid);
        Ok(Self { child, pid })
    }

    /// Starts a peer of the load and returns it with the address that it prints.
    pub(crate) fn start_peer(peer: &str) -> anyhow::Result<(Self, SocketAddr)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lineway"));
        command.args(["load", "tcp", "127.0.0.1:0", "--serve", peer]);
        let mut process = Self::start(command.stdout(Stdio::piped()))?;
        let output = process.child.stdout.take().context("the peer has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().parse().context("the peer prints no address")?;
        Ok((process, address))
    }

    /// An error if the child has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("ended by itself: {status}");
        }
        Ok(())
    }

    /// Seconds of CPU, user and system, since it started.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        cpu_seconds_of(self.child.id())
    }

    /// Seconds of CPU of the process and of all that it started and that still run.
    pub(crate) fn tree_cpu_seconds(&self) -> anyhow::Result<f64> {
        tree_cpu_seconds_of(self.child.id())
    }

    /// Ends it in order, with all that it started; one that does not is killed.
    pub(crate) fn end(&mut self) {
        let _ = kill_process(self.pid, Signal::TERM);
        let began = Instant::now();
        while began.elapsed() < END_LIMIT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Resident bytes, by walking the pages: `VmRSS` is a sum of batched counters, wrong by up to some hundred KiB.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<f64> {
        let rollup = self.proc("smaps_rollup")?;
        let kib = rollup
            .lines()
            .find_map(|line| line.strip_prefix("Rss:"))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|kib| kib.parse::<f64>().ok())
            .context("/proc/PID/smaps_rollup is not as expected")?;
        Ok(kib * 1024.0)
    }

    fn proc(&self, file: &str) -> anyhow::Result<String> {
        proc(self.child.id(), file)
    }
}

/// Seconds of CPU, user and system, of a process since it started.
pub(crate) fn cpu_seconds_of(pid: u32) -> anyhow::Result<f64> {
    let stat = proc(pid, "stat")?;
    // The name, in parentheses, may hold spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: Option<f64> =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks.context("/proc/PID/stat is not as expected")? / TICKS)
}

fn tree_cpu_seconds_of(pid: u32) -> anyhow::Result<f64> {
    let children = proc(pid, &format!("task/{pid}/children"))?;
    let mut sum = cpu_seconds_of(pid)?;
    for child in children.split_whitespace() {
        sum += tree_cpu_seconds_of(child.parse()?)?;
    }
    Ok(sum)
}

fn proc(pid: u32, file: &str) -> anyhow::Result<String> {
    let path = format!("/proc/{pid}/{file}");
    std::fs::read_to_string(&path).with_context(|| format!("can not read {path}"))
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        alive().retain(|pid| *pid != self.pid);
    }
}

/// The backends that all sides share.
#[derive(Debug)]
pub(crate) struct Backends {
    pub(crate) echo: SocketAddr,
    pub(crate) sink: SocketAddr,
    _processes: [Process; 2],
}

impl Backends {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let (echo_process, echo) = Process::start_peer("echo")?;
        let (sink_process, sink) = Process::start_peer("sink")?;
        Ok(Self { echo, sink, _processes: [echo_process, sink_process] })
    }
}

/// Kills all children and ends the bench at SIGINT or SIGTERM.
pub(crate) fn end_with_signals() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = runtime.block_on(async {
        anyhow::Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    })?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        for pid in alive().iter() {
            let _ = kill_process(*pid, Signal::KILL);
        }
        std::process::exit(130);
    });
    Ok(())
}

fn alive() -> std::sync::MutexGuard<'static, Vec<Pid>> {
    ALIVE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
