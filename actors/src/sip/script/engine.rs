//! One generation of a script: its Lua state, and the invocations in it.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Instant;

use mlua::chunk::ChunkMode;
use mlua::{Lua, LuaOptions, StdLib, Thread, Value, VmState};

use super::fault::{self, Files};
use super::function::Function;
use super::limits::{Clock, INSTRUCTIONS, LOAD_TIME, MAX_WAITS, Used};
use super::prelude::{prepare, set_hook};
use super::{
    Context, End, Route, ScriptError, ScriptFault, ScriptLimits, Source, Step, Want, kemi,
};

/// Carriers that are kept for the next invocations.
const IDLE: usize = 64;

/// One generation of a script on one worker.
pub struct Script {
    lua: Lua,
    slot: Rc<Slot>,
    limits: ScriptLimits,
    carrier: mlua::Function,
    has_reply: bool,
    idle: RefCell<Vec<Thread>>,
}

/// An invocation that waits. Dropping it ends it.
pub struct Suspended {
    script: Rc<Script>,
    thread: Thread,
    context: Context,
    used: Used,
}

/// What the running step reaches: filled for the time of the step only.
pub(super) struct Slot {
    me: Weak<Self>,
    pub(super) context: RefCell<Option<Context>>,
    pub(super) want: RefCell<Option<Want>>,
    pub(super) over: RefCell<Option<End>>,
    pub(super) used: Cell<Used>,
    /// Functions in Rust that call back, inside of one another.
    pub(super) nested: Cell<u32>,
    /// The coroutine that a hook tried to stop last, by its address.
    stopped: Cell<usize>,
    pub(super) clock: Clock,
    pub(super) files: Files,
}

impl Script {
    /// Compiles the text and runs its top level, as `lineway check` does too.
    ///
    /// # Errors
    /// It is no Lua, its top level fails, or it has no `ksr_request_route`.
    pub fn load(source: &Source, limits: ScriptLimits) -> Result<Rc<Self>, ScriptError> {
        Self::with(source, limits, kemi::functions())
    }

    /// The same with these functions.
    pub(super) fn with(
        source: &Source,
        limits: ScriptLimits,
        functions: impl Iterator<Item = &'static Function>,
    ) -> Result<Rc<Self>, ScriptError> {
        let slot = Rc::new_cyclic(|me| Slot {
            me: me.clone(),
            context: RefCell::new(None),
            want: RefCell::new(None),
            over: RefCell::new(None),
            used: Cell::new(Used::default()),
            nested: Cell::new(0),
            stopped: Cell::new(0),
            clock: Clock::new(),
            files: Files { script: source.name.clone() },
        });
        let fails = |error: mlua::Error| {
            let kind = match error {
                mlua::Error::SyntaxError { .. } => ScriptFault::Syntax,
                _ => ScriptFault::Runtime,
            };
            slot.files.error(&fault::text(&error), kind)
        };
        let libraries = StdLib::COROUTINE
            | StdLib::TABLE
            | StdLib::IO
            | StdLib::OS
            | StdLib::STRING
            | StdLib::UTF8
            | StdLib::MATH
            | StdLib::PACKAGE;
        let lua = Lua::new_with(libraries, LuaOptions::default()).map_err(fails)?;
        let carrier = prepare(&lua, &slot, functions).map_err(fails)?;
        lua.set_memory_limit(limits.memory).map_err(fails)?;
        let name = format!("@{}", source.name);
        let chunk = lua
            .load(&source.text[..])
            .set_name(name)
            .set_mode(ChunkMode::Text)
            .into_function()
            .map_err(fails)?;
        let mut script = Self {
            lua,
            slot: slot.clone(),
            limits,
            carrier,
            has_reply: false,
            idle: RefCell::default(),
        };
        let thread = script.carrier().map_err(fails)?;
        slot.clock.begin(LOAD_TIME, std::time::Duration::ZERO);
        if let Went::Over(End::Failed(error)) = script.run(thread, Value::Function(chunk)) {
            return Err(error);
        }
        if !script.has(Route::Request) {
            let message = "there is no function ksr_request_route".to_owned();
            let file = source.name.clone();
            return Err(ScriptError { file, line: 0, message, kind: ScriptFault::Runtime });
        }
        script.has_reply = script.has(Route::Reply);
        Ok(Rc::new(script))
    }

    /// Whether it has such a route.
    pub fn has(&self, route: Route<'_>) -> bool {
        let name = match route {
            Route::Request => "ksr_request_route",
            Route::Reply => "ksr_reply_route",
            Route::Named(name) => name,
        };
        matches!(self.lua.globals().raw_get(name), Ok(Value::Function(_)))
    }

    /// Starts an invocation. A reply route that the script does not have is over at once; another
    /// route that it does not have is an error.
    pub fn start(self: &Rc<Self>, route: Route<'_>, context: Context) -> Step {
        let what = match route {
            Route::Request => Ok(Value::Integer(1)),
            Route::Reply if self.has_reply => Ok(Value::Integer(2)),
            Route::Reply => return Step::Ended(context, End::Normal),
            Route::Named(name) if self.has(route) => {
                self.lua.create_string(name).map(Value::String)
            }
            Route::Named(name) => {
                let message = format!("there is no function {name}");
                Err(mlua::Error::RuntimeError(message))
            }
        };
        let started = what.and_then(|what| Ok((self.carrier()?, what)));
        match started {
            Ok((thread, what)) => self.step(thread, what, context, Used::default()),
            Err(error) => {
                let error = self.slot.files.error(&fault::text(&error), ScriptFault::Runtime);
                self.recover(&error);
                Step::Ended(context, End::Failed(error))
            }
        }
    }

    /// The state, for tests.
    #[cfg(test)]
    pub(super) const fn state(&self) -> &Lua {
        &self.lua
    }

    /// Memory that the state uses.
    pub fn memory(&self) -> usize {
        self.lua.used_memory()
    }

    fn step(self: &Rc<Self>, thread: Thread, what: Value, context: Context, used: Used) -> Step {
        let slot = &self.slot;
        slot.context.replace(Some(context));
        slot.used.set(used);
        slot.clock.begin(self.limits.time, used.time);
        let went = self.run(thread, what);
        let mut context = slot.context.take().expect("a step leaves its context where it was");
        let mut used = slot.used.get();
        used.time = slot.clock.end();
        context.ran = used.time;
        match went {
            Went::Over(end) => Step::Ended(context, end),
            Went::Waits(thread, want) => {
                used.waits += 1;
                Step::Suspended(Suspended { script: self.clone(), thread, context, used }, want)
            }
        }
    }

    /// Runs a carrier until it is over or waits.
    fn run(&self, thread: Thread, what: Value) -> Went {
        let slot = &self.slot;
        slot.stopped.set(0);
        let resumed = thread.resume::<(Value, Value)>(what);
        let want = slot.want.take();
        let over = slot.over.take();
        let end = match (over, resumed) {
            // A coroutine that failed for good has a hook at each instruction: it is not kept.
            (Some(End::Failed(error)), _) => {
                let hook = set_hook(&self.lua, slot, INSTRUCTIONS);
                End::Failed(match hook {
                    Ok(()) => error,
                    Err(error) => slot.files.error(&fault::text(&error), ScriptFault::Memory),
                })
            }
            (Some(end), resumed) => {
                if resumed.is_ok() {
                    self.keep(thread);
                }
                end
            }
            (None, Ok((Value::Table(_), _))) => match want {
                Some(want) if slot.used.get().waits < MAX_WAITS => {
                    return Went::Waits(thread, want);
                }
                _ => End::Failed(slot.files.error("it waits too often", ScriptFault::Time)),
            },
            (None, Ok((Value::Boolean(false), said))) => {
                self.keep(thread);
                let said = fault::object(&self.lua, &said);
                End::Failed(slot.files.error(&said, ScriptFault::Runtime))
            }
            (None, Ok(_)) => {
                self.keep(thread);
                End::Normal
            }
            (None, Err(error)) => {
                End::Failed(slot.files.error(&fault::text(&error), ScriptFault::Runtime))
            }
        };
        if let End::Failed(error) = &end {
            self.recover(error);
        }
        let dropped = slot.context.borrow().as_ref().is_some_and(|context| context.dropped);
        match end {
            End::Normal if dropped => Went::Over(End::Dropped),
            end => Went::Over(end),
        }
    }

    /// A carrier that is idle, or another one.
    fn carrier(&self) -> mlua::Result<Thread> {
        match self.idle.borrow_mut().pop() {
            Some(thread) => Ok(thread),
            None => self.lua.create_thread(self.carrier.clone()),
        }
    }

    fn keep(&self, thread: Thread) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < IDLE {
            idle.push(thread);
        }
    }

    /// After memory ran out, what the invocation left is cleared before the next one needs it.
    fn recover(&self, error: &ScriptError) {
        if error.kind == ScriptFault::Memory
            && let Err(error) = self.lua.gc_collect()
        {
            tracing::warn!(%error, "the memory of a script could not be cleared");
        }
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script").field("file", &self.slot.files.script).finish_non_exhaustive()
    }
}

impl Suspended {
    /// Its context, for whoever does what it waits for.
    pub fn context(&mut self) -> &mut Context {
        &mut self.context
    }

    /// Goes on with the result.
    pub fn resume(self, result: i64, now: Instant) -> Step {
        let Self { script, thread, mut context, used } = self;
        context.now = now;
        script.step(thread, Value::Integer(result), context, used)
    }
}

/// What a carrier came to.
enum Went {
    Over(End),
    Waits(Thread, Want),
}

impl Slot {
    /// The invocation is over for good, by its time: what a hook or a function raises.
    pub(super) fn out_of_time(&self, lua: &Lua) -> mlua::Error {
        let message = "the script took too long";
        self.fail(lua, message, ScriptFault::Time)
    }

    /// The invocation is over for good, by an error. From here on each instruction raises, so that
    /// no handler of `__close` or `pcall` does anything any more.
    pub(super) fn fail(&self, lua: &Lua, message: &str, kind: ScriptFault) -> mlua::Error {
        let mut over = self.over.borrow_mut();
        if !matches!(*over, Some(End::Failed(_))) {
            *over = Some(End::Failed(self.files.error(&fault::placed(lua, message), kind)));
        }
        drop(over);
        if let Some(me) = self.me.upgrade()
            && let Err(error) = set_hook(lua, &me, 1)
        {
            tracing::debug!(%error, "a script that failed is not stopped at once");
        }
        mlua::Error::RuntimeError(message.to_owned())
    }

    /// Whether the invocation has failed for good, or its time is over.
    pub(super) fn is_over(&self) -> bool {
        matches!(*self.over.borrow(), Some(End::Failed(_))) || self.clock.is_over()
    }

    /// A function looks whether the invocation may go on.
    pub(super) fn look(&self, lua: &Lua) -> mlua::Result<()> {
        if self.is_over() { Err(self.out_of_time(lua)) } else { Ok(()) }
    }

    /// A hook looks whether the invocation may go on. One that may not is left where it stands, by
    /// a yield: no `pcall` and no `__close` of it runs any more. Where Lua can not yield, inside of
    /// a function in C, the hook of the next instruction raises.
    pub(super) fn hook(&self, lua: &Lua) -> mlua::Result<VmState> {
        if !self.is_over() {
            return Ok(VmState::Continue);
        }
        let error = self.out_of_time(lua);
        let coroutine = lua.current_thread().state() as usize;
        if self.stopped.replace(coroutine) == coroutine { Err(error) } else { Ok(VmState::Yield) }
    }
}
