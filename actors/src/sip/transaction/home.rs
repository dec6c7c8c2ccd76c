//! What the transactions of one worker share: the table that finds them, and what holds their calls.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
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
use super::main_line::SipTransaction;
use super::messages::{Finish, Overdue};
use crate::messages::{DeadlineKind, Expired, Report, Unwatch, Watch};
use crate::metrics::SipRouterMetrics;
use crate::registry::LineId;
use crate::sip::back::Way;
use crate::sip::router::sending::Sending;
use crate::sip::script::ScriptError;
use crate::sip::shared::SipShared;
use crate::sip::transport::{Sent, Transports};
use crate::worker::{Reporter, Worker, timers};

/// Places of script errors that are remembered.
const MOST_TOLD: usize = 256;

/// How often the script error of one place is logged at most.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What the transactions of a router on one worker share. It outlives a panic of the router.
pub(crate) struct Home {
    pub(in crate::sip) worker: Rc<Worker>,
    pub(crate) node: Arc<str>,
    pub(in crate::sip) metrics: Arc<SipRouterMetrics>,
    pub(in crate::sip) shared: Arc<SipShared>,
    pub(in crate::sip) table: RefCell<Table<Rc<Entry>>>,
    pub(in crate::sip) holds: Arc<Holds>,
    /// Calls that would begin are refused.
    pub(in crate::sip) drains: Cell<bool>,
    /// When another final of a branch was logged last.
    warned: Cell<Option<Instant>>,
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
pub(crate) struct Entry {
    /// Its name as a line: the selection between its branches has its deadline watched under it.
    pub(crate) line: LineId,
    pub(in crate::sip) home: Rc<Home>,
    /// The ways out of its branches.
    pub(super) sending: Rc<Sending>,
    /// What the supervisor watches: the earliest deadline of a branch.
    watched: Cell<Option<Instant>>,
    generation: Cell<u32>,
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
    /// Where from.
    pub(in crate::sip) caller: SocketAddr,
}

/// A branch as the router sees it.
pub(in crate::sip) struct BranchEntry {
    /// `None` for one whose request could not be sent.
    pub(in crate::sip) address: Option<Addr<SipBranch>>,
    /// The Request-URI that it was sent with.
    pub(in crate::sip) uri: Box<[u8]>,
    /// What it said last; 0 for nothing.
    pub(in crate::sip) status: Cell<u16>,
    /// When it waits no longer for its final reply.
    deadline: Cell<Option<Instant>>,
}

impl BranchEntry {
    pub(super) fn new(address: Option<Addr<SipBranch>>, uri: &[u8]) -> Self {
        Self { address, uri: uri.into(), status: Cell::new(0), deadline: Cell::new(None) }
    }
}

impl Entry {
    /// A transaction that begins.
    pub(super) fn new(
        home: Rc<Home>,
        sending: Rc<Sending>,
        kind: Kind,
        cancelled: bool,
        request: Bytes,
        caller: SocketAddr,
    ) -> Self {
        Self {
            line: home.worker.next_id(),
            home,
            sending,
            watched: Cell::new(None),
            generation: Cell::new(0),
            id: OnceCell::new(),
            main: OnceCell::new(),
            branches: RefCell::default(),
            kind,
            cancelled: Rc::new(Cell::new(cancelled)),
            open: Cell::new(true),
            status: Cell::new(0),
            began: timers::now(),
            request,
            caller,
        }
    }

    /// A branch waits up to another time, or no longer. A deadline that moves away is only noted:
    /// when the earlier one is over, the later one is watched.
    pub(super) fn set_deadline(&self, branch: u16, deadline: Option<Instant>, reporter: &Reporter) {
        let branches = self.branches.borrow();
        let Some(branch) = branches.get(usize::from(branch)) else { return };
        if branch.deadline.replace(deadline) == deadline {
            return;
        }
        drop(branches);
        match (deadline, self.watched.get()) {
            (Some(deadline), watched) if watched.is_none_or(|watched| deadline < watched) => {
                self.watch(deadline, reporter);
            }
            (None, Some(_)) if self.next_deadline().is_none() => self.unwatch(reporter),
            _ => {}
        }
    }

    /// The earliest deadline of a branch.
    fn next_deadline(&self) -> Option<Instant> {
        let branches = self.branches.borrow();
        branches.iter().filter_map(|branch| branch.deadline.get()).min()
    }

    fn watch(&self, deadline: Instant, reporter: &Reporter) {
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        self.watched.set(Some(deadline));
        let (id, kind) = (self.line, DeadlineKind::FinalReply);
        reporter.report(Report::Watch(Watch { id, generation, kind, deadline }));
    }

    /// Nothing of it is to be watched any more.
    pub(super) fn unwatch(&self, reporter: &Reporter) {
        if self.watched.take().is_some() {
            let unwatch = Unwatch { id: self.line, generation: self.generation.get() };
            reporter.report(Report::Unwatch(unwatch));
        }
    }

    /// The supervisor says that a deadline is over: the branches hear of it whose it is.
    pub(crate) fn expired(&self, expired: Expired, reporter: &Reporter, now: Instant) {
        if expired.generation != self.generation.get() {
            return;
        }
        self.watched.set(None);
        let branches = self.branches.borrow();
        for branch in branches.iter() {
            if branch.deadline.get().is_some_and(|deadline| deadline <= now) {
                branch.deadline.set(None);
                if let Some(address) = &branch.address {
                    address.do_send(Overdue);
                }
            }
        }
        drop(branches);
        self.watch_again(reporter);
    }

    /// Has the supervisor watch what there is to be watched.
    pub(crate) fn watch_again(&self, reporter: &Reporter) {
        self.watched.set(None);
        if let Some(deadline) = self.next_deadline() {
            self.watch(deadline, reporter);
        }
    }

    /// Tells a branch something, if it lives.
    pub(in crate::sip) fn tell<M>(&self, branch: u16, message: M)
    where
        M: actix::Message<Result = ()> + Send + 'static,
        SipBranch: actix::Handler<M>,
    {
        let branches = self.branches.borrow();
        if let Some(address) =
            branches.get(usize::from(branch)).and_then(|branch| branch.address.as_ref())
        {
            address.do_send(message);
        }
    }
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
        let (drains, warned) = (Cell::new(false), Cell::new(None));
        Self { worker, node, metrics, shared, table, holds, drains, warned, told }
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

    /// Logs that a branch had another final behind its first (contract 2.6); one line a second.
    pub(super) fn warn_of_final(&self, reply: &Message, before: u16) {
        let now = timers::now();
        if self.warned.get().is_some_and(|at| now.duration_since(at) < TELL_EVERY) {
            return;
        }
        self.warned.set(Some(now));
        let call_id = String::from_utf8_lossy(reply.call_id());
        tracing::warn!(
            node = %self.node, ?call_id, status = reply.status(), before,
            "a branch has another final reply, which is ignored"
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
