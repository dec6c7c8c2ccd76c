//! Many lines that all work: each sends a small payload, waits for its echo, again.

use std::cell::Cell;
use std::net::TcpStream as StdStream;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::try_join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::beside::{Side, open_lines};

/// Bytes of a payload.
const SIZE: usize = 64;
/// Time of the last echoes to come back.
const GRACE: Duration = Duration::from_secs(10);
/// Time in which buffers and tables get the size that they keep.
const WARM_UP: Duration = Duration::from_millis(300);

/// CPU of all processes of a side, in µs, for each payload of so many busy lines, as fast as they
/// come back and with so many sent each second. The echo of a payload is one as well. What it costs
/// to open and close the lines is not in it.
pub(crate) fn cpu_for_each(
    side: &Side,
    lines: usize,
    rate: u32,
    seconds: f64,
) -> anyhow::Result<[f64; 2]> {
    let lines = open_lines(side.entry, lines)?;
    ping_pongs(&lines, Pace::new(WARM_UP, None))?;
    let measure = |every| {
        let before = side.cpu_seconds()?;
        let echoes = ping_pongs(&lines, Pace::new(Duration::from_secs_f64(seconds), every))?;
        let spent = side.cpu_seconds()? - before;
        anyhow::Ok(spent * 1e6 / (2 * echoes) as f64)
    };
    Ok([measure(None)?, measure(Some(Duration::from_secs(1) / rate))?])
}

/// When payloads are sent, by whichever line is free.
#[derive(Debug)]
struct Pace {
    next: Cell<Instant>,
    every: Option<Duration>,
    end: Instant,
}

impl Pace {
    fn new(duration: Duration, every: Option<Duration>) -> Self {
        let start = Instant::now();
        Self { next: Cell::new(start), every, end: start + duration }
    }

    /// Waits until the next may be sent; false when none may.
    async fn next(&self) -> bool {
        if let Some(every) = self.every {
            let due = self.next.get();
            self.next.set(due + every);
            sleep_until(due.min(self.end)).await;
        }
        Instant::now() < self.end
    }
}

/// Gives how many payloads came back.
fn ping_pongs(lines: &[StdStream], pace: Pace) -> anyhow::Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let lines = lines.iter().map(|line| ping_pong(line, &pace));
        let echoes = timeout_at(pace.end + GRACE, try_join_all(lines)).await;
        Ok(echoes.context("echoes are missing")??.iter().sum())
    })
}

async fn ping_pong(line: &StdStream, pace: &Pace) -> anyhow::Result<u64> {
    line.set_nonblocking(true)?;
    let mut line = TcpStream::from_std(line.try_clone()?)?;
    line.set_nodelay(true)?;
    let mut echoes = 0_u64;
    // Each differs from the one before and from those of other lines: none is taken for another.
    let mut payload = [0; SIZE];
    payload[8..10].copy_from_slice(&line.local_addr()?.port().to_ne_bytes());
    let mut echo = [0; SIZE];
    while pace.next().await {
        payload[..8].copy_from_slice(&echoes.to_ne_bytes());
        line.write_all(&payload).await?;
        line.read_exact(&mut echo).await?;
        anyhow::ensure!(echo == payload, "this is no echo of what was sent");
        echoes += 1;
    }
    Ok(echoes)
}
