//! Client and server together, in one process and in two.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use crate::common::peers::{Silent, connect, echoed, finish, read_all, serve_once};
use crate::common::{Service, config, connector, end, listener, text, until, within};
use crate::far::{Far, send};
use crate::{client_to, fisher, fisher_server, lost, nothing_left, selected, server_to};

#[test]
fn case_t06_a_half_close_passes_a_fisher_pair() {
    for length in [8, 1 << 20] {
        let reply: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
        let sent = reply.clone();
        let (server, served) = serve_once(move |mut stream| {
            let request = read_all(&mut stream);
            send(&mut stream, &sent);
            request
        });
        let back = server_to(server, 0);
        let front = client_to(back.at("in"), 3);
        let mut client = connect(front.at("in"));
        send(&mut client, "req");
        finish(&client);
        assert!(read_all(&mut client) == reply, "{length} bytes");
        assert_eq!(served.join().unwrap(), b"req");
        for service in [&front, &back] {
            nothing_left(service);
        }
    }
}

#[test]
fn case_t06_the_server_may_half_close_first_through_a_fisher_pair() {
    let (server, served) = serve_once(|mut stream| {
        send(&mut stream, "hello");
        finish(&stream);
        read_all(&mut stream)
    });
    let back = server_to(server, 50);
    let front = client_to(back.at("in"), 2);
    let mut client = connect(front.at("in"));
    assert_eq!(read_all(&mut client), b"hello");
    send(&mut client, "still here");
    finish(&client);
    assert_eq!(served.join().unwrap(), b"still here");
    for service in [&front, &back] {
        nothing_left(service);
    }
}

#[test]
fn case_t09_clients_that_leave_before_any_candidate_is_connected() {
    let silent = Silent::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    let nodes = listener("in", "race", "") + &fisher("race", "out", 2);
    let to = connector("out", silent.address, "connect-timeout-ms = 1000,");
    let service = Service::start(&(nodes + &to));
    let open = || service.metric("lineway_lines_open", &[]) as usize;
    let started = || service.metric("lineway_fisher_candidates_total", &[("node", "race")]) as u32;

    // Nothing is queued: the connects are abandoned at once.
    for _ in 0..100 {
        drop(connect(service.at("in")));
    }
    within(Duration::from_secs(1), "silent clients are gone", || started() == 200 && open() == 0);
    let dials = |result| [("node", "out"), ("result", result)];
    service.until_metric("lineway_dials_total", &dials("cancelled"), 200.0);
    selected(&service, "cancelled", 100);

    // Bytes are queued: the lines are kept for as long as the connects may take.
    for _ in 0..100 {
        send(&mut connect(service.at("in")), "ten bytes.");
    }
    until("all were accepted", || started() == 400);
    assert!(open() > 0);
    within(Duration::from_secs(3), "the other clients are gone", || open() == 0);
    service.until_metric("lineway_dials_total", &dials("timeout"), 200.0);
    selected(&service, "failed", 100);
    lost(&service, "closed", 200);
    nothing_left(&service);
}

#[test]
fn a_fisher_pair_in_one_process_passes_the_tester() {
    for workers in [1, 4] {
        let nodes = format!(
            "[service]\nworkers = {workers}\n[[node]]\nname = \"test\"\ntype = \"TesterClient\"\n\
             next = \"race\"\nsettings = {{ lines = 2 }}\n{}{}{}",
            fisher("race", "fs", 3),
            fisher_server("fs", "end", 1000),
            end("end", "TesterServer"),
        );
        let mut service = Service::spawn(&config(&nodes));
        let status = service.wait(Duration::from_secs(60));
        let over = service.log.wait("score", |event| event["lines_right"].is_u64());
        assert_eq!((status.code(), over["lines_right"].as_u64()), (Some(0), Some(2 * workers)));
    }
}

#[test]
fn a_thousand_lines_with_three_candidates_leave_nothing_behind() {
    let server = listener("in", "fs", "") + &fisher_server("fs", "echo", 1000);
    let back = Service::start(&(server + &end("echo", "EchoServer")));
    let front = client_to(back.at("in"), 3);
    let hundred = || {
        let mut clients: Vec<_> = (0..100).map(|_| connect(front.at("in"))).collect();
        for client in &mut clients {
            echoed(client, "hello");
        }
        drop(clients);
        for service in [&front, &back] {
            nothing_left(service);
        }
    };
    hundred();
    let descriptors = [front.descriptors(), back.descriptors()];
    (1..10).for_each(|_| hundred());
    for (service, before) in [&front, &back].into_iter().zip(descriptors) {
        until("descriptors are those of before", || service.descriptors() <= before);
    }
    front.until_metric("lineway_fisher_candidates_total", &[], 3000.0);
    selected(&front, "won", 1000);
    lost(&front, "outrun", 2000);
    for (node, kind, count) in [("in", "main", 1000.0), ("race", "child", 3000.0)] {
        let labels = [("node", node), ("kind", kind)];
        front.until_metric("lineway_lines_opened_total", &labels, count);
        front.until_metric("lineway_lines_closed_total", &labels, count);
    }
}

/// What `lineway lines` prints.
fn listed(service: &Service) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineway"));
    command.args(["lines", "--admin", &service.admin().to_string()]);
    String::from_utf8(command.output().expect("it runs").stdout).expect("UTF-8")
}

#[test]
fn candidates_are_listed_under_their_line() {
    let far = Far::new();
    let service = client_to(far.address, 2);
    let _clients = [connect(service.at("in")), connect(service.at("in"))];
    let mut all = far.candidates::<4>();
    let mut page = service.json("/api/lines");
    until("all are listed", || {
        page = service.json("/api/lines");
        page["total"] == 6
    });
    let lines = page["lines"].as_array().expect("lines");
    let of = |kind| lines.iter().filter(move |line| text(line, "kind") == kind);
    let makers: Vec<_> = of("main").map(|line| text(line, "id")).collect();
    assert_eq!((makers.len(), lines.len()), (2, 6));
    assert!(of("main").all(|line| line["maker"].is_null()));
    for maker in &makers {
        assert_eq!(of("child").filter(|line| text(line, "maker") == *maker).count(), 2);
    }
    let table = listed(&service);
    let first: Vec<_> = table.lines().skip(1).map(|line| line.split(' ').next()).collect();
    assert_eq!(first.len(), 6, "{table}");
    for group in first.chunks_exact(3) {
        assert!(makers.contains(&group[0].unwrap()), "{table}");
        assert_eq!(group[1..], [Some("├"), Some("└")], "{table}");
    }
    // The winner stays, as a part of its line.
    for candidate in &mut all {
        // Another one may have been faster.
        let _ = std::io::Write::write_all(candidate, b"FISH!");
    }
    selected(&service, "won", 2);
    drop(all);
}
