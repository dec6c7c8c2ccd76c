use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> Endpoint {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn tcp_at(host: &str, port: Option<u16>) -> Endpoint {
    Endpoint::Tcp { host: host.into(), port }
}

#[test]
fn zmp_4_4_endpoints_and_their_texts() {
    for (text, endpoint, complete) in [
        ("tcp://127.0.0.1:5555", tcp_at("127.0.0.1", Some(5555)), true),
        ("tcp://example.net:1", tcp_at("example.net", Some(1)), true),
        ("tcp://[::1]:65535", tcp_at("::1", Some(65535)), true),
        ("tcp://*:5555", tcp_at("*", Some(5555)), false),
        ("tcp://*:*", tcp_at("*", None), false),
        ("tcp://[::]:*", tcp_at("::", None), false),
        ("ipc:///run/a b.sock", Endpoint::Ipc(Some("/run/a b.sock".into())), true),
        ("ipc://here", Endpoint::Ipc(Some("here".into())), true),
        ("ipc://*", Endpoint::Ipc(None), false),
        ("inproc://a/b", Endpoint::Inproc("a/b".into()), true),
    ] {
        assert_eq!(parsed(text), endpoint);
        assert_eq!((endpoint.to_string().as_str(), endpoint.is_complete()), (text, complete));
    }
    assert_eq!(parsed("tcp://127.0.0.1:0"), tcp_at("127.0.0.1", None), "0 is a free one too");
}

#[test]
fn zmp_4_4_other_transports_are_not_there() {
    for transport in ["tls", "ws", "wss", "udp", "TCP", ""] {
        let error = format!("{transport}://host:1").parse::<Endpoint>().unwrap_err();
        assert_eq!(error.errno(), Errno::EPROTONOSUPPORT, "{transport}");
        let later = matches!(error, EndpointError::Later(_));
        assert_eq!(later, ["tls", "ws", "wss"].contains(&transport), "{error}");
    }
}

#[test]
fn zmp_4_4_places_that_are_none() {
    for text in [
        "",
        "tcp",
        "tcp:/127.0.0.1:1",
        "tcp://",
        "tcp://host",
        "tcp://host:",
        "tcp://:5555",
        "tcp://host:65536",
        "tcp://host:+1",
        "tcp://host:-1",
        "tcp://host:1/path",
        "tcp://user@host:1",
        "tcp://a host:1",
        "tcp://::1:1",
        "tcp://[::1",
        "tcp://[host]:1",
        "tcp://[]:1",
        "tcp://**:1",
        "ipc://",
        "ipc://a\0b",
        "inproc://",
    ] {
        let error = text.parse::<Endpoint>().expect_err(text);
        assert_eq!(error.errno(), Errno::EINVAL, "{text:?}: {error}");
        assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
    }
    assert!(format!("ipc://{}", "p".repeat(107)).parse::<Endpoint>().is_ok());
    assert!(format!("ipc://{}", "p".repeat(108)).parse::<Endpoint>().is_err());
}

proptest! {
    #[test]
    fn zmp_4_4_what_is_written_reads_the_same(
        text in "(tcp|ipc|inproc|ws)://[a-c0-9.:*/\\[\\]]{0,12}(:[0-9*]{1,5})?"
    ) {
        if let Ok(endpoint) = text.parse::<Endpoint>() {
            prop_assert_eq!(endpoint.to_string().parse::<Endpoint>(), Ok(endpoint));
        }
    }
}
