//! The metrics of one worker.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
};

use super::register;

/// Buckets of the lag of an event loop, in seconds.
const LAG: [f64; 8] = [0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0];

/// The metrics of one worker, as handles.
#[derive(Debug)]
pub struct WorkerMetrics {
    lag: Histogram,
    budget_exhausted: IntCounter,
}

impl WorkerMetrics {
    /// A timer of the worker came so late.
    pub fn lag(&self, late: Duration) {
        self.lag.observe(late.as_secs_f64());
    }

    /// A loop used up its budget and let the others run.
    pub fn budget_exhausted(&self) {
        self.budget_exhausted.inc();
    }
}

/// The families whose series have a `worker` label.
pub(super) struct WorkerFamilies {
    lag: HistogramVec,
    budget_exhausted: IntCounterVec,
}

impl WorkerFamilies {
    pub(super) fn new(registry: &Registry) -> Self {
        let lag = HistogramOpts::new(
            "lineway_worker_lag_seconds",
            "How late a worker's event loop is: the time between when its timer was due and ran.",
        )
        .buckets(LAG.to_vec());
        let budget = Opts::new(
            "lineway_budget_exhausted_total",
            "Times that a loop of the worker used up its budget and let the others run.",
        );
        Self {
            lag: register(registry, HistogramVec::new(lag, &["worker"])),
            budget_exhausted: register(registry, IntCounterVec::new(budget, &["worker"])),
        }
    }

    pub(super) fn worker(&self, index: u16) -> WorkerMetrics {
        let index = index.to_string();
        WorkerMetrics {
            lag: self.lag.with_label_values(&[&index]),
            budget_exhausted: self.budget_exhausted.with_label_values(&[&index]),
        }
    }
}
