use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use super::*;
use crate::settings::{NodePlan, NodeSettings};
use crate::testkit::{Arrivals, Kit, Peer, run, settings};
use crate::worker::leases::tests::Lessee;
use crate::worker::timers;

const SECOND: Duration = Duration::from_secs(1);

fn listener(name: &str, port: u16, next: &str) -> NodePlan {
    let at = ([192, 0, 2, 9], port).into();
    settings::node(name, settings::listener(at), Some(next))
}

fn connector(name: &str, port: u16) -> NodePlan {
    let to = ([198, 51, 100, 1], port).into();
    settings::node(name, settings::connector(to), None)
}

fn echo(name: &str) -> NodePlan {
    settings::node(name, NodeSettings::EchoServer, None)
}

/// Starts the actor of the kit's worker with this plan; the test plays the clients of every
/// address, in the order of the plan.
fn start(kit: &Kit, plan: &Plan) -> (WorkerHandle, Vec<Arrivals>) {
    let mut desk = Desk::new(Rc::clone(&kit.worker));
    desk.build_nodes(plan);
    desk.build_chains(plan);
    let mut all = Vec::new();
    for key in plan.nodes.iter().flat_map(NodePlan::listen_keys) {
        let (acceptor, arrivals) = Arrivals::new();
        desk.accept_on(plan, key, acceptor);
        all.push(arrivals);
    }
    (WorkerActor::start_with(Rc::new(RefCell::new(desk))), all)
}

fn install(plan: Plan) -> Install {
    Install {
        plan: Arc::new(plan),
        listen: Vec::new(),
        limits: HashMap::new(),
        start_testers: false,
    }
}

#[test]
fn case_m12_a_worker_whose_mailbox_was_full_hears_again() {
    run(async |kit| {
        let (worker, _) = start(&kit, &settings::plan(Vec::new()));
        kit.quiet().await;
        let handled = Arc::new(AtomicU32::new(0));
        let address = worker.address();
        let burst = (0..160).map(|_| address.try_send(Probe(Arc::clone(&handled))));
        let taken = burst.flatten().count();
        assert!(taken < 160, "it was never full");
        kit.pass(SECOND).await;
        assert_eq!(handled.load(Relaxed) as usize, taken);
        for _ in 0..50 {
            assert_eq!(worker.send(Control::CountLines).await, Ok(0));
        }
    });
}

/// Counts.
#[derive(Message)]
#[rtype(result = "()")]
struct Probe(Arc<AtomicU32>);

impl Handler<Probe> for WorkerActor {
    type Result = ();

    fn handle(&mut self, probe: Probe, _: &mut Self::Context) {
        probe.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_listener_that_panicked_is_started_again_on_its_socket_and_lines_live_on() {
    run(async |kit| {
        let plan = settings::plan(vec![
            listener("in", 7000, "out"),
            listener("other", 7001, "out"),
            echo("out"),
        ]);
        let (_worker, arrivals) = start(&kit, &plan);
        let before = arrivals[0].connect();
        kit.quiet().await;
        arrivals[0].explode();
        kit.quiet().await;
        let restarts = r#"lineway_actor_restarts_total{kind="listener"}"#;
        let panics = r#"lineway_actor_panics_total{kind="listener"}"#;
        assert!((kit.metric(panics) - 1.0).abs() < 0.5);
        let waiting = arrivals[0].connect();
        let neighbour = arrivals[1].connect();
        kit.pass(SECOND * 3).await;
        assert!((kit.metric(restarts) - 1.0).abs() < 0.5);
        assert!(!arrivals[0].is_dropped(), "the socket outlives its actor");
        for client in [&before, &waiting, &neighbour] {
            client.offer(b"hello");
            kit.quiet().await;
            assert_eq!(client.take(), b"hello");
        }
    });
}

/// Live listeners, and how often one was started again.
fn listeners(kit: &Kit) -> (u64, u64) {
    let counts = kit.board.metrics.actors().kind(ActorKind::Listener);
    (counts.alive(), counts.restarts())
}

async fn assert_echo(kit: &Kit, client: &Peer) {
    client.offer(b"hello");
    kit.quiet().await;
    assert_eq!(client.take(), b"hello");
}

#[test]
fn a_listener_that_panics_after_a_reload_moved_its_address_is_started_again() {
    run(async |kit| {
        let of = |node| settings::plan(vec![listener(node, 7000, "out"), echo("out")]);
        let (worker, arrivals) = start(&kit, &of("before"));
        kit.quiet().await;
        worker.send(install(of("after"))).await.unwrap();
        kit.board.health.forget_node("before");
        kit.board.supervisor.forget_node("before");
        kit.quiet().await;
        assert!(kit.board.health.knows("after"), "no client has to come for that");
        arrivals[0].explode();
        kit.quiet().await;
        let waiting = arrivals[0].connect();
        kit.pass(SECOND).await;
        assert_eq!(listeners(&kit), (1, 1));
        assert_echo(&kit, &waiting).await;
    });
}

/// Why nodes are not ready.
fn not_ready(kit: &Kit) -> Vec<String> {
    let nodes = kit.board.health.ready(crate::worker::timers::now()).err().unwrap_or_default();
    let text = |n: crate::health::NotReady| Some(format!("{}: {}", n.node?, n.reason));
    nodes.into_iter().filter_map(text).collect()
}

#[test]
fn a_node_that_is_renamed_and_back_before_its_listener_looks_has_its_health() {
    run(async |kit| {
        let of = |node| settings::plan(vec![listener(node, 7000, "out"), echo("out")]);
        let mut desk = Desk::new(Rc::clone(&kit.worker));
        desk.install(install(of("in")));
        let key = of("in").nodes[0].listen_keys().next().unwrap();
        let (acceptor, arrivals) = Arrivals::new();
        desk.accept_on(&of("in"), key, acceptor);
        kit.quiet().await;
        for (now, before) in [("other", "in"), ("in", "other")] {
            desk.install(install(of(now)));
            kit.board.health.forget_node(before);
        }
        kit.quiet().await;
        assert!(kit.board.health.knows("in"));
        assert_eq!(not_ready(&kit), [""; 0]);
        assert_echo(&kit, &arrivals.connect()).await;
    });
}

#[test]
fn a_reload_that_moves_an_address_while_its_listener_is_dead_leaves_it_to_be_started_again() {
    run(async |kit| {
        let of = |node| settings::plan(vec![listener(node, 7000, "out"), echo("out")]);
        let (worker, arrivals) = start(&kit, &of("before"));
        arrivals[0].explode();
        kit.quiet().await;
        let waiting = arrivals[0].connect();
        worker.send(install(of("after"))).await.unwrap();
        kit.board.health.forget_node("before");
        kit.board.supervisor.forget_node("before");
        assert_eq!(not_ready(&kit), ["after: not running"]);
        kit.pass(SECOND).await;
        assert_eq!(listeners(&kit), (1, 1));
        assert_eq!(not_ready(&kit), [""; 0]);
        assert_echo(&kit, &waiting).await;
    });
}

#[test]
fn two_nodes_that_change_their_addresses_while_one_is_dead_have_one_listener_each() {
    run(async |kit| {
        let of = |first, second| {
            settings::plan(vec![
                listener("a", first, "out"),
                listener("b", second, "out"),
                echo("out"),
            ])
        };
        let (worker, arrivals) = start(&kit, &of(7000, 7001));
        arrivals[0].explode();
        kit.quiet().await;
        worker.send(install(of(7001, 7000))).await.unwrap();
        kit.pass(SECOND).await;
        assert_eq!(listeners(&kit).0, 2);
        for arrivals in arrivals {
            assert_echo(&kit, &arrivals.connect()).await;
        }
    });
}

#[test]
fn lines_of_an_address_that_a_reload_moved_count_for_its_node() {
    run(async |kit| {
        let of = |node| settings::plan(vec![listener(node, 7000, "out"), echo("out")]);
        let (worker, arrivals) = start(&kit, &of("before"));
        kit.quiet().await;
        let mut plan = of("after");
        let NodeSettings::TcpListener(entry) = &mut plan.nodes[0].settings else {
            unreachable!("it is a listener")
        };
        entry.max_lines = Some(1);
        let limit = LineLimit::default();
        let limits = HashMap::from([(Arc::from("after"), limit.clone())]);
        worker.send(Install { limits, ..install(plan) }).await.unwrap();
        let elsewhere = limit.take(Some(1)).unwrap();
        let client = arrivals[0].connect();
        kit.pass(SECOND).await;
        assert_eq!(arrivals[0].waiting(), 1, "another worker has the one line");
        drop(elsewhere);
        kit.pass(SECOND).await;
        assert_echo(&kit, &client).await;
    });
}

#[test]
fn a_reload_keeps_lines_of_what_did_not_change_and_retires_the_others() {
    run(async |kit| {
        let first = settings::plan(vec![
            listener("kept", 7000, "a"),
            listener("changed", 7001, "b"),
            listener("removed", 7002, "a"),
            connector("a", 1),
            connector("b", 2),
        ]);
        let (worker, arrivals) = start(&kit, &first);
        let lines: Vec<_> = arrivals.iter().map(Arrivals::connect).collect();
        kit.quiet().await;
        let late = arrivals[2].connect();
        let second = settings::plan(vec![
            listener("kept", 7000, "a"),
            listener("changed", 7001, "b"),
            connector("a", 1),
            connector("b", 3),
        ]);
        let before = timers::now();
        kit.quiet().await;
        worker.send(install(second)).await.unwrap();
        kit.quiet().await;
        assert!(arrivals[2].is_dropped(), "the removed listener is closed");
        assert!(!late.is_dropped(), "T01: what waited was accepted first");
        let after = arrivals[1].connect();
        kit.quiet().await;
        let ports: Vec<_> = kit.dials.addresses().iter().map(std::net::SocketAddr::port).collect();
        assert_eq!(ports, [1, 2, 1, 1, 3]);
        assert_eq!(worker.send(Control::CountLines).await, Ok(5));
        let earlier = Control::FinishRetired(FinishReason::Drain, before);
        assert_eq!(worker.send(earlier).await, Ok(0), "each reload gives its lines the whole time");
        let retired = Control::FinishRetired(FinishReason::Drain, timers::now());
        assert_eq!(worker.send(retired).await, Ok(3));
        kit.quiet().await;
        assert!(lines[1].is_dropped() && lines[2].is_dropped() && late.is_dropped());
        for (client, dialled) in [(&lines[0], 0), (&after, 4)] {
            client.offer(b"alive");
            kit.quiet().await;
            assert_eq!(kit.dials.peer(dialled).take(), b"alive");
        }
    });
}

#[test]
fn a_listener_whose_settings_change_keeps_its_socket_and_serves_by_the_new_ones() {
    run(async |kit| {
        let first = settings::plan(vec![listener("in", 7000, "out"), echo("out")]);
        let (worker, arrivals) = start(&kit, &first);
        let before = arrivals[0].connect();
        kit.quiet().await;
        let mut second = first.clone();
        let NodeSettings::TcpListener(entry) = &mut second.nodes[0].settings else {
            unreachable!("it is a listener")
        };
        entry.blacklist = vec!["192.0.2.0/24".parse().unwrap()];
        worker.send(install(second)).await.unwrap();
        let after = arrivals[0].connect();
        kit.quiet().await;
        assert!(!arrivals[0].is_dropped() && after.is_dropped());
        before.offer(b"alive");
        kit.quiet().await;
        assert_eq!(before.take(), b"alive");
    });
}

#[test]
fn a_worker_stops_listening_and_its_lines_go_on_until_they_are_ended() {
    run(async |kit| {
        let plan = settings::plan(vec![listener("in", 7000, "out"), echo("out")]);
        let (worker, arrivals) = start(&kit, &plan);
        let line = arrivals[0].connect();
        kit.quiet().await;
        assert_eq!(worker.send(Control::StopListening).await, Ok(1));
        kit.quiet().await;
        assert!(arrivals[0].is_dropped());
        line.offer(b"alive");
        kit.quiet().await;
        assert_eq!(line.take(), b"alive");
        let all = Control::FinishLines(FinishReason::Drain);
        assert_eq!(worker.send(all).await, Ok(1));
        kit.assert_empty().await;
        assert!(line.is_dropped());
    });
}

#[test]
fn tester_lines_start_with_the_service_and_not_with_a_reload() {
    run(async |kit| {
        let mut tester = settings::tester();
        (tester.lines, tester.chunk_count) = (3, 8);
        let plan = settings::plan(vec![
            settings::node("in", NodeSettings::TesterClient(tester.clone()), Some("out")),
            settings::node("out", NodeSettings::TesterServer(tester), None),
        ]);
        let (worker, _) = start(&kit, &settings::plan(Vec::new()));
        kit.board.testers.expect(3);
        let started = Install { start_testers: true, ..install(plan.clone()) };
        worker.send(started).await.unwrap();
        assert!(kit.board.testers.all_reported().await);
        worker.send(install(plan)).await.unwrap();
        kit.pass(SECOND).await;
        assert_eq!(kit.board.testers.score(), (3, 0));
        kit.assert_empty().await;
    });
}

/// Panics.
#[derive(Message)]
#[rtype(result = "()")]
struct Explode;

impl Handler<Explode> for WorkerActor {
    type Result = ();

    fn handle(&mut self, _: Explode, _: &mut Self::Context) {
        panic!("as the test wants");
    }
}

#[test]
fn a_worker_actor_that_panicked_is_started_again_with_all_that_it_had() {
    run(async |kit| {
        let plan = settings::plan(vec![listener("in", 7000, "out"), echo("out")]);
        let (worker, arrivals) = start(&kit, &plan);
        let client = arrivals[0].connect();
        kit.quiet().await;
        assert!(worker.send(Explode).await.is_err());
        kit.pass(SECOND).await;
        assert_eq!(worker.send(Control::CountLines).await, Ok(1));
        client.offer(b"still here");
        kit.quiet().await;
        assert_eq!(client.take(), b"still here");
        assert_eq!(worker.send(Control::StopListening).await, Ok(1));
    });
}

#[test]
fn mux_m08_a_lease_that_found_no_worker_actor_comes_when_it_was_started_again() {
    run(async |kit| {
        let (worker, _) = start(&kit, &settings::plan(Vec::new()));
        let mut parent = Lessee::enter(&kit).await;
        assert!(worker.send(Explode).await.is_err());
        kit.worker.lease_cids(&parent.view, 5000);
        kit.reported().await;
        assert_eq!(parent.view.cids_leased(), 2048, "the answer was sent, to nobody");
        assert!(parent.heard.try_recv().is_err());
        kit.pass(SECOND).await;
        assert_eq!(parent.heard.try_recv(), Ok(parent.lease(1025, 2048)));
        kit.worker.lease_cids(&parent.view, 5000);
        assert_eq!(parent.heard.recv().await, Some(parent.lease(2049, 3072)));
    });
}

#[test]
fn a_tester_line_whose_server_is_silent_ends_at_its_timeout() {
    run(async |kit| {
        let tester = settings::tester();
        let plan = settings::plan(vec![
            settings::node("in", NodeSettings::TesterClient(tester.clone()), Some("out")),
            connector("out", 80),
        ]);
        let (worker, _) = start(&kit, &settings::plan(Vec::new()));
        worker.send(Install { start_testers: true, ..install(plan) }).await.unwrap();
        kit.pass(tester.timeout.duration() + 2 * SECOND).await;
        assert_eq!(kit.worker.board.testers.score(), (0, 1));
        assert_eq!(worker.send(Control::CountLines).await, Ok(0));
    });
}

#[test]
fn mux_a_reload_keeps_the_parents_of_what_did_not_change_and_retires_the_others() {
    run(async |kit| {
        let mode = |per_worker| crate::settings::MuxMode::FixedConnectionsCount { per_worker };
        let plan = |per_worker, to| {
            let mux = crate::settings::MuxClientSettings::new(mode(per_worker));
            let mux = settings::node("mux", NodeSettings::MuxClient(mux), Some("out"));
            settings::plan(vec![listener("in", 7000, "mux"), mux, connector("out", to)])
        };
        let (worker, arrivals) = start(&kit, &plan(1, 80));
        let mut clients = vec![arrivals[0].connect()];
        kit.quiet().await;
        assert_eq!(kit.dials.len(), 1);
        // The same, another connector behind the same MuxClient, and another MuxClient.
        for (at, (per_worker, to, dials)) in
            [(1, 80, 1), (1, 81, 2), (2, 81, 4)].into_iter().enumerate()
        {
            assert!(worker.send(install(plan(per_worker, to))).await.is_ok());
            kit.quiet().await;
            assert!(!kit.dials.peer(0).is_dropped(), "its children live");
            clients.push(arrivals[0].connect());
            kit.quiet().await;
            assert_eq!(kit.dials.len(), dials, "{at}");
        }
        let open = r#"lineway_mux_parents_open{node="mux"}"#;
        assert!((kit.metric(open) - 4.0).abs() < 0.5);
        for (at, parent) in [(1, 0), (2, 1)] {
            clients[0].reset();
            clients[at].reset();
            kit.quiet().await;
            assert!(kit.dials.peer(parent).is_dropped(), "its last child is gone");
        }
        clients[3].reset();
        kit.quiet().await;
        assert!(!kit.dials.peer(2).is_dropped(), "the plan has it");
        assert!(worker.send(install(settings::plan(Vec::new()))).await.is_ok());
        kit.pass(SECOND * 3).await;
        kit.assert_empty().await;
    });
}
