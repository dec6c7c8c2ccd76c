//! `KSR` itself: logging.

use crate::sip::script::Context;
use crate::sip::script::function::{Answer, Args, Function, Given, Kind, Run};

/// The functions of `KSR`.
pub(super) static FUNCTIONS: &[Function] = &[
    log("dbg", |context, args| {
        tracing::debug!(node = node(&context), script = %args.script, "{}", text(args));
        Ok(Given::Nil)
    }),
    log("info", |context, args| {
        tracing::info!(node = node(&context), script = %args.script, "{}", text(args));
        Ok(Given::Nil)
    }),
    log("notice", |context, args| {
        tracing::info!(node = node(&context), script = %args.script, "{}", text(args));
        Ok(Given::Nil)
    }),
    log("warn", |context, args| {
        tracing::warn!(node = node(&context), script = %args.script, "{}", text(args));
        Ok(Given::Nil)
    }),
    log("err", |context, args| {
        tracing::error!(node = node(&context), script = %args.script, "{}", text(args));
        Ok(Given::Nil)
    }),
];

const fn log(
    name: &'static str,
    run: for<'c> fn(Option<&'c mut Context>, &'c Args<'_>) -> Answer<'c>,
) -> Function {
    Function { module: "", name, takes: &[Kind::Str], run: Run::Anytime(run) }
}

/// The node's name; none while a script is loaded.
fn node<'a>(context: &'a Option<&mut Context>) -> Option<&'a str> {
    context.as_ref().map(|context| context.env.node.as_ref())
}

/// What is logged: a script's bytes as text, without the line end that scripts tend to add.
fn text<'a>(args: &'a Args<'_>) -> std::borrow::Cow<'a, str> {
    String::from_utf8_lossy(args.str(0).trim_ascii_end())
}
