//! A fisher's client whose candidates reach its server by two paths, of which one is always bad:
//! every line ends up on the good one, and the same seed gives the same log.
//!
//! ```text
//!                                             ┌─▶ left ──┐
//! client ─▶ near: ConnectionFisherClient x 2 ─┤          ├─▶ far: ConnectionFisherServer ─▶ echo
//!                                             └─▶ right ─┘
//! ```

mod turmoil_net;

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use lineway_actors::listener::LineLimit;
use lineway_actors::settings::{
    FisherClientSettings, FisherServerSettings, Host, NodePlan, NodeSettings,
};
use lineway_actors::testkit::{Journal, Kit, settings};
use lineway_actors::wire::units::Millis;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::sync::{Notify, Semaphore};
use turmoil::net::{TcpListener, TcpStream};
use turmoil_net::{Checked, PORT, SimNetwork, a_seed_is_a_log, echo, listen, simulation};

/// Lines beside each other while one path is bad.
const LINES: usize = 3;

/// Which path is bad, and whether its packets are lost or held.
const FAULTS: [(&str, bool); 5] =
    [("left", true), ("right", false), ("right", true), ("left", false), ("right", false)];

/// What the hosts share beside the network.
#[derive(Clone)]
struct Stage {
    journal: Journal,
    stop: Rc<Notify>,
    empty: Rc<Semaphore>,
}

/// A service: a listener before these nodes.
async fn service(stage: Stage, nodes: Vec<NodePlan>) -> Checked {
    let kit = Kit::on(Rc::new(SimNetwork));
    let entry = settings::listener(SocketAddr::from(([0, 0, 0, 0], PORT)));
    let entry = settings::node("in", entry, Some("fish"));
    let chain = kit.chain(std::iter::once(entry).chain(nodes).collect());
    let _listener = kit.listen_on(&chain, LineLimit::default(), listen(PORT).await?);
    stage.stop.notified().await;
    kit.pass(Duration::from_secs(2)).await;
    kit.assert_empty().await;
    let count = |series: &str| kit.metric(series) as usize;
    let lines = FAULTS.len() * LINES;
    if chain.onward.is_some() {
        assert_eq!(count(r#"lineway_fisher_selections_total{node="fish",result="won"}"#), lines);
        assert_eq!(count(r#"lineway_fisher_candidates_total{node="fish"}"#), 2 * lines);
    } else {
        let result = |result| {
            count(&format!(r#"lineway_fisher_server_first_total{{node="fish",result="{result}"}}"#))
        };
        assert_eq!((result("payload"), result("dialled")), (lines, 0), "losers never dial");
    }
    stage.empty.add_permits(1);
    Ok(())
}

async fn near(stage: Stage) -> Checked {
    let fisher = FisherClientSettings { simultaneous_tries: 2 };
    let mut connector = settings::connector(SocketAddr::new(turmoil::lookup("left"), PORT));
    if let NodeSettings::TcpConnector(connector) = &mut connector {
        let mut right = connector.targets[0].clone();
        right.host = Host::Ip(turmoil::lookup("right"));
        connector.targets.push(right);
    }
    let fisher = NodeSettings::ConnectionFisherClient(fisher);
    let nodes =
        vec![settings::node("fish", fisher, Some("out")), settings::node("out", connector, None)];
    service(stage, nodes).await
}

async fn far(stage: Stage) -> Checked {
    let fisher = FisherServerSettings { server_first_delay: Millis::new(1000) };
    let fisher = NodeSettings::ConnectionFisherServer(fisher);
    let to = SocketAddr::new(turmoil::lookup("echo"), PORT);
    let nodes = vec![
        settings::node("fish", fisher, Some("out")),
        settings::node("out", settings::connector(to), None),
    ];
    service(stage, nodes).await
}

/// A path: carries bytes to the far host and says how many there were.
async fn path(name: &'static str, journal: Journal) -> Checked {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    loop {
        let (mut from, _) = listener.accept().await?;
        let journal = journal.clone();
        tokio::task::spawn_local(async move {
            let Ok(mut to) = TcpStream::connect(("far", PORT)).await else {
                return journal.note(format_args!("{name} does not get through"));
            };
            match copy_bidirectional(&mut from, &mut to).await {
                Ok((up, _)) if up <= 5 => journal.note(format_args!("{name} carried a probe")),
                Ok((up, down)) => journal.note(format_args!("{name} carried {up} and {down}")),
                Err(_) => journal.note(format_args!("{name} broke")),
            }
        });
    }
}

/// Sends, ends, and wants exactly that back, far before a selection's time is over.
async fn talk(size: usize) -> Checked {
    let start = tokio::time::Instant::now();
    let sent: Vec<u8> = (0..size).map(|i| (i * 31 % 251) as u8).collect();
    let (mut from, mut to) = TcpStream::connect(("near", PORT)).await?.into_split();
    let sending = async {
        to.write_all(&sent).await?;
        to.shutdown().await
    };
    let mut got = Vec::new();
    let (done, read) = tokio::join!(sending, from.read_to_end(&mut got));
    done?;
    read?;
    assert!(got == sent, "{} bytes of {size} came back", got.len());
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    Ok(())
}

async fn client(stage: Stage, seed: usize) -> Checked {
    for (round, (bad, lost)) in FAULTS.into_iter().enumerate() {
        stage.journal.note(format_args!("{bad} is bad"));
        if lost {
            turmoil::partition(bad, "far");
        } else {
            turmoil::hold(bad, "far");
        }
        let size = |line: usize| (seed * 7919 + round * 4001 + line * 30_011) % 90_000 + 1;
        let (a, b, c) = tokio::join!(talk(size(0)), talk(size(1)), talk(size(2)));
        a?;
        b?;
        c?;
        // The paths have said what they carried, and what is late is late indeed.
        tokio::time::sleep(Duration::from_secs(1)).await;
        stage.journal.note(format_args!("{bad} is good again"));
        if lost {
            turmoil::repair(bad, "far");
        } else {
            turmoil::release(bad, "far");
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
    let stage =
        Stage { journal: journal.clone(), stop: Rc::default(), empty: Rc::new(Semaphore::new(0)) };
    // Named in a fixed order, so that each has the same address in every run.
    for name in ["echo", "far", "left", "right", "near", "client"] {
        let _: IpAddr = sim.lookup(name);
    }
    sim.host("echo", echo);
    for name in ["left", "right"] {
        let journal = journal.clone();
        sim.host(name, move || path(name, journal.clone()));
    }
    let (at_far, at_near) = (stage.clone(), stage.clone());
    sim.host("far", move || far(at_far.clone()));
    sim.host("near", move || near(at_near.clone()));
    sim.client("client", client(stage, seed as usize));
    sim.run().expect("the simulation");
    journal.lines()
}

/// While a path was bad, it carried nothing of any line, and the other one all of them.
fn on_the_good_path(log: &[String]) {
    let mut rounds = 0;
    for (start, _) in log.iter().enumerate().filter(|(_, line)| line.ends_with(" is bad")) {
        let round = || log[start..].iter().take_while(|line| !line.ends_with("is good again"));
        let bad = log[start].split_whitespace().nth(1).unwrap_or_default();
        let carried = |name: &str| {
            let payload = format!(" {name} carried ");
            round().filter(|l| l.contains(&payload) && !l.ends_with("a probe")).count()
        };
        let good = if bad == "left" { "right" } else { "left" };
        assert_eq!((carried(bad), carried(good)), (0, LINES), "{bad} was bad: {log:#?}");
        rounds += 1;
    }
    assert_eq!(rounds, FAULTS.len());
}

#[test]
fn fisher_over_two_paths_every_line_ends_up_on_the_good_one_and_a_seed_is_a_log() {
    on_the_good_path(&a_seed_is_a_log(simulate));
}

#[test]
fn fisher_over_two_paths_any_seed_finds_the_good_one() {
    for seed in 100..106 {
        on_the_good_path(&simulate(seed));
    }
}
