//! Who may ask: what keeps a web page in the operator's browser away from the admin interface.
//!
//! A page can point a name of its own at this machine and speak with the service as its own origin
//! (DNS rebinding); the `Host` of such a request is that name. So only addresses of the listening
//! socket and `localhost` are served.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use hyper::header::{HOST, HeaderName};
use hyper::{Method, Request, StatusCode, Version};

/// The header that whatever changes something needs: a page of another origin can not set it.
pub(super) const LINEWAY: HeaderName = HeaderName::from_static("x-lineway");

/// Where a connection arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// The address that the server listens on.
    pub(super) listening: SocketAddr,
    /// The address that the client connected to.
    pub(super) local: IpAddr,
}

/// Refuses a request that may come from a web page of someone else.
pub(super) fn check<B>(
    request: &Request<B>,
    arrival: Arrival,
) -> Result<(), (StatusCode, &'static str)> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err((StatusCode::BAD_REQUEST, "more than one Host header"));
    }
    let refused =
        (StatusCode::FORBIDDEN, "the Host is neither the listening address nor localhost");
    match host {
        Some(host) if !host.to_str().is_ok_and(|host| arrival.serves(host)) => return Err(refused),
        None if request.version() >= Version::HTTP_11 => {
            return Err((StatusCode::BAD_REQUEST, "no Host header"));
        }
        _ => {}
    }
    if let Some(authority) = request.uri().authority()
        && !arrival.serves(authority.as_str())
    {
        return Err(refused);
    }
    if request.method() == Method::POST {
        let value = request.headers().get(LINEWAY);
        if value.is_none_or(|value| value.as_bytes() != b"1") {
            return Err((StatusCode::FORBIDDEN, "a change needs the header X-Lineway: 1"));
        }
    }
    Ok(())
}

impl Arrival {
    /// Whether `host` is an address of this server, with its port or none.
    fn serves(self, host: &str) -> bool {
        let (name, port) = match host.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((name, rest)) => (name, rest),
                None => return false,
            },
            None => host.split_at(host.find(':').unwrap_or(host.len())),
        };
        let right_port = port.is_empty()
            || port.strip_prefix(':').is_some_and(|port| {
                port.bytes().all(|b| b.is_ascii_digit())
                    && port.parse() == Ok(self.listening.port())
            });
        if !right_port {
            return false;
        }
        if host.starts_with('[') {
            name.parse::<Ipv6Addr>().is_ok_and(|ip| self.serves_ip(ip.into()))
        } else {
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<Ipv4Addr>().is_ok_and(|ip| self.serves_ip(ip.into()))
        }
    }

    fn serves_ip(self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let listening = self.listening.ip();
        ip == listening.to_canonical()
            || ip == Ipv4Addr::LOCALHOST
            || ip == Ipv6Addr::LOCALHOST
            || (listening.is_unspecified() && (ip == self.local.to_canonical() || is_ours(ip)))
    }
}

/// Whether this machine has the address.
fn is_ours(ip: IpAddr) -> bool {
    let broadcast = IpAddr::V4(Ipv4Addr::BROADCAST);
    !ip.is_unspecified()
        && !ip.is_multicast()
        && ip != broadcast
        && UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::Arrival;

    fn arrival(listening: &str, local: &str) -> Arrival {
        Arrival { listening: listening.parse().unwrap(), local: local.parse().unwrap() }
    }

    #[test]
    fn a_loopback_listener_serves_its_address_and_localhost() {
        let here = arrival("127.0.0.1:9600", "127.0.0.1");
        for host in
            ["127.0.0.1:9600", "127.0.0.1", "localhost", "LocalHost:9600", "[::1]:9600", "[::1]"]
        {
            assert!(here.serves(host), "{host}");
        }
        for host in [
            "",
            ":9600",
            "127.0.0.1:9601",
            "127.0.0.1:",
            "127.0.0.1:+9600",
            "127.0.0.1:99999999999",
            "127.0.0.2",
            "192.0.2.1:9600",
            "evil.example",
            "localhost.evil.example",
            "user@localhost",
            "127.0.0.1.evil.example:9600",
            "::1",
            "[::1",
            "[::1]9600",
            "[::2]:9600",
            "[127.0.0.1]",
            "0x7f.1",
            "0.0.0.0:9600",
        ] {
            assert!(!here.serves(host), "{host}");
        }
    }

    #[test]
    fn a_listener_on_every_address_serves_the_addresses_of_the_machine() {
        for listening in ["0.0.0.0:80", "[::]:80"] {
            let here = arrival(listening, "198.51.100.7");
            for host in ["198.51.100.7", "198.51.100.7:80", "127.0.0.9", "[::ffff:127.0.0.1]:80"] {
                assert!(here.serves(host), "{listening} {host}");
            }
            for host in ["192.0.2.1", "198.51.100.7:81", "224.0.0.1", "255.255.255.255", "a.b"] {
                assert!(!here.serves(host), "{listening} {host}");
            }
        }
        assert!(arrival("[::]:80", "::ffff:198.51.100.7").serves("198.51.100.7"));
    }
}
