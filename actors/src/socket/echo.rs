//! The EchoServer behind a RouterSocket (section 7).

use std::task::Waker;
use std::time::Instant;

use lineway_wire::zmp::broker::{Echo, Status};

use super::Router;
use super::answering::{Answering, BATCH, Machine, STEPS, Watched};

/// Starts an echo on this thread: every request is answered with its own parts, and DATA goes back
/// to its sender. One that does not read is not read any further.
///
/// It wants to be the only one that receives from the socket and that takes its completions.
///
/// # Panics
/// Outside of a tokio `LocalSet`.
pub fn start(router: &Router) -> Answering {
    Answering::start(Task { echo: Echo::default(), router: Watched::new(router), closed: false })
}

/// An echo and its socket.
#[derive(Debug)]
struct Task {
    echo: Echo,
    router: Watched,
    closed: bool,
}

impl Machine for Task {
    fn turn(&mut self, now: Instant, waker: &Waker) -> bool {
        for _ in 0..STEPS {
            let echo = &mut self.echo;
            match self.router.step(waker, |core| echo.step(now, core, BATCH)) {
                Some(true) => {}
                Some(false) => return false,
                None => {
                    self.closed = true;
                    return false;
                }
            }
        }
        true
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.echo.next_deadline()
    }

    fn stop(&mut self, deadline: Instant) {
        self.echo.stop(deadline);
    }

    fn is_over(&self) -> bool {
        self.closed || self.echo.is_over()
    }

    fn status(&self) -> Status {
        self.echo.status()
    }
}

#[cfg(test)]
mod tests;
