//! `KSR` itself: logs, questions about the message, flags, where it goes.

use std::borrow::Cow;

use bytes::Bytes;
use lineway_wire::sip::draft::Draft;
use lineway_wire::sip::message::{Method, Uri, host_ip};
use lineway_wire::sip::own::{Own, Transport};
use lineway_wire::sip::rewrite;

use super::var::{self, Whose};
use super::{INT, Module, STR, only_in};
use crate::sip::script::function::{Answer, Args, Function, Given, Gives, Run};
use crate::sip::script::tm::RouteKind;
use crate::sip::script::{Context, Want, fault};

const KSR: Module = Module("");

/// A function that asks for a method.
macro_rules! is {
    ($name:literal, $method:ident) => {
        KSR.bool($name, &[], |context, _| {
            Ok((context.draft.message.method() == Method::$method).into())
        })
    };
}

/// The functions of `KSR`.
pub(super) static FUNCTIONS: &[Function] = &[
    log("dbg", |context, args| {
        tracing::debug!(node = node(&context), script = %args.script, "{}", line(args));
        Ok(Given::Nil)
    }),
    log("info", |context, args| {
        tracing::info!(node = node(&context), script = %args.script, "{}", line(args));
        Ok(Given::Nil)
    }),
    log("notice", |context, args| {
        tracing::info!(node = node(&context), script = %args.script, "{}", line(args));
        Ok(Given::Nil)
    }),
    log("warn", |context, args| {
        tracing::warn!(node = node(&context), script = %args.script, "{}", line(args));
        Ok(Given::Nil)
    }),
    log("err", |context, args| {
        tracing::error!(node = node(&context), script = %args.script, "{}", line(args));
        Ok(Given::Nil)
    }),
    KSR.bool("is_method", STR, |context, args| {
        let method = context.draft.message.method().as_bytes();
        let mut names = args.str(0).split(|byte| *byte == b'|');
        Ok(names.any(|name| name.trim_ascii().eq_ignore_ascii_case(method)).into())
    }),
    KSR.bool("is_method_in", STR, |context, args| {
        let letter = letter(context.draft.message.method());
        Ok(letter.is_some_and(|letter| args.str(0).to_ascii_uppercase().contains(&letter)).into())
    }),
    is!("is_INVITE", Invite),
    is!("is_ACK", Ack),
    is!("is_BYE", Bye),
    is!("is_CANCEL", Cancel),
    is!("is_REGISTER", Register),
    is!("is_OPTIONS", Options),
    is!("is_SUBSCRIBE", Subscribe),
    is!("is_NOTIFY", Notify),
    is!("is_PUBLISH", Publish),
    is!("is_MESSAGE", Message),
    is!("is_INFO", Info),
    is!("is_UPDATE", Update),
    is!("is_PRACK", Prack),
    is!("is_REFER", Refer),
    KSR.bool("is_UDP", &[], |context, _| {
        Ok((context.draft.received.transport == Transport::Udp).into())
    }),
    KSR.bool("is_TCP", &[], |context, _| {
        Ok((context.draft.received.transport == Transport::Tcp).into())
    }),
    KSR.bool("is_myself", STR, |context, args| Ok(is_myself(&context.env.own, args.str(0)).into())),
    KSR.bool("is_myself_furi", &[], |context, _| Ok(is_own(context, Whose::From).into())),
    KSR.bool("is_myself_ruri", &[], |context, _| Ok(is_own(context, Whose::Request).into())),
    KSR.bool("is_myself_turi", &[], |context, _| Ok(is_own(context, Whose::To).into())),
    KSR.bool("is_myself_srcip", &[], |context, _| {
        let source = context.draft.received.source.ip().to_canonical();
        let mut sockets = context.env.own.sockets.iter();
        Ok(sockets.any(|socket| socket.address.ip().to_canonical() == source).into())
    }),
    KSR.bool("setflag", INT, |context, args| {
        Ok(set(&mut context.draft.flags, args.int(0), true).into())
    }),
    KSR.bool("resetflag", INT, |context, args| {
        Ok(set(&mut context.draft.flags, args.int(0), false).into())
    }),
    KSR.bool("isflagset", INT, |context, args| Ok(is_set(context.draft.flags, args.int(0)).into())),
    KSR.bool("setbflag", INT, |context, args| {
        Ok(set(&mut context.draft.branch_flags, args.int(0), true).into())
    }),
    KSR.bool("resetbflag", INT, |context, args| {
        Ok(set(&mut context.draft.branch_flags, args.int(0), false).into())
    }),
    KSR.bool("isbflagset", INT, |context, args| {
        Ok(is_set(context.draft.branch_flags, args.int(0)).into())
    }),
    KSR.bool("setdsturi", STR, |context, args| {
        Ok(var::set_destination(context, args.str(0))?.into())
    }),
    KSR.bool("resetdsturi", &[], |context, _| {
        context.tm.used = None;
        Ok(done(&mut context.draft, |draft| draft.dst_uri = None))
    }),
    KSR.bool("isdsturiset", &[], |context, _| Ok(context.draft.dst_uri.is_some().into())),
    KSR.bool("seturi", STR, |context, args| Ok(var::set_request_uri(context, args.str(0))?.into())),
    KSR.bool("setuser", STR, |context, args| Ok(var::set_user(context, args.str(0))?.into())),
    KSR.bool("sethost", STR, |context, args| {
        Ok(var::set_part(context, rewrite::Part::Host(args.str(0)))?.into())
    }),
    KSR.bool("force_rport", &[], |context, _| {
        Ok(done(&mut context.draft, |draft| draft.force_rport = true))
    }),
    KSR.bool("add_local_rport", &[], |context, _| {
        Ok(done(&mut context.draft, |draft| draft.local_rport = true))
    }),
    KSR.bool("set_reply_close", &[], |context, _| {
        Ok(done(&mut context.draft, |draft| draft.reply_close = true))
    }),
    KSR.bool("set_reply_no_connect", &[], |context, _| {
        Ok(done(&mut context.draft, |draft| draft.reply_no_connect = true))
    }),
    KSR.waits("forward", &[], |context, _| forward(context, None)),
    KSR.waits("forward_uri", STR, |context, args| {
        let uri = args.str(0);
        // An empty one is the place that it goes to anyway.
        let uri = (!uri.is_empty()).then(|| Bytes::copy_from_slice(uri));
        forward(context, uri)
    }),
    // It marks the message, as `KSR.x.drop` does, and the script goes on.
    KSR.row(
        "drop",
        &[],
        Gives::None,
        Run::Message(|context, _| {
            context.dropped = true;
            Ok(Given::Nil)
        }),
    ),
];

const fn log(
    name: &'static str,
    run: for<'c> fn(Option<&'c mut Context>, &'c Args<'_>) -> Answer<'c>,
) -> Function {
    KSR.row(name, STR, Gives::None, Run::Anytime(run))
}

/// The node's name; none while a script is loaded.
fn node<'a>(context: &'a Option<&mut Context>) -> Option<&'a str> {
    context.as_ref().map(|context| context.env.node.as_ref())
}

/// What is logged.
fn line<'a>(args: &'a Args<'_>) -> Cow<'a, str> {
    fault::one_line(args.str(0))
}

/// The letter of a method, as `is_method_in` has it.
const fn letter(method: Method<'_>) -> Option<u8> {
    Some(match method {
        Method::Invite => b'I',
        Method::Ack => b'A',
        Method::Bye => b'B',
        Method::Cancel => b'C',
        Method::Options => b'O',
        Method::Register => b'R',
        Method::Prack => b'E',
        Method::Subscribe => b'S',
        Method::Notify => b'N',
        Method::Publish => b'P',
        Method::Refer => b'F',
        Method::Message => b'M',
        Method::Update => b'U',
        Method::Info | Method::Other(_) => return None,
    })
}

/// Whether a URI, `[transport:]host:port` or a host alone, then with any port, is own.
fn is_myself(own: &Own, text: &[u8]) -> bool {
    if let Ok(uri) = Uri::parse(text)
        && uri.is_sip()
    {
        return own.is_own_uri(&uri);
    }
    let (transport, rest) = match text.iter().position(|byte| *byte == b':') {
        Some(at) => match Transport::of(&text[..at]) {
            Some(transport) => (Some(transport), &text[at + 1..]),
            None => (None, text),
        },
        None => (None, text),
    };
    let port_at =
        rest.iter().rposition(|byte| *byte == b':').filter(|at| !rest[*at..].contains(&b']'));
    let Some(at) = port_at else {
        let same = |host: &[u8]| {
            host.eq_ignore_ascii_case(rest)
                || host_ip(host).is_some_and(|ip| Some(ip) == host_ip(rest))
        };
        return own.is_own(rest, None, transport)
            || own.sockets.iter().any(|socket| {
                transport.is_none_or(|transport| transport == socket.transport)
                    && (same(&socket.host) || host_ip(rest) == Some(socket.address.ip()))
            });
    };
    let port = std::str::from_utf8(&rest[at + 1..]).ok().and_then(|port| port.parse().ok());
    port.is_some_and(|port| own.is_own(&rest[..at], Some(port), transport))
}

fn is_own(context: &Context, whose: Whose) -> bool {
    let uri = var::uri(&context.draft, whose).and_then(|uri| Uri::parse(uri).ok());
    uri.is_some_and(|uri| context.env.own.is_own_uri(&uri))
}

/// Sets or clears a flag; false for one that there is not.
fn set(flags: &mut u32, flag: i64, on: bool) -> bool {
    let Some(bit) = bit(flag) else { return false };
    *flags = if on { *flags | bit } else { *flags & !bit };
    true
}

fn is_set(flags: u32, flag: i64) -> bool {
    bit(flag).is_some_and(|bit| flags & bit != 0)
}

fn bit(flag: i64) -> Option<u32> {
    u32::try_from(flag).ok().and_then(|flag| 1_u32.checked_shl(flag))
}

fn done(draft: &mut Draft, change: impl FnOnce(&mut Draft)) -> Given<'static> {
    change(draft);
    Given::Bool(true)
}

/// Sends a request on; a reply goes on by itself.
fn forward(context: &Context, uri: Option<Bytes>) -> Answer<'static> {
    only_in(context, &[RouteKind::Request, RouteKind::Reply])?;
    if context.draft.message.is_request() {
        Ok(Given::Wait(Want::Forward { uri }))
    } else {
        Ok(Given::Int(-1))
    }
}
