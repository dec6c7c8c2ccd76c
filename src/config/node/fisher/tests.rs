use lineway_actors::settings::{FisherClientSettings, FisherServerSettings, NodeSettings};

use crate::config::{LoadOptions, parse};

/// A race inside one chain; what stands in the two places is a whole line of each node.
fn race(client: &str, server: &str) -> String {
    format!(
        "[[node]]\nname = \"in\"\ntype = \"TcpListener\"\nnext = \"race\"\n\
         settings = {{ address = \"127.0.0.1\", port = 7000 }}\n\
         [[node]]\nname = \"race\"\ntype = \"ConnectionFisherClient\"\nnext = \"proof\"\n{client}\n\
         [[node]]\nname = \"proof\"\ntype = \"ConnectionFisherServer\"\nnext = \"end\"\n{server}\n\
         [[node]]\nname = \"end\"\ntype = \"EchoServer\"\n"
    )
}

fn settings(client: &str, server: &str) -> [NodeSettings; 2] {
    match parse(&race(client, server), "f.toml", &LoadOptions::default()) {
        Ok(config) => [1, 2].map(|node| config.plan.nodes[node].settings.clone()),
        Err(problems) => panic!("{problems}"),
    }
}

/// What is wrong with a text.
fn wrong(text: &str) -> Vec<String> {
    let problems = parse(text, "f.toml", &LoadOptions::default()).expect_err("a wrong text");
    problems.lines().collect()
}

#[test]
fn fisher_c02_s04b_settings_may_be_left_out() {
    let defaults = [
        NodeSettings::ConnectionFisherClient(FisherClientSettings { simultaneous_tries: 2 }),
        NodeSettings::ConnectionFisherServer(FisherServerSettings {
            server_first_delay: lineway_wire::units::Millis::new(1000),
        }),
    ];
    assert_eq!(settings("", ""), defaults);
    assert_eq!(settings("settings = {}", "settings = {}"), defaults);
    let of_the_types = [
        NodeSettings::ConnectionFisherClient(FisherClientSettings::default()),
        NodeSettings::ConnectionFisherServer(FisherServerSettings::default()),
    ];
    assert_eq!(defaults, of_the_types);
}

#[test]
fn fisher_c02_one_to_64_candidates_are_taken() {
    for tries in [1, 3, FisherClientSettings::MOST_TRIES] {
        let [client, _] =
            settings(&format!("settings = {{ simultaneous-tries-perline = {tries} }}"), "");
        let expected = FisherClientSettings { simultaneous_tries: tries };
        assert_eq!(client, NodeSettings::ConnectionFisherClient(expected));
    }
    assert_eq!(FisherClientSettings::MOST_TRIES, 64);
}

#[test]
fn fisher_c02_no_other_number_of_candidates_is_taken() {
    for (tries, found, help) in [
        ("0", "number 0", ""),
        ("-1", "number -1", ""),
        ("65", "number 65", ""),
        ("4294967297", "number 4294967297", ""),
        ("\"3\"", "string \"3\"", "; write 3 without quotes"),
        ("2.0", "float 2.0", ""),
        ("true", "boolean true", ""),
        ("[2]", "array [2]", ""),
    ] {
        let client = format!("settings = {{ simultaneous-tries-perline = {tries} }}");
        assert_eq!(
            wrong(&race(&client, "")),
            [format!(
                "f.toml:10:43: node \"race\", settings.simultaneous-tries-perline: \
                 found {found}, expected number (1 to 64){help}"
            )]
        );
    }
}

#[test]
fn fisher_s04b_the_delay_is_a_time_and_0_is_off() {
    for (written, limit) in [("0", None), ("1", Some(1)), ("60_000", Some(60_000))] {
        let [_, server] = settings("", &format!("settings.server-first-delay-ms = {written}"));
        let NodeSettings::ConnectionFisherServer(server) = server else { panic!("{server:?}") };
        let limit = limit.map(std::time::Duration::from_millis);
        assert_eq!(server.server_first_delay.limit(), limit);
    }
    for (written, found, help) in [
        ("-1", "number -1", ""),
        ("\"1s\"", "string \"1s\"", "; write 1000"),
        ("false", "boolean false", ""),
    ] {
        let text = race("", &format!("settings = {{ server-first-delay-ms = {written} }}"));
        assert_eq!(
            wrong(&text),
            [format!(
                "f.toml:15:38: node \"proof\", settings.server-first-delay-ms: found {found}, \
                 expected milliseconds, number (0 to 31536000000){help}"
            )]
        );
    }
}

#[test]
fn case_m20_a_misspelt_setting_of_a_fisher_names_the_right_one() {
    let told = |client: &str, server: &str| wrong(&race(client, server));
    assert_eq!(
        told("settings = { simultanous-tries-per-line = 3 }", ""),
        ["f.toml:10:14: node \"race\", settings.simultanous-tries-per-line: unknown setting of a \
          ConnectionFisherClient; did you mean `simultaneous-tries-perline`?"]
    );
    assert_eq!(
        told("", "settings = { server-first-delay = 3 }"),
        ["f.toml:15:14: node \"proof\", settings.server-first-delay: unknown setting of a \
          ConnectionFisherServer; did you mean `server-first-delay-ms`?"]
    );
    assert_eq!(
        told("settings = { server-first-delay-ms = 0 }", ""),
        ["f.toml:10:14: node \"race\", settings.server-first-delay-ms: unknown setting of a \
          ConnectionFisherClient; it belongs to ConnectionFisherServer"]
    );
    assert_eq!(
        told("simultaneous-tries-perline = 3", ""),
        ["f.toml:10:1: node \"race\", simultaneous-tries-perline: unknown setting of a node; \
          it belongs into settings"]
    );
    let text = race("", "").replace("ConnectionFisherClient", "ConnectionFischerClient");
    let lines = wrong(&text);
    let line = "f.toml:8:8: node \"race\", type: found string \"ConnectionFischerClient\", unknown \
                node type; did you mean `ConnectionFisherClient`?";
    assert!(lines.len() == 1 && lines[0].starts_with(line), "{lines:?}");
}

#[test]
fn case_t14_a_fisher_needs_a_node_after_it() {
    for (kind, node, next, line) in [
        ("ConnectionFisherClient", "race", "proof", 6),
        ("ConnectionFisherServer", "proof", "end", 11),
    ] {
        let text = race("", "").replace(&format!("next = \"{next}\"\n"), "\n");
        assert_eq!(
            wrong(&text),
            [format!(
                "f.toml:{line}:1: node \"{node}\", next: missing, expected the name of a node; \
                 a {kind} needs a node that follows it"
            )]
        );
    }
}

#[test]
fn case_t14_a_fisher_needs_a_node_before_it() {
    for kind in ["ConnectionFisherClient", "ConnectionFisherServer"] {
        let text = format!(
            "[[node]]\nname = \"first\"\ntype = \"{kind}\"\nnext = \"end\"\n\
             [[node]]\nname = \"end\"\ntype = \"EchoServer\"\n"
        );
        assert_eq!(
            wrong(&text),
            ["f.toml:2:8: node \"first\": no chain leads to it; write next = \"first\" in the \
              node before it, or take it out"]
        );
    }
}
