//! ConnectionFisherServer: a stage that is gone after the start of its line (S07).

use std::rc::Rc;
use std::time::{Duration, Instant};

use lineway_wire::fisher::{Probing, REPLY, Verdict};
use lineway_wire::line::{Direction, FinishReason};

use crate::line::{ByteQueue, Node, Stage, StageOut};
use crate::metrics::{ProbeFailure, ServerFirst};
use crate::worker::timers;

/// Waits for the probe of one line, answers it, and begins the backend with the first payload.
#[derive(Debug)]
pub struct FisherServer {
    node: Rc<Node>,
    probing: Probing,
    server_first: Option<Duration>,
    begun: bool,
}

impl FisherServer {
    /// A line that has not begun. `server_first` is `server-first-delay-ms`, `None` for 0 (S04b).
    pub fn new(node: &Rc<Node>, server_first: Option<Duration>) -> Self {
        let probing = Probing::new(timers::now(), server_first);
        Self { node: Rc::clone(node), probing, server_first, begun: false }
    }

    fn failed(&self, why: ProbeFailure, reason: FinishReason, out: &mut StageOut<'_>) {
        self.node.metrics.probe_failed(why);
        out.finish(reason);
    }

    /// The line ends before the backend had its `Init`.
    fn ended(&mut self) {
        if self.probing.answered() {
            self.waited(ServerFirst::Ended);
        } else if self.begun {
            self.node.metrics.probe_failed(ProbeFailure::Closed);
        }
        self.probing.input_ended();
    }

    fn waited(&self, result: ServerFirst) {
        self.node.metrics.server_first(result);
    }
}

impl Stage for FisherServer {
    fn begins(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            self.probing = Probing::new(timers::now(), self.server_first);
        }
    }

    fn payload(&mut self, direction: Direction, input: &mut ByteQueue, out: &mut StageOut<'_>) {
        if direction == Direction::Downstream {
            return input.move_to(out.towards(direction));
        }
        let now = timers::now();
        while !input.is_empty() {
            match self.probing.payload(now, input.head()) {
                Verdict::Answer(used) => {
                    input.advance(used, out.pool());
                    out.append(Direction::Downstream, &REPLY);
                    // Whoever stands before it in this process may send (S05).
                    out.established();
                }
                Verdict::Init => {
                    self.waited(ServerFirst::Payload);
                    return out.init_next();
                }
                Verdict::WrongProbe => {
                    let reason = FinishReason::ProtocolError;
                    self.failed(ProbeFailure::WrongBytes, reason, out);
                    return input.clear(out.pool());
                }
                _ => input.advance(input.head().len(), out.pool()),
            }
        }
    }

    fn input_ended(&mut self, direction: Direction, out: &mut StageOut<'_>) {
        if direction == Direction::Upstream && !self.probing.is_done() {
            self.ended();
            out.finish(FinishReason::PeerFinished);
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        if self.begun { self.probing.deadline() } else { None }
    }

    fn timeout(
        &mut self,
        now: Instant,
        round_trip: &dyn Fn() -> Option<Duration>,
        out: &mut StageOut<'_>,
    ) {
        let round_trip = if self.probing.answered() { round_trip() } else { None };
        match self.probing.timeout(now, round_trip) {
            Verdict::ProbeTimeout => {
                self.failed(ProbeFailure::Timeout, FinishReason::Timeout, out);
            }
            Verdict::InitServerFirst => {
                self.waited(ServerFirst::Dialled);
                out.init_next();
            }
            _ => {}
        }
    }

    fn done(&self) -> bool {
        self.probing.is_done()
    }
}

impl Drop for FisherServer {
    fn drop(&mut self) {
        // Not by an end of input: a reset, an operator, a drain.
        if !self.probing.is_done() {
            self.ended();
        }
    }
}
