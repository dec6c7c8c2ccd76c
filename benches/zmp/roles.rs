//! Our side of the bench: what `libzmq.c` does, with the sockets of the library.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use lineway::zmp::{Context, Outcome, Record, SocketOptions, block_on};
use rustix::time::{ClockId, clock_gettime};

/// The argument that makes this program a role.
pub(crate) const ROLE: &str = "--role";

/// Round trips whose times are kept.
const KEPT: usize = 2_000_000;

/// Plays a role until its work is done.
pub(crate) fn play(arguments: &[String]) -> anyhow::Result<()> {
    let argument = |at: usize| arguments.get(at).context("an argument is missing");
    let number = |at: usize| -> anyhow::Result<u64> { Ok(argument(at)?.parse()?) };
    let role = argument(0)?.as_str();
    match role {
        "sink" => sink(),
        "echo" => echo(),
        "source" => source(argument(1)?, number(2)? as usize, number(3)?),
        "ask" => ask(argument(1)?, number(2)? as usize, number(3)?, number(4)?),
        _ => bail!("no role {role}"),
    }
}

fn options(mut options: SocketOptions) -> SocketOptions {
    options.send_timeout = None;
    options.receive_timeout = None;
    options
}

fn sink() -> anyhow::Result<()> {
    let context = Context::new()?;
    let router = context.router(options(SocketOptions::router()));
    println!("{}", block_on(router.bind("tcp://127.0.0.1:0"))?);
    let mut count = 0_u64;
    let mut began = None;
    let (end, from) = loop {
        let received = match router.try_recv() {
            Ok(received) => received,
            Err(_) => block_on(router.recv())?,
        };
        began.get_or_insert_with(Instant::now);
        if received.record.parts()[0].len() == 1 {
            break (Instant::now(), received.from);
        }
        count += 1;
    };
    let time = end - began.unwrap_or(end);
    println!("{count} {:.9} {:.6}", time.as_secs_f64(), cpu());
    block_on(router.send(&from, Record::new("")))?;
    block_on(router.close())?;
    Ok(())
}

fn source(endpoint: &str, size: usize, millis: u64) -> anyhow::Result<()> {
    let context = Context::new()?;
    let dealer = context.dealer(options(SocketOptions::dealer()));
    block_on(dealer.connect(endpoint))?;
    let bytes = vec![0; size];
    let until = Instant::now() + Duration::from_millis(millis);
    for turn in 0_u64.. {
        if turn.is_multiple_of(64) && Instant::now() >= until {
            break;
        }
        // Made anew for each record, as an application would and as libzmq's side does.
        block_on(dealer.send(Record::new(bytes.clone())))?;
    }
    block_on(dealer.send(Record::new("e")))?;
    block_on(dealer.recv())?;
    println!("{:.6}", cpu());
    Ok(())
}

fn echo() -> anyhow::Result<()> {
    let context = Context::new()?;
    let router = context.router(options(SocketOptions::router()));
    println!("{}", block_on(router.bind("tcp://127.0.0.1:0"))?);
    loop {
        let received = match router.try_recv() {
            Ok(received) => received,
            Err(_) => block_on(router.recv())?,
        };
        let reply = received.reply.context("a request")?;
        block_on(reply.reply(received.record))?;
    }
}

fn ask(endpoint: &str, size: usize, millis: u64, under_way: u64) -> anyhow::Result<()> {
    let context = Context::new()?;
    let dealer = context.dealer(options(SocketOptions::dealer()));
    block_on(dealer.connect(endpoint))?;
    let bytes = vec![0; size];
    // The connection is up when the first answer is there.
    block_on(dealer.request(Record::new("first"), None))?;
    let began = Instant::now();
    let until = began + Duration::from_millis(millis);
    let ask = |at: Instant| {
        let context = (at - began).as_nanos() as u64;
        dealer.try_request(Record::new(bytes.clone()), None, context)
    };
    for _ in 0..under_way {
        ask(Instant::now())?;
    }
    let mut times = Vec::with_capacity(KEPT);
    let mut count = 0_u64;
    let mut now = began;
    while now < until {
        let completion = match dealer.try_completion() {
            Ok(completion) => completion,
            Err(_) => block_on(dealer.next_completion())?,
        };
        let Outcome::Request { parts: Some(_), .. } = completion.outcome else {
            bail!("{completion:?}");
        };
        now = Instant::now();
        if times.len() < KEPT {
            times.push((now - began).as_nanos() as u64 - completion.context);
        }
        count += 1;
        ask(now)?;
    }
    times.sort_unstable();
    let p50 = times.get(times.len() / 2).map_or(0.0, |nanos| *nanos as f64 / 1e3);
    println!("{count} {:.9} {p50:.3} {:.6}", (now - began).as_secs_f64(), cpu());
    // What is still under way is of no interest.
    std::process::exit(0);
}

/// Seconds of CPU of this process.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
