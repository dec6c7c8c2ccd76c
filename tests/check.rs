//! `lineway check` over folders of wrong and right files, and the exit codes of the command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use proptest::prelude::*;

/// Runs the program in `tests/config`, so that messages have stable paths.
fn lineway(args: &[&str]) -> Output {
    command(args).output().expect("the program runs")
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineway"));
    command.args(args).current_dir("tests/config").env_remove("LINEWAY_LOG");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// Checks a text as a file and gives its messages.
fn wrong(toml: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), toml).unwrap();
    let output = lineway(&["check", "--config", file.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{toml}\n{}", text(&output.stdout));
    assert_eq!(text(&output.stdout), "");
    text(&output.stderr)
}

/// The lines that begin a problem of the temporary file.
fn problem_lines(messages: &str) -> Vec<&str> {
    messages.lines().filter(|line| line.starts_with('/') && line.contains(": node ")).collect()
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(Path::new("tests/config").join(folder))
        .unwrap()
        .map(|entry| Path::new(folder).join(entry.unwrap().file_name()))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn case_m20_every_wrong_file_is_told_in_full() {
    for file in files("wrong") {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let path = file.to_str().unwrap();
        let output = lineway(&["check", "--config", path]);
        assert_eq!(output.status.code(), Some(2), "{path}");
        assert_eq!(text(&output.stdout), "", "{path}");
        let messages = text(&output.stderr);
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("wrong-{name}"), messages);
        });
        // A normal start says the same and starts nothing.
        let run = lineway(&["run", "--config", path]);
        assert_eq!(run.status.code(), Some(2), "{path}");
        assert_eq!(text(&run.stderr), messages, "{path}");
    }
}

#[test]
fn every_right_file_is_shown_as_a_tree() {
    for file in files("right") {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let output = lineway(&["check", "--config", file.to_str().unwrap()]);
        assert_eq!(text(&output.stderr), "", "{name}");
        assert_eq!(output.status.code(), Some(0), "{name}");
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("right-{name}"), text(&output.stdout));
        });
    }
}

#[test]
fn case_t13_a_wrong_port_is_told_in_one_line() {
    for (port, found) in [
        ("\"443\"", "string \"443\""),
        ("0", "number 0"),
        ("65536", "number 65536"),
        ("-1", "number -1"),
        ("443.5", "float 443.5"),
        ("[]", "array []"),
        ("[443, \"80\"]", "string \"80\""),
    ] {
        let toml = fs::read_to_string("tests/config/wrong/port-quoted.toml").unwrap();
        let messages = wrong(&toml.replace("\"443\"", port));
        let lines = problem_lines(&messages);
        assert_eq!(lines.len(), 1, "{messages}");
        for part in ["\"in\"", "settings.port", found, "number, array of numbers"] {
            assert!(lines[0].contains(part), "{part} in {}", lines[0]);
        }
    }
}

#[test]
fn case_t14_three_problems_in_one_run() {
    let output = lineway(&["check", "--config", "wrong/types-and-links.toml"]);
    let messages = text(&output.stderr);
    let lines: Vec<_> = messages.lines().filter(|line| line.contains(": node ")).collect();
    assert_eq!(lines.len(), 3, "{messages}");
    assert!(lines[0].contains("\"in\"") && lines[0].contains("HeaderClient"), "{}", lines[0]);
    assert!(lines[0].contains("TcpListener, TcpConnector"), "{}", lines[0]);
    assert!(lines[1].contains("\"in\"") && lines[1].contains("nope"), "{}", lines[1]);
    assert!(lines[2].contains("\"out\"") && lines[2].contains("loop"), "{}", lines[2]);
}

#[test]
fn case_m20_each_misspelt_setting_names_the_nearest_right_one() {
    let output = lineway(&["check", "--config", "wrong/misspelt.toml"]);
    let messages = text(&output.stderr);
    for (setting, help) in [
        ("settings.nodelya", "did you mean `nodelay`?"),
        ("settings.whitlist", "did you mean `whitelist`?"),
        ("settings.connection-capactiy", "known here: "),
        ("settings.fastopen", "it belongs to TcpConnector"),
        ("settings.whitelist", "it belongs to TcpListener"),
        ("settings.backlog: written twice", "(first on line"),
        ("service.drain-timeout-ms: found string \"30s\"", "write 30000"),
        ("workers", "it belongs to [service]"),
        ("sevice", "did you mean `service`?"),
    ] {
        let told = messages.lines().any(|line| line.contains(setting) && line.contains(help));
        assert!(told, "{setting}: {help} in\n{messages}");
    }
}

#[test]
fn mux_mode_a_client_of_before_there_were_modes_is_told_what_to_write() {
    let output = lineway(&["check", "--config", "wrong/mux.toml"]);
    let messages = text(&output.stderr);
    let told = messages.lines().find(|line| line.contains("node \"old\"")).expect(&messages);
    for part in [
        "settings.mode: missing",
        "\"timer\", \"counter\", \"fixed-connections-count\"",
        "write mode =",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
}

#[test]
fn mux_frames_that_nobody_reads_are_told_at_the_link_that_leads_there() {
    let file = fs::read_to_string("tests/config/right/mux.toml").unwrap();
    for (right, wrong_next, node, trouble) in [
        (
            "next = \"race\"",
            "next = \"service\"",
            "mux",
            "an EchoServer, which can not read the frames",
        ),
        (
            "next = \"race\"",
            "next = \"proof\"",
            "mux",
            "a ConnectionFisherServer, which can not read",
        ),
        ("next = \"inner-mux\"", "next = \"inner-demux\"", "inner-race", "the probe of"),
        (
            "next = \"inner-race\"",
            "next = \"inner-demux\"",
            "tester",
            "needs the frames of a MuxClient",
        ),
    ] {
        let messages = wrong(&file.replace(right, wrong_next));
        let lines = problem_lines(&messages);
        let told = lines.iter().any(|line| {
            line.contains(&format!("node \"{node}\", next: ")) && line.contains(trouble)
        });
        assert!(told, "{trouble} in\n{messages}");
    }
}

#[test]
fn a_file_that_can_not_be_read_is_named() {
    for path in ["nowhere.toml", "wrong"] {
        let output = lineway(&["check", "--config", path]);
        assert_eq!(output.status.code(), Some(2));
        let messages = text(&output.stderr);
        assert!(messages.starts_with(&format!("{path}: can not be read: ")), "{messages}");
    }
    let huge = tempfile::NamedTempFile::new().unwrap();
    huge.as_file().set_len(9 << 20).unwrap();
    let output = lineway(&["check", "--config", huge.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is longer than"));
}

#[test]
fn without_a_file_the_built_in_configuration_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let output = command(&["check"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).starts_with("built-in configuration: ok\n"));

    fs::write(folder.path().join("config.toml"), "").unwrap();
    let output = command(&["check"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("config.toml:1:1: node: missing"));
}

#[test]
fn t01_port_zero_needs_its_flag() {
    let toml = fs::read_to_string("tests/config/wrong/port-quoted.toml").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), toml.replace("\"443\"", "0")).unwrap();
    let path = file.path().to_str().unwrap();
    assert_eq!(lineway(&["check", "--config", path]).status.code(), Some(2));
    let output = lineway(&["check", "--allow-port-zero", "--config", path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("0.0.0.0:(a free port)"));
}

#[test]
fn records_of_any_size_are_right_and_warned_about() {
    let toml = fs::read_to_string("tests/config/right/sockets.toml").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        file.path(),
        toml.replace("max-message-size = 4_294_967_295", "max-message-size = 0"),
    )
    .unwrap();
    let path = file.path().to_str().unwrap();
    let output = lineway(&["check", "--config", path]);
    assert_eq!(output.status.code(), Some(0));
    let warned = text(&output.stderr);
    let begins = format!("warning: {path}:21:20: node \"clients\", settings.max-message-size: ");
    assert!(warned.starts_with(&begins) && warned.lines().count() == 1, "{warned}");
}

#[test]
fn the_log_variable_takes_the_place_of_the_level_and_is_checked() {
    let check = |value: &str| {
        let args = ["check", "--config", "right/shared.toml"];
        command(&args).env("LINEWAY_LOG", value).output().unwrap()
    };
    for right in ["", "debug", "warn,lineway=trace"] {
        assert_eq!(check(right).status.code(), Some(0), "{right}");
    }
    let output = check("debgu");
    assert_eq!(output.status.code(), Some(2));
    let messages = text(&output.stderr);
    assert!(messages.starts_with("LINEWAY_LOG: found string \"debgu\""), "{messages}");
    assert!(messages.contains("did you mean `debug`?"), "{messages}");
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    for args in [
        &["no-such-command"][..],
        &["check", "--no-such-flag"],
        &["completions", "sh?"],
        &["man", "nope"],
    ] {
        let output = lineway(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_ne!(text(&output.stderr), "", "{args:?}");
    }
    for args in
        [&["--help"][..], &["--version"], &["completions", "bash"], &["man"], &["man", "check"]]
    {
        let output = lineway(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(text(&output.stdout).contains("lineway"), "{args:?}");
    }
}

#[test]
fn a_reader_that_went_away_ends_the_output_quietly() {
    for args in [&["man"][..], &["completions", "zsh"], &["check", "--config", "right/shared.toml"]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = command(args);
        child.stdout(writer).stderr(std::process::Stdio::piped());
        let output = child.spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(text(&output.stderr), "", "{args:?}");
    }
}

/// A right file with a few bytes changed.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let names = [
        "right/shared.toml",
        "right/every-setting.toml",
        "right/names.toml",
        "right/fisher.toml",
        "right/mux.toml",
        "right/sockets.toml",
        "wrong/misspelt.toml",
        "wrong/fisher.toml",
        "wrong/mux.toml",
        "wrong/sockets.toml",
    ];
    let edit =
        (any::<prop::sample::Index>(), 0..12_usize, prop::collection::vec(any::<u8>(), 0..4));
    (prop::sample::select(names.to_vec()), prop::collection::vec(edit, 1..6)).prop_map(
        |(name, edits)| {
            let mut bytes = fs::read(Path::new("tests/config").join(name)).unwrap();
            for (at, removed, added) in edits {
                let start = at.index(bytes.len() + 1);
                let end = (start + removed).min(bytes.len());
                bytes.splice(start..end, added);
            }
            bytes
        },
    )
}

/// Text out of the pieces that TOML gives a meaning to.
fn pieces() -> impl Strategy<Value = String> {
    let words = [
        "[[node]]",
        "[node]",
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        "=",
        ".",
        ",",
        "\"",
        "'",
        "\"\"\"",
        "#",
        "\n",
        "\r\n",
        " ",
        "name",
        "type",
        "next",
        "settings",
        "port",
        "address",
        "\"in\"",
        "\"TcpListener\"",
        "\"TcpConnector\"",
        "addresses",
        "service",
        "node",
        "0",
        "-1",
        "0x1f",
        "1e9",
        "inf",
        "1979-05-27",
        "true",
        "\\u0000",
        "\u{feff}",
        "ü",
        "\0",
        "\u{1b}",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()).prop_map(str::to_owned), 0..60)
        .prop_map(|words| words.concat())
}

/// Reads a text and shows what is wrong with it, in process.
fn survives(text: &str) {
    use lineway::config::{LoadOptions, parse};
    match parse(text, "f.toml", &LoadOptions::default()) {
        Ok(config) => drop(lineway::chain::tree(&config.plan)),
        Err(problems) => {
            assert!(problems.len() > 0);
            assert_eq!(problems.lines().count(), problems.len());
            for line in problems.lines() {
                assert!(line.starts_with("f.toml:"), "{line}");
                assert!(!line.contains(char::is_control), "{line:?}");
            }
            assert!(problems.render(true).len() >= problems.render(false).len());
        }
    }
}

#[test]
fn names_with_line_breaks_are_shown_in_one_line() {
    survives(
        "[[node]]\nname = \"a\\nb\"\ntype = \"EchoServer\"\n\
         [[node]]\nname = \"in\"\ntype = \"TcpListener\"\nnext = \"9\"\n\
         settings = { address = \"127.0.0.1\", port = 7000 }\n",
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_files_never_panic(bytes in mutated()) {
        survives(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_pieces_never_panic(text in pieces()) {
        survives(&text);
    }

    #[test]
    fn any_text_never_panics(text in any::<String>()) {
        survives(&text);
    }
}
