//! Stages: what a node does to a line in place, inside the line's own actor.

use std::time::{Duration, Instant};

use lineway_wire::line::{Direction, FinishReason};

use super::pool::Pool;
use lineway_wire::queue::ByteQueue;

/// What a node in the middle of a chain does to the bytes of a line, in the line's own turn.
///
/// Stages stand in the order of the chain. Upstream bytes pass them from first to last, downstream
/// bytes from last to first. A stage that is [`done`](Self::done) is taken out for good: nothing
/// of it remains on the line (S07).
pub trait Stage {
    /// The line begins for this stage (`Init`): it is the first, or the one before it said so.
    /// Called again whenever that one says it again.
    fn begins(&mut self) {}

    /// Bytes came from the side that `direction` comes from. What goes on is put into `out`; what
    /// stays in `input` comes again with the next bytes, in front of them.
    fn payload(&mut self, direction: Direction, input: &mut ByteQueue, out: &mut StageOut<'_>);

    /// The input of this direction ended (L07): no more payload of it follows.
    fn input_ended(&mut self, _direction: Direction, _out: &mut StageOut<'_>) {}

    /// When the stage wants [`Self::timeout`], if at all.
    fn next_wake(&self) -> Option<Instant> {
        None
    }

    /// The time that [`Self::next_wake`] named has come.
    /// `round_trip` asks what the transport towards the client has measured.
    fn timeout(
        &mut self,
        _now: Instant,
        _round_trip: &dyn Fn() -> Option<Duration>,
        _out: &mut StageOut<'_>,
    ) {
    }

    /// True once the stage has nothing to do any more.
    fn done(&self) -> bool {
        false
    }
}

/// What a stage gives.
#[derive(Debug, Default)]
pub struct Given {
    /// Bytes towards `next`.
    pub upstream: ByteQueue,
    /// Bytes towards the previous node.
    pub downstream: ByteQueue,
    /// The stage wants the onward side to begin (`Init`).
    pub init_next: bool,
    /// The stage stands as the far side for whoever waits for `Est` (S05).
    pub established: bool,
    /// The stage ends the line.
    pub finish: Option<FinishReason>,
}

/// Where a stage puts what it gives.
#[derive(Debug)]
pub struct StageOut<'a> {
    given: &'a mut Given,
    pool: &'a Pool,
}

impl<'a> StageOut<'a> {
    /// A place for what one call gives.
    pub const fn new(given: &'a mut Given, pool: &'a Pool) -> Self {
        Self { given, pool }
    }

    /// The worker's buffers.
    pub const fn pool(&self) -> &'a Pool {
        self.pool
    }

    /// Copies a few bytes that go on in this direction.
    pub fn append(&mut self, direction: Direction, bytes: &[u8]) {
        let pool = self.pool;
        self.towards(direction).append(bytes, pool);
    }

    /// Says `Est` towards the previous node; harmless when it was said.
    pub const fn established(&mut self) {
        self.given.established = true;
    }

    /// Bytes that go on in this direction.
    pub fn towards(&mut self, direction: Direction) -> &mut ByteQueue {
        match direction {
            Direction::Upstream => &mut self.given.upstream,
            Direction::Downstream => &mut self.given.downstream,
        }
    }

    /// Begins the onward side (`Init` towards `next`), be it another stage; harmless when it has
    /// begun.
    pub fn init_next(&mut self) {
        self.given.init_next = true;
    }

    /// Ends the line (L04). The first reason stays.
    pub fn finish(&mut self, reason: FinishReason) {
        self.given.finish.get_or_insert(reason);
    }
}

/// The stages of one line, with what each of them keeps of its input.
#[derive(Default)]
pub struct Stages {
    places: Vec<Place>,
}

struct Place {
    stage: Box<dyn Stage>,
    kept: [ByteQueue; 2],
}

impl Place {
    /// What a stage kept goes on untouched once it is done, behind what it gave.
    fn let_go(&mut self, given: &mut Given) {
        if self.stage.done() {
            self.kept[Direction::Upstream as usize].move_to(&mut given.upstream);
            self.kept[Direction::Downstream as usize].move_to(&mut given.downstream);
        }
    }
}

impl Stages {
    /// Stages in the order of the chain.
    pub fn new(mut stages: Vec<Box<dyn Stage>>) -> Self {
        if let Some(first) = stages.first_mut() {
            first.begins();
        }
        let place = |stage| Place { stage, kept: Default::default() };
        Self { places: stages.into_iter().map(place).collect() }
    }

    /// True when bytes pass untouched.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes that the stages keep, of both directions.
    pub fn held(&self) -> usize {
        self.places.iter().flat_map(|place| &place.kept).map(ByteQueue::len).sum()
    }

    /// How many stages there are.
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Puts stages behind the last, with what they keep.
    pub fn append(&mut self, mut more: Self) {
        self.places.append(&mut more.places);
    }

    /// Bytes came in at the side that `direction` comes from; gives what comes out at both sides.
    pub fn payload(&mut self, direction: Direction, input: &mut ByteQueue, pool: &Pool) -> Given {
        self.payload_from(direction, self.first(direction), input, pool)
    }

    /// Bytes came in before the stage at this place; `None` = behind the last of this direction.
    pub fn payload_from(
        &mut self,
        direction: Direction,
        from: Option<usize>,
        input: &mut ByteQueue,
        pool: &Pool,
    ) -> Given {
        let mut given = Given::default();
        self.pass(direction, from, input, &mut given, pool);
        self.places.retain(|place| !place.stage.done());
        given
    }

    /// The input of this direction ended.
    pub fn input_ended(&mut self, direction: Direction, pool: &Pool) -> Given {
        self.input_ended_from(direction, self.first(direction), pool)
    }

    /// The input of this direction ended before the stage at this place.
    pub fn input_ended_from(
        &mut self,
        direction: Direction,
        from: Option<usize>,
        pool: &Pool,
    ) -> Given {
        self.each(direction, from, pool, |stage, out| stage.input_ended(direction, out))
    }

    /// The earliest time that a stage wants.
    pub fn next_wake(&self) -> Option<Instant> {
        self.places.iter().filter_map(|place| place.stage.next_wake()).min()
    }

    /// Wakes the stages whose time has come.
    pub fn timeout(
        &mut self,
        now: Instant,
        round_trip: &dyn Fn() -> Option<Duration>,
        pool: &Pool,
    ) -> Given {
        let first = self.first(Direction::Upstream);
        self.each(Direction::Upstream, first, pool, |stage, out| {
            if stage.next_wake().is_some_and(|at| now >= at) {
                stage.timeout(now, round_trip, out);
            }
        })
    }

    fn first(&self, direction: Direction) -> Option<usize> {
        match direction {
            Direction::Upstream => (!self.places.is_empty()).then_some(0),
            Direction::Downstream => self.places.len().checked_sub(1),
        }
    }

    fn after(&self, direction: Direction, at: usize) -> Option<usize> {
        match direction {
            Direction::Upstream => Some(at + 1).filter(|next| *next < self.places.len()),
            Direction::Downstream => at.checked_sub(1),
        }
    }

    /// Hands bytes to the stage at `at`, and what it gives to its neighbours, until all of it came
    /// out or is kept. Each stage is called with new bytes alone, so this ends.
    fn pass(
        &mut self,
        direction: Direction,
        at: Option<usize>,
        input: &mut ByteQueue,
        total: &mut Given,
        pool: &Pool,
    ) {
        let Some(at) = at else {
            let out = match direction {
                Direction::Upstream => &mut total.upstream,
                Direction::Downstream => &mut total.downstream,
            };
            input.move_to(out);
            return;
        };
        let place = &mut self.places[at];
        let mut given = Given::default();
        if place.stage.done() {
            // Done in this very call, and still in its place: it is passed by.
            input.move_to(StageOut::new(&mut given, pool).towards(direction));
            return self.spread(at, given, total, pool);
        }
        let mut whole = std::mem::take(&mut place.kept[direction as usize]);
        input.move_to(&mut whole);
        place.stage.payload(direction, &mut whole, &mut StageOut::new(&mut given, pool));
        place.kept[direction as usize] = whole;
        place.let_go(&mut given);
        self.spread(at, given, total, pool);
    }

    fn spread(&mut self, at: usize, mut given: Given, total: &mut Given, pool: &Pool) {
        if given.init_next {
            // Before the payload that it comes with (L01).
            match self.places[at + 1..].iter_mut().find(|place| !place.stage.done()) {
                Some(next) => next.stage.begins(),
                None => total.init_next = true,
            }
        }
        total.established |= given.established;
        if let Some(reason) = given.finish {
            total.finish.get_or_insert(reason);
        }
        for (direction, queue) in [
            (Direction::Downstream, &mut given.downstream),
            (Direction::Upstream, &mut given.upstream),
        ] {
            if !queue.is_empty() {
                let next = self.after(direction, at);
                self.pass(direction, next, queue, total, pool);
            }
        }
    }

    /// Calls every stage from one place on, in the order in which bytes of this direction pass them.
    fn each(
        &mut self,
        direction: Direction,
        from: Option<usize>,
        pool: &Pool,
        mut call: impl FnMut(&mut dyn Stage, &mut StageOut<'_>),
    ) -> Given {
        let mut total = Given::default();
        let mut next = from;
        while let Some(at) = next {
            next = self.after(direction, at);
            let mut given = Given::default();
            let place = &mut self.places[at];
            if place.stage.done() {
                continue;
            }
            call(&mut *place.stage, &mut StageOut::new(&mut given, pool));
            place.let_go(&mut given);
            self.spread(at, given, &mut total, pool);
        }
        self.places.retain(|place| !place.stage.done());
        total
    }
}

impl std::fmt::Debug for Stages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stages").field("stages", &self.places.len()).finish_non_exhaustive()
    }
}
