//! What a state gets before the script: the hook that looks at the time, the functions, the engine's
//! own Lua.

use std::path::Path;
use std::rc::Rc;

use mlua::{HookTriggers, Lua, Table, Value};

use super::call::{full_name, native};
use super::engine::Slot;
use super::fault::{self, OWN_CHUNK};
use super::function::{Function, Run};
use super::limits::{INSTRUCTIONS, MAX_MADE};
use super::{End, debug, strings};

/// Gives a state its limits, its functions and the prelude: the function that carries invocations.
pub(super) fn prepare(
    lua: &Lua,
    slot: &Rc<Slot>,
    functions: impl Iterator<Item = &'static Function>,
) -> mlua::Result<mlua::Function> {
    set_hook(lua, slot, INSTRUCTIONS)?;
    let wait = lua.create_table()?;
    let waiting = lua.create_table()?;
    let root = lua.create_table()?;
    for function in functions {
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
    strings::install(lua, slot)?;
    let prelude = lua.load(include_str!("prelude.lua")).set_name(OWN_CHUNK);
    prelude.call((natives(lua, slot)?, wait, lua.create_table()?, waiting))
}

/// Looks at the time after so many instructions, in this coroutine and in those made after.
pub(super) fn set_hook(lua: &Lua, slot: &Rc<Slot>, instructions: u32) -> mlua::Result<()> {
    let slot = slot.clone();
    let triggers = HookTriggers::new().every_nth_instruction(instructions);
    lua.set_global_hook(triggers, move |lua, _| slot.hook(lua))
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
    let has_failed = move |_: &Lua, ()| Ok(matches!(*over.over.borrow(), Some(End::Failed(_))));
    table.raw_set("has_failed", lua.create_function(has_failed)?)?;
    let over = slot.clone();
    let quit = move |_: &Lua, how: i64| {
        let end = if how == 2 { End::Dropped } else { End::Normal };
        over.over.borrow_mut().get_or_insert(end);
        Ok(())
    };
    table.raw_set("over", lua.create_function(quit)?)?;
    let message = |lua: &Lua, value: Value| match value {
        Value::Error(error) => lua.create_string(fault::text(&error)).map(Value::String),
        Value::String(text) => fault::of_caller(lua, text).map(Value::String),
        value => Ok(value),
    };
    table.raw_set("message", lua.create_function(message)?)?;
    let failed = |lua: &Lua, value: Value| match value {
        Value::String(text) => fault::of_caller(lua, text).map(Value::String),
        value => lua.create_string(fault::object(lua, &value)).map(Value::String),
    };
    table.raw_set("failed", lua.create_function(failed)?)?;
    let placed = |lua: &Lua, text: String| Ok(fault::placed(lua, &text));
    table.raw_set("placed", lua.create_function(placed)?)?;
    let look = slot.clone();
    table.raw_set("look", lua.create_function(move |lua, ()| look.look(lua))?)?;
    let print = slot.clone();
    let print = move |_: &Lua, text: mlua::LuaString| {
        let context = print.context.try_borrow();
        let node = context.iter().find_map(|context| context.as_ref());
        let node = node.map(|context| &*context.env.node);
        let text = text.as_bytes();
        let text = String::from_utf8_lossy(text.trim_ascii_end());
        tracing::info!(node, script = %print.files.script, "{text}");
        Ok(())
    };
    table.raw_set("print", lua.create_function(print)?)?;
    table.raw_set("debug", debug::table(lua)?)?;
    table.raw_set("max_chunk", MAX_MADE)?;
    table.raw_set("folder", folder(&slot.files.script))?;
    Ok(table)
}

/// The folder of a script's file, where `require` looks first; none where Lua could not write it.
fn folder(script: &str) -> Option<String> {
    let folder = Path::new(script).parent()?.to_str()?;
    let plain = !folder.is_empty() && !folder.contains(['?', ';']);
    plain.then(|| folder.to_owned())
}
