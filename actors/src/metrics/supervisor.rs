//! What the supervisor shows of itself, and what became of reloads.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use prometheus::{Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::labels::ReloadResult;
use super::register;
use crate::messages::DeadlineKind;

/// The deadlines of SIP transactions.
const SIP: DeadlineKind = DeadlineKind::FinalReply;

/// The metrics of the supervisor and of reloads, as handles.
#[derive(Clone, Debug)]
pub struct SupervisorMetrics {
    deadlines: Arc<[OnceLock<Deadlines>; DeadlineKind::ALL.len()]>,
    families: Families,
    pub(crate) cids_leased: IntCounter,
    pub(crate) stale: IntCounter,
    pub(crate) reports: IntCounter,
    pub(crate) rejected: IntCounter,
    pub(crate) waiting: IntGauge,
    reloads: [IntCounter; ReloadResult::ALL.len()],
    reload_ok: IntGauge,
    reload_time: Gauge,
}

#[derive(Clone, Debug)]
struct Families {
    pending: IntGaugeVec,
    set: IntCounterVec,
    fired: IntCounterVec,
    cancelled: IntCounterVec,
}

/// The deadlines of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines {
    pub(crate) pending: IntGauge,
    pub(crate) set: IntCounter,
    pub(crate) fired: IntCounter,
    pub(crate) cancelled: IntCounter,
}

impl SupervisorMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let counter = |name, help| register(registry, IntCounter::with_opts(Opts::new(name, help)));
        let gauge = |name, help| register(registry, IntGauge::with_opts(Opts::new(name, help)));
        let counters = |name, help, label| {
            register(registry, IntCounterVec::new(Opts::new(name, help), &[label]))
        };
        let pending = register(
            registry,
            IntGaugeVec::new(
                Opts::new("lineway_deadlines_pending", "Deadlines that the supervisor watches."),
                &["kind"],
            ),
        );
        let set = counters("lineway_deadlines_set_total", "Deadlines that were set.", "kind");
        let fired = counters("lineway_deadlines_fired_total", "Deadlines that were over.", "kind");
        let cancelled = counters(
            "lineway_deadlines_cancelled_total",
            "Deadlines that were cancelled or replaced before they were over.",
            "kind",
        );
        let reloads = counters(
            "lineway_reloads_total",
            "Reloads of the configuration, by how they came out.",
            "result",
        );
        let metrics = Self {
            deadlines: Arc::default(),
            families: Families { pending, set, fired, cancelled },
            cids_leased: counter(
                "lineway_supervisor_cids_leased_total",
                "Cids that were leased to parents on request, behind their first lease.",
            ),
            stale: counter(
                "lineway_supervisor_stale_reports_total",
                "Reports about a line or a deadline that was not current any more.",
            ),
            reports: counter(
                "lineway_supervisor_reports_total",
                "Reports of workers that the supervisor has handled.",
            ),
            rejected: counter(
                "lineway_supervisor_rejected_total",
                "Messages that went back to their sender, as too many waited or no supervisor lived.",
            ),
            waiting: gauge(
                "lineway_supervisor_messages_waiting",
                "Messages that wait for the supervisor.",
            ),
            reloads: ReloadResult::ALL.map(|result| reloads.with_label_values(&[result.as_str()])),
            reload_ok: gauge(
                "lineway_reload_last_successful",
                "1 when the last reload, or the start, put the configuration file into force.",
            ),
            reload_time: register(
                registry,
                Gauge::with_opts(Opts::new(
                    "lineway_reload_last_success_timestamp_seconds",
                    "When the configuration in force was read, as Unix time.",
                )),
            ),
        };
        for kind in DeadlineKind::ALL.into_iter().filter(|kind| *kind != SIP) {
            metrics.deadlines(kind);
        }
        metrics.in_force(SystemTime::now());
        metrics
    }

    /// The deadlines of a kind. Those of SIP are shown from the first time on, which is when there
    /// is a node of it.
    pub(crate) fn deadlines(&self, kind: DeadlineKind) -> &Deadlines {
        self.deadlines[kind as usize].get_or_init(|| {
            let (word, families) = ([kind.as_str()], &self.families);
            Deadlines {
                pending: families.pending.with_label_values(&word),
                set: families.set.with_label_values(&word),
                fired: families.fired.with_label_values(&word),
                cancelled: families.cancelled.with_label_values(&word),
            }
        })
    }

    /// Shows the kind of SIP.
    pub(super) fn show_sip(&self) {
        self.deadlines(SIP);
    }

    /// A reload came out like this at this time.
    pub fn reloaded(&self, result: ReloadResult, at: SystemTime) {
        self.reloads[result as usize].inc();
        if result == ReloadResult::Applied {
            self.in_force(at);
        } else {
            self.reload_ok.set(0);
        }
    }

    fn in_force(&self, at: SystemTime) {
        let unix = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.reload_ok.set(1);
        self.reload_time.set(unix.as_secs_f64());
    }
}
