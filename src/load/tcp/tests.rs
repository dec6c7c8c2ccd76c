use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn args(line: &str) -> Args {
    Line::try_parse_from(["x"].into_iter().chain(line.split_whitespace()))
        .unwrap_or_else(|error| panic!("{line}: {error}"))
        .args
}

fn peer(peer: Peer) -> Server {
    Server::start("127.0.0.1:0", peer, 1).expect("a free port of the loopback")
}

fn run_against(server: &Server, line: &str) -> Report {
    load(&args(&format!("{} --quiet {line}", server.address()))).expect("an address resolves")
}

#[test]
fn defaults_depend_on_the_mode() {
    assert_eq!(args("h:1").buffer_size(), 256 << 10);
    assert_eq!(args("h:1 --mode ping").buffer_size(), 64);
    assert_eq!(args("h:1 --mode connect --size 9").buffer_size(), 1);
    assert_eq!(args("h:1").duration(), Some(DEFAULT_DURATION));
    assert_eq!(args("h:1 --count 3").duration(), None);
    assert_eq!(args("h:1 --count 3 --duration-ms 7").duration(), Some(Duration::from_millis(7)));
    assert_eq!(args("h:1 --mode idle --count 3").duration(), Some(DEFAULT_DURATION));
}

#[test]
fn arguments_out_of_range_are_refused() {
    for line in [
        "",
        "h:1 --mode x",
        "h:1 --connections 0",
        "h:1 --rate 0",
        "h:1 --count 0",
        "h:1 --threads 0",
        "h:1 --size 999999999",
        "h:1 --serve x",
    ] {
        assert!(
            Line::try_parse_from(["x"].into_iter().chain(line.split_whitespace())).is_err(),
            "{line}"
        );
    }
}

#[test]
fn a_stream_comes_back_byte_for_byte() {
    let server = peer(Peer::Echo);
    let report = run_against(&server, "--connections 3 --size 70001 --count 60 --verify");
    assert!(!report.failed(), "{report}");
    assert_eq!(report.operations, 60);
    assert_eq!(report.sent_bytes, 60 * 70_001);
    assert_eq!(report.received_bytes, report.sent_bytes);
    assert!(report.latency_us.is_none());
}

#[test]
fn a_stream_into_a_sink_brings_nothing_back() {
    let server = peer(Peer::Sink);
    let report = run_against(&server, "--connections 2 --duration-ms 50");
    assert!(!report.failed(), "{report}");
    assert!(report.sent_bytes > 0 && report.sent_gbit_per_second > 0.0);
    assert_eq!(report.received_bytes, 0);
}

#[test]
fn verifying_against_a_sink_fails() {
    let server = peer(Peer::Sink);
    let report = run_against(&server, "--count 2 --verify");
    assert_eq!(report.errors.get(&ErrorKind::Closed), Some(&1));
}

#[test]
fn a_source_is_read_until_the_load_closes() {
    let server = peer(Peer::Source);
    let report = run_against(&server, "--size 0 --duration-ms 50");
    assert_eq!(report.sent_bytes, 0);
    assert!(report.received_bytes > 0, "{report}");
    // Zeros are not what a verified echo would be.
    let report = run_against(&server, "--size 0 --duration-ms 50 --verify");
    assert_eq!(report.errors.get(&ErrorKind::Mismatch), Some(&1));
}

#[test]
fn connects_are_counted_and_timed() {
    let server = peer(Peer::Echo);
    let report =
        run_against(&server, "--mode connect --connections 4 --count 40 --verify --threads 2");
    assert!(!report.failed(), "{report}");
    assert_eq!((report.operations, report.received_bytes), (40, 40));
    let latency = report.latency_us.expect("connects are timed");
    assert!(0.0 < latency.p50 && latency.p50 <= latency.p99 && latency.p99 <= latency.max);
}

#[test]
fn pings_larger_than_every_buffer_come_back() {
    let server = peer(Peer::Echo);
    let report = run_against(&server, "--mode ping --size 16777216 --count 2 --verify");
    assert!(!report.failed(), "{report}");
    assert_eq!(report.operations, 2);
}

#[test]
fn a_rate_spreads_the_pings_over_time() {
    let server = peer(Peer::Echo);
    let report = run_against(&server, "--mode ping --rate 200 --count 21");
    assert!(!report.failed(), "{report}");
    assert_eq!(report.operations, 21);
    // The 21st is due after 20 / 200 s, and no earlier.
    assert!(report.seconds >= 0.1, "{report}");
}

#[test]
fn idle_lines_are_held_together() {
    let server = peer(Peer::Echo);
    let report = run_against(&server, "--mode idle --connections 100 --duration-ms 30");
    assert!(!report.failed(), "{report}");
    assert_eq!(report.operations, 100);
    assert!(report.seconds >= 0.03, "{report}");
}

#[test]
fn idle_lines_that_the_peer_ends_are_errors() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let closer = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        stream.write_all(&byte).unwrap();
    });
    let report = load(&args(&format!("{address} -q --mode idle --duration-ms 60000"))).unwrap();
    closer.join().unwrap();
    assert_eq!(report.errors.get(&ErrorKind::Closed), Some(&1), "{report}");
    assert!(report.seconds < 60.0);
}

#[test]
fn nobody_there_is_an_error_of_its_kind() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let report = load(&args(&format!("{gone} -q --mode connect --count 2"))).unwrap();
    assert_eq!(report.errors.get(&ErrorKind::Refused), Some(&2), "{report}");
    assert!(report.failed());
}

#[test]
fn a_result_reads_as_table_and_as_json() {
    let mut tally = report::Tally { operations: 2, ..report::Tally::default() };
    tally.latency.record(Duration::from_micros(70));
    tally.latency.record(Duration::from_micros(80));
    tally.failed(ErrorKind::TimedOut);
    let report = Report::new(Mode::Ping, "h:1", 1, Duration::from_secs(1), tally);
    let text = report.to_string();
    assert!(text.contains("max                80.0 µs\n"), "{text}");
    assert!(text.contains("errors: timed_out"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["errors"]["timed_out"], 1);
    assert_eq!(json["latency_us"]["max"], 80.0);
}
