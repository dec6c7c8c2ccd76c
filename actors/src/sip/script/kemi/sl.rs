//! `KSR.sl`: replies that need no state.

use bytes::Bytes;

use super::var::held;
use super::{INT_STR, Module, STR2};
use crate::sip::back::Way;
use crate::sip::script::function::{Answer, Function, Given, Raised};
use crate::sip::script::{Context, Effect, Want};

const SL: Module = Module("sl");

/// What an error is answered with that nothing says more of.
const UNKNOWN_ERROR: &str = "I'm terribly sorry, server error occurred (1/SL)";

/// The functions of `KSR.sl`.
pub(super) static FUNCTIONS: &[Function] = &[
    SL.int("sl_send_reply", INT_STR, |context, args| send(context, args.int(0), args.str(1))),
    SL.int("send_reply", INT_STR, |context, args| send(context, args.int(0), args.str(1))),
    SL.int("sl_reply_error", &[], |context, _| match context.draft.failure {
        Some(failure) if failure.code != 500 => {
            let reason = format!("{} ({}/SL)", failure.reason, failure.code);
            Ok(reply(context, failure.code, reason.as_bytes())?.into())
        }
        _ => Ok(reply(context, 500, UNKNOWN_ERROR.as_bytes())?.into()),
    }),
    SL.waits("sl_forward_reply", STR2, |context, args| {
        Ok(forward_reply(context, args.str(0), args.str(1)))
    }),
];

/// Answers the request: 1, or -1 for an ACK, for a reply, and for what is no status or reason.
pub(super) fn reply(context: &mut Context, code: u16, reason: &[u8]) -> Result<i64, Raised> {
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
    context.answered |= code >= 200;
    Ok(1)
}

fn send(context: &mut Context, code: i64, reason: &[u8]) -> Answer<'static> {
    match status(code) {
        Some(code) => Ok(reply(context, code, reason)?.into()),
        None => Ok(Given::Int(-1)),
    }
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

fn status(code: i64) -> Option<u16> {
    u16::try_from(code).ok().filter(|code| (100..700).contains(code))
}

/// Whether a text can stand in a status line.
fn is_reason(text: &[u8]) -> bool {
    !text.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t')
}
