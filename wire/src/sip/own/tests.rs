use super::*;
use crate::sip::kit;

fn id(socket: Option<&Socket>) -> Option<u16> {
    socket.map(|socket| socket.id.0)
}

fn own_uri(own: &Own, uri: &str) -> bool {
    own.is_own_uri(&Uri::parse(uri.as_bytes()).expect("a URI"))
}

#[test]
fn a_socket_is_own_by_address_port_and_transport() {
    let own = kit::owning(&["udp:127.0.0.1:5060", "tcp:127.0.0.1:5080"]);
    assert!(own.is_own(b"127.0.0.1", None, None), "no port is 5060");
    assert!(own.is_own(b"127.0.0.1", Some(5060), Some(Transport::Udp)));
    assert!(!own.is_own(b"127.0.0.1", Some(5060), Some(Transport::Tcp)));
    assert!(own.is_own(b"127.0.0.1", Some(5080), None));
    assert!(!own.is_own(b"127.0.0.1", Some(5080), Some(Transport::Udp)));
    assert!(!own.is_own(b"127.0.0.2", None, None));
    assert!(!own.is_own(b"localhost", None, None), "names are own by alias only");
}

#[test]
fn case_s23_an_ipv6_address_is_own_in_any_spelling() {
    let own = kit::owning(&["udp:[2001:db8::1]:5060"]);
    for spelling in ["[2001:db8::1]", "2001:db8::1", "[2001:DB8:0:0:0:0:0:1]"] {
        assert!(own.is_own(spelling.as_bytes(), None, None), "{spelling}");
        assert_eq!(id(own.named(spelling.as_bytes(), Some(5060), None)), Some(0), "{spelling}");
    }
    assert!(!own.is_own(b"[2001:db8::2]", None, None));
}

#[test]
fn an_alias_is_own_with_any_port_and_transport_unless_it_names_one() {
    let mut own = kit::own();
    own.aliases = vec![
        Alias { host: "example.org".into(), port: None, transport: None },
        Alias { host: "tcp.example".into(), port: Some(5070), transport: Some(Transport::Tcp) },
        Alias { host: "[::1]".into(), port: None, transport: None },
    ];
    assert!(own_uri(&own, "sip:bob@Example.ORG"));
    assert!(own_uri(&own, "sips:bob@example.org.:7000;transport=tcp"));
    assert!(!own_uri(&own, "sip:bob@sub.example.org"));
    assert!(own_uri(&own, "sip:tcp.example:5070;transport=tcp"));
    assert!(own_uri(&own, "sip:tcp.example:5070"));
    assert!(!own_uri(&own, "sip:tcp.example:5070;transport=udp"));
    assert!(!own_uri(&own, "sip:tcp.example"));
    assert!(own_uri(&own, "sip:[0:0:0:0:0:0:0:1]:9"));
    assert!(!own_uri(&own, "tel:+123"));
    assert_eq!(own.named(b"example.org", None, None), None, "a name alone is no socket");
}

#[test]
fn a_socket_on_an_unspecified_address_is_own_by_what_it_advertises() {
    let mut own = kit::owning(&["udp:0.0.0.0:5062", "udp:[::]:5060"]);
    assert!(!own.is_own(b"127.0.0.1", Some(5062), None));
    assert!(!own.is_own(b"[::1]", None, None));
    own.sockets[0].host = "sip.example".into();
    own.sockets[0].port = 5060;
    assert!(own.is_own(b"SIP.example", None, None));
    assert_eq!(id(own.named(b"sip.example", Some(5060), None)), Some(0));
    assert!(!own.is_own(b"sip.example", Some(5062), None), "the port is the advertised one too");
    assert!(!own.is_own(b"0.0.0.0", Some(5062), None));
}

#[test]
fn the_address_of_an_advertising_socket_stays_own() {
    let mut own = kit::owning(&["udp:10.0.0.1:5062"]);
    own.sockets[0].host = "sip.example".into();
    own.sockets[0].port = 5060;
    assert!(own.is_own(b"10.0.0.1", Some(5062), None));
    assert!(own.is_own(b"sip.example", None, None));
    assert!(!own.is_own(b"10.0.0.1", Some(5060), None));
}

#[test]
fn a_route_entry_names_its_socket() {
    let own = kit::own();
    assert_eq!(id(own.named(b"127.0.0.2", None, None)), Some(2), "UDP first");
    assert_eq!(id(own.named(b"127.0.0.2", Some(5060), Some(Transport::Tcp))), Some(3));
    assert_eq!(own.named(b"127.0.0.2", Some(5061), None), None);
    let tcp_only = kit::owning(&["tcp:127.0.0.1:5060"]);
    assert_eq!(id(tcp_only.named(b"127.0.0.1", None, None)), Some(0));
}

#[test]
fn the_outgoing_socket_is_forced_or_received_or_the_first_that_fits() {
    let mut own = kit::own();
    own.sockets.extend(
        kit::owning(&["udp:[::1]:5060"])
            .sockets
            .into_iter()
            .map(|socket| Socket { id: SocketId(4), ..socket }),
    );
    let v4: IpAddr = "10.0.0.1".parse().expect("an address");
    let v6: IpAddr = "2001:db8::1".parse().expect("an address");
    let outgoing = |forced: Option<u16>, received, transport, to| {
        id(own.outgoing(forced.map(SocketId), SocketId(received), transport, to))
    };
    assert_eq!(outgoing(None, 0, Transport::Udp, v4), Some(0));
    assert_eq!(outgoing(None, 2, Transport::Udp, v4), Some(2), "it stays on its address");
    assert_eq!(outgoing(None, 3, Transport::Udp, v4), Some(0), "another transport: the first");
    assert_eq!(outgoing(None, 2, Transport::Udp, v6), Some(4), "another family: the first");
    assert_eq!(outgoing(None, 0, Transport::Tcp, v6), None, "no socket, no way");
    assert_eq!(outgoing(Some(2), 0, Transport::Udp, v4), Some(2));
    assert_eq!(outgoing(Some(2), 0, Transport::Tcp, v4), Some(3), "beside the forced one");
    assert_eq!(outgoing(Some(2), 0, Transport::Udp, v6), Some(4), "other family");
    assert_eq!(outgoing(Some(9), 2, Transport::Udp, v4), Some(2), "no such socket");
}
