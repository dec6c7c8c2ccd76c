//! The registrar of the service: its bindings across a restart, a crash and a reload.

mod common;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{PATIENCE, Service, Signal, config, run_to_end, text, until};
use tempfile::TempDir;

/// Saves a REGISTER, and tells of other requests whether their user has a binding.
const SCRIPT: &str = r#"
function ksr_request_route()
    if KSR.is_method("REGISTER") then
        return KSR.registrar.save("location", 0)
    end
    KSR.sl.sl_send_reply(200, KSR.registrar.registered("location") == 1 and "There" or "Gone")
end
"#;

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(place.path("routes.lua"), SCRIPT).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn redb(&self, name: &str) -> String {
        format!("redb:{}", self.path(name).display())
    }

    /// A chain whose registrar keeps its bindings there.
    fn chain(&self, location: &str, alias: &str) -> String {
        let script = self.path("routes.lua");
        format!(
            "[service]\nworkers = 2\n[[node]]\nname = \"sip\"\ntype = \"SipListener\"\n\
             next = \"routes\"\nsettings = {{ listen = [\"udp:127.0.0.1:0\"], alias = [{alias}] }}\n\
             [[node]]\nname = \"routes\"\ntype = \"SipRouter\"\n\
             settings = {{ script = \"{}\", location = \"{location}\" }}\n",
            script.display()
        )
    }
}

struct Phone(UdpSocket);

impl Phone {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    /// Asks, and gets the reason phrase of the answer.
    #[track_caller]
    fn asks(&self, at: SocketAddr, method: &str, user: &str, contact: &str) -> String {
        let from = self.0.local_addr().unwrap();
        let request = format!(
            "{method} sip:{user}@example.com SIP/2.0\r\n\
             Via: SIP/2.0/UDP {from};branch=z9hG4bK{method}{user}\r\n\
             From: <sip:{user}@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\n\
             Call-ID: {method}{user}\r\nCSeq: 1 {method}\r\n{contact}Content-Length: 0\r\n\r\n"
        );
        self.0.send_to(request.as_bytes(), at).unwrap();
        let mut reply = [0; 4096];
        let length = self.0.recv(&mut reply).expect("an answer");
        let reply = String::from_utf8_lossy(&reply[..length]).into_owned();
        reply.lines().next().unwrap().split_once("200 ").expect(&reply).1.to_owned()
    }

    #[track_caller]
    fn registers(&self, at: SocketAddr, user: &str) {
        let contact = format!("Contact: <sip:{user}@10.9.8.7>\r\n");
        assert_eq!(self.asks(at, "REGISTER", user, &contact), "OK");
    }

    #[track_caller]
    fn is_there(&self, at: SocketAddr, user: &str) -> bool {
        match self.asks(at, "OPTIONS", user, "").as_str() {
            "There" => true,
            "Gone" => false,
            other => panic!("{other}"),
        }
    }
}

fn last_at(service: &Service) -> SocketAddr {
    *service.all_at("sip").last().unwrap()
}

#[test]
fn a_restart_finds_the_bindings_of_its_file() {
    let (place, phone) = (Place::new(), Phone::new());
    let chain = place.chain(&place.redb("location"), "");
    let mut service = Service::start(&chain);
    let at = last_at(&service);
    assert!(!phone.is_there(at, "bob"));
    phone.registers(at, "bob");
    assert!(phone.is_there(at, "bob"));
    service.until_metric("lineway_sip_registrations_total", &[("result", "registered")], 1.0);
    service.until_metric("lineway_sip_bindings", &[("node", "routes")], 1.0);
    service.signal(Signal::TERM);
    assert!(service.wait(PATIENCE).success());
    let service = Service::start(&chain);
    assert!(phone.is_there(last_at(&service), "bob"));
    assert!(!phone.is_there(last_at(&service), "eve"));
}

#[test]
fn a_crash_leaves_what_was_written() {
    let (place, phone) = (Place::new(), Phone::new());
    let chain = place.chain(&place.redb("location"), "");
    let mut service = Service::start(&chain);
    let written = |user: &str| {
        let text = format!("sip:{user}@10.9.8.7");
        let file = fs::read(place.path("location")).unwrap();
        file.windows(text.len()).any(|bytes| bytes == text.as_bytes())
    };
    // What is seen of the second commit proves the end of the first.
    for user in ["bob", "eve"] {
        phone.registers(last_at(&service), user);
        until("it is written", || written(user));
    }
    service.signal(Signal::KILL);
    assert!(!service.wait(PATIENCE).success());
    let service = Service::start(&chain);
    assert!(phone.is_there(last_at(&service), "bob"));
}

#[test]
fn a_reload_keeps_bindings_unless_they_are_to_be_elsewhere() {
    let (place, phone) = (Place::new(), Phone::new());
    let service = Service::start(&place.chain("memory", ""));
    phone.registers(last_at(&service), "bob");
    service.reload_and_wait(&place.chain("memory", "\"a.example\""));
    assert!(phone.is_there(last_at(&service), "bob"), "the listener was built anew");
    fs::write(place.path("routes.lua"), format!("{SCRIPT}-- changed")).unwrap();
    service.reload_and_wait(&place.chain("memory", "\"a.example\""));
    assert!(phone.is_there(last_at(&service), "bob"), "another script");

    let file = place.redb("location");
    service.reload_and_wait(&place.chain(&file, "\"a.example\""));
    assert!(!phone.is_there(last_at(&service), "bob"), "another place");
    phone.registers(last_at(&service), "eve");
    service.reload_and_wait(&place.chain(&file, ""));
    assert!(phone.is_there(last_at(&service), "eve"), "the same file");
    service.reload_and_wait(&place.chain("memory", ""));
    assert!(!phone.is_there(last_at(&service), "eve"));
    service.reload_and_wait(&place.chain(&file, ""));
    assert!(phone.is_there(last_at(&service), "eve"), "closed and opened again");
}

#[test]
fn a_file_that_is_something_else_is_an_error_of_the_start() {
    let place = Place::new();
    fs::write(place.path("other"), "no bindings at all ".repeat(500)).unwrap();
    let chain = place.chain(&place.redb("other"), "");
    let (code, told) = run_to_end(&config(&chain));
    assert_eq!(code, Some(1), "{told}");
    for part in ["settings.location", "the file of bindings ", "can not be used"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // The same at a reload changes nothing.
    let (phone, service) = (Phone::new(), Service::start(&place.chain("memory", "")));
    phone.registers(last_at(&service), "bob");
    let before = service.log.len();
    service.reload(&chain);
    service.log.wait_after(before, "the error", |event| {
        let message = text(event, "message");
        message.contains("nothing changed") && message.contains("settings.location")
    });
    assert!(phone.is_there(last_at(&service), "bob"));
}

#[test]
fn a_check_makes_no_file() {
    let place = Place::new();
    let file = place.path("config.toml");
    fs::write(&file, place.chain("redb:location", "").replace(":0\"", ":5060\"")).unwrap();
    let check = |file: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lineway"));
        command.args(["check", "--config"]).arg(file).output().unwrap()
    };
    let checked = check(&file);
    assert!(checked.status.success(), "{checked:?}");
    assert!(!place.path("location").exists());
}
