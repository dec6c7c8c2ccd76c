//! Lines whose connect is pending: clients that leave, addresses that do not answer.

mod common;

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use common::dns::name_server;
use common::peers::{Silent, connect, echoed, ended};
use common::{Service, connector, listener, until, within};

/// Sockets of this machine that wait for an answer from this port.
fn syn_sent(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let there = format!(":{port:04X}");
    let waits = |line: &&str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        // Local address, remote address, state; 02 is SYN_SENT.
        matches!(fields[..], [_, _, to, "02", ..] if to.ends_with(&there))
    };
    table.lines().filter(waits).count()
}

#[test]
fn case_t09_clients_that_leave_while_the_connect_is_pending() {
    let silent = Silent::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    let port = silent.address.port();
    let to = connector("out", silent.address, "connect-timeout-ms = 1000,");
    let service = Service::start(&(listener("in", "out", "") + &to));
    let open = || service.metric("lineway_lines_open", &[("node", "in")]) as usize;
    let opened = || service.metric("lineway_lines_opened_total", &[("node", "in")]) as usize;
    let dials = |result| {
        let labels = [("node", "out"), ("result", result)];
        service.metric("lineway_dials_total", &labels) as usize
    };

    // A client that stays, so that the table is seen to hold what it is searched for.
    let mut stays = connect(service.at("in"));
    until("a connect is pending", || syn_sent(port) == 1);
    ended(&mut stays);
    until("its line is over", || (open(), dials("timeout")) == (0, 1));

    // Nothing is queued: the connects are abandoned at once.
    for _ in 0..100 {
        drop(connect(service.at("in")));
    }
    within(Duration::from_secs(1), "silent clients are gone", || opened() == 101 && open() == 0);
    until("all were cancelled", || dials("cancelled") == 100 && syn_sent(port) == 0);

    // Bytes are queued: the lines are kept for as long as the connect may take.
    let clients: Vec<_> = (0..100).map(|_| connect(service.at("in"))).collect();
    for mut client in clients {
        client.write_all(b"ten bytes.").unwrap();
    }
    until("all were accepted", || opened() == 201);
    assert!(open() > 0 && syn_sent(port) > 0);
    within(Duration::from_secs(3), "the other clients are gone", || open() == 0);
    until("all are counted", || (dials("timeout"), dials("cancelled")) == (101, 100));
    until("no attempt is left", || syn_sent(port) == 0);
    let failed = [("node", "in"), ("reason", "connect-failed")];
    let timed_out = [("node", "in"), ("reason", "timeout")];
    let page = service.scrape();
    let closed = |labels| page.sum("lineway_lines_closed_total", labels) as usize;
    assert_eq!(closed(&failed) + closed(&timed_out), 101);
}

/// A silent socket and an echo on the same port of two addresses.
fn silent_and_echo(silent: Ipv4Addr, echo: Ipv4Addr) -> (Silent, u16) {
    loop {
        let silent = Silent::new((silent, 0).into());
        let port = silent.address.port();
        let Ok(listener) = TcpListener::bind((echo, port)) else {
            continue;
        };
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut from = stream.try_clone().expect("a descriptor");
                // The client may end as it likes.
                let _ = std::io::copy(&mut from, &mut stream);
            }
        });
        return (silent, port);
    }
}

/// RFC 8305 5: the next attempt begins 250 ms after the one before it.
const RACED: Duration = Duration::from_secs(2);

#[test]
fn tcp_t10_the_addresses_of_a_name_are_raced() {
    let hosts = [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)];
    // Whichever address comes first, it is once the one that does not answer.
    for (silent, echo) in [(hosts[0], hosts[1]), (hosts[1], hosts[0])] {
        let (_silent, port) = silent_and_echo(silent, echo);
        let dns = name_server(&hosts);
        let nodes = format!(
            "[dns]\nservers = [\"{dns}\"]\n{}[[node]]\nname = \"out\"\ntype = \"TcpConnector\"\n\
             settings = {{ address = \"two.example\", port = {port} }}\n",
            listener("in", "out", "")
        );
        let service = Service::start(&nodes);
        let begun = std::time::Instant::now();
        echoed(&mut connect(service.at("in")), "raced");
        assert!(begun.elapsed() < RACED, "{:?}", begun.elapsed());
        within(RACED, "no attempt is left", || syn_sent(port) == 0);
    }
}

#[test]
fn tcp_t10_several_targets_are_raced() {
    let silent = Silent::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    let (port, echo) = (silent.address.port(), common::peers::echo().port());
    let nodes = format!(
        "{}[[node]]\nname = \"out\"\ntype = \"TcpConnector\"\n[node.settings]\n\
         addresses = [\n  {{ address = \"127.0.0.1\", port = {port}, weight = 65535 }},\n  \
         {{ address = \"127.0.0.1\", port = {echo} }},\n]\n",
        listener("in", "out", "")
    );
    let service = Service::start(&nodes);
    let begun = std::time::Instant::now();
    echoed(&mut connect(service.at("in")), "raced");
    assert!(begun.elapsed() < RACED, "{:?}", begun.elapsed());
    within(RACED, "no attempt is left", || syn_sent(port) == 0);
    let connected = [("node", "out"), ("result", "connected")];
    service.until_metric("lineway_dials_total", &connected, 1.0);
}
