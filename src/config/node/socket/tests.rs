use lineway_actors::settings::{MessageSettings, NodeSettings, RouterSocketSettings};
use lineway_wire::zmp::RoutingId;
use lineway_wire::zmp::core::{DuplicatePolicy, Weight};

use crate::config::{Config, LoadOptions, parse};

fn read(settings: &str, options: &LoadOptions) -> Result<Config, Vec<String>> {
    let text = format!(
        "[[node]]\nname = \"r\"\ntype = \"RouterSocket\"\nnext = \"e\"\n[node.settings]\n{settings}\n\
         [[node]]\nname = \"e\"\ntype = \"EchoServer\"\n"
    );
    parse(&text, "f.toml", options).map_err(|problems| problems.lines().collect())
}

fn router(settings: &str) -> RouterSocketSettings {
    let config = read(settings, &LoadOptions::default()).expect(settings);
    assert_eq!(config.warnings, [""; 0], "{settings}");
    match config.plan.nodes.into_iter().next().map(|node| node.settings) {
        Some(NodeSettings::RouterSocket(router)) => router,
        other => panic!("{other:?}"),
    }
}

fn wrong(settings: &str) -> Vec<String> {
    read(settings, &LoadOptions::default()).expect_err(settings)
}

const BIND: &str = "bind = [\"tcp://127.0.0.1:5555\"]\n";

#[test]
fn what_is_left_out_has_the_default_of_the_contract() {
    let router = router(BIND);
    let common = &router.common;
    assert_eq!(common.bind[0].to_string(), "tcp://127.0.0.1:5555");
    assert_eq!((&common.connect[..], &common.routing_id), (&[][..], &None));
    assert_eq!((common.probe, common.weight), (false, Weight::DEFAULT));
    assert_eq!(common.request_timeout.get(), 5000);
    assert_eq!((common.send_hwm.get(), common.receive_hwm.get()), (4_096_000, 4_096_000));
    assert_eq!(common.max_message_size.get(), 67_108_864);
    assert_eq!(common.handshake_interval.get(), 30_000);
    assert_eq!(common.reconnect_interval.get(), 100);
    assert_eq!(common.reconnect_interval_max.get(), 0);
    assert_eq!(common.linger.get(), 10_000);
    assert_eq!(common.send_timeout.map(lineway_wire::units::Millis::get), Some(1000));
    assert_eq!((common.max_peers, common.max_handshakes), (10_000, 1024));
    assert_eq!(common.max_outstanding, 65_536);
    assert_eq!((common.tcp_keepalive.get(), common.tcp_user_timeout.get()), (10_000, 30_000));
    assert!(router.mandatory && !router.data_envelope);
    assert_eq!(router.duplicates, DuplicatePolicy::Reject);
}

#[test]
fn a_routing_id_is_text_or_hexadecimal() {
    let id = |text: &str| router(&format!("{BIND}routing-id = {text:?}")).common.routing_id;
    assert_eq!(id("D1"), RoutingId::new(&b"D1"[..]));
    assert_eq!(id("hex"), RoutingId::new(&b"hex"[..]));
    assert_eq!(id("hex:00fF"), RoutingId::new(&[0, 255][..]));
    assert_eq!(id(&"a".repeat(255)), RoutingId::new("a".repeat(255)));
    let longest = format!("hex:{}", "00".repeat(255));
    assert_eq!(id(&longest), RoutingId::new(vec![0; 255]));
    for text in ["", "hex:", "hex:0", "hex:0g", "hex:+1", "hex:ü"] {
        let lines = wrong(&format!("{BIND}routing-id = {text:?}"));
        assert!(lines[0].contains("settings.routing-id: found string"), "{lines:?}");
    }
    for text in ["a".repeat(256), format!("{longest}00")] {
        assert_eq!(wrong(&format!("{BIND}routing-id = {text:?}")).len(), 1);
    }
}

#[test]
fn a_weight_outside_of_its_range_is_refused_and_not_clamped() {
    for right in [0, 1, 10_000] {
        let weight = router(&format!("{BIND}weight = {right}")).common.weight;
        assert_eq!(weight.get(), right);
    }
    for text in ["-1", "10001", "1.5", "\"100\""] {
        let lines = wrong(&format!("{BIND}weight = {text}"));
        assert!(lines[0].contains("expected number (0 to 10000)"), "{lines:?}");
    }
}

#[test]
fn a_port_that_the_system_chooses_needs_its_flag() {
    let allowed = LoadOptions { allow_port_zero: true, ..LoadOptions::default() };
    for port in ["0", "*"] {
        let settings = format!("bind = [\"tcp://127.0.0.1:{port}\", \"tcp://127.0.0.1:{port}\"]");
        let lines = wrong(&settings);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("--allow-port-zero"), "{lines:?}");
        read(&settings, &allowed).expect("two ports of the system's choice");
        // A peer has a port that is known.
        read(&format!("connect = [\"tcp://127.0.0.1:{port}\"]"), &allowed).unwrap_err();
    }
    assert_eq!(router("bind = [\"ipc://*\"]").common.bind.len(), 1);
}

#[test]
fn records_of_any_size_are_taken_and_warned_about() {
    let config = read(&format!("{BIND}max-message-size = 0"), &LoadOptions::default()).unwrap();
    let [warning] = &config.warnings[..] else { panic!("{:?}", config.warnings) };
    let begins = "f.toml:7:20: node \"r\", settings.max-message-size: found number 0: ";
    assert!(warning.starts_with(begins), "{warning}");
}

#[test]
fn the_interval_between_tries_does_not_grow_below_itself() {
    let both = |base: &str, most: u32| format!("{BIND}{base}reconnect-interval-max-ms = {most}");
    for (base, most) in [("", 0), ("", 100), ("reconnect-interval-ms = 5\n", 5)] {
        let settings = router(&both(base, most)).common;
        assert_eq!(settings.reconnect_interval_max.get(), u64::from(most));
    }
    let lines = wrong(&both("", 99));
    assert!(lines[0].contains("not below reconnect-interval-ms (100, its default)"), "{lines:?}");
    let lines = wrong(&both("reconnect-interval-ms = 200\n", 199));
    assert!(lines[0].contains("not below reconnect-interval-ms (200)"), "{lines:?}");
}

#[test]
fn every_transport_of_the_contract_is_known_and_the_later_ones_are_said_to_be() {
    for transport in ["tls", "ws", "wss"] {
        let lines = wrong(&format!("connect = [\"{transport}://127.0.0.1:5555\"]"));
        let later = format!("the transport {transport} comes later");
        assert!(lines[0].contains(&later), "{lines:?}");
    }
}

#[test]
fn a_time_without_end_is_minus_one() {
    let timeout = |text: &str| router(&format!("{BIND}send-timeout-ms = {text}")).common;
    assert_eq!(timeout("-1").send_timeout, None);
    assert_eq!(timeout("0").send_timeout.map(lineway_wire::units::Millis::get), Some(0));
    for text in ["-2", "\"-1\"", "1.0"] {
        let lines = wrong(&format!("{BIND}send-timeout-ms = {text}"));
        assert!(lines[0].contains("-1 = for ever"), "{lines:?}");
    }
    let defaults = MessageSettings::default();
    assert_eq!(defaults.send_timeout.map(lineway_wire::units::Millis::get), Some(1000));
}

#[test]
fn the_page_has_every_setting_with_its_default() {
    const PAGE: &str = include_str!("../../../../docs/nodes/sockets.md");
    let row = |name: &str| {
        let begin = format!("| `{name}` |");
        let row = PAGE.lines().find(|line| line.starts_with(&begin)).expect(name);
        row.split('|').map(str::trim).collect::<Vec<_>>()
    };
    let names = |kind| {
        let all = crate::config::node::setting_names();
        all.into_iter().find(|(name, _)| *name == kind).unwrap().1
    };
    let [of_dealer, of_router] = [names("DealerSocket"), names("RouterSocket")];
    assert!(of_dealer.iter().all(|name| of_router.contains(name)));
    for name in of_router {
        let of = if of_dealer.contains(&name) { "both" } else { "router" };
        assert_eq!(row(name)[2], of, "{name}");
        // Written as the page has it, a default changes nothing.
        let default = row(name)[3];
        let written = match default {
            "none" | "random" => continue,
            "reject" => format!("{default:?}"),
            _ => default.to_owned(),
        };
        assert_eq!(router(&format!("{BIND}{name} = {written}")), router(BIND), "{name}");
    }
}
