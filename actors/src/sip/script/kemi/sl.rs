//! `KSR.sl`: replies that need no state, and those of a transaction where there is one.

use bytes::Bytes;
use lineway_wire::sip::draft::Failure;

use super::var::held;
use super::{INT_STR, Module, STR2, only_in};
use crate::sip::back::Way;
use crate::sip::script::function::{Function, Given, Raised};
use crate::sip::script::tm::RouteKind;
use crate::sip::script::{Context, Effect, Want};

const SL: Module = Module("sl");

/// What an error is answered with that nothing says more of.
const UNKNOWN_ERROR: &str = "I'm terribly sorry, server error occurred (1";

/// The functions of `KSR.sl`.
pub(super) static FUNCTIONS: &[Function] = &[
    SL.int("sl_send_reply", INT_STR, |context, args| match status(args.int(0)) {
        // A `t_relay` that failed has one answer, and its transaction gives it.
        Some(code) if context.tm.owed.is_some() => Ok(reply(context, code, args.str(1))?.into()),
        Some(code) => Ok(without_state(context, code, args.str(1))?.into()),
        None => Ok(Given::Int(-1)),
    }),
    SL.int("send_reply", INT_STR, |context, args| match status(args.int(0)) {
        Some(code) => Ok(send(context, code, args.str(1))?.into()),
        None => Ok(Given::Int(-1)),
    }),
    SL.int("sl_reply_error", &[], |context, _| {
        // What a failed `t_relay` owes is answered here and not once more at the end.
        let failure = context.tm.owed.take().or(context.draft.failure);
        let by = if context.tm.transaction.is_some() { "TM" } else { "SL" };
        let (code, reason) = match failure {
            Some(Failure { code, reason }) if code != 500 => {
                (code, format!("{reason} ({code}/{by})"))
            }
            _ => (500, format!("{UNKNOWN_ERROR}/{by})")),
        };
        Ok(reply(context, code, reason.as_bytes())?.into())
    }),
    SL.waits("sl_forward_reply", STR2, |context, args| {
        only_in(context, &[RouteKind::Request, RouteKind::Reply])?;
        Ok(forward_reply(context, args.str(0), args.str(1)))
    }),
];

/// Answers the request, by its transaction where it has one: 1, or -1 for an ACK, for a reply, for
/// what is no reason, and where its transaction does not take it.
pub(super) fn reply(context: &mut Context, code: u16, reason: &[u8]) -> Result<i64, Raised> {
    if !context.draft.message.is_request() {
        return Ok(-1);
    }
    send(context, code, reason)
}

/// The same, and in the reply route of a transaction too, where its request is answered.
pub(super) fn send(context: &mut Context, code: u16, reason: &[u8]) -> Result<i64, Raised> {
    if context.tm.transaction.is_some() {
        by_transaction(context, code, reason)
    } else {
        without_state(context, code, reason)
    }
}

/// Answers by the transaction: -1 behind a final of this run, in routes for one branch, and for what
/// is no reason.
fn by_transaction(context: &mut Context, code: u16, reason: &[u8]) -> Result<i64, Raised> {
    let tells = matches!(
        context.tm.route,
        RouteKind::Request | RouteKind::BranchReply | RouteKind::Failure
    );
    if !tells || context.answered || !is_reason(reason) {
        return Ok(-1);
    }
    let lines = context.draft.reply_lines.clone();
    held(&mut context.vars, reason.len() + lines.iter().map(Bytes::len).sum::<usize>())?;
    let reason = Bytes::copy_from_slice(reason);
    context.effects.push(Effect::Reply { code, reason, lines });
    if code >= 200 {
        context.answered = true;
        context.tm.owed = None;
    }
    Ok(1)
}

/// Answers the request without state.
fn without_state(context: &mut Context, code: u16, reason: &[u8]) -> Result<i64, Raised> {
    if !is_reason(reason) || !context.draft.message.is_request() {
        return Ok(-1);
    }
    let mut out = Vec::with_capacity(context.draft.message.bytes().len().min(2048));
    let env = &context.env;
    let mut sl = env.sl.borrow_mut();
    let back = sl.reply(&context.draft, code, reason, context.now, &mut out);
    drop(sl);
    let Some(back) = back else { return Ok(-1) };
    held(&mut context.vars, out.len())?;
    let way = Way::back(back, &context.draft);
    context.effects.push(Effect::Send { way, bytes: out.into(), code });
    if code >= 200 {
        context.answered = true;
        context.tm.owed = None;
    }
    Ok(1)
}

/// Sends a reply on with another status of its class, another reason, or both.
fn forward_reply(context: &Context, code: &[u8], reason: &[u8]) -> Given<'static> {
    let message = &context.draft.message;
    let code = match code {
        b"" => None,
        code => match std::str::from_utf8(code).ok().and_then(|code| code.parse().ok()) {
            Some(code) => Some(code),
            None => return Given::Int(-1),
        },
    };
    let keeps_class = code.is_none_or(|code: u16| code / 100 == message.status() / 100);
    if message.is_request() || !keeps_class || !is_reason(reason) {
        return Given::Int(-1);
    }
    let reason = (!reason.is_empty()).then(|| Bytes::copy_from_slice(reason));
    Given::Wait(Want::ForwardReply { code, reason })
}

/// A status that a reply can have.
pub(super) fn status(code: i64) -> Option<u16> {
    u16::try_from(code).ok().filter(|code| (100..700).contains(code))
}

/// Whether a text can stand in a status line.
pub(super) fn is_reason(text: &[u8]) -> bool {
    !text.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t')
}
