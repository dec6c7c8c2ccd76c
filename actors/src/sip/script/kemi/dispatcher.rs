//! `KSR.dispatcher`: requests go to one of several targets.

use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::sync::Arc;

use lineway_wire::sip::message::Uri;

use super::{INT, INT2, Module, auth};
use crate::sip::dispatcher::{Algorithm, Selection};
use crate::sip::script::Context;
use crate::sip::script::function::{Answer, Args, Function, Given, Raised};

const DISPATCHER: Module = Module("dispatcher");

/// The functions of this module.
pub(super) static FUNCTIONS: &[Function] = &[
    DISPATCHER.int("ds_select_dst", INT2, select),
    DISPATCHER.int("ds_next_dst", &[], |context, _| {
        let now = context.now;
        let next = context.vars.dispatched.as_deref_mut().is_some_and(|chosen| chosen.next(now));
        Ok(Given::Int(if next { go_there(context) } else { -1 }))
    }),
    DISPATCHER.int("ds_mark_dst", &[], |context, _| {
        let dispatcher = &context.env.shared.dispatcher;
        let chosen = context.vars.dispatched.as_deref().map(Selection::current);
        chosen.inspect(|target| dispatcher.mark_failed(target, context.now));
        Ok(Given::Int(if chosen.is_some() { 1 } else { -1 }))
    }),
    DISPATCHER.int("ds_is_from_list", INT, |context, args| {
        let is_there = context.env.targets.has_source(args.int(0), &context.draft.received);
        Ok(Given::Int(if is_there { 1 } else { -1 }))
    }),
];

fn select(context: &mut Context, args: &Args<'_>) -> Answer<'static> {
    let by = algorithm(context, args.int(1))?;
    if !context.draft.message.is_request() {
        return Ok(Given::Int(-1));
    }
    let chosen = context.env.targets.select(args.int(0), by, context.now);
    context.vars.dispatched = chosen.map(Box::new);
    Ok(Given::Int(go_there(context)))
}

/// Sends the request to the chosen target: 1, or -1 without one.
fn go_there(context: &mut Context) -> i64 {
    let Some(chosen) = &context.vars.dispatched else { return -1 };
    context.draft.dst_uri = Some(Arc::clone(chosen.current()).uri().clone());
    1
}

/// The algorithm of this number.
fn algorithm(context: &Context, number: i64) -> Result<Algorithm, Raised> {
    let (draft, message) = (&context.draft, &context.draft.message);
    Ok(match number {
        0 => Algorithm::Hash(hash(message.call_id())),
        1 => Algorithm::Hash(hash(message.from().uri)),
        2 => Algorithm::Hash(hash(message.to().uri)),
        3 => {
            let user = Uri::parse(draft.uri()).ok().and_then(|uri| uri.user);
            Algorithm::Hash(hash(user.unwrap_or_else(|| draft.uri())))
        }
        4 => Algorithm::Turn,
        5 => match auth::part(context, auth::Part::WholeUser) {
            Given::Owned(user) => Algorithm::Hash(hash(&user)),
            _ => Algorithm::Turn,
        },
        6 => Algorithm::Random(RandomState::new().hash_one(0)),
        8 => Algorithm::Priority,
        9 => Algorithm::Weight,
        other => {
            let known = "0 to 6, 8 and 9";
            return Err(Raised::Error(format!("algorithm {other} is not there; {known} are")));
        }
    })
}

/// The same on every worker and in every run.
fn hash(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}
