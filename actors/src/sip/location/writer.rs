//! The thread that brings changes into the file.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::file::File;
use super::memory::{Key, Memory};

/// How long changes gather before they are written together. A crash loses these, and those that
/// came during a commit: the last second.
const GATHER: Duration = Duration::from_millis(500);

/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Addresses that may wait beyond those that are there; above, all is written anew. Only a disk that
/// does not take anything brings it so far.
const MOST_GONE: usize = 65_536;

/// The way to the thread; dropping it writes what is left and closes the file.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Arc<Queue>,
    memory: Arc<Memory>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// There is something to do.
    wake: Condvar,
    /// A flush is over.
    written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Addresses that are not in the file as they are.
    dirty: HashSet<Key>,
    /// No address is.
    all: bool,
    /// Flushes that were asked for, and those that are over.
    asked: u64,
    done: u64,
    /// What was taken is being written.
    storing: bool,
    closing: bool,
}

impl State {
    fn is_idle(&self) -> bool {
        self.dirty.is_empty() && !self.all && self.asked == self.done && !self.closing
    }

    fn may_gather(&self) -> bool {
        self.asked == self.done && !self.closing
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    /// Starts the thread; it calls `ended` when the file is closed.
    pub(super) fn start(
        file: File,
        memory: &Arc<Memory>,
        ended: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let (for_thread, bindings) = (Arc::clone(&queue), Arc::clone(memory));
        let run = move || {
            run(&for_thread, &bindings, &file);
            drop(file);
            ended();
        };
        let thread = std::thread::Builder::new().name("sip-location".into()).spawn(run)?;
        Ok(Self { queue, memory: Arc::clone(memory), thread: Some(thread) })
    }

    /// These addresses changed.
    pub(super) fn changed(&self, keys: impl IntoIterator<Item = Key>) {
        let mut state = self.queue.lock();
        let was_idle = state.is_idle();
        if !state.all {
            state.dirty.extend(keys);
            if state.dirty.len() > self.memory.bindings() + MOST_GONE {
                state.all = true;
                state.dirty = HashSet::new();
            }
        }
        if was_idle && !state.is_idle() {
            self.queue.wake.notify_one();
        }
    }

    /// Waits until all of it is in the file; false where it is not in time.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let mut state = self.queue.lock();
        state.asked += 1;
        let mine = state.asked;
        self.queue.wake.notify_one();
        let waiting = |state: &mut State| state.done < mine;
        let written = self.queue.written.wait_timeout_while(state, limit, waiting);
        let (state, _) = written.unwrap_or_else(PoisonError::into_inner);
        state.done >= mine
    }
}

#[cfg(test)]
impl Writer {
    /// Everything is in the file.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.queue.lock();
        state.is_idle() && !state.storing
    }

    /// How many addresses wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.lock().dirty.len()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.lock().closing = true;
        self.queue.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // It has said what went wrong.
            let _ = thread.join();
        }
    }
}

fn run(queue: &Queue, memory: &Memory, file: &File) {
    let mut fails = false;
    loop {
        let state = queue.lock();
        let idle = queue.wake.wait_while(state, |state| state.is_idle());
        let state = idle.unwrap_or_else(PoisonError::into_inner);
        let pause = if fails { RETRY } else { GATHER };
        let may_gather = |state: &mut State| {
            if fails { !state.closing } else { state.may_gather() }
        };
        let gathered = queue.wake.wait_timeout_while(state, pause, may_gather);
        let (mut state, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        let (dirty, all) = (std::mem::take(&mut state.dirty), std::mem::take(&mut state.all));
        let (asked, closing) = (state.asked, state.closing);
        state.storing = true;
        drop(state);

        let stored = if all {
            file.store_all(memory)
        } else if dirty.is_empty() {
            Ok(())
        } else {
            file.store(memory, &dirty)
        };
        let path = file.path.display();
        match &stored {
            Ok(()) if fails => tracing::info!(%path, "the file of bindings is written again"),
            Err(error) if closing => {
                tracing::error!(%path, %error, "the last changes of bindings are lost");
            }
            Err(error) if !fails => {
                tracing::error!(%path, %error, "bindings can not be written, they stay in memory");
            }
            Ok(()) | Err(_) => {}
        }
        fails = stored.is_err();
        let mut state = queue.lock();
        state.storing = false;
        if stored.is_ok() {
            state.done = state.done.max(asked);
            queue.written.notify_all();
        } else {
            state.all |= all;
            state.dirty.extend(dirty);
        }
        if closing {
            return;
        }
    }
}
