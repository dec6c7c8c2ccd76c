//! One line without its actor: two ends, two queues, and the turn that moves bytes between them.

mod ending;
mod joining;
mod parented;
mod water;

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use lineway_wire::line::{Direction, Ends, FinishReason, Idle, PauseReasons, Water};
use lineway_wire::wheel::Key;

use super::chain::Chain;
use super::end::{End, EndError};
use super::stage::{Given, Stages};
use crate::fisher::Tenure;
use crate::messages::{DeadlineKind, Report, Unwatch, Watch};
use crate::registry::{LineState, LineView};
use crate::worker::{Worker, timers};
use lineway_wire::queue::ByteQueue;

/// Rounds of one turn, each at most two reads and two writes in either direction: then other lines
/// have theirs.
const ROUNDS: usize = 16;

/// A deadline at the supervisor is kept by the line itself this much later.
pub(crate) const OWN_LIMIT: Duration = Duration::from_secs(1);

/// What a new line is made of.
pub struct LineParts {
    /// The line as others see it.
    pub view: Arc<LineView>,
    /// The chain that it goes through.
    pub chain: Rc<Chain>,
    /// The end that it came from.
    pub near: End,
    /// What the nodes between do to it.
    pub stages: Stages,
    /// The far end; [`End::Waiting`] where a stage begins it.
    pub far: End,
}

#[derive(Debug)]
struct Flow {
    queue: ByteQueue,
    water: Water,
    paused: PauseReasons,
    bytes: u64,
    told_bytes: u64,
    told_queued: usize,
}

/// One line. Its owner calls [`Self::turn`] whenever it is woken.
#[derive(Debug)]
pub struct Line {
    view: Arc<LineView>,
    worker: Rc<Worker>,
    chain: Rc<Chain>,
    /// The chain whose end is begun: the winner's after a choice.
    onward: Rc<Chain>,
    near: End,
    far: End,
    stages: Stages,
    flows: [Flow; 2],
    ends: Ends,
    idle: Idle,
    over: Option<FinishReason>,
    closed: bool,
    timer: Option<(Key, Instant)>,
    linger_until: Option<Instant>,
    look_at: Option<Instant>,
    discards: bool,
    discard_until: Option<Instant>,
    deadline: Deadline,
    /// When the line is over whatever it does, should the supervisor not say so.
    own_limit: Option<Instant>,
    est_told: bool,
    /// The far end was begun in this turn.
    begun: bool,
    /// The place of the candidate that became part of this line.
    winner: Option<Box<Tenure>>,
}

/// What came of one round.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Bytes moved.
    moved: bool,
    /// Another round may move more.
    more: bool,
}

/// A deadline that the supervisor keeps for the line.
#[derive(Clone, Copy, Debug, Default)]
struct Deadline {
    generation: u32,
    watched: Option<(DeadlineKind, Instant)>,
}

impl Line {
    /// A line of these parts. It is entered with the supervisor at once.
    pub fn new(worker: &Rc<Worker>, parts: LineParts) -> Self {
        let LineParts { view, chain, near, stages, far } = parts;
        let flow = |marks| Flow {
            queue: ByteQueue::default(),
            water: Water::new(marks),
            paused: PauseReasons::NONE,
            bytes: 0,
            told_bytes: 0,
            told_queued: 0,
        };
        chain.entry.metrics.opened(view.kind);
        worker.reporter.report(Report::Opened(Arc::clone(&view)));
        let mut line = Self {
            flows: chain.marks.map(flow),
            ends: Ends::new(),
            idle: Idle::new(chain.idle, timers::now()),
            worker: Rc::clone(worker),
            over: None,
            closed: false,
            timer: None,
            linger_until: None,
            look_at: None,
            discards: false,
            discard_until: None,
            deadline: Deadline::default(),
            own_limit: None,
            est_told: false,
            begun: false,
            winner: None,
            view,
            onward: Rc::clone(&chain),
            chain,
            near,
            far,
            stages,
        };
        if line.far.is_up() {
            line.established();
        }
        line
    }

    /// The line as others see it.
    pub const fn view(&self) -> &Arc<LineView> {
        &self.view
    }

    /// The worker that the line lives on.
    pub const fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// The end that the line came from.
    pub const fn near(&self) -> &End {
        &self.near
    }

    /// Limits the whole life of the line: the supervisor keeps the time, and a little later the line
    /// itself does.
    pub fn limit(&mut self, kind: DeadlineKind, deadline: Instant) {
        self.watch(kind, deadline);
        self.own_limit = Some(deadline + OWN_LIMIT);
    }

    /// Asks the supervisor for a deadline; a watched one is replaced.
    pub fn watch(&mut self, kind: DeadlineKind, deadline: Instant) {
        self.deadline.generation += 1;
        self.deadline.watched = Some((kind, deadline));
        self.watch_again();
    }

    /// Tells the supervisor of the watched deadline once more, after it was started again.
    pub fn watch_again(&self) {
        if let Some((kind, deadline)) = self.deadline.watched {
            let generation = self.deadline.generation;
            let id = self.view.id;
            self.worker.reporter.report(Report::Watch(Watch { id, generation, kind, deadline }));
        }
    }

    fn unwatch(&mut self) {
        if self.deadline.watched.take().is_some() {
            let Deadline { generation, .. } = self.deadline;
            let id = self.view.id;
            self.worker.reporter.report(Report::Unwatch(Unwatch { id, generation }));
        }
    }

    /// The supervisor says that a deadline is over; ignored unless it is the current one.
    pub fn expired(&mut self, generation: u32) {
        if generation == self.deadline.generation && self.deadline.watched.take().is_some() {
            match &mut self.far {
                End::Race(race) => race.late(),
                _ => {
                    self.over.get_or_insert(FinishReason::Timeout);
                }
            }
        }
    }

    /// Ends the line from outside (L04); what is queued is delivered first (T05), but for a drain,
    /// whose time is over.
    pub fn finish(&mut self, reason: FinishReason) {
        if reason == FinishReason::Drain {
            self.over.get_or_insert(reason);
        }
        self.discards = true;
        self.ends.finish(reason);
    }

    /// Moves what can be moved. `Ready` once the line is over.
    pub fn turn(&mut self, cx: &mut Context<'_>) -> Poll<FinishReason> {
        let now = timers::now();
        if self.timer.is_some_and(|(_, at)| at <= now) {
            self.disarm();
        }
        self.begun = false;
        self.near.begin_turn(cx, now);
        self.far.begin_turn(cx, now);
        if matches!(self.far, End::Dialing(_)) && self.over.is_none() {
            // What the client sent at once leaves with the end of the handshake.
            if self.drive(Direction::Upstream, cx).moved {
                self.moved(now);
            }
        }
        self.dial(cx, now);
        self.race(now);
        if self.stages.next_wake().is_some_and(|at| at <= now) {
            let round_trip = || self.near.round_trip();
            let given = self.stages.timeout(now, &round_trip, &self.worker.pool);
            self.absorb(given);
        }
        let mut rounds = ROUNDS;
        while self.over.is_none() && self.round(cx, now) {
            rounds -= 1;
            if rounds == 0 {
                self.worker.metrics.budget_exhausted();
                cx.waker().wake_by_ref();
                break;
            }
        }
        if self.begun && !self.far.is_up() {
            // A stage began it in this turn: nobody polled it, so nobody would wake the line.
            cx.waker().wake_by_ref();
        }
        self.look(now);
        self.judge(now);
        self.publish();
        if let Some(reason) = self.over
            && !self.still_discards(cx, now)
        {
            return Poll::Ready(self.reason_of_parent(reason));
        }
        self.arm(cx, now);
        Poll::Pending
    }

    /// Reports the end of the line, once. The actor calls it with the reason of the turn.
    pub fn close(&mut self, reason: FinishReason) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        self.over = Some(reason);
        self.unwatch();
        self.disarm();
        for direction in Direction::ALL {
            self.flows[direction as usize].queue.clear(&self.worker.pool);
        }
        for end in [&mut self.near, &mut self.far] {
            match end {
                End::Dialing(dialing) => dialing.given_up(reason),
                End::Race(race) => race.given_up(reason),
                End::Stream(stream) => stream.given_up(reason),
                _ => {}
            }
        }
        if let Some(mut winner) = self.winner.take() {
            winner.set_reason(reason);
        }
        self.publish();
        self.worker.closed(&self.chain, &self.view, reason);
    }

    fn dial(&mut self, cx: &mut Context<'_>, now: Instant) {
        let End::Dialing(dialing) = &mut self.far else {
            return;
        };
        let early = &mut self.flows[Direction::Upstream as usize].queue;
        match dialing.poll(cx, now, early, &self.worker) {
            Poll::Ready(Ok(socket)) => {
                self.far = End::Socket(socket);
                if self.near.is_mux() {
                    self.far.become_parent();
                }
                self.disarm();
                if matches!(self.deadline.watched, Some((DeadlineKind::Connect, _))) {
                    self.unwatch();
                }
                self.established();
            }
            Poll::Ready(Err(reason)) => {
                self.over.get_or_insert(reason);
            }
            Poll::Pending if self.deadline.watched.is_none() => {
                let deadline = dialing.deadline();
                self.watch(DeadlineKind::Connect, deadline);
            }
            Poll::Pending => {}
        }
    }

    fn established(&mut self) {
        self.tell_est();
        self.view.set_state(LineState::Open);
    }

    /// `Est` towards the near end, once (C07).
    fn tell_est(&mut self) {
        if !std::mem::replace(&mut self.est_told, true) {
            self.near.established();
        }
    }

    /// Where bytes of this direction come from.
    const fn source(&mut self, direction: Direction) -> &mut End {
        match direction {
            Direction::Upstream => &mut self.near,
            Direction::Downstream => &mut self.far,
        }
    }

    /// Where they go to.
    const fn sink(&mut self, direction: Direction) -> &mut End {
        self.source(direction.reverse())
    }

    fn round(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        // What a client's parent hears may be answered in this very round.
        let order = if self.near.is_mux() {
            [Direction::Downstream, Direction::Upstream]
        } else {
            Direction::ALL
        };
        let mut round = Round::default();
        for direction in order {
            let driven = self.drive(direction, cx);
            round.moved |= driven.moved;
            round.more |= driven.more;
        }
        if round.moved {
            self.moved(now);
        }
        round.more
    }

    fn moved(&mut self, now: Instant) {
        if self.idle.moved(now) {
            // It is set for the initial idle time, which is over, and would wake every line once.
            self.disarm();
        }
    }

    /// One round in one direction.
    fn drive(&mut self, direction: Direction, cx: &mut Context<'_>) -> Round {
        let stood = self.flows[direction as usize].paused.paused();
        let mut wrote = self.write(direction, cx);
        let mut read = self.read(direction, cx);
        let mut more = false;
        if read {
            wrote |= self.write(direction, cx);
            if self.moves_through() && self.flows[direction as usize].queue.is_empty() {
                // There is rarely more; and whoever is to be woken by more has to have asked.
                more = self.read(direction, cx);
                read |= more;
            } else {
                more = true;
            }
        }
        self.mind_the_water(direction);
        self.pass_end(direction, cx);
        let flow = &self.flows[direction as usize];
        more |= wrote && (!flow.queue.is_empty() || !self.moves_through());
        more |= stood && !flow.paused.paused();
        Round { moved: wrote || read, more }
    }

    /// True when bytes only pass through: what moves in one direction makes nothing for the other.
    fn moves_through(&self) -> bool {
        let passes = |end: &End| matches!(end, End::Socket(_) | End::Stream(_));
        let mux = |end: &End| end.is_mux();
        self.stages.is_empty()
            && ((passes(&self.near) && (passes(&self.far) || mux(&self.far)))
                || (mux(&self.near) && passes(&self.far)))
    }

    fn write(&mut self, direction: Direction, cx: &mut Context<'_>) -> bool {
        let flow = &mut self.flows[direction as usize];
        if flow.queue.is_empty() {
            return false;
        }
        let sink = match direction {
            Direction::Upstream => &mut self.far,
            Direction::Downstream => &mut self.near,
        };
        if !sink.takes() || !self.ends.delivers(direction) {
            return false;
        }
        match sink.poll_write(cx, &mut flow.queue, &self.worker.pool) {
            Poll::Ready(Ok(written)) => written > 0,
            Poll::Ready(Err(EndError::Broken(error))) => {
                tracing::trace!(line = %self.view.id, ?direction, %error, "write failed");
                flow.queue.clear(&self.worker.pool);
                self.ends.sink_broke(direction);
                self.discards |= direction == Direction::Upstream;
                self.source(direction).other_end_broke();
                false
            }
            Poll::Ready(Err(EndError::Finish(reason))) => {
                self.over.get_or_insert(reason);
                false
            }
            Poll::Pending => false,
        }
    }

    fn read(&mut self, direction: Direction, cx: &mut Context<'_>) -> bool {
        let flow = &mut self.flows[direction as usize];
        if flow.paused.paused() || !self.ends.reads(direction) {
            return false;
        }
        let source = match direction {
            Direction::Upstream => &mut self.near,
            Direction::Downstream => &mut self.far,
        };
        let pool = &self.worker.pool;
        let untouched = self.stages.is_empty();
        let mut staged = ByteQueue::default();
        let into = if untouched { &mut flow.queue } else { &mut staged };
        match source.poll_read(cx, into, pool) {
            Poll::Ready(Ok(0)) => {
                self.ends.input_ended(direction);
                if untouched {
                    return false;
                }
                let given = self.stages.input_ended(direction, pool);
                let more = !given.upstream.is_empty() || !given.downstream.is_empty();
                self.absorb(given);
                more
            }
            Poll::Ready(Ok(read)) => {
                flow.bytes += read as u64;
                if !untouched {
                    let given = self.stages.payload(direction, &mut staged, pool);
                    self.absorb(given);
                }
                true
            }
            Poll::Ready(Err(EndError::Broken(error))) => {
                tracing::trace!(line = %self.view.id, ?direction, %error, "read failed");
                self.source_broke(direction);
                false
            }
            Poll::Ready(Err(EndError::Finish(reason))) => {
                self.over.get_or_insert(reason);
                false
            }
            Poll::Pending => false,
        }
    }

    fn absorb(&mut self, mut given: Given) {
        given.upstream.move_to(&mut self.flows[Direction::Upstream as usize].queue);
        given.downstream.move_to(&mut self.flows[Direction::Downstream as usize].queue);
        if given.init_next && matches!(self.far, End::Waiting) {
            self.far = self.onward.begin_far(&self.worker);
            self.begun = true;
            if self.far.is_up() {
                self.established();
            }
        }
        if given.established {
            self.tell_est();
        }
        if let Some(reason) = given.finish {
            self.ends.finish(reason);
        }
    }

    fn pass_end(&mut self, direction: Direction, cx: &mut Context<'_>) {
        let queued = self.flows[direction as usize].queue.len();
        if self.sink(direction).is_homeless_mux() {
            return;
        }
        if self.sink(direction).is_mux() && self.ends.has_ended(direction) {
            // What makes no whole frame is lost (M20).
            self.flows[direction as usize].queue.clear(&self.worker.pool);
        } else if !self.ends.end_is_due(direction, queued) || !self.sink(direction).is_up() {
            return;
        }
        if self.near.is_mux() || self.far.is_mux() {
            // A mux can not carry half of a parent.
            self.ends.finish(FinishReason::PeerFinished);
        }
        if self.ends.is_last(direction) && self.sink(direction).ends_by_close() {
            // Closing the socket, which comes next, says the same.
            self.ends.passed(direction);
            return;
        }
        match self.sink(direction).poll_end(cx) {
            Poll::Ready(Ok(())) => self.ends.passed(direction),
            Poll::Ready(Err(_)) => self.ends.sink_broke(direction),
            Poll::Pending => {}
        }
    }

    /// Tells others what moved, once for each turn.
    fn publish(&mut self) {
        for direction in Direction::ALL {
            let flow = &mut self.flows[direction as usize];
            if flow.bytes != flow.told_bytes {
                self.chain.entry.metrics.payload(direction, flow.bytes - flow.told_bytes);
                self.view.set_bytes(direction, flow.bytes);
                flow.told_bytes = flow.bytes;
            }
            let queued = flow.queue.len();
            if queued != flow.told_queued {
                let metrics = &self.chain.entry.metrics;
                match queued.checked_sub(flow.told_queued) {
                    Some(more) => metrics.queued_add(more as u64),
                    None => metrics.queued_sub((flow.told_queued - queued) as u64),
                }
                self.view.set_queued(direction, queued as u64);
                flow.told_queued = queued;
            }
            self.view.set_paused(direction, flow.paused);
            if let Some(winner) = &self.winner {
                winner.view().set_bytes(direction, flow.bytes);
                winner.view().set_queued(direction, queued as u64);
                winner.view().set_state(self.view.state());
            }
        }
    }

    /// Sets the one timer of the line. It is left where it is when it fires early enough: an idle
    /// time that moves with every payload costs nothing.
    fn arm(&mut self, cx: &mut Context<'_>, now: Instant) {
        let idles = self.over.is_none() && !matches!(self.far, End::Race(_));
        let idle = if idles { self.idle.deadline() } else { None };
        let own = [self.own_limit, self.linger_until, self.discard_until, self.look_at];
        let wanted = own.into_iter().chain([
            self.near.next_wake(),
            self.far.next_wake(),
            idle,
            self.stages.next_wake(),
        ]);
        let Some(wanted) = wanted.flatten().min() else {
            return;
        };
        if self.timer.is_some_and(|(_, at)| at <= wanted) {
            return;
        }
        self.disarm();
        // Never in this very turn: a time that has passed is looked at in the next one.
        let at = wanted.max(now);
        self.timer = Some((self.worker.timers.set(at, cx.waker()), at));
    }

    fn disarm(&mut self) {
        if let Some((key, _)) = self.timer.take() {
            self.worker.timers.cancel(key);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Dropped before its end: its actor panicked.
        self.close(FinishReason::Panic);
    }
}
