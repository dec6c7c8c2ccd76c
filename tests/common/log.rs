//! What the program writes to standard error.

use std::io::{BufRead as _, BufReader};
use std::process::ChildStderr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use serde_json::Value;

use super::PATIENCE;

/// The lines so far, and those to come.
#[derive(Clone, Default)]
pub struct Log {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    lines: Vec<String>,
    over: bool,
}

/// A text field of an event, empty if there is none.
pub fn text<'a>(event: &'a Value, field: &str) -> &'a str {
    event[field].as_str().unwrap_or_default()
}

impl Log {
    /// Reads to the end in a thread of its own.
    pub(super) fn read(from: Option<ChildStderr>) -> Self {
        let log = Self::default();
        let Some(from) = from else { return log };
        let shared = Arc::clone(&log.shared);
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                shared.state.lock().expect("no panic").lines.push(line);
                shared.news.notify_all();
            }
            shared.state.lock().expect("no panic").over = true;
            shared.news.notify_all();
        });
        log
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.shared.state.lock().expect("no panic").lines.len()
    }

    /// All lines.
    pub fn whole(&self) -> String {
        self.shared.state.lock().expect("no panic").lines.join("\n")
    }

    /// All lines that are JSON.
    pub fn events(&self) -> Vec<Value> {
        let state = self.shared.state.lock().expect("no panic");
        let json = state.lines.iter().map(|line| serde_json::from_str(line));
        json.flatten().collect()
    }

    /// Waits for an event.
    #[track_caller]
    pub fn wait(&self, what: &str, is: impl FnMut(&Value) -> bool) -> Value {
        self.wait_after(0, what, is)
    }

    /// Waits for an event after the first `seen` lines.
    #[track_caller]
    pub fn wait_after(
        &self,
        mut seen: usize,
        what: &str,
        mut is: impl FnMut(&Value) -> bool,
    ) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (lines, over) = {
                let state = self.shared.state.lock().expect("no panic");
                (state.lines[seen..].to_vec(), state.over)
            };
            seen += lines.len();
            let events = lines.iter().filter_map(|line| serde_json::from_str(line).ok());
            for event in events {
                if is(&event) {
                    return event;
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!over && !left.is_zero(), "no event {what:?}:\n{}", self.whole());
            let state = self.shared.state.lock().expect("no panic");
            let quiet = |state: &mut State| state.lines.len() == seen && !state.over;
            drop(self.shared.news.wait_timeout_while(state, left, quiet));
        }
    }

    /// Waits until the program has closed its standard error.
    #[track_caller]
    pub(super) fn wait_for_end(&self) {
        let state = self.shared.state.lock().expect("no panic");
        let news = &self.shared.news;
        let (_state, timeout) =
            news.wait_timeout_while(state, PATIENCE, |state| !state.over).expect("no panic");
        assert!(!timeout.timed_out(), "standard error stays open");
    }
}
