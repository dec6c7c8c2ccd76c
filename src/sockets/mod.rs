//! DEALER and ROUTER from the shell: `lineway request`, `send` and `serve`.
//!
//! Each is a small program on its own: it needs no service and no configuration. Results go to
//! standard output, everything else to standard error, so that scripts can read the one.

mod parts;
mod request;
mod serve;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;

pub use request::{RequestArgs, SendArgs, request, send};
pub use serve::{ServeArgs, serve};

use lineway_actors::wire::zmp::record::WrongRoutingId;

use crate::zmp::{Context, RoutingId, Socket, SocketOptions};

/// Whom a command speaks with, and as whom.
#[derive(Debug, Clone, clap::Args)]
struct Peer {
    /// Where the ROUTER is
    #[arg(
        value_name = "ENDPOINT",
        help = "Where the ROUTER is, such as tcp://127.0.0.1:5555 or ipc:///run/socket"
    )]
    endpoint: String,
    /// The own routing id: text, or hex:0011... [default: 16 random bytes]
    #[arg(long, value_name = "ID", value_parser = routing_id)]
    routing_id: Option<RoutingId>,
}

impl Peer {
    fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The options of a DEALER.
    fn options(&self) -> SocketOptions {
        let mut options = SocketOptions::dealer();
        if let Some(id) = &self.routing_id {
            options.core.routing_id = id.clone();
        }
        options
    }

    async fn connect(&self, socket: &Socket) -> anyhow::Result<()> {
        socket.connect(&self.endpoint).await.with_context(|| self.endpoint.clone())
    }
}

/// A routing id of the command line.
fn routing_id(text: &str) -> Result<RoutingId, String> {
    text.parse().map_err(|error: WrongRoutingId| error.to_string())
}

/// Runs a command with a context of its own, until it is done or interrupted.
fn run(command: impl AsyncFnOnce(Context) -> anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let context = Context::new()?;
    let done = runtime.block_on(async {
        tokio::select! {
            biased;
            stopped = interrupted() => stopped,
            done = command(context.clone()) => done,
        }
    });
    // What is still to be written is, within the linger of its socket.
    context.join();
    done
}

/// SIGINT and SIGTERM are the orderly end of a command that waits.
async fn interrupted() -> anyhow::Result<ExitCode> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a line to standard output as it is, for whoever reads it at once.
fn print(line: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(line)
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
        .context("standard output")
}
