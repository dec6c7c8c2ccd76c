//! Message sockets as nodes of the service: start, reload, readiness, drain.

mod common;
#[allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]
#[path = "zmp/raw.rs"]
mod raw;

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use common::{PATIENCE, Service, Signal, config, end, run_to_end, text, until};
use raw::{DATA, DEALER, ERROR_REPLY, Peer, REPLY, REQUEST, ROUTER, listen};
use serde_json::Value;

const ESHUTDOWN: u32 = 108;

fn router(name: &str, next: &str, more: &str) -> String {
    format!(
        "[[node]]\nname = \"{name}\"\ntype = \"RouterSocket\"\nnext = \"{next}\"\n\
         settings = {{ bind = [\"tcp://127.0.0.1:*\"]{more} }}\n"
    )
}

fn dealer(name: &str, connect: &str, more: &str) -> String {
    format!(
        "[[node]]\nname = \"{name}\"\ntype = \"DealerSocket\"\n\
         settings = {{ connect = [\"{connect}\"]{more} }}\n"
    )
}

fn echo() -> String {
    router("in", "echo", "") + &end("echo", "EchoServer")
}

fn client(at: SocketAddr, id: &str) -> Peer {
    Peer::connect(at, DEALER, id.as_bytes())
}

/// Asks, and gets the answer of an echo.
fn asks(client: &mut Peer, sequence: u64) {
    client.request(sequence, &[b"ping", b""]);
    let answer = client.record();
    assert_eq!((answer.kind, answer.sequence), (REPLY, Some(sequence)));
    assert_eq!(answer.parts, [&b"ping"[..], b""]);
}

fn socket(service: &Service, node: &str) -> Value {
    let all = service.json(&format!("/api/sockets?node={node}"));
    all["sockets"].as_array().unwrap().iter().find(|s| s["state"] == "open").unwrap().clone()
}

#[test]
fn socket_b6_an_echo_answers_requests_and_sends_data_back() {
    let service = Service::start(&echo());
    let mut one = client(service.at("in"), "D1");
    asks(&mut one, 7);
    one.data(&[b"a", b"b"]);
    let back = one.record();
    assert_eq!((back.kind, back.parts), (DATA, vec![b"a".to_vec(), b"b".to_vec()]));

    let shown = socket(&service, "in");
    assert_eq!((text(&shown, "type"), text(&shown, "kind")), ("RouterSocket", "ROUTER"));
    assert_eq!(shown["bind"][0], format!("tcp://{}", service.at("in")));
    assert_eq!((&shown["ready"], &shown["peers_total"]), (&true.into(), &1.into()));
    let peer = &shown["peers"][0];
    assert_eq!((text(peer, "routing_id"), text(peer, "state")), ("D1", "ready"));
    assert_eq!((&peer["records"]["in"], &peer["records"]["out"]), (&2.into(), &2.into()));
    assert_eq!(service.json("/api/sockets?limit=0")["sockets"][0]["peers"], Value::Array(vec![]));
    let nodes = service.json("/api/nodes");
    assert_eq!(nodes["nodes"][0]["socket"]["peers"], 1);
    service.until_metric("lineway_socket_peers", &[("node", "in")], 1.0);
    let requests = [("node", "in"), ("kind", "request"), ("direction", "upstream")];
    service.until_metric("lineway_socket_records_total", &requests, 1.0);
    drop(one);
    service.until_metric("lineway_socket_peers", &[("node", "in")], 0.0);
}

#[test]
fn socket_broker_a_request_goes_to_a_worker_and_its_reply_back() {
    let (listener, endpoint) = listen();
    let service =
        Service::start(&(router("in", "workers", "") + &dealer("workers", &endpoint, "")));
    let mut worker = Peer::accept(&listener, ROUTER, b"W1");
    let mut one = client(service.at("in"), "D1");
    one.request(9, &[b"work"]);
    let asked = worker.record();
    assert_eq!((asked.kind, asked.single()), (REQUEST, &b"work"[..]));
    service.until_metric("lineway_socket_requests_pending", &[("node", "workers")], 1.0);
    // The two live on different workers where there are several.
    let [a, b] = ["in", "workers"].map(|node| socket(&service, node)["worker"].clone());
    assert_eq!(a == b, std::thread::available_parallelism().unwrap().get() == 1);
    worker.reply(asked.sequence.unwrap(), &[b"done", b"well"]);
    let answer = one.record();
    assert_eq!((answer.kind, answer.sequence), (REPLY, Some(9)));
    assert_eq!(answer.parts, [&b"done"[..], b"well"]);
    let ok = [("node", "workers"), ("result", "ok")];
    service.until_metric("lineway_socket_completions_total", &ok, 1.0);
}

#[test]
fn socket_start_fails_with_node_and_setting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = |bind: &str, connect: &str| {
        let settings = format!("{{ bind = [{bind}], connect = [{connect}] }}");
        let node = format!(
            "[[node]]\nname = \"in\"\ntype = \"RouterSocket\"\nnext = \"echo\"\nsettings = {settings}\n"
        );
        let good = router("good", "echo", "");
        config(&(good + &node + &end("echo", "EchoServer")))
    };
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none/socket");
    for (bind, connect, setting, why) in [
        (format!("\"tcp://{}\"", taken.local_addr().unwrap()), "", "bind", "in use"),
        (format!("\"ipc://{}\"", missing.display()), "", "bind", "folder is not there"),
        ("\"tcp://192.0.2.1:5999\"".to_owned(), "", "bind", "not one of this machine"),
        (String::new(), "\"tcp://nobody.invalid:5999\"", "connect", "does not resolve"),
    ] {
        let (code, said) = run_to_end(&at(&bind, connect));
        assert_eq!(code, Some(1), "{said}");
        let names = format!("node \"in\", settings.{setting}: ");
        assert!(said.contains(&names) && said.contains(why), "{why} in {said}");
    }
}

#[test]
fn socket_reload_keeps_what_did_not_change() {
    let stays = echo();
    let changes = |weight: u32| router("other", "echo", &format!(", weight = {weight}"));
    let gone = router("gone", "echo", "");
    let service = Service::start(&(stays.clone() + &changes(1) + &gone));
    let mut kept = client(service.at("in"), "D1");
    let mut moved = client(service.at("other"), "D2");
    asks(&mut kept, 1);
    asks(&mut moved, 1);
    let before = service.at("other");

    service.reload_and_wait(&(stays + &changes(2)));
    asks(&mut kept, 2);
    assert_eq!(service.all_at("in").len(), 1, "it was not bound again");
    // A changed one closes its peers and is back at the same address, which was never free.
    assert_eq!(moved.end(), [0_u8; 0]);
    let mut again = client(before, "D2");
    asks(&mut again, 1);
    assert_eq!(again.controls[0].body, [&b"WEIGHT"[..], &2_u32.to_be_bytes()].concat());
    assert_eq!(service.at("other"), before);
    let opened = [("node", "other")];
    service.until_metric("lineway_socket_peers_opened_total", &opened, 2.0);
    until("the removed one is gone", || TcpStream::connect(service.at("gone")).is_err());
    until("only two are shown", || service.json("/api/sockets")["total"] == 2);
}

#[test]
fn socket_reload_without_an_address_changes_nothing() {
    let service = Service::start(&echo());
    let mut kept = client(service.at("in"), "D1");
    asks(&mut kept, 1);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let wrong = router("more", "echo", "").replace("127.0.0.1:*", &format!("127.0.0.1:{port}"));
    service.reload(&(router("in", "echo", ", weight = 5") + &wrong + &end("echo", "EchoServer")));
    service.until_metric("lineway_reloads_total", &[("result", "failed")], 1.0);
    asks(&mut kept, 2);
    asks(&mut client(service.at("in"), "D2"), 1);
}

#[test]
fn socket_reload_changes_workers_once_requests_are_answered() {
    let (first, first_at) = listen();
    let (second, second_at) = listen();
    let nodes = |at: &str| router("in", "workers", "") + &dealer("workers", at, "");
    let service = Service::start(&nodes(&first_at));
    let mut old = Peer::accept(&first, ROUTER, b"W1");
    let mut one = client(service.at("in"), "D1");
    one.request(1, &[b"old"]);
    let asked = old.record();
    service.reload_and_wait(&nodes(&second_at));
    // It is asked to pause: the old worker gets nothing more.
    let paused = one.control();
    assert_eq!((&paused[..9], paused[10]), (&b"FLOWSTATE"[..], 1), "{paused:?}");
    one.request(2, &[b"new"]);
    old.reply(asked.sequence.unwrap(), &[b"from the old"]);
    let mut new = Peer::accept(&second, ROUTER, b"W2");
    let asked = new.record();
    assert_eq!(asked.single(), b"new");
    new.reply(asked.sequence.unwrap(), &[b"from the new"]);
    // The client's connection has seen nothing of it.
    let answers = [one.record(), one.record()];
    assert_eq!(answers.each_ref().map(|a| a.sequence), [Some(1), Some(2)]);
    assert_eq!(answers[1].single(), b"from the new");
    // It was asked to go on.
    let states = one.controls.iter().filter(|frame| frame.body.starts_with(b"FLOWSTATE"));
    let states: Vec<_> = states.map(|frame| frame.body[10]).collect();
    assert_eq!(states.last(), Some(&0), "{states:?}");
}

#[test]
fn socket_stop_answers_what_was_asked_and_accepts_nobody() {
    let (listener, endpoint) = listen();
    let mut service =
        Service::start(&(router("in", "workers", "") + &dealer("workers", &endpoint, "")));
    let mut worker = Peer::accept(&listener, ROUTER, b"W1");
    let mut one = client(service.at("in"), "D1");
    one.request(1, &[b"last"]);
    let asked = worker.record();
    service.signal(Signal::TERM);
    until("nobody is accepted", || TcpStream::connect(service.at("in")).is_err());
    worker.reply(asked.sequence.unwrap(), &[b"words"]);
    assert_eq!(one.record().single(), b"words");
    assert_eq!(one.end(), [0_u8; 0]);
    assert_eq!(service.wait(PATIENCE).code(), Some(0));
}

#[test]
fn socket_stop_ends_what_nobody_answers() {
    let (listener, endpoint) = listen();
    let nodes = router("in", "workers", "") + &dealer("workers", &endpoint, "");
    let mut service = Service::start(&format!("[service]\ndrain-timeout-ms = 300\n{nodes}"));
    let mut worker = Peer::accept(&listener, ROUTER, b"W1");
    let mut one = client(service.at("in"), "D1");
    one.request(1, &[b"last"]);
    worker.record();
    let begun = Instant::now();
    service.signal(Signal::TERM);
    let answer = one.record();
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!((answer.kind, answer.single()), (ERROR_REPLY, &ESHUTDOWN.to_be_bytes()[..]));
    assert_eq!(service.wait(PATIENCE).code(), Some(0));
}

#[test]
fn case_m22_a_dealer_has_time_to_find_its_first_peer() {
    let (listener, endpoint) = listen();
    drop(listener);
    let service =
        Service::start(&(router("in", "workers", "") + &dealer("workers", &endpoint, "")));
    assert_eq!(service.get("/readyz").status, 200);
    assert_eq!(socket(&service, "workers")["ready"], false);
}
