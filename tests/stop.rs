//! Signals and the end of the process.

mod common;

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::dns::SilentServer;
use common::peers::{connect, echoed, ended, finish, read_all};
use common::{PATIENCE, Service, Signal, command, config, connector, end, listener, text};

/// An echo with this drain limit.
fn echo(drain_ms: u64) -> String {
    format!("[service]\ndrain-timeout-ms = {drain_ms}\n")
        + &listener("in", "echo", "")
        + &end("echo", "EchoServer")
}

const DRAINING: &str = "draining: no new lines";

fn wait_for(service: &Service, message: &str) {
    service.log.wait(message, |event| text(event, "message") == message);
}

#[test]
fn case_m16_an_idle_client_holds_the_stop_up_to_the_drain_limit() {
    let far = common::peers::echo();
    let nodes = echo(1000) + &listener("chain", "out", "") + &connector("out", far, "");
    let mut service = Service::start(&nodes);
    let mut idle: Vec<_> = ["in", "chain"].map(|node| connect(service.at(node))).into();
    for client in &mut idle {
        echoed(client, "hello");
    }
    // Says nothing at all, on a listener and on the admin interface.
    idle.push(connect(service.at("in")));
    idle.push(connect(service.admin()));
    service.until_metric("lineway_lines_open", &[], 3.0);
    let begun = Instant::now();
    service.signal(Signal::TERM);
    let status = service.wait(PATIENCE);
    let took = begun.elapsed();
    assert_eq!(status.code(), Some(0));
    assert!((1000..1500).contains(&took.as_millis()), "{took:?}");
    for client in &mut idle {
        ended(client);
    }
}

#[test]
fn case_m16_a_second_signal_stops_at_once() {
    for (first, second) in [(Signal::TERM, Signal::TERM), (Signal::INT, Signal::TERM)] {
        let mut service = Service::start(&echo(60_000));
        let mut idle = connect(service.at("in"));
        echoed(&mut idle, "hello");
        service.signal(first);
        wait_for(&service, DRAINING);
        // The line goes on.
        echoed(&mut idle, "still there");
        let begun = Instant::now();
        service.signal(second);
        let status = service.wait(PATIENCE);
        let took = begun.elapsed();
        assert_eq!(status.code(), Some(0));
        assert!(took < Duration::from_secs(1), "{took:?}");
        ended(&mut idle);
    }
}

#[test]
fn case_m18_sigterm_and_sigint_drain_in_the_same_way() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut service = Service::start(&echo(60_000));
        let address = service.at("in");
        let mut client = connect(address);
        echoed(&mut client, "before");
        service.signal(signal);
        wait_for(&service, DRAINING);
        echoed(&mut client, "after");
        common::until("no new lines", || std::net::TcpStream::connect(address).is_err());
        finish(&client);
        assert_eq!(read_all(&mut client), b"");
        let begun = Instant::now();
        assert_eq!(service.wait(PATIENCE).code(), Some(0));
        assert!(begun.elapsed() < Duration::from_secs(2));
        wait_for(&service, "stopped");
    }
}

#[test]
fn case_m18_without_lines_a_stop_takes_no_time() {
    let mut service = Service::start(&echo(60_000));
    let begun = Instant::now();
    service.signal(Signal::TERM);
    assert_eq!(service.wait(PATIENCE).code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[test]
fn case_m18_closed_outputs_are_no_reason_to_end() {
    let (out, out_end) = std::io::pipe().unwrap();
    let (err, err_end) = std::io::pipe().unwrap();
    // Every event is written, and the readers go away.
    let file = config(&echo(1000)).replace("[log]\n", "[log]\nlevel = \"trace\"\n");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, file).unwrap();
    let mut command = command(&path);
    command.stdout(out_end).stderr(err_end);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut addresses = Addresses::default();
    addresses.read(err);
    drop(out);
    let mut client = connect(addresses.node.unwrap());
    for _ in 0..20 {
        echoed(&mut client, "nobody listens to the log");
    }
    let page = common::web::ask(addresses.admin.unwrap(), "GET", "/healthz", "");
    assert_eq!(page.status, 200);
    assert!(child.try_wait().unwrap().is_none());
    drop(client);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let mut status = None;
    common::until("it ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));
}

#[derive(Default)]
struct Addresses {
    node: Option<std::net::SocketAddr>,
    admin: Option<std::net::SocketAddr>,
}

impl Addresses {
    /// Reads a log until it is ready, and closes it.
    fn read(&mut self, mut from: std::io::PipeReader) {
        let mut line = Vec::new();
        while self.admin.is_none() {
            let mut byte = [0];
            from.read_exact(&mut byte).expect("it becomes ready");
            if byte != *b"\n" {
                line.push(byte[0]);
                continue;
            }
            let event: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
            line.clear();
            match text(&event, "message") {
                "listening" => self.node = text(&event, "address").parse().ok(),
                "ready" => self.admin = text(&event, "admin").parse().ok(),
                _ => {}
            }
        }
    }
}

#[test]
fn case_m18_a_start_that_waits_for_a_name_can_be_stopped() {
    for signal in [Signal::TERM, Signal::INT] {
        let dns = SilentServer::new();
        let nodes = format!(
            "[dns]\nservers = [\"{}\"]\ntimeout-ms = 30000\n{}\
             [[node]]\nname = \"out\"\ntype = \"TcpConnector\"\n\
             settings = {{ address = \"slow.example\", port = 1 }}\n",
            dns.address(),
            listener("in", "out", "")
        );
        let mut service = Service::spawn_with(&config(&nodes), |path| {
            let mut command = command(path);
            command.stdout(Stdio::null());
            command
        });
        dns.asked();
        let begun = Instant::now();
        service.signal(signal);
        let status = service.wait(PATIENCE);
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert_eq!(status.code(), Some(0));
        assert!(!service.log.whole().contains("panicked"), "{}", service.log.whole());
    }
}
