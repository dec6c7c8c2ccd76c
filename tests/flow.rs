//! What flows through a chain: bounded memory, nothing left behind, exact counts.

mod common;

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use common::peers::{connect, echoed, finish, read_all, serve, serve_once};
use common::{Service, connector, end, listener};

/// Bytes that repeat with a period that no buffer size divides.
fn pattern() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..(1 << 20) - 7).map(|_| word()).collect()
}

#[test]
fn tcp_t04_a_reader_that_stalls_costs_no_memory() {
    // A gibibyte is for a machine with time.
    let big = std::env::var_os("LINEWAY_TEST_BIG").is_some_and(|value| value == "1");
    let total: usize = if big { 1 << 30 } else { 128 << 20 };
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let (server, received) = serve_once(move |mut stream| {
        let pattern = pattern();
        let mut buffer = vec![0; 256 << 10];
        let mut at = 0;
        loop {
            if at >= total / 2 && gone.try_recv().is_ok() {
                // Until the test has seen that the chain stands still.
                let _ = gone.recv();
            }
            let from = at % pattern.len();
            let most = buffer.len().min(pattern.len() - from);
            let length = stream.read(&mut buffer[..most]).expect("bytes come");
            if length == 0 {
                return at;
            }
            assert!(buffer[..length] == pattern[from..from + length], "at {at}");
            at += length;
        }
    });
    let service = Service::start(&(listener("in", "out", "") + &connector("out", server, "")));
    let mut client = connect(service.at("in"));
    let before = service.rss();
    go.send(()).unwrap();
    let writer = std::thread::spawn(move || {
        let pattern = pattern();
        let mut left = total;
        while left > 0 {
            let length = left.min(pattern.len());
            client.write_all(&pattern[..length]).expect("it is taken");
            left -= length;
        }
        finish(&client);
        read_all(&mut client)
    });
    let most = Cell::new(before);
    let moved = || {
        most.set(most.get().max(service.rss()));
        let up = [("node", "in"), ("direction", "upstream")];
        service.metric("lineway_payload_bytes_total", &up)
    };
    // Everything stands still once all queues and buffers are full.
    common::until("half of it is through", || moved() >= (total / 2) as f64);
    let mut last = 0.0;
    common::within(Duration::from_secs(60), "it stands still", || {
        std::thread::sleep(Duration::from_millis(500));
        let now = moved();
        std::mem::replace(&mut last, now).total_cmp(&now).is_eq()
    });
    std::thread::sleep(Duration::from_secs(1));
    assert!(moved() < (total - (1 << 20)) as f64, "the reader did not stall");
    let queued = service.metric("lineway_queued_bytes", &[("node", "in")]);
    assert!((1.0..=1_048_576.0).contains(&queued), "{queued} bytes are queued");
    go.send(()).unwrap();
    common::until("the rest is through", || moved() >= total as f64);
    assert_eq!(received.join().unwrap(), total);
    assert_eq!(writer.join().unwrap(), b"");
    let grown = most.get() - before;
    assert!(grown < 16 << 20, "memory grew by {grown} bytes");
    service.until_metric("lineway_queued_bytes", &[("node", "in")], 0.0);
    let up = [("node", "in"), ("direction", "upstream")];
    service.until_metric("lineway_payload_bytes_total", &up, total as f64);
}

#[test]
fn ten_thousand_lines_leave_nothing_behind() {
    let echo = Service::start(&(listener("in", "echo", "") + &end("echo", "EchoServer")));
    let nodes = listener("in", "out", "") + &connector("out", echo.at("in"), "");
    let service = Service::start(&nodes);
    let hundreds = |count: usize| {
        for _ in 0..count {
            let mut clients: Vec<_> = (0..100).map(|_| connect(service.at("in"))).collect();
            for client in &mut clients {
                echoed(client, "hello");
            }
        }
        for service in [&service, &echo] {
            service.until_metric("lineway_lines_open", &[], 0.0);
            service.until_metric("lineway_queued_bytes", &[], 0.0);
        }
    };
    let actors = |kind| service.metric("lineway_actors_alive", &[("kind", kind)]) as u64;
    let state = || {
        let kinds = ["listener", "main-line", "worker", "supervisor", "admin"];
        (kinds.map(actors), service.descriptors())
    };
    hundreds(20);
    // The connection of the last scrape may not be over yet.
    let (alive, descriptors) = state();
    let memory = [service.rss(), echo.rss()];
    hundreds(80);
    common::until("actors and descriptors are those of before", || {
        let (now, open) = state();
        now == alive && open <= descriptors
    });
    for (service, before) in [&service, &echo].into_iter().zip(memory) {
        let grown = service.rss().saturating_sub(before);
        assert!(grown < 4 << 20, "memory grew by {grown} bytes");
    }
    let right = [("node", "in"), ("reason", "peer-finished")];
    service.until_metric("lineway_lines_closed_total", &right, 10_000.0);
    service.until_metric("lineway_dials_total", &[("result", "connected")], 10_000.0);
}

#[test]
fn case_m07_counts_are_exact() {
    const CONNECTIONS: usize = 137;
    const UP: usize = 12_345_678;
    const DOWN: usize = 1_000;
    // The first byte of a request asks for that many bytes.
    let server = serve(|mut stream| {
        let request = read_all(&mut stream);
        let reply = vec![b'r'; usize::from(request[0])];
        stream.write_all(&reply).expect("the reply is taken");
    });
    let nodes = listener("in", "out", "") + &connector("out", server, "");
    let service = Service::start(&nodes);
    let share =
        |total: usize, of: usize| total / CONNECTIONS + usize::from(of < total % CONNECTIONS);
    for of in 0..CONNECTIONS {
        let mut client = connect(service.at("in"));
        let mut request = vec![b'q'; share(UP, of)];
        request[0] = share(DOWN, of) as u8;
        client.write_all(&request).unwrap();
        finish(&client);
        assert_eq!(read_all(&mut client).len(), share(DOWN, of));
    }
    service.until_metric("lineway_lines_open", &[("node", "in")], 0.0);
    let page = service.scrape();
    let direction = |word| {
        let labels = [("node", "in"), ("direction", word)];
        page.sum("lineway_payload_bytes_total", &labels) as usize
    };
    assert_eq!((direction("upstream"), direction("downstream")), (UP, DOWN));
    let count = |name, labels: &[(&str, &str)]| page.sum(name, labels) as usize;
    assert_eq!(count("lineway_lines_opened_total", &[("node", "in")]), CONNECTIONS);
    assert_eq!(count("lineway_lines_closed_total", &[("node", "in")]), CONNECTIONS);
    let right = [("node", "in"), ("reason", "peer-finished")];
    assert_eq!(count("lineway_lines_closed_total", &right), CONNECTIONS);
    assert_eq!(count("lineway_line_lifetime_seconds_count", &[("node", "in")]), CONNECTIONS);
    assert_eq!(count("lineway_dials_total", &[("node", "out")]), CONNECTIONS);
    assert_eq!(count("lineway_dials_total", &[("result", "connected")]), CONNECTIONS);
}
