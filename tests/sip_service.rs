//! SIP chains as nodes of the service: start, reload, readiness, drain, what the admin pages show.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;

use common::peers::{connect, ended};
use common::{PATIENCE, Service, Signal, config, run_to_end, text};
use serde_json::Value;
use tempfile::TempDir;

/// A script on disk.
struct Script {
    folder: TempDir,
}

impl Script {
    /// One that answers every request with this reason.
    fn new(reason: &str) -> Self {
        let script = Self { folder: tempfile::tempdir().unwrap() };
        script.answers(reason);
        script
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("routes.lua")
    }

    fn write(&self, lua: &str) {
        fs::write(self.path(), lua).unwrap();
    }

    fn answers(&self, reason: &str) {
        self.write(&format!(
            "function ksr_request_route()\n    KSR.sl.sl_send_reply(200, \"{reason}\")\nend\n"
        ));
    }

    /// A chain with it on a free port of each transport, and two workers.
    fn chain(&self, more: &str) -> String {
        self.chain_at("\"udp:127.0.0.1:0\", \"tcp:127.0.0.1:0\"", more)
    }

    fn chain_at(&self, listen: &str, more: &str) -> String {
        let settings = format!("script = \"{}\"", self.path().display());
        format!("[service]\nworkers = 2\n{}{}", listener(listen, more), router(&settings))
    }
}

fn listener(listen: &str, more: &str) -> String {
    format!(
        "[[node]]\nname = \"sip\"\ntype = \"SipListener\"\nnext = \"routes\"\n\
         settings = {{ listen = [{listen}]{more} }}\n"
    )
}

fn router(settings: &str) -> String {
    format!("[[node]]\nname = \"routes\"\ntype = \"SipRouter\"\nsettings = {{ {settings} }}\n")
}

/// Call-IDs of calls that belong to different workers, whatever their number.
const CALLS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn options(to: SocketAddr, from: SocketAddr, transport: &str, call: &str) -> Vec<u8> {
    format!(
        "OPTIONS sip:{to} SIP/2.0\r\nVia: SIP/2.0/{transport} {from};branch=z9hG4bK{call};rport\r\n\
         From: <sip:a@example.com>;tag=1\r\nTo: <sip:{to}>\r\nCall-ID: {call}\r\n\
         CSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// The first line of a reply, and its Call-ID.
fn first_line(reply: &[u8], call: &str) -> String {
    let reply = std::str::from_utf8(reply).expect("a reply is text");
    assert!(reply.contains(&format!("\r\nCall-ID: {call}\r\n")), "{reply}");
    reply.lines().next().unwrap_or_default().to_owned()
}

struct Udp(UdpSocket);

impl Udp {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    /// Asks, and gets the first line of the answer.
    #[track_caller]
    fn asks(&self, at: SocketAddr, call: &str) -> String {
        let request = options(at, self.0.local_addr().unwrap(), "UDP", call);
        self.0.send_to(&request, at).unwrap();
        let mut reply = [0; 4096];
        let length = self.0.recv(&mut reply).expect("an answer");
        first_line(&reply[..length], call)
    }
}

/// Asks over a connection, and gets the first line of the answer.
#[track_caller]
fn asks(stream: &mut TcpStream, call: &str) -> String {
    let (at, from) = (stream.peer_addr().unwrap(), stream.local_addr().unwrap());
    stream.write_all(&options(at, from, "TCP", call)).unwrap();
    let mut reply = Vec::new();
    let mut byte = [0];
    while !reply.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).expect("an answer"), 1, "the connection ended");
        reply.push(byte[0]);
    }
    first_line(&reply, call)
}

fn node(service: &Service, name: &str) -> Value {
    let nodes = service.json("/api/nodes");
    let nodes = nodes["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == name).expect(name).clone()
}

#[test]
fn sip_s9_a_script_answers_over_udp_and_tcp_and_the_pages_show_it() {
    let script = Script::new("Here");
    let service = Service::start(&script.chain(""));
    let [udp, tcp] = service.all_at("sip")[..] else { panic!("two sockets") };
    let client = Udp::new();
    for call in CALLS {
        assert_eq!(client.asks(udp, call), "SIP/2.0 200 Here");
    }
    let mut stream = connect(tcp);
    for call in CALLS {
        assert_eq!(asks(&mut stream, call), "SIP/2.0 200 Here");
    }
    let carried = &node(&service, "sip")["sip"];
    assert_eq!(carried["listen"], serde_json::json!([format!("udp:{udp}"), format!("tcp:{tcp}")]));
    assert_eq!(carried["received"], serde_json::json!({ "udp": 8, "tcp": 8 }));
    assert_eq!((&carried["connections_open"], &carried["overload"]), (&1.into(), &0.into()));
    let router = node(&service, "routes");
    let requests = serde_json::json!({ "OPTIONS": { "received": 16, "forwarded": 0 } });
    assert_eq!(router["sip"]["requests"], requests);
    assert_eq!(router["sip"]["replies"]["2xx"]["sent"], 16);
    assert_eq!(text(&router["settings"], "script"), script.path().to_str().unwrap());
    let of = [("node", "routes"), ("method", "OPTIONS")];
    service.until_metric("lineway_sip_requests_received_total", &of, 16.0);
    drop(stream);
    service.until_metric("lineway_sip_connections_open", &[("node", "sip")], 0.0);
    assert_eq!(service.get("/readyz").status, 200);
}

#[test]
fn sip_r110_the_built_in_script_answers_options() {
    let chain = listener("\"udp:127.0.0.1:0\", \"tcp:127.0.0.1:0\"", "");
    let service = Service::start(&(chain + &router("mode = \"stateless\"")));
    let [udp, tcp] = service.all_at("sip")[..] else { panic!("two sockets") };
    assert!(Udp::new().asks(udp, "one").starts_with("SIP/2.0 200 "));
    assert!(asks(&mut connect(tcp), "two").starts_with("SIP/2.0 200 "));
    assert_eq!(node(&service, "routes")["settings"]["mode"], "stateless");
}

#[test]
fn sip_s9_another_text_of_the_script_is_taken_up_by_all_workers_and_connections_stay() {
    let script = Script::new("First");
    let chain = script.chain("");
    let service = Service::start(&chain);
    let [udp, tcp] = service.all_at("sip")[..] else { panic!("two sockets") };
    let (client, mut stream) = (Udp::new(), connect(tcp));
    assert_eq!(asks(&mut stream, "before"), "SIP/2.0 200 First");
    script.answers("Second");
    let event = service.reload_and_wait(&chain);
    assert_eq!(text(&event, "changes"), "changed routes");
    for call in CALLS {
        assert_eq!(client.asks(udp, call), "SIP/2.0 200 Second");
        assert_eq!(asks(&mut stream, call), "SIP/2.0 200 Second");
    }
    assert_eq!(service.all_at("sip").len(), 2, "no socket was bound again");
    let event = service.reload_and_wait(&chain);
    assert_eq!(text(&event, "changes"), "no node changed");
}

#[test]
fn sip_s9_a_script_with_an_error_changes_nothing() {
    let script = Script::new("First");
    let chain = script.chain("");
    let service = Service::start(&chain);
    let udp = service.all_at("sip")[0];
    let client = Udp::new();
    script.write("function ksr_request_route()\n    if then\nend\n");
    let before = service.log.len();
    service.reload(&chain);
    let event = service.log.wait_after(before, "the error", |event| {
        text(event, "message").contains("nothing changed")
    });
    for part in ["node \"routes\", settings.script", "routes.lua:2: "] {
        assert!(text(&event, "message").contains(part), "{part} in {event}");
    }
    service.until_metric("lineway_reloads_total", &[("result", "rejected")], 1.0);
    for call in CALLS {
        assert_eq!(client.asks(udp, call), "SIP/2.0 200 First");
    }
    assert_eq!(service.get("/readyz").status, 200);
}

#[test]
fn sip_s9_a_changed_listener_keeps_its_addresses() {
    let script = Script::new("Here");
    let service = Service::start(&script.chain(""));
    let [udp, tcp] = service.all_at("sip")[..] else { panic!("two sockets") };
    let (client, mut stream) = (Udp::new(), connect(tcp));
    assert_eq!(asks(&mut stream, "before"), "SIP/2.0 200 Here");
    // It stands still while a datagram and a connection come: neither is lost or refused.
    service.signal(Signal::STOP);
    let waits = options(udp, client.0.local_addr().unwrap(), "UDP", "waits");
    client.0.send_to(&waits, udp).unwrap();
    let _late = connect(tcp);
    service.reload(&script.chain(", alias = [\"example.com\"]"));
    service.signal(Signal::CONT);
    let mut reply = [0; 4096];
    let length = client.0.recv(&mut reply).expect("an answer");
    assert_eq!(first_line(&reply[..length], "waits"), "SIP/2.0 200 Here");
    service
        .log
        .wait("the reload", |event| text(event, "message") == "the configuration was taken over");
    assert_eq!(service.all_at("sip"), [udp, tcp, udp, tcp]);
    for call in CALLS {
        assert_eq!(client.asks(udp, call), "SIP/2.0 200 Here");
    }
    assert_eq!(asks(&mut connect(tcp), "after"), "SIP/2.0 200 Here");
    ended(&mut stream);
}

#[test]
fn sip_s9_a_removed_chain_leaves_its_ports() {
    let script = Script::new("Here");
    let service = Service::start(&script.chain(""));
    let [udp, tcp] = service.all_at("sip")[..] else { panic!("two sockets") };
    let mut stream = connect(tcp);
    assert_eq!(asks(&mut stream, "before"), "SIP/2.0 200 Here");
    let other = common::listener("in", "echo", "") + &common::end("echo", "EchoServer");
    service.reload_and_wait(&format!("[service]\nworkers = 2\n{other}"));
    ended(&mut stream);
    common::until("the ports are free", || {
        UdpSocket::bind(udp).is_ok() && TcpListener::bind(tcp).is_ok()
    });
    assert!(!service.get("/readyz").text().contains("sip"), "it is not waited for");
    service.reload_and_wait(&script.chain(""));
    assert_eq!(Udp::new().asks(service.all_at("sip")[2], "again"), "SIP/2.0 200 Here");
}

#[test]
fn sip_s9_a_taken_address_is_an_error_of_the_start() {
    let script = Script::new("Here");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let chain = script.chain_at(&format!("\"tcp:127.0.0.1:0\", \"udp:{address}\""), "");
    let (code, told) = run_to_end(&config(&chain));
    assert_eq!(code, Some(1), "{told}");
    for part in ["node \\\"sip\\\", settings.listen", &address.to_string(), "in use"] {
        assert!(
            told.contains(part) || told.contains(&part.replace("\\\"", "\"")),
            "{part}: {told}"
        );
    }
    // The same at a reload changes nothing.
    let service = Service::start(&script.chain(""));
    let before = service.log.len();
    service.reload(&chain);
    service.log.wait_after(before, "the error", |event| {
        let message = text(event, "message");
        message.contains("nothing changed") && message.contains("in use")
    });
    assert_eq!(Udp::new().asks(service.all_at("sip")[0], "still"), "SIP/2.0 200 Here");
}

#[test]
fn sip_s9_two_copies_of_the_program_do_not_share_a_port() {
    let script = Script::new("Here");
    let service = Service::start(&script.chain(""));
    let [udp, tcp] = service.all_at("sip")[..] else { panic!("two sockets") };
    for listen in [format!("\"udp:{udp}\""), format!("\"tcp:{tcp}\"")] {
        let (code, told) = run_to_end(&config(&script.chain_at(&listen, "")));
        assert_eq!((code, told.contains("in use")), (Some(1), true), "{told}");
    }
}

#[test]
fn sip_s9_a_drain_stops_reading_at_once() {
    let script = Script::new("Here");
    let mut service = Service::start(&script.chain(""));
    let [udp, tcp] = service.all_at("sip")[..] else { panic!("two sockets") };
    assert_eq!(Udp::new().asks(udp, "before"), "SIP/2.0 200 Here");
    let mut stream = connect(tcp);
    assert_eq!(asks(&mut stream, "before"), "SIP/2.0 200 Here");
    service.signal(Signal::TERM);
    assert!(service.wait(PATIENCE).success());
    ended(&mut stream);
    UdpSocket::bind(udp).expect("the port is free");
}
