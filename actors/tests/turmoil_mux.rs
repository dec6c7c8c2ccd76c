//! A MuxClient and a MuxServer over a network whose hosts stall, lose packets and die: every child
//! ends once, what is not cut short has every byte, and the same seed gives the same log.
//!
//! ```text
//! clients ─▶ near: MuxClient ═══ parents ═══▶ far: MuxServer ─▶ echo
//! ```

mod turmoil_net;

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use actix::Addr;
use futures_util::future::join_all;
use lineway_actors::listener::{LineLimit, Listener};
use lineway_actors::settings::{
    MuxClientSettings, MuxMode, MuxServerSettings, NodePlan, NodeSettings,
};
use lineway_actors::testkit::{Journal, Kit, settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore};
use turmoil::net::TcpStream;
use turmoil_net::{Checked, PORT, SimNetwork, a_seed_is_a_log, echo, listen, simulation};

/// What happens between the two while lines come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// Packets wait for a second and a half.
    Stall,
    /// The far host dies and comes back.
    Crash,
}

const ROUNDS: [Fault; 6] =
    [Fault::Nothing, Fault::Stall, Fault::Crash, Fault::Nothing, Fault::Crash, Fault::Stall];

/// Lines of one round.
const LINES: usize = 6;

/// What is done to the far host from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    Nothing,
    Crash,
    Bounce,
}

/// What the hosts share beside the network.
#[derive(Clone)]
struct Stage {
    journal: Journal,
    stop: Rc<Notify>,
    empty: Rc<Semaphore>,
    order: Rc<Cell<Order>>,
}

/// A worker, and what it has before these nodes.
async fn service(nodes: Vec<NodePlan>) -> io::Result<(Kit, Addr<Listener>)> {
    let kit = Kit::on(Rc::new(SimNetwork));
    let entry = settings::listener(SocketAddr::from(([0, 0, 0, 0], PORT)));
    let entry = settings::node("in", entry, Some("mux"));
    let chain = kit.chain(std::iter::once(entry).chain(nodes).collect());
    let listener = kit.listen_on(&chain, LineLimit::default(), listen(PORT).await?);
    Ok((kit, listener))
}

async fn near(stage: Stage) -> Checked {
    let mux = MuxClientSettings::new(MuxMode::FixedConnectionsCount { per_worker: 2 });
    let connector = settings::connector(SocketAddr::new(turmoil::lookup("far"), PORT));
    let nodes = vec![
        settings::node("mux", NodeSettings::MuxClient(mux), Some("out")),
        settings::node("out", connector, None),
    ];
    let (kit, _listener) = service(nodes).await?;
    stage.stop.notified().await;
    kit.pass(Duration::from_secs(5)).await;
    kit.worker.drain_parents();
    kit.pass(Duration::from_secs(1)).await;
    kit.assert_empty().await;
    let count = |series: &str| kit.metric(series) as usize;
    let ended = |reason: &str| {
        let name = "lineway_mux_children_closed_total";
        count(&format!(r#"{name}{{node="mux",reason="{reason}"}}"#))
    };
    let all: usize =
        lineway_actors::wire::mux::ChildEnd::ALL.iter().map(|end| ended(end.as_str())).sum();
    assert_eq!(count(r#"lineway_mux_children_opened_total{node="mux"}"#), all);
    assert_eq!(all, ROUNDS.len() * LINES, "every child ended once");
    stage.journal.note(format_args!("{} finished", ended("finished")));
    stage.empty.add_permits(1);
    Ok(())
}

async fn far(stage: Stage) -> Checked {
    let to = SocketAddr::new(turmoil::lookup("echo"), PORT);
    let server = MuxServerSettings::default();
    let nodes = vec![
        settings::node("mux", NodeSettings::MuxServer(server), Some("out")),
        settings::node("out", settings::connector(to), None),
    ];
    let (kit, _listener) = service(nodes).await?;
    stage.stop.notified().await;
    kit.pass(Duration::from_secs(6)).await;
    kit.assert_empty().await;
    stage.empty.add_permits(1);
    Ok(())
}

/// Sends, ends, and gives how much of it came back, in order, before the line ended.
async fn talk(size: usize) -> io::Result<usize> {
    let sent: Vec<u8> = (0..size).map(|i| (i * 31 % 251) as u8).collect();
    let (mut from, mut to) = TcpStream::connect(("near", PORT)).await?.into_split();
    let sending = async {
        for piece in sent.chunks(7000) {
            to.write_all(piece).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        to.shutdown().await
    };
    let mut got = Vec::new();
    let reading = tokio::time::timeout(Duration::from_secs(15), from.read_to_end(&mut got));
    // A line that is cut short fails to send, or to be read.
    let (_, _) = tokio::join!(sending, reading);
    assert!(sent.starts_with(&got), "{} bytes of {size} are not those", got.len());
    Ok(got.len())
}

async fn fail(fault: Fault, order: &Cell<Order>) {
    let wait = |millis| tokio::time::sleep(Duration::from_millis(millis));
    wait(150).await;
    match fault {
        Fault::Nothing => {}
        Fault::Stall => {
            turmoil::hold("near", "far");
            wait(1500).await;
            turmoil::release("near", "far");
        }
        Fault::Crash => {
            order.set(Order::Crash);
            wait(400).await;
            order.set(Order::Bounce);
        }
    }
}

async fn client(stage: Stage, seed: usize) -> Checked {
    for (round, fault) in ROUNDS.into_iter().enumerate() {
        stage.journal.note(format_args!("round {round}: {fault:?}"));
        let size = |line: usize| (seed * 7919 + round * 4001 + line * 30_011) % 120_000 + 1;
        let lines = (0..LINES).map(|line| async move {
            // Some come while it fails.
            tokio::time::sleep(Duration::from_millis(line as u64 * 60)).await;
            talk(size(line)).await
        });
        let (came, ()) = tokio::join!(join_all(lines), fail(fault, &stage.order));
        for (line, came) in came.into_iter().enumerate() {
            let came = came?;
            stage.journal.note(format_args!("{came} of {} came back", size(line)));
            assert!(came == size(line) || fault == Fault::Crash, "{line} in {round}: {came}");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    stage.stop.notify_waiters();
    let _both = stage.empty.acquire_many(2).await?;
    Ok(())
}

/// One run of the whole; gives its log.
fn simulate(seed: u64) -> Vec<String> {
    let journal = Journal::with_clock(|| turmoil::sim_elapsed().unwrap_or_default());
    let _guard = journal.install();
    let mut sim = simulation(seed);
    let stage = Stage {
        journal: journal.clone(),
        stop: Rc::default(),
        empty: Rc::new(Semaphore::new(0)),
        order: Rc::default(),
    };
    // Named in a fixed order, so that each has the same address in every run.
    for name in ["echo", "far", "near", "client"] {
        let _: IpAddr = sim.lookup(name);
    }
    sim.host("echo", echo);
    let (at_far, at_near) = (stage.clone(), stage.clone());
    sim.host("far", move || far(at_far.clone()));
    sim.host("near", move || near(at_near.clone()));
    sim.client("client", client(stage.clone(), seed as usize));
    while !sim.step().expect("the simulation") {
        match stage.order.take() {
            Order::Nothing => {}
            Order::Crash => sim.crash("far"),
            Order::Bounce => sim.bounce("far"),
        }
    }
    journal.lines()
}

#[test]
fn mux_m20_parents_that_stall_die_and_come_back_and_a_seed_is_a_log() {
    let log = a_seed_is_a_log(simulate);
    let cut = log.iter().filter(|line| line.ends_with("came back")).filter(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        words[1] != words[3]
    });
    assert!(cut.count() > 0, "nobody was hit: {log:#?}");
}

#[test]
fn mux_m20_any_seed_ends_every_child_once() {
    for seed in 100..106 {
        simulate(seed);
    }
}
