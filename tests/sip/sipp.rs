//! Whole calls that `SIPp` plays through the built-in script. None may fail.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::common::until;
use crate::kit::{Proxy, Setup};

/// Where sipp is to be had.
fn has_sipp() -> bool {
    match Command::new("sipp").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound && std::env::var_os("CI").is_none() => {
            eprintln!("skipped: sipp is not there (apt-get install sip-tester)");
            false
        }
        Err(error) => panic!("sipp: {error} (apt-get install sip-tester)"),
    }
}

/// A port that is free for both transports.
fn free_port() -> u16 {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let at = udp.local_addr().expect("an address");
        if TcpListener::bind(at).is_ok() {
            return at.port();
        }
    }
}

/// Whether somebody has this port of 127.0.0.1. Asked without taking it, which could be at the moment
/// at which sipp wants it.
fn is_taken(tcp: bool, port: u16) -> bool {
    let table = if tcp { "/proc/net/tcp" } else { "/proc/net/udp" };
    let table = fs::read_to_string(table).expect("a table of sockets");
    let local = format!(" 0100007F:{port:04X} 00000000:0000 ");
    table.lines().any(|line| line.contains(&local))
}

/// A running sipp.
struct Player {
    child: Child,
    name: &'static str,
    folder: TempDir,
}

impl Player {
    fn start(name: &'static str, port: u16, calls: u32, more: &[&str]) -> Self {
        Self::losing(None, name, port, calls, more)
    }

    /// One that loses so many percent of what it sends again by itself. (sipp takes an ACK that comes
    /// late, behind the BYE, for the end of the call.)
    fn losing(lost: Option<u32>, name: &'static str, port: u16, calls: u32, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut scenario = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests/sip/scenarios")
            .join(name)
            .with_extension("xml");
        if let Some(percent) = lost {
            let text = fs::read_to_string(&scenario).expect("a scenario");
            scenario = folder.path().join("scenario.xml");
            // And is there as long as it may be asked again.
            let text = text
                .replace("<send retrans", &format!("<send lost=\"{percent}\" retrans"))
                .replace("<timewait milliseconds=\"2000\"", "<timewait milliseconds=\"20000\"");
            fs::write(&scenario, text).expect("it is written");
        }
        let mut command = Command::new("sipp");
        command
            .arg("-sf")
            .arg(scenario)
            .args(["-i", "127.0.0.1", "-p", &port.to_string(), "-m", &calls.to_string()])
            .args(["-nostdin", "-timeout", "90s", "-timeout_error", "-trace_err", "-error_file"])
            .arg(folder.path().join("errors"))
            .args(more)
            .stdin(Stdio::null())
            .stdout(File::create(folder.path().join("told")).expect("a file"))
            .stderr(Stdio::null());
        Self { child: command.spawn().expect("sipp starts"), name, folder }
    }

    /// It ends, and no call failed.
    #[track_caller]
    fn succeeds(mut self) {
        let status = self.child.wait().expect("it is a child");
        let read = |file: &str| fs::read(self.folder.path().join(file)).unwrap_or_default();
        let told = String::from_utf8_lossy(&read("told")).into_owned();
        let end = told.len().saturating_sub(6000);
        let told = told.get(end..).unwrap_or_default();
        let errors = String::from_utf8_lossy(&read("errors")).into_owned();
        let errors: String = errors.chars().take(6000).collect();
        assert!(status.success(), "{}: {status}\n{told}\n{errors}", self.name);
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // It may be over.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One side speaks UDP or TCP.
#[derive(Clone, Copy)]
struct Side {
    scenario: &'static str,
    tcp: bool,
}

const fn udp(scenario: &'static str) -> Side {
    Side { scenario, tcp: false }
}

const fn tcp(scenario: &'static str) -> Side {
    Side { scenario, tcp: true }
}

fn mode(tcp: bool) -> &'static str {
    if tcp { "t1" } else { "u1" }
}

/// So many calls from one to the other, all of which succeed; `lost` is what each side loses, in
/// percent. Without that nobody sends anything again, so nothing may be lost in between.
#[track_caller]
fn calls(caller: Side, callee: Side, count: u32, lost: Option<u32>) -> Proxy {
    let proxy = Setup::default().built_in();
    let (from, to) = (free_port(), free_port());
    let again: &[&str] = if lost.is_some() { &[] } else { &["-nr"] };
    let answering = [&["-t", mode(callee.tcp)], again].concat();
    let answering = Player::losing(lost, callee.scenario, to, count, &answering);
    until("the callee listens", || is_taken(callee.tcp, to));
    let by = if caller.tcp { proxy.tcp() } else { proxy.udp() }.to_string();
    let far = format!("127.0.0.1:{to};transport={}", if callee.tcp { "tcp" } else { "udp" });
    let mut calling = vec!["-t", mode(caller.tcp), "-r", "100", "-key", "far", &far];
    calling.extend(again);
    calling.push(&by);
    Player::losing(lost, caller.scenario, from, count, &calling).succeeds();
    if lost.is_none() {
        answering.succeeds();
    }
    proxy
}

/// What both sides sent passed.
#[track_caller]
fn assert_counted(proxy: &Proxy, count: u32) {
    for method in ["INVITE", "ACK", "BYE"] {
        let of = [("node", "routes"), ("method", method)];
        let forwarded = proxy.service.metric("lineway_sip_requests_forwarded_total", &of);
        assert!(forwarded >= f64::from(count), "{method}: {forwarded}");
    }
    assert!(!proxy.service.log.whole().contains("\"ERROR\""), "{}", proxy.service.log.whole());
}

#[test]
fn sip_sipp_calls_that_the_caller_ends() {
    if has_sipp() {
        assert_counted(&calls(udp("caller"), udp("callee"), 300, None), 300);
    }
}

#[test]
fn sip_sipp_calls_that_the_callee_ends_by_the_recorded_route() {
    if has_sipp() {
        assert_counted(&calls(udp("caller_hung_up_on"), udp("callee_hangs_up"), 300, None), 300);
    }
}

#[test]
fn sip_sipp_calls_from_tcp_to_udp() {
    if has_sipp() {
        assert_counted(&calls(tcp("caller"), udp("callee"), 300, None), 300);
    }
}

#[test]
fn sip_sipp_calls_from_udp_to_tcp() {
    if has_sipp() {
        assert_counted(&calls(udp("caller"), tcp("callee"), 300, None), 300);
    }
}

#[test]
fn sip_sipp_calls_over_tcp_that_the_callee_ends_by_the_caller_s_connection() {
    if has_sipp() {
        assert_counted(&calls(tcp("caller_hung_up_on"), udp("callee_hangs_up"), 200, None), 200);
    }
}

#[test]
fn sip_sipp_calls_with_lost_datagrams() {
    if has_sipp() {
        assert_counted(&calls(udp("caller"), udp("callee"), 200, Some(15)), 190);
    }
}

#[test]
fn sip_sipp_options() {
    if !has_sipp() {
        return;
    }
    let proxy = Setup::default().built_in();
    for (tcp, at) in [(false, proxy.udp()), (true, proxy.tcp())] {
        let at = at.to_string();
        let asking = ["-t", mode(tcp), "-r", "200", at.as_str()];
        Player::start("options", free_port(), 400, &asking).succeeds();
    }
}
