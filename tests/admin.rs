//! The admin interface of the running program.

mod common;

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use common::peers::{Reserved, connect, echoed, ended};
use common::web::{ask, exchange};
use common::{PATIENCE, Service, Signal, connector, end, listener, text, until};

fn echo() -> Service {
    Service::start(&(listener("in", "echo", "") + &end("echo", "EchoServer")))
}

const CHANGE: &str = "X-Lineway: 1\r\n";

#[test]
fn every_route_answers_get_and_head() {
    let service = echo();
    let routes = [
        ("/", "text/html; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
        ("/healthz", "text/plain; charset=utf-8"),
        ("/readyz", "text/plain; charset=utf-8"),
        ("/api/lines", "application/json"),
        ("/api/nodes", "application/json"),
        ("/api/sockets", "application/json"),
        ("/api/sip", "application/json"),
    ];
    for (path, kind) in routes {
        let get = service.get(path);
        assert_eq!((get.status, get.headers["content-type"].as_str()), (200, kind), "{path}");
        assert!(!get.body.is_empty(), "{path}");
        let head = ask(service.admin(), "HEAD", path, "");
        assert_eq!((head.status, head.headers["content-type"].as_str()), (200, kind), "{path}");
        assert!(head.body.is_empty(), "{path}");
        let put = ask(service.admin(), "PUT", path, "");
        assert_eq!((put.status, put.headers["allow"].as_str()), (405, "GET, HEAD"), "{path}");
        let post = ask(service.admin(), "POST", path, CHANGE);
        assert_eq!(post.status, 405, "{path}");
    }
    let get = service.get("/api/lines/0-1/close");
    assert_eq!((get.status, get.headers["allow"].as_str()), (405, "POST"));
    for path in ["/metricsx", "/metrics/", "/api", "/api/linesx", "/api/lines//close", "//", "/%2e"]
    {
        assert_eq!(service.get(path).status, 404, "{path}");
    }
}

#[test]
fn only_its_own_names_are_served() {
    let service = echo();
    let port = service.admin().port();
    let get = |host: &str| {
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = String::from_utf8(exchange(service.admin(), request.as_bytes())).unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    for host in ["localhost", "LOCALHOST", "127.0.0.1", &format!("localhost:{port}")] {
        assert_eq!(get(host), 200, "{host}");
    }
    let other_port = format!("localhost:{}", port ^ 1);
    let appended = format!("127.0.0.1.evil.example:{port}");
    for host in ["evil.example", "localhost.evil.example", "192.0.2.1", &other_port, &appended] {
        assert_eq!(get(host), 403, "{host}");
    }
}

#[test]
fn a_line_is_closed_by_hand() {
    let service = echo();
    let mut other = connect(service.at("in"));
    echoed(&mut other, "other");
    let mut client = connect(service.at("in"));
    echoed(&mut client, "hello");
    let mine = client.local_addr().unwrap().to_string();
    until("both are listed", || service.json("/api/lines")["total"] == 2);
    let lines = service.json("/api/lines");
    let all = lines["lines"].as_array().unwrap();
    let line = all.iter().find(|line| text(line, "peer") == mine).expect("the line is there");
    assert_eq!((text(line, "node"), text(line, "kind")), ("in", "main"));
    assert_eq!((&line["bytes"]["upstream"], &line["bytes"]["downstream"]), (&5.into(), &5.into()));
    let path = format!("/api/lines/{}/close", text(line, "id"));
    let post = |path: &str, headers: &str| ask(service.admin(), "POST", path, headers).status;
    for headers in ["", "X-Lineway: 0\r\n", "X-Lineway: 1, 1\r\n"] {
        assert_eq!(post(&path, headers), 403, "{headers}");
    }
    echoed(&mut client, "lives");
    assert_eq!(post(&path, CHANGE), 202);
    ended(&mut client);
    let by_admin = [("node", "in"), ("reason", "admin")];
    service.until_metric("lineway_lines_closed_total", &by_admin, 1.0);
    service.until_metric("lineway_lines_open", &[("node", "in")], 1.0);
    until("it is unknown", || post(&path, CHANGE) == 404);
    assert_eq!(post("/api/lines/nonsense/close", CHANGE), 400);
    echoed(&mut other, "other");
}

#[test]
fn lines_are_listed_on_the_command_line() {
    let service = echo();
    let mut client = connect(service.at("in"));
    echoed(&mut client, "hello");
    let mine = client.local_addr().unwrap().to_string();
    let lines = |more: &[&str]| {
        let admin = service.admin().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_lineway"));
        let output = command.args(["lines", "--admin", &admin]).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    until("it is listed", || lines(&[]).contains(&mine));
    let document: serde_json::Value = serde_json::from_str(&lines(&["--json"])).unwrap();
    assert!(document.to_string().contains(&mine), "{document}");
    drop(client);
    until("it is not listed", || !lines(&[]).contains(&mine));
    // A service that is not there.
    let nobody = Reserved::port().address().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineway"));
    let output = command.args(["lines", "--admin", &nobody]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&nobody));
}

#[test]
fn a_parent_is_drained_by_its_line_id() {
    let mux = |name: &str, kind: &str, next: &str, settings: &str| {
        format!(
            "[[node]]\nname = \"{name}\"\ntype = \"{kind}\"\nnext = \"{next}\"\n\
             settings = {{ {settings} }}\n"
        )
    };
    let service = Service::start(
        &(String::from("[service]\nworkers = 1\n")
            + &listener("in", "mux", "")
            + &mux("mux", "MuxClient", "end", "mode = \"counter\", connection-capacity = 9")
            + &mux("end", "MuxServer", "echo", "")
            + &end("echo", "EchoServer")),
    );
    let mut clients: Vec<_> = (0..2).map(|_| connect(service.at("in"))).collect();
    for client in &mut clients {
        echoed(client, "hello");
    }
    let parents = || {
        let lines = service.json("/api/lines");
        let all = lines["lines"].as_array().unwrap().iter();
        all.filter(|line| text(line, "kind") == "parent").cloned().collect::<Vec<_>>()
    };
    until("the parent has its children", || {
        let carried = |line: &serde_json::Value| {
            let sides = line["mux"].as_array().unwrap();
            sides.len() == 2 && sides.iter().all(|side| side["children"] == 2)
        };
        parents().first().is_some_and(carried)
    });
    let first = parents()[0].clone();
    assert_eq!((text(&first, "node"), text(&first, "state")), ("mux", "open"));
    assert_eq!(first["mux"][0]["cids"], serde_json::json!({ "leased": 9, "used": 2 }));
    let id = text(&first, "id");
    // Two that came, and what the server's side made for each.
    let on_it = service.json(&format!("/api/lines?parent={id}"));
    assert_eq!(on_it["total"], 5, "{on_it}");

    let close = format!("/api/lines/{id}/close");
    assert_eq!(ask(service.admin(), "POST", &close, CHANGE).status, 202);
    until("it drains", || text(&parents()[0], "state") == "draining");
    for client in &mut clients {
        echoed(client, "goes on");
    }
    let mut third = connect(service.at("in"));
    echoed(&mut third, "on another parent");
    until("the other one is there", || parents().len() == 2);
    assert_eq!(text(&parents()[1], "state"), "open");
    drop(clients);
    until("it ends with its last child", || parents().len() == 1);
    assert_ne!(text(&parents()[0], "id"), id);
    echoed(&mut third, "is not disturbed");
}

#[test]
fn mux_m14_a_child_is_shown_on_the_line_that_its_parent_has_at_last() {
    let port = Reserved::port();
    let mux = "[[node]]\nname = \"mux\"\ntype = \"MuxClient\"\nnext = \"out\"\nsettings = \
               { mode = \"counter\", connection-capacity = 9, parent-retry-ms = 60000 }\n";
    let service =
        Service::start(&(listener("in", "mux", "") + mux + &connector("out", port.address(), "")));
    let _client = connect(service.at("in"));
    let retries = || service.metric("lineway_mux_parent_retries_total", &[("node", "mux")]);
    until("it was tried again", || retries() >= 1.0);
    let far = TcpListener::bind(port.address()).unwrap();
    let _parent = far.accept().unwrap();
    until("the child's parent is listed", || {
        let lines = service.json("/api/lines");
        let of = |kind: &str, key: &str| {
            let all = lines["lines"].as_array().unwrap().iter();
            all.filter(|line| text(line, "kind") == kind).map(|line| line[key].clone()).next()
        };
        of("parent", "state") == Some("open".into()) && of("main", "parent") == of("parent", "id")
    });
}

#[test]
fn case_m05_long_and_broken_requests_are_refused() {
    let service = echo();
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(1 << 20));
    let answer = exchange(service.admin(), long.as_bytes());
    // A client that still sends may see a reset in place of the answer.
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{:?}", answer.get(..40));
    let garbage: Vec<u8> =
        (0..20_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let header = format!("GET / HTTP/1.1\r\nHost: localhost\r\nA: {}\r\n\r\n", "a".repeat(1 << 20));
    let broken: [&[u8]; 5] = [
        &garbage,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n",
        header.as_bytes(),
        b"GET / HTTP/9.9\r\n\r\n",
    ];
    for request in broken {
        let answer = exchange(service.admin(), request);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{:?}", answer.get(..40));
        assert_eq!(service.get("/healthz").status, 200);
    }
}

#[test]
fn admin_connections_that_say_nothing_keep_nobody_out() {
    let service = echo();
    let silent: Vec<_> = (0..300).map(|_| connect(service.admin())).collect();
    assert_eq!(service.get("/healthz").status, 200);
    assert_eq!(service.get("/metrics").status, 200);
    assert!(service.descriptors() < 150);
    drop(silent);
}

#[test]
fn case_m01_connections_make_no_series() {
    // Ten nodes.
    let far = common::peers::echo();
    let mut nodes = end("echo", "EchoServer") + &connector("out", far, "");
    for n in 0..8 {
        let next = if n % 2 == 0 { "out" } else { "echo" };
        nodes += &listener(&format!("in-{n}"), next, "");
    }
    let service = Service::start(&nodes);
    let series = || service.scrape().0.into_keys().collect::<BTreeSet<_>>();
    let before = series();
    for n in 0..1000 {
        let mut client = connect(service.at(&format!("in-{}", n % 8)));
        echoed(&mut client, "hello");
    }
    service.until_metric("lineway_lines_open", &[], 0.0);
    service.until_metric("lineway_lines_opened_total", &[], 1000.0);
    let after = series();
    let more: Vec<_> = before.symmetric_difference(&after).collect();
    assert!(more.is_empty(), "{more:?}");
    assert!(!after.iter().any(|series| series.contains("127.0.0.1")));
}

#[test]
fn case_m22_draining_is_not_ready_but_alive() {
    let nodes = listener("in", "echo", "") + &end("echo", "EchoServer");
    let mut service = Service::start(&nodes);
    assert_eq!(service.get("/readyz").text(), "ready\n");
    let mut client = connect(service.at("in"));
    echoed(&mut client, "holds the drain");
    service.signal(Signal::TERM);
    until("not ready", || service.get("/readyz").status == 503);
    let why = service.get("/readyz").text();
    assert!(why.contains("draining"), "{why}");
    assert_eq!(service.metric("lineway_ready", &[]) as u32, 0);
    assert_eq!(service.get("/healthz").status, 200);
    drop(client);
    assert_eq!(service.wait(PATIENCE).code(), Some(0));
    assert!(TcpStream::connect(service.admin()).is_err());
}
