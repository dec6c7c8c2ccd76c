//! Starting again after any end, a second copy, and what stands in the way of a start.

mod common;

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::dns::name_server;
use common::peers::{Reserved, connect, echoed};
use common::{
    PATIENCE, Service, Signal, command, config, connector, end, listener, listener_at, run_to_end,
};
use socket2::{Domain, Socket, Type};

/// An echo on this address.
fn echo_at(address: SocketAddr) -> String {
    listener_at("in", "echo", "127.0.0.1", address.port(), "") + &end("echo", "EchoServer")
}

#[test]
fn case_t15_a_killed_service_starts_again_at_once() {
    let (port, admin) = (Reserved::port(), Reserved::port());
    let file =
        config(&echo_at(port.address())).replace("127.0.0.1:0", &admin.address().to_string());
    let mut service = Service::spawn(&file).ready();
    for round in 0..20 {
        let mut clients: Vec<_> = (0..100).map(|_| connect(port.address())).collect();
        for client in &mut clients {
            echoed(client, "busy");
            client.write_all(&[7; 4096]).unwrap();
        }
        let _scraper = connect(admin.address());
        service.signal(Signal::KILL);
        service.wait(PATIENCE);
        let begun = Instant::now();
        service = Service::spawn(&file).ready();
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(1), "round {round}: {took:?}");
        echoed(&mut connect(port.address()), "again");
    }
}

#[test]
fn case_t15_a_second_copy_fails_and_takes_no_traffic() {
    let port = Reserved::port();
    let file = config(&echo_at(port.address()));
    let first = Service::spawn(&file).ready();
    let address = port.address();
    let second = std::thread::spawn(move || run_to_end(&file));
    let mut served = 0.0;
    while !second.is_finished() || served < 50.0 {
        echoed(&mut connect(address), "mine");
        served += 1.0;
    }
    let (code, told) = second.join().unwrap();
    assert_eq!(code, Some(1), "{told}");
    for word in ["\"in\"", &address.to_string(), "in use"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    first.until_metric("lineway_lines_opened_total", &[("node", "in")], served);
}

#[test]
fn case_t15_a_foreign_occupant_is_named_with_every_other_error() {
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    // One that would share its port.
    let sharing = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    sharing.set_reuse_port(true).unwrap();
    sharing.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    sharing.listen(8).unwrap();
    let taken = [plain.local_addr().unwrap(), sharing.local_addr().unwrap().as_socket().unwrap()];
    let dns = name_server(&[]);
    let nodes = listener_at("plain", "echo", "127.0.0.1", taken[0].port(), "")
        + &listener_at("sharing", "echo", "127.0.0.1", taken[1].port(), "")
        + &listener_at("elsewhere", "echo", "192.0.2.1", 0, "")
        + &end("echo", "EchoServer")
        + &listener("in", "lost", "")
        + "[[node]]\nname = \"lost\"\ntype = \"TcpConnector\"\n\
           settings = { address = \"nobody.example\", port = 1 }\n";
    let file = config(&format!("[dns]\nservers = [\"{dns}\"]\n{nodes}"));
    let (code, told) = run_to_end(&file);
    assert_eq!(code, Some(1), "{told}");
    let line_with = |words: &[&str]| {
        let has = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(told.lines().any(has), "{words:?}: {told}");
    };
    line_with(&["\"plain\"", "port", &taken[0].to_string(), "in use"]);
    line_with(&["\"sharing\"", "port", &taken[1].to_string(), "in use"]);
    line_with(&["\"elsewhere\"", "192.0.2.1"]);
    line_with(&["\"lost\"", "address", "nobody.example"]);
}

#[test]
fn the_address_of_the_admin_interface_may_be_taken_too() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = taken.local_addr().unwrap().to_string();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let nodes = echo_at(other.local_addr().unwrap());
    let (code, told) = run_to_end(&config(&nodes).replace("127.0.0.1:0", &admin));
    assert_eq!(code, Some(1), "{told}");
    for word in ["[admin]", &admin, "\"in\"", "in use"] {
        assert!(told.contains(word), "{word}: {told}");
    }
}

#[test]
fn tcp_t03_a_low_port_needs_a_right() {
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    if first.is_ok_and(|first| first.trim() == "0") {
        println!("left out: every port is free for everyone here");
        return;
    }
    let nodes = listener_at("low", "echo", "127.0.0.1", 1, "") + &end("echo", "EchoServer");
    let mut service = Service::spawn_with(&config(&nodes), |path| {
        let plain = command(path);
        if !rustix::process::geteuid().is_root() {
            return plain;
        }
        // Root without the right to low ports.
        let mut without = Command::new("setpriv");
        without.args(["--bounding-set", "-net_bind_service"]);
        without.arg(plain.get_program()).args(plain.get_args());
        without
    });
    let status = service.wait(PATIENCE);
    let told = service.log.whole();
    assert_eq!(status.code(), Some(1), "{told}");
    for word in ["\"low\"", "port", "127.0.0.1:1", "ermission denied"] {
        assert!(told.contains(word), "{word}: {told}");
    }
}

#[test]
fn a_wrong_configuration_ends_with_2_and_binds_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let nodes = listener_at(
        "in",
        "echo",
        "127.0.0.1",
        taken.local_addr().unwrap().port(),
        "nodelya = true,",
    ) + &end("echo", "EchoServer");
    let (code, told) = run_to_end(&config(&nodes));
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("nodelay"), "{told}");
    // Whoever had bound would have seen that the address is taken.
    assert!(!told.contains("in use"), "{told}");

    let missing = Command::new(env!("CARGO_BIN_EXE_lineway"))
        .args(["run", "--config", "/nonexistent/config.toml"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn tcp_t01_a_socket_of_the_service_manager_is_used() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // It waits since before the start.
    let mut early = connect(address);
    let inherited = OwnedFd::from(socket.try_clone().unwrap());
    let service = Service::spawn_with(&config(&echo_at(address)), |path| {
        let plain = command(path);
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"", "sh"])
            .arg(plain.get_program())
            .args(plain.get_args())
            .stdin(Stdio::from(inherited));
        shell
    });
    let service = service.ready();
    drop(socket);
    assert_eq!(service.at("in"), address);
    echoed(&mut early, "early");
    for _ in 0..20 {
        echoed(&mut connect(address), "later");
    }
    service.until_metric("lineway_lines_opened_total", &[("node", "in")], 21.0);
    // It is nobody's business after the end of the service.
    drop(service);
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn a_service_that_ended_leaves_its_port_to_others() {
    let port = Reserved::port();
    let mut service = Service::spawn(&config(&echo_at(port.address()))).ready();
    let _client = connect(port.address());
    service.signal(Signal::TERM);
    service.signal(Signal::TERM);
    assert_eq!(service.wait(PATIENCE).code(), Some(0));
    let to = connector("out", port.address(), "");
    let nodes = echo_at(port.address()) + &listener("entry", "out", "") + &to;
    let service = Service::start(&nodes);
    echoed(&mut connect(service.at("entry")), "through");
}
