//! `HAProxy` in TCP mode, with two threads.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether the program starts; tells the user if it does not.
pub(crate) fn is_there(program: &str) -> bool {
    let there = Command::new(program)
        .arg("-v")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !there {
        eprintln!(
            "{program} does not start, so that only Lineway is measured; `apt-get install haproxy` brings it"
        );
    }
    there
}

/// The command that forwards these chains, each a name, where it listens, and its backend; the
/// configuration is written to the folder.
pub(crate) fn command(
    program: &str,
    folder: &Path,
    chains: &[(&str, SocketAddr, SocketAddr)],
) -> anyhow::Result<Command> {
    let mut text =
        "global\n  maxconn 9000\n  nbthread 2\ndefaults\n  mode tcp\n  timeout connect 5s\n  \
                    timeout client 300s\n  timeout server 300s\n"
            .to_owned();
    for (name, bind, server) in chains {
        let _ = writeln!(
            text,
            "frontend {name}-in\n  bind {bind}\n  default_backend {name}\n\
             backend {name}\n  server s {server}"
        );
    }
    let file = folder.join("haproxy.cfg");
    std::fs::write(&file, text)?;
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(file);
    Ok(command)
}
