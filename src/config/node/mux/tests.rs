use std::time::Duration;

use lineway_actors::settings::{
    MuxClientSettings, MuxMode, MuxServerSettings, MuxSettings, NodeSettings,
};
use lineway_wire::units::{ByteCount, Millis};

use crate::config::{LoadOptions, node, parse};

const FIXED: &str = "mode = \"fixed-connections-count\"\nper-worker-connections-count = 2";

/// Both ends of a mux inside one chain; what stands in the two places are settings.
fn pair(client: &str, server: &str) -> String {
    format!(
        "[[node]]\nname = \"in\"\ntype = \"TcpListener\"\nnext = \"mux\"\n\
         settings = {{ address = \"127.0.0.1\", port = 7000 }}\n\
         [[node]]\nname = \"demux\"\ntype = \"MuxServer\"\nnext = \"end\"\n\
         [node.settings]\n{server}\n\
         [[node]]\nname = \"end\"\ntype = \"EchoServer\"\n\
         [[node]]\nname = \"mux\"\ntype = \"MuxClient\"\nnext = \"demux\"\n\
         [node.settings]\n{client}\n"
    )
}

fn nodes(client: &str, server: &str) -> [NodeSettings; 2] {
    match parse(&pair(client, server), "f.toml", &LoadOptions::default()) {
        Ok(config) => [3, 1].map(|node| config.plan.nodes[node].settings.clone()),
        Err(problems) => panic!("{problems}"),
    }
}

fn client(settings: &str) -> MuxClientSettings {
    match nodes(settings, "") {
        [NodeSettings::MuxClient(client), _] => client,
        other => panic!("{other:?}"),
    }
}

fn server(settings: &str) -> MuxServerSettings {
    match nodes(FIXED, settings) {
        [_, NodeSettings::MuxServer(server)] => server,
        other => panic!("{other:?}"),
    }
}

fn wrong(text: &str) -> Vec<String> {
    let problems = parse(text, "f.toml", &LoadOptions::default()).expect_err("a wrong text");
    problems.lines().collect()
}

/// What is wrong with a client, without the file, line, column and node, which must be its own.
fn wrong_client(settings: &str) -> Vec<String> {
    let rest = |line: String| {
        let (place, what) = line.split_once(": node \"mux\", ").expect(&line);
        let row: usize = place.split(':').nth(1).expect(&line).parse().expect(&line);
        assert!(row >= 15, "{line}");
        what.to_owned()
    };
    wrong(&pair(settings, "")).into_iter().map(rest).collect()
}

#[test]
fn mux_settings_that_are_left_out_are_those_of_the_contract() {
    let mux = MuxSettings {
        child_buffer_limit: ByteCount::new(8_388_608),
        child_buffer_resume_threshold: ByteCount::new(524_288),
        child_stall_timeout: Millis::new(10_000),
        parent_buffer_limit: Some(ByteCount::new(33_554_432)),
        half_close: true,
        half_close_timeout: Millis::new(2000),
    };
    let mode = MuxMode::FixedConnectionsCount { per_worker: 2 };
    let parent_retry = Millis::new(3000);
    assert_eq!(client(FIXED), MuxClientSettings { mode, mux: mux.clone(), parent_retry });
    assert_eq!(client(FIXED), MuxClientSettings::new(mode));
    assert_eq!(server(""), MuxServerSettings { mux, max_children: 65_536 });
    assert_eq!(server(""), MuxServerSettings::default());
}

#[test]
fn mux_every_setting_is_read() {
    let both = "child-buffer-limit = 1000\nchild-buffer-resume-threshold = 1000\n\
                child-stall-timeout-ms = 7\nparent-buffer-limit = 3000\nhalf-close = false\n\
                half-close-timeout-ms = 9\n";
    let mux = MuxSettings {
        child_buffer_limit: ByteCount::new(1000),
        child_buffer_resume_threshold: ByteCount::new(1000),
        child_stall_timeout: Millis::new(7),
        parent_buffer_limit: Some(ByteCount::new(3000)),
        half_close: false,
        half_close_timeout: Millis::new(9),
    };
    let client = client(&format!("{FIXED}\nparent-retry-ms = 11\n{both}"));
    assert_eq!((client.mux, client.parent_retry), (mux.clone(), Millis::new(11)));
    let max_children = 12;
    assert_eq!(
        server(&format!("{both}max-children = 12")),
        MuxServerSettings { mux, max_children }
    );
}

#[test]
fn mux_m11_m13_each_mode_has_its_setting() {
    let millis = |millis| MuxMode::Timer { connection_duration: Millis::new(millis) };
    for (written, mode) in [
        ("mode = \"timer\"\nconnection-duration = 30000", millis(30_000)),
        ("mode = \"timer\"\nconnection-duration-ms = 61", millis(61)),
        (
            "mode = \"counter\"\nconnection-capacity = 1",
            MuxMode::Counter { connection_capacity: 1 },
        ),
        (
            "mode = \"counter\"\nconnection-capacity = 4294967294",
            MuxMode::Counter { connection_capacity: u32::MAX - 1 },
        ),
        (FIXED, MuxMode::FixedConnectionsCount { per_worker: 2 }),
        (
            "mode = \"fixed-connections-count\"\nper-worker-connections-count = 1024",
            MuxMode::FixedConnectionsCount { per_worker: 1024 },
        ),
    ] {
        assert_eq!(client(written).mode, mode, "{written}");
        assert!(written.contains(mode.name()));
    }
}

#[test]
fn mux_mode_a_client_without_a_mode_is_refused() {
    let missing = "settings.mode: missing, expected \"timer\", \"counter\", \
                   \"fixed-connections-count\"; it has no default: ";
    let three = "timer opens another connection after a time, counter after a number of lines, \
                 fixed-connections-count keeps to so many";
    assert_eq!(wrong_client(""), [format!("{missing}{three}")]);
    assert_eq!(
        wrong_client("connection-capacity = 1\nconnection-duration = 100"),
        [format!("{missing}{three}")]
    );
    for (setting, mode) in [
        ("connection-duration", "timer"),
        ("connection-duration-ms", "timer"),
        ("connection-capacity", "counter"),
        ("per-worker-connections-count", "fixed-connections-count"),
    ] {
        let help = format!("write mode = {mode:?}, to which `{setting}` belongs");
        assert_eq!(wrong_client(&format!("{setting} = 100")), [format!("{missing}{help}")]);
    }
}

#[test]
fn mux_mode_without_a_table_of_settings_the_mode_is_missing_too() {
    let text = pair("", "").replace("[node.settings]", "");
    let lines = wrong(&text);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("f.toml:15:1: node \"mux\", settings.mode: missing"), "{lines:?}");
}

#[test]
fn mux_mode_a_wrong_mode_names_the_right_ones() {
    let modes = "\"timer\", \"counter\", \"fixed-connections-count\"";
    for (written, found, help) in [
        ("\"conter\"", "string \"conter\"", "; did you mean `counter`?"),
        ("\"Timer\"", "string \"Timer\"", "; did you mean `timer`?"),
        ("\"fixed\"", "string \"fixed\"", "; did you mean `fixed-connections-count`?"),
        ("\"nope\"", "string \"nope\"", ""),
        ("1", "number 1", ""),
    ] {
        assert_eq!(
            wrong_client(&format!("mode = {written}\nconnection-capacity = 5")),
            [format!("settings.mode: found {found}, expected {modes}{help}")]
        );
    }
}

#[test]
fn mux_m11_m13_a_mode_needs_its_setting() {
    for (mode, setting, expected) in [
        ("timer", "connection-duration", "milliseconds, number (61 or more)"),
        ("counter", "connection-capacity", "number (1 or more)"),
        ("fixed-connections-count", "per-worker-connections-count", "number (1 to 1024)"),
    ] {
        assert_eq!(
            wrong_client(&format!("mode = {mode:?}")),
            [format!("settings.{setting}: missing, expected {expected}; mode {mode:?} needs it")]
        );
    }
}

#[test]
fn mux_m11_m13_a_setting_of_another_mode_names_its_mode() {
    let own = [
        ("timer", "connection-duration"),
        ("timer", "connection-duration-ms"),
        ("counter", "connection-capacity"),
        ("fixed-connections-count", "per-worker-connections-count"),
    ];
    for (mode, setting) in own {
        for (other, foreign) in own.into_iter().filter(|(other, _)| *other != mode) {
            // Its value does not matter: it is not to be there at all.
            let text = format!("mode = {mode:?}\n{setting} = 500\n{foreign} = 0");
            assert_eq!(
                wrong_client(&text),
                [format!(
                    "settings.{foreign}: found number 0, but mode {mode:?} does not have it (the mode on line 20); it \
                     belongs to mode {other:?}"
                )]
            );
        }
    }
}

#[test]
fn mux_m11_a_duration_is_more_than_60_milliseconds() {
    for (written, found, help) in [
        ("60", "number 60", ""),
        ("0", "number 0", ""),
        ("-1", "number -1", ""),
        ("31536000001", "number 31536000001", ""),
        ("\"30s\"", "string \"30s\"", "; write 30000"),
        ("30.0", "float 30.0", ""),
    ] {
        for setting in ["connection-duration", "connection-duration-ms"] {
            assert_eq!(
                wrong_client(&format!("mode = \"timer\"\n{setting} = {written}")),
                [format!(
                    "settings.{setting}: found {found}, expected milliseconds, number (61 to \
                     31536000000){help}"
                )]
            );
        }
    }
}

#[test]
fn mux_m11_the_duration_is_written_once() {
    let text = "mode = \"timer\"\nconnection-duration-ms = 100\nconnection-duration = 100";
    assert_eq!(
        wrong_client(text),
        ["settings.connection-duration-ms: found number 100, not together with \
          `connection-duration` (the other on line 22); both are the same: keep one of the two"]
    );
}

#[test]
fn mux_m11_m13_a_count_is_a_number_of_its_range() {
    for (mode, setting, most) in [
        ("counter", "connection-capacity", 4_294_967_294_u64),
        ("fixed-connections-count", "per-worker-connections-count", 1024),
    ] {
        let above = (most + 1).to_string();
        for (written, kind, help) in [
            ("0", "number", ""),
            ("-5", "number", ""),
            (above.as_str(), "number", ""),
            ("\"7\"", "string", "; write 7 without quotes"),
            ("true", "boolean", ""),
        ] {
            assert_eq!(
                wrong_client(&format!("mode = {mode:?}\n{setting} = {written}")),
                [format!(
                    "settings.{setting}: found {kind} {written}, expected number (1 to {most}){help}"
                )]
            );
        }
    }
}

#[test]
fn mux_m23_the_resume_threshold_follows_a_small_limit() {
    for (limit, threshold) in
        [(1, 1), (2, 1), (3, 1), (1000, 500), (1 << 20, 1 << 19), (1 << 30, 1 << 19)]
    {
        for mux in [
            client(&format!("{FIXED}\nchild-buffer-limit = {limit}")).mux,
            server(&format!("child-buffer-limit = {limit}")).mux,
        ] {
            assert_eq!(mux.child_buffer_limit.get(), limit);
            assert_eq!(mux.child_buffer_resume_threshold.get(), threshold, "{limit}");
        }
    }
}

#[test]
fn mux_m23_a_resume_threshold_above_the_limit_is_refused() {
    let told = |limit: &str| {
        wrong_client(&format!("{FIXED}\n{limit}\nchild-buffer-resume-threshold = 8388609"))
    };
    let line = |limit: &str| {
        format!(
            "settings.child-buffer-resume-threshold: found number 8388609, expected bytes, not \
             above child-buffer-limit ({limit})"
        )
    };
    assert_eq!(told(""), [line("8388608, its default")]);
    assert_eq!(told("child-buffer-limit = 4000"), [line("4000")]);
    // With a limit that is wrong itself there is nothing to compare with.
    let lines = told("child-buffer-limit = \"16 MiB\"");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].ends_with("write 16777216"), "{lines:?}");
}

#[test]
fn mux_m24_limits_of_zero_are_refused() {
    let bytes = "bytes, number (1 to 1073741824)";
    let millis = "milliseconds, number (1 to 31536000000)";
    for (setting, expected) in [
        ("child-buffer-limit", bytes),
        ("child-buffer-resume-threshold", bytes),
        ("child-stall-timeout-ms", millis),
        ("half-close-timeout-ms", millis),
    ] {
        let line = format!("settings.{setting}: found number 0, expected {expected}");
        assert_eq!(wrong_client(&format!("{FIXED}\n{setting} = 0")), std::slice::from_ref(&line));
        assert_eq!(
            wrong(&pair(FIXED, &format!("{setting} = 0"))),
            [format!("f.toml:11:{}: node \"demux\", {line}", setting.len() + 4)]
        );
    }
}

#[test]
fn mux_m14_m25_zero_switches_these_off() {
    assert_eq!(server("parent-buffer-limit = 0").mux.parent_buffer_limit, None);
    let off = client(&format!("{FIXED}\nparent-buffer-limit = 0\nparent-retry-ms = 0"));
    assert_eq!((off.mux.parent_buffer_limit, off.parent_retry.limit()), (None, None));
    let retry = client(&format!("{FIXED}\nparent-retry-ms = 1")).parent_retry.limit();
    assert_eq!(retry, Some(Duration::from_millis(1)));
    assert_eq!(
        wrong_client(&format!("{FIXED}\nparent-buffer-limit = -1")),
        ["settings.parent-buffer-limit: found number -1, expected bytes, number (0 to 1073741824)"]
    );
}

#[test]
fn mux_m32_a_parent_has_1_to_a_million_children() {
    for children in [1, 65_536, MuxServerSettings::MOST_CHILDREN] {
        assert_eq!(server(&format!("max-children = {children}")).max_children, children);
    }
    for children in ["0", "1000001", "4294967297"] {
        assert_eq!(
            wrong(&pair(FIXED, &format!("max-children = {children}"))),
            [format!(
                "f.toml:11:16: node \"demux\", settings.max-children: found number {children}, \
                 expected number (1 to 1000000)"
            )]
        );
    }
}

#[test]
fn case_m20_a_misspelt_setting_of_a_mux_names_the_right_one() {
    for (written, help) in [
        ("conection-capacity = 1", "did you mean `connection-capacity`?"),
        ("child-bufer-limit = 1", "did you mean `child-buffer-limit`?"),
        ("half_close = true", "did you mean `half-close`?"),
        ("parent-retry = 1", "did you mean `parent-retry-ms`?"),
        ("max-children = 1", "it belongs to MuxServer"),
        ("nodelay = true", "it belongs to TcpListener, TcpConnector"),
    ] {
        let setting = written.split(' ').next().unwrap_or_default();
        let line = format!("settings.{setting}: unknown setting of a MuxClient; {help}");
        assert_eq!(wrong_client(&format!("{FIXED}\n{written}")), [line]);
    }
    assert_eq!(
        wrong(&pair(FIXED, "mode = \"timer\"")),
        ["f.toml:11:1: node \"demux\", settings.mode: unknown setting of a MuxServer; it belongs \
          to MuxClient, SipRouter"]
    );
    let lines = wrong(&pair(FIXED, "").replace("\"MuxServer\"", "\"MuxSever\""));
    assert!(lines.len() == 1 && lines[0].contains("did you mean `MuxServer`?"), "{lines:?}");
}

#[test]
fn mux_the_page_has_every_setting_with_its_default() {
    const PAGE: &str = include_str!("../../../../docs/nodes/mux.md");
    let row = |name: &str| {
        let begin = format!("| `{name}` |");
        let row = PAGE.lines().find(|line| line.starts_with(&begin)).expect(name);
        row.split('|').map(str::trim).collect::<Vec<_>>()
    };
    let names = |kind| {
        let (_, names) = node::setting_names().into_iter().find(|(name, _)| *name == kind).unwrap();
        names
    };
    let [client, server] = [names("MuxClient"), names("MuxServer")];
    for name in client.iter().chain(&server) {
        if *name == super::DURATION_MS {
            assert!(row(super::DURATION)[4].contains(name));
            continue;
        }
        let owner = match (client.contains(name), server.contains(name)) {
            (true, true) => "both",
            (true, false) => "client",
            _ => "server",
        };
        assert!(row(name)[2].starts_with(owner), "{name}");
    }
    let MuxServerSettings { mux, max_children } = MuxServerSettings::default();
    let MuxClientSettings { parent_retry, .. } =
        MuxClientSettings::new(MuxMode::Counter { connection_capacity: 1 });
    for (name, default) in [
        ("max-children", u64::from(max_children)),
        ("parent-retry-ms", parent_retry.get()),
        ("child-buffer-limit", mux.child_buffer_limit.get()),
        ("child-buffer-resume-threshold", mux.child_buffer_resume_threshold.get()),
        ("child-stall-timeout-ms", mux.child_stall_timeout.get()),
        ("parent-buffer-limit", mux.parent_buffer_limit.map_or(0, ByteCount::get)),
        ("half-close-timeout-ms", mux.half_close_timeout.get()),
    ] {
        assert_eq!(row(name)[3], default.to_string(), "{name}");
    }
    assert_eq!(row("half-close")[3], mux.half_close.to_string());
}
