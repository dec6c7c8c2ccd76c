//! What scripts get of Lua's `debug`: looking, not changing.

use std::borrow::Cow;

use mlua::{Function, Lua, Table, Value};

/// The table `debug`: `traceback` and `getinfo`.
pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("traceback", lua.create_function(traceback)?)?;
    table
        .raw_set("getinfo", lua.create_function(|lua, (of, _): (Value, Value)| info(lua, &of))?)?;
    Ok(table)
}

/// `debug.traceback([message [, level]])`; of another coroutine there is the message alone.
fn traceback(lua: &Lua, (message, level): (Value, Option<usize>)) -> mlua::Result<Value> {
    let text = match &message {
        Value::Nil => None,
        Value::String(text) => Some(text.to_string_lossy()),
        Value::Integer(_) | Value::Number(_) => Some(message.to_string()?),
        _ => return Ok(message),
    };
    lua.traceback(text.as_deref(), level.unwrap_or(1)).map(Value::String)
}

/// `debug.getinfo(level or function)`: what is asked for is ignored, all of it comes.
fn info(lua: &Lua, of: &Value) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    match of {
        Value::Function(function) => of_function(&table, function)?,
        Value::Integer(level) => {
            let Ok(level) = usize::try_from(*level) else { return Ok(Value::Nil) };
            let at = lua.inspect_stack(level, |debug| {
                (debug.function(), debug.current_line(), debug.names().name.map(Cow::into_owned))
            });
            let Some((function, line, name)) = at else { return Ok(Value::Nil) };
            of_function(&table, &function)?;
            table.raw_set(
                "currentline",
                line.map_or(-1, |line| i64::try_from(line).unwrap_or(-1)),
            )?;
            table.raw_set("name", name)?;
            table.raw_set("func", function)?;
        }
        _ => {
            let message = "bad argument #1 to 'getinfo' (function or level expected)";
            return Err(mlua::Error::RuntimeError(super::fault::placed(lua, message)));
        }
    }
    Ok(Value::Table(table))
}

fn of_function(table: &Table, function: &Function) -> mlua::Result<()> {
    let info = function.info();
    let line = |line: Option<usize>| line.map_or(-1, |line| i64::try_from(line).unwrap_or(-1));
    table.raw_set("what", info.what)?;
    table.raw_set("source", info.source)?;
    table.raw_set("short_src", info.short_src)?;
    table.raw_set("linedefined", line(info.line_defined))?;
    table.raw_set("lastlinedefined", line(info.last_line_defined))?;
    table.raw_set("currentline", -1)?;
    table.raw_set("nparams", info.num_params)
}
