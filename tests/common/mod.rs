//! The built program as a child process, for the tests over real sockets.

#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]

pub mod dns;
mod log;
pub mod peers;
pub mod web;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub use log::{Log, text};
use web::{Reply, Scrape, ask};

/// How long a test waits for what must happen; the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Asks again and again until it is so.
#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    within(PATIENCE, what, &mut so);
}

/// Asks until it is so, and gives the time that it took.
#[track_caller]
pub fn within(limit: Duration, what: &str, mut so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}

/// A configuration with these nodes: admin interface on a free port, log as JSON.
pub fn config(rest: &str) -> String {
    format!("[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nformat = \"json\"\n{rest}")
}

/// A `TcpListener` on a free port of 127.0.0.1; `more` are further settings, each with a comma.
pub fn listener(name: &str, next: &str, more: &str) -> String {
    listener_at(name, next, "127.0.0.1", 0, more)
}

/// A `TcpListener` on this address.
pub fn listener_at(name: &str, next: &str, ip: &str, port: u16, more: &str) -> String {
    format!(
        "[[node]]\nname = \"{name}\"\ntype = \"TcpListener\"\nnext = \"{next}\"\n\
         settings = {{ {more} address = \"{ip}\", port = {port} }}\n"
    )
}

/// A `TcpConnector` to this address; `more` are further settings, each with a comma.
pub fn connector(name: &str, to: SocketAddr, more: &str) -> String {
    let (ip, port) = (to.ip(), to.port());
    format!(
        "[[node]]\nname = \"{name}\"\ntype = \"TcpConnector\"\n\
         settings = {{ {more} address = \"{ip}\", port = {port} }}\n"
    )
}

/// A node without settings at the end of a chain.
pub fn end(name: &str, kind: &str) -> String {
    format!("[[node]]\nname = \"{name}\"\ntype = \"{kind}\"\n")
}

/// The command that runs a configuration file.
pub fn command(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineway"));
    command.args(["run", "--allow-port-zero", "--config"]).arg(config).env_remove("LINEWAY_LOG");
    command
}

/// Runs a file that can not start or that ends by itself: its exit code and standard error.
#[track_caller]
pub fn run_to_end(file: &str) -> (Option<i32>, String) {
    let mut service = Service::spawn(file);
    let status = service.wait(PATIENCE);
    let told = service.log.whole();
    assert!(!told.contains("panicked"), "{told}");
    (status.code(), told)
}

/// A running `lineway`, killed when it is dropped.
pub struct Service {
    child: Child,
    /// What it wrote to standard error.
    pub log: Log,
    admin: Option<SocketAddr>,
    folder: TempDir,
}

impl Service {
    /// Starts `lineway run` with these tables (see [`config`]) and waits until it is ready.
    #[track_caller]
    pub fn start(rest: &str) -> Self {
        Self::spawn(&config(rest)).ready()
    }

    /// Starts it with a whole file, without waiting.
    #[track_caller]
    pub fn spawn(file: &str) -> Self {
        Self::spawn_with(file, command)
    }

    /// Starts it with a command of the test's own, which gets the path of the file.
    #[track_caller]
    pub fn spawn_with(file: &str, make: impl FnOnce(&Path) -> Command) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.toml");
        fs::write(&path, file).expect("the configuration is written");
        let mut command = make(&path);
        command.stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let log = Log::read(child.stderr.take());
        Self { child, log, admin: None, folder }
    }

    /// Waits until it is ready.
    #[track_caller]
    pub fn ready(mut self) -> Self {
        let ready = self.log.wait("ready", |event| text(event, "message") == "ready");
        self.admin = Some(text(&ready, "admin").parse().expect("an address"));
        self
    }

    /// The configuration file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("config.toml")
    }

    /// Writes another configuration and asks to read it; does not wait.
    pub fn reload(&self, rest: &str) {
        fs::write(self.path(), config(rest)).expect("the configuration is written");
        self.signal(Signal::HUP);
    }

    /// Reloads and waits until the configuration was taken over.
    #[track_caller]
    pub fn reload_and_wait(&self, rest: &str) -> Value {
        let before = self.log.len();
        self.reload(rest);
        self.log.wait_after(before, "reload", |event| {
            let message = text(event, "message");
            assert!(!message.contains("nothing changed"), "{message}");
            message == "the configuration was taken over"
        })
    }

    /// All addresses that a node listens on, in the order of the log.
    #[track_caller]
    pub fn all_at(&self, node: &str) -> Vec<SocketAddr> {
        let mine =
            |event: &Value| text(event, "message") == "listening" && text(event, "node") == node;
        let events = self.log.events().into_iter().filter(mine);
        events.map(|event| text(&event, "address").parse().expect("an address")).collect()
    }

    /// The address that a node listens on, the last one of the log.
    #[track_caller]
    pub fn at(&self, node: &str) -> SocketAddr {
        *self.all_at(node).last().expect("the node listens")
    }

    /// The address of the admin interface.
    pub fn admin(&self) -> SocketAddr {
        self.admin.expect("it is ready")
    }

    /// `GET` of the admin interface.
    #[track_caller]
    pub fn get(&self, path: &str) -> Reply {
        ask(self.admin(), "GET", path, "")
    }

    /// `GET` of a JSON document.
    #[track_caller]
    pub fn json(&self, path: &str) -> Value {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        serde_json::from_slice(&reply.body).expect("it is JSON")
    }

    /// The metrics of this moment.
    #[track_caller]
    pub fn scrape(&self) -> Scrape {
        Scrape::of(&self.get("/metrics").text())
    }

    /// The sum of all series of a name that have these labels.
    #[track_caller]
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.scrape().sum(name, labels)
    }

    /// Waits until a metric has a value.
    #[track_caller]
    pub fn until_metric(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        let mut last = f64::NAN;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            last = self.metric(name, labels);
            if last.total_cmp(&value).is_eq() {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        panic!("{name}{labels:?} is {last}, not {value}");
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process"), signal).expect("it lives");
    }

    /// Waits for the end, and for the end of its log.
    #[track_caller]
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let mut status = None;
        within(limit, "the process ends", || {
            status = self.child.try_wait().expect("it is a child");
            status.is_some()
        });
        self.log.wait_for_end();
        status.expect("it ended")
    }

    /// Resident memory that is not of files, in bytes.
    pub fn rss(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with("RssAnon:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        kib.expect("RssAnon in kB") << 10
    }

    /// Open descriptors.
    pub fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.pid());
        fs::read_dir(folder).expect("it lives").count()
    }

    /// CPU time of the process so far; a tick is 10 ms.
    pub fn cpu(&self) -> Duration {
        let stat = self.proc("stat");
        let after = stat.rsplit_once(") ").expect("the name is in brackets").1;
        let field = |n: usize| after.split(' ').nth(n).and_then(|t| t.parse::<u64>().ok());
        // Fields 14 and 15 of proc_pid_stat(5); the first after the name is field 3.
        let ticks = field(11).expect("utime") + field(12).expect("stime");
        Duration::from_millis(ticks * 10)
    }

    fn proc(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.pid())).expect("it lives")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may be over already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of the service ---\n{}", self.log.whole());
        }
    }
}
