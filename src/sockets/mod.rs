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

use lineway_actors::wire::zmp::endpoint::{Endpoint, EndpointError};
use lineway_actors::wire::zmp::record::WrongRoutingId;

use crate::zmp::{Context, RoutingId, Socket, SocketOptions};

/// Whom a command speaks with, and as whom.
#[derive(Debug, Clone, clap::Args)]
struct Peer {
    /// Where the peer is, such as `tcp://127.0.0.1:5555` or `ipc:///run/socket`
    #[arg(value_name = "ENDPOINT", value_parser = place)]
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

/// An endpoint of the command line, to bind.
fn endpoint(text: &str) -> Result<String, String> {
    parsed(text).map(|_| text.to_owned())
}

/// An endpoint of the command line, to connect to.
pub(crate) fn place(text: &str) -> Result<String, String> {
    if parsed(text)?.is_complete() {
        return Ok(text.to_owned());
    }
    Err("it is not the place of one peer, such as tcp://127.0.0.1:5555".to_owned())
}

fn parsed(text: &str) -> Result<Endpoint, String> {
    match text.parse() {
        Ok(Endpoint::Inproc(_)) => Err("inproc joins sockets of one process".to_owned()),
        Ok(endpoint) => Ok(endpoint),
        // The message of a wrong argument names it already.
        Err(EndpointError::Invalid { why, .. }) => Err(why.to_owned()),
        Err(error) => Err(error.to_string()),
    }
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

#[cfg(test)]
mod tests {
    use super::{endpoint, place};

    #[test]
    fn a_wrong_endpoint_says_what_is_wrong() {
        for text in ["tcp://127.0.0.1:5555", "tcp://worker.example:1", "ipc:///run/socket"] {
            assert_eq!(place(text).as_deref(), Ok(text));
        }
        assert_eq!(endpoint("tcp://*:0").as_deref(), Ok("tcp://*:0"));
        for text in ["tcp://*:5555", "tcp://127.0.0.1:0", "ipc://*"] {
            assert!(place(text).unwrap_err().contains("one peer"), "{text}");
        }
        for (text, why) in [
            ("127.0.0.1:5555", "no transport"),
            ("tcp://127.0.0.1", "no port"),
            ("tls://127.0.0.1:5555", "comes later"),
            ("http://127.0.0.1:5555", "there is no transport"),
            ("inproc://a", "one process"),
        ] {
            let [bound, connected] = [endpoint(text), place(text)].map(Result::unwrap_err);
            assert_eq!(bound, connected);
            assert!(bound.contains(why), "{text}: {bound}");
        }
    }
}
