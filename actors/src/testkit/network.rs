//! A network whose connects come out as they are told to.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use super::socket::{Peer, socket};
use crate::net::{ConnectOptions, Connecting, Early, Network};

/// How a connect comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is up at once.
    Up,
    /// It is up after this time.
    UpAfter(Duration),
    /// It fails with this error after this time.
    Fails(io::ErrorKind, Duration),
    /// It fails already when it is started.
    FailsAtOnce(io::ErrorKind),
    /// It never comes out.
    Hangs,
}

impl Outcome {
    /// The server refuses it at once, as one does whose port is closed.
    pub const REFUSED: Self = Self::Fails(io::ErrorKind::ConnectionRefused, Duration::ZERO);
}

/// One connect that was started.
#[derive(Clone, Debug)]
struct Started {
    to: SocketAddr,
    early: Vec<u8>,
    peer: Peer,
    alive: Rc<()>,
}

#[derive(Debug, Default)]
struct Plans {
    next: VecDeque<Outcome>,
    started: Vec<Started>,
    early: usize,
}

/// A scripted network. Connects come out in the order in which they were planned; those that
/// nobody planned are up at once. A clone is the same network.
#[derive(Clone, Debug, Default)]
pub struct Dials {
    plans: Rc<RefCell<Plans>>,
}

impl Dials {
    /// A network in which every connect is up at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// Plans how the next connect that has no plan comes out.
    pub fn plan(&self, outcome: Outcome) {
        self.plans.borrow_mut().next.push_back(outcome);
    }

    /// The first so many bytes of a connect travel with its first packet (`fastopen`).
    pub fn take_early(&self, bytes: usize) {
        self.plans.borrow_mut().early = bytes;
    }

    /// How many connects were started.
    pub fn len(&self) -> usize {
        self.plans.borrow().started.len()
    }

    /// True when no connect was started.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the connects went to, in order.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.plans.borrow().started.iter().map(|s| s.to).collect()
    }

    /// The server's side of a started connect, counted from 0.
    ///
    /// # Panics
    /// When there was no such connect: the test is wrong, or the actor did not dial.
    pub fn peer(&self, index: usize) -> Peer {
        let plans = self.plans.borrow();
        let started = plans.started.get(index);
        started.expect("such a connect was started").peer.clone()
    }

    /// The early bytes that a started connect took with it.
    pub fn early(&self, index: usize) -> Vec<u8> {
        let plans = self.plans.borrow();
        plans.started.get(index).map_or_else(Vec::new, |s| s.early.clone())
    }

    /// How many connects are neither up nor given up.
    pub fn pending(&self) -> usize {
        let plans = self.plans.borrow();
        let waits = |s: &&Started| Rc::strong_count(&s.alive) > 1;
        plans.started.iter().filter(waits).count()
    }
}

impl Network for Dials {
    fn connect(
        &self,
        to: SocketAddr,
        _: &ConnectOptions,
        early: Early<'_>,
    ) -> io::Result<(Connecting, usize)> {
        let mut plans = self.plans.borrow_mut();
        let outcome = plans.next.pop_front().unwrap_or(Outcome::Up);
        let taken = if early.in_syn { early.bytes.len().min(plans.early) } else { 0 };
        let (socket, peer) = socket();
        let alive = Rc::new(());
        plans.started.push(Started {
            to,
            early: early.bytes[..taken].to_vec(),
            peer,
            alive: Rc::clone(&alive),
        });
        if let Outcome::FailsAtOnce(kind) = outcome {
            return Err(kind.into());
        }
        let connecting = async move {
            let wait = |time: Duration| async move {
                if !time.is_zero() {
                    tokio::time::sleep(time).await;
                }
            };
            let result = match outcome {
                Outcome::Up => Ok(socket),
                Outcome::UpAfter(time) => {
                    wait(time).await;
                    Ok(socket)
                }
                Outcome::Fails(kind, time) => {
                    wait(time).await;
                    Err(kind.into())
                }
                Outcome::FailsAtOnce(_) | Outcome::Hangs => std::future::pending().await,
            };
            // Counted as pending until the future is over or dropped.
            drop(alive);
            result
        };
        Ok((Connecting::Other(Box::pin(connecting)), taken))
    }
}
