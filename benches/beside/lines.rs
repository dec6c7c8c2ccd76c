//! Lines that the bench itself holds.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Process;

/// Time for a process to come to rest before its memory is read.
pub(crate) const SETTLE: Duration = Duration::from_secs(1);

/// Raises the descriptor limit, which the children inherit, and bounds the idle lines by it: a line takes one
/// descriptor here, one at the backend, and two in a proxy, or some more where it splices.
pub(crate) fn fit(lines: &mut usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
    if let Some(descriptors) = getrlimit(Resource::Nofile).current {
        let most = (descriptors.saturating_sub(1_000) / 4).max(10) as usize;
        if most < *lines {
            eprintln!("{most} idle lines, since the descriptor limit is {descriptors}");
            *lines = most;
        }
    }
}

/// Lines over which one byte went forth and back, so that they are open on both sides.
pub(crate) fn open_lines(target: SocketAddr, count: usize) -> anyhow::Result<Vec<TcpStream>> {
    let open = |_| {
        let mut stream = TcpStream::connect(target)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"x")?;
        stream.read_exact(&mut [0])?;
        std::io::Result::Ok(stream)
    };
    (0..count)
        .map(open)
        .enumerate()
        .map(|(at, stream)| stream.with_context(|| format!("line {at}")))
        .collect()
}

/// Opens lines, and tells how much the resident memory of each process grew for one of them.
pub(crate) fn resident_for_each(
    target: SocketAddr,
    count: usize,
    processes: &[&Process],
) -> anyhow::Result<(Vec<TcpStream>, Vec<f64>)> {
    let resident = || -> anyhow::Result<Vec<f64>> {
        std::thread::sleep(SETTLE);
        processes.iter().map(|process| process.resident_bytes()).collect()
    };
    // What the first lines of a process cost once is no cost of a line.
    drop(open_lines(target, 10)?);
    let before = resident()?;
    let lines = open_lines(target, count)?;
    let grown = resident()?.into_iter().zip(before).map(|(after, before)| after - before);
    let each = grown.map(|bytes| bytes / lines.len() as f64).collect();
    Ok((lines, each))
}
