//! How many actors there are, and what became of them.

use std::sync::{Arc, OnceLock};

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::labels::ActorKind;
use super::register;

/// The metrics of the actors, by kind.
#[derive(Clone, Debug)]
pub struct ActorMetrics {
    kinds: Arc<[OnceLock<Arc<KindMetrics>>; ActorKind::ALL.len()]>,
    families: Families,
}

#[derive(Clone, Debug)]
struct Families {
    alive: IntGaugeVec,
    panics: IntCounterVec,
    restarts: IntCounterVec,
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
        let counter =
            |name, help| register(registry, IntCounterVec::new(Opts::new(name, help), &["kind"]));
        let families = Families {
            alive: register(
                registry,
                IntGaugeVec::new(Opts::new("lineway_actors_alive", "Live actors."), &["kind"]),
            ),
            panics: counter("lineway_actor_panics_total", "Actors that ended by a panic."),
            restarts: counter(
                "lineway_actor_restarts_total",
                "Long-lived actors that were started again after a panic.",
            ),
        };
        let all = Self { kinds: Arc::default(), families };
        let always = |kind: &ActorKind| !kind.is_of_sockets() && !kind.is_of_sip();
        for kind in ActorKind::ALL.into_iter().filter(always) {
            all.kind(kind);
        }
        all
    }

    /// The metrics of one kind. Those of message sockets and of SIP are shown from the first time
    /// on, which is when there is a node of them.
    pub fn kind(&self, kind: ActorKind) -> &Arc<KindMetrics> {
        self.kinds[kind as usize].get_or_init(|| {
            let (word, families) = ([kind.as_str()], &self.families);
            let restarts = || families.restarts.with_label_values(&word);
            Arc::new(KindMetrics {
                alive: families.alive.with_label_values(&word),
                panics: families.panics.with_label_values(&word),
                restarts: kind.is_long_lived().then(restarts),
            })
        })
    }

    /// Shows the kinds of message sockets.
    pub(super) fn show_sockets(&self) {
        for kind in ActorKind::ALL.into_iter().filter(|kind| kind.is_of_sockets()) {
            self.kind(kind);
        }
    }

    /// Shows the kinds of SIP.
    pub(super) fn show_sip(&self) {
        for kind in ActorKind::ALL.into_iter().filter(|kind| kind.is_of_sip()) {
            self.kind(kind);
        }
    }
}
