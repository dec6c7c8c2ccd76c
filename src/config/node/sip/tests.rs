use std::time::Duration;

use lineway_actors::settings::{
    DispatcherTarget, Location, NodeSettings, SipListenerSettings, SipMode, SipRouterSettings,
    StatefulSettings, UnmatchedCancel,
};
use lineway_actors::wire::sip::own::{Alias, Transport};
use lineway_actors::wire::sip::transaction::{Options, Timing};

use crate::config::{Config, LoadOptions, node, parse};

fn read(listener: &str, router: &str, options: &LoadOptions) -> Result<Config, Vec<String>> {
    let text = format!(
        "[[node]]\nname = \"l\"\ntype = \"SipListener\"\nnext = \"r\"\n[node.settings]\n{listener}\n\
         [[node]]\nname = \"r\"\ntype = \"SipRouter\"\n[node.settings]\n{router}\n"
    );
    parse(&text, "f.toml", options).map_err(|problems| problems.lines().collect())
}

const LISTENER: &str = "listen = [\"udp:127.0.0.1:5060\"]";
const ROUTER: &str = "";

fn listener(settings: &str) -> SipListenerSettings {
    let config = read(settings, ROUTER, &LoadOptions::default()).expect(settings);
    match config.plan.nodes.into_iter().next().map(|node| node.settings) {
        Some(NodeSettings::SipListener(listener)) => listener,
        other => panic!("{other:?}"),
    }
}

fn router(settings: &str) -> (SipRouterSettings, Vec<String>) {
    let config = read(LISTENER, settings, &LoadOptions::default()).expect(settings);
    match config.plan.nodes.into_iter().nth(1).map(|node| node.settings) {
        Some(NodeSettings::SipRouter(router)) => ((*router).clone(), config.warnings),
        other => panic!("{other:?}"),
    }
}

fn wrong(settings: &str) -> Vec<String> {
    read(LISTENER, settings, &LoadOptions::default()).expect_err(settings)
}

#[test]
fn what_is_left_out_has_the_default_of_the_contract() {
    let listener = listener(LISTENER);
    assert_eq!((&listener.alias[..], &listener.advertise), (&[][..], &None));
    assert_eq!(listener.tcp_idle_timeout.get(), 120_000);
    assert_eq!(listener.max_message.get(), 65_535);
    assert_eq!(listener.max_connections, 10_000);

    let (router, warnings) = router(ROUTER);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(router, SipRouterSettings::default());
    assert_eq!((&*router.script.name, router.mode), ("(built-in)", SipMode::Stateful));
    assert_eq!((router.script_time_limit.get(), router.resolve_timeout.get()), (50, 2000));
    assert_eq!(router.script_memory.get(), 67_108_864);
    assert_eq!((router.append_fromtag, router.dns_failover), (false, false));
    assert_eq!((router.max_branches, router.max_htable_entries), (12, 100_000));

    let later = &router.stateful;
    assert_eq!((later.fr_timer.get(), later.fr_inv_timer.get()), (30_000, 120_000));
    assert_eq!((later.retr_timer1.get(), later.retr_timer2.get()), (500, 4000));
    assert_eq!(later.wt_timer.get(), 5000);
    assert_eq!((later.max_inv_lifetime.get(), later.max_noninv_lifetime.get()), (180_000, 32_000));
    assert_eq!((later.cancel_b_method, later.unmatched_cancel), (1, UnmatchedCancel::Relay));
    assert_eq!((later.max_breadth, router.udp_mtu.get()), (0, 0));
    assert_eq!((later.min_expires, later.max_expires, later.max_contacts), (60, 0, 0));
    assert_eq!((later.max_transactions, later.max_bindings), (100_000, 1_000_000));
    assert_eq!((&later.location, later.dispatcher_ping.get()), (&Location::Memory, 0));
    assert_eq!((later.users.len(), &later.realm), (0, &None));
    assert!(![later.relay_503, later.prefer_real_replies, later.rfc6026].contains(&true));
    assert!(![later.rfc4320, later.loop_detection, later.strict_answers].contains(&true));
}

#[test]
fn own_names_have_a_host_and_may_have_port_and_transport() {
    let alias = |text: &str| {
        let mut listener = listener(&format!("{LISTENER}\nalias = [{text:?}]"));
        listener.alias.pop().expect(text)
    };
    let is = |host: &'static str, port, transport| Alias { host: host.into(), port, transport };
    assert_eq!(alias("Example.COM."), is("example.com", None, None));
    assert_eq!(alias("example.com:5061"), is("example.com", Some(5061), None));
    assert_eq!(alias("tcp:example.com"), is("example.com", None, Some(Transport::Tcp)));
    assert_eq!(alias("udp:10.0.0.1:7"), is("10.0.0.1", Some(7), Some(Transport::Udp)));
    assert_eq!(alias("2001:DB8::1"), is("[2001:db8::1]", None, None));
    assert_eq!(alias("[2001:db8::1]:7"), is("[2001:db8::1]", Some(7), None));
}

#[test]
fn what_others_are_told_is_the_address_or_what_is_advertised() {
    let bound = ["127.0.0.1:5099".parse().unwrap(), "[::1]:5060".parse().unwrap()];
    let listen = "listen = [\"udp:127.0.0.1:5060\", \"tcp:[::1]:5060\"]";
    let told = |settings: &str| {
        let own = listener(settings).own(&bound);
        own.sockets.into_iter().map(|socket| (socket.host, socket.port)).collect::<Vec<_>>()
    };
    assert_eq!(told(listen), [("127.0.0.1".into(), 5099), ("[::1]".into(), 5060)]);
    let host = format!("{listen}\nadvertise = \"sip.example.com\"");
    assert_eq!(told(&host), [("sip.example.com".into(), 5099), ("sip.example.com".into(), 5060)]);
    let both = format!("{listen}\nadvertise = \"192.0.2.1:5070\"");
    assert_eq!(told(&both), [("192.0.2.1".into(), 5070), ("192.0.2.1".into(), 5070)]);
}

#[test]
fn an_address_that_is_none_is_told_with_what_would_be_right() {
    for (written, help) in [
        ("udp:::1:5080", "write \"udp:[::1]:5080\""),
        ("tcp:2001:db8::1:5060", "write \"tcp:[2001:db8::1]:5060\""),
        ("udp:2001:db8::1", "write \"udp:[2001:db8::1]:5060\""),
        ("sctp:127.0.0.1:5060", "there is no sctp, but udp and tcp"),
        ("ws:127.0.0.1:80", "ws comes later"),
    ] {
        let text = format!("listen = [{written:?}]");
        let told = read(&text, ROUTER, &LoadOptions::default()).expect_err(written);
        assert!(told[0].contains(help), "{told:?}");
    }
}

#[test]
fn port_0_needs_the_flag() {
    let text = "listen = [\"udp:127.0.0.1:0\", \"udp:127.0.0.1:0\"]";
    let refused = read(text, ROUTER, &LoadOptions::default()).expect_err(text);
    assert!(refused[0].contains("--allow-port-zero"), "{refused:?}");
    let options = LoadOptions { allow_port_zero: true, ..LoadOptions::default() };
    read(text, ROUTER, &options).expect("two sockets on two free ports");
}

#[test]
fn every_address_as_the_own_one_is_warned_about_unless_another_is_advertised() {
    let every = "listen = [\"udp:0.0.0.0:5060\"]";
    let warnings = |text: &str| {
        let config = read(text, ROUTER, &LoadOptions::default()).expect(text);
        config.warnings
    };
    let told = warnings(every);
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("settings.listen") && told[0].contains("set advertise"), "{told:?}");
    assert_eq!(warnings(&format!("{every}\nadvertise = \"192.0.2.1\"")), [""; 0]);
}

#[test]
fn the_mode_is_stateful_where_it_is_left_out() {
    for (settings, mode) in [
        ("", SipMode::Stateful),
        ("mode = \"stateful\"", SipMode::Stateful),
        ("mode = \"stateless\"", SipMode::Stateless),
    ] {
        let (router, warnings) = router(settings);
        assert_eq!((router.mode, warnings), (mode, Vec::new()), "{settings}");
    }
    let told = wrong("mode = \"statefull\"");
    assert!(told[0].contains("settings.mode") && told[0].contains("\"stateful\""), "{told:?}");
}

#[test]
fn the_times_and_options_of_transactions_are_those_that_were_set() {
    let (router, warnings) = router(
        "fr-timer-ms = 1\nfr-inv-timer-ms = 2\nretr-timer1-ms = 3\nretr-timer2-ms = 4\n\
         wt-timer-ms = 5\nmax-inv-lifetime-ms = 6\nmax-noninv-lifetime-ms = 7\n\
         relay-503 = true\nprefer-real-replies = true\ncancel-b-method = 2\n\
         rfc6026 = true\nrfc4320 = true",
    );
    assert_eq!(warnings, [""; 0]);
    let [fr, fr_inv, t1, t2, wt, max_inv, max_noninv] =
        [1, 2, 3, 4, 5, 6, 7].map(Duration::from_millis);
    let timing = Timing { fr, fr_inv, t1, t2, wt, max_inv, max_noninv };
    assert_eq!(router.stateful.timing(), timing);
    let options = Options {
        relay_503: true,
        prefer_real_replies: true,
        cancel_b_method: 2,
        rfc6026: true,
        rfc4320: true,
    };
    assert_eq!(router.stateful.options(), options);
}

#[test]
fn a_script_of_ones_own_needs_no_mode() {
    let script = "script = \"tests/config/scripts/routes.lua\"";
    let (own, warnings) = router(script);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(&*own.script.name, "tests/config/scripts/routes.lua");
    assert!(own.script.text.starts_with(b"-- Sends everything on."));
    let (_, warnings) = router(&format!("{script}\nmode = \"stateful\""));
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("settings.mode") && warnings[0].contains("built-in script"));
}

#[test]
fn a_script_is_found_beside_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.toml");
    let text = format!(
        "[[node]]\nname = \"l\"\ntype = \"SipListener\"\nnext = \"r\"\nsettings = {{ {LISTENER} }}\n\
         [[node]]\nname = \"r\"\ntype = \"SipRouter\"\nsettings = {{ script = \"r.lua\" }}\n"
    );
    std::fs::write(&file, text).unwrap();
    let options = LoadOptions::default();
    let load = || crate::config::load(Some(&file), &options).map(|loaded| loaded.config.plan);
    let missing = load().unwrap_err().lines().next().unwrap();
    assert!(missing.contains("r.lua can not be read"), "{missing}");
    let script = folder.path().join("r.lua");
    std::fs::write(&script, "function ksr_request_route() end").unwrap();
    let first = load().unwrap();
    assert_eq!(load().unwrap(), first);
    std::fs::write(&script, "function ksr_request_route() KSR.x.exit() end").unwrap();
    let second = load().unwrap();
    assert_eq!(second.nodes[0], first.nodes[0]);
    assert_ne!(second.nodes[1], first.nodes[1], "the text of the script is part of the node");
}

#[test]
fn what_is_set_arrives_without_a_warning() {
    let (read, warnings) = router(&format!(
        "{ROUTER}\nretr-timer1-ms = 5000\nunmatched-cancel = \"drop\"\n\
         max-expires = 60\nlocation = \"redb:l.redb\"\nrealm = \"a.example\"\n\
         dispatcher = {{ 7 = [\"sip:a.example;weight=3;lr\"] }}\ndispatcher-ping-ms = 250"
    ));
    assert_eq!(warnings, [""; 0]);
    let default = StatefulSettings::default();
    assert_eq!(
        read.stateful,
        StatefulSettings {
            retr_timer1: lineway_wire::units::Millis::new(5000),
            // The default would be below the first interval.
            retr_timer2: lineway_wire::units::Millis::new(5000),
            unmatched_cancel: UnmatchedCancel::Drop,
            max_expires: 60,
            realm: Some("a.example".into()),
            dispatcher_ping: lineway_wire::units::Millis::new(250),
            location: Location::Redb("l.redb".into()),
            ..default
        }
    );
    let target = DispatcherTarget { uri: "sip:a.example;lr".into(), weight: 3, priority: 0 };
    assert_eq!(read.dispatcher[&7], [target]);
}

#[test]
fn the_file_of_users_is_a_part_of_the_router() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lineway.toml");
    let text = format!(
        "[[node]]\nname = \"l\"\ntype = \"SipListener\"\nnext = \"r\"\nsettings = {{ {LISTENER} }}\n\
         [[node]]\nname = \"r\"\ntype = \"SipRouter\"\nsettings = {{ users = \"u.toml\" }}\n"
    );
    std::fs::write(&file, text).unwrap();
    let options = LoadOptions::default();
    let load = || crate::config::load(Some(&file), &options).map(|loaded| loaded.config.plan);
    let users = folder.path().join("u.toml");
    let write = |text: &str| std::fs::write(&users, text).unwrap();
    write("[[user]]\nname = \"alice\"\npassword = \"first\"");
    let first = load().unwrap();
    assert_eq!(load().unwrap(), first);
    assert!(!format!("{first:?}").contains("first"), "no password is shown");
    write("[[user]]\nname = \"alice\"\npassword = \"other\"");
    assert_ne!(load().unwrap().nodes[1], first.nodes[1]);
    write("[[user]]\nname = \"alice\"\npassword = [\"s3cret\"]");
    let wrong = load().unwrap_err().to_string();
    assert!(wrong.contains("u.toml:3:12: "), "{wrong}");
    assert!(wrong.contains("node \"r\", settings.users: "), "{wrong}");
    assert!(!wrong.contains("s3cret"), "{wrong}");
}

#[test]
fn no_setting_is_asked_for_twice() {
    let all = node::setting_names();
    let (_, names) = all.iter().find(|(kind, _)| *kind == "SipRouter").unwrap();
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), names.len(), "no name is asked for twice");
}

#[test]
fn the_page_has_every_setting_with_its_default() {
    const PAGE: &str = include_str!("../../../../docs/nodes/sip.md");
    let default_of = |name: &str| {
        let begin = format!("| `{name}` |");
        let row = PAGE.lines().find(|line| line.starts_with(&begin)).expect(name);
        row.split('|').nth(2).map(str::trim).expect(name).trim_matches('`').to_owned()
    };
    let names = |kind| {
        let all = node::setting_names();
        all.into_iter().find(|(name, _)| *name == kind).unwrap().1
    };
    // Written as the page has it, a default changes nothing.
    let written = |name: &str| match default_of(name).as_str() {
        "none" => None,
        word @ ("relay" | "memory" | "stateful") => Some(format!("{name} = {word:?}")),
        default => Some(format!("{name} = {default}")),
    };
    for setting in names("SipListener").into_iter().filter_map(written) {
        assert_eq!(listener(&format!("{LISTENER}\n{setting}")), listener(LISTENER), "{setting}");
    }
    for setting in names("SipRouter").into_iter().filter_map(written) {
        let (read, _) = router(&format!("{ROUTER}\n{setting}"));
        assert_eq!(read, router(ROUTER).0, "{setting}");
    }
}
