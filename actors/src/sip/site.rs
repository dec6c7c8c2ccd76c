//! What the workers of one SIP chain share.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::ring::{RingLimits, Rings};
use super::shared::SipShared;
use super::transport::Connections;
use crate::metrics::{NodeMetrics, SipListenerMetrics, SipRouterMetrics};
use crate::settings::SipListenerSettings;

/// What all workers of one chain from a `SipListener` to a `SipRouter` share.
pub struct SipSite {
    /// The inbox of each worker.
    pub rings: Arc<Rings>,
    /// The TCP connections of the node, whichever worker has them.
    pub connections: Arc<Connections>,
    /// What the scripts of all workers share.
    pub shared: Arc<SipShared>,
    /// What the listener counts, as any node.
    pub listener_metrics: Arc<NodeMetrics>,
    /// What it counts as a `SipListener`.
    pub transport_metrics: Arc<SipListenerMetrics>,
    /// What the router counts.
    pub router_metrics: Arc<SipRouterMetrics>,
}

impl SipSite {
    /// What so many workers share; `None` where these are not the metrics of a `SipListener` and of
    /// a `SipRouter`. `shared` is what the chain before it had, if it takes the place of one; with
    /// the same `seed` each call belongs to the worker that it belonged to there.
    pub fn new(
        workers: u16,
        settings: &SipListenerSettings,
        listener: &Arc<NodeMetrics>,
        router: &NodeMetrics,
        shared: Arc<SipShared>,
        seed: u64,
    ) -> Option<Arc<Self>> {
        shared.count_by(router.sip_router()?);
        let first = RandomState::new().hash_one(0) as u32;
        Some(Arc::new(Self {
            rings: Arc::new(Rings::new(workers, RingLimits::default(), seed)),
            connections: Arc::new(Connections::new(settings.max_connections, first)),
            shared,
            listener_metrics: Arc::clone(listener),
            transport_metrics: Arc::clone(listener.sip_listener()?),
            router_metrics: Arc::clone(router.sip_router()?),
        }))
    }
}

impl std::fmt::Debug for SipSite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SipSite")
            .field("listener", self.listener_metrics.name())
            .finish_non_exhaustive()
    }
}
