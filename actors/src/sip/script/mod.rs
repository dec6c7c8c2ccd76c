//! The script of a `SipRouter`: Lua 5.4 with the functions that SIP people know as KEMI.
//!
//! One Lua state a worker and generation; each invocation is a coroutine with a [`Context`] of its
//! own. The engine does no I/O: an invocation runs until it is over or wants something that takes
//! time ([`Want`]), and is resumed with the result.

mod call;
mod debug;
mod engine;
mod fault;
pub mod function;
pub mod kemi;
mod limits;
mod pattern;
mod prelude;
mod strings;
pub mod tm;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lineway_wire::sip::draft::Draft;

use super::back::Way;
use super::shared::ScriptEnv;
use tm::{Tm, TmWant};

pub use engine::{Script, Suspended};

/// A script as the configuration has it: read once, compiled on each worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file, for messages; `(built-in)` for the built-in one.
    pub name: Arc<str>,
    /// Its text. Bytes, since a Lua string may hold any.
    pub text: Arc<[u8]>,
}

/// A script error, with file and line where Lua says them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct ScriptError {
    /// The file.
    pub file: Arc<str>,
    /// The line; 0 where it is not known.
    pub line: u32,
    /// What went wrong, without file and line.
    pub message: String,
    /// What sort of error it is: the `reason` label.
    pub kind: ScriptFault,
}

/// The sort of a script error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScriptFault {
    /// The text is no Lua.
    Syntax,
    /// It failed while running.
    Runtime,
    /// Past `script-time-limit-ms`.
    Time,
    /// Past `script-memory-bytes`.
    Memory,
}

impl ScriptFault {
    /// Every sort, in the order of the metrics.
    pub const ALL: [Self; 4] = [Self::Syntax, Self::Runtime, Self::Time, Self::Memory];

    /// The word used as metric label and log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::Runtime => "runtime",
            Self::Time => "time",
            Self::Memory => "memory",
        }
    }
}

/// Limits of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptLimits {
    /// CPU time of one invocation, suspensions left out.
    pub time: std::time::Duration,
    /// Memory of one state.
    pub memory: usize,
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// `ksr_request_route`.
    Request,
    /// `ksr_reply_route`; without it in the script the reply passes.
    Reply,
    /// A function that was armed by name.
    Named(&'a str),
}

/// What one invocation works on, and what it has done.
pub struct Context {
    /// The message.
    pub draft: Draft,
    /// What the worker gives.
    pub env: Rc<ScriptEnv>,
    /// The time that this step runs at.
    pub now: Instant,
    /// What is to be done, in order, when the step is over.
    pub effects: Vec<Effect>,
    /// A final reply went out (no 500 after a script error then).
    pub answered: bool,
    /// What `KSR.drop()` marks: unless it fails, the invocation ends as dropped.
    pub dropped: bool,
    /// The reply was sent on by the script itself (`sl_forward_reply`).
    pub forwarded: bool,
    /// Variables of the script.
    pub vars: kemi::Vars,
    /// What it knows of its transaction and decides about it.
    pub tm: Box<Tm>,
    /// CPU time that it has run for, with the step that ended last.
    pub ran: Duration,
}

impl Context {
    /// The context of a message that came in.
    pub fn new(draft: Draft, env: Rc<ScriptEnv>, now: Instant) -> Self {
        Self {
            draft,
            env,
            now,
            effects: Vec::new(),
            answered: false,
            dropped: false,
            forwarded: false,
            vars: kemi::Vars::new(),
            tm: Box::default(),
            ran: Duration::ZERO,
        }
    }
}

/// What a step of an invocation leaves to be done at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send these bytes: a reply that was made here.
    Send {
        /// Where.
        way: Way,
        /// What.
        bytes: Bytes,
        /// Its status.
        code: u16,
    },
    /// The transaction of the message sends this reply, with the lines that `append_to_reply` had
    /// when it was asked for.
    Reply {
        /// Its status.
        code: u16,
        /// The reason phrase.
        reason: Bytes,
        /// Whole header lines.
        lines: Vec<Bytes>,
    },
}

/// What a suspended invocation waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// `forward()`, `forward_uri(uri)`: send the draft on without state. Resumed with 1 or what
    /// failed, negative; the draft's `failure` says what for `sl_reply_error`.
    Forward {
        /// The explicit destination.
        uri: Option<Bytes>,
    },
    /// `sl_forward_reply(code, reason)`: the reply goes on with another first line where given.
    ForwardReply {
        /// The status, where it changes.
        code: Option<u16>,
        /// The reason phrase, where it changes.
        reason: Option<Bytes>,
    },
    /// Something of transactions.
    Tm(TmWant),
}

/// How an invocation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It returned, or called `exit`.
    Normal,
    /// It called `drop`.
    Dropped,
    /// It failed.
    Failed(ScriptError),
}

/// What an invocation came to.
pub enum Step {
    /// It is over.
    Ended(Context, End),
    /// It waits.
    Suspended(Suspended, Want),
}

#[cfg(test)]
mod tests;
