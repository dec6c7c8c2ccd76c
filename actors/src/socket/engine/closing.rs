//! The end of a socket: what is queued is written first, within its linger (4.3).

use std::time::Instant;

use lineway_wire::zmp::core::Disconnected;
use tokio::sync::oneshot;

use super::Engine;

/// A socket that takes nothing more.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Who waits for the end.
    answers: Vec<oneshot::Sender<()>>,
    /// When what is left is dropped; `None`: never, or it has been.
    pub(super) limit: Option<Instant>,
}

impl Engine {
    /// Begins the end. Nothing is queued but on links that are ready, so everything else ends at
    /// once.
    pub(super) fn close(&mut self, now: Instant, answer: Option<oneshot::Sender<()>>) {
        if self.closing.is_none() {
            let linger = self.current_options().linger;
            self.shared().close(now);
            self.close_listeners();
            self.remotes.clear();
            self.end_unready(|_| true, Disconnected::ContextEnd);
            let limit = linger.and_then(|linger| now.checked_add(linger));
            self.closing = Some(Closing { answers: Vec::new(), limit });
        }
        if let Some(closing) = &mut self.closing {
            closing.answers.extend(answer);
        }
    }

    /// True when the last connection is over.
    pub(super) fn poll_closing(&mut self, now: Instant) -> bool {
        let Some(closing) = &mut self.closing else {
            return false;
        };
        if closing.limit.is_some_and(|limit| limit <= now) {
            closing.limit = None;
            self.end_all(Disconnected::ContextEnd);
        }
        if !self.connections.is_empty() {
            return false;
        }
        for answer in self.closing.iter_mut().flat_map(|closing| closing.answers.drain(..)) {
            // Whoever gave up waiting needs no answer.
            let _ = answer.send(());
        }
        true
    }
}
