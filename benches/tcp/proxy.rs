//! The two sides: the same two chains, one to an echo and one to a sink, in HAProxy and in Lineway.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::beside::{Nodes, Process, Ready, free_addresses, service, start_ready};

/// How to start a side.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// HAProxy, by the path of its program.
    HaProxy(String),
    /// `lineway run`.
    Lineway,
    /// Any command; `{echo}`, `{echo-backend}`, `{sink}` and `{sink-backend}` become addresses.
    Command(String),
}

/// The backends of both sides.
#[derive(Debug)]
pub(crate) struct Backends {
    echo: SocketAddr,
    sink: SocketAddr,
    _processes: [Process; 2],
}

impl Backends {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let (echo_process, echo) = Process::start_peer("echo")?;
        let (sink_process, sink) = Process::start_peer("sink")?;
        Ok(Self { echo, sink, _processes: [echo_process, sink_process] })
    }
}

/// A running proxy.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) process: Process,
    /// What is connected to here comes to the echo.
    pub(crate) echo: SocketAddr,
    /// What is connected to here comes to the sink.
    pub(crate) sink: SocketAddr,
    /// From the start of the process until it is ready.
    pub(crate) start: Duration,
    _folder: tempfile::TempDir,
}

impl Proxy {
    pub(crate) fn start(kind: &Kind, backends: &Backends) -> anyhow::Result<Self> {
        let [echo, sink, admin] = free_addresses()?;
        let folder = tempfile::tempdir()?;
        let (mut command, ready_at) = match kind {
            Kind::HaProxy(program) => {
                let file = folder.path().join("haproxy.cfg");
                std::fs::write(&file, haproxy(echo, sink, backends))?;
                let mut command = Command::new(program);
                command.arg("-db").arg("-f").arg(file);
                (command, None)
            }
            Kind::Lineway => {
                let mut nodes = Nodes::default();
                nodes.chain("echo", echo, &[], backends.echo);
                nodes.chain("sink", sink, &[], backends.sink);
                (service(folder.path(), admin, &nodes)?, Some(admin))
            }
            Kind::Command(line) => {
                let line = line
                    .replace("{echo}", &echo.to_string())
                    .replace("{echo-backend}", &backends.echo.to_string())
                    .replace("{sink}", &sink.to_string())
                    .replace("{sink-backend}", &backends.sink.to_string());
                let mut words = line.split_whitespace();
                let mut command = Command::new(words.next().context("the command is empty")?);
                command.args(words);
                (command, None)
            }
        };
        let accept = [echo, sink];
        let by = ready_at.map_or(Ready::Accept(&accept), Ready::Admin);
        let (process, start) =
            start_ready(&mut command, by).with_context(|| format!("{kind:?}"))?;
        Ok(Self { process, echo, sink, start, _folder: folder })
    }
}

fn haproxy(echo: SocketAddr, sink: SocketAddr, backends: &Backends) -> String {
    let mut text =
        "global\n  maxconn 9000\n  nbthread 2\ndefaults\n  mode tcp\n  timeout connect 5s\n  \
                    timeout client 300s\n  timeout server 300s\n"
            .to_owned();
    for (name, bind, server) in [("echo", echo, backends.echo), ("sink", sink, backends.sink)] {
        let _ = writeln!(
            text,
            "frontend {name}-in\n  bind {bind}\n  default_backend {name}\n\
             backend {name}\n  server s {server}"
        );
    }
    text
}
