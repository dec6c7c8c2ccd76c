//! Which request gets which answer.

use std::sync::Arc;

use futures_util::FutureExt;
use lineway_actors::registry::LineId;
use lineway_actors::wire::line::{Direction, PauseReason, PauseReasons};
use serde_json::json;

use super::{HOSTILE, add_lines, beside, context};
use crate::admin::{CloseOutcome, NotReady};

#[tokio::test]
async fn every_route_has_its_type_and_its_methods() {
    beside(context(), |server| async move {
        for (path, content_type) in [
            ("/", "text/html; charset=utf-8"),
            ("/page.css", "text/css; charset=utf-8"),
            ("/page.js", "text/javascript; charset=utf-8"),
            ("/icon.svg", "image/svg+xml"),
            ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
            ("/healthz", "text/plain; charset=utf-8"),
            ("/readyz", "text/plain; charset=utf-8"),
            ("/api/lines", "application/json"),
            ("/api/nodes", "application/json"),
            ("/api/sockets", "application/json"),
            ("/api/sip", "application/json"),
        ] {
            let answer = server.get(path).await;
            assert_eq!(answer.status, 200, "{path}");
            assert_eq!(answer.header("content-type"), Some(content_type));
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            assert!(!answer.body.is_empty(), "{path}");
            for method in ["PUT", "DELETE", "OPTIONS", "TRACE"] {
                let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
                let answer = server.ask(request).await;
                assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_head_is_that_of_get_and_nothing_follows_it() {
    beside(context(), |server| async move {
        for path in ["/", "/metrics", "/readyz", "/api/lines", "/nothing"] {
            let mut client = server.connect().await;
            client.send(format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
            let (status, head) = client.head().await.unwrap();
            let get = server.get(path).await;
            assert_eq!(status, get.status, "{path}");
            // How long a body is need not be said where it would have to be made for it.
            let kept =
                |line: &&str| !line.starts_with("date:") && *line != "transfer-encoding: chunked";
            let lines = |head: &str| -> Vec<String> {
                head.lines().filter(kept).map(str::to_owned).collect()
            };
            assert_eq!(lines(&head), lines(&get.head), "{path}");
            client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
            assert_eq!(client.answer().await.unwrap().text(), "ok\n", "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_page_comes_with_a_policy_that_lets_nothing_in() {
    beside(context(), |server| async move {
        let page = server.get("/").await;
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self'; "), "{policy}");
        assert!(!page.text().contains("://"), "the page names something elsewhere");
        assert_eq!(server.get("/api/nodes").await.header("cache-control"), Some("no-store"));
    })
    .await;
}

#[tokio::test]
async fn case_m05_other_paths_are_404_and_json_below_api() {
    beside(context(), |server| async move {
        for path in ["/metricsx", "/metrics/", "//", "/../etc/passwd", "/%6detrics", "*"] {
            let answer = server.get(path).await;
            assert_eq!(answer.status, 404, "{path}");
            assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        }
        for path in ["/api", "/api/", "/api/lines/", "/api/lines/0-1", "/api/lines//close"] {
            let answer = server.get(path).await;
            assert_eq!(answer.status, 404, "{path}");
            assert!(answer.json()["error"].is_string());
        }
    })
    .await;
}

#[tokio::test]
async fn case_m05_metrics_come_in_the_format_that_is_preferred() {
    beside(context(), |server| async move {
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\
                       Accept: application/openmetrics-text;version=1.0.0;q=0.6,*/*;q=0.2\r\n\r\n";
        let answer = server.ask(request).await;
        assert_eq!(answer.text(), "OpenMetrics\n");
        let expected = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert_eq!(answer.header("content-type"), Some(expected));
        assert_eq!(answer.header("vary"), Some("accept"));
        assert_eq!(server.get("/metrics").await.text(), "Text\n");
    })
    .await;
}

#[tokio::test]
async fn a_host_that_is_not_ours_is_refused() {
    beside(context(), |server| async move {
        let port = server.address.port();
        for (host, status) in [
            (format!("Host: 127.0.0.1:{port}\r\n"), 200),
            (format!("Host: localhost:{port}\r\n"), 200),
            ("Host: localhost\r\n".to_owned(), 200),
            ("Host: evil.example\r\n".to_owned(), 403),
            (format!("Host: evil.example:{port}\r\n"), 403),
            ("Host: 127.0.0.1:1\r\n".to_owned(), 403),
            ("Host:\r\n".to_owned(), 403),
            ("Host: \u{ff}\r\n".to_owned(), 403),
            ("Host: localhost\r\nHost: localhost\r\n".to_owned(), 400),
            (String::new(), 400),
        ] {
            let answer = server.ask(format!("GET /api/lines HTTP/1.1\r\n{host}\r\n")).await;
            assert_eq!(answer.status, status, "{host}");
            assert_eq!(answer.json()["error"].is_string(), status != 200);
        }
        let absolute = "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert_eq!(server.ask(absolute).await.status, 403);
        assert_eq!(server.ask("GET /healthz HTTP/1.0\r\n\r\n").await.status, 200);
        let foreign = "GET /healthz HTTP/1.0\r\nHost: evil.example\r\n\r\n";
        assert_eq!(server.ask(foreign).await.status, 403);
    })
    .await;
}

#[tokio::test]
async fn closing_a_line_needs_the_header_and_a_line() {
    let context = context();
    let registry = context.registry.clone();
    add_lines(&registry, "in", 1..=2);
    beside(context, |server| async move {
        let close = async |id: &str, headers: &str| {
            let request =
                format!("POST /api/lines/{id}/close HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
            let answer = server.ask(request).await;
            (answer.status, answer.json())
        };
        assert_eq!(close("0-1", "").await.0, 403);
        assert_eq!(close("0-1", "X-Lineway: 0\r\n").await.0, 403);
        assert_eq!(registry.len(), 2);
        let (status, body) = close("0-1", "X-Lineway: 1\r\n").await;
        assert_eq!((status, body), (202, json!({ "id": "0-1", "result": "closing" })));
        assert_eq!(registry.len(), 1);
        let (status, body) = close("0-1", "X-Lineway: 1\r\n").await;
        assert_eq!((status, body), (404, json!({ "error": "there is no line 0-1" })));
        for id in ["1", "0-", "a-b", "0-1%20", "99999-1", "0-99999999999999999999"] {
            assert_eq!(close(id, "X-Lineway: 1\r\n").await.0, 400, "{id}");
        }
        let get = server.get("/api/lines/0-2/close").await;
        assert_eq!((get.status, get.header("allow")), (405, Some("POST")));
    })
    .await;
}

#[tokio::test]
async fn a_line_that_nobody_can_be_told_to_close_is_503() {
    let mut context = context();
    context.close = Arc::new(|_| async { CloseOutcome::Unavailable }.boxed());
    beside(context, |server| async move {
        let request =
            "POST /api/lines/0-1/close HTTP/1.1\r\nHost: localhost\r\nX-Lineway: 1\r\n\r\n";
        assert_eq!(server.ask(request).await.status, 503);
    })
    .await;
}

#[tokio::test]
async fn case_m22_readiness_names_what_can_not_serve_one_in_a_line() {
    let mut context = context();
    context.live = Arc::new(|| Err(vec!["worker 1 stands still".into()]));
    context.ready = Arc::new(|| {
        let service = NotReady { node: None, reason: "draining".into() };
        let node = NotReady { node: Some(HOSTILE.into()), reason: "refused".into() };
        Err(vec![service, node])
    });
    beside(context, |server| async move {
        let ready = server.get("/readyz").await;
        assert_eq!(ready.status, 503);
        let expected = "service: draining\nin\"1\\x\\n<script>\u{202e}: refused\n";
        assert_eq!(ready.text(), expected);
        let alive = server.get("/healthz").await;
        assert_eq!((alive.status, alive.text()), (503, "worker 1 stands still\n"));
        let nodes = server.get("/api/nodes").await.json();
        assert_eq!(nodes["service"]["ready"], false);
        assert_eq!(nodes["service"]["reasons"], json!(["draining"]));
        assert_eq!(nodes["nodes"][0]["ready"], false);
        assert_eq!(nodes["nodes"][0]["reason"], "refused");
        assert_eq!(nodes["nodes"][1]["ready"], true);
    })
    .await;
}

#[tokio::test]
async fn a_line_shows_all_that_is_known_of_it() {
    let context = context();
    add_lines(&context.registry, HOSTILE, 7..=7);
    let line = context.registry.get(LineId { worker: 0, number: 7 }).unwrap();
    line.set_bytes(Direction::Upstream, 5);
    line.set_queued(Direction::Downstream, 6);
    let mut reasons = PauseReasons::NONE;
    reasons.pause(PauseReason::Queue);
    reasons.pause(PauseReason::Peer);
    line.set_paused(Direction::Downstream, reasons);
    beside(context, |server| async move {
        let mut answer = server.get("/api/lines").await.json();
        let line = answer["lines"][0].as_object_mut().unwrap();
        let age = line.remove("age_seconds").unwrap();
        assert!(age.as_f64().is_some_and(|age| (0.0..60.0).contains(&age)), "{age}");
        let opened_at = line.remove("opened_at").unwrap();
        let opened_at: jiff::Timestamp = opened_at.as_str().unwrap().parse().unwrap();
        assert!(jiff::Timestamp::now().duration_since(opened_at).as_secs() < 60);
        let expected = json!({ "total": 1, "next": null, "lines": [{
            "id": "0-7", "kind": "main", "node": HOSTILE, "maker": null, "parent": null, "mux": [],
            "peer": "192.0.2.1:40000", "state": "opening",
            "bytes": { "upstream": 5, "downstream": 0 },
            "queued": { "upstream": 0, "downstream": 6 },
            "paused": { "upstream": [], "downstream": ["queue", "peer"] },
        }] });
        assert_eq!(answer, expected);
        let nodes = server.get("/api/nodes").await.json();
        assert_eq!(nodes["service"]["version"], "1.2.3");
        assert_eq!(nodes["service"]["lines_open"], 1);
        let expected = json!({
            "name": HOSTILE, "type": "TesterClient", "next": "echo", "ready": true,
            "reason": null, "lines_open": 1, "settings": { "lines": 1 },
        });
        assert_eq!(nodes["nodes"][0], expected);
        let expected = json!({ "total": 0, "sockets": [] });
        assert_eq!(server.get("/api/sockets").await.json(), expected);
        let expected = json!({ "chains": [] });
        assert_eq!(server.get("/api/sip").await.json(), expected);
    })
    .await;
}

#[tokio::test]
async fn ten_thousand_lines_come_in_pages_each_line_once() {
    let context = context();
    add_lines(&context.registry, "in", 1..=9_999);
    add_lines(&context.registry, "o t", 10_000..=10_000);
    beside(context, |server| async move {
        assert_eq!(server.get("/api/lines").await.json()["lines"].as_array().unwrap().len(), 1000);
        let mut after = String::new();
        let mut ids = Vec::new();
        loop {
            let page = server.get(&format!("/api/lines?limit=3000{after}")).await.json();
            assert_eq!(page["total"], 10_000);
            let lines = page["lines"].as_array().unwrap();
            ids.extend(lines.iter().map(|line| line["id"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        assert_eq!(ids, (1..=10_000).map(|n| format!("0-{n}")).collect::<Vec<_>>());
        let one = server.get("/api/lines?node=o%20t").await.json();
        assert_eq!((&one["total"], &one["lines"][0]["id"]), (&json!(1), &json!("0-10000")));
        let wrong = server.get("/api/lines?limit=many").await;
        assert_eq!(wrong.status, 400);
        assert!(wrong.json()["error"].as_str().unwrap().starts_with("limit:"));
    })
    .await;
}

#[tokio::test]
async fn the_lines_command_reads_what_the_service_serves() {
    let context = context();
    add_lines(&context.registry, HOSTILE, 1..=12_345);
    beside(context, |server| async move {
        let pages = crate::lines::fetch(server.address).await.unwrap();
        let lines: usize = pages.iter().map(|page| page.lines.len()).sum();
        assert_eq!((pages.len(), lines), (2, 12_345));
    })
    .await;
}
