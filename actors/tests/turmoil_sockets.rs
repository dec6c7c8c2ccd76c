//! A DEALER that asks a ROUTER over a faulty network: restarts of either, a peer that is half open,
//! a handover. Every request ends exactly once, and the same seed gives the same log.

#[expect(dead_code, reason = "the other simulations need an echo")]
mod turmoil_net;

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lineway_actors::dns::StaticNames;
use lineway_actors::metrics::{ActorKind, Metrics};
use lineway_actors::socket::{
    Dealer, Inproc, Listening, RequestError, Router, SocketEnv, SocketOptions, Total,
};
use lineway_actors::testkit::Journal;
use lineway_actors::wire::zmp::core::DuplicatePolicy;
use lineway_actors::wire::zmp::{RoutingId, SocketKind};
use tokio::sync::Notify;
use turmoil_net::{Checked, PORT, SimNetwork, a_seed_is_a_log, listen, simulation};

/// What the hosts share beside the network.
#[derive(Clone, Default)]
struct Stage {
    /// The DEALER that was cut off may speak again.
    back: Rc<Notify>,
}

fn env() -> SocketEnv {
    SocketEnv {
        network: Rc::new(SimNetwork),
        names: Rc::new(StaticNames::new()),
        inproc: Inproc::default(),
        actors: Metrics::new("test").actors().clone(),
        total: Arc::new(Total::new(0)),
    }
}

fn options(kind: SocketKind, id: &'static str) -> SocketOptions {
    let mut options = SocketOptions::new(kind, RoutingId::new(id).expect("an id"));
    options.handshake_interval = Duration::from_secs(2);
    options.connect_timeout = Some(Duration::from_secs(1));
    options.core.duplicates = DuplicatePolicy::Handover;
    options.receive_timeout = None;
    options
}

fn endpoint(host: &str) -> String {
    format!("tcp://{}", SocketAddr::new(turmoil::lookup(host), PORT))
}

/// Answers every question with who asked, until the host is stopped.
async fn router(journal: Journal) -> Checked {
    let (env, address) = (env(), SocketAddr::from(([0, 0, 0, 0], PORT)));
    let (router, unstarted) = Router::new(options(SocketKind::Router, "R"), Arc::clone(&env.total));
    unstarted.start_on(&env, vec![Listening::on(listen(PORT).await?, address)]);
    journal.note("a router is there");
    loop {
        let request = router.recv().await?;
        if let Some(reply) = request.reply {
            reply.try_reply(request.from.to_bytes())?;
        }
    }
}

/// Asks until it was answered; how many questions came to nothing before.
async fn ask(dealer: &Dealer, journal: &Journal) -> Result<u32, RequestError> {
    let mut failed = 0;
    loop {
        match dealer.request("who?", Some(Duration::from_millis(800))).await {
            Ok(reply) => {
                assert_eq!(reply.parts()[0], dealer.routing_id().as_bytes());
                return Ok(failed);
            }
            Err(error) => {
                failed += 1;
                journal.note(format_args!("a question came to nothing: {error}"));
                assert!(failed < 60, "the router does not come back");
            }
        }
    }
}

/// A DEALER of the same name as the other, which is cut off later.
async fn first(stage: Stage, journal: Journal) -> Checked {
    let env = env();
    let dealer = Dealer::start(options(SocketKind::Dealer, "D"), &env);
    dealer.connect(&endpoint("router")).await?;
    ask(&dealer, &journal).await?;
    journal.note("the first was answered");
    stage.back.notified().await;
    turmoil::partition("first", "router");
    stage.back.notify_one();
    std::future::pending().await
}

async fn client(stage: Stage, journal: Journal) -> Checked {
    let env = env();
    let dealer = Dealer::start(options(SocketKind::Dealer, "C"), &env);
    dealer.connect(&endpoint("router")).await?;
    ask(&dealer, &journal).await?;
    // Held packets: a peer that says nothing for a while, and is there.
    turmoil::hold("client", "router");
    let (asked, ()) = tokio::join!(dealer.request("who?", Some(Duration::from_secs(9))), async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        turmoil::release("client", "router");
    });
    assert_eq!(asked?.parts()[0], "C");
    journal.note("held, and answered");

    // A half-open peer: nothing of it arrives any more, and another one takes its name over.
    stage.back.notify_one();
    tokio::task::yield_now().await;
    stage.back.notified().await;
    let second = Dealer::start(options(SocketKind::Dealer, "D"), &env);
    second.connect(&endpoint("router")).await?;
    ask(&second, &journal).await?;
    journal.note("handed over");

    second.close().await?;
    dealer.send("the last words").await?;
    dealer.close().await?;
    // Longer than last words take.
    tokio::time::sleep(Duration::from_secs(2)).await;
    for kind in [ActorKind::DealerSocket, ActorKind::PeerConnection] {
        assert_eq!(env.actors.kind(kind).alive(), 0, "{kind:?}");
    }
    assert_eq!(env.total.used(), 0);
    Ok(())
}

/// Asks all the time, across the restarts of the router.
async fn steady(journal: Journal) -> Checked {
    let env = env();
    let dealer = Dealer::start(options(SocketKind::Dealer, "S"), &env);
    dealer.connect(&endpoint("router")).await?;
    let (mut answers, mut failed) = (0, 0);
    while turmoil::sim_elapsed().is_some_and(|time| time < Duration::from_secs(14)) {
        failed += ask(&dealer, &journal).await?;
        answers += 1;
    }
    journal.note(format_args!("{answers} answers, {failed} questions came to nothing"));
    assert!(answers > 50, "{answers} in 14 seconds");
    assert!(failed >= 1, "the restarts were felt");
    let counters = dealer.counters();
    let (asked, ended) = (counters.sent.records.total(), counters.completions.total());
    assert_eq!(asked, ended, "each ended once");
    Ok(())
}

/// One run of the whole; gives its log.
fn simulate(seed: u64) -> Vec<String> {
    let journal = Journal::with_clock(|| turmoil::sim_elapsed().unwrap_or_default());
    let _guard = journal.install();
    let mut sim = simulation(seed);
    let stage = Stage::default();
    // Named in a fixed order, so that each has the same address in every run.
    for name in ["router", "first", "client", "steady"] {
        let _: IpAddr = sim.lookup(name);
    }
    let note = journal.clone();
    sim.host("router", move || router(note.clone()));
    let (there, note) = (stage.clone(), journal.clone());
    sim.host("first", move || first(there.clone(), note.clone()));
    sim.client("client", client(stage, journal.clone()));
    sim.client("steady", steady(journal.clone()));
    let mut restarts = [Duration::from_secs(8), Duration::from_secs(11)].into_iter().peekable();
    while !sim.step().expect("the simulation") {
        if restarts.next_if(|at| *at <= sim.elapsed()).is_some() {
            sim.bounce("router");
        }
    }
    journal.lines()
}

#[test]
fn sockets_over_a_faulty_network_end_every_request_once_and_a_seed_is_a_log() {
    let log = a_seed_is_a_log(simulate);
    for text in ["held, and answered", "handed over", " answers, "] {
        assert!(log.iter().any(|line| line.contains(text)), "{text}: {log:#?}");
    }
}

#[test]
fn any_seed_ends_every_request() {
    for seed in 100..103 {
        assert!(!simulate(seed).is_empty());
    }
}
