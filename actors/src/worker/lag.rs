//! How late the event loop of a worker is, and the heartbeat that shows it alive.

use std::rc::Rc;
use std::time::Duration;

use super::{Worker, timers};
use crate::health::Beating;

/// How often the loop is looked at.
const BEAT: Duration = Duration::from_millis(250);

/// How many unused buffers a worker keeps in any case.
const KEPT_BUFFERS: usize = 8;

/// Sleeps for a beat, sees how much later it wakes, notes both.
pub(super) async fn measure(worker: Rc<Worker>) {
    loop {
        let due = timers::now() + BEAT;
        tokio::time::sleep_until(due.into()).await;
        let now = timers::now();
        worker.metrics.lag(now.saturating_duration_since(due));
        worker.board.health.beat(Beating::Worker(worker.index), now);
        // A burst leaves buffers behind: half of the unused ones go with each beat.
        worker.pool.shrink((worker.pool.len() / 2).max(KEPT_BUFFERS));
    }
}
