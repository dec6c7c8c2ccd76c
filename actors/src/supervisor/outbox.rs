//! What a worker has for the supervisor until the end of its turn.

use std::collections::HashMap;

use super::SupervisorHandle;
use crate::messages::{Report, Reports, Snapshot};
use crate::registry::LineId;

/// From so many reports on a kept batch is thinned out.
pub(super) const THIN_OUT: usize = 4096;

/// Collects the reports of one worker and sends them once a turn.
///
/// What the supervisor does not take is kept, in order, for the next turn. A batch that grows is
/// thinned out: of a line that was made and ended in it nothing is left, and of a line's deadlines
/// only the last. A parent has one lease outstanding at most. So it is bounded by the lines that live, and those that the supervisor knows.
pub struct Outbox {
    worker: u16,
    supervisor: SupervisorHandle,
    pub(super) reports: Vec<Report>,
    limit: usize,
}

impl Outbox {
    /// An empty outbox of this worker.
    pub fn new(worker: u16, supervisor: SupervisorHandle) -> Self {
        Self { worker, supervisor, reports: Vec::new(), limit: THIN_OUT }
    }

    /// Adds a report.
    pub fn push(&mut self, report: Report) {
        self.reports.push(report);
    }

    /// True when there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }

    /// Sends what there is. False when the supervisor did not take it: call again after a while.
    pub fn flush(&mut self) -> bool {
        if self.reports.is_empty() {
            return true;
        }
        let reports = std::mem::take(&mut self.reports);
        match self.supervisor.report(Reports { worker: self.worker, reports }) {
            Ok(()) => {
                self.limit = THIN_OUT;
                true
            }
            Err(kept) => {
                self.reports = kept.reports;
                if self.reports.len() >= self.limit {
                    self.thin_out();
                    self.limit = THIN_OUT.max(self.reports.len() * 2);
                }
                false
            }
        }
    }

    /// Answers a `WatchAgain` with the whole truth, which the kept reports are part of.
    pub fn snapshot(&mut self, snapshot: Snapshot) {
        self.reports = Vec::new();
        self.supervisor.snapshot(snapshot);
    }

    pub(super) fn thin_out(&mut self) {
        /// What the batch says of a line in the end.
        #[derive(Default)]
        struct Last {
            opened: bool,
            closed: bool,
            deadline: Option<usize>,
        }
        let mut lines: HashMap<LineId, Last> = HashMap::new();
        for (at, report) in self.reports.iter().enumerate() {
            match report {
                Report::Opened(line) => lines.entry(line.id).or_default().opened = true,
                Report::Closed(closed) => lines.entry(closed.id).or_default().closed = true,
                Report::Watch(watch) => lines.entry(watch.id).or_default().deadline = Some(at),
                Report::Unwatch(unwatch) => {
                    lines.entry(unwatch.id).or_default().deadline = Some(at);
                }
                Report::LeaseCids(ask) => {
                    lines.entry(ask.parent).or_default();
                }
            }
        }
        let mut at = 0;
        self.reports.retain(|report| {
            let of_line = |id: LineId| {
                let last = &lines[&id];
                !last.closed || !last.opened
            };
            let of_deadline = |id: LineId| {
                let last = &lines[&id];
                !last.closed && last.deadline == Some(at)
            };
            let keep = match report {
                Report::Opened(line) => of_line(line.id),
                Report::Closed(closed) => of_line(closed.id),
                Report::Watch(watch) => of_deadline(watch.id),
                Report::Unwatch(unwatch) => of_deadline(unwatch.id),
                // A parent asks once for each lease.
                Report::LeaseCids(ask) => !lines[&ask.parent].closed,
            };
            at += 1;
            keep
        });
    }
}
