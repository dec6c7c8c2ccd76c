mod descriptors;
mod limits;
mod parents;
mod requests;

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use lineway_actors::registry::{LineId, LineView, Registry};
use lineway_actors::settings::{
    DnsSettings, NodePlan, NodeSettings, Plan, ServiceSettings, TesterSettings,
};
use lineway_actors::wire::line::LineKind;
use lineway_actors::wire::units::Millis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, LocalSet, spawn_local};

use super::{CloseOutcome, Context, Server};

/// A node name with all that needs escaping somewhere.
const HOSTILE: &str = "in\"1\\x\n<script>\u{202e}";

fn context() -> Context {
    let registry = Registry::new();
    let closing = registry.clone();
    let tester =
        TesterSettings { chunk_count: 11, timeout: Millis::new(30_000), terminate: true, lines: 1 };
    let node = |name: &str, settings, next: Option<&str>| NodePlan {
        name: name.into(),
        settings,
        next: next.map(Into::into),
    };
    let plan = Arc::new(Plan {
        service: ServiceSettings {
            workers: 1,
            drain_timeout: Millis::new(10_000),
            total_queue: ServiceSettings::TOTAL_QUEUE,
            dns: DnsSettings { servers: Vec::new(), timeout: Millis::new(1000) },
        },
        nodes: vec![
            node(HOSTILE, NodeSettings::TesterClient(tester), Some("echo")),
            node("echo", NodeSettings::EchoServer, None),
        ],
    });
    Context {
        version: "1.2.3",
        started: Instant::now(),
        registry,
        plan: Arc::new(move || Arc::clone(&plan)),
        metrics: Arc::new(|format| format!("{format:?}\n")),
        live: Arc::new(|| Ok(())),
        ready: Arc::new(|| Ok(())),
        close: Arc::new(move |id| {
            let found = closing.remove(id);
            async move { if found { CloseOutcome::Accepted } else { CloseOutcome::Unknown } }
                .boxed()
        }),
        accept_error: Arc::new(|_| {}),
    }
}

fn add_lines(registry: &Registry, node: &str, numbers: std::ops::RangeInclusive<u64>) {
    let node: Arc<str> = node.into();
    for number in numbers {
        let id = LineId { worker: 0, number };
        let peer = Some(SocketAddr::from(([192, 0, 2, 1], 40_000)));
        registry.insert(Arc::new(LineView::new(id, LineKind::Main, Arc::clone(&node), None, peer)));
    }
}

/// A server that runs beside the test.
struct Running {
    address: SocketAddr,
    stop: Rc<Cell<Option<oneshot::Sender<()>>>>,
    task: JoinHandle<io::Result<()>>,
}

impl Running {
    async fn connect(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.unwrap(), buffer: Vec::new() }
    }

    /// The answer to one request on a connection of its own.
    async fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut client = self.connect().await;
        client.send(request).await;
        client.answer().await.expect("an answer")
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await
    }
}

/// Runs a test beside a server with this context.
async fn beside<F: Future<Output = ()>>(context: Context, test: impl FnOnce(Running) -> F) {
    let server = Server::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = server.local_addr();
    let local = LocalSet::new();
    let run = async {
        let (stop, stopped) = oneshot::channel();
        let task =
            spawn_local(async move { server.serve(context, async { drop(stopped.await) }).await });
        let stop = Rc::new(Cell::new(Some(stop)));
        let kept = Rc::clone(&stop);
        test(Running { address, stop, task }).await;
        drop(kept);
    };
    local.run_until(run).await;
}

struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    fn json(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Client {
    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads more; false at the end of the connection.
    async fn more(&mut self) -> bool {
        self.stream.read_buf(&mut self.buffer).await.is_ok_and(|read| read > 0)
    }

    /// The next answer to a request other than HEAD; `None` if the connection ends before it.
    async fn answer(&mut self) -> Option<Answer> {
        let (status, head) = self.head().await?;
        let mut answer = Answer { status, head, body: Vec::new() };
        if answer.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk().await {
                if chunk.is_empty() {
                    return Some(answer);
                }
                answer.body.extend(chunk);
            }
            return None;
        }
        let length = answer.header("content-length").map_or(0, |n| n.parse().unwrap());
        while self.buffer.len() < length {
            if !self.more().await {
                return None;
            }
        }
        answer.body = self.buffer.drain(..length).collect();
        Some(answer)
    }

    async fn head(&mut self) -> Option<(u16, String)> {
        let head = self.until(b"\r\n\r\n").await?;
        let head = String::from_utf8(head).unwrap();
        let status = head.split(' ').nth(1)?.parse().unwrap();
        Some((status, head))
    }

    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let length = String::from_utf8(self.until(b"\r\n").await?).unwrap();
        let length = usize::from_str_radix(&length, 16).unwrap();
        while self.buffer.len() < length + 2 {
            if !self.more().await {
                return None;
            }
        }
        let chunk = self.buffer.drain(..length).collect();
        self.buffer.drain(..2);
        Some(chunk)
    }

    async fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        loop {
            let found = self.buffer.windows(mark.len()).position(|window| window == mark);
            if let Some(position) = found {
                let head = self.buffer.drain(..position).collect();
                self.buffer.drain(..mark.len());
                return Some(head);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// True if the connection ends without another byte.
    async fn ends(&mut self) -> bool {
        !self.more().await && self.buffer.is_empty()
    }
}
