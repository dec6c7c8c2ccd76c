use super::*;

async fn callee() -> (String, tokio::task::JoinHandle<std::io::Result<()>>) {
    let callee = Callee::bind("127.0.0.1:0").await.unwrap();
    let address = callee.address().to_string();
    (address, tokio::spawn(async move { callee.serve().await }))
}

fn args(target: &str, mode: Mode) -> Args {
    Args {
        target: target.to_owned(),
        serve: false,
        mode,
        uri: None,
        transport: By::Udp,
        outstanding: 4,
        rate: None,
        duration_ms: None,
        count: Some(20),
        timeout_ms: 5_000,
        json: false,
        quiet: true,
    }
}

#[tokio::test]
async fn calls_and_options_end_well() {
    let (target, served) = callee().await;
    for mode in [Mode::Call, Mode::Options] {
        let report = load(&args(&target, mode)).await.unwrap();
        assert_eq!((report.operations, report.errors.len()), (20, 0), "{report}");
        assert!(report.latency_us.is_some());
    }
    served.abort();
}

#[tokio::test]
async fn a_rate_is_kept() {
    let (target, served) = callee().await;
    let one = Args { rate: Some(100), ..args(&target, Mode::Options) };
    let report = load(&one).await.unwrap();
    assert!(report.seconds > 0.18, "20 at 100 each second took {}", report.seconds);
    served.abort();
}

#[tokio::test]
async fn silence_is_a_timeout_and_requests_are_sent_again() {
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let target = silent.local_addr().unwrap().to_string();
    let one = Args { count: Some(1), timeout_ms: 700, ..args(&target, Mode::Call) };
    let report = load(&one).await.unwrap();
    assert_eq!(report.errors["timeout"], 1);
    assert_eq!((report.operations, report.retransmissions), (0, 1));
}

#[test]
fn the_phone_that_answers_refuses_what_only_a_load_has() {
    let parse = |line: &str| {
        use clap::{Args as _, FromArgMatches as _};
        let command = Args::augment_args(clap::Command::new("sip").no_binary_name(true));
        command.try_get_matches_from(line.split(' ')).map(|found| Args::from_arg_matches(&found))
    };
    assert!(parse("127.0.0.1:0 --serve").unwrap().unwrap().serve);
    for load in ["--transport tcp", "--mode call", "--count 1", "--json"] {
        assert!(parse(&format!("127.0.0.1:0 {load}")).is_ok(), "{load}");
        assert!(parse(&format!("127.0.0.1:0 --serve {load}")).is_err(), "{load}");
    }
}
