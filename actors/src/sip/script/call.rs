//! Functions in Rust as Lua calls them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::engine::Slot;
use super::fault;
use super::function::{Args, Function, Given, MAX_ARGS, Raised, Run};
use super::limits::{MAX_ARGUMENT, MAX_ARGUMENTS, MAX_EFFECTS};
use super::{End, ScriptFault};

/// How a script writes a function.
pub(super) fn full_name(function: &Function) -> String {
    match function.module {
        "" => format!("KSR.{}", function.name),
        module => format!("KSR.{module}.{}", function.name),
    }
}

/// A function as Lua calls it.
pub(super) fn native(
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
    let args = match Args::read(lua, function.takes, values, &slot.files.script) {
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
