//! Functions of `string` whose work no hook of Lua sees, with limits of their own: `find`, `match`,
//! `gmatch`, `gsub`, `rep`. They do what those of Lua 5.4 do.

use std::cell::Cell;
use std::rc::Rc;

use memchr::memmem;
use mlua::{BorrowedBytes, Lua, MultiValue, Table, Value};

use super::engine::Slot;
use super::fault;
use super::limits::{MAX_MADE, MAX_NESTED};
use super::pattern::{Capture, ESCAPE, Fault, Matcher, is_plain};

/// Puts them into the table `string`.
pub(super) fn install(lua: &Lua, slot: &Rc<Slot>) -> mlua::Result<()> {
    let table: Table = lua.globals().raw_get("string")?;
    let with = slot.clone();
    let finds =
        move |lua: &Lua, args: (Value, Value, Value, Value)| find(lua, &with, args, "find", true);
    table.raw_set("find", lua.create_function(finds)?)?;
    let with = slot.clone();
    let matches = move |lua: &Lua, (s, p, from): (Value, Value, Value)| {
        find(lua, &with, (s, p, from, Value::Nil), "match", false)
    };
    table.raw_set("match", lua.create_function(matches)?)?;
    let with = slot.clone();
    let gmatch = move |lua: &Lua, args: (Value, Value, Value)| gmatch(lua, &with, args);
    table.raw_set("gmatch", lua.create_function(gmatch)?)?;
    let with = slot.clone();
    let gsub = move |lua: &Lua, args: (Value, Value, Value, Value)| gsub(lua, &with, args);
    table.raw_set("gsub", lua.create_function(gsub)?)?;
    table.raw_set("rep", lua.create_function(rep)?)
}

/// An error of a function, at the line that called it.
fn error(lua: &Lua, message: &str) -> mlua::Error {
    mlua::Error::RuntimeError(fault::placed(lua, message))
}

fn bad(lua: &Lua, place: usize, name: &str, want: &str, got: &Value) -> mlua::Error {
    let got = match got {
        Value::Nil => "no value",
        Value::Integer(_) | Value::Number(_) => "number",
        got => got.type_name(),
    };
    error(lua, &format!("bad argument #{place} to '{name}' ({want} expected, got {got})"))
}

fn text(lua: &Lua, value: Value, place: usize, name: &str) -> mlua::Result<BorrowedBytes> {
    if let Value::String(text) = value {
        return Ok(text.as_bytes());
    }
    match lua.coerce_string(value.clone())? {
        Some(text) => Ok(text.as_bytes()),
        None => Err(bad(lua, place, name, "string", &value)),
    }
}

fn integer(lua: &Lua, value: Value, place: usize, name: &str) -> mlua::Result<i64> {
    if matches!(value, Value::Integer(_) | Value::Number(_) | Value::String(_)) {
        return match lua.coerce_integer(value.clone())? {
            Some(number) => Ok(number),
            None if matches!(lua.coerce_number(value.clone()), Ok(Some(_))) => {
                let message = "number has no integer representation";
                Err(error(lua, &format!("bad argument #{place} to '{name}' ({message})")))
            }
            None => Err(bad(lua, place, name, "number", &value)),
        };
    }
    Err(bad(lua, place, name, "number", &value))
}

/// Where a search begins: `None` behind the end.
fn start(lua: &Lua, from: Value, len: usize, name: &str) -> mlua::Result<Option<usize>> {
    let from = if from.is_nil() { 1 } else { integer(lua, from, 3, name)? };
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let at = match from {
        1.. => from - 1,
        0 => 0,
        from => (len + from).max(0),
    };
    Ok(usize::try_from(at).ok().filter(|_| at <= len))
}

fn raised(lua: &Lua, slot: &Slot, fault: Fault) -> mlua::Error {
    match fault {
        Fault::Pattern(message) => error(lua, &message),
        Fault::Time => slot.out_of_time(lua),
    }
}

fn given(lua: &Lua, text: &[u8], capture: Capture) -> mlua::Result<Value> {
    match capture {
        Capture::Place(at) => Ok(Value::Integer(i64::try_from(at + 1).unwrap_or(i64::MAX))),
        Capture::Text(start, end) => lua.create_string(&text[start..end]).map(Value::String),
        Capture::Open(_) => Ok(Value::Nil),
    }
}

fn number(place: usize) -> Value {
    Value::Integer(i64::try_from(place).unwrap_or(i64::MAX))
}

/// `string.find` and `string.match`.
fn find(
    lua: &Lua,
    slot: &Slot,
    (s, p, from, plain): (Value, Value, Value, Value),
    name: &str,
    finds: bool,
) -> mlua::Result<MultiValue> {
    let s = text(lua, s, 1, name)?;
    let p = text(lua, p, 2, name)?;
    let nothing = || Ok(MultiValue::from_vec(vec![Value::Nil]));
    let Some(start) = start(lua, from, s.len(), name)? else { return nothing() };
    let is_true = !matches!(plain, Value::Nil | Value::Boolean(false));
    if finds && (is_true || is_plain(&p)) {
        return match memmem::find(&s[start..], &p) {
            Some(at) => {
                let at = start + at;
                Ok(MultiValue::from_vec(vec![number(at + 1), number(at + p.len())]))
            }
            None => nothing(),
        };
    }
    let is_over = || slot.is_over();
    let anchored = p.strip_prefix(b"^");
    let mut matcher = Matcher::new(&s, anchored.unwrap_or(&p), &is_over);
    let last = if anchored.is_some() { start } else { s.len() };
    for at in start..=last {
        let found = matcher.at(at).map_err(|fault| raised(lua, slot, fault))?;
        let Some(end) = found else { continue };
        let mut values = MultiValue::new();
        // What `find` gives beside the places are the captures alone.
        let whole = (!finds).then_some(at..end);
        if finds {
            values.push_back(number(at + 1));
            values.push_back(number(end));
        }
        for capture in matcher.captures(whole).map_err(|fault| raised(lua, slot, fault))? {
            values.push_back(given(lua, &s, capture)?);
        }
        return Ok(values);
    }
    nothing()
}

/// `string.gmatch`.
fn gmatch(
    lua: &Lua,
    slot: &Rc<Slot>,
    (s, p, from): (Value, Value, Value),
) -> mlua::Result<mlua::Function> {
    let s = text(lua, s, 1, "gmatch")?;
    let p = text(lua, p, 2, "gmatch")?;
    let start = start(lua, from, s.len(), "gmatch")?.unwrap_or(s.len() + 1);
    let slot = slot.clone();
    let next = Cell::new((start, None));
    lua.create_function(move |lua, ()| {
        let is_over = || slot.is_over();
        let mut matcher = Matcher::new(&s, &p, &is_over);
        let (start, last) = next.get();
        for at in start..=s.len() {
            let found = matcher.at(at).map_err(|fault| raised(lua, &slot, fault))?;
            let Some(end) = found.filter(|end| Some(*end) != last) else { continue };
            next.set((end, Some(end)));
            let captures =
                matcher.captures(Some(at..end)).map_err(|fault| raised(lua, &slot, fault))?;
            return captures.map(|capture| given(lua, &s, capture)).collect();
        }
        next.set((s.len() + 1, last));
        Ok(MultiValue::from_vec(vec![Value::Nil]))
    })
}

/// What takes the place of a match.
enum Replacement {
    Text(BorrowedBytes),
    Table(Table),
    Function(mlua::Function),
}

/// `string.gsub`.
fn gsub(
    lua: &Lua,
    slot: &Slot,
    (s, p, with, most): (Value, Value, Value, Value),
) -> mlua::Result<(Value, usize)> {
    let whole = s.clone();
    let s = text(lua, s, 1, "gsub")?;
    let p = text(lua, p, 2, "gsub")?;
    let with = match with {
        Value::Table(table) => Replacement::Table(table),
        Value::Function(function) => Replacement::Function(function),
        value @ (Value::String(_) | Value::Integer(_) | Value::Number(_)) => {
            Replacement::Text(text(lua, value, 3, "gsub")?)
        }
        value => return Err(bad(lua, 3, "gsub", "string/function/table", &value)),
    };
    let most = if most.is_nil() {
        s.len() + 1
    } else {
        usize::try_from(integer(lua, most, 4, "gsub")?).unwrap_or(0)
    };
    let is_over = || slot.is_over();
    let anchored = p.strip_prefix(b"^");
    let mut matcher = Matcher::new(&s, anchored.unwrap_or(&p), &is_over);
    let mut out = Vec::new();
    let (mut at, mut last, mut count, mut changed) = (0, None, 0, false);
    while count < most {
        let found = matcher.at(at).map_err(|fault| raised(lua, slot, fault))?;
        if let Some(end) = found.filter(|end| Some(*end) != last) {
            count += 1;
            changed |= replace(lua, slot, &s, &matcher, at..end, &with, &mut out)?;
            if out.len() > MAX_MADE + s.len() {
                return Err(error(lua, "resulting string too large"));
            }
            at = end;
            last = Some(end);
        } else if let Some(&byte) = s.get(at) {
            out.push(byte);
            at += 1;
        } else {
            break;
        }
        if anchored.is_some() {
            break;
        }
    }
    if !changed {
        let whole = lua.coerce_string(whole)?.map_or(Value::Nil, Value::String);
        return Ok((whole, count));
    }
    out.extend_from_slice(&s[at..]);
    Ok((Value::String(lua.create_string(out)?), count))
}

/// Writes what takes the place of one match; false where the match stays.
fn replace(
    lua: &Lua,
    slot: &Slot,
    s: &[u8],
    matcher: &Matcher<'_>,
    found: std::ops::Range<usize>,
    with: &Replacement,
    out: &mut Vec<u8>,
) -> mlua::Result<bool> {
    let fails = |fault| raised(lua, slot, fault);
    let value = match with {
        Replacement::Text(text) => {
            expand(s, matcher, found, text, out).map_err(fails)?;
            return Ok(true);
        }
        Replacement::Table(table) => {
            let key = matcher.capture(1, found.clone()).map_err(fails)?;
            table.get::<Value>(given(lua, s, key)?)?
        }
        Replacement::Function(function) => {
            let captures = matcher.captures(Some(found.clone())).map_err(fails)?;
            let args: mlua::Result<MultiValue> =
                captures.map(|capture| given(lua, s, capture)).collect();
            let nested = slot.nested.get();
            if nested == MAX_NESTED {
                return Err(error(lua, "C stack overflow"));
            }
            slot.nested.set(nested + 1);
            let called = function.call::<Value>(args?);
            slot.nested.set(nested);
            called?
        }
    };
    match value {
        Value::Nil | Value::Boolean(false) => {
            out.extend_from_slice(&s[found]);
            Ok(false)
        }
        value @ (Value::String(_) | Value::Integer(_) | Value::Number(_)) => {
            out.extend_from_slice(&text(lua, value, 3, "gsub")?);
            Ok(true)
        }
        value => {
            let message = format!("invalid replacement value (a {})", value.type_name());
            Err(error(lua, &message))
        }
    }
}

/// Writes a replacement with its captures filled in.
fn expand(
    s: &[u8],
    matcher: &Matcher<'_>,
    found: std::ops::Range<usize>,
    text: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let mut rest = text;
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        out.extend_from_slice(&rest[..at]);
        match rest.get(at + 1) {
            Some(&ESCAPE) => out.push(ESCAPE),
            Some(b'0') => out.extend_from_slice(&s[found.clone()]),
            Some(digit) if digit.is_ascii_digit() => {
                match matcher.capture(usize::from(digit - b'0'), found.clone())? {
                    Capture::Text(start, end) => out.extend_from_slice(&s[start..end]),
                    Capture::Place(at) => out.extend_from_slice((at + 1).to_string().as_bytes()),
                    Capture::Open(_) => {}
                }
            }
            _ => return Err(Fault::new("invalid use of '%' in replacement string")),
        }
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// `string.rep`.
fn rep(lua: &Lua, (s, times, between): (Value, Value, Value)) -> mlua::Result<mlua::LuaString> {
    let s = text(lua, s, 1, "rep")?;
    let times = integer(lua, times, 2, "rep")?;
    let between = match between {
        Value::Nil => lua.create_string("")?.as_bytes(),
        value => text(lua, value, 3, "rep")?,
    };
    let Some(times) = usize::try_from(times).ok().filter(|times| *times > 0) else {
        return lua.create_string("");
    };
    let one = s.len() + between.len();
    if one == 0 {
        return lua.create_string("");
    }
    if times.checked_mul(one).is_none_or(|all| all > MAX_MADE) {
        return Err(error(lua, "resulting string too large"));
    }
    let mut out = Vec::with_capacity(times * one);
    for _ in 1..times {
        out.extend_from_slice(&s);
        out.extend_from_slice(&between);
    }
    out.extend_from_slice(&s);
    lua.create_string(out)
}
