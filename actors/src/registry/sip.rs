//! The SIP chains, for people and for the admin interface.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::metrics::{SipListenerMetrics, SipRouterMetrics};
use crate::settings::SipAddress;

/// One chain of a `SipListener` and its `SipRouter` as others may see it.
#[derive(Clone, Debug)]
pub struct SipView {
    /// The `SipListener`.
    pub listener: Arc<str>,
    /// The `SipRouter`.
    pub router: Arc<str>,
    /// What it listens on, with the ports that the system chose.
    pub listen: Vec<SipAddress>,
    /// What the listener counts.
    pub carried: Arc<SipListenerMetrics>,
    /// What the router counts.
    pub routed: Arc<SipRouterMetrics>,
}

/// Every SIP chain of the process, by the name of its listener.
#[derive(Clone, Debug, Default)]
pub struct SipChains {
    chains: Arc<RwLock<BTreeMap<Arc<str>, SipView>>>,
}

impl SipChains {
    /// Enters a chain, in place of one whose listener has the same name.
    pub fn insert(&self, chain: SipView) {
        let mut chains = self.chains.write().unwrap_or_else(PoisonError::into_inner);
        chains.insert(Arc::clone(&chain.listener), chain);
    }

    /// Takes a chain out.
    pub fn remove(&self, listener: &str) {
        self.chains.write().unwrap_or_else(PoisonError::into_inner).remove(listener);
    }

    /// Every chain, by the name of its listener.
    pub fn snapshot(&self) -> Vec<SipView> {
        let chains = self.chains.read().unwrap_or_else(PoisonError::into_inner);
        chains.values().cloned().collect()
    }
}
