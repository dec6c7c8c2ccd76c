//! How many actors there are, and what became of them.

use std::sync::Arc;

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::labels::ActorKind;
use super::register;

/// The metrics of the actors, by kind.
#[derive(Clone, Debug)]
pub struct ActorMetrics {
    kinds: [Arc<KindMetrics>; ActorKind::ALL.len()],
}

/// The metrics of the actors of one kind, as handles.
#[derive(Debug)]
pub struct KindMetrics {
    pub(crate) alive: IntGauge,
    pub(crate) panics: IntCounter,
    restarts: Option<IntCounter>,
}

impl KindMetrics {
    /// How many actors of the kind live.
    pub fn alive(&self) -> u64 {
        self.alive.get().max(0).cast_unsigned()
    }

    /// How many actors of the kind ended by a panic.
    pub fn panics(&self) -> u64 {
        self.panics.get()
    }

    /// How many were started again; always 0 for lines.
    pub fn restarts(&self) -> u64 {
        self.restarts.as_ref().map_or(0, IntCounter::get)
    }

    /// One was started again.
    pub(crate) fn restarted(&self) {
        if let Some(counter) = &self.restarts {
            counter.inc();
        }
    }
}

impl ActorMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let alive = register(
            registry,
            IntGaugeVec::new(Opts::new("lineway_actors_alive", "Live actors."), &["kind"]),
        );
        let panics = register(
            registry,
            IntCounterVec::new(
                Opts::new("lineway_actor_panics_total", "Actors that ended by a panic."),
                &["kind"],
            ),
        );
        let restarts = register(
            registry,
            IntCounterVec::new(
                Opts::new(
                    "lineway_actor_restarts_total",
                    "Long-lived actors that were started again after a panic.",
                ),
                &["kind"],
            ),
        );
        let kinds = ActorKind::ALL.map(|kind| {
            let word = [kind.as_str()];
            Arc::new(KindMetrics {
                alive: alive.with_label_values(&word),
                panics: panics.with_label_values(&word),
                restarts: kind.is_long_lived().then(|| restarts.with_label_values(&word)),
            })
        });
        Self { kinds }
    }

    /// The metrics of one kind.
    pub fn kind(&self, kind: ActorKind) -> &Arc<KindMetrics> {
        &self.kinds[kind as usize]
    }
}
