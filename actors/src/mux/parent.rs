//! The actor of a parent: a transport that carries many children.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use actix::fut::ActorFuture;
use actix::prelude::*;
use lineway_wire::line::FinishReason;
use lineway_wire::mux::ChildEnd;
use lineway_wire::wheel::Key;

use super::end::Mux;
use crate::descriptors::Permit;
use crate::line::{Line, LineParts};
use crate::listener::LineCount;
use crate::messages::{
    CandidateSays, ChildSays, CidLease, Expired, Face, Finish, ParentSays, TakeNoMore, WatchAgain,
};
use crate::registry::LineId;
use crate::worker::{Worker, timers};

/// How long a parent that could not be made waits until it is tried again, at first and at most
/// (M14).
const BACKOFF: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// A parent: its line, and its children when the line is gone.
///
/// ```text
///   Carrying --lost, children wait that nothing was sent of--> Between --backoff--> Carrying
///      |                                                          |
///      +--lost--> Draining --every queue empty--> ended <---------+
/// ```
#[derive(Debug)]
pub struct MuxParent {
    worker: Rc<Worker>,
    state: State,
    /// The numbers of its lines, the one of the moment last.
    line: LineId,
    /// Tells the pool which line it has.
    told_line: Option<Rc<std::cell::Cell<LineId>>>,
    again: Option<Again>,
    failures: u32,
    /// An operator drains it: what is left then is ended (`drain-timeout-ms`).
    drained_until: Option<Instant>,
    timer: Option<(Key, Instant)>,
    _descriptors: Option<Permit>,
    _count: Option<LineCount>,
}

/// How the line of a MuxClient's parent is made again.
#[derive(Debug)]
pub struct Again {
    /// The way of the parent.
    pub chain: Rc<crate::line::Chain>,
    /// `parent-retry-ms` (M14).
    pub retry: Duration,
}

#[derive(Debug)]
enum State {
    /// The transport is there, or is being made.
    Carrying(Box<Line>),
    /// Children wait for another transport.
    Between { mux: Box<Mux>, until: Instant },
    /// What has come for the children is still delivered (M20).
    #[expect(clippy::vec_box, reason = "each is the end of a line before and after")]
    Draining(Vec<Box<Mux>>),
    /// Taken for a moment.
    Poisoned,
}

impl MuxParent {
    /// A parent whose line is made of these parts. With `again`, its line is made again while
    /// children wait.
    pub fn new(
        worker: &Rc<Worker>,
        parts: LineParts,
        again: Option<Again>,
        descriptors: Option<Permit>,
        count: Option<LineCount>,
    ) -> Self {
        let line = parts.view.id;
        Self {
            worker: Rc::clone(worker),
            state: State::Carrying(Box::new(Line::new(worker, parts))),
            line,
            told_line: None,
            again,
            failures: 0,
            drained_until: None,
            timer: None,
            _descriptors: descriptors,
            _count: count,
        }
    }

    /// The number of its line is told here, whenever it has another one.
    pub fn tell_line(&mut self, cell: &Rc<std::cell::Cell<LineId>>) {
        cell.set(self.line);
        self.told_line = Some(Rc::clone(cell));
    }

    fn muxes(&mut self) -> impl Iterator<Item = &mut Mux> {
        let (line, one, many) = match &mut self.state {
            State::Carrying(line) => (Some(line.muxes()), None, None),
            State::Between { mux, .. } => (None, Some(&mut **mux), None),
            State::Draining(muxes) => (None, None, Some(muxes.iter_mut().map(|mux| &mut **mux))),
            State::Poisoned => (None, None, None),
        };
        line.into_iter().flatten().chain(one).chain(many.into_iter().flatten())
    }

    fn mux(&mut self, face: Face) -> Option<&mut Mux> {
        self.muxes().find(|mux| mux.face() == face)
    }

    /// The side that says whether the parent takes children. Where both are on one line it is the
    /// client's: the server's would refuse those that were opened and are on their way to it.
    fn taker(&mut self) -> Option<&mut Mux> {
        let face = if self.mux(Face::Near).is_some() { Face::Near } else { Face::Far };
        self.mux(face)
    }

    /// One turn; `Ready` when the actor has nothing to do any more.
    fn turn(&mut self, ctx: &Context<Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let now = timers::now();
        if self.timer.is_some_and(|(_, at)| at <= now) {
            self.disarm();
        }
        if self.drained_until.is_some_and(|at| at <= now) {
            self.drained_until = None;
            self.muxes().for_each(|mux| mux.end_children(ChildEnd::Admin));
        }
        loop {
            match &mut self.state {
                State::Carrying(_) => std::task::ready!(self.carry(ctx, cx)),
                State::Between { mux, until } => {
                    mux.begin_turn(cx, now);
                    let retry = self.again.as_ref().map(|again| now.checked_sub(again.retry));
                    if !mux.gives_up(now, retry.flatten()) {
                        self.drain(Vec::new());
                    } else if *until <= now {
                        self.make_again();
                    } else {
                        let given_up = mux.waiting_since().zip(self.again.as_ref());
                        let given_up = given_up.map(|(since, again)| since + again.retry);
                        let drained = self.drained_until;
                        let at = [Some(*until), given_up, drained].into_iter().flatten().min();
                        self.arm(cx, at);
                        return Poll::Pending;
                    }
                }
                State::Draining(muxes) => {
                    for mux in muxes.iter_mut() {
                        mux.begin_turn(cx, now);
                    }
                    if let Some(at) = muxes.iter().position(|mux| mux.waiting_since().is_some()) {
                        // It joined while the transport was lost.
                        let mux = muxes.swap_remove(at);
                        self.wait_for_another(mux, now);
                        continue;
                    }
                    muxes.retain(|mux| !mux.is_drained());
                    if muxes.is_empty() {
                        return Poll::Ready(());
                    }
                    let wakes = muxes.iter().filter_map(|mux| mux.next_wake());
                    let at = wakes.chain(self.drained_until).min();
                    self.arm(cx, at);
                    return Poll::Pending;
                }
                State::Poisoned => return Poll::Ready(()),
            }
        }
    }

    /// A turn of the line. `Ready` when it is over, and the state is another one.
    fn carry(&mut self, ctx: &Context<Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let State::Carrying(line) = &mut self.state else {
            return Poll::Ready(());
        };
        let reason = loop {
            line.settle_in(|| ctx.address());
            match line.turn_at(|| ctx.address().recipient(), cx) {
                Poll::Ready(reason) => break reason,
                // An end that began in this turn has no home yet.
                Poll::Pending if line.muxes().any(|mux| mux.is_homeless()) => {}
                Poll::Pending => {
                    if line.is_open() {
                        self.failures = 0;
                    }
                    line.mind_cids();
                    let at = self.drained_until;
                    self.arm(cx, at);
                    return Poll::Pending;
                }
            }
        };
        line.close(reason);
        let muxes = line.take_muxes();
        self.lost(muxes, reason);
        Poll::Ready(())
    }

    /// The transport is gone (M14, M20).
    #[expect(clippy::vec_box, reason = "each is the end of a line before and after")]
    fn lost(&mut self, muxes: Vec<Box<Mux>>, reason: FinishReason) {
        let now = timers::now();
        let asked = matches!(reason, FinishReason::Admin | FinishReason::Drain);
        let retry = match &self.again {
            Some(again) if !asked => now.checked_sub(again.retry),
            _ => None,
        };
        let mut left = Vec::new();
        let mut waits = None;
        for mut mux in muxes {
            if asked {
                mux.end_children(ChildEnd::of(reason));
            }
            if mux.transport_lost(now, retry) {
                waits = Some(mux);
            } else {
                mux.take_no_more();
                left.push(mux);
            }
        }
        match waits {
            Some(mux) => self.wait_for_another(mux, now),
            None => self.drain(left),
        }
    }

    fn wait_for_another(&mut self, mux: Box<Mux>, now: Instant) {
        let [first, most] = BACKOFF;
        let backoff = first.saturating_mul(1 << self.failures.min(8)).min(most);
        self.failures += 1;
        self.state = State::Between { mux, until: now + backoff };
    }

    #[expect(clippy::vec_box, reason = "each is the end of a line before and after")]
    fn drain(&mut self, mut muxes: Vec<Box<Mux>>) {
        if let State::Between { mux, .. } = std::mem::replace(&mut self.state, State::Poisoned) {
            muxes.push(mux);
        }
        self.state = State::Draining(muxes);
    }

    /// Makes the line once more, for the children that wait.
    fn make_again(&mut self) {
        let State::Between { mut mux, .. } = std::mem::replace(&mut self.state, State::Poisoned)
        else {
            return;
        };
        let Some(again) = &self.again else {
            self.state = State::Draining(vec![mux]);
            return;
        };
        mux.again();
        let parts = self.worker.parent_parts(&again.chain, mux);
        self.worker.parent_renewed(self.line, &parts.view);
        self.line = parts.view.id;
        if let Some(cell) = &self.told_line {
            cell.set(self.line);
        }
        self.state = State::Carrying(Box::new(Line::new(&self.worker, parts)));
    }

    fn arm(&mut self, cx: &TaskContext<'_>, wanted: Option<Instant>) {
        let Some(wanted) = wanted else {
            return;
        };
        if self.timer.is_some_and(|(_, at)| at <= wanted) {
            return;
        }
        self.disarm();
        self.timer = Some((self.worker.timers.set(wanted, cx.waker()), wanted));
    }

    fn disarm(&mut self) {
        if let Some((key, _)) = self.timer.take() {
            self.worker.timers.cancel(key);
        }
    }
}

impl Actor for MuxParent {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.worker.lessee(self.line, ctx.address().recipient());
        ctx.spawn(Pump);
    }
}

impl Drop for MuxParent {
    fn drop(&mut self) {
        self.disarm();
        self.worker.line_gone(self.line);
    }
}

/// Moves the bytes of the parent whenever its actor is woken.
struct Pump;

impl ActorFuture<MuxParent> for Pump {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut MuxParent,
        ctx: &mut Context<MuxParent>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<()> {
        let turn = actor.turn(ctx, cx);
        actor.muxes().for_each(Mux::publish);
        std::task::ready!(turn);
        ctx.stop();
        Poll::Ready(())
    }
}

// The pump is polled behind every message, so a handler only notes what it was told.

impl Handler<ChildSays> for MuxParent {
    type Result = ();

    fn handle(&mut self, says: ChildSays, _: &mut Self::Context) {
        if let Some(mux) = self.mux(says.face) {
            mux.hear(says);
        }
    }
}

impl Handler<TakeNoMore> for MuxParent {
    type Result = ();

    fn handle(&mut self, _: TakeNoMore, _: &mut Self::Context) {
        if let Some(mux) = self.taker() {
            mux.take_no_more();
        }
    }
}

impl Handler<CidLease> for MuxParent {
    type Result = ();

    fn handle(&mut self, lease: CidLease, _: &mut Self::Context) {
        if lease.parent == self.line
            && let Some(mux) = self.mux(Face::Near)
        {
            mux.leased(lease.first, lease.last);
        }
    }
}

impl Handler<Finish> for MuxParent {
    type Result = ();

    /// An operator drains a parent: no new child, and it ends with its last one, or when the drain
    /// limit is over.
    fn handle(&mut self, finish: Finish, _: &mut Self::Context) {
        if let Some(mux) = self.taker() {
            mux.drain();
        }
        if finish.reason == FinishReason::Admin && self.muxes().any(|mux| !mux.is_drained()) {
            let limit = self.worker.drain_timeout.get();
            self.drained_until.get_or_insert(timers::now() + limit);
        } else if let State::Carrying(line) = &mut self.state {
            line.finish(finish.reason);
        } else {
            self.muxes().for_each(|mux| mux.end_children(ChildEnd::of(finish.reason)));
        }
    }
}

impl Handler<CandidateSays> for MuxParent {
    type Result = ();

    fn handle(&mut self, says: CandidateSays, _: &mut Self::Context) {
        if let State::Carrying(line) = &mut self.state {
            line.candidate_says(says);
        }
    }
}

impl Handler<ParentSays> for MuxParent {
    type Result = ();

    fn handle(&mut self, says: ParentSays, _: &mut Self::Context) {
        if let State::Carrying(line) = &mut self.state {
            line.parent_says(says);
        }
    }
}

impl Handler<Expired> for MuxParent {
    type Result = ();

    fn handle(&mut self, expired: Expired, _: &mut Self::Context) {
        if let State::Carrying(line) = &mut self.state {
            line.expired(expired.generation);
        }
    }
}

impl Handler<WatchAgain> for MuxParent {
    type Result = ();

    fn handle(&mut self, _: WatchAgain, _: &mut Self::Context) {
        if let State::Carrying(line) = &mut self.state {
            line.watch_again();
        }
    }
}
