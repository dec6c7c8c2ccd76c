//! What all workers of a `SipRouter` share, and what one worker's script works with.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use lineway_wire::sip::own::Own;
use lineway_wire::sip::sl::Sl;

use super::htable::Tables;
use super::pike::Pike;
use crate::settings::SipRouterSettings;

/// Shared by all workers, and kept by a reload. Any thread, short locks.
#[derive(Debug, Default)]
pub struct SipShared {
    /// `KSR.htable`, `$sht`.
    pub tables: Tables,
    /// `KSR.pike`.
    pub pike: Pike,
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
}
