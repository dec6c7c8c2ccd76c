//! A scripted source of accepted connections.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rustix::io::Errno;

use super::socket::{Peer, socket};
use crate::net::{Accept, Acceptor, Socket};

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<io::Result<(Socket, SocketAddr)>>,
    /// Every accept fails with this, whether a client waits or not.
    fails: Option<i32>,
    panics: bool,
    asked: u64,
    dropped: bool,
    acceptor: Option<Waker>,
}

/// The clients that wait at a listening socket. A clone is the same socket.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    queue: Rc<RefCell<Queue>>,
}

impl Arrivals {
    /// A listening socket at which nobody waits, and the test's side of it.
    pub fn new() -> (Acceptor, Self) {
        let arrivals = Self::default();
        let source = Source(Rc::clone(&arrivals.queue));
        (Acceptor::Other(Box::new(source)), arrivals)
    }

    fn change(&self, change: impl FnOnce(&mut Queue)) {
        let mut queue = self.queue.borrow_mut();
        change(&mut queue);
        if let Some(waker) = queue.acceptor.take() {
            waker.wake();
        }
    }

    /// A client connects from this address.
    pub fn connect_from(&self, from: SocketAddr) -> Peer {
        let (socket, peer) = socket();
        self.change(|queue| queue.waiting.push_back(Ok((socket, from))));
        peer
    }

    /// A client connects.
    pub fn connect(&self) -> Peer {
        self.connect_from(SocketAddr::from(([192, 0, 2, 1], 40_000)))
    }

    /// The next accept behind the clients that wait fails with this error, once.
    pub fn fail_once(&self, error: Errno) {
        let error = io::Error::from(error);
        self.change(|queue| queue.waiting.push_back(Err(error)));
    }

    /// Every accept fails with this error until [`Self::recover`].
    pub fn fail(&self, error: Errno) {
        self.change(|queue| queue.fails = Some(error.raw_os_error()));
    }

    /// Accepts succeed again.
    pub fn recover(&self) {
        self.change(|queue| queue.fails = None);
    }

    /// The next accept panics, once.
    pub fn explode(&self) {
        self.change(|queue| queue.panics = true);
    }

    /// How many clients wait to be accepted.
    pub fn waiting(&self) -> usize {
        self.queue.borrow().waiting.len()
    }

    /// How often somebody tried to accept.
    pub fn asked(&self) -> u64 {
        self.queue.borrow().asked
    }

    /// True once the listening socket is closed.
    pub fn is_dropped(&self) -> bool {
        self.queue.borrow().dropped
    }
}

struct Source(Rc<RefCell<Queue>>);

impl Accept for Source {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Socket, SocketAddr)>> {
        let mut queue = self.0.borrow_mut();
        queue.asked += 1;
        if std::mem::take(&mut queue.panics) {
            drop(queue);
            panic!("the test kit makes this listener panic");
        }
        if let Some(code) = queue.fails {
            return Poll::Ready(Err(io::Error::from_raw_os_error(code)));
        }
        if let Some(arrival) = queue.waiting.pop_front() {
            return Poll::Ready(arrival);
        }
        queue.acceptor = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.0.borrow_mut().dropped = true;
    }
}
