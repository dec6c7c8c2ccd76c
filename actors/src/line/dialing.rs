//! The far end of a line while it is being connected (T10, T11, T12).

use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use lineway_wire::line::FinishReason;

use super::chain::{Connector, Node, NodeRole};
use super::queue::ByteQueue;
use crate::metrics::DialResult;
use crate::net::{Connecting, Socket};
use crate::settings::Host;
use crate::worker::{Worker, timers};

/// TEMP
pub struct Dialing {
    node: Rc<Node>,
    started: Instant,
    deadline: Instant,
    connecting: Option<std::io::Result<Connecting>>,
}

impl Dialing {
    pub fn new(worker: &Rc<Worker>, node: &Rc<Node>) -> Self {
        let NodeRole::Connector(c) = &node.role else {
            panic!()
        };
        let now = timers::now();
        let t = &c.settings.targets[c.choose()];
        let Host::Ip(ip) = t.host else { panic!() };
        let con = worker
            .network
            .connect(SocketAddr::new(ip, t.port.get()), &c.options, &[])
            .map(|x| x.0);
        Self {
            node: Rc::clone(node),
            started: now,
            deadline: now + c.settings.connect_timeout.duration(),
            connecting: Some(con),
        }
    }
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
    pub fn next_wake(&self) -> Option<Instant> {
        Some(self.deadline)
    }
    pub fn cancelled(&mut self) {}
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        _early: &mut ByteQueue,
        _w: &Worker,
    ) -> Poll<Result<Socket, FinishReason>> {
        if now >= self.deadline {
            return Poll::Ready(Err(FinishReason::Timeout));
        }
        match self.connecting.as_mut().unwrap() {
            Err(_) => Poll::Ready(Err(FinishReason::ConnectFailed)),
            Ok(c) => match std::task::ready!(c.poll(cx)) {
                Ok(s) => {
                    self.node
                        .metrics
                        .dialled(DialResult::Connected, now - self.started);
                    Poll::Ready(Ok(s))
                }
                Err(_) => Poll::Ready(Err(FinishReason::ConnectFailed)),
            },
        }
    }
}
