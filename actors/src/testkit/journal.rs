//! The log of a run, to be looked at and compared.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

type Clock = dyn Fn() -> Duration + Send + Sync;

/// What was logged at DEBUG and above, one text for each event, with the time since the start.
///
/// Under paused time, or in a simulation, two runs of the same seed give the same journal.
#[derive(Clone)]
pub struct Journal {
    lines: Arc<Mutex<Vec<String>>>,
    clock: Arc<Clock>,
}

impl Default for Journal {
    fn default() -> Self {
        Self::new()
    }
}

impl Journal {
    /// An empty journal in the time of tokio, paused or not.
    pub fn new() -> Self {
        let start = Instant::now();
        Self::with_clock(move || start.elapsed())
    }

    /// An empty journal in the time of a simulation.
    pub fn with_clock(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { lines: Arc::default(), clock: Arc::new(clock) }
    }

    /// Takes the log of this thread, until the guard is dropped.
    pub fn install(&self) -> DefaultGuard {
        INTEREST.get_or_init(|| Dispatch::new(Recorder(Self::with_clock(|| Duration::ZERO))));
        tracing::subscriber::set_default(Recorder(self.clone()))
    }

    /// Adds a line of the test's own.
    pub fn note(&self, text: impl fmt::Display) {
        let at = (self.clock)();
        let line = format!("{:>12.6} {text}", at.as_secs_f64());
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    /// Every line, in order.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many lines have this text in them.
    pub fn count(&self, text: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(text)).count()
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").finish_non_exhaustive()
    }
}

/// A subscriber of no thread. While a process has a single one, an event that another thread is
/// the first to log is switched off for all of them, and a journal would miss it.
static INTEREST: OnceLock<Dispatch> = OnceLock::new();

/// Writes this crate's events into a journal.
struct Recorder(Journal);

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG && metadata.target().starts_with("lineway")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let level = event.metadata().level();
        self.0.note(format_args!("{level} {}{}", text.message, text.fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let done = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.fields, " {}={value:?}", field.name())
        };
        // Writing into a String does not fail.
        debug_assert!(done.is_ok());
    }
}
