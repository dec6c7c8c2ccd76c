//! `KSR.tm` and `KSR.tmx`: transactions, their routes, and what a script decides about them
//! (contract 2.11 to 2.14). What needs the machinery is a [`Want`]; everything else is read from and
//! left in the invocation's [`Tm`].

mod contacts;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lineway_wire::sip::message::Method;
use lineway_wire::sip::own::Transport;
use lineway_wire::sip::textops::Flags;

use super::edit::pattern;
use super::{INT, INT_STR, INT2, Module, STR, STR2_INT, only_in, sl, text};
use crate::sip::script::function::{Answer, Args, Function, Given, Raised};
use crate::sip::script::tm::{Branches, RelayTo, RouteKind, Tm, TmWant};
use crate::sip::script::{Context, Want};

const TM: Module = Module("tm");
const TMX: Module = Module("tmx");

/// The longest time that a script may set.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What may stand in front of the name of a branch failure route.
const EVENT: &str = "tm:branch-failure:";

/// What `t_newtran` gives where there is a transaction already.
const THERE_ALREADY: i64 = -10;

/// A time that a script gives: `None` for 0, which leaves one as it is; an error for what is none.
type Time = Result<Option<Duration>, ()>;

/// A function that asks which route runs.
macro_rules! is_route {
    ($name:literal, $($kind:ident)|+) => {
        TMX.int($name, &[], |context, _| {
            Ok(yes(matches!(context.tm.route, $(RouteKind::$kind)|+)))
        })
    };
}

/// The functions of both modules.
pub(super) static FUNCTIONS: &[Function] = &[
    TM.waits("t_relay", &[], |context, _| relay(context, None)),
    TM.waits("t_relay_to_proto_addr", STR2_INT, |context, args| {
        let (transport, host) = (Transport::of(args.str(0)), args.str(1));
        match (transport, u16::try_from(args.int(2))) {
            (Some(transport), Ok(port)) if is_host(host) => {
                let host = Bytes::copy_from_slice(host);
                relay(context, Some(RelayTo { transport, host, port }))
            }
            _ => Ok(Given::Int(-1)),
        }
    }),
    TM.waits("t_newtran", &[], |context, _| {
        Ok(match (context.tm.transaction, context.tm.route) {
            (Some(_), _) => Given::Int(THERE_ALREADY),
            (None, RouteKind::Request) => Given::Wait(Want::Tm(TmWant::NewTransaction)),
            (None, _) => Given::Int(-1),
        })
    }),
    TM.waits("t_reply", INT_STR, |context, args| reply(context, args.int(0), args.str(1))),
    TM.waits("t_release", &[], |context, _| {
        let is_there = context.tm.transaction.is_some() && context.tm.route == RouteKind::Request;
        Ok(if is_there { Given::Wait(Want::Tm(TmWant::Release)) } else { Given::Int(1) })
    }),
    TM.waits("t_check_trans", &[], |context, _| Ok(asks(context, TmWant::CheckTrans))),
    TM.waits("t_lookup_request", &[], |context, _| Ok(asks(context, TmWant::LookupRequest))),
    TM.waits("t_lookup_cancel", &[], |context, _| {
        let is_cancel = context.draft.message.method() == Method::Cancel;
        let asks = is_cancel && context.tm.route == RouteKind::Request;
        Ok(if asks { Given::Wait(Want::Tm(TmWant::LookupCancel)) } else { Given::Int(-1) })
    }),
    TM.int("t_is_set", STR, |context, args| {
        let armed = &context.tm.armed;
        Ok(yes(match args.str(0) {
            b"branch_route" => armed.branch.is_some(),
            b"onreply_route" => armed.reply.is_some(),
            b"failure_route" => armed.failure.is_some(),
            _ => false,
        }))
    }),
    TM.int("t_on_branch", STR, |context, args| arm(&mut context.tm.armed.branch, args, "")),
    TM.int("t_on_reply", STR, |context, args| arm(&mut context.tm.armed.reply, args, "")),
    TM.int("t_on_failure", STR, |context, args| arm(&mut context.tm.armed.failure, args, "")),
    TM.int("t_on_branch_failure", STR, |context, args| {
        arm(&mut context.tm.armed.branch_failure, args, EVENT)
    }),
    TM.int("t_is_canceled", &[], |context, _| Ok(yes(context.tm.cancelled))),
    TM.int("t_is_expired", &[], |context, _| Ok(yes(context.tm.expired))),
    TM.int("t_check_status", STR, |context, args| {
        let pattern = pattern(context, args.str(0), Flags::default())?;
        let code = match context.tm.reply_code {
            0 => context.draft.message.status(),
            code => code,
        };
        Ok(yes(code > 0 && pattern.is_match(code.to_string().as_bytes())))
    }),
    TM.int("t_grep_status", INT, |context, args| {
        let code = u16::try_from(args.int(0)).unwrap_or(0);
        let finals = context.tm.failed.iter().flat_map(|failed| &failed.finals);
        let mut codes = finals.map(|one| one.code);
        Ok(yes(code > 0 && codes.any(|there| there == code)))
    }),
    TM.int("t_any_timeout", &[], |context, _| {
        let mut finals = context.tm.failed.iter().flat_map(|failed| &failed.finals);
        Ok(yes(branch_timeout(&context.tm) || finals.any(|one| one.timed_out)))
    }),
    TM.int("t_any_replied", &[], |context, _| {
        let others = context.tm.failed.iter().flat_map(|failed| {
            let winner = failed.winner.branch;
            failed.finals.iter().filter(move |one| one.branch != winner)
        });
        Ok(yes(branch_replied(&context.tm) || others.into_iter().any(|one| !one.timed_out)))
    }),
    TM.int("t_branch_timeout", &[], |context, _| Ok(yes(branch_timeout(&context.tm)))),
    TM.int("t_branch_replied", &[], |context, _| Ok(yes(branch_replied(&context.tm)))),
    TM.int("t_set_fr", INT2, |context, args| {
        let (fr_inv, fr) = (time(args.int(0)), time(args.int(1)));
        let timing = &mut context.tm.timing;
        Ok(set([(&mut timing.fr_inv, fr_inv), (&mut timing.fr, fr)]))
    }),
    TM.int("t_set_fr_inv", INT, |context, args| {
        Ok(set([(&mut context.tm.timing.fr_inv, time(args.int(0)))]))
    }),
    TM.int("t_reset_fr", &[], |context, _| {
        let settings = &context.env.settings.stateful;
        context.tm.timing.fr = Some(settings.fr_timer.duration());
        context.tm.timing.fr_inv = Some(settings.fr_inv_timer.duration());
        Ok(Given::Int(1))
    }),
    TM.int("t_set_retr", INT2, |context, args| {
        let (t1, t2) = (time(args.int(0)), time(args.int(1)));
        let timing = &mut context.tm.timing;
        Ok(set([(&mut timing.t1, t1), (&mut timing.t2, t2)]))
    }),
    TM.int("t_reset_retr", &[], |context, _| {
        let settings = &context.env.settings.stateful;
        context.tm.timing.t1 = Some(settings.retr_timer1.duration());
        context.tm.timing.t2 = Some(settings.retr_timer2.duration());
        Ok(Given::Int(1))
    }),
    TM.int("t_set_max_lifetime", INT2, |context, args| {
        let (invite, other) = (time(args.int(0)), time(args.int(1)));
        let timing = &mut context.tm.timing;
        Ok(set([(&mut timing.max_inv, invite), (&mut timing.max_noninv, other)]))
    }),
    TM.int("t_drop_replies", STR, |context, args| match args.str(0) {
        [which @ (b'a' | b'l' | b'n')] => {
            context.tm.drop_replies = Some(char::from(*which));
            Ok(Given::Int(1))
        }
        _ => Ok(Given::Int(-1)),
    }),
    TM.int("t_drop_replies_all", &[], |context, _| {
        context.tm.drop_replies = Some('a');
        Ok(Given::Int(1))
    }),
    TM.int("t_load_contacts", &[], |context, _| Ok(contacts::load(context).into())),
    TM.int("t_next_contacts", &[], |context, _| Ok(contacts::next(context).into())),
    TMX.waits("t_precheck_trans", &[], |context, _| {
        let is_fresh = context.tm.transaction.is_none() && context.tm.route == RouteKind::Request;
        Ok(if is_fresh { Given::Wait(Want::Tm(TmWant::PrecheckTrans)) } else { Given::Int(-1) })
    }),
    TMX.int("t_cancel_branches", STR, |context, args| {
        let which = match args.str(0) {
            b"all" => Some(Branches::All),
            b"others" => Some(Branches::Others),
            b"this" => Some(Branches::This),
            _ => None,
        };
        let which = which.filter(|_| context.tm.route == RouteKind::BranchReply);
        context.tm.cancel_branches = which.or(context.tm.cancel_branches);
        Ok(yes(which.is_some()))
    }),
    is_route!("t_is_branch_route", Branch),
    is_route!("t_is_failure_route", Failure),
    is_route!("t_is_reply_route", Reply | BranchReply),
    is_route!("t_is_request_route", Request),
];

/// 1 or -1.
const fn yes(is: bool) -> Given<'static> {
    Given::Int(if is { 1 } else { -1 })
}

/// Sends the request on as a transaction, or in a failure route to further targets.
fn relay(context: &Context, to: Option<RelayTo>) -> Answer<'static> {
    only_in(context, &[RouteKind::Request, RouteKind::Failure])?;
    // Whoever has its final needs no further branch.
    let is_over = context.answered && context.tm.transaction.is_some();
    Ok(if is_over { Given::Int(-1) } else { Given::Wait(Want::Tm(TmWant::Relay(to))) })
}

/// Answers by the transaction, which the request gets if it has none.
fn reply(context: &mut Context, code: i64, reason: &[u8]) -> Answer<'static> {
    let Some(code) = sl::status(code).filter(|_| sl::is_reason(reason)) else {
        return Ok(Given::Int(-1));
    };
    if context.tm.transaction.is_some() {
        return Ok(sl::send(context, code, reason)?.into());
    }
    let can = context.tm.route == RouteKind::Request
        && context.draft.message.method() != Method::Ack
        && !context.answered;
    if !can {
        return Ok(Given::Int(-1));
    }
    if code >= 200 {
        context.tm.owed = None;
    }
    let reason = Bytes::copy_from_slice(reason);
    Ok(Given::Wait(Want::Tm(TmWant::Reply { code, reason })))
}

/// Asks for the transaction of a request; of one that has it there is nothing to ask.
fn asks(context: &Context, want: TmWant) -> Given<'static> {
    match (context.tm.transaction, context.tm.route) {
        (Some(_), _) => Given::Int(1),
        (None, RouteKind::Request | RouteKind::Reply) => Given::Wait(Want::Tm(want)),
        (None, _) => Given::Int(-1),
    }
}

/// Arms a route by the name of its function; an empty one disarms it.
fn arm(route: &mut Option<Arc<str>>, args: &Args<'_>, prefix: &str) -> Answer<'static> {
    let name = text(args, 0)?;
    let name = name.strip_prefix(prefix).unwrap_or(name);
    if name.is_empty() {
        *route = None;
    } else if route.as_deref() != Some(name) {
        if !args.is_function(name) {
            return Err(Raised::Error(format!("there is no function {name}")));
        }
        *route = Some(Arc::from(name));
    }
    Ok(Given::Int(1))
}

/// A time in milliseconds.
fn time(millis: i64) -> Time {
    let time = u64::try_from(millis).map(Duration::from_millis).map_err(|_| ())?;
    if time > LONGEST { Err(()) } else { Ok(Some(time).filter(|time| !time.is_zero())) }
}

/// Sets times, all or, if one is none, nothing.
fn set<const N: usize>(times: [(&mut Option<Duration>, Time); N]) -> Given<'static> {
    if times.iter().any(|(_, time)| time.is_err()) {
        return Given::Int(-1);
    }
    for (place, time) in times {
        *place = time.ok().flatten().or(*place);
    }
    Given::Int(1)
}

/// Whether the branch at hand, or in a failure route the winner, timed out.
fn branch_timeout(tm: &Tm) -> bool {
    match &tm.failed {
        Some(failed) => failed.winner.timed_out,
        None => tm.branch_timed_out,
    }
}

/// Whether it had a reply before the one that it is about.
fn branch_replied(tm: &Tm) -> bool {
    tm.failed.as_ref().map_or(tm.branch_replied, |failed| failed.winner_replied)
}

/// Whether a text can be a host: a name, or an address, that of IPv6 in brackets.
fn is_host(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(byte);
    !text.is_empty() && text.len() <= 255 && text.iter().all(is_part)
}
