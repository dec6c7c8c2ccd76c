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
    for (settings, mode) in [("", "stateful"), ("mode = \"stateless\"", "stateless")] {
        let service = Service::start(&(chain.clone() + &router(settings)));
        let [udp, tcp] = service.all_at("sip")[..] else { panic!("two sockets") };
        assert!(Udp::new().asks(udp, "one").starts_with("SIP/2.0 200 "));
        assert!(asks(&mut connect(tcp), "two").starts_with("SIP/2.0 200 "));
        assert_eq!(node(&service, "routes")["settings"]["mode"], mode);
    }
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
fn sip_s9_a_drain_without_transactions_stops_reading_at_once() {
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

/// A phone: what it hears is text.
struct Phone(UdpSocket);

impl Phone {
    fn new() -> Self {
        Self(Udp::new().0)
    }

    fn at(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    fn send(&self, message: &str, to: SocketAddr) {
        self.0.send_to(message.as_bytes(), to).unwrap();
    }

    /// The next message that begins so; what comes before it is passed over.
    #[track_caller]
    fn hears(&self, begin: &str) -> (String, SocketAddr) {
        let mut bytes = [0; 4096];
        loop {
            let (length, from) = self.0.recv_from(&mut bytes).expect(begin);
            let message = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if message.starts_with(begin) {
                return (message, from);
            }
        }
    }

    /// Waits for a request, and answers it.
    #[track_caller]
    fn answers(&self, method: &str, status: &str) -> String {
        let (request, from) = self.hears(method);
        self.send(&reply(&request, status), from);
        request
    }

    fn request(&self, method: &str, number: u32, call: &str) -> String {
        let at = self.at();
        format!(
            "{method} sip:bob@example.com SIP/2.0\r\n\
             Via: SIP/2.0/UDP {at};branch=z9hG4bK{call}{number};rport\r\n\
             From: <sip:a@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: {call}\r\n\
             CSeq: {number} {method}\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        )
    }
}

/// The answer of a phone.
fn reply(request: &str, status: &str) -> String {
    let mut reply = format!("SIP/2.0 {status}\r\n");
    for line in request.lines() {
        let name = line.split(':').next().unwrap_or_default();
        if name == "To" && !line.contains(";tag=") {
            reply.push_str(line);
            reply.push_str(";tag=phone\r\n");
        } else if ["Via", "From", "To", "Call-ID", "CSeq"].contains(&name) {
            reply.push_str(line);
            reply.push_str("\r\n");
        }
    }
    reply + "Content-Length: 0\r\n\r\n"
}

/// Calls go to all of these phones; OPTIONS is answered.
fn rings(phones: &[&Phone]) -> Script {
    let script = Script::new("Here");
    let others: Vec<_> = phones[1..]
        .iter()
        .map(|phone| format!("KSR.corex.append_branch_uri(\"sip:bob@{}\")", phone.at()))
        .collect();
    script.write(&format!(
        "function ksr_request_route()\n\
             if KSR.is_OPTIONS() then KSR.sl.sl_send_reply(200, \"Here\") return end\n\
             KSR.seturi(\"sip:bob@{}\")\n\
             if KSR.is_INVITE() then {} end\n\
             KSR.tm.t_relay()\n\
         end\n",
        phones[0].at(),
        others.join(" ")
    ));
    script
}

/// A chain with that script, whose transactions are gone soon.
fn stateful(script: &Script, listen: &str, more: &str) -> String {
    let settings = format!("script = \"{}\", wt-timer-ms = 200", script.path().display());
    format!("[service]\nworkers = 2\n{}{}", listener(listen, more), router(&settings))
}

const UDP: &str = "\"udp:127.0.0.1:0\"";

/// The transaction of an INVITE as `/api/sip` shows it.
fn call(service: &Service, call: &str) -> Option<Value> {
    let shown = service.json("/api/sip");
    let all = shown["chains"][0]["transactions"].as_array().unwrap();
    let is = |one: &&Value| one["call_id"] == call && one["method"] == "INVITE";
    all.iter().find(is).cloned()
}

#[test]
fn sip_s9_the_pages_show_a_fork_that_rings() {
    let (a, b, c, caller) = (Phone::new(), Phone::new(), Phone::new(), Phone::new());
    let script = rings(&[&a, &b, &c]);
    let service = Service::start(&stateful(&script, UDP, ""));
    let proxy = service.all_at("sip")[0];
    caller.send(&caller.request("INVITE", 1, "fork"), proxy);
    a.answers("INVITE", "180 Ringing");
    let to_b = b.answers("INVITE", "183 Session Progress");
    c.hears("INVITE");
    caller.hears("SIP/2.0 18");
    caller.hears("SIP/2.0 18");
    let shown = call(&service, "fork").expect("the call");
    assert_eq!(shown["caller"], caller.at().to_string());
    assert_eq!(
        (&shown["uri"], &shown["state"]),
        (&"sip:bob@example.com".into(), &"ringing".into())
    );
    assert!(shown["age_seconds"].as_f64().is_some_and(|age| age < 30.0), "{shown}");
    let branch = |phone: &Phone, state: &str, status: u16| serde_json::json!({ "uri": format!("sip:bob@{}", phone.at()), "state": state, "status": status });
    let branches = serde_json::json!([
        branch(&a, "ringing", 180),
        branch(&b, "ringing", 183),
        branch(&c, "sent", 0)
    ]);
    assert_eq!(shown["branches"], branches);
    let node = node(&service, "routes");
    let transactions = &node["sip"]["transactions"];
    assert_eq!((&transactions["invite"], &transactions["branches"]), (&1.into(), &3.into()));
    service.until_metric(
        "lineway_sip_transactions_open",
        &[("node", "routes"), ("kind", "invite")],
        1.0,
    );

    b.send(&reply(&to_b, "200 OK"), proxy);
    caller.hears("SIP/2.0 200");
    let cancel = a.answers("CANCEL", "200 OK");
    assert!(cancel.contains("\r\nReason: SIP ;cause=200"), "{cancel}");
    assert_eq!(
        service.json("/api/sip?limit=0")["chains"][0]["transactions"],
        serde_json::json!([])
    );
    // C never spoke: its branch, and with it the transaction, stays for the wait only.
    service.until_metric(
        "lineway_sip_forks_total",
        &[("node", "routes"), ("reason", "answered")],
        1.0,
    );
    assert_eq!(call(&service, "fork"), None);
}

#[test]
fn sip_s9_a_drain_refuses_new_calls_and_lets_the_others_end() {
    let (callee, caller, other) = (Phone::new(), Phone::new(), Phone::new());
    let script = rings(&[&callee]);
    let mut service = Service::start(&stateful(&script, UDP, ""));
    let proxy = service.all_at("sip")[0];
    let invite = caller.request("INVITE", 1, "rings");
    caller.send(&invite, proxy);
    let ringing = callee.answers("INVITE", "180 Ringing");
    caller.hears("SIP/2.0 180");
    service.signal(Signal::TERM);
    service.log.wait("the drain", |event| text(event, "message").starts_with("draining"));
    // The log tells of it before the workers know.
    let mut number = 1;
    let refused = loop {
        number += 1;
        other.send(&other.request("INVITE", number, "second"), proxy);
        let (reply, _) = other.hears("SIP/2.0 ");
        if !reply.starts_with("SIP/2.0 100") {
            break reply;
        }
        callee.answers("INVITE", "486 Busy Here");
        other.hears("SIP/2.0 486");
    };
    assert!(refused.starts_with("SIP/2.0 503 "), "{refused}");
    assert!(refused.contains("\r\nRetry-After: 10\r\n"), "{refused}");
    // A copy of the call that rings is no new call.
    caller.send(&invite, proxy);
    caller.hears("SIP/2.0 180");
    // What is no call is handled.
    other.send(&other.request("OPTIONS", 99, "alive"), proxy);
    other.hears("SIP/2.0 200");
    // The call that rings is answered, and the service ends when its transaction is over.
    callee.send(&reply(&ringing, "200 OK"), proxy);
    caller.hears("SIP/2.0 200");
    assert!(service.wait(PATIENCE).success());
    UdpSocket::bind(proxy).expect("the port is free");
}

#[test]
fn sip_s9_a_listener_that_is_built_anew_keeps_the_calls_that_ring() {
    let (callee, caller) = (Phone::new(), Phone::new());
    let script = rings(&[&callee]);
    let service = Service::start(&stateful(&script, UDP, ""));
    let proxy = service.all_at("sip")[0];
    let invite = caller.request("INVITE", 1, "stays");
    caller.send(&invite, proxy);
    let ringing = callee.answers("INVITE", "180 Ringing");
    caller.hears("SIP/2.0 180");
    service.reload_and_wait(&stateful(&script, UDP, ", alias = [\"example.org\"]"));
    assert_eq!(service.all_at("sip"), [proxy, proxy], "the same socket");
    // It is known: its last provisional comes again, and nothing goes on.
    caller.send(&invite, proxy);
    caller.hears("SIP/2.0 180");
    callee.send(&reply(&ringing, "486 Busy Here"), proxy);
    callee.hears("ACK");
    caller.hears("SIP/2.0 486");
    caller.send(&caller.request("ACK", 1, "stays"), proxy);
    let closed = [("node", "routes"), ("reason", "failed")];
    service.until_metric("lineway_sip_transactions_closed_total", &closed, 1.0);
}

#[test]
fn sip_s9_a_chain_that_moves_drains_beside_the_new_one() {
    let (callee, caller) = (Phone::new(), Phone::new());
    let script = rings(&[&callee]);
    let service = Service::start(&stateful(&script, UDP, ""));
    let before = service.all_at("sip")[0];
    caller.send(&caller.request("INVITE", 1, "moves"), before);
    let ringing = callee.answers("INVITE", "180 Ringing");
    caller.hears("SIP/2.0 180");
    let other = "\"udp:127.0.0.2:0\"";
    service.reload_and_wait(&stateful(&script, other, ""));
    let after = service.all_at("sip")[1];
    assert_ne!(before, after);
    assert_eq!(Udp::new().asks(after, "there"), "SIP/2.0 200 Here");
    caller.send(&caller.request("INVITE", 2, "late"), before);
    caller.hears("SIP/2.0 503");
    callee.send(&reply(&ringing, "200 OK"), before);
    caller.hears("SIP/2.0 200");
    common::until("the old socket is gone", || UdpSocket::bind(before).is_ok());
    assert_eq!(Udp::new().asks(after, "still"), "SIP/2.0 200 Here");
}
