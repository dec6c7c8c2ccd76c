//! Errors of Lua as the service tells them: file, line, message, sort.

use std::sync::Arc;

use memchr::memmem;
use mlua::{Lua, LuaString, Value};

use super::{ScriptError, ScriptFault};

/// The chunk name of the engine's own Lua; its lines are nobody's business.
pub(super) const OWN_CHUNK: &str = "=[lineway]";
const OWN_SOURCE: &str = "[lineway]";
/// What Lua says when its memory is used up.
const NO_MEMORY: &str = "not enough memory";
/// Bytes of a message that are kept.
const MAX_MESSAGE: usize = 1024;

/// Where the script stands: the innermost line of Lua that is not the engine's.
pub(super) fn place(lua: &Lua) -> Option<(String, u32)> {
    for level in 0..64 {
        let place = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let line = debug.current_line()?;
            let file = source.short_src?;
            (file != OWN_SOURCE).then(|| (file.into_owned(), u32::try_from(line).unwrap_or(0)))
        })?;
        if place.is_some() {
            return place;
        }
    }
    None
}

/// A message with its place in front, as `error` of Lua writes it.
pub(super) fn placed(lua: &Lua, message: &str) -> String {
    match place(lua) {
        Some((file, line)) => format!("{file}:{line}: {message}"),
        None => message.to_owned(),
    }
}

/// An error that Lua found in the engine's own lines, as one of the line that called them.
pub(super) fn of_caller(lua: &Lua, said: LuaString) -> mlua::Result<LuaString> {
    let message = {
        let bytes = said.as_bytes();
        let own =
            bytes.strip_prefix(OWN_SOURCE.as_bytes()).and_then(|rest| rest.strip_prefix(b":"));
        let end = own.and_then(|rest| memmem::find(rest, b": ").map(|at| &rest[at + 2..]));
        end.map(|message| String::from_utf8_lossy(message).into_owned())
    };
    match message {
        Some(message) => lua.create_string(placed(lua, &message)),
        None => Ok(said),
    }
}

/// The text of an error of a function in Rust, without what wraps it.
pub(super) fn text(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } | mlua::Error::WithContext { cause, .. } => {
            text(cause)
        }
        mlua::Error::RuntimeError(text) => text.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::MemoryError(_) => NO_MEMORY.to_owned(),
        mlua::Error::StackError => "stack overflow".to_owned(),
        error => error.to_string(),
    }
}

/// The text of an error object of a script: a string is what it says, anything else gets a place.
pub(super) fn object(lua: &Lua, value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string_lossy(),
        Value::Error(error) => text(error),
        Value::Table(table) => {
            match table.metatable().map(|meta| meta.contains_key("__tostring")) {
                Some(Ok(true)) => match value.to_string() {
                    Ok(text) => placed(lua, &text),
                    Err(error) => text(&error),
                },
                _ => placed(lua, "the error object is a table"),
            }
        }
        value => placed(lua, &format!("the error object is a {}", value.type_name())),
    }
}

/// Files by the names that Lua has for them.
pub(super) struct Files {
    /// The script.
    pub(super) script: Arc<str>,
}

impl Files {
    /// An error of what Lua says: `file:line: message`, perhaps with a traceback behind it.
    pub(super) fn error(&self, said: &str, kind: ScriptFault) -> ScriptError {
        let said = said.split("\nstack traceback:").next().unwrap_or_default();
        let kind = if said.ends_with(NO_MEMORY) { ScriptFault::Memory } else { kind };
        let (file, line, message) = match split(said) {
            Some((file, line, message)) => (self.named(file), line, message),
            None => (self.script.clone(), 0, said),
        };
        let mut end = message.len().min(MAX_MESSAGE);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let message = message[..end].to_owned();
        ScriptError { file, line, message, kind }
    }

    /// The whole name of a file that Lua shortens.
    pub(super) fn named(&self, short: &str) -> Arc<str> {
        let is_script = match short.strip_prefix("...") {
            Some(end) => self.script.ends_with(end),
            None => *self.script == *short,
        };
        if is_script { self.script.clone() } else { Arc::from(short) }
    }
}

/// Splits `file:line: message`. A file's name may have colons itself.
fn split(said: &str) -> Option<(&str, u32, &str)> {
    let mut from = 0;
    while let Some(at) = said[from..].find(": ").map(|at| at + from) {
        if let Some((file, line)) = said[..at].rsplit_once(':')
            && let Ok(line) = line.parse()
            && !file.is_empty()
            && !file.contains('\n')
        {
            return Some((file, line, &said[at + 2..]));
        }
        from = at + 2;
    }
    None
}
