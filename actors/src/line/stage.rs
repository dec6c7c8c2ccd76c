//! Stages: what a node does to a line in place, inside the line's own actor.

use std::time::Instant;

use lineway_wire::line::{Direction, FinishReason};

use super::queue::ByteQueue;

/// What a node in the middle of a chain does to the bytes of a line, in the line's own turn.
///
/// Stages stand in the order of the chain. Upstream bytes pass them from first to last, downstream
/// bytes from last to first. A stage that is [`done`](Self::done) is taken out for good: nothing
/// of it remains on the line (S07).
pub trait Stage {
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
    fn timeout(&mut self, _now: Instant, _out: &mut StageOut<'_>) {}

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
    /// The stage ends the line.
    pub finish: Option<FinishReason>,
}

/// Where a stage puts what it gives.
#[derive(Debug)]
pub struct StageOut<'a>(&'a mut Given);

impl<'a> StageOut<'a> {
    /// A place for what one call gives.
    pub fn new(given: &'a mut Given) -> Self {
        Self(given)
    }

    /// Bytes that go on in this direction.
    pub fn towards(&mut self, direction: Direction) -> &mut ByteQueue {
        match direction {
            Direction::Upstream => &mut self.0.upstream,
            Direction::Downstream => &mut self.0.downstream,
        }
    }

    /// Begins the onward side (`Init` towards `next`); harmless when it has begun.
    pub fn init_next(&mut self) {
        self.0.init_next = true;
    }

    /// Ends the line (L04). The first reason stays.
    pub fn finish(&mut self, reason: FinishReason) {
        self.0.finish.get_or_insert(reason);
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
    pub fn new(stages: Vec<Box<dyn Stage>>) -> Self {
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

    /// Bytes came in at the side that `direction` comes from; gives what comes out at both sides.
    pub fn payload(&mut self, direction: Direction, input: &mut ByteQueue) -> Given {
        let mut given = Given::default();
        let from = self.first(direction);
        self.pass(direction, from, input, &mut given);
        self.places.retain(|place| !place.stage.done());
        given
    }

    /// The input of this direction ended.
    pub fn input_ended(&mut self, direction: Direction) -> Given {
        self.each(direction, |stage, out| stage.input_ended(direction, out))
    }

    /// The earliest time that a stage wants.
    pub fn next_wake(&self) -> Option<Instant> {
        self.places.iter().filter_map(|place| place.stage.next_wake()).min()
    }

    /// Wakes the stages whose time has come.
    pub fn timeout(&mut self, now: Instant) -> Given {
        self.each(Direction::Upstream, |stage, out| {
            if stage.next_wake().is_some_and(|at| now >= at) {
                stage.timeout(now, out);
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
            input.move_to(StageOut::new(&mut given).towards(direction));
            return self.spread(at, given, total);
        }
        let mut whole = std::mem::take(&mut place.kept[direction as usize]);
        input.move_to(&mut whole);
        place.stage.payload(direction, &mut whole, &mut StageOut::new(&mut given));
        place.kept[direction as usize] = whole;
        place.let_go(&mut given);
        self.spread(at, given, total);
    }

    fn spread(&mut self, at: usize, mut given: Given, total: &mut Given) {
        total.init_next |= given.init_next;
        if let Some(reason) = given.finish {
            total.finish.get_or_insert(reason);
        }
        for (direction, queue) in [
            (Direction::Downstream, &mut given.downstream),
            (Direction::Upstream, &mut given.upstream),
        ] {
            if !queue.is_empty() {
                let next = self.after(direction, at);
                self.pass(direction, next, queue, total);
            }
        }
    }

    /// Calls every stage, in the order in which bytes of this direction pass them.
    fn each(
        &mut self,
        direction: Direction,
        mut call: impl FnMut(&mut dyn Stage, &mut StageOut<'_>),
    ) -> Given {
        let mut total = Given::default();
        let mut next = self.first(direction);
        while let Some(at) = next {
            next = self.after(direction, at);
            let mut given = Given::default();
            let place = &mut self.places[at];
            if place.stage.done() {
                continue;
            }
            call(&mut *place.stage, &mut StageOut::new(&mut given));
            place.let_go(&mut given);
            self.spread(at, given, &mut total);
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
