//! What the transactions of one worker share: the table that finds them, and what holds their calls.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Waker};
use std::time::{Duration, Instant};

use actix::Addr;
use bytes::Bytes;
use lineway_wire::sip::message::Message;
use lineway_wire::sip::transaction::{Kind, Table, TransactionId};
use smallvec::SmallVec;

use super::branch::SipBranch;
use super::main_line::{Finish, SipTransaction};
use crate::metrics::SipRouterMetrics;
use crate::sip::back::Way;
use crate::sip::script::ScriptError;
use crate::sip::shared::SipShared;
use crate::sip::transport::{Sent, Transports};
use crate::worker::{Worker, timers};

/// Places of script errors that are remembered.
const MOST_TOLD: usize = 256;

/// How often the script error of one place is logged at most.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What the transactions of a router on one worker share. It outlives a panic of the router.
pub(crate) struct Home {
    pub(in crate::sip) worker: Rc<Worker>,
    pub(crate) node: Arc<str>,
    pub(in crate::sip) metrics: Arc<SipRouterMetrics>,
    pub(crate) shared: Arc<SipShared>,
    pub(in crate::sip) table: RefCell<Table<Rc<Entry>>>,
    pub(in crate::sip) holds: Arc<Holds>,
    /// Calls that would begin are refused.
    pub(in crate::sip) drains: Cell<bool>,
    /// The script errors that were logged, by their place.
    told: RefCell<HashMap<(Arc<str>, u32), Told>>,
}

/// A script error that was logged.
struct Told {
    /// When last.
    at: Option<Instant>,
    /// How often it came since, and was not.
    untold: u64,
}

/// A transaction as the router sees it: what can be known of it without asking its actor.
pub(in crate::sip) struct Entry {
    /// Its place in the table.
    pub(in crate::sip) id: OnceCell<TransactionId>,
    /// Its actor.
    pub(in crate::sip) main: OnceCell<Addr<SipTransaction>>,
    /// Its branches, by index.
    pub(in crate::sip) branches: RefCell<SmallVec<[BranchEntry; 1]>>,
    /// INVITE or not.
    pub(in crate::sip) kind: Kind,
    /// The caller has cancelled it.
    pub(in crate::sip) cancelled: Rc<Cell<bool>>,
    /// A branch of it waits for its final reply, or it has no branch yet and no final.
    pub(in crate::sip) open: Cell<bool>,
    /// What went up last; 0 for nothing.
    pub(in crate::sip) status: Cell<u16>,
    /// When it began.
    pub(in crate::sip) began: Instant,
    /// The request as it came.
    pub(in crate::sip) request: Bytes,
}

/// A branch as the router sees it.
pub(in crate::sip) struct BranchEntry {
    pub(in crate::sip) address: Option<Addr<SipBranch>>,
    /// The Request-URI that it was sent with.
    pub(in crate::sip) uri: Bytes,
    /// What it said last; 0 for nothing.
    pub(in crate::sip) status: Cell<u16>,
}

impl Home {
    /// Without any transaction.
    pub(in crate::sip) fn new(
        worker: Rc<Worker>,
        node: Arc<str>,
        metrics: Arc<SipRouterMetrics>,
        shared: Arc<SipShared>,
    ) -> Self {
        let (table, holds, told) = (RefCell::default(), Arc::default(), RefCell::default());
        let drains = Cell::new(false);
        Self { worker, node, metrics, shared, table, holds, drains, told }
    }

    /// Sends bytes; `sent` counts them when they have left.
    pub(in crate::sip) fn send(
        &self,
        transports: &Transports,
        way: &Way,
        bytes: Bytes,
        count: impl FnOnce(&SipRouterMetrics) + 'static,
    ) {
        match transports.send(way, bytes) {
            Sent::Done => count(&self.metrics),
            Sent::Failed(error) => self.metrics.send_error(error),
            Sent::Later(sent) => {
                // Nothing of its call hangs on it.
                let metrics = Arc::clone(&self.metrics);
                tokio::task::spawn_local(async move {
                    match sent.await {
                        Ok(()) => count(&metrics),
                        Err(error) => metrics.send_error(error),
                    }
                });
            }
        }
    }

    /// Counts a script error, and logs it: for each place in the script one line a second, since
    /// what fails for one request may fail for all.
    pub(in crate::sip) fn failed(&self, error: &ScriptError, message: &Message) {
        self.metrics.script_error(error.kind);
        let now = timers::now();
        let mut all = self.told.borrow_mut();
        if all.len() >= MOST_TOLD {
            all.clear();
        }
        let place = (Arc::clone(&error.file), error.line);
        let told = all.entry(place).or_insert(Told { at: None, untold: 0 });
        if told.at.is_some_and(|at| now.duration_since(at) < TELL_EVERY) {
            told.untold += 1;
            return;
        }
        told.at = Some(now);
        let untold = std::mem::take(&mut told.untold);
        let method = String::from_utf8_lossy(message.method().as_bytes());
        let call_id = String::from_utf8_lossy(message.call_id());
        tracing::error!(
            node = %self.node, %error, %method, ?call_id, untold, "the script failed"
        );
    }

    /// Ends every transaction, without a word.
    pub(in crate::sip) fn finish_all(&self) {
        for (_, entry) in self.table.borrow().iter() {
            if let Some(main) = entry.main.get() {
                main.do_send(Finish);
            }
        }
    }

    /// The entry of a transaction.
    pub(in crate::sip) fn entry(&self, id: TransactionId) -> Option<Rc<Entry>> {
        self.table.borrow().get(id).cloned()
    }
}

/// The calls that were held and are free again, for the router of the worker.
#[derive(Debug, Default)]
pub(in crate::sip) struct Holds {
    state: Mutex<Freed>,
}

#[derive(Debug, Default)]
struct Freed {
    calls: Vec<u64>,
    router: Option<Waker>,
}

impl Holds {
    /// Holds a call until what is given is dropped.
    pub(in crate::sip) fn hold(self: &Arc<Self>, call: u64) -> Hold {
        Hold { call, holds: Arc::clone(self) }
    }

    /// Takes the calls that are free again; wakes the router when there are more.
    pub(in crate::sip) fn take(&self, freed: &mut Vec<u64>, cx: &mut TaskContext<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        freed.append(&mut state.calls);
        if !state.router.as_ref().is_some_and(|router| router.will_wake(cx.waker())) {
            state.router = Some(cx.waker().clone());
        }
    }
}

/// Holds a call: its later messages wait.
#[derive(Debug)]
pub(in crate::sip) struct Hold {
    call: u64,
    holds: Arc<Holds>,
}

impl std::fmt::Debug for Home {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Home").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.holds.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.calls.push(self.call);
        if state.calls.len() == 1
            && let Some(router) = &state.router
        {
            router.wake_by_ref();
        }
    }
}
