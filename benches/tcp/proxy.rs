//! The two sides: the same two chains, one to an echo and one to a sink, in HAProxy and in Lineway.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::beside::{
    Backends, Nodes, Process, Ready, free_addresses, haproxy, service, start_ready,
};

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
                let chains = [("echo", echo, backends.echo), ("sink", sink, backends.sink)];
                (haproxy::command(program, folder.path(), &chains)?, None)
            }
            Kind::Lineway => {
                let mut nodes = Nodes::default();
                nodes.chain("echo", echo, &[], backends.echo);
                nodes.chain("sink", sink, &[], backends.sink);
                (service(folder.path(), admin, 2, &nodes)?, Some(admin))
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
