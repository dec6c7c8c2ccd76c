//! Scanners, slow and broken clients, and too many of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use super::{Client, add_lines, beside, context};

const GET: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Waits for the end of a connection: after how many seconds, and what came before it.
async fn end_of(client: &mut Client) -> (u64, Vec<u8>) {
    let before = Instant::now();
    while client.more().await {}
    (before.elapsed().as_secs(), std::mem::take(&mut client.buffer))
}

#[tokio::test]
async fn case_m05_a_request_line_of_a_megabyte_gets_an_answer_and_the_next_client_too() {
    beside(context(), |server| async move {
        let long = "a".repeat(1024 * 1024);
        for request in [
            format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            format!("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: {long}\r\n\r\n"),
            format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "A: b\r\n".repeat(100)),
        ] {
            let status = server.ask(request).await.status;
            assert!(status == 414 || status == 431, "{status}");
            assert_eq!(server.get("/metrics").await.status, 200);
        }
    })
    .await;
}

#[tokio::test]
async fn garbage_hurts_nobody_else() {
    beside(context(), |server| async move {
        let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice();
        for bytes in [
            hello,
            b"\x00\x00\x00\x00",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"SSH-2.0-x\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        ] {
            let mut client = server.connect().await;
            client.send(bytes).await;
            client.stream.shutdown().await.unwrap();
            let (_, answer) = end_of(&mut client).await;
            let refused = answer.starts_with(b"HTTP/1.1 4");
            assert!(answer.is_empty() || refused, "{}", answer.escape_ascii());
            assert_eq!(server.get("/healthz").await.status, 200);
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_closed_its_sending_side_gets_its_answer() {
    beside(context(), |server| async move {
        let mut client = server.connect().await;
        client.send(GET).await;
        client.stream.shutdown().await.unwrap();
        assert_eq!(client.answer().await.unwrap().text(), "ok\n");
        assert!(client.ends().await);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_has_five_seconds_however_it_drips() {
    beside(context(), |server| async move {
        let mut silent = server.connect().await;
        assert_eq!(end_of(&mut silent).await, (5, Vec::new()));
        let mut client = server.connect().await;
        client.send(GET).await;
        assert!(client.answer().await.is_some());
        sleep(Duration::from_secs(3)).await;
        let before = Instant::now();
        let (mut read, mut write) = client.stream.into_split();
        let drip = async {
            while write.write_all(b"G").await.is_ok() {
                sleep(Duration::from_millis(400)).await;
            }
        };
        let mut buffer = [0; 64];
        tokio::select! {
            end = read.read(&mut buffer) => assert!(end.is_err() || end.is_ok_and(|n| n == 0)),
            () = drip => {}
        }
        let took = before.elapsed().as_secs_f64();
        assert!((5.0..6.0).contains(&took), "{took}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_waits_fifteen_seconds_for_its_next_request() {
    beside(context(), |server| async move {
        let mut client = server.connect().await;
        for _ in 0..3 {
            client.send(GET).await;
            assert_eq!(client.answer().await.unwrap().text(), "ok\n");
            sleep(Duration::from_secs(14)).await;
        }
        assert_eq!(end_of(&mut client).await, (1, Vec::new()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_has_its_limits_in_bytes_and_time() {
    beside(context(), |server| async move {
        let head = "POST /api/lines/0-1/close HTTP/1.1\r\nHost: localhost\r\nX-Lineway: 1\r\n";
        let long = format!("{head}Content-Length: 4097\r\n\r\n");
        assert_eq!(server.ask(long).await.status, 413);
        let chunks = format!("1000\r\n{}\r\n1\r\na\r\n0\r\n\r\n", "a".repeat(4096));
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}");
        assert_eq!(server.ask(chunked).await.status, 413);
        let right = format!("{head}Content-Length: 4096\r\n\r\n{}", "a".repeat(4096));
        assert_eq!(server.ask(right).await.status, 404);
        let before = Instant::now();
        let answer = server.ask(format!("{head}Content-Length: 5\r\n\r\na")).await;
        assert_eq!((answer.status, before.elapsed().as_secs()), (408, 5));
        assert_eq!(answer.header("connection"), Some("close"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_reads_is_given_up() {
    let context = context();
    let registry = context.registry.clone();
    add_lines(&registry, "in", 1..=50_000);
    beside(context, |server| async move {
        let line = registry.snapshot()[0].clone();
        let shares = Arc::strong_count(&line);
        let mut client = server.connect().await;
        client.send("GET /api/lines?limit=100000 HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        let last = registry.snapshot()[49_999].clone();
        client.stream.readable().await.unwrap();
        assert!(Arc::strong_count(&last) > 2, "the answer is whole: nothing was held back");
        sleep(Duration::from_secs(16)).await;
        assert_eq!(Arc::strong_count(&last), 2);
        assert_eq!(Arc::strong_count(&line), shares);
        assert_eq!(server.get("/healthz").await.status, 200);
    })
    .await;
}

#[tokio::test]
async fn the_oldest_idle_connection_makes_room_for_the_sixty_fifth() {
    beside(context(), |server| async move {
        let mut clients = Vec::new();
        for _ in 0..64 {
            let mut client = server.connect().await;
            client.send(GET).await;
            assert!(client.answer().await.is_some());
            clients.push(client);
        }
        let mut oldest = clients.remove(0);
        oldest.send(GET).await;
        assert!(oldest.answer().await.is_some());
        assert_eq!(server.get("/healthz").await.status, 200);
        assert!(clients[0].ends().await);
        oldest.send(GET).await;
        assert!(oldest.answer().await.is_some());
    })
    .await;
}

#[tokio::test]
async fn three_hundred_silent_connections_keep_nobody_out() {
    beside(context(), |server| async move {
        let mut silent = Vec::new();
        for _ in 0..300 {
            silent.push(server.connect().await);
        }
        assert_eq!(server.get("/metrics").await.status, 200);
        assert!(silent[0].ends().await);
    })
    .await;
}

#[tokio::test]
async fn a_panic_ends_one_connection() {
    let mut context = context();
    context.metrics = Arc::new(|_| panic!("on purpose"));
    beside(context, |server| async move {
        let mut client = server.connect().await;
        client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert!(client.ends().await);
        assert_eq!(server.get("/healthz").await.status, 200);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn case_m16_a_silent_connection_does_not_hold_the_shutdown() {
    beside(context(), |server| async move {
        let mut silent = server.connect().await;
        let mut waiting = server.connect().await;
        waiting.send(GET).await;
        assert!(waiting.answer().await.is_some());
        let before = Instant::now();
        server.stop.take().unwrap().send(()).unwrap();
        server.task.await.unwrap().unwrap();
        assert!(before.elapsed() <= Duration::from_secs(1));
        assert!(silent.ends().await);
        assert!(waiting.ends().await);
    })
    .await;
}
