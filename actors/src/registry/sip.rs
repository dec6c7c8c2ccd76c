//! The SIP chains, for people and for the admin interface.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};

use crate::metrics::{SipListenerMetrics, SipRouterMetrics};
use crate::settings::SipAddress;
use crate::sip::router::SipHandle;

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
    /// Asks for its transactions.
    pub transactions: AskTransactions,
}

/// Asks a chain for the transactions that live in it. Nothing is kept for that.
#[derive(Clone)]
pub struct AskTransactions {
    ask: Arc<dyn Fn(usize) -> BoxFuture<'static, Vec<TransactionView>> + Send + Sync>,
}

impl AskTransactions {
    /// Those that this gives, at most so many.
    pub fn new(
        ask: impl Fn(usize) -> BoxFuture<'static, Vec<TransactionView>> + Send + Sync + 'static,
    ) -> Self {
        Self { ask: Arc::new(ask) }
    }

    /// Those of these routers, one of each worker.
    pub fn of(routers: Vec<SipHandle>) -> Self {
        Self::new(move |most| {
            let routers = routers.clone();
            async move {
                let answers = join_all(routers.iter().map(|router| router.list(most))).await;
                let mut all: Vec<_> = answers.into_iter().flatten().collect();
                // Those that somebody waits for in front, the newest first.
                all.sort_by_key(|view| (!view.open, view.age));
                all.truncate(most);
                all
            }
            .boxed()
        })
    }

    /// At most so many: those that somebody waits for in front, the newest first.
    pub async fn list(&self, most: usize) -> Vec<TransactionView> {
        (self.ask)(most).await
    }
}

impl fmt::Debug for AskTransactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AskTransactions")
    }
}

/// A transaction as others may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionView {
    /// Its worker, and its number there.
    pub id: (u16, u64),
    /// The method.
    pub method: Box<str>,
    /// The Request-URI that came, cut where it is long.
    pub uri: Box<str>,
    /// The Call-ID, cut where it is long.
    pub call_id: Box<str>,
    /// Where it came from.
    pub caller: SocketAddr,
    /// How old it is.
    pub age: Duration,
    /// Somebody waits: it has no final, or a branch has none.
    pub open: bool,
    /// The caller has cancelled it.
    pub cancelled: bool,
    /// The status that went up last; 0 for none.
    pub status: u16,
    /// Where it was sent to.
    pub branches: Vec<BranchView>,
}

/// A branch of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchView {
    /// The Request-URI that it was sent with, cut where it is long.
    pub uri: Box<str>,
    /// What came back last; 0 for nothing.
    pub status: u16,
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
