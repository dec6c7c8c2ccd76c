//! What one connection of a load does, in each mode.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{sleep, timeout, timeout_at};

use super::Mode;
use super::client::Plan;
use super::report::{ErrorKind, Tally};

/// The payload repeats after this many bytes: a prime, so that no buffer of a proxy fits its period.
const PERIOD: usize = 251;
/// Bytes of one read of a stream.
const READ: usize = 256 << 10;
/// Pause after a failed connect, so that a dead peer does not make the load spin.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);
/// Time of the peer to send what is on its way after the last buffer of a stream.
const DRAIN: Duration = Duration::from_secs(5);

type Outcome<T> = Result<T, ErrorKind>;

/// The life of one connection, or of one place for connections.
pub(super) async fn connection(plan: Arc<Plan>) -> Tally {
    let mut tally = Tally::default();
    let result = match plan.args.mode {
        Mode::Stream => stream(&plan, &mut tally).await,
        Mode::Connect => {
            connects(&plan, &mut tally).await;
            Ok(())
        }
        Mode::Ping => pings(&plan, &mut tally).await,
        Mode::Idle => idle(&plan, &mut tally).await,
    };
    if let Err(kind) = result {
        tally.failed(kind);
    }
    tally
}

async fn connects(plan: &Plan, tally: &mut Tally) {
    let payload = [b'x'];
    while let Some(from) = plan.next().await {
        match open(plan, &payload, tally).await {
            Ok(stream) => {
                drop(stream);
                completed(plan, tally, from);
            }
            Err(kind) => {
                tally.failed(kind);
                sleep(FAILURE_PAUSE).await;
            }
        }
    }
}

async fn pings(plan: &Plan, tally: &mut Tally) -> Outcome<()> {
    let payload = pattern(plan.size);
    let mut answer = vec![0; plan.size];
    let mut stream = connect(plan).await?;
    let mut offset = 0;
    while let Some(from) = plan.next().await {
        let ping = &payload[offset..][..plan.size];
        echo(plan, &mut stream, ping, &mut answer, tally).await?;
        completed(plan, tally, from);
        // Each ping differs from the one before, so that a late echo is no right one.
        offset = (offset + 1) % PERIOD;
    }
    Ok(())
}

async fn idle(plan: &Plan, tally: &mut Tally) -> Outcome<()> {
    let opened = open_idle(plan, tally).await;
    plan.hold.opened();
    let mut stream = opened?;
    let mut byte = [0];
    plan.done.fetch_add(1, Relaxed);
    tokio::select! {
        () = plan.hold.over() => tally.operations += 1,
        read = stream.read(&mut byte) => {
            return Err(match read {
                Ok(0) => ErrorKind::Closed,
                Ok(_) => ErrorKind::Mismatch,
                Err(error) => error.into(),
            });
        }
    }
    Ok(())
}

async fn open_idle(plan: &Plan, tally: &mut Tally) -> Outcome<TcpStream> {
    // An error means a closed semaphore, and nobody closes it.
    let _turn = plan.hold.turns.acquire().await;
    let from = Instant::now();
    let stream = open(plan, b"x", tally).await?;
    tally.latency.record(from.elapsed());
    Ok(stream)
}

async fn stream(plan: &Plan, tally: &mut Tally) -> Outcome<()> {
    let (read, write) = connect(plan).await?.into_split();
    let mut back = Tally::default();
    let (sent, received) = tokio::join!(send(plan, write, tally), receive(plan, read, &mut back));
    tally.received += back.received;
    sent.and(received)?;
    if plan.args.verify && tally.sent != tally.received {
        return Err(ErrorKind::Closed);
    }
    Ok(())
}

async fn send(plan: &Plan, mut write: OwnedWriteHalf, tally: &mut Tally) -> Outcome<()> {
    let payload = pattern(plan.size);
    if plan.size == 0 {
        if let Some(deadline) = plan.deadline {
            tokio::time::sleep_until(deadline.into()).await;
        }
    } else {
        while plan.next().await.is_some() {
            let offset = tally.sent as usize % PERIOD;
            write.write_all(&payload[offset..][..plan.size]).await?;
            tally.sent += plan.size as u64;
            tally.operations += 1;
            plan.done.fetch_add(1, Relaxed);
        }
    }
    Ok(write.shutdown().await?)
}

/// Reads until the peer closes. A peer that still sends, or is silent, after the end of the load and a grace is late.
async fn receive(plan: &Plan, mut read: OwnedReadHalf, tally: &mut Tally) -> Outcome<()> {
    let expected = pattern(if plan.args.verify { READ } else { 0 });
    let mut buffer = vec![0; READ];
    let body = async {
        loop {
            let length = read.read(&mut buffer).await?;
            if length == 0 {
                return Ok(());
            }
            let offset = tally.received as usize % PERIOD;
            if plan.args.verify && buffer[..length] != expected[offset..][..length] {
                return Err(ErrorKind::Mismatch);
            }
            tally.received += length as u64;
        }
    };
    match plan.deadline {
        Some(deadline) => {
            timeout_at((deadline + DRAIN).into(), body).await.unwrap_or(Err(ErrorKind::TimedOut))
        }
        None => body.await,
    }
}

fn completed(plan: &Plan, tally: &mut Tally, from: Instant) {
    tally.latency.record(from.elapsed());
    tally.operations += 1;
    plan.done.fetch_add(1, Relaxed);
}

async fn connect(plan: &Plan) -> Outcome<TcpStream> {
    let stream = match timeout(plan.timeout, TcpStream::connect(plan.address)).await {
        Ok(stream) => stream?,
        Err(_) => return Err(ErrorKind::TimedOut),
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A connection whose first byte came back.
async fn open(plan: &Plan, first: &[u8; 1], tally: &mut Tally) -> Outcome<TcpStream> {
    let mut stream = connect(plan).await?;
    echo(plan, &mut stream, first, &mut [0; 1], tally).await?;
    Ok(stream)
}

async fn echo(
    plan: &Plan,
    stream: &mut TcpStream,
    payload: &[u8],
    answer: &mut [u8],
    tally: &mut Tally,
) -> Outcome<()> {
    let round = async {
        // Both at once: a payload larger than all buffers on the way needs its echo read while it is written.
        let (mut read, mut write) = stream.split();
        tokio::try_join!(write.write_all(payload), read.read_exact(answer))?;
        Ok::<_, io::Error>(())
    };
    timeout(plan.timeout, round).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))?;
    tally.sent += payload.len() as u64;
    tally.received += answer.len() as u64;
    if plan.args.verify && answer != payload {
        return Err(ErrorKind::Mismatch);
    }
    Ok(())
}

/// The payload from any offset below the period on, `size` bytes long.
fn pattern(size: usize) -> Vec<u8> {
    (0..size + PERIOD).map(|at| (at % PERIOD) as u8).collect()
}
