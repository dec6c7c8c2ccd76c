//! One generation of a script: its Lua state, and the invocations in it.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Instant;

use mlua::chunk::ChunkMode;
use mlua::{HookTriggers, Lua, LuaOptions, StdLib, Table, Thread, Value, VmState};

use super::fault::{self, Files, OWN_CHUNK};
use super::function::{Args, Function, Given, MAX_ARGS, Raised, Run};
use super::limits::{
    Clock, INSTRUCTIONS, LOAD_TIME, MAX_ARGUMENT, MAX_ARGUMENTS, MAX_EFFECTS, MAX_WAITS, Used,
};
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
    context: RefCell<Option<Context>>,
    want: RefCell<Option<Want>>,
    over: RefCell<Option<End>>,
    used: Cell<Used>,
    clock: Clock,
    files: Files,
}

impl Script {
    /// Compiles the text and runs its top level, as `lineway check` does too.
    ///
    /// # Errors
    /// It is no Lua, its top level fails, or it has no `ksr_request_route`.
    pub fn load(source: &Source, limits: ScriptLimits) -> Result<Rc<Self>, ScriptError> {
        let slot = Rc::new(Slot {
            context: RefCell::new(None),
            want: RefCell::new(None),
            over: RefCell::new(None),
            used: Cell::new(Used::default()),
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
        let carrier = prepare(&lua, &slot).map_err(fails)?;
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
            Route::Named(name) => self.lua.create_string(name).map(Value::String),
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
        let context = slot.context.take().expect("a step leaves its context where it was");
        let mut used = slot.used.get();
        used.time = slot.clock.end();
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
        let resumed = thread.resume::<(Value, Value)>(what);
        let want = slot.want.take();
        let over = slot.over.take();
        let end = match (over, resumed) {
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
                let dropped = slot.context.borrow().as_ref().is_some_and(|context| context.dropped);
                if dropped { End::Dropped } else { End::Normal }
            }
            (None, Err(error)) => {
                End::Failed(slot.files.error(&fault::text(&error), ScriptFault::Runtime))
            }
        };
        if let End::Failed(error) = &end {
            self.recover(error);
        }
        Went::Over(end)
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

    /// The invocation is over for good, by an error.
    fn fail(&self, lua: &Lua, message: &str, kind: ScriptFault) -> mlua::Error {
        let mut over = self.over.borrow_mut();
        if !matches!(*over, Some(End::Failed(_))) {
            *over = Some(End::Failed(self.files.error(&fault::placed(lua, message), kind)));
        }
        mlua::Error::RuntimeError(message.to_owned())
    }

    /// A hook or a function looks whether the invocation may go on.
    pub(super) fn check(&self, lua: &Lua) -> mlua::Result<()> {
        let failed = matches!(*self.over.borrow(), Some(End::Failed(_)));
        if failed || self.clock.is_over() { Err(self.out_of_time(lua)) } else { Ok(()) }
    }
}

/// Gives a state its limits, its functions and the prelude: the function that carries invocations.
fn prepare(lua: &Lua, slot: &Rc<Slot>) -> mlua::Result<mlua::Function> {
    let hook = slot.clone();
    let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
    lua.set_global_hook(triggers, move |lua, _| {
        hook.check(lua)?;
        Ok(VmState::Continue)
    })?;
    let wait = lua.create_table()?;
    let waiting = lua.create_table()?;
    let root = lua.create_table()?;
    for function in kemi::functions() {
        let at = module(lua, &root, function.module)?;
        let raw = native(lua, slot, function, &wait)?;
        if matches!(function.run, Run::Waiting(_)) {
            let entry = lua.create_table()?;
            entry.raw_set("at", at)?;
            entry.raw_set("name", function.name)?;
            entry.raw_set("full", full_name(function))?;
            entry.raw_set("raw", raw)?;
            waiting.raw_push(entry)?;
        } else {
            at.raw_set(function.name, raw)?;
        }
    }
    lua.globals().raw_set("KSR", root)?;
    let prelude = lua.load(include_str!("prelude.lua")).set_name(OWN_CHUNK);
    prelude.call((natives(lua, slot)?, wait, lua.create_table()?, waiting))
}

/// The table below `KSR` of this name.
fn module(lua: &Lua, root: &Table, name: &str) -> mlua::Result<Table> {
    if name.is_empty() {
        return Ok(root.clone());
    }
    if let Some(module) = root.raw_get(name)? {
        return Ok(module);
    }
    let module = lua.create_table()?;
    root.raw_set(name, &module)?;
    Ok(module)
}

/// What the prelude needs of Rust.
fn natives(lua: &Lua, slot: &Rc<Slot>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let over = slot.clone();
    table
        .raw_set("is_over", lua.create_function(move |_, ()| Ok(over.over.borrow().is_some()))?)?;
    let over = slot.clone();
    let quit = move |_: &Lua, how: i64| {
        let end = if how == 2 { End::Dropped } else { End::Normal };
        over.over.borrow_mut().get_or_insert(end);
        Ok(())
    };
    table.raw_set("over", lua.create_function(quit)?)?;
    let message = |lua: &Lua, value: Value| match value {
        Value::Error(error) => lua.create_string(fault::text(&error)).map(Value::String),
        value => Ok(value),
    };
    table.raw_set("message", lua.create_function(message)?)?;
    let failed = |lua: &Lua, value: Value| match value {
        Value::String(text) => Ok(Value::String(text)),
        value => lua.create_string(fault::object(lua, &value)).map(Value::String),
    };
    table.raw_set("failed", lua.create_function(failed)?)?;
    Ok(table)
}

/// How a script writes a function.
fn full_name(function: &Function) -> String {
    match function.module {
        "" => format!("KSR.{}", function.name),
        module => format!("KSR.{module}.{}", function.name),
    }
}

/// A function as Lua calls it.
fn native(
    lua: &Lua,
    slot: &Rc<Slot>,
    function: &'static Function,
    wait: &Table,
) -> mlua::Result<mlua::Function> {
    let slot = slot.clone();
    let wait = wait.clone();
    lua.create_function(move |lua, (a, b, c, d): (Value, Value, Value, Value)| {
        if slot.clock.is_over_at_call() {
            return Err(slot.out_of_time(lua));
        }
        call(lua, &slot, function, [a, b, c, d], &wait)
    })
}

fn call(
    lua: &Lua,
    slot: &Slot,
    function: &'static Function,
    values: [Value; MAX_ARGS + 1],
    wait: &Table,
) -> mlua::Result<Value> {
    if let Run::Missing(needs) = function.run {
        let name = full_name(function);
        let message = format!("{name} needs {needs}, which this version does not have");
        return Err(mlua::Error::RuntimeError(fault::placed(lua, &message)));
    }
    let args = match Args::read(function.takes, values, &slot.files.script) {
        Ok(args) => args,
        Err(raised) => return Err(raise(lua, slot, function, raised)),
    };
    let mut used = slot.used.get();
    used.arguments += args.len();
    slot.used.set(used);
    if args.len() > MAX_ARGUMENT {
        let raised = Raised::error("a string is longer than a message can be");
        return Err(raise(lua, slot, function, raised));
    }
    if used.arguments > MAX_ARGUMENTS {
        return Err(slot.fail(lua, "the script gives too much to functions", ScriptFault::Memory));
    }
    let Ok(mut context) = slot.context.try_borrow_mut() else {
        return Err(slot.fail(lua, "a function calls itself", ScriptFault::Runtime));
    };
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let answer = match function.run {
            Run::Anytime(run) => run(context.as_mut(), &args),
            Run::Message(run) | Run::Waiting(run) => match context.as_mut() {
                Some(context) => run(context, &args),
                None => Err(Raised::error("there is no message while the script is loaded")),
            },
            Run::Missing(needs) => Err(Raised::error(needs)),
        };
        match answer {
            Ok(given) => Ok(value(lua, slot, given, wait)),
            Err(raised) => Err(raised),
        }
    }));
    let effects = context.as_ref().map_or(0, |context| context.effects.len());
    drop(context);
    match ran {
        Ok(Ok(_)) if effects > MAX_EFFECTS => {
            Err(slot.fail(lua, "the script sends too many messages", ScriptFault::Runtime))
        }
        Ok(Ok(value)) => value,
        Ok(Err(raised)) => Err(raise(lua, slot, function, raised)),
        Err(_) => {
            let message = format!("{} panicked", full_name(function));
            Err(slot.fail(lua, &message, ScriptFault::Runtime))
        }
    }
}

/// What a function gave, as Lua has it.
fn value(lua: &Lua, slot: &Slot, given: Given<'_>, wait: &Table) -> mlua::Result<Value> {
    match given {
        Given::Nil => Ok(Value::Nil),
        Given::Bool(given) => Ok(Value::Boolean(given)),
        Given::Int(given) => Ok(Value::Integer(given)),
        Given::Str(given) => lua.create_string(given).map(Value::String),
        Given::Owned(given) => lua.create_string(given).map(Value::String),
        Given::Shared(given) => lua.create_string(given).map(Value::String),
        Given::Wait(want) => {
            slot.want.replace(Some(want));
            Ok(Value::Table(wait.clone()))
        }
    }
}

/// What a function raised, as Lua has it.
fn raise(lua: &Lua, slot: &Slot, function: &Function, raised: Raised) -> mlua::Error {
    let end = match raised {
        Raised::Exit => End::Normal,
        Raised::Drop => End::Dropped,
        Raised::Error(message) => {
            let message = format!("{}: {message}", full_name(function));
            return mlua::Error::RuntimeError(fault::placed(lua, &message));
        }
    };
    slot.over.borrow_mut().get_or_insert(end);
    mlua::Error::RuntimeError(String::from("over"))
}
