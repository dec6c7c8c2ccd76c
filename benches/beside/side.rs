//! One side of a comparison: running processes from an entry to a backend.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use clap::ValueEnum;

use super::{Nodes, Process, Ready, free_addresses, haproxy, service, start_ready};

/// A node with its type and its settings.
pub(crate) type Node = (&'static str, String);

/// What can stand in place of two processes with a protocol between them, to tell what costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Instead {
    /// The plain chain again: what the method can not tell apart
    Plain,
    /// Two processes without the protocol: what the way through a second one costs
    Pair,
}

/// Running processes.
#[derive(Debug)]
pub(crate) struct Side {
    /// What is connected to here comes to the backend.
    pub(crate) entry: SocketAddr,
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    process: Process,
    _folder: tempfile::TempDir,
}

impl Side {
    /// One process that passes everything on.
    pub(crate) fn plain(backend: SocketAddr, workers: usize) -> anyhow::Result<Self> {
        let [entry, admin] = free_addresses()?;
        Ok(Self { entry, running: vec![Running::lineway(admin, entry, workers, None, backend)?] })
    }

    /// A process before another one. The nodes are what each has between its listener and its
    /// connector.
    pub(crate) fn pair(
        backend: SocketAddr,
        workers: usize,
        nodes: Option<[Node; 2]>,
    ) -> anyhow::Result<Self> {
        let [entry, middle, admin, far_admin] = free_addresses()?;
        let [client, server] = nodes.map_or([None, None], |nodes| nodes.map(Some));
        let far = Running::lineway(far_admin, middle, workers, server, backend)?;
        let near = Running::lineway(admin, entry, workers, client, middle)?;
        Ok(Self { entry, running: vec![near, far] })
    }

    /// What was asked for in place of the pair of these nodes, or that pair.
    pub(crate) fn ours(
        instead: Option<Instead>,
        backend: SocketAddr,
        workers: usize,
        nodes: [Node; 2],
    ) -> anyhow::Result<Self> {
        match instead {
            Some(Instead::Plain) => Self::plain(backend, workers),
            Some(Instead::Pair) => Self::pair(backend, workers, None),
            None => Self::pair(backend, workers, Some(nodes)),
        }
    }

    /// `HAProxy` in TCP mode.
    pub(crate) fn haproxy(program: &str, backend: SocketAddr) -> anyhow::Result<Self> {
        let [entry] = free_addresses()?;
        let command =
            |folder: &Path| haproxy::command(program, folder, &[("line", entry, backend)]);
        Ok(Self { entry, running: vec![Running::start(Ready::Accept(&[entry]), command)?] })
    }

    /// Its processes, from the entry to the backend.
    pub(crate) fn processes(&self) -> Vec<&Process> {
        self.running.iter().map(|running| &running.process).collect()
    }

    /// Seconds of CPU of all its processes since they started.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        self.running.iter().map(|running| running.process.cpu_seconds()).sum()
    }
}

impl Running {
    fn lineway(
        admin: SocketAddr,
        listen: SocketAddr,
        workers: usize,
        between: Option<Node>,
        connect: SocketAddr,
    ) -> anyhow::Result<Self> {
        let mut nodes = Nodes::default();
        nodes.chain("line", listen, between.as_slice(), connect);
        Self::start(Ready::Admin(admin), |folder| service(folder, admin, workers, &nodes))
    }

    fn start(
        ready: Ready<'_>,
        command: impl FnOnce(&Path) -> anyhow::Result<Command>,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = command(folder.path())?;
        let name = command.get_program().display().to_string();
        let (process, _) = start_ready(&mut command, ready).context(name)?;
        Ok(Self { process, _folder: folder })
    }
}
