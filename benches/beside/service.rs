//! `lineway run`, from its configuration until it is ready.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::Process;

const START_LIMIT: Duration = Duration::from_secs(10);

/// Nodes of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Nodes(String);

impl Nodes {
    /// Adds a chain: a listener, nodes between with their types and settings, a connector.
    pub(crate) fn chain(
        &mut self,
        name: &str,
        listen: SocketAddr,
        between: &[(&str, String)],
        connect: SocketAddr,
    ) {
        let settings = |at: SocketAddr| format!("address = \"{}\", port = {}", at.ip(), at.port());
        let first = ("TcpListener", settings(listen));
        let last = ("TcpConnector", settings(connect));
        let types = [&[first], between, &[last]].concat();
        for (at, (kind, settings)) in types.iter().enumerate() {
            let _ = writeln!(self.0, "[[node]]\nname = \"{name}-{at}\"\ntype = \"{kind}\"");
            if at + 1 < types.len() {
                let _ = writeln!(self.0, "next = \"{name}-{}\"", at + 1);
            }
            let _ = writeln!(self.0, "settings = {{ {settings} }}");
        }
    }
}

/// The command that runs these nodes; its configuration is written to the folder.
pub(crate) fn service(
    folder: &Path,
    admin: SocketAddr,
    workers: usize,
    nodes: &Nodes,
) -> anyhow::Result<Command> {
    let text = format!(
        "[service]\nworkers = {workers}\n[log]\nlevel = \"warn\"\n[admin]\nlisten = \"{admin}\"\n{}",
        nodes.0
    );
    let file = folder.join("config.toml");
    std::fs::write(&file, text)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineway"));
    command.arg("run").arg("--config").arg(file);
    Ok(command)
}

/// What tells that a process is ready.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ready<'a> {
    /// `/readyz` of this admin interface says so.
    Admin(SocketAddr),
    /// All of these accept.
    Accept(&'a [SocketAddr]),
}

/// Starts a process and waits until it is ready; gives how long that took.
pub(crate) fn start_ready(
    command: &mut Command,
    by: Ready<'_>,
) -> anyhow::Result<(Process, Duration)> {
    let began = Instant::now();
    let mut process = Process::start(command.stdout(Stdio::null()))?;
    let ready = || match by {
        Ready::Admin(admin) => answers_ready(admin),
        Ready::Accept(all) => all.iter().all(|at| TcpStream::connect(at).is_ok()),
    };
    while !ready() {
        process.check()?;
        if began.elapsed() > START_LIMIT {
            bail!("not ready after {START_LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok((process, began.elapsed()))
}

/// Addresses of the loopback that were free a moment ago.
pub(crate) fn free_addresses<const N: usize>() -> anyhow::Result<[SocketAddr; N]> {
    // All are bound before the first is given back, so they differ.
    let mut listeners = Vec::new();
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for address in &mut addresses {
        let listener = TcpListener::bind(*address)?;
        *address = listener.local_addr().context("no address")?;
        listeners.push(listener);
    }
    Ok(addresses)
}

fn answers_ready(admin: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(admin)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        write!(stream, "GET /readyz HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        std::io::Result::Ok(status.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}
