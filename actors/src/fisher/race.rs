//! The far end of a main line while its candidates race.

use std::rc::Rc;
use std::time::Instant;

use actix::Addr;
use lineway_wire::fisher::{Fisher, Loss, NoRoom};
use lineway_wire::line::FinishReason;
use lineway_wire::select::{CandidateId, Event};

use super::handover::{Berth, Handover};
use crate::line::{Chain, ChildLine, End, Maker, Node, OWN_LIMIT};
use crate::messages::{CandidateSays, Finish, ParentSays, Says};
use crate::registry::LineId;
use crate::worker::{Worker, timers};

/// How a race came out.
#[derive(Debug)]
pub enum Outcome {
    /// This candidate won (C15).
    Won(Box<Handover>),
    /// There is no winner (C12, C13).
    Failed(FinishReason),
}

/// The candidates of one main line.
pub struct Race {
    worker: Rc<Worker>,
    node: Rc<Node>,
    chain: Rc<Chain>,
    tries: u32,
    fisher: Fisher<Runner>,
    started: Instant,
    begun: bool,
    established: bool,
    /// Why those that run when it is decided did not win.
    losers: Loss,
    /// How the candidate ended that ended last.
    last: FinishReason,
    /// Bytes in the gauge of what waits.
    waiting: usize,
}

/// A candidate that runs.
struct Runner {
    address: Option<Addr<ChildLine>>,
    berth: Berth,
}

impl Runner {
    fn end(self, reason: FinishReason) {
        if let Some(mut handover) = self.berth.take() {
            handover.far.end_now();
        }
        if let Some(address) = self.address {
            address.do_send(Finish { reason });
        }
    }
}

impl Race {
    /// A race of so many candidates over this chain; it begins with the line's first turn.
    pub fn new(worker: &Rc<Worker>, node: &Rc<Node>, chain: &Rc<Chain>, tries: u32) -> Self {
        Self {
            worker: Rc::clone(worker),
            node: Rc::clone(node),
            chain: Rc::clone(chain),
            tries,
            fisher: Fisher::new(),
            started: timers::now(),
            begun: false,
            established: false,
            losers: Loss::Outrun,
            last: FinishReason::ConnectFailed,
            waiting: 0,
        }
    }

    /// Makes the candidates, once (C02). Gives the deadline of the selection then (C04).
    pub(crate) fn begin(&mut self, line: LineId, wants_est: bool, now: Instant) -> Option<Instant> {
        if std::mem::replace(&mut self.begun, true) {
            return None;
        }
        for at in 0..self.tries {
            // The first one uses the descriptor that its main line has for its far end.
            let descriptor = match at {
                0 => None,
                _ => match self.worker.board.descriptors.take(1) {
                    None => break,
                    descriptor => descriptor,
                },
            };
            let berth = Berth::default();
            let runner = Runner { address: None, berth: Rc::clone(&berth) };
            let Ok(candidate) = self.fisher.start(runner) else {
                break;
            };
            let maker = Maker { line, candidate, berth, wants_est };
            let address = self.worker.open_candidate(&self.chain, maker, descriptor);
            if let Some(runner) = self.fisher.get_mut(candidate) {
                runner.address = Some(address);
            }
            self.node.metrics.candidate();
        }
        self.fisher.started(now)
    }

    /// A candidate says something.
    pub(crate) fn says(&mut self, CandidateSays { candidate, says }: CandidateSays) {
        match says {
            Says::Est => self.established |= self.fisher.established(candidate),
            Says::Proved => {
                self.fisher.proved(candidate);
            }
            Says::Lost(why, reason) => self.lost(candidate, why, reason),
        }
    }

    /// A parent says something to a candidate that has proved itself and is not taken over yet.
    pub(crate) fn parent_says(&mut self, says: ParentSays) {
        for runner in self.fisher.candidates() {
            if let Some(Handover { far: End::Stream(stream), .. }) = &mut *runner.berth.borrow_mut()
                && stream.is_meant(&says)
            {
                stream.hear(says.says);
                return;
            }
        }
    }

    fn lost(&mut self, candidate: CandidateId, why: Loss, reason: FinishReason) {
        if self.fisher.lost(candidate, why).is_some() {
            self.node.metrics.lost(why);
            self.last = reason;
        }
    }

    /// The deadline is over (C13).
    pub(crate) fn late(&mut self) {
        self.decide(Loss::Timeout);
    }

    fn decide(&mut self, why: Loss) {
        if !self.fisher.is_decided() {
            self.losers = why;
            self.fisher.end(why);
        }
    }

    /// True once: a candidate's transport is up, and the main line has not heard of any (C07).
    pub(crate) const fn take_est(&mut self) -> bool {
        std::mem::replace(&mut self.established, false)
    }

    /// When the line looks by itself whether the deadline is over, should the supervisor not say
    /// so.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.fisher.deadline().map(|at| at + OWN_LIMIT)
    }

    /// So much of the application waits for the choice.
    ///
    /// # Errors
    /// It is more than may wait: the main line is over (C05).
    pub(crate) fn waits(&mut self, bytes: usize, buffers: usize) -> Result<(), NoRoom> {
        self.node.metrics.fishing(self.waiting, bytes);
        self.waiting = bytes;
        self.fisher.room(bytes, buffers)
    }

    /// Ends losers; gives the outcome, once it is there.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Outcome> {
        if self.next_wake().is_some_and(|at| now >= at) {
            self.late();
        }
        while let Some(event) = self.fisher.poll() {
            match event {
                Event::Lost(_, runner) => {
                    self.node.metrics.lost(self.losers);
                    runner.end(match self.losers {
                        Loss::Timeout => FinishReason::Timeout,
                        _ => FinishReason::PeerFinished,
                    });
                }
                Event::Settled(outcome) => return Some(self.settled(outcome, now)),
            }
        }
        None
    }

    fn settled(&self, outcome: Result<(CandidateId, Runner), Loss>, now: Instant) -> Outcome {
        let took = now.saturating_duration_since(self.started);
        let (why, reason) = match outcome {
            Ok((_, runner)) => {
                if let Some(handover) = runner.berth.take() {
                    self.node.metrics.selected(None, took);
                    return Outcome::Won(Box::new(handover));
                }
                // It says that it proved itself behind putting its things there.
                (Loss::Closed, FinishReason::Panic)
            }
            Err(why) => (
                why,
                match why {
                    Loss::Timeout => FinishReason::Timeout,
                    Loss::Cancelled => FinishReason::PeerFinished,
                    _ => self.last,
                },
            ),
        };
        self.node.metrics.selected(Some(why), took);
        Outcome::Failed(reason)
    }

    /// The main line ends (C14).
    pub(crate) fn given_up(&mut self, reason: FinishReason) {
        self.decide(match reason {
            FinishReason::Timeout => Loss::Timeout,
            FinishReason::Overflow => Loss::Overflow,
            _ => Loss::Cancelled,
        });
        let now = timers::now();
        while self.poll(now).is_some() {}
        self.node.metrics.fishing(self.waiting, 0);
        self.waiting = 0;
    }
}

impl Drop for Race {
    fn drop(&mut self) {
        self.given_up(FinishReason::Panic);
    }
}
