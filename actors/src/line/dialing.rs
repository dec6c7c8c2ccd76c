//! The far end of a line while it is being connected (T10, T11, T12).

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use lineway_wire::dial::{Dial, DialError, Families, Step};
use lineway_wire::line::FinishReason;
use smallvec::SmallVec;

use super::chain::{Connector, Node, NodeRole};
use super::core::OWN_LIMIT;
use crate::dns::{Answer, Lookup};
use crate::metrics::DialResult;
use crate::net::{Connecting, Early, Socket};
use crate::settings::Host;
use crate::worker::{Worker, timers};
use lineway_wire::queue::ByteQueue;

/// A connection that is being made: names asked, addresses raced.
pub struct Dialing {
    node: Rc<Node>,
    started: Instant,
    deadline: Instant,
    dial: Dial,
    lookups: SmallVec<[Asked; 1]>,
    attempts: SmallVec<[Attempt; 1]>,
    over: bool,
    /// What is sent first asks for an answer at once.
    asks: bool,
}

struct Asked {
    target: usize,
    port: u16,
    name: Arc<str>,
    lookup: Lookup,
}

struct Attempt {
    address: SocketAddr,
    connecting: Connecting,
}

impl Dialing {
    /// Begins to connect to the targets of a connector: the one whose turn it is by weight first,
    /// the others should it fail. `asks` = what is sent first is answered at once, as a probe is.
    pub fn new(worker: &Rc<Worker>, node: &Rc<Node>, connector: &Connector, asks: bool) -> Self {
        let started = timers::now();
        let settings = &connector.settings;
        let deadline = started + settings.connect_timeout.duration();
        // The supervisor keeps the deadline; this one is for when it does not.
        let mut dial = Dial::new(deadline + OWN_LIMIT);
        let mut lookups = SmallVec::new();
        let count = settings.targets.len();
        let first = connector.choose();
        for target in (first..first + count).map(|at| &settings.targets[at % count]) {
            match &target.host {
                Host::Ip(ip) => dial.add_address(SocketAddr::new(*ip, target.port.get())),
                Host::Name(name) => {
                    let families = Families::from(settings.domain_strategy);
                    lookups.push(Asked {
                        target: dial.add_name(families),
                        port: target.port.get(),
                        lookup: worker.names.borrow().lookup(name, families),
                        name: Arc::clone(name),
                    });
                }
            }
        }
        let node = Rc::clone(node);
        let attempts = SmallVec::new();
        Self { node, started, deadline, dial, lookups, attempts, over: false, asks }
    }

    /// When the connect must be done (`connect-timeout-ms`).
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// When [`Self::poll`] has something to do though nothing woke it.
    pub fn next_wake(&self) -> Instant {
        self.dial.next_wake()
    }

    /// The line ended first (L09), or its time did.
    pub fn given_up(&mut self, reason: FinishReason) {
        self.finished(match reason {
            FinishReason::Timeout => DialResult::Timeout,
            _ => DialResult::Cancelled,
        });
    }

    /// The connection, once one of the addresses answered; losers are dropped with `self`.
    /// `early` are bytes that wait for it: they leave as soon as an address takes them.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        early: &mut ByteQueue,
        worker: &Worker,
    ) -> Poll<Result<Socket, FinishReason>> {
        self.poll_names(cx, now);
        loop {
            if let Some(socket) = self.poll_attempts(cx, worker) {
                self.finished(DialResult::Connected);
                return Poll::Ready(Ok(socket));
            }
            match self.dial.step(now) {
                Step::Start { address, .. } => self.begin(address, early, worker),
                Step::Wait => return Poll::Pending,
                Step::Failed(error) => {
                    self.finished(result_of(error));
                    return Poll::Ready(Err(match error {
                        DialError::Timeout => FinishReason::Timeout,
                        _ => FinishReason::ConnectFailed,
                    }));
                }
            }
        }
    }

    fn poll_names(&mut self, cx: &mut Context<'_>, now: Instant) {
        let dial = &mut self.dial;
        self.lookups.retain(|asked| {
            loop {
                let Poll::Ready(answer) = asked.lookup.poll_next(cx) else {
                    return true;
                };
                let Some(Answer { family, result }) = answer else {
                    return false;
                };
                match result {
                    Ok(list) => {
                        let list: SmallVec<[SocketAddr; 8]> =
                            list.iter().map(|ip| SocketAddr::new(*ip, asked.port)).collect();
                        dial.answer(now, asked.target, family, Ok(&list));
                    }
                    Err(error) => {
                        tracing::debug!(name = %asked.name, %error, "name not resolved");
                        dial.answer(now, asked.target, family, Err(error.into()));
                    }
                }
            }
        });
    }

    fn poll_attempts(&mut self, cx: &mut Context<'_>, worker: &Worker) -> Option<Socket> {
        let mut at = 0;
        while let Some(attempt) = self.attempts.get_mut(at) {
            match attempt.connecting.poll(cx) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(socket)) => return Some(socket),
                Poll::Ready(Err(error)) => {
                    let address = self.attempts.swap_remove(at).address;
                    self.failed(address, &error, worker);
                }
            }
        }
        None
    }

    fn begin(&mut self, address: SocketAddr, early: &mut ByteQueue, worker: &Worker) {
        let NodeRole::Connector(connector) = &self.node.role else {
            return;
        };
        // Bytes in a SYN go to one server alone: never in a race.
        let alone = connector.settings.targets.len() == 1 && self.lookups.is_empty();
        let first = alone && self.attempts.is_empty() && !self.dial.has_more();
        let waiting = Early {
            bytes: early.head(),
            in_syn: connector.options.fastopen && first,
            asks: self.asks,
        };
        match worker.network.connect(address, &connector.options, waiting) {
            Ok((connecting, sent)) => {
                early.advance(sent, &worker.pool);
                self.attempts.push(Attempt { address, connecting });
            }
            Err(error) => self.failed(address, &error, worker),
        }
    }

    fn failed(&mut self, address: SocketAddr, error: &io::Error, worker: &Worker) {
        tracing::debug!(node = %self.node.plan.name, %address, %error, "connect failed");
        self.dial.failed(error_of(error));
        // The address behind the name may have changed: the next line asks again (T10).
        if let NodeRole::Connector(connector) = &self.node.role {
            for target in &connector.settings.targets {
                if let Host::Name(name) = &target.host {
                    worker.names.borrow().distrust(name);
                }
            }
        }
    }

    fn finished(&mut self, result: DialResult) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let now = timers::now();
        self.node.metrics.dialled(result, now.saturating_duration_since(self.started));
        if let NodeRole::Connector(connector) = &self.node.role {
            match result {
                DialResult::Connected => connector.health.succeeded(),
                DialResult::Cancelled => {}
                _ => connector.health.failed(now),
            }
        }
    }
}

fn error_of(error: &io::Error) -> DialError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => DialError::Refused,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown => DialError::Unreachable,
        io::ErrorKind::TimedOut => DialError::Timeout,
        _ => DialError::Other,
    }
}

const fn result_of(error: DialError) -> DialResult {
    match error {
        DialError::Refused => DialResult::Refused,
        DialError::Unreachable => DialResult::Unreachable,
        DialError::Timeout => DialResult::Timeout,
        DialError::Other => DialResult::Other,
        DialError::NameFailed => DialResult::NameFailed,
        DialError::NameNotFound => DialResult::NameNotFound,
    }
}
