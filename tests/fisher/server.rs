//! The server against a client that the test plays.

use std::io::{ErrorKind, Read as _};
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::peers::{connect, ended, finish, read, read_all};
use crate::common::{Service, connector, listener, until};
use crate::far::{Far, PROBE, REPLY, send};
use crate::{nothing_left, server_to};

/// So many lines whose probe failed for this reason.
#[track_caller]
fn failed(service: &Service, reason: &str, count: u32) {
    let labels = [("node", "fs"), ("reason", reason)];
    service.until_metric("lineway_fisher_probe_failures_total", &labels, f64::from(count));
}

/// So many lines that went on like this after the probe.
#[track_caller]
fn went_on(service: &Service, result: &str, count: u32) {
    let labels = [("node", "fs"), ("result", result)];
    service.until_metric("lineway_fisher_server_first_total", &labels, f64::from(count));
}

/// No connection to the backend was tried, and none came.
#[track_caller]
fn never_dialled(service: &Service, far: &Far) {
    assert_eq!(service.metric("lineway_dials_total", &[("node", "out")]) as u32, 0);
    assert!(far.waiting().is_none());
}

#[test]
fn case_t20_a_the_probe_in_two_pieces_with_payload_behind_it() {
    let far = Far::new();
    let service = server_to(far.address, 0);
    let mut client = connect(service.at("in"));
    send(&mut client, [0x46, 0x49]);
    send(&mut client, [0x53, 0x48, 0x3f, 0x68, 0x69]);
    assert_eq!(read(&mut client, 5), [0x46, 0x49, 0x53, 0x48, 0x21]);
    let mut backend = far.accept();
    assert_eq!(read(&mut backend, 2), b"hi");
    finish(&client);
    assert_eq!(read_all(&mut backend), b"", "hi and nothing else");
    send(&mut backend, "ho");
    drop(backend);
    assert_eq!(read_all(&mut client), b"ho");
    went_on(&service, "payload", 1);
    nothing_left(&service);
}

#[test]
fn case_t20_b_the_probe_in_single_bytes() {
    let far = Far::new();
    let service = server_to(far.address, 0);
    let mut client = connect(service.at("in"));
    for byte in [0x46, 0x49, 0x53, 0x48, 0x3f] {
        // The case has the bytes 50 ms apart.
        sleep(Duration::from_millis(50));
        send(&mut client, [byte]);
    }
    assert_eq!(read(&mut client, 5), REPLY);
    never_dialled(&service, &far);
    send(&mut client, "later");
    assert_eq!(read(&mut far.accept(), 5), b"later");
}

#[test]
fn case_t20_c_f_wrong_bytes_are_closed_and_the_backend_never_dialled() {
    let far = Far::new();
    let service = server_to(far.address, 100);
    let mut client = connect(service.at("in"));
    let begun = Instant::now();
    send(&mut client, [0x46, 0x49, 0x53, 0x48, 0x2e]);
    assert_eq!(read_all(&mut client), b"");
    failed(&service, "wrong-bytes", 1);
    let mut client = connect(service.at("in"));
    send(&mut client, [0x46; 5000]);
    ended(&mut client);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    failed(&service, "wrong-bytes", 2);
    nothing_left(&service);
    never_dialled(&service, &far);
}

#[test]
fn case_t20_d_four_bytes_and_silence_are_closed_after_five_seconds() {
    let far = Far::new();
    // S08 is not the idle time of the listener, which would end the line as well.
    let idle = "initial-idle-timeout-ms = 0,";
    let nodes = listener("in", "fs", idle) + &crate::fisher_server("fs", "out", 100);
    let service = Service::start(&(nodes + &connector("out", far.address, "")));
    let begun = Instant::now();
    let mut client = connect(service.at("in"));
    send(&mut client, [0x46, 0x49, 0x53, 0x48]);
    assert_eq!(read_all(&mut client), b"");
    let took = begun.elapsed();
    assert!((4900..6500).contains(&took.as_millis()), "{took:?}");
    failed(&service, "timeout", 1);
    nothing_left(&service);
    never_dialled(&service, &far);
}

#[test]
fn case_t20_e_the_end_right_behind_the_probe() {
    let far = Far::new();
    let service = server_to(far.address, 100);
    for round in 1..=100 {
        let mut client = connect(service.at("in"));
        send(&mut client, PROBE);
        finish(&client);
        assert_eq!(read_all(&mut client), REPLY);
        went_on(&service, "ended", round);
    }
    nothing_left(&service);
    never_dialled(&service, &far);
}

#[test]
fn fisher_s02_an_end_before_the_probe_is_whole_closes() {
    let far = Far::new();
    let service = server_to(far.address, 100);
    for sent in ["", "FISH"] {
        let mut client = connect(service.at("in"));
        send(&mut client, sent);
        finish(&client);
        assert_eq!(read_all(&mut client), b"");
    }
    failed(&service, "closed", 2);
    nothing_left(&service);
    never_dialled(&service, &far);
}

#[test]
fn fisher_s04b_a_server_that_speaks_first_is_heard() {
    let far = Far::new();
    let service = server_to(far.address, 200);
    let mut client = connect(service.at("in"));
    let begun = Instant::now();
    send(&mut client, PROBE);
    assert_eq!(read(&mut client, 5), REPLY);
    let mut backend = far.accept();
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    send(&mut backend, "220 at your service\r\n");
    assert_eq!(read(&mut client, 21), b"220 at your service\r\n");
    send(&mut client, "QUIT\r\n");
    finish(&client);
    assert_eq!(read_all(&mut backend), b"QUIT\r\n");
    drop(backend);
    assert_eq!(read_all(&mut client), b"");
    went_on(&service, "dialled", 1);
    nothing_left(&service);
}

#[test]
fn fisher_s04b_with_delay_0_the_backend_waits_for_payload() {
    let far = Far::new();
    let service = server_to(far.address, 0);
    let mut client = connect(service.at("in"));
    send(&mut client, PROBE);
    assert_eq!(read(&mut client, 5), REPLY);
    // Longer than the default of the setting.
    client.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
    let kind = client.read(&mut [0]).unwrap_err().kind();
    assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{kind}");
    never_dialled(&service, &far);
    send(&mut client, "now");
    assert_eq!(read(&mut far.accept(), 3), b"now");
}

#[test]
fn fisher_s04_losers_never_reach_the_backend() {
    let far = Far::new();
    let service = server_to(far.address, 1000);
    let mut lines: Vec<_> = (0..20).map(|_| connect(service.at("in"))).collect();
    for line in &mut lines {
        send(line, PROBE);
        assert_eq!(read(line, 5), REPLY);
    }
    let mut winner = lines.pop().unwrap();
    drop(lines);
    send(&mut winner, "mine");
    assert_eq!(read(&mut far.accept(), 4), b"mine");
    went_on(&service, "ended", 19);
    until("one line is left", || service.json("/api/lines")["total"] == 1);
    assert!(far.waiting().is_none());
    service.until_metric("lineway_dials_total", &[("node", "out")], 1.0);
}

/// What a recorded client sent on one connection, and what its server sent.
const RECORDED: [(&[u8], &[u8]); 6] = crate::golden::CONNECTIONS;

/// Answers as the server behind the recorded one did.
fn recorded_backend() -> SocketAddr {
    crate::common::peers::serve(|mut stream| {
        let request = read(&mut stream, 7);
        let at = RECORDED.iter().position(|(sent, _)| sent[5..] == request[..]);
        let (_, reply) = RECORDED[at.expect("a request of the recording")];
        send(&mut stream, &reply[5..]);
    })
}

#[test]
fn the_server_answers_a_recorded_client_byte_for_byte() {
    for whole in [false, true] {
        let service = server_to(recorded_backend(), 0);
        for (sent, answer) in RECORDED {
            let mut client = connect(service.at("in"));
            if whole {
                send(&mut client, sent);
            } else {
                send(&mut client, &sent[..5]);
                assert_eq!(read(&mut client, 5), &answer[..5]);
                send(&mut client, &sent[5..]);
            }
            let rest = if whole { answer } else { &answer[5..] };
            assert_eq!(read(&mut client, rest.len()), rest);
            finish(&client);
            assert_eq!(read_all(&mut client), b"");
        }
        went_on(&service, "payload", 2);
        went_on(&service, "ended", 4);
        service.until_metric("lineway_dials_total", &[("node", "out")], 2.0);
        nothing_left(&service);
    }
}
