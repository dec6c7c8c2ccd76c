//! The process has no descriptor left (M-11). The limit is one of the process, so the server runs
//! in a process of its own: this test program again, with the one ignored test.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::{LocalSet, spawn_blocking};

use super::context;
use crate::admin::Server;

const LIMIT: u64 = 64;

#[test]
#[ignore = "run in a process of its own by case_m11_metrics_are_reachable_throughout"]
fn case_m11_server() {
    let errors = Arc::new(AtomicUsize::new(0));
    let mut context = context();
    let counted = Arc::clone(&errors);
    context.accept_error = Arc::new(move |_| {
        counted.fetch_add(1, Relaxed);
    });
    // Like the figures of the process, which are read from /proc.
    context.metrics = Arc::new(move |_| {
        let opened: Vec<_> = (0..3).map_while(|_| File::open("/proc/self/stat").ok()).collect();
        format!("{} {}\n", opened.len(), errors.load(Relaxed))
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = server.local_addr();
    LocalSet::new().block_on(&runtime, async {
        let talk = spawn_blocking(move || {
            let hard = getrlimit(Resource::Nofile).maximum;
            setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT), maximum: hard }).unwrap();
            let taken: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
            assert!(!taken.is_empty());
            println!("\naddress={address}");
            let mut word = String::new();
            std::io::stdin().read_line(&mut word).unwrap();
            drop(taken);
            println!("\nfree");
            std::io::stdin().read_line(&mut word).unwrap();
        });
        server.serve(context, async { talk.await.unwrap() }).await.unwrap();
    });
}

/// The head and the body of the metrics.
fn scrape(address: SocketAddr) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

#[test]
fn case_m11_metrics_are_reachable_throughout() {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "admin::tests::descriptors::case_m11_server", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = server.stdin.take().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.find_map(|line| Some(line.strip_prefix("address=")?.to_owned()));
    let address: SocketAddr = address.unwrap().parse().unwrap();

    // One after the other, each on a descriptor of the reserve, which is whole again each time.
    for _ in 0..50 {
        let (head, body) = scrape(address);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.contains("connection: close"), "{head}");
        assert!(body.starts_with("3 "), "the process's figures are missing: {body}");
    }
    // More silent clients than the reserve has descriptors.
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    let (_, body) = scrape(address);
    assert!(body.starts_with("3 "), "{body}");
    let errors: usize = body.trim_end().split_once(' ').unwrap().1.parse().unwrap();
    assert!((70..2000).contains(&errors), "{errors} errors of accept");
    drop(silent);

    writeln!(stdin, "free").unwrap();
    assert!(lines.any(|line| line == "free"));
    let last = std::iter::repeat_with(|| scrape(address).0).take(100);
    assert!(last.into_iter().any(|head| !head.contains("connection: close")));
    writeln!(stdin, "end").unwrap();
    drop(stdin);
    assert!(server.wait().unwrap().success());
}
