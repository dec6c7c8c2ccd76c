//! SIGHUP: what changed is rebuilt, the rest goes on.

mod common;

use std::io::{Error, ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::peers::{self, Reserved, connect, echoed, ended, finish, read, read_all, serve};
use common::{
    PATIENCE, Service, Signal, connector, end, listener, listener_at, text, until, within,
};

/// How long lines through changed nodes go on, in milliseconds.
const DRAIN: u64 = 500;

fn with_drain(nodes: &str) -> String {
    format!("[service]\ndrain-timeout-ms = {DRAIN}\n{nodes}")
}

/// A server that greets with a letter and then echoes.
fn greeter(letter: u8) -> SocketAddr {
    serve(move |mut stream| {
        // The client may end as it likes.
        if stream.write_all(&[letter]).is_ok() {
            let mut from = stream.try_clone().expect("a descriptor");
            let _ = std::io::copy(&mut from, &mut stream);
        }
    })
}

fn reloads(service: &Service, result: &str) -> u64 {
    service.metric("lineway_reloads_total", &[("result", result)]) as u64
}

#[test]
fn added_and_removed_nodes_leave_the_others_alone() {
    let stays = listener("stays", "echo", "") + &end("echo", "EchoServer");
    let gone = listener("gone", "other-echo", "") + &end("other-echo", "EchoServer");
    let service = Service::start(&with_drain(&(stays.clone() + &gone)));
    let stays_at = service.at("stays");
    let mut kept = connect(stays_at);
    let mut lost = connect(service.at("gone"));
    echoed(&mut kept, "kept");
    echoed(&mut lost, "lost");
    assert!(service.scrape().has("node", "other-echo"));

    let event = service.reload_and_wait(&with_drain(&(stays + &listener("added", "echo", ""))));
    let begun = Instant::now();
    assert_eq!(text(&event, "changes"), "added added; removed gone, other-echo");
    assert_eq!(reloads(&service, "applied"), 1);
    // An address that did not change keeps its sockets.
    assert_eq!(service.all_at("stays"), [stays_at]);
    echoed(&mut connect(service.at("added")), "added");
    until("nobody listens there", || TcpStream::connect(service.at("gone")).is_err());
    // Lines through removed nodes have the time of a drain.
    echoed(&mut lost, "still there");
    ended(&mut lost);
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(DRAIN / 2) && took < Duration::from_secs(5), "{took:?}");
    until("the series of removed nodes are gone", || {
        let page = service.scrape();
        !page.has("node", "gone") && !page.has("node", "other-echo")
    });
    echoed(&mut kept, "kept");
    echoed(&mut connect(stays_at), "stays");
    let nodes = service.json("/api/nodes");
    let names: Vec<_> =
        nodes["nodes"].as_array().unwrap().iter().map(|n| text(n, "name")).collect();
    assert_eq!(names, ["stays", "echo", "added"]);
}

#[test]
fn a_removed_node_that_comes_back_in_time_keeps_its_series() {
    let stays = listener("stays", "echo", "") + &end("echo", "EchoServer");
    let both = with_drain(&(stays.clone() + &listener("again", "echo", "")));
    let one = with_drain(&stays);
    let service = Service::start(&both);
    echoed(&mut connect(service.at("again")), "one");
    let mut live = connect(service.at("again"));
    echoed(&mut live, "two");
    service.reload_and_wait(&one);
    service.reload_and_wait(&both);
    echoed(&mut connect(service.at("again")), "three");
    ended(&mut live);
    // What the first reload has left to do is over when another node has come and gone.
    service.reload_and_wait(&(both.clone() + &listener("brief", "echo", "")));
    service.reload_and_wait(&both);
    until("the brief one is gone", || !service.scrape().has("node", "brief"));
    let opened = service.metric("lineway_lines_opened_total", &[("node", "again")]);
    assert_eq!(opened as u64, 3);
}

#[test]
fn a_removed_node_that_could_not_serve_leaves_the_service_ready() {
    let nobody = Reserved::port();
    let well = listener("well", "echo", "") + &end("echo", "EchoServer");
    let ill = listener("in", "out", "") + &connector("out", nobody.address(), "");
    let service = Service::start(&with_drain(&(ill + &well)));
    // Connects have to fail for 30 s.
    within(3 * PATIENCE, "the connector is not ready", || {
        ended(&mut connect(service.at("in")));
        service.get("/readyz").status == 503
    });
    assert!(service.get("/readyz").text().starts_with("out: "));
    service.reload_and_wait(&with_drain(&well));
    until("ready again", || service.get("/readyz").status == 200);
}

#[test]
fn a_listener_that_loses_a_port_is_ready() {
    let ports = Reserved::ports(2);
    let (one, two) = (ports.address().port(), ports.address().port() + 1);
    let file = |ports: &str| {
        let entry = listener_at("in", "echo", "127.0.0.1", one, "");
        let entry = entry.replace(&format!("port = {one}"), &format!("port = [{ports}]"));
        with_drain(&(entry + &end("echo", "EchoServer")))
    };
    let service = Service::start(&file(&format!("{one}")));
    let listeners = [("kind", "listener")];
    let alive = service.metric("lineway_actors_alive", &listeners);
    for both in [format!("{one}, {two}"), format!("{two}, {one}")] {
        service.reload_and_wait(&file(&both));
        service.until_metric("lineway_actors_alive", &listeners, alive * 2.0);
        service.reload_and_wait(&file(&format!("{one}")));
        service.until_metric("lineway_actors_alive", &listeners, alive);
        until("it is ready", || service.get("/readyz").status == 200);
        assert_eq!(service.metric("lineway_node_ready", &[("node", "in")]) as u64, 1);
        echoed(&mut connect(ports.address()), "serves");
    }
}

#[test]
fn a_node_that_is_renamed_and_renamed_back_keeps_its_health_and_its_series() {
    let port = Reserved::port();
    let number = port.address().port();
    let file = |name| {
        let entry = listener_at(name, "echo", "127.0.0.1", number, "");
        with_drain(&(entry + &end("echo", "EchoServer")))
    };
    let service = Service::start(&file("in"));
    echoed(&mut connect(port.address()), "one");
    for _ in 0..2 {
        service.reload_and_wait(&file("other"));
        service.reload_and_wait(&file("in"));
    }
    // No client comes: what the reloads have left to do is over when this one has been done.
    until("the other name is gone", || !service.scrape().has("node", "other"));
    let node = [("node", "in")];
    assert_eq!(service.metric("lineway_lines_opened_total", &node) as u64, 1);
    assert_eq!(service.metric("lineway_node_ready", &node) as u64, 1);
    assert_eq!(service.get("/readyz").status, 200);
    echoed(&mut connect(port.address()), "two");
    assert_eq!(service.metric("lineway_lines_opened_total", &node) as u64, 2);
}

#[test]
fn lines_through_a_changed_node_end_after_the_drain_time() {
    let (old, new) = (greeter(b'o'), greeter(b'n'));
    let untouched = listener("quiet", "echo", "") + &end("echo", "EchoServer");
    let chain =
        |to| with_drain(&(listener("in", "out", "") + &connector("out", to, "") + &untouched));
    let service = Service::start(&chain(old));
    let mut quiet = connect(service.at("quiet"));
    echoed(&mut quiet, "before");
    let mut through = connect(service.at("in"));
    assert_eq!(read(&mut through, 1), b"o");
    let event = service.reload_and_wait(&chain(new));
    assert_eq!(text(&event, "changes"), "changed out");
    // From here on lines take the other way.
    assert_eq!(read(&mut connect(service.at("in")), 1), b"n");
    echoed(&mut through, "in time");
    ended(&mut through);
    let drained = [("node", "in"), ("reason", "drain")];
    service.until_metric("lineway_lines_closed_total", &drained, 1.0);
    echoed(&mut quiet, "after");
    assert_eq!(service.all_at("in").len(), 1);
}

#[test]
fn a_file_with_an_error_changes_nothing() {
    let nodes = listener("in", "echo", "") + &end("echo", "EchoServer");
    let service = Service::start(&nodes);
    let mut live = connect(service.at("in"));
    echoed(&mut live, "before");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let dns = common::dns::name_server(&[]);
    let typo = nodes.replace("settings = {", "settings = { nodelya = true,");
    let in_use = listener_at("late", "echo", "127.0.0.1", port, "") + &nodes;
    let nameless = format!(
        "[dns]\nservers = [\"{dns}\"]\n{nodes}{}[[node]]\nname = \"out\"\ntype = \"TcpConnector\"\n\
         settings = {{ address = \"nobody.example\", port = 1 }}\n",
        listener("second", "out", "")
    );
    let wrong = [
        (typo.as_str(), "rejected", "nodelya"),
        ("[[node", "rejected", "config.toml"),
        (&in_use, "failed", "in use"),
        (&nameless, "failed", "nobody.example"),
    ];
    let mut counts = [("rejected", 0), ("failed", 0)];
    for (file, result, word) in wrong {
        let before = service.log.len();
        service.reload(file);
        service.log.wait_after(before, "the error", |event| {
            let message = text(event, "message");
            message.contains("nothing changed") && message.contains(word)
        });
        for (name, count) in &mut counts {
            *count += u64::from(*name == result);
            let reached = || reloads(&service, name) == *count;
            until("it is counted once", reached);
        }
        assert_eq!(service.metric("lineway_reload_last_successful", &[]) as u64, 0);
        echoed(&mut live, "live");
        echoed(&mut connect(service.at("in")), "alive");
    }
    assert_eq!(reloads(&service, "applied"), 0);
    assert!(!service.scrape().has("node", "late"));
    let event = service.reload_and_wait(&nodes);
    assert_eq!(text(&event, "changes"), "no node changed");
    assert_eq!(service.metric("lineway_reload_last_successful", &[]) as u64, 1);
    echoed(&mut live, "after");
}

#[test]
fn tcp_t01_a_removed_listener_accepts_what_waits() {
    let echo = end("echo", "EchoServer");
    let gone = listener("gone", "echo", "");
    let stays = listener("stays", "echo", "") + &echo;
    let service = Service::start(&(gone + &stays));
    // While the process stands still, connections wait in the queue; it wakes up with a reload.
    service.signal(Signal::STOP);
    let mut waiting: Vec<_> = (0..50).map(|_| connect(service.at("gone"))).collect();
    service.reload(&stays);
    service.signal(Signal::CONT);
    for client in &mut waiting {
        echoed(client, "waited");
        finish(client);
        assert_eq!(read_all(client), b"");
    }
    until("nobody listens there", || TcpStream::connect(service.at("gone")).is_err());
}

/// Whether a listener that closes while `go` runs may take a connection with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listener {
    Stays,
    Closes,
}

/// Connects again and again until `go` is over; no connect may be refused.
fn never_refused(address: SocketAddr, listener: Listener, go: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let knocks = scope.spawn(|| {
            let mut times = 0;
            while !over.load(Ordering::Relaxed) || times < 20 {
                let lost = |error: &Error| {
                    listener == Listener::Closes && error.kind() == ErrorKind::ConnectionReset
                };
                match TcpStream::connect(address) {
                    Err(error) if !lost(&error) => {
                        return Err(format!("{error} after {times} times"));
                    }
                    _ => times += 1,
                }
                // The ports of all the tests' clients come from one range.
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        go();
        over.store(true, Ordering::Relaxed);
        assert_eq!(knocks.join().unwrap(), Ok(()));
    });
}

#[test]
fn an_address_moves_between_listeners() {
    let ports = Reserved::ports(2);
    let first = ports.address();
    let second = SocketAddr::new(first.ip(), first.port() + 1);
    let (a, b) = (greeter(b'a'), greeter(b'b'));
    let nodes = |of_a: SocketAddr, of_b: SocketAddr| {
        listener_at("to-a", "a", "127.0.0.1", of_a.port(), "")
            + &listener_at("to-b", "b", "127.0.0.1", of_b.port(), "")
            + &connector("a", a, "")
            + &connector("b", b, "")
    };
    let service = Service::start(&nodes(first, second));
    let greets = |at, letter| assert_eq!(read(&mut connect(at), 1), [letter]);
    greets(first, b'a');
    greets(second, b'b');
    never_refused(first, Listener::Stays, || {
        service.reload_and_wait(&nodes(second, first));
    });
    for _ in 0..10 {
        greets(first, b'b');
        greets(second, b'a');
    }
    // Under another name alone, it is still the same socket.
    let renamed = nodes(second, first).replace("\"to-a\"", "\"renamed\"");
    never_refused(second, Listener::Stays, || {
        service.reload_and_wait(&renamed);
    });
    greets(second, b'a');
}

#[test]
fn a_listener_moves_between_one_address_and_all_of_them() {
    let port = Reserved::port();
    let number = port.address().port();
    let node = |ip| listener_at("in", "echo", ip, number, "") + &end("echo", "EchoServer");
    let (one, other) = (port.address(), SocketAddr::from(([127, 0, 0, 2], number)));
    let service = Service::start(&node("127.0.0.1"));
    echoed(&mut connect(one), "one");
    assert!(TcpStream::connect(other).is_err());
    let mut live = connect(one);
    echoed(&mut live, "before");
    // A connection that comes while the old listener closes may be lost.
    let listeners = [("kind", "listener")];
    let alive = service.metric("lineway_actors_alive", &listeners);
    let settled = || service.until_metric("lineway_actors_alive", &listeners, alive);
    for round in 0..3 {
        never_refused(one, Listener::Closes, || {
            service.reload_and_wait(&node("0.0.0.0"));
        });
        settled();
        for address in [one, other] {
            echoed(&mut connect(address), "all");
        }
        never_refused(one, Listener::Closes, || {
            service.reload_and_wait(&node("127.0.0.1"));
        });
        settled();
        echoed(&mut connect(one), "one");
        until("the other address is free", || TcpStream::connect(other).is_err());
        echoed(&mut live, &format!("round {round}"));
    }
}

#[test]
fn settings_of_the_process_wait_for_the_next_start() {
    let nodes = listener("in", "out", "") + &connector("out", peers::echo(), "");
    let service = Service::start(&nodes);
    let event = service.reload_and_wait(&format!("[service]\nworkers = 3\n{nodes}"));
    assert_eq!(text(&event, "changes"), "no node changed; at the next start: service.workers");
    echoed(&mut connect(service.at("in")), "goes on");
}
