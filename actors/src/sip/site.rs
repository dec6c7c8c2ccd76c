//! What the workers of one SIP chain share.

use std::sync::Arc;

use crate::metrics::{Metrics, SipListenerMetrics, SipRouterMetrics};
use crate::settings::NodePlan;

use super::ring::Ring;
use super::shared::SipShared;
use super::transport::Connections;

/// Bytes that may wait for one worker.
const RING_BYTES: usize = 4 << 20;

/// Messages that may wait for one worker.
const RING_MESSAGES: usize = 8192;

/// What all workers of one chain from a `SipListener` to a `SipRouter` share.
#[derive(Debug)]
pub struct SipSite {
    /// The inbox of each worker.
    pub rings: Arc<[Ring]>,
    /// The TCP connections of the node, whichever worker has them.
    pub connections: Arc<Connections>,
    /// What the scripts of all workers share.
    pub shared: Arc<SipShared>,
    /// What the listener counts.
    pub listener_metrics: Arc<SipListenerMetrics>,
    /// What the router counts.
    pub router_metrics: Arc<SipRouterMetrics>,
}
