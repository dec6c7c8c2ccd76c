//! TesterClient and TesterServer: the two ends of a chain that proves itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::BytesMut;
use lineway_wire::line::FinishReason;
use lineway_wire::tester::{Pattern, Role};
use tokio::sync::Notify;

use super::end::EndError;
use super::pool::Pool;
use super::waiter::Waiter;
use lineway_wire::queue::{Buffers, ByteQueue};

/// How one tester line went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TesterOutcome {
    /// Every byte of the response was right.
    Right,
    /// A byte was wrong, or the line ended before the response did.
    Wrong,
}

/// The score of every tester line of the process.
#[derive(Clone, Debug, Default)]
pub struct Testers {
    score: Arc<Score>,
}

#[derive(Debug, Default)]
struct Score {
    expected: AtomicUsize,
    right: AtomicUsize,
    wrong: AtomicUsize,
    changed: Notify,
}

impl Testers {
    /// More lines will report.
    pub fn expect(&self, lines: usize) {
        self.score.expected.fetch_add(lines, Relaxed);
    }

    /// One line reports.
    pub fn report(&self, outcome: TesterOutcome) {
        let counter = match outcome {
            TesterOutcome::Right => &self.score.right,
            TesterOutcome::Wrong => &self.score.wrong,
        };
        counter.fetch_add(1, Relaxed);
        self.score.changed.notify_waiters();
    }

    /// How many lines were right and how many were not, so far.
    pub fn score(&self) -> (usize, usize) {
        (self.score.right.load(Relaxed), self.score.wrong.load(Relaxed))
    }

    /// Waits until every expected line reported; true when all were right.
    pub async fn all_reported(&self) -> bool {
        loop {
            let changed = self.score.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (right, wrong) = self.score();
            if right + wrong >= self.score.expected.load(Relaxed) {
                return wrong == 0;
            }
            changed.await;
        }
    }
}

/// The end that asks: sends the request after `Est`, then checks the response.
#[derive(Debug)]
pub struct TesterClient {
    request: Pattern,
    response: Pattern,
    established: bool,
    wrong: bool,
    ended: bool,
    reader: Waiter,
}

impl TesterClient {
    /// A test of the first `chunks` chunk sizes on this flow.
    pub fn new(flow: u8, chunks: usize) -> Self {
        Self {
            request: Pattern::new(Role::Request, flow, chunks),
            response: Pattern::new(Role::Response, flow, chunks),
            established: false,
            wrong: false,
            ended: false,
            reader: Waiter::new(),
        }
    }

    /// How the test went, asked at the end of the line.
    pub const fn outcome(&self) -> TesterOutcome {
        if self.response.done() && !self.wrong {
            TesterOutcome::Right
        } else {
            TesterOutcome::Wrong
        }
    }

    pub(super) fn established(&mut self) {
        self.established = true;
        self.reader.wake();
    }

    /// The server ended: whatever is missing of its response will not come.
    pub(super) fn end(&mut self) {
        self.ended = true;
        self.reader.wake();
    }

    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut ByteQueue,
        pool: &Pool,
    ) -> Poll<usize> {
        if self.response.done() || self.ended {
            return Poll::Ready(0);
        }
        if self.established && !self.request.done() {
            return Poll::Ready(produce(&mut self.request, queue, pool));
        }
        self.reader.wait(cx)
    }

    pub(super) fn write(&mut self, queue: &mut ByteQueue, pool: &Pool) -> Result<usize, EndError> {
        let checked = check(&mut self.response, queue, pool);
        self.wrong |= checked.is_err();
        if self.response.done() {
            self.reader.wake();
        }
        checked
    }
}

/// The end that answers: checks the whole request and only then sends the response.
#[derive(Debug)]
pub struct TesterServer {
    chunks: usize,
    request: Option<Pattern>,
    response: Option<Pattern>,
    ended: bool,
    reader: Waiter,
}

impl TesterServer {
    /// Expects a test of the first `chunks` chunk sizes; the first byte names the flow.
    pub const fn new(chunks: usize) -> Self {
        Self { chunks, request: None, response: None, ended: false, reader: Waiter::new() }
    }

    pub(super) fn write(&mut self, queue: &mut ByteQueue, pool: &Pool) -> Result<usize, EndError> {
        let Some(&first) = queue.head().first() else {
            return Ok(0);
        };
        let flow = Pattern::flow_of_request(first);
        let request =
            self.request.get_or_insert_with(|| Pattern::new(Role::Request, flow, self.chunks));
        let checked = check(request, queue, pool)?;
        if request.done() && self.response.is_none() {
            self.response = Some(Pattern::new(Role::Response, request.flow(), self.chunks));
            self.reader.wake();
        }
        Ok(checked)
    }

    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut ByteQueue,
        pool: &Pool,
    ) -> Poll<usize> {
        match &mut self.response {
            Some(response) if !response.done() => Poll::Ready(produce(response, queue, pool)),
            _ if self.ended => Poll::Ready(0),
            _ => self.reader.wait(cx),
        }
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
        self.reader.wake();
    }
}

/// Writes the next piece of a pattern; never 0 bytes while it is not done.
fn produce(pattern: &mut Pattern, queue: &mut ByteQueue, pool: &Pool) -> usize {
    let mut buffer: BytesMut = pool.take();
    buffer.resize(buffer.capacity(), 0);
    let written = pattern.write(&mut buffer);
    buffer.truncate(written);
    queue.push(buffer);
    written
}

fn check(pattern: &mut Pattern, queue: &mut ByteQueue, pool: &Pool) -> Result<usize, EndError> {
    let mut checked = 0;
    while !queue.is_empty() {
        let head = queue.head();
        if let Err(wrong) = pattern.check(head) {
            tracing::debug!(flow = pattern.flow(), %wrong, "tester");
            return Err(EndError::Finish(FinishReason::ProtocolError));
        }
        let n = head.len();
        checked += n;
        queue.advance(n, pool);
    }
    Ok(checked)
}
