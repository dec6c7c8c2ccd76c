//! The functions of a script: `KSR` and its modules, one table for each.
//!
//! Each file is a list of rows, and a row is everything about a function: its name, what it takes
//! and gives, and what it does. The engine checks the arguments by it, a test holds the
//! documentation against it. What a function means is decided in [`lineway_wire::sip`]; here stands
//! what it reads and changes of the invocation.

mod auth;
mod core;
mod dispatcher;
mod edit;
mod kx;
mod media;
mod pv;
mod registrar;
mod routing;
mod sl;
mod store;
mod tm;
mod var;

pub use var::Vars;

use super::Context;
use super::function::{Answer, Args, Function, Gives, Kind, Raised, Run};
use super::tm::RouteKind;

/// Every function that a script can call.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    let lists = [
        auth::FUNCTIONS,
        core::FUNCTIONS,
        dispatcher::FUNCTIONS,
        pv::FUNCTIONS,
        kx::FUNCTIONS,
        edit::FUNCTIONS,
        routing::FUNCTIONS,
        sl::FUNCTIONS,
        store::FUNCTIONS,
        registrar::FUNCTIONS,
        tm::FUNCTIONS,
        media::FUNCTIONS,
    ];
    lists.into_iter().flatten()
}

const STR: &[Kind] = &[Kind::Str];
const STR2: &[Kind] = &[Kind::Str, Kind::Str];
const STR3: &[Kind] = &[Kind::Str, Kind::Str, Kind::Str];
const INT: &[Kind] = &[Kind::Int];
const INT2: &[Kind] = &[Kind::Int, Kind::Int];
const INT_STR: &[Kind] = &[Kind::Int, Kind::Str];
const STR_INT: &[Kind] = &[Kind::Str, Kind::Int];
const STR2_INT: &[Kind] = &[Kind::Str, Kind::Str, Kind::Int];

/// The code of a function that works on a message.
type Code = for<'c> fn(&'c mut Context, &'c Args<'_>) -> Answer<'c>;

/// The rows of one module.
struct Module(&'static str);

impl Module {
    /// A function that gives an integer: 1 or more for success, less than 0 for failure.
    const fn int(&self, name: &'static str, takes: &'static [Kind], run: Code) -> Function {
        self.row(name, takes, Gives::Int, Run::Message(run))
    }
    /// A function that gives a boolean.
    const fn bool(&self, name: &'static str, takes: &'static [Kind], run: Code) -> Function {
        self.row(name, takes, Gives::Bool, Run::Message(run))
    }
    /// A function that gives a string, an integer or nothing.
    const fn value(&self, name: &'static str, takes: &'static [Kind], run: Code) -> Function {
        self.row(name, takes, Gives::Value, Run::Message(run))
    }
    /// A function whose integer is there only after something took time.
    const fn waits(&self, name: &'static str, takes: &'static [Kind], run: Code) -> Function {
        self.row(name, takes, Gives::Int, Run::Waiting(run))
    }
    const fn row(
        &self,
        name: &'static str,
        takes: &'static [Kind],
        gives: Gives,
        run: Run,
    ) -> Function {
        Function { module: self.0, name, takes, gives, run }
    }
}

/// A string that has to be text, such as a pattern.
fn text<'a>(args: &'a Args<'_>, place: usize) -> Result<&'a str, Raised> {
    let not_text = |_| Raised::Error(format!("argument {} is not UTF-8", place + 1));
    std::str::from_utf8(args.str(place)).map_err(not_text)
}

/// Raises where a function does not work in the route that runs.
fn only_in(context: &Context, routes: &[RouteKind]) -> Result<(), Raised> {
    let route = context.tm.route;
    if routes.contains(&route) {
        return Ok(());
    }
    Err(Raised::Error(format!("it can not be called in {}", route.as_str())))
}

#[cfg(test)]
mod tests;
