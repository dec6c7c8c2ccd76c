//! What a candidate's actor gives to the main line when its far end has proved itself.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use lineway_wire::line::FinishReason;

use crate::descriptors::Permit;
use crate::line::{ByteQueue, Chain, End, Stages};
use crate::registry::{LineId, LineView};
use crate::worker::Worker;

/// Where a candidate leaves what it hands over; its maker looks there.
pub type Berth = Rc<RefCell<Option<Handover>>>;

/// A whole candidate but its actor. Dropped, it is closed.
#[derive(Debug)]
pub struct Handover {
    /// Its far end.
    pub far: End,
    /// The chain whose end that is.
    pub onward: Rc<Chain>,
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
    /// The place of a candidate that had become part of this one.
    within: Option<Box<Tenure>>,
    /// Given back with it.
    _descriptor: Option<Permit>,
}

impl Tenure {
    /// The place of this line.
    pub const fn new(
        worker: Rc<Worker>,
        chain: Rc<Chain>,
        view: Arc<LineView>,
        descriptor: Option<Permit>,
        within: Option<Box<Self>>,
    ) -> Self {
        let reason = FinishReason::PeerFinished;
        Self { worker, chain, view, reason, within, _descriptor: descriptor }
    }

    /// The line as others see it.
    pub const fn view(&self) -> &Arc<LineView> {
        &self.view
    }

    /// Why the line ends when this is dropped (L08).
    pub fn set_reason(&mut self, reason: FinishReason) {
        self.reason = reason;
        if let Some(within) = &mut self.within {
            within.set_reason(reason);
        }
    }

    /// What is meant for this line goes to another one from here on.
    pub(crate) fn adopted_by(&self, line: LineId) {
        self.worker.adopted(self.view.id, line);
        if let Some(within) = &self.within {
            within.adopted_by(line);
        }
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.worker.closed(&self.chain, &self.view, self.reason);
        self.worker.line_gone(self.view.id);
    }
}
