use std::sync::Arc;
use std::time::Duration;

use lineway_wire::zmp::{Record, SocketKind};

use crate::metrics::ActorKind;
use crate::registry::SocketView;
use crate::service::Service;
use crate::settings::{
    DealerSocketSettings, MessageSettings, NodeSettings, Plan, RouterSocketSettings,
};
use crate::socket::{Dealer, Router, SocketOptions, random_routing_id};
use crate::testkit::{Kit, run, settings};

fn common(bind: &[&str], connect: &[&str]) -> MessageSettings {
    let all = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    MessageSettings { bind: all(bind), connect: all(connect), ..MessageSettings::default() }
}

fn router(bind: &str) -> NodeSettings {
    let common = common(&[bind], &[]);
    NodeSettings::RouterSocket(RouterSocketSettings { common, ..RouterSocketSettings::default() })
}

fn echo(bind: &str) -> Plan {
    settings::plan(vec![
        settings::node("in", router(bind), Some("echo")),
        settings::node("echo", NodeSettings::EchoServer, None),
    ])
}

async fn start(kit: &Kit, plan: Plan) -> Service {
    let plan = Arc::new(plan);
    let mut service = Service::new(kit.board.clone(), vec![kit.actor.clone()], Arc::clone(&plan));
    let bindings = service.bind(&plan, &[]).await.unwrap();
    service.install(plan, bindings, true).await;
    service
}

fn client(kit: &Kit) -> Dealer {
    let options = SocketOptions::new(SocketKind::Dealer, random_routing_id());
    Dealer::start(options, &kit.worker.socket_env())
}

async fn asks(client: &Dealer) {
    let answer = client.request(Record::new("ping"), None).await.unwrap();
    assert_eq!(answer.parts(), ["ping"]);
}

fn views(kit: &Kit, node: &str) -> Vec<Arc<SocketView>> {
    let all = kit.board.registry.sockets().snapshot();
    all.into_iter().filter(|view| *view.node == *node).collect()
}

fn reasons(kit: &Kit) -> Vec<String> {
    let not_ready = kit.board.health.ready(tokio::time::Instant::now().into_std());
    let not_ready = not_ready.err().unwrap_or_default().into_iter();
    not_ready.filter_map(|not| Some(format!("{}: {}", not.node?, not.reason))).collect()
}

#[test]
fn a_socket_that_is_gone_is_started_again_at_the_same_endpoint() {
    run(async |kit| {
        let _service = start(&kit, echo("inproc://in")).await;
        let client = client(&kit);
        client.connect("inproc://in").await.unwrap();
        asks(&client).await;
        assert_eq!(reasons(&kit), [""; 0]);

        let gone = views(&kit, "in").remove(0);
        gone.shared().close(tokio::time::Instant::now().into_std());
        kit.quiet().await;
        assert_eq!(reasons(&kit), ["in: it is being started again"]);
        kit.pass(Duration::from_secs(2)).await;
        assert_eq!(reasons(&kit), [""; 0]);
        let [again] = &views(&kit, "in")[..] else { panic!("{:?}", views(&kit, "in")) };
        assert_ne!(again.number, gone.number);
        assert_eq!(kit.board.metrics.actors().kind(ActorKind::RouterSocket).restarts(), 1);
        asks(&client).await;
    });
}

#[test]
fn case_m22_a_dealer_without_a_worker_for_30_s_is_not_ready() {
    run(async |kit| {
        let common = common(&["inproc://workers"], &[]);
        let dealer = NodeSettings::DealerSocket(DealerSocketSettings { common });
        let plan = settings::plan(vec![
            settings::node("in", router("inproc://in"), Some("workers")),
            settings::node("workers", dealer, None),
        ]);
        let _service = start(&kit, plan).await;
        kit.pass(Duration::from_secs(29)).await;
        assert_eq!(reasons(&kit), [""; 0]);
        kit.pass(Duration::from_secs(2)).await;
        assert_eq!(reasons(&kit), ["workers: no peer was ready for 30 s"]);
        let options = SocketOptions::new(SocketKind::Router, random_routing_id());
        let worker = Router::start(options, &kit.worker.socket_env());
        worker.connect("inproc://workers").await.unwrap();
        kit.pass(Duration::from_secs(1)).await;
        assert_eq!(reasons(&kit), [""; 0]);
    });
}

#[test]
fn a_reload_that_moves_an_endpoint_to_another_node_binds_it_there() {
    run(async |kit| {
        let mut service = start(&kit, echo("inproc://in")).await;
        let client = client(&kit);
        client.connect("inproc://in").await.unwrap();
        asks(&client).await;
        let mut moved = echo("inproc://in");
        moved.nodes[0].name = "other".into();
        let changes = service.reload(Arc::new(moved)).await.unwrap();
        assert_eq!(changes.to_string(), "added other; removed in");
        kit.pass(Duration::from_secs(2)).await;
        assert_eq!((views(&kit, "in").len(), views(&kit, "other").len()), (0, 1));
        asks(&client).await;
        assert_eq!(service.drain(Duration::from_secs(1)).await, 0);
        assert_eq!(views(&kit, "other").len(), 0);
    });
}

#[test]
fn unchanged_sockets_are_left_alone() {
    run(async |kit| {
        let mut service = start(&kit, echo("inproc://in")).await;
        let before = views(&kit, "in")[0].number;
        let client = client(&kit);
        client.connect("inproc://in").await.unwrap();
        asks(&client).await;
        let mut plan = echo("inproc://in");
        plan.nodes.push(settings::node("more", router("inproc://more"), Some("echo")));
        service.reload(Arc::new(plan)).await.unwrap();
        asks(&client).await;
        assert_eq!(views(&kit, "in")[0].number, before);
        assert_eq!(views(&kit, "in")[0].now().counters.peers_opened, 1);
    });
}
