//! Every example of the library runs, and ends by itself.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where cargo puts examples: it builds them before it runs tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let path = profile.join("examples").join(name);
    assert!(path.exists(), "run `cargo build --examples` first: no {}", path.display());
    path
}

/// What an example prints, when it has ended well.
fn printed(name: &str) -> String {
    let mut child = Command::new(example(name)).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{name} does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{name}: {status}");
    reading.join().unwrap().unwrap()
}

#[test]
fn example_dealer_router_asks_three_questions() {
    let text = printed("dealer_router");
    for line in ["one: [b\"you said\", b\"one\"]", "three: [", "3 questions were answered"] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
}

#[test]
fn example_worker_pool_does_every_job() {
    let text = printed("worker_pool");
    assert!(text.contains("60 of 60 jobs were done"), "{text}");
    assert!(text.contains("short: 5"), "{text}");
}

#[test]
fn example_flow_state_pauses_and_goes_on() {
    let text = printed("flow_state");
    for line in ["before the pause", "backpressured", "during the pause", "then: DISCONNECTED"] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
}
