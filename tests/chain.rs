//! Plain chains over real sockets: half-close, refusals, load, the tester, listener settings.

mod common;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::peers::{
    self, Reserved, connect, connect_from, echoed, ended, finish, read_all, serve_once,
};
use common::{Service, config, connector, end, listener, listener_at};

/// Listener `in`, connector `out`.
fn chain_to(server: SocketAddr) -> Service {
    Service::start(&(listener("in", "out", "") + &connector("out", server, "")))
}

#[test]
fn case_t06_a_half_close_leaves_the_reply_its_way() {
    for length in [8, 1 << 20] {
        let reply: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
        let sent = reply.clone();
        let (server, served) = serve_once(move |mut stream| {
            let request = read_all(&mut stream);
            stream.write_all(&sent).expect("the reply is taken");
            request
        });
        let service = chain_to(server);
        let mut client = connect(service.at("in"));
        client.write_all(b"req").unwrap();
        finish(&client);
        assert_eq!(read_all(&mut client), reply, "{length} bytes");
        assert_eq!(served.join().unwrap(), b"req");
        service.until_metric("lineway_lines_open", &[("node", "in")], 0.0);
        let right = [("node", "in"), ("reason", "peer-finished")];
        service.until_metric("lineway_lines_closed_total", &right, 1.0);
    }
}

#[test]
fn case_t06_the_server_may_half_close_first() {
    let (server, served) = serve_once(|mut stream| {
        stream.write_all(b"hello").expect("it is taken");
        finish(&stream);
        read_all(&mut stream)
    });
    let service = chain_to(server);
    let mut client = connect(service.at("in"));
    assert_eq!(read_all(&mut client), b"hello");
    client.write_all(b"still here").unwrap();
    finish(&client);
    assert_eq!(served.join().unwrap(), b"still here");
    service.until_metric("lineway_lines_open", &[("node", "in")], 0.0);
}

#[test]
fn line_l02_an_echo_in_one_process_gives_back_what_it_got() {
    let service = Service::start(&(listener("in", "echo", "") + &end("echo", "EchoServer")));
    let mut client = connect(service.at("in"));
    echoed(&mut client, "to and fro");
    finish(&client);
    assert_eq!(read_all(&mut client), b"");
}

/// `config.toml` on free ports, its connector on this one.
fn default_configuration(port: u16) -> String {
    let mut text = include_str!("../config.toml").to_owned();
    for (from, to) in [
        ("\nport = 7000\n", format!("\nport = {port}\n")),
        ("\nport = 7000 ", "\nport = 0 ".into()),
        ("port = 7001 }", "port = 0 }".into()),
        ("tcp://127.0.0.1:5555\"]", "tcp://127.0.0.1:*\"]".into()),
        (
            "\"udp:127.0.0.1:5060\", \"tcp:127.0.0.1:5060\"",
            "\"udp:127.0.0.1:0\", \"tcp:127.0.0.1:0\"".into(),
        ),
        ("\"127.0.0.1:9600\"", "\"127.0.0.1:0\"".into()),
        ("# format = \"text\"", "format = \"json\"".into()),
    ] {
        assert!(text.contains(from), "{from} in config.toml");
        text = text.replace(from, &to);
    }
    text
}

#[test]
fn the_default_configuration_echoes() {
    let service = Service::spawn(&default_configuration(1)).ready();
    // More than one parent takes, all at once.
    let mut clients: Vec<_> = (0..300).map(|_| connect(service.at("entry"))).collect();
    for client in &mut clients {
        client.write_all(b"through the mux").unwrap();
    }
    for client in &mut clients {
        assert_eq!(peers::read(client, 15), b"through the mux");
    }
    let is = |name, node, value| service.until_metric(name, &[("node", node)], value);
    is("lineway_mux_children_open", "mux", 300.0);
    is("lineway_mux_children_open", "mux-end", 300.0);
    finish(&clients[0]);
    assert_eq!(read_all(&mut clients[0]), b"");
    is("lineway_mux_children_open", "mux", 299.0);
    // One node connects to the other's port, which only a fixed number could name in one process.
    let near = Service::spawn(&default_configuration(service.at("entry").port())).ready();
    echoed(&mut connect(near.at("side-entry")), "through both chains");
}

#[test]
fn case_t12_a_refused_connect_ends_the_client_at_once() {
    let nobody = Reserved::port();
    let nodes = listener("in", "out", "")
        + &connector("out", nobody.address(), "")
        + &listener("well", "echo", "")
        + &end("echo", "EchoServer");
    let service = Service::start(&nodes);
    let mut undisturbed = connect(service.at("well"));
    echoed(&mut undisturbed, "before");
    let refuse = |count: usize| {
        for _ in 0..count {
            let mut client = connect(service.at("in"));
            let begun = Instant::now();
            // The end may come before these bytes.
            let _ = client.write_all(b"abc");
            ended(&mut client);
            assert!(begun.elapsed() < Duration::from_secs(1));
        }
    };
    refuse(500);
    let before = service.rss();
    refuse(1500);
    let grown = service.rss().saturating_sub(before);
    // The allocator takes 2 MiB at a time.
    assert!(grown < 4 << 20, "memory grew by {grown} bytes");
    echoed(&mut undisturbed, "after");
    let failed = [("node", "in"), ("reason", "connect-failed")];
    service.until_metric("lineway_lines_closed_total", &failed, 2000.0);
    let refused = [("node", "out"), ("result", "refused")];
    service.until_metric("lineway_dials_total", &refused, 2000.0);
}

#[test]
fn the_tester_ends_the_process_with_its_result() {
    for workers in [1, 4] {
        let service = format!("[service]\nworkers = {workers}\n");
        let client = "[[node]]\nname = \"test\"\ntype = \"TesterClient\"\nnext = \"end\"\n";
        let run = |server: &str| {
            let file = config(&format!("{service}{client}{}", end("end", server)));
            let mut service = Service::spawn(&file);
            let status = service.wait(Duration::from_secs(60));
            let over = service.log.wait("score", |event| event["lines_right"].is_u64());
            (status.code(), over["lines_right"].as_u64(), over["lines_wrong"].as_u64())
        };
        assert_eq!(run("TesterServer"), (Some(0), Some(workers), Some(0)));
        assert_eq!(run("EchoServer"), (Some(1), Some(0), Some(workers)));
    }
}

#[test]
fn the_tester_passes_sockets_between_two_processes() {
    let server = Service::start(&(listener("in", "end", "") + &end("end", "TesterServer")));
    let client = "[[node]]\nname = \"test\"\ntype = \"TesterClient\"\nnext = \"out\"\n\
                  settings = { lines = 2 }\n";
    let file = config(&(client.to_owned() + &connector("out", server.at("in"), "")));
    let mut client = Service::spawn(&file);
    assert_eq!(client.wait(Duration::from_secs(60)).code(), Some(0));
}

#[test]
fn tcp_listens_and_connects_with_ipv6() {
    let nodes = listener_at("in", "out", "::1", 0, "")
        + &listener_at("echo-in", "echo", "::1", 0, "")
        + &end("echo", "EchoServer");
    // The connector's target is the echo of another process.
    let other =
        Service::start(&(listener_at("in", "echo", "::1", 0, "") + &end("echo", "EchoServer")));
    let service = Service::start(&(nodes + &connector("out", other.at("in"), "")));
    for entry in ["in", "echo-in"] {
        assert!(service.at(entry).is_ipv6());
        echoed(&mut connect(service.at(entry)), "six");
    }
}

#[test]
fn a_listener_has_several_ports() {
    let (range, pair) = (Reserved::ports(3), Reserved::ports(2));
    let (first, other) = (range.address().port(), pair.address().port());
    let node = |name: &str, ports: String| {
        format!(
            "[[node]]\nname = \"{name}\"\ntype = \"TcpListener\"\nnext = \"echo\"\n\
             settings = {{ address = \"127.0.0.1\", {ports} }}\n"
        )
    };
    let nodes = node("range", format!("port-range = [{first}, {}]", first + 2))
        + &node("pair", format!("port = [{other}, {}]", other + 1))
        + &end("echo", "EchoServer");
    let service = Service::start(&nodes);
    for (name, ports) in [("range", 3), ("pair", 2)] {
        let all = service.all_at(name);
        assert_eq!(all.len(), ports);
        for address in all {
            echoed(&mut connect(address), name);
        }
        service.until_metric("lineway_lines_opened_total", &[("node", name)], ports as f64);
    }
}

#[test]
fn sources_are_listed_black_and_white() {
    let lists = "whitelist = [\"127.0.0.0/29\"], blacklist = [\"127.0.0.2\"],";
    // A v4-mapped source is its IPv4 address.
    let nodes = listener("in", "echo", lists)
        + &listener_at("dual", "echo", "::", 0, lists)
        + &end("echo", "EchoServer");
    let service = Service::start(&nodes);
    for node in ["in", "dual"] {
        let at = SocketAddr::from(([127, 0, 0, 1], service.at(node).port()));
        for _ in 0..3 {
            ended(&mut connect_from([127, 0, 0, 2], at));
        }
        ended(&mut connect_from([127, 0, 0, 8], at));
        echoed(&mut connect_from([127, 0, 0, 7], at), "welcome");
        let refused = |why| [("node", node), ("reason", why)];
        let name = "lineway_accept_refused_total";
        service.until_metric(name, &refused("blacklist"), 3.0);
        service.until_metric(name, &refused("not-whitelisted"), 1.0);
        service.until_metric("lineway_lines_opened_total", &[("node", node)], 1.0);
    }
}

#[test]
fn max_lines_lets_the_next_client_wait() {
    let nodes = listener("in", "echo", "max-lines = 2,") + &end("echo", "EchoServer");
    let service = Service::start(&nodes);
    let mut two = [connect(service.at("in")), connect(service.at("in"))];
    for client in &mut two {
        echoed(client, "in");
    }
    let mut third = connect(service.at("in"));
    third.write_all(b"waits").unwrap();
    third.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let kind = third.read(&mut [0]).unwrap_err().kind();
    assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{kind}");
    assert_eq!(service.metric("lineway_lines_open", &[("node", "in")]) as u32, 2);
    drop(two);
    third.set_read_timeout(Some(common::PATIENCE)).unwrap();
    assert_eq!(peers::read(&mut third, 5), b"waits");
}
