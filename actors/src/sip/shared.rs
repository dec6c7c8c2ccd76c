//! What all workers of a `SipRouter` share, and what one worker's script works with.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use lineway_wire::sip::own::Own;
use lineway_wire::sip::sl::Sl;
use lineway_wire::sip::textops::Patterns;

use super::auth::Auth;
use super::dispatcher::{Dispatcher, Sets};
use super::htable::Tables;
use super::location::Locations;
use super::pike::Pike;
use crate::metrics::SipRouterMetrics;
use crate::settings::SipRouterSettings;

/// Shared by all workers, and kept by a reload. Any thread, short locks.
#[derive(Debug, Default)]
pub struct SipShared {
    /// `KSR.htable`, `$sht`.
    pub tables: Tables,
    /// `KSR.pike`.
    pub pike: Pike,
    /// `KSR.registrar`: by default in memory.
    pub locations: Arc<Locations>,
    /// `KSR.auth`.
    pub auth: Auth,
    /// `KSR.dispatcher`.
    pub dispatcher: Dispatcher,
    metrics: OnceLock<Arc<SipRouterMetrics>>,
    /// Transactions that live.
    transactions: AtomicU32,
}

impl SipShared {
    /// With these bindings.
    pub fn with(locations: Arc<Locations>) -> Self {
        Self { locations, ..Self::default() }
    }

    /// The node counts here.
    pub fn count_by(&self, metrics: &Arc<SipRouterMetrics>) {
        self.metrics.get_or_init(|| Arc::clone(metrics));
        self.dispatcher.count_by(metrics);
    }

    /// What the node counts; `None` where nobody counts.
    pub fn metrics(&self) -> Option<&SipRouterMetrics> {
        self.metrics.get().map(|metrics| &**metrics)
    }

    /// Transactions that live on all workers (`max-transactions`).
    pub fn transactions(&self) -> u32 {
        self.transactions.load(Relaxed)
    }

    /// A transaction begins to live.
    pub(in crate::sip) fn began(&self) {
        self.transactions.fetch_add(1, Relaxed);
    }

    /// It lives no longer.
    pub(in crate::sip) fn ended(&self) {
        self.transactions.fetch_sub(1, Relaxed);
    }
}

/// What the functions of a script reach on one worker.
pub struct ScriptEnv {
    /// The name of the `SipRouter`, for logs.
    pub node: Arc<str>,
    /// Own sockets and names.
    pub own: Rc<Own>,
    /// The settings of the router.
    pub settings: Arc<SipRouterSettings>,
    /// What all workers share.
    pub shared: Arc<SipShared>,
    /// Replies without state.
    pub sl: RefCell<Sl>,
    /// The targets that the script dispatches to.
    pub targets: Arc<Sets>,
    /// Regular expressions of the script.
    pub patterns: RefCell<Patterns>,
}

impl ScriptEnv {
    /// What one generation of a script works with on one worker.
    pub fn new(
        node: Arc<str>,
        own: Rc<Own>,
        settings: Arc<SipRouterSettings>,
        shared: Arc<SipShared>,
    ) -> Self {
        let sl = RefCell::new(Sl::new(&own));
        let targets = shared.dispatcher.sets(&settings);
        Self { node, own, settings, shared, sl, targets, patterns: RefCell::default() }
    }
}
