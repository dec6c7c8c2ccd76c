//! RouterSocket and DealerSocket as nodes of the service.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::common::Service;
use crate::kit::{Model, ms};
use crate::raw::{
    DATA, DEALER, ERROR_REPLY, Peer, REPLY, REQUEST, ROUTER, flow_state, listen, record, weight,
};

/// Where a socket of the service listens.
#[track_caller]
pub(crate) fn at(service: &Service, node: &str) -> SocketAddr {
    service.at(node)
}

/// A RouterSocket on a free port; `more` are further settings, each with a comma.
pub(crate) fn router_node(name: &str, next: &str, more: &str) -> String {
    format!(
        "[[node]]\nname = \"{name}\"\ntype = \"RouterSocket\"\nnext = \"{next}\"\n\
         settings = {{ {more} bind = [\"tcp://127.0.0.1:0\"] }}\n"
    )
}

/// A DealerSocket that connects to these endpoints.
fn dealer_node(name: &str, connect: &[&str], more: &str) -> String {
    let connect: Vec<_> = connect.iter().map(|endpoint| format!("\"{endpoint}\"")).collect();
    let connect = connect.join(", ");
    format!(
        "[[node]]\nname = \"{name}\"\ntype = \"DealerSocket\"\n\
         settings = {{ {more} connect = [{connect}] }}\n"
    )
}

/// A worker of the test's own.
struct Worker {
    id: char,
    peer: Peer,
    listener: std::net::TcpListener,
}

impl Worker {
    fn answers(&mut self) -> Vec<u8> {
        let asked = self.peer.record();
        assert_eq!(asked.kind, REQUEST);
        let text = asked.single().to_vec();
        self.peer.reply(asked.sequence.unwrap(), &[&text, b"by", &[self.id as u8]]);
        text
    }
}

/// A service with these workers, who are known with their weights.
fn broker<const N: usize>(
    ids: [(char, u32); N],
    clients: &str,
    workers: &str,
) -> (Service, [Worker; N]) {
    let listening = ids.map(|(id, weight)| (id, weight, listen()));
    let endpoints: Vec<_> = listening.iter().map(|(_, _, (_, at))| at.as_str()).collect();
    let service = Service::start(&format!(
        "{}{}",
        router_node("clients", "workers", clients),
        dealer_node("workers", &endpoints, workers)
    ));
    let workers = listening.map(|(id, value, (listener, _))| {
        let mut peer = Peer::accept(&listener, ROUTER, id.to_string().as_bytes());
        peer.send(&weight(value));
        Worker { id, peer, listener }
    });
    let sum = ids.iter().map(|(_, weight)| f64::from(*weight)).sum();
    service.until_metric("lineway_socket_peer_weights", &[("node", "workers")], sum);
    (service, workers)
}

#[track_caller]
fn errno(client: &mut Peer, sequence: u64) -> (i32, Vec<Vec<u8>>) {
    let mut error = client.record();
    assert_eq!((error.kind, error.sequence), (ERROR_REPLY, Some(sequence)), "{error:?}");
    let errno = error.parts.remove(0);
    (i32::from_be_bytes(errno.try_into().expect("four bytes")), error.parts)
}

/// A metric that is a whole number.
#[track_caller]
pub(crate) fn count(service: &Service, name: &str, labels: &[(&str, &str)]) -> u64 {
    let value = service.metric(name, labels);
    assert!(value >= 0.0 && value.fract() == 0.0, "{name}: {value}");
    value as u64
}

/// One socket of `/api/sockets`.
#[track_caller]
fn shown(service: &Service, node: &str) -> Value {
    let mut all = service.json(&format!("/api/sockets?node={node}"));
    assert_eq!(all["total"], 1, "{all}");
    all["sockets"][0].take()
}

#[test]
fn broker_requests_go_to_workers_by_weight_and_answers_to_who_asked() {
    let weights = [('A', 100), ('B', 300), ('C', 50)];
    let (service, mut workers) = broker(weights, "", "");
    let to = at(&service, "clients");
    let mut clients = ["one", "two"].map(|id| Peer::connect(to, DEALER, id.as_bytes()));
    let mut model = Model::new(&weights.map(|(id, weight)| (id, i64::from(weight))));
    for number in 1..=27 {
        // Both count from 1: their sequences have nothing to do with each other.
        for (client, name) in clients.iter_mut().zip(["one", "two"]) {
            let text = format!("{name} {number}");
            client.request(number, &[text.as_bytes()]);
            let expected = model.next("");
            let worker = workers.iter_mut().find(|worker| worker.id == expected).unwrap();
            assert_eq!(worker.answers(), text.as_bytes());
            let reply = client.record();
            assert_eq!((reply.kind, reply.sequence), (REPLY, Some(number)));
            let by = [expected as u8];
            assert_eq!(reply.parts, [text.as_bytes(), b"by", &by]);
        }
    }
    // Answers in another order than the questions.
    for sequence in 100..103 {
        clients[0].request(sequence, &[b"slow"]);
    }
    let mut asked = Vec::new();
    for sequence in 100..103 {
        let expected = model.next("");
        let at = workers.iter().position(|worker| worker.id == expected).unwrap();
        asked.push((at, workers[at].peer.record().sequence.unwrap(), sequence));
    }
    for (at, theirs, ours) in asked.into_iter().rev() {
        workers[at].peer.reply(theirs, &[b""]);
        let reply = clients[0].record();
        assert_eq!((reply.sequence, reply.parts), (Some(ours), vec![vec![]]));
    }
    let labels = |node, kind, direction| [("node", node), ("kind", kind), ("direction", direction)];
    let records = "lineway_socket_records_total";
    for node in ["clients", "workers"] {
        assert_eq!(count(&service, records, &labels(node, "request", "upstream")), 57);
        assert_eq!(count(&service, records, &labels(node, "reply", "downstream")), 57);
    }
    let ok = [("node", "workers"), ("result", "ok")];
    assert_eq!(count(&service, "lineway_socket_completions_total", &ok), 57);

    let shown_workers = shown(&service, "workers");
    assert_eq!(
        (&shown_workers["type"], &shown_workers["kind"]),
        (&json!("DealerSocket"), &json!("DEALER"))
    );
    assert_eq!(shown_workers["peers_total"], 3);
    let mut peers: Vec<_> = shown_workers["peers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|peer| (peer["routing_id"].as_str().unwrap(), peer["weight"].as_u64().unwrap()))
        .collect();
    peers.sort_unstable();
    assert_eq!(peers, [("A", 100), ("B", 300), ("C", 50)]);
    let clients = shown(&service, "clients");
    assert_eq!(clients["bind"], json!([format!("tcp://{to}")]));
    assert_eq!((&clients["flow"], &clients["replies_owed"]), (&Value::Null, &json!(0)));
    assert_eq!(clients["answers"]["in_flight"], 0);
    assert_eq!(clients["records"]["in"]["request"], 57);
}

#[test]
fn broker_b1_clients_are_asked_to_pause_while_no_worker_takes_a_request() {
    let (service, mut workers) = broker([('A', 100), ('B', 100)], "", "");
    let mut client = Peer::connect(at(&service, "clients"), DEALER, b"one");
    let mut other = Peer::connect(at(&service, "clients"), DEALER, b"two");
    for worker in &mut workers {
        worker.peer.send(&flow_state(true, 1));
    }
    service.until_metric("lineway_socket_peers_paused", &[("node", "workers")], 2.0);
    client.request(1, &[b"held"]);
    for peer in [&mut client, &mut other] {
        assert_eq!(peer.control(), flow_state(true, 1)[8..]);
    }
    service.until_metric("lineway_broker_held_requests", &[("node", "clients")], 1.0);
    assert_eq!(shown(&service, "clients")["flow"], json!({ "state": "paused", "epoch": 1 }));
    // Who comes meanwhile is told.
    let mut late = Peer::connect(at(&service, "clients"), DEALER, b"three");
    assert_eq!(late.control(), flow_state(true, 1)[8..]);
    // And who does not care is held as well.
    other.request(1, &[b"held too"]);
    service.until_metric("lineway_broker_held_requests", &[("node", "clients")], 2.0);
    workers[0].peer.send(&flow_state(false, 2));
    let mut texts = [workers[0].answers(), workers[0].answers()];
    texts.sort();
    assert_eq!(texts, [b"held".to_vec(), b"held too".to_vec()]);
    for peer in [&mut client, &mut other] {
        assert_eq!(peer.record().parts[0][..4], *b"held");
    }
    // RUNNING came with it or comes behind it.
    assert_eq!(late.control(), flow_state(false, 2)[8..]);
    for peer in [&mut client, &mut other] {
        if peer.controls.is_empty() {
            assert_eq!(peer.control(), flow_state(false, 2)[8..]);
        } else {
            assert_eq!(peer.controls[0].body, flow_state(false, 2)[8..]);
        }
    }
    service.until_metric("lineway_broker_held_requests", &[("node", "clients")], 0.0);
    assert_eq!(count(&service, "lineway_broker_pauses_total", &[("node", "clients")]), 1);
    let paused = [("node", "workers")];
    assert_eq!(count(&service, "lineway_socket_peers_paused", &paused), 1);
}

#[test]
fn broker_b5_clients_get_the_errno_of_what_went_wrong() {
    let (service, mut workers) =
        broker([('A', 100)], "", "request-timeout-ms = 400, reconnect-interval-ms = 10,");
    let mut client = Peer::connect(at(&service, "clients"), DEALER, b"one");
    // An error of the worker passes, with its parts.
    for (sequence, code) in [(1, 2_i32), (2, 16), (3, 156_384_712 + 51), (4, 7777)] {
        client.request(sequence, &[b"?"]);
        let asked = workers[0].peer.record();
        let parts: [&[u8]; 3] = [&code.to_be_bytes(), b"why", b""];
        workers[0].peer.send(&record(ERROR_REPLY, asked.sequence, &parts));
        assert_eq!(errno(&mut client, sequence), (code, vec![b"why".to_vec(), vec![]]));
    }
    // One that is none: EPROTO.
    client.request(5, &[b"?"]);
    let asked = workers[0].peer.record();
    workers[0].peer.send(&record(ERROR_REPLY, asked.sequence, &[&[0; 4]]));
    assert_eq!(errno(&mut client, 5), (71, vec![]));
    // None in time: ETIMEDOUT. What comes later is late.
    client.request(6, &[b"?"]);
    let asked = workers[0].peer.record();
    assert_eq!(errno(&mut client, 6), (110, vec![]));
    workers[0].peer.reply(asked.sequence.unwrap(), &[b"late"]);
    // The worker ends with the request: EHOSTUNREACH.
    client.request(7, &[b"?"]);
    workers[0].peer.record();
    let Worker { id, peer, listener } = workers.into_iter().next().unwrap();
    drop(peer);
    assert_eq!(errno(&mut client, 7), (113, vec![]));
    let peer = Peer::accept(&listener, ROUTER, b"A");
    let mut worker = Worker { id, peer, listener };
    client.request(8, &[b"as before"]);
    assert_eq!(worker.answers(), b"as before");
    assert_eq!(client.record().parts[0], b"as before");
    // No worker at all within the time: ETIMEDOUT as well (B-4).
    worker.peer.send(&weight(0));
    service.until_metric("lineway_socket_peer_weights", &[("node", "workers")], 0.0);
    client.request(9, &[b"nobody"]);
    assert_eq!(errno(&mut client, 9), (110, vec![]));
    worker.peer.silent(ms(20));
    let errors = |result| {
        let labels = [("node", "clients"), ("result", result)];
        count(&service, "lineway_broker_error_replies_total", &labels)
    };
    assert_eq!([errors("timed_out"), errors("not_connected"), errors("busy")], [2, 1, 1]);
    assert_eq!(errors("protocol_error"), 1);
    let late = count(&service, "lineway_socket_replies_late_total", &[("node", "workers")]);
    assert_eq!(late, 1);
}

#[test]
fn broker_data_goes_one_way_and_with_an_envelope_both() {
    let (service, mut workers) = broker([('A', 100)], "", "");
    let mut client = Peer::connect(at(&service, "clients"), DEALER, b"one");
    client.data(&[b"to a", b"worker"]);
    assert_eq!(workers[0].peer.record().parts, [b"to a".to_vec(), b"worker".to_vec()]);
    // The other way there is none, and it is in nobody's way (B-3).
    workers[0].peer.data(&[b"one", b"back"]);
    client.request(1, &[b"question"]);
    workers[0].answers();
    assert_eq!(client.record().parts[0], b"question");
    let dropped = |node, reason| {
        count(&service, "lineway_socket_dropped_total", &[("node", node), ("reason", reason)])
    };
    let both = || dropped("workers", "no_route") + dropped("clients", "no_route");
    assert_eq!(both(), 1);

    let (service, mut workers) = broker([('A', 100)], "data-envelope = true,", "");
    let mut clients =
        [&b"one"[..], b"\x00\xff"].map(|id| Peer::connect(at(&service, "clients"), DEALER, id));
    for (client, id) in clients.iter_mut().zip([&b"one"[..], b"\x00\xff"]) {
        client.data(&[b"to a", b"", b"worker"]);
        let got = workers[0].peer.record();
        assert_eq!(
            (got.kind, got.parts),
            (DATA, vec![id.to_vec(), b"to a".to_vec(), vec![], b"worker".to_vec()])
        );
        workers[0].peer.data(&[id, b"back", b""]);
        let got = client.record();
        assert_eq!((got.kind, got.parts), (DATA, vec![b"back".to_vec(), vec![]]));
    }
    // For nobody, and for nothing.
    workers[0].peer.data(&[b"nobody", b"back"]);
    workers[0].peer.data(&[b"one"]);
    workers[0].peer.data(&[b"one", b"still there"]);
    assert_eq!(clients[0].record().single(), b"still there");
    let all = count(&service, "lineway_socket_dropped_total", &[]);
    assert_eq!(all, 2);
    assert_eq!(count(&service, "lineway_socket_dropped_total", &[("reason", "no_route")]), 1);
}

#[test]
fn service_z01_a_second_client_with_the_same_id_is_counted() {
    let (service, mut workers) = broker([('A', 100)], "", "");
    let mut first = Peer::connect(at(&service, "clients"), DEALER, b"one");
    let mut second = Peer::connect(at(&service, "clients"), DEALER, b"one");
    second.try_send(&record(REQUEST, Some(1), &[b"two"]));
    second.end();
    first.request(1, &[b"one"]);
    assert_eq!(workers[0].answers(), b"one");
    assert_eq!(first.record().parts[0], b"one");
    let labels = [("node", "clients"), ("reason", "duplicate_id")];
    assert_eq!(count(&service, "lineway_socket_peers_rejected_total", &labels), 1);
}

#[test]
fn service_a_router_socket_without_a_listener_dials_its_clients() {
    let (listener, endpoint) = listen();
    let service = Service::start(&format!(
        "[[node]]\nname = \"clients\"\ntype = \"RouterSocket\"\nnext = \"echo\"\n\
         settings = {{ connect = [\"{endpoint}\"], routing-id = \"hex:00ff\", probe = true }}\n{}",
        crate::common::end("echo", "EchoServer")
    ));
    let mut client = Peer::of(crate::raw::accept(&listener));
    client.send(&crate::raw::hello(DEALER, b"D1"));
    assert_eq!(client.expect_hello(), (ROUTER, vec![0, 0xff]));
    assert_eq!(client.expect_ready(), (1, 0));
    client.send(&crate::raw::Ready::new(DEALER, b"D1").bytes());
    // The probe, and then what is asked.
    assert_eq!(client.record().single(), b"");
    client.request(3, &[b"ping", b"", b"pong"]);
    let reply = client.record();
    assert_eq!((reply.kind, reply.sequence), (REPLY, Some(3)));
    assert_eq!(reply.parts, [b"ping".to_vec(), vec![], b"pong".to_vec()]);
    client.data(&[b"a", b"b"]);
    let data = client.record();
    assert_eq!((data.kind, data.parts), (DATA, vec![b"a".to_vec(), b"b".to_vec()]));
    assert_eq!(shown(&service, "clients")["routing_id"], "hex:00ff");
}
