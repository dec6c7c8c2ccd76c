//! The parents of one MuxClient on one worker (M10 to M13).

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use actix::Addr;
use lineway_wire::mux::{ChildKey, Kept, KeptPlace, Limits, Mode, ParentId, Pool};

use super::credit::{Link, Returns};
use super::parent::MuxParent;
use super::stream::Stream;
use crate::line::{Chain, Node};
use crate::messages::{ChildSays, ChildWord, Face};
use crate::registry::LineId;
use crate::settings::{MuxClientSettings, MuxMode};
use crate::worker::{Worker, timers};

/// The parents of one MuxClient on one worker, and its children that stand for a reply alone.
pub struct Parents {
    mode: Mode,
    limits: Limits,
    retry: std::time::Duration,
    pool: RefCell<Pool<Reached>>,
    kept: RefCell<Kept<(Addr<MuxParent>, ChildKey)>>,
    /// Keys of children, never used twice on this worker.
    keys: Cell<u64>,
    /// The way that the parents of the pool take; they hold it.
    way: RefCell<Weak<Chain>>,
}

/// How a parent is reached.
struct Reached {
    addr: Addr<MuxParent>,
    line: Rc<Cell<LineId>>,
    returns: Arc<Returns>,
}

impl Parents {
    /// No parents: the first child makes them.
    pub fn new(settings: &MuxClientSettings) -> Self {
        let mode = match settings.mode {
            MuxMode::Timer { connection_duration } => Mode::Timer(connection_duration.duration()),
            MuxMode::Counter { connection_capacity } => Mode::Counter(connection_capacity),
            MuxMode::FixedConnectionsCount { per_worker } => Mode::Fixed(per_worker),
        };
        Self {
            mode,
            limits: settings.mux.limits(),
            retry: settings.parent_retry.duration(),
            pool: RefCell::new(Pool::new(mode)),
            kept: RefCell::default(),
            keys: Cell::new(0),
            way: RefCell::default(),
        }
    }

    /// What each of its parents may hold.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// `parent-retry-ms` (M14).
    pub const fn retry(&self) -> std::time::Duration {
        self.retry
    }

    /// A place for the next child, on the parent whose turn it is. Parents take this way, which
    /// begins with the node of the pool.
    pub(crate) fn join(
        self: &Rc<Self>,
        worker: &Rc<Worker>,
        node: &Rc<Node>,
        way: &Rc<Chain>,
    ) -> Stream {
        self.turn_to(way);
        let key = ChildKey(self.keys.get() + 1);
        self.keys.set(key.0);
        let make = |id| {
            let membership = Membership { parents: Rc::clone(self), id };
            let returns = Arc::<Returns>::default();
            let line = Rc::new(Cell::new(LineId { worker: worker.index, number: 0 }));
            let addr = worker.open_parent(way, node, membership, Arc::clone(&returns), &line);
            Reached { addr, line, returns }
        };
        let mut pool = self.pool.borrow_mut();
        let (id, reached, last) = pool.give(timers::now(), make);
        let link = Link::new(key, &reached.returns);
        let place = ParentPlace { parents: Rc::clone(self), id };
        let (addr, line) = (reached.addr.clone(), reached.line.get());
        let mut stream = Stream::new(key, Face::Near, addr, line, link, Some(place));
        if last {
            // M11: it was given all that it takes.
            stream.set_last();
            pool.let_go(id);
        }
        stream
    }

    /// The nodes behind the pool were changed by a reload: the parents of the old way take no
    /// further child.
    fn turn_to(&self, way: &Rc<Chain>) {
        let same = |other: &Rc<Chain>| Rc::ptr_eq(other, way) || other.same_nodes(way);
        if !self.way.borrow().upgrade().as_ref().is_some_and(same) {
            self.let_go_all();
            *self.way.borrow_mut() = Rc::downgrade(way);
        }
    }

    /// The parents take no further child, unless their way is one of these.
    pub fn retire(&self, ways: impl Fn(&Chain) -> bool) {
        if !self.way.borrow().upgrade().is_some_and(|way| ways(&way)) {
            self.let_go_all();
        }
    }

    fn let_go_all(&self) {
        let before = self.pool.borrow_mut().start_over();
        for reached in before {
            reached.addr.do_send(crate::messages::TakeNoMore);
        }
        *self.way.borrow_mut() = Weak::new();
    }
}

impl std::fmt::Debug for Parents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parents").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// A parent's place in its pool.
pub struct Membership {
    parents: Rc<Parents>,
    id: ParentId,
}

impl Membership {
    /// When its parents take children.
    pub(super) fn mode(&self) -> Mode {
        self.parents.mode
    }

    /// The pool.
    pub(crate) const fn parents(&self) -> &Rc<Parents> {
        &self.parents
    }

    /// The parent takes no further child.
    pub(super) fn let_go(&self) {
        // A pool that is making a parent is in use, and that parent is not in it yet.
        if let Ok(mut pool) = self.parents.pool.try_borrow_mut() {
            pool.let_go(self.id);
        }
    }

    /// A child stands for the reply alone; the oldest one is closed where these are too many (M31).
    pub(super) fn keep(&self, parent: &Addr<MuxParent>, key: ChildKey) -> KeptPlace {
        let (place, oldest) = self.parents.kept.borrow_mut().enter((parent.clone(), key));
        if let Some((parent, key)) = oldest {
            parent.do_send(ChildSays { key, face: Face::Near, says: ChildWord::Evicted });
        }
        place
    }

    /// It does so no more.
    pub(super) fn keep_no_more(&self, place: KeptPlace) {
        self.parents.kept.borrow_mut().leave(place);
    }
}

/// A child's place at a pool, counted until it is dropped (M13).
pub struct ParentPlace {
    parents: Rc<Parents>,
    id: ParentId,
}

impl Drop for ParentPlace {
    fn drop(&mut self) {
        if let Ok(mut pool) = self.parents.pool.try_borrow_mut() {
            pool.child_gone(self.id);
        }
    }
}
