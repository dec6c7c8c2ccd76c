//! What a candidate's actor gives to the main line when its far end has proved itself.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use lineway_wire::line::FinishReason;

use crate::descriptors::Permit;
use crate::line::{ByteQueue, Chain, End, Stages};
use crate::messages::{Closed, Report};
use crate::registry::LineView;
use crate::worker::{Worker, timers};

/// Where a candidate leaves what it hands over; its maker looks there.
pub type Berth = Rc<RefCell<Option<Handover>>>;

/// A whole candidate but its actor. Dropped, it is closed.
#[derive(Debug)]
pub struct Handover {
    /// Its far end.
    pub far: End,
    /// What the nodes between do to it.
    pub stages: Stages,
    /// What it has not sent, and what came behind its `FISH!`.
    pub queues: [ByteQueue; 2],
    /// Its far side has ended behind those bytes.
    pub input_ended: bool,
    /// Its place among the lines.
    pub tenure: Tenure,
}

/// A line's place in the registry and in the metrics, held for it by another one.
#[derive(Debug)]
pub struct Tenure {
    worker: Rc<Worker>,
    chain: Rc<Chain>,
    view: Arc<LineView>,
    reason: FinishReason,
    /// Given back with it.
    descriptor: Option<Permit>,
}

impl Tenure {
    /// The place of this line.
    pub const fn new(
        worker: Rc<Worker>,
        chain: Rc<Chain>,
        view: Arc<LineView>,
        descriptor: Option<Permit>,
    ) -> Self {
        let reason = FinishReason::PeerFinished;
        Self { worker, chain, view, reason, descriptor }
    }

    /// The line as others see it.
    pub const fn view(&self) -> &Arc<LineView> {
        &self.view
    }

    /// Gives its descriptor back: that of the far end of the line that it became part of counts.
    pub(crate) fn share_descriptor(&mut self) {
        self.descriptor = None;
    }

    /// The chain that it goes through.
    pub const fn chain(&self) -> &Rc<Chain> {
        &self.chain
    }

    /// Why the line ends when this is dropped (L08).
    pub const fn set_reason(&mut self, reason: FinishReason) {
        self.reason = reason;
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        let lived = timers::now().saturating_duration_since(self.view.opened);
        self.chain.entry.metrics.closed(self.view.kind, self.reason, lived);
        let closed = Closed { id: self.view.id, reason: self.reason };
        self.worker.reporter.report(Report::Closed(closed));
        self.worker.line_gone(self.view.id);
    }
}
