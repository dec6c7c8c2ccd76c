use std::net::{IpAddr, Ipv4Addr};

use lineway_actors::settings::{
    DomainStrategy, Host, MessageSettings, MuxClientSettings, MuxMode, MuxServerSettings,
    NodeSettings, RouterSocketSettings, SipListenerSettings, SipRouterSettings,
    TcpConnectorSettings, TcpListenerSettings,
};

use super::{BUILT_IN, Config, LoadOptions, LogFormat, Source, node, parse};

fn right(text: &str) -> Config {
    match parse(text, "f.toml", &LoadOptions::default()) {
        Ok(config) => config,
        Err(problems) => panic!("{problems}"),
    }
}

fn lines(text: &str) -> Vec<String> {
    let problems = parse(text, "f.toml", &LoadOptions::default()).expect_err("a wrong text");
    problems.lines().collect()
}

fn listener(config: &Config, node: usize) -> &TcpListenerSettings {
    match &config.plan.nodes[node].settings {
        NodeSettings::TcpListener(settings) => settings,
        other => panic!("{other:?}"),
    }
}

fn connector(config: &Config, node: usize) -> &TcpConnectorSettings {
    match &config.plan.nodes[node].settings {
        NodeSettings::TcpConnector(settings) => settings,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_built_in_configuration_has_the_defaults_of_the_contract() {
    let config = right(BUILT_IN);
    assert_eq!(config.plan.service.workers, 0);
    assert_eq!(config.plan.service.drain_timeout.get(), 10_000);
    assert_eq!(config.plan.service.dns.servers, []);
    assert_eq!(config.plan.service.dns.timeout.get(), 2000);
    assert_eq!(config.log.level.as_str(), "info");
    assert_eq!(config.log.format, LogFormat::Text);
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:9600");

    let entry = listener(&config, 0);
    assert_eq!(entry.ports.iter().map(|port| port.get()).collect::<Vec<_>>(), [7000]);
    assert_eq!(entry.initial_idle_timeout.get(), 5000);
    assert_eq!(entry.active_idle_timeout.get(), 300_000);
    assert_eq!((entry.backlog, entry.max_lines), (4096, None));
    assert_eq!((&entry.whitelist[..], &entry.blacklist[..]), (&[][..], &[][..]));

    let onward = connector(&config, 7);
    assert_eq!(onward.connect_timeout.get(), 10_000);
    assert_eq!(onward.idle_timeout.get(), 300_000);
    assert_eq!((onward.fastopen, onward.source_ip), (false, None));
    assert_eq!(onward.domain_strategy, DomainStrategy::PreferIpv4);
    let NodeSettings::MuxClient(mux) = &config.plan.nodes[1].settings else {
        panic!("{:?}", config.plan.nodes[1]);
    };
    assert_eq!(*mux, MuxClientSettings::new(MuxMode::Counter { connection_capacity: 64 }));
    let NodeSettings::MuxServer(mux) = &config.plan.nodes[4].settings else {
        panic!("{:?}", config.plan.nodes[4]);
    };
    assert_eq!(*mux, MuxServerSettings::default());
    let NodeSettings::RouterSocket(records) = &config.plan.nodes[8].settings else {
        panic!("{:?}", config.plan.nodes[8]);
    };
    let bind = vec!["tcp://127.0.0.1:5555".parse().unwrap()];
    let common = MessageSettings { bind, ..MessageSettings::default() };
    assert_eq!(*records, RouterSocketSettings { common, ..RouterSocketSettings::default() });
    let NodeSettings::SipListener(sip) = &config.plan.nodes[9].settings else {
        panic!("{:?}", config.plan.nodes[9]);
    };
    let listen: Vec<_> = sip.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["udp:127.0.0.1:5060", "tcp:127.0.0.1:5060"]);
    assert_eq!(*sip, SipListenerSettings::new(sip.listen.clone()));
    let NodeSettings::SipRouter(sip) = &config.plan.nodes[10].settings else {
        panic!("{:?}", config.plan.nodes[10]);
    };
    assert_eq!(**sip, SipRouterSettings::default());
    assert_eq!(config.plan.service.total_queue.get(), 536_870_912);
    for socket in [&entry.socket, &onward.socket] {
        assert!(socket.nodelay);
        assert_eq!(socket.write_high_water.get(), 512 << 10);
        assert_eq!(socket.write_low_water.get(), 256 << 10);
        assert_eq!(socket.linger.get(), 60_000);
        assert_eq!((socket.fwmark, &socket.interface), (None, &None));
    }
}

/// A setting's line in the default configuration can be taken as it is: the comment sign goes.
#[test]
fn the_built_in_configuration_shows_every_setting() {
    // Another spelling of one that is shown.
    const NOT_SHOWN: &str = "connection-duration-ms";
    for (kind, names) in node::setting_names() {
        let from = BUILT_IN.find(&format!("type = \"{kind}\"")).expect(kind);
        let section = &BUILT_IN[from..];
        let to = section.find("[[node]]").unwrap_or(section.len());
        for name in names.into_iter().filter(|name| *name != NOT_SHOWN) {
            let shown = section[..to].lines().any(|line| {
                let line = line.trim_start_matches("# ").trim_start_matches("settings = { ");
                line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('='))
            });
            assert!(shown, "{kind}: {name}");
        }
    }
}

#[test]
fn defaults_that_are_shown_are_the_defaults() {
    let uncommented: String = BUILT_IN
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            // Settings without a default and alternatives stay comments.
            Some(setting)
                if setting.contains(" = ")
                    && ![
                        "port-range",
                        "connection-duration",
                        "per-worker-connections-count",
                        "max-lines",
                        "fwmark",
                        "interface",
                        "source-ip",
                        "addresses = [",
                        "routing-id",
                        "connect = [\"tcp:",
                        "advertise",
                        "script = ",
                        "users",
                        "realm",
                    ]
                    .iter()
                    .any(|name| setting.starts_with(name))
                    && !setting.starts_with(['{', ' '])
                    && ![
                        "name",
                        "type",
                        "next",
                        "settings",
                        "chunk-count",
                        "timeout-ms = 30000",
                        "terminate",
                        "lines",
                    ]
                    .iter()
                    .any(|name| setting.starts_with(name)) =>
            {
                format!("{setting}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    assert_ne!(uncommented, BUILT_IN);
    let uncommented = right(&uncommented);
    let effect = |warning: &String| warning.contains(": it has no effect, ");
    assert!(uncommented.warnings.iter().all(effect), "{:?}", uncommented.warnings);
    assert_eq!(Config { warnings: Vec::new(), ..uncommented }, right(BUILT_IN));
}

#[test]
fn every_setting_arrives() {
    let config = right(include_str!("../../tests/config/right/every-setting.toml"));
    let entry = listener(&config, 0);
    assert_eq!(entry.address, IpAddr::V4(Ipv4Addr::LOCALHOST));
    assert_eq!(entry.ports[0].get(), 7096);
    assert_eq!(entry.initial_idle_timeout.limit(), None);
    assert_eq!(entry.active_idle_timeout.limit(), None);
    let nets = |nets: &[ipnet::IpNet]| nets.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(nets(&entry.whitelist), ["10.0.0.0/8", "192.0.2.0/24", "::1/128"]);
    assert_eq!(nets(&entry.blacklist), ["10.0.0.1/32"]);
    assert_eq!((entry.backlog, entry.max_lines), (128, Some(10_000)));
    assert!(!entry.socket.nodelay);
    assert_eq!(entry.socket.write_high_water.get(), 1000);
    assert_eq!(entry.socket.write_low_water.get(), 500);
    assert_eq!(entry.socket.fwmark, Some(u32::MAX));
    assert_eq!(entry.socket.interface.as_deref(), Some("eth0"));

    let onward = connector(&config, 1);
    assert_eq!(onward.targets[0].host, Host::Name("server.example".into()));
    assert!(onward.fastopen);
    assert_eq!(onward.connect_timeout.get(), 1);
    assert_eq!(onward.source_ip, Some([192, 0, 2, 1].into()));
    assert_eq!(onward.domain_strategy, DomainStrategy::OnlyIpv6);
    assert_eq!(onward.socket.write_low_water.get(), 1000);
}

#[test]
fn case_t13_the_line_of_a_quoted_port() {
    let lines = lines(include_str!("../../tests/config/wrong/port-quoted.toml"));
    assert_eq!(
        lines,
        ["f.toml:5:42: node \"in\", settings.port: found string \"443\", expected number, \
          array of numbers; write 443 without quotes"]
    );
}

#[test]
fn one_address_and_port_may_be_had_on_two_interfaces() {
    let text = |a: &str, b: &str| {
        let node = |name: &str, interface: &str| {
            format!(
                "[[node]]\nname = \"{name}\"\ntype = \"TcpListener\"\nnext = \"echo\"\n\
                 settings = {{ address = \"0.0.0.0\", port = 80{interface} }}\n"
            )
        };
        format!(
            "{}{}[[node]]\nname = \"echo\"\ntype = \"EchoServer\"\n",
            node("a", a),
            node("b", b)
        )
    };
    right(&text(", interface = \"eth0\"", ", interface = \"eth1\""));
    for second in ["", ", interface = \"eth0\""] {
        let lines = lines(&text(", interface = \"eth0\"", second));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("node \"a\" already listens on 0.0.0.0:80"), "{}", lines[0]);
    }
}

#[test]
fn a_syntax_error_has_no_echoes() {
    let text = "[[node]]\nname = \"in\"\ntype = \"TcpListener\"\nnext = \"out\nsettings = { adress = \"::\" }\n";
    let lines = lines(text);
    assert!(lines[0].starts_with("f.toml:4:"), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("did you mean `address`?")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("missing")), "{lines:?}");
}

#[test]
fn a_reload_reads_the_same_source() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), BUILT_IN).unwrap();
    let options = LoadOptions::default();
    let loaded = super::load(Some(file.path()), &options).unwrap();
    assert_eq!(loaded.source, Source::File(file.path().to_owned()));
    assert_eq!(loaded.source.load(&options).unwrap(), loaded);
    std::fs::write(file.path(), "").unwrap();
    assert_eq!(loaded.source.load(&options).unwrap_err().len(), 1);
}
