//! Two services and a faulty network between them, in a deterministic simulation: bytes come
//! through, lines end, nothing stays behind, and the same seed gives the same log.
//!
//! ```text
//! client --> near: TcpListener -> TcpConnector ==faults==> far: TcpListener -> TcpConnector --> echo
//! ```

mod turmoil_net;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use lineway_actors::listener::LineLimit;
use lineway_actors::settings::NodeSettings;
use lineway_actors::testkit::{Journal, Kit, settings};
use lineway_actors::wire::line::FinishReason;
use lineway_actors::wire::units::Millis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore};
use turmoil::net::TcpStream;
use turmoil_net::{Checked, PORT, SimNetwork, a_seed_is_a_log, echo, listen, simulation};

/// How long a line may be idle in these services.
const IDLE: Duration = Duration::from_secs(4);

/// Small random numbers, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.roll(256) as u8).collect()
    }
}

/// What the hosts share beside the network.
#[derive(Clone)]
struct Stage {
    journal: Journal,
    stop: Rc<Notify>,
    empty: Rc<Semaphore>,
}

/// A service: a listener before a connector to `next`.
async fn service(stage: Stage, name: &'static str, next: &'static str) -> Checked {
    let kit = Kit::on(Rc::new(SimNetwork));
    let to = SocketAddr::new(turmoil::lookup(next), PORT);
    let mut entry = settings::listener(SocketAddr::from(([0, 0, 0, 0], PORT)));
    if let NodeSettings::TcpListener(entry) = &mut entry {
        let idle = Millis::new(IDLE.as_millis() as u64);
        (entry.initial_idle_timeout, entry.active_idle_timeout) = (idle, idle);
    }
    let chain = kit.chain(vec![
        settings::node(name, entry, Some("out")),
        settings::node("out", settings::connector(to), None),
    ]);
    let acceptor = listen(PORT).await?;
    let _listener = kit.listen_on(&chain, LineLimit::default(), acceptor);
    stage.stop.notified().await;
    let left = kit.worker.finish_lines(FinishReason::Drain, |_| true);
    stage.journal.note(format_args!("{name} drained {left} lines"));
    kit.pass(Duration::from_secs(1)).await;
    assert_eq!(kit.worker.line_count(), 0, "live lines of {name}");
    assert!(kit.board.registry.is_empty(), "{name}'s registry");
    for gauge in [
        format!(r#"lineway_lines_open{{node="{name}",kind="main"}}"#),
        format!(r#"lineway_queued_bytes{{node="{name}"}}"#),
        r#"lineway_actors_alive{kind="main-line"}"#.to_owned(),
        r#"lineway_deadlines_pending{kind="connect"}"#.to_owned(),
    ] {
        assert!(kit.metric(&gauge).abs() < 0.5, "{gauge} of {name}");
    }
    let opened = kit.metric(&format!(r#"lineway_lines_opened_total{{node="{name}",kind="main"}}"#));
    let closed: f64 = FinishReason::ALL
        .iter()
        .map(|r| {
            kit.metric(&format!(
                r#"lineway_lines_closed_total{{node="{name}",kind="main",reason="{r}"}}"#
            ))
        })
        .sum();
    assert!(opened > 5.0 && (opened - closed).abs() < 0.5, "{opened} {closed}");
    assert!(kit.worker.timers.is_empty(), "timers of {name}");
    stage.empty.add_permits(1);
    Ok(())
}

async fn connect() -> io::Result<TcpStream> {
    TcpStream::connect(("near", PORT)).await
}

/// Sends bytes in pieces of any size, ends, and wants exactly them back.
async fn talk(stage: &Stage, dice: &mut Dice, size: usize) -> Checked {
    let sent = dice.bytes(size);
    let (mut from, mut to) = connect().await?.into_split();
    let pieces = Dice(dice.0).0;
    let sending = async {
        let mut dice = Dice(pieces);
        let mut rest = &sent[..];
        while !rest.is_empty() {
            let n = (dice.roll(20_000) + 1).min(rest.len());
            to.write_all(&rest[..n]).await?;
            rest = &rest[n..];
        }
        to.shutdown().await
    };
    let mut got = Vec::new();
    let (done, read) = tokio::join!(sending, from.read_to_end(&mut got));
    done?;
    read?;
    assert!(got == sent, "{} bytes of {size} came back", got.len());
    stage.journal.note(format_args!("{size} bytes came back"));
    Ok(())
}

/// A connect to `far` that does not come through ends the line.
async fn cut_off(stage: &Stage) -> Checked {
    turmoil::partition("near", "far");
    let mut stream = connect().await?;
    let mut byte = [0];
    let heard = stream.read(&mut byte).await.unwrap_or(0);
    assert_eq!(heard, 0, "nobody is there to send anything");
    stage.journal.note("cut off");
    turmoil::repair("near", "far");
    Ok(())
}

/// A line whose services can not reach each other any more ends at both, each by itself.
async fn cut_in_two(stage: &Stage) -> Checked {
    let mut stream = connect().await?;
    stream.write_all(b"hello").await?;
    let mut back = [0; 5];
    stream.read_exact(&mut back).await?;
    turmoil::partition("near", "far");
    // Its answer is lost, and a write into nowhere may fail.
    let _ = stream.write_all(b"anybody there?").await;
    let heard = stream.read(&mut back).await.unwrap_or(0);
    assert_eq!(heard, 0);
    stage.journal.note("cut in two");
    tokio::time::sleep(IDLE * 2).await;
    turmoil::repair("near", "far");
    Ok(())
}

/// A client that goes away with unread bytes resets its connection.
async fn reset(stage: &Stage, dice: &mut Dice) -> Checked {
    let mut stream = connect().await?;
    stream.write_all(&dice.bytes(50_000)).await?;
    let mut byte = [0];
    stream.read_exact(&mut byte).await?;
    drop(stream);
    stage.journal.note("reset");
    Ok(())
}

/// The link between the services stands still in the middle of a transfer.
async fn stalled(stage: &Stage, dice: &mut Dice) -> Checked {
    let (mut from, mut to) = connect().await?.into_split();
    let sent = dice.bytes(120_000);
    let mut got = vec![0; sent.len()];
    let (first, second) = sent.split_at(60_000);
    let sending = async {
        to.write_all(first).await?;
        turmoil::hold("near", "far");
        tokio::time::sleep(Duration::from_millis(700)).await;
        turmoil::release("near", "far");
        to.write_all(second).await
    };
    let (done, read) = tokio::join!(sending, from.read_exact(&mut got));
    done?;
    read?;
    assert!(got == sent);
    stage.journal.note("stalled, and came through");
    Ok(())
}

async fn client(stage: Stage, seed: u64) -> Checked {
    let mut dice = Dice(seed | 1);
    talk(&stage, &mut dice, 200_000).await?;
    stalled(&stage, &mut dice).await?;
    cut_off(&stage).await?;
    reset(&stage, &mut dice).await?;
    let mut others = [Dice(dice.0 ^ 2), Dice(dice.0 ^ 4), Dice(dice.0 ^ 8)];
    let [a, b, c] = &mut others;
    let (size_a, size_b, size_c) = (a.roll(90_000) + 1, b.roll(90_000) + 1, 1);
    let all =
        tokio::join!(talk(&stage, a, size_a), talk(&stage, b, size_b), talk(&stage, c, size_c));
    all.0?;
    all.1?;
    all.2?;
    cut_in_two(&stage).await?;
    talk(&stage, &mut dice, 10_000).await?;
    // Some are still there when the services stop.
    let mut idle = Vec::new();
    for _ in 0..5 {
        let mut stream = connect().await?;
        stream.write_all(b"x").await?;
        let mut byte = [0];
        stream.read_exact(&mut byte).await?;
        idle.push(stream);
    }
    stage.stop.notify_waiters();
    let _both = stage.empty.acquire_many(2).await?;
    stage.journal.note("both are empty");
    for mut stream in idle {
        let mut rest = Vec::new();
        // A drain may reset; nothing more may come.
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty());
    }
    Ok(())
}

/// One run of the whole; gives its log.
fn simulate(seed: u64) -> Vec<String> {
    let journal = Journal::with_clock(|| turmoil::sim_elapsed().unwrap_or_default());
    let _guard = journal.install();
    let mut sim = simulation(seed);
    let stage =
        Stage { journal: journal.clone(), stop: Rc::default(), empty: Rc::new(Semaphore::new(0)) };
    // Named in a fixed order, so that each has the same address in every run.
    for name in ["echo", "far", "near", "client"] {
        let _: IpAddr = sim.lookup(name);
    }
    sim.host("echo", echo);
    let far = stage.clone();
    sim.host("far", move || service(far.clone(), "far", "echo"));
    let near = stage.clone();
    sim.host("near", move || service(near.clone(), "near", "far"));
    sim.client("client", client(stage, seed));
    sim.run().expect("the simulation");
    journal.lines()
}

#[test]
fn two_services_over_a_faulty_network_deliver_end_and_are_empty_and_a_seed_is_a_log() {
    let first = a_seed_is_a_log(simulate);
    for (reason, least) in [("connect-failed", 1), ("idle", 1), ("drain", 5), ("peer-finished", 8)]
    {
        let count = first.iter().filter(|line| line.contains(&format!("reason={reason}"))).count();
        assert!(count >= least, "{count} lines ended by {reason}: {first:#?}");
    }
}

#[test]
fn any_seed_delivers_and_ends() {
    for seed in 100..106 {
        assert!(!simulate(seed).is_empty());
    }
}
