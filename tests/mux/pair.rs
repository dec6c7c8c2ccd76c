//! Client and server of a mux together, in one process and in two.

use std::hash::{DefaultHasher, Hasher as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::common::peers::{
    Reserved, connect, echo, echoed, ended, finish, read, read_all, send, serve, serve_once,
};
use crate::common::{Service, config, connector, end, listener, until};
use crate::{
    ONE_WORKER, client_listener, client_to, closed, counter, fisher, fisher_server, fixed,
    many_descriptors, mux_client, mux_server, no_child_left, no_line_left_but, parents, pattern,
    server_to, timer,
};

/// Both ends in one process, without a socket between them.
fn one_process(backend: SocketAddr) -> Service {
    let nodes = client_listener()
        + &mux_client("demux", &counter(10_000), "")
        + &mux_server("out", "")
        + &connector("out", backend, "");
    Service::start(&(ONE_WORKER.to_owned() + &nodes))
}

/// A front and a back with fishers between, three candidates for each parent.
fn fished(backend: SocketAddr) -> [Service; 2] {
    let nodes = listener("in", "proof", "")
        + &fisher_server("proof", "demux")
        + &mux_server("out", "")
        + &connector("out", backend, "");
    let back = Service::start(&(ONE_WORKER.to_owned() + &nodes));
    let nodes = client_listener()
        + &mux_client("race", &counter(10_000), "")
        + &fisher("race", "out", 3)
        + &connector("out", back.at("in"), "");
    [Service::start(&(ONE_WORKER.to_owned() + &nodes)), back]
}

/// The ways through a mux between two Lineways, the front first; how many lines stand besides the
/// parents when no child is left.
fn ways(backend: SocketAddr) -> Vec<(Vec<Service>, f64)> {
    let back = server_to(backend, "");
    let front = client_to(back.at("in"), &counter(10_000), "");
    vec![
        (vec![front, back], 0.0),
        (fished(backend).into(), 1.0),
        (vec![one_process(backend)], -1.0),
    ]
}

/// Nothing of the children is left anywhere.
fn all_gone(services: &[Service], others: f64) {
    for (at, service) in services.iter().enumerate() {
        // The candidate that won is part of the front's parent.
        no_line_left_but(service, if at == 0 { others } else { 0.0 });
    }
}

#[test]
fn the_testers_pass_in_all_modes() {
    let modes = [counter(100), fixed(2), timer(30_000)];
    let run = |workers: u64, mode: &str| {
        let nodes = format!(
            "[service]\nworkers = {workers}\n[[node]]\nname = \"tc\"\ntype = \"TesterClient\"\n\
             next = \"fc\"\n{}{}{}{}{}",
            fisher("fc", "mux", 2),
            mux_client("demux", mode, ""),
            mux_server("fs", ""),
            fisher_server("fs", "ts"),
            end("ts", "TesterServer"),
        );
        let mut service = Service::spawn(&config(&nodes));
        let status = service.wait(Duration::from_secs(60));
        let over = service.log.wait("score", |event| event["lines_right"].is_u64());
        let right = over["lines_right"].as_u64();
        assert_eq!((status.code(), right), (Some(0), Some(workers)), "{workers} {mode}");
    };
    for mode in &modes {
        for workers in [1, 4] {
            run(workers, mode);
        }
    }
}

#[test]
fn case_t06_a_half_close_passes_a_mux() {
    for length in [8, 1 << 20] {
        let reply = Arc::new(pattern(6, length));
        let sent = Arc::clone(&reply);
        let backend = serve(move |mut stream| {
            if read_all(&mut stream) == b"req" {
                send(&mut stream, &*sent);
            }
        });
        for (services, others) in ways(backend) {
            // The first child waits for the answer on half-closes, the second one knows it.
            for _ in 0..2 {
                let mut client = connect(services[0].at("in"));
                send(&mut client, "req");
                finish(&client);
                assert!(read_all(&mut client) == **reply, "{length} bytes, then the end");
            }
            all_gone(&services, others);
            closed(&services[0], "mux", "finished", 2);
        }
    }
}

#[test]
fn case_t06_the_server_may_half_close_first_through_a_mux() {
    let (give, served) = std::sync::mpsc::channel();
    let backend = serve(move |mut stream| {
        send(&mut stream, "hello");
        finish(&stream);
        let _ = give.send(read_all(&mut stream));
    });
    let payload = pattern(60, 1 << 20);
    for (services, others) in ways(backend) {
        let mut client = connect(services[0].at("in"));
        assert_eq!(read_all(&mut client), b"hello");
        send(&mut client, &payload);
        finish(&client);
        assert!(served.recv().expect("it was served") == payload, "all of it, then the end");
        drop(client);
        all_gone(&services, others);
    }
}

#[test]
fn case_t06_without_agreement_the_reply_comes_all_the_same() {
    let reply = pattern(61, 1 << 20);
    let sent = reply.clone();
    let (backend, served) = serve_once(move |mut stream| {
        let request = read(&mut stream, 3);
        send(&mut stream, &sent);
        request
    });
    let back = server_to(backend, "half-close = false,");
    let front = client_to(back.at("in"), &counter(100), "");
    let mut client = connect(front.at("in"));
    send(&mut client, "req");
    finish(&client);
    assert!(read_all(&mut client) == reply);
    assert_eq!(served.join().expect("it was served"), b"req");
    drop(client);
    no_child_left(&front);
    no_child_left(&back);
    let agreed = front.metric("lineway_mux_half_close_agreements_total", &[]);
    assert!(agreed.total_cmp(&0.0).is_eq());
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[test]
fn case_t05_what_is_written_right_before_the_end_arrives() {
    let (give, got) = std::sync::mpsc::channel();
    let backend = serve(move |mut stream| {
        let bytes = read_all(&mut stream);
        let _ = give.send((bytes.len(), hash(&bytes)));
    });
    let payload = pattern(5, 1 << 20);
    let wanted = (payload.len(), hash(&payload));
    for (services, others) in ways(backend) {
        for round in 0..20 {
            let mut client = connect(services[0].at("in"));
            send(&mut client, &payload);
            // Closed at once; nothing came that was not read, so this is no reset.
            drop(client);
            let got = got.recv_timeout(crate::common::PATIENCE).expect("the end comes");
            assert_eq!(got, wanted, "round {round}");
        }
        all_gone(&services, others);
    }
}

#[test]
fn case_t05_what_the_server_writes_right_before_its_end_arrives() {
    let payload = Arc::new(pattern(50, 1 << 20));
    let sent = Arc::clone(&payload);
    let backend = serve(move |mut stream| send(&mut stream, &*sent));
    for (services, others) in ways(backend) {
        for round in 0..20 {
            let mut client = connect(services[0].at("in"));
            assert!(read_all(&mut client) == **payload, "round {round}");
        }
        all_gone(&services, others);
    }
}

#[test]
fn mux_m20_a_killed_server_process_ends_its_clients_behind_what_came() {
    let payload = Arc::new(pattern(20, 1 << 20));
    let sent = Arc::clone(&payload);
    let (go, gone) = (Arc::new(AtomicUsize::new(0)), 4);
    let count = Arc::clone(&go);
    let backend = serve(move |mut stream| {
        send(&mut stream, &*sent);
        count.fetch_add(1, Relaxed);
        // Never ends by itself.
        read_all(&mut stream);
    });
    let back = server_to(backend, "");
    let front = client_to(back.at("in"), &counter(100), "");
    let mut clients: Vec<_> = (0..gone).map(|_| connect(front.at("in"))).collect();
    let labels = [("node", "mux"), ("direction", "downstream")];
    let all = (gone * payload.len()) as f64;
    front.until_metric("lineway_mux_payload_bytes_total", &labels, all);
    drop(back);
    for client in &mut clients {
        assert!(read_all(client) == **payload, "all that came, then the end");
    }
    drop(clients);
    closed(&front, "mux", "parent-lost", 4);
    no_child_left(&front);
    parents(&front, "mux", 0);
}

#[test]
fn mux_m20_a_killed_client_process_leaves_what_came_to_the_backend() {
    let (give, got) = std::sync::mpsc::channel();
    let backend = serve(move |mut stream| {
        let _ = give.send(read_all(&mut stream));
    });
    let back = server_to(backend, "");
    let front = client_to(back.at("in"), &counter(100), "");
    let payload = pattern(21, 1 << 20);
    let mut client = connect(front.at("in"));
    send(&mut client, &payload);
    let labels = [("node", "demux"), ("direction", "upstream")];
    back.until_metric("lineway_mux_payload_bytes_total", &labels, payload.len() as f64);
    drop(front);
    assert!(got.recv().expect("the end comes") == payload);
    no_child_left(&back);
    parents(&back, "demux", 0);
}

#[test]
fn case_t12_thousands_of_refused_clients_leave_nothing_and_disturb_nobody() {
    let nobody = Reserved::port();
    // One mux with two ends: what fails and what is healthy are children of one server each.
    let nodes = listener("refused", "demux", "")
        + &mux_server("nobody", "")
        + &connector("nobody", nobody.address(), "")
        + &listener("healthy", "demux2", "")
        + &mux_server("echo", "").replace("demux", "demux2")
        + &end("echo", "EchoServer");
    let back = Service::start(&(ONE_WORKER.to_owned() + &nodes));
    let nodes = client_listener()
        + &mux_client("out", &counter(100_000), "")
        + &connector("out", back.at("refused"), "")
        + &listener("in2", "mux2", "")
        + &mux_client("out2", &counter(100), "").replace("\"mux\"", "\"mux2\"")
        + &connector("out2", back.at("healthy"), "");
    let front = Service::start(&(ONE_WORKER.to_owned() + &nodes));
    let mut healthy = connect(front.at("in2"));
    echoed(&mut healthy, "before");
    let mut hundred = || {
        let mut clients: Vec<_> = (0..100).map(|_| connect(front.at("in"))).collect();
        let begun = Instant::now();
        for client in &mut clients {
            // It may be refused before this.
            let _ = std::io::Write::write_all(client, b"abc");
        }
        clients.iter_mut().for_each(ended);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        let asked = Instant::now();
        echoed(&mut healthy, "hello");
        assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
    };
    (0..3).for_each(|_| hundred());
    let children = |count| {
        for (service, node) in [(&front, "mux"), (&back, "demux")] {
            let labels = [("node", node)];
            service.until_metric("lineway_mux_children_open", &labels, 0.0);
            service.until_metric("lineway_mux_children_opened_total", &labels, count);
        }
    };
    children(300.0);
    let before = [&front, &back].map(|service| (service.rss(), service.descriptors()));
    (3..20).for_each(|_| hundred());
    children(2000.0);
    for (service, (rss, descriptors)) in [&front, &back].into_iter().zip(before) {
        until("descriptors are those of before", || service.descriptors() <= descriptors);
        // The allocator gives back when it likes.
        assert!(service.rss() < rss + (16 << 20), "{rss} bytes, then {}", service.rss());
        assert!(service.metric("lineway_lines_open", &[]) <= 3.0);
    }
    closed(&back, "demux", "refused", 2000);
    closed(&front, "mux", "peer-closed", 2000);
}

#[test]
fn thousands_of_children_opened_and_closed_leave_nothing() {
    let back = server_to(echo(), "");
    // Some parents are exhausted on the way.
    let front = client_to(back.at("in"), &counter(1600), "");
    let mut opened = 0;
    let mut round = |children: usize| {
        let mut clients: Vec<_> = (0..children).map(|_| connect(front.at("in"))).collect();
        for client in &mut clients {
            send(client, "hello");
        }
        for client in &mut clients {
            assert_eq!(read(client, 5), b"hello");
        }
        for (at, client) in clients.into_iter().enumerate() {
            match at % 3 {
                0 => drop(client),
                1 => crate::common::peers::reset(client),
                _ => {
                    finish(&client);
                    let mut client = client;
                    assert_eq!(read_all(&mut client), b"");
                }
            }
        }
        opened += children;
        for (service, node) in [(&front, "mux"), (&back, "demux")] {
            no_child_left(service);
            let labels = [("node", node)];
            service.until_metric("lineway_mux_children_opened_total", &labels, opened as f64);
        }
    };
    round(250);
    let before = [&front, &back].map(|s| (s.descriptors(), s.rss()));
    (1..12).for_each(|_| round(250));
    for (service, (descriptors, rss)) in [&front, &back].into_iter().zip(before) {
        until("descriptors are those of before", || service.descriptors() <= descriptors);
        // The allocator gives back when it likes.
        assert!(service.rss() < rss + (16 << 20), "{rss} bytes, then {}", service.rss());
        for kind in ["main-line", "child-line"] {
            service.until_metric("lineway_actors_alive", &[("kind", kind)], 0.0);
        }
    }
    parents(&front, "mux", 1);
    parents(&back, "demux", 1);
}

#[test]
fn mux_m08_more_children_than_the_first_lease_on_one_parent_are_all_served() {
    many_descriptors();
    let nodes = listener("in", "demux", "") + &mux_server("echo", "") + &end("echo", "EchoServer");
    let back = Service::start(&(ONE_WORKER.to_owned() + &nodes));
    let front = client_to(back.at("in"), &counter(100_000), "");
    let mut clients: Vec<TcpStream> = Vec::new();
    while clients.len() < 1500 {
        clients.push(connect(front.at("in")));
        if clients.len().is_multiple_of(100) {
            let count = clients.len() as f64;
            front.until_metric("lineway_mux_children_open", &[("node", "mux")], count);
        }
    }
    for (client, n) in clients.iter_mut().zip(0_u32..) {
        send(client, n.to_be_bytes());
    }
    for (client, n) in clients.iter_mut().zip(0_u32..) {
        assert_eq!(read(client, 4), n.to_be_bytes());
    }
    front.until_metric("lineway_mux_cids_used", &[("node", "mux")], 1500.0);
    let leased = front.metric("lineway_mux_cids_leased", &[("node", "mux")]);
    assert!(leased >= 1500.0, "{leased}");
    parents(&front, "mux", 1);
    drop(clients);
    no_child_left(&front);
    no_child_left(&back);
}

#[test]
fn eight_streams_both_ways_keep_every_byte() {
    for ((services, others), each) in ways(echo()).into_iter().zip([8 << 20, 2 << 20, 2 << 20]) {
        let address = services[0].at("in");
        let streams: Vec<_> = (0..8)
            .map(|seed| {
                std::thread::spawn(move || {
                    let payload = pattern(seed, each);
                    let wanted = hash(&payload);
                    let mut client = connect(address);
                    let mut reader = client.try_clone().expect("a descriptor");
                    let reading = std::thread::spawn(move || {
                        let bytes = read_all(&mut reader);
                        (bytes.len(), hash(&bytes))
                    });
                    // In pieces of odd sizes.
                    for piece in payload.chunks(70_001 + 13 * seed as usize) {
                        send(&mut client, piece);
                    }
                    finish(&client);
                    assert_eq!(reading.join().expect("it was read"), (each, wanted));
                })
            })
            .collect();
        for stream in streams {
            stream.join().expect("all came back");
        }
        all_gone(&services, others);
        let lost = services[0].metric("lineway_mux_lost_bytes_total", &[]);
        assert!(lost.total_cmp(&0.0).is_eq(), "{lost}");
    }
}
