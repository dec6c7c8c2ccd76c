//! The end of a parent's line where its children stand.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use actix::Addr;
use lineway_wire::mux::{ChildEnd, ChildKey, Cids, Event, KeptPlace, Limits, Parent, Side};
use lineway_wire::queue::ByteQueue;

use super::credit::{Batch, Holder, Link, Returns, Toward};
use super::parent::MuxParent;
use super::parents::Membership;
use super::stream::Stream;
use crate::line::{Chain, Node};
use crate::messages::{ChildSays, ChildWord, Face, ParentWord};
use crate::metrics::{ParentMetrics, ParentNow};
use crate::registry::{LineId, LineView, MuxNow, MuxView, Takes};
use crate::settings::NodeSettings;
use crate::worker::{Worker, timers};

/// One side of one parent, as an end of its line.
pub struct Mux {
    worker: Rc<Worker>,
    face: Face,
    core: Parent<Holder>,
    returns: Arc<Returns>,
    home: Option<(Addr<MuxParent>, LineId)>,
    /// The chain of the children that the peer opens.
    children: Option<Rc<Chain>>,
    /// The pool that a client's parent stands in.
    membership: Option<Membership>,
    /// When it takes no further child, for its age (M11).
    exhausted_at: Option<Instant>,
    kept: HashMap<ChildKey, KeptPlace>,
    /// The peer has ended the transport.
    ended: bool,
    /// An operator closes the parent.
    draining: bool,
    metrics: ParentMetrics,
    /// The time of this turn.
    now: Instant,
    /// What others may see of it.
    view: Arc<MuxView>,
}

impl Mux {
    /// A client's side without children, whose parent stands in a pool.
    pub(crate) fn client(
        worker: &Rc<Worker>,
        node: &Rc<Node>,
        limits: Limits,
        membership: Membership,
        returns: Arc<Returns>,
    ) -> Self {
        let mode = membership.mode();
        let side = Side::Client(Cids::new(mode.most_children()));
        let mut mux = Self::new(worker, node, Face::Near, Parent::new(side, limits), returns);
        mux.exhausted_at = mode.exhausted_at(timers::now());
        mux.membership = Some(membership);
        mux
    }

    /// A server's side, whose children take this chain.
    pub(crate) fn server(
        worker: &Rc<Worker>,
        node: &Rc<Node>,
        limits: Limits,
        most: usize,
        children: &Rc<Chain>,
    ) -> Self {
        let core = Parent::new(Side::Server { most }, limits);
        let mut mux = Self::new(worker, node, Face::Far, core, Arc::default());
        mux.core.established();
        mux.children = Some(Rc::clone(children));
        mux
    }

    fn new(
        worker: &Rc<Worker>,
        node: &Rc<Node>,
        face: Face,
        core: Parent<Holder>,
        returns: Arc<Returns>,
    ) -> Self {
        let mode = match &node.plan.settings {
            NodeSettings::MuxClient(client) => Some(client.mode.name()),
            _ => None,
        };
        let mut mux = Self {
            worker: Rc::clone(worker),
            face,
            core,
            returns,
            home: None,
            children: None,
            membership: None,
            exhausted_at: None,
            kept: HashMap::new(),
            ended: false,
            draining: false,
            metrics: node.metrics.mux_parent(),
            now: timers::now(),
            view: Arc::new(MuxView::new(Arc::clone(&node.plan.name), mode)),
        };
        mux.publish();
        mux
    }

    /// True until it knows the actor that it is part of.
    pub(crate) const fn is_homeless(&self) -> bool {
        self.home.is_none()
    }

    /// It is part of this actor, whose line is this.
    pub(crate) fn set_home(&mut self, home: Addr<MuxParent>, line: &LineView) {
        self.home = Some((home, line.id));
        line.set_mux(|sides| match self.face {
            Face::Near => sides.client = Some(Arc::clone(&self.view)),
            Face::Far => sides.server = Some(Arc::clone(&self.view)),
        });
    }

    /// Which end of the line it is.
    pub(super) const fn face(&self) -> Face {
        self.face
    }

    /// The far side of the transport is up.
    pub(crate) const fn established(&mut self) {
        self.core.established();
    }

    /// What happens before bytes move: times that are over, and room that children have again.
    pub(crate) fn begin_turn(&mut self, cx: &Context<'_>, now: Instant) {
        self.now = now;
        self.returns.wait(cx.waker());
        for key in self.returns.take() {
            self.core.has_room(key);
        }
        if self.exhausted_at.is_some_and(|at| at <= now) {
            self.exhausted_at = None;
            self.take_no_more();
        }
        if self.core.next_wake().is_some_and(|at| at <= now) {
            self.core.timeout(now, &self.worker.pool);
        }
        self.dispatch(now);
    }

    /// When [`Self::begin_turn`] is wanted, if at all.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        [self.core.next_wake(), self.exhausted_at].into_iter().flatten().min()
    }

    /// An operator closes the parent: no further child.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        self.take_no_more();
    }

    /// No further child: the parent is drained, or exhausted (M12).
    pub(super) fn take_no_more(&mut self) {
        self.core.exhaust();
        if let Some(membership) = &self.membership {
            membership.let_go();
        }
    }

    /// True when the parent is to be closed (M12).
    fn is_over(&self) -> bool {
        self.core.is_over() && !self.returns.expects()
    }

    /// Gives frames for the transport. `Ready(0)` when nothing follows.
    pub(crate) fn poll_read(&mut self, queue: &mut ByteQueue) -> Poll<usize> {
        if self.ended || self.is_over() {
            return Poll::Ready(0);
        }
        let given = self.core.transmit(queue, &self.worker.pool);
        self.dispatch(self.now);
        if given > 0 {
            Poll::Ready(given)
        } else if self.is_over() {
            Poll::Ready(0)
        } else {
            Poll::Pending
        }
    }

    /// Takes the whole frames at the front of `queue`.
    pub(crate) fn poll_write(&mut self, queue: &mut ByteQueue) -> Poll<usize> {
        if self.home.is_none() && self.face == Face::Far {
            return Poll::Pending;
        }
        let now = self.now;
        let mut taken = 0;
        loop {
            let more = self.core.receive(now, queue, &self.worker.pool);
            if more == 0 {
                return if taken > 0 { Poll::Ready(taken) } else { Poll::Pending };
            }
            taken += more;
            self.dispatch(now);
        }
    }

    /// The peer has ended the transport; what makes no whole frame is lost (M20).
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// The transport takes no frame any more. It may be read again, which nobody else wakes it for.
    pub(crate) fn other_end_broke(&mut self) {
        self.core.mute();
        self.returns.wake();
    }

    /// True while the transport is not to be read (M24, M25, M32).
    pub(crate) const fn stops_reading(&self) -> bool {
        self.core.stops_reading().is_some()
    }

    /// A child says something.
    pub(super) fn hear(&mut self, says: ChildSays) {
        let pool = &self.worker.pool;
        let ChildSays { key, says, .. } = says;
        match says {
            ChildWord::Join(joining) => {
                if let Some(link) = joining.take() {
                    self.core.join(timers::now(), key, Holder(link));
                }
            }
            ChildWord::Payload(batch) => {
                // A batch that nobody takes gives its credit back.
                if self.core.owner(key).is_some() {
                    self.core.payload(key, &mut batch.take(), pool);
                }
            }
            ChildWord::Pause => self.core.pause(key),
            ChildWord::Resume => self.core.resume(key),
            ChildWord::InputEnded => self.core.input_ended(timers::now(), key),
            ChildWord::Gone(end) => self.core.gone(timers::now(), key, end, pool),
            ChildWord::Evicted => self.core.close(key, ChildEnd::HalfCloseLimit, false, pool),
        }
    }

    /// The transport is gone (M20). True if children wait for another one, none of which joined
    /// more than `retry` ago (M14).
    pub(super) fn transport_lost(&mut self, now: Instant, retry: Option<Instant>) -> bool {
        self.core.transport_lost(&self.worker.pool);
        self.gives_up(now, retry)
    }

    /// Ends children that have waited for too long. True while others wait, or are on their way.
    pub(super) fn gives_up(&mut self, now: Instant, until: Option<Instant>) -> bool {
        self.core.give_up_waiting(until.unwrap_or(now), &self.worker.pool);
        self.dispatch(now);
        self.core.waiting_since().is_some() || self.returns.expects()
    }

    /// When the first of the children joined that wait for a transport.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.core.waiting_since()
    }

    /// Another transport is made for the children that wait.
    pub(super) fn again(&mut self) {
        self.ended = false;
        self.home = None;
        self.metrics.retried();
        self.core.again();
    }

    /// True when nothing is left to deliver to any child.
    pub(super) fn is_drained(&self) -> bool {
        self.core.is_empty() && !self.returns.expects()
    }

    /// Ends every child at once.
    pub(super) fn end_children(&mut self, end: ChildEnd) {
        for key in self.core.all_keys() {
            self.core.close(key, end, true, &self.worker.pool);
        }
        self.dispatch(timers::now());
    }

    /// Sets the marks of the parent's numbers before its line is reported (M08).
    pub(crate) fn set_marks(&mut self, view: &LineView) {
        if let Some(cids) = self.core.cids() {
            view.set_cids_leased(cids.leased());
        }
    }

    /// A lease of numbers came (M08).
    pub(super) fn leased(&mut self, first: u32, last: u32) {
        if let Some(cids) = self.core.cids() {
            cids.granted(first, last);
        }
    }

    /// Asks for the next lease when it is time (M08).
    pub(crate) fn mind_cids(&mut self, view: &Arc<LineView>) {
        if let Some(cids) = self.core.cids() {
            view.set_cids_used(cids.used());
            if cids.wants() {
                self.worker.lease_cids(view, cids.most());
            }
        }
    }

    /// Hands out payload and events.
    fn dispatch(&mut self, now: Instant) {
        loop {
            while let Some((key, payload)) = self.core.poll_delivery(now, &self.worker.pool) {
                if let Some(Holder(link)) = self.core.owner(key) {
                    let batch = Batch::new(link, Toward::Child, payload);
                    link.tell(self.face, ParentWord::Payload(batch));
                }
            }
            let Some(event) = self.core.poll_event() else {
                return;
            };
            self.event(now, event);
        }
    }

    fn event(&mut self, now: Instant, event: Event<Holder>) {
        let tell = |key: ChildKey, says: ParentWord| {
            if let Some(Holder(link)) = self.core.owner(key) {
                link.tell(self.face, says);
            }
        };
        match event {
            Event::Opened(key) => self.open_child(now, key),
            Event::Est(key) => {
                // Its transport may be another one than when the child joined (M14).
                let line = self.home.as_ref().map(|(_, line)| *line);
                tell(key, ParentWord::Est(line));
            }
            Event::Pause(key, reason) => tell(key, ParentWord::Pause(reason)),
            Event::Resume(key, reason) => tell(key, ParentWord::Resume(reason)),
            Event::InputEnded(key) => tell(key, ParentWord::InputEnded),
            Event::Kept(key) => self.keep(key),
            Event::KeptNoMore(key) => self.keep_no_more(key),
            Event::Over(_, Holder(link)) => link.tell(self.face, ParentWord::InputEnded),
            Event::Finish(_, Holder(link), end) => link.tell(self.face, ParentWord::Finish(end)),
        }
    }

    /// The peer opened a child: its line begins on this worker (M17).
    fn open_child(&mut self, now: Instant, key: ChildKey) {
        let (Some(chain), Some((home, line))) = (&self.children, &self.home) else {
            return self.core.gone(now, key, ChildEnd::ParentLost, &self.worker.pool);
        };
        let link = Link::new(key, &self.returns);
        let stream = Stream::new(key, Face::Far, home.clone(), *line, Arc::clone(&link), None);
        match self.worker.open_stream(chain, stream) {
            Some(child) => {
                link.set_home(child);
                self.core.attach(key, Holder(link));
            }
            None => self.core.gone(now, key, ChildEnd::Refused, &self.worker.pool),
        }
    }

    fn keep(&mut self, key: ChildKey) {
        let (Some(membership), Some((home, _))) = (&self.membership, &self.home) else {
            return;
        };
        self.kept.insert(key, membership.keep(home, key));
    }

    fn keep_no_more(&mut self, key: ChildKey) {
        if let (Some(place), Some(membership)) = (self.kept.remove(&key), &self.membership) {
            membership.keep_no_more(place);
        }
    }

    /// Tells others what passed and what holds, once for each turn and more.
    pub(super) fn publish(&mut self) {
        self.metrics.count(&self.core.take_counts());
        let (cids_leased, cids_used) = match self.core.cids() {
            Some(cids) => (cids.leased(), cids.used()),
            None => (0, 0),
        };
        self.metrics.show(ParentNow {
            exhausted: self.core.is_exhausted(),
            paused: self.core.paused() as u64,
            queued: self.core.queued() as u64,
            cids_leased,
            cids_used,
        });
        self.view.set(MuxNow {
            takes: match (self.draining, self.core.is_exhausted()) {
                (true, _) => Takes::Draining,
                (false, true) => Takes::Exhausted,
                (false, false) => Takes::Taking,
            },
            reading: self.core.stops_reading(),
            children: u32::try_from(self.core.len()).unwrap_or(u32::MAX),
            paused: u32::try_from(self.core.paused()).unwrap_or(u32::MAX),
            queued: self.core.queued() as u64,
        });
    }
}

impl Drop for Mux {
    fn drop(&mut self) {
        // Not drained before: its actor panicked, or its runtime ends.
        self.end_children(ChildEnd::Panic);
        self.publish();
        if let Some(membership) = &self.membership {
            membership.let_go();
        }
    }
}

impl std::fmt::Debug for Mux {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mux")
            .field("face", &self.face)
            .field("children", &self.core.len())
            .finish_non_exhaustive()
    }
}
