//! Functions that a script calls: how they are described, and what they take and give.
//!
//! A function is a row of data: its name, what it takes, and the code behind it. The engine checks
//! the arguments before the code runs, so that the code sees only what it asked for.

use std::sync::Arc;

use bytes::Bytes;
use mlua::{BorrowedBytes, Lua, Value};

use super::{Context, Want};

/// One function of a script.
#[derive(Debug)]
pub struct Function {
    /// The table below `KSR`, such as `hdr`; empty for `KSR` itself.
    pub module: &'static str,
    /// Its name, such as `append`.
    pub name: &'static str,
    /// What it takes; at most [`MAX_ARGS`].
    pub takes: &'static [Kind],
    /// What it gives.
    pub gives: Gives,
    /// What it does.
    pub run: Run,
}

/// What a function takes at most.
pub const MAX_ARGS: usize = 3;

/// The kind of an argument, as kemi-signatures writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `str`: any bytes. Lua makes strings of numbers by itself, so a number will do.
    Str,
    /// `int`: an integer, or a float or string that is one.
    Int,
}

/// The kind of what a function gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Nothing.
    None,
    /// A Lua boolean.
    Bool,
    /// An integer: 1 or more for success, less than 0 for failure.
    Int,
    /// A string, an integer or nil.
    Value,
}

/// What a function gives, or why it did not.
pub type Answer<'c> = Result<Given<'c>, Raised>;

/// The code of a function.
#[derive(Clone, Copy)]
pub enum Run {
    /// It works on the message of the invocation; outside of one it is a script error.
    Message(for<'c> fn(&'c mut Context, &'c Args<'_>) -> Answer<'c>),
    /// The same, and it may give [`Given::Wait`].
    Waiting(for<'c> fn(&'c mut Context, &'c Args<'_>) -> Answer<'c>),
    /// It works without a message too, as while a script is loaded.
    Anytime(for<'c> fn(Option<&'c mut Context>, &'c Args<'_>) -> Answer<'c>),
    /// It is not there: calling it is a script error that says what it needs, such as
    /// `transactions`.
    Missing(&'static str),
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Message(_) => "Message",
            Self::Waiting(_) => "Waiting",
            Self::Anytime(_) => "Anytime",
            Self::Missing(_) => "Missing",
        })
    }
}

/// What a function gives to the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given<'c> {
    /// Nothing, or no value.
    Nil,
    /// A Lua boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A string that stands in the message, the context or the arguments.
    Str(&'c [u8]),
    /// A string that was made.
    Owned(Vec<u8>),
    /// A string that is shared.
    Shared(Bytes),
    /// The invocation waits, and its result is what the function gives.
    Wait(Want),
}

impl From<bool> for Given<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Given<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl<'c> From<&'c [u8]> for Given<'c> {
    fn from(value: &'c [u8]) -> Self {
        Self::Str(value)
    }
}

impl From<Vec<u8>> for Given<'_> {
    fn from(value: Vec<u8>) -> Self {
        Self::Owned(value)
    }
}

impl From<Bytes> for Given<'_> {
    fn from(value: Bytes) -> Self {
        Self::Shared(value)
    }
}

impl<'c, T: Into<Given<'c>>> From<Option<T>> for Given<'c> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nil, Into::into)
    }
}

/// What ends a function other than by its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raised {
    /// The invocation is over, as by `KSR.x.exit()`; no `pcall` holds it.
    Exit,
    /// The same, as by `KSR.x.drop()`.
    Drop,
    /// A script error: what is wrong, without the function's name, file or line. A `pcall` sees it.
    Error(String),
}

impl Raised {
    /// A script error.
    pub fn error(message: impl Into<String>) -> Self {
        Self::Error(message.into())
    }
}

/// The arguments of one call, of the kinds that its [`Function`] takes.
pub struct Args<'a> {
    items: [Arg; MAX_ARGS],
    lua: &'a Lua,
    /// The script's file, for logs.
    pub script: &'a Arc<str>,
}

/// One argument.
enum Arg {
    None,
    Str(BorrowedBytes),
    Int(i64),
}

impl<'a> Args<'a> {
    /// Checks the values of a call against what the function takes.
    pub(super) fn read(
        lua: &'a Lua,
        takes: &[Kind],
        values: [Value; MAX_ARGS + 1],
        script: &'a Arc<str>,
    ) -> Result<Self, Raised> {
        let mut items = [const { Arg::None }; MAX_ARGS];
        for (index, value) in values.into_iter().enumerate() {
            match takes.get(index) {
                Some(kind) => items[index] = Arg::read(lua, *kind, index, value)?,
                None if value.is_nil() => {}
                None => {
                    let most = takes.len();
                    return Err(Raised::Error(format!("too many arguments (it takes {most})")));
                }
            }
        }
        Ok(Self { items, lua, script })
    }

    /// The string at this place.
    ///
    /// # Panics
    /// The function takes none there.
    pub fn str(&self, place: usize) -> &[u8] {
        match &self.items[place] {
            Arg::Str(bytes) => bytes,
            Arg::None | Arg::Int(_) => unreachable!("argument {place} is no string"),
        }
    }

    /// The integer at this place.
    ///
    /// # Panics
    /// The function takes none there.
    pub fn int(&self, place: usize) -> i64 {
        match self.items[place] {
            Arg::Int(value) => value,
            _ => unreachable!("argument {place} is no integer"),
        }
    }

    /// Whether the script has a function of this name, which is a global one.
    pub fn is_function(&self, name: &str) -> bool {
        let name = self.lua.create_string(name);
        let value = name.and_then(|name| self.lua.globals().raw_get(name));
        matches!(value, Ok(Value::Function(_)))
    }

    /// Bytes of all strings.
    pub(super) fn len(&self) -> usize {
        let len = |arg: &Arg| match arg {
            Arg::Str(bytes) => bytes.len(),
            Arg::None | Arg::Int(_) => 0,
        };
        self.items.iter().map(len).sum()
    }
}

impl Arg {
    fn read(lua: &Lua, kind: Kind, index: usize, value: Value) -> Result<Self, Raised> {
        let got = match (kind, value) {
            (Kind::Str, Value::String(text)) => return Ok(Self::Str(text.as_bytes())),
            (Kind::Str, value @ (Value::Integer(_) | Value::Number(_))) => {
                match lua.coerce_string(value) {
                    Ok(Some(text)) => return Ok(Self::Str(text.as_bytes())),
                    Ok(None) => Value::Nil,
                    Err(error) => return Err(Raised::Error(error.to_string())),
                }
            }
            (Kind::Int, Value::Integer(number)) => return Ok(Self::Int(number)),
            (Kind::Int, Value::Number(number)) => match whole(number) {
                Some(number) => return Ok(Self::Int(number)),
                None => Value::Number(number),
            },
            (Kind::Int, Value::String(text)) => {
                match text.to_str().ok().and_then(|text| text.trim_ascii().parse().ok()) {
                    Some(number) => return Ok(Self::Int(number)),
                    None => Value::String(text),
                }
            }
            (_, value) => value,
        };
        let want = match kind {
            Kind::Str => "a string",
            Kind::Int => "an integer",
        };
        let got = got.type_name();
        Err(Raised::Error(format!("argument {} has to be {want}, not {got}", index + 1)))
    }
}

/// The integer that a float is, if it is one.
fn whole(number: f64) -> Option<i64> {
    let inside = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
    inside.then_some(number as i64)
}
