//! What an invocation may use: the time that it runs, the calls that it makes.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Instructions of Lua between two looks at the clock.
pub(super) const INSTRUCTIONS: u32 = 200;
/// Calls of functions between two looks at the clock.
const CALLS: u32 = 16;
/// Bytes of one string that is given to a function: the largest message.
pub(super) const MAX_ARGUMENT: usize = 65_535;
/// Bytes of all strings that one invocation gives to functions.
pub(super) const MAX_ARGUMENTS: usize = 16 << 20;
/// Effects of one step: replies that are made here.
pub(super) const MAX_EFFECTS: usize = 64;
/// Times that one invocation may wait.
pub(super) const MAX_WAITS: u32 = 256;
/// CPU time of the top level of a script, while nothing is handled.
pub(super) const LOAD_TIME: Duration = Duration::from_secs(5);
/// Calls of `gsub` inside of one another: each takes from the thread's stack.
pub(super) const MAX_NESTED: u32 = 16;
/// Bytes of one string that `string.rep` makes, and of a chunk that `load` reads.
pub(super) const MAX_MADE: usize = 1 << 20;

/// What one invocation has used so far; it goes with the invocation while it waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    /// CPU time of the steps before.
    pub(super) time: Duration,
    /// Bytes that were given to functions.
    pub(super) arguments: usize,
    /// Times that it waited.
    pub(super) waits: u32,
}

/// The clock of the running step.
///
/// A short step reads no clock at all: the first look notes where the step stands, and CPU time,
/// which is the dear one, is read only once more time than allowed has gone by.
#[derive(Debug)]
pub(super) struct Clock {
    limit: Cell<Duration>,
    /// Wall and CPU time at the first look of this step.
    first: Cell<Option<(Instant, Duration)>>,
    /// CPU time of the steps before.
    before: Cell<Duration>,
    calls: Cell<u32>,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            limit: Cell::new(LOAD_TIME),
            first: Cell::new(None),
            before: Cell::new(Duration::ZERO),
            calls: Cell::new(0),
        }
    }

    /// A step begins.
    pub(super) fn begin(&self, limit: Duration, before: Duration) {
        self.limit.set(limit);
        self.first.set(None);
        self.before.set(before);
        self.calls.set(0);
    }

    /// A step is over: the CPU time of all of them.
    pub(super) fn end(&self) -> Duration {
        let step =
            self.first.take().map_or(Duration::ZERO, |(_, cpu)| thread_time().saturating_sub(cpu));
        self.before.get() + step
    }

    /// A look: whether the time is used up.
    pub(super) fn is_over(&self) -> bool {
        let Some((wall, cpu)) = self.first.get() else {
            self.first.set(Some((Instant::now(), thread_time())));
            return false;
        };
        let left = self.limit.get().saturating_sub(self.before.get());
        wall.elapsed() > left && thread_time().saturating_sub(cpu) > left
    }

    /// A call of a function: whether the time is used up, looked at for every some.
    pub(super) fn is_over_at_call(&self) -> bool {
        let calls = self.calls.get() + 1;
        self.calls.set(calls % CALLS);
        calls == CALLS && self.is_over()
    }
}

/// The CPU time of this thread.
pub(super) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
