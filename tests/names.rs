//! A host name whose address changes, and name servers that are of little help (T10).

mod common;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::dns::{NameServer, Says};
use common::peers::{connect, echo, echoed};
use common::{PATIENCE, Service, connector, listener, until, within};
use socket2::SockRef;

const SECOND: Duration = Duration::from_secs(1);

const TWO: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const THREE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));
const SIX: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// A server that tells each client its own address, until it is dropped.
struct Tells {
    listener: Arc<TcpListener>,
    thread: Option<JoinHandle<()>>,
}

impl Tells {
    fn at(address: SocketAddr) -> Option<Self> {
        let listener = Arc::new(TcpListener::bind(address).ok()?);
        let serving = Arc::clone(&listener);
        let thread = std::thread::spawn(move || {
            for mut stream in serving.incoming().map_while(Result::ok) {
                // A client may leave as it likes.
                let _ = stream.read(&mut [0]);
                let _ = write!(stream, "{}", address.ip());
            }
        });
        Some(Self { listener, thread: Some(thread) })
    }

    /// Servers on one port of all three addresses.
    fn everywhere() -> (u16, [Self; 3]) {
        for _ in 0..100 {
            let free = TcpListener::bind((TWO, 0)).expect("a free port");
            let port = free.local_addr().expect("an address").port();
            drop(free);
            let servers = [TWO, THREE, SIX].map(|ip| Self::at((ip, port).into()));
            if let [Some(two), Some(three), Some(six)] = servers {
                return (port, [two, three, six]);
            }
        }
        panic!("no port is free on 127.0.0.2, 127.0.0.3 and ::1");
    }
}

impl Drop for Tells {
    fn drop(&mut self) {
        // The thread's accept fails from here on.
        SockRef::from(&*self.listener).shutdown(Shutdown::Both).expect("it listens");
        self.thread.take().map(JoinHandle::join);
    }
}

/// A line to `dest.test`, and one to an echo that needs no name; one worker has both.
fn service(dns: &NameServer, port: u16) -> Service {
    let nodes = format!(
        "[service]\nworkers = 1\n[dns]\nservers = [\"{}\"]\n{}{}{}[[node]]\nname = \"out\"\n\
         type = \"TcpConnector\"\nsettings = {{ address = \"dest.test\", port = {port} }}\n",
        dns.address(),
        listener("other", "echo", ""),
        connector("echo", echo(), ""),
        listener("in", "out", ""),
    );
    Service::start(&nodes)
}

/// Which address a line reaches; nothing when it ends without.
fn reached(entry: SocketAddr) -> Option<IpAddr> {
    let mut client = connect(entry);
    let mut told = String::new();
    // A line that can not be connected onward may end by a reset.
    let _ = client.write_all(b"?").and_then(|()| client.read_to_string(&mut told));
    told.parse().ok()
}

/// A name with this one address, for a second.
fn at(ip: IpAddr) -> Says {
    Says::Addresses(1, vec![ip])
}

#[test]
fn case_t25_a_name_is_resolved_again_when_its_ttl_is_over() {
    let (port, [two, _three, _six]) = Tells::everywhere();
    let dns = NameServer::start(at(TWO));
    let service = service(&dns, port);
    let entry = service.at("in");
    assert_eq!(reached(entry), Some(TWO));

    dns.say(at(THREE));
    drop(two);
    let changed = Instant::now();
    until("a second is over", || {
        reached(entry);
        changed.elapsed() >= SECOND
    });
    for line in 0..20 {
        assert_eq!(reached(entry), Some(THREE), "line {line}");
    }

    dns.say(Says::Absent);
    until("a line ends", || reached(entry).is_none());
    let since = dns.answered().elapsed();
    assert!(since < SECOND, "NXDOMAIN was said {since:?} ago");

    dns.say(Says::Addresses(1, vec![SIX]));
    until("a line arrives again", || reached(entry).is_some());
    for line in 0..20 {
        assert_eq!(reached(entry), Some(SIX), "line {line}");
    }
}

/// Longer than the service waits for one answer (`[dns] timeout-ms`).
const SILENCE: Duration = Duration::from_secs(3);

#[test]
fn case_t25_a_silent_name_server_delays_only_lines_that_need_it() {
    let (port, _servers) = Tells::everywhere();
    let dns = NameServer::start(at(TWO));
    let service = service(&dns, port);
    let (entry, other) = (service.at("in"), service.at("other"));
    let mut old = connect(other);
    echoed(&mut old, "before");

    dns.say(Says::Nothing);
    let begun = Instant::now();
    // As long as the last answer lives, lines arrive at once.
    let waits = std::thread::spawn(move || {
        loop {
            let opened = Instant::now();
            let arrived = reached(entry);
            if opened.elapsed() >= SILENCE || begun.elapsed() > PATIENCE {
                return (opened.elapsed(), arrived);
            }
            assert_eq!(arrived, Some(TWO));
        }
    });
    until("a line waits for an answer", || dns.is_waited_for());
    let silent = Instant::now();
    until("the silence is over", || {
        echoed(&mut old, "old line");
        echoed(&mut connect(other), "later line");
        silent.elapsed() >= SILENCE
    });
    dns.say(at(THREE));
    let (took, arrived) = waits.join().expect("lines arrive");
    assert_eq!(arrived, Some(THREE), "after {took:?}");
    assert!(took >= SILENCE, "{took:?}");
}

#[test]
fn case_t25_a_name_whose_address_refuses_is_resolved_again_before_its_ttl_is_over() {
    let (port, [two, _three, _six]) = Tells::everywhere();
    let an_hour = |ip| Says::Addresses(3600, vec![ip]);
    let dns = NameServer::start(an_hour(TWO));
    let service = service(&dns, port);
    let entry = service.at("in");
    assert_eq!(reached(entry), Some(TWO));
    dns.say(an_hour(THREE));
    assert_eq!(reached(entry), Some(TWO), "an answer is used for its TTL");
    drop(two);
    within(3 * SECOND, "the other address", || reached(entry) == Some(THREE));
}
