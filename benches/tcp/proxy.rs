//! The two sides: the same two chains, one to an echo and one to a sink, in HAProxy and in Lineway.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::process::Process;

const START_LIMIT: Duration = Duration::from_secs(10);

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
            Kind::Lineway => (lineway(folder.path(), echo, sink, admin, backends)?, Some(admin)),
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
        let began = Instant::now();
        let mut process = Process::start(command.stdout(Stdio::null()))?;
        let ready = || match ready_at {
            Some(admin) => answers_ready(admin),
            None => [echo, sink].into_iter().all(|at| TcpStream::connect(at).is_ok()),
        };
        while !ready() {
            process.check().with_context(|| format!("{kind:?}"))?;
            if began.elapsed() > START_LIMIT {
                bail!("{kind:?} is not ready after {START_LIMIT:?}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let start = began.elapsed();
        Ok(Self { process, echo, sink, start, _folder: folder })
    }
}

/// Addresses of the loopback that were free a moment ago.
fn free_addresses<const N: usize>() -> anyhow::Result<[SocketAddr; N]> {
    // All are bound before the first is given back, so they differ.
    let mut listeners = Vec::new();
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for address in &mut addresses {
        let listener = TcpListener::bind(*address)?;
        *address = listener.local_addr()?;
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

fn lineway(
    folder: &Path,
    echo: SocketAddr,
    sink: SocketAddr,
    admin: SocketAddr,
    backends: &Backends,
) -> anyhow::Result<Command> {
    let mut text =
        format!("[service]\nworkers = 2\n[log]\nlevel = \"warn\"\n[admin]\nlisten = \"{admin}\"\n");
    for (name, listen, connect) in [("echo", echo, backends.echo), ("sink", sink, backends.sink)] {
        let _ = writeln!(
            text,
            "[[node]]\nname = \"{name}-in\"\ntype = \"TcpListener\"\nnext = \"{name}-out\"\n\
             settings = {{ address = \"{}\", port = {} }}\n\
             [[node]]\nname = \"{name}-out\"\ntype = \"TcpConnector\"\n\
             settings = {{ address = \"{}\", port = {} }}",
            listen.ip(),
            listen.port(),
            connect.ip(),
            connect.port()
        );
    }
    let file = folder.join("config.toml");
    std::fs::write(&file, text)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineway"));
    command.arg("run").arg("--config").arg(file);
    Ok(command)
}
