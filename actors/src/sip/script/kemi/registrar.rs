//! `KSR.registrar`, and what `KSR.nathelper` does for it. What is saved and found is decided in
//! [`lineway_wire::sip::registrar`]; the bindings are those of all workers.

use bytes::Bytes;
use lineway_wire::sip::hop::BAD_URI;
use lineway_wire::sip::message::{Method, Uri};
use lineway_wire::sip::own::Transport;
use lineway_wire::sip::registrar::{
    self, LONGEST_URI, Missed, Origin, Refusal, Register, Saved, aor, error_line,
};

use super::var::{self, Fresh, Name, held};
use super::{Module, STR, STR_INT, STR2, sl};
use crate::metrics::{SipLookup, SipRegistration};
use crate::sip::script::Context;
use crate::sip::script::function::{Function, Given, Raised};

const REGISTRAR: Module = Module("registrar");
const NATHELPER: Module = Module("nathelper");

/// The variable in which a script has the real address of a phone, as Kamailio's usual script does.
const RECEIVED: &[u8] = b"$avp(RECEIVED)";

/// Flags of `save`.
mod flag {
    /// No reply is made.
    pub(super) const NO_REPLY: i64 = 2;
    /// The address keeps one binding.
    pub(super) const ONE: i64 = 4;
}

/// The functions of these modules.
pub(super) static FUNCTIONS: &[Function] = &[
    REGISTRAR
        .int("save", STR_INT, |context, args| Ok(save(context, args.str(0), args.int(1))?.into())),
    REGISTRAR.int("lookup", STR, |context, args| {
        let result = lookup(context, args.str(0))?;
        if let Some(metrics) = context.env.shared.metrics() {
            metrics.registrar.looked_up(match result {
                1 => SipLookup::Found,
                -1 => SipLookup::Missing,
                _ => SipLookup::Failed,
            });
        }
        Ok(result.into())
    }),
    REGISTRAR.int("registered", STR, |context, args| {
        let is_there = address(context.draft.uri()).is_some_and(|aor| {
            let locations = &context.env.shared.locations;
            locations.read(args.str(0), &aor, context.now, registrar::is_registered)
        });
        Ok(Given::Int(if is_there { 1 } else { -1 }))
    }),
    REGISTRAR.int("unregister", STR2, |context, args| match address(args.str(1)) {
        Some(aor) => {
            let removed = context.env.shared.locations.remove(args.str(0), &aor);
            count(context, SipRegistration::Removed, removed);
            Ok(Given::Int(1))
        }
        None => Ok(Given::Int(-1)),
    }),
    NATHELPER.int("fix_nated_register", &[], |context, _| {
        let source = context.draft.received.source;
        let transport = match context.draft.received.transport {
            Transport::Udp => "",
            Transport::Tcp => ";transport=tcp",
        };
        let received = format!("sip:{source}{transport}");
        let Some(name) = Name::parse(RECEIVED) else { return Ok(Given::Int(-1)) };
        var::write(context, &name, Fresh::Text(received.as_bytes()))?;
        Ok(Given::Int(1))
    }),
];

/// Counts what happened to bindings.
fn count(context: &Context, what: SipRegistration, count: usize) {
    if let Some(metrics) = context.env.shared.metrics().filter(|_| count > 0) {
        metrics.registrar.registered(what, count as u64);
    }
}

/// The address of record of a URI.
fn address(uri: &[u8]) -> Option<Vec<u8>> {
    aor(&Uri::parse(uri).ok()?).ok()
}

/// Saves what a REGISTER says and answers it: 1 bindings were made, 2 refreshed, 3 removed, 4 it
/// asked for them; -1 it was refused, -2 because there are too many.
fn save(context: &mut Context, table: &[u8], flags: i64) -> Result<i64, Raised> {
    let message = &context.draft.message;
    if !message.is_request() || message.method() != Method::Register {
        return Ok(-1);
    }
    let settings = &context.env.settings.stateful;
    let rules = settings.rules();
    let most = usize::try_from(settings.max_bindings).unwrap_or(usize::MAX);
    let locations = &context.env.shared.locations;
    let saved = Register::read(message, &rules).and_then(|register| {
        let origin = origin(context, flags & flag::ONE != 0)?;
        locations.save(table, &register, origin, &rules, most, context.now)
    });
    let (result, code, reason, lines) = match saved {
        Ok((update, lines)) => {
            let result = match update.saved {
                Saved::Inserted => 1,
                Saved::Updated => 2,
                Saved::Removed => 3,
                Saved::Listed => 4,
            };
            count(context, SipRegistration::Registered, update.made);
            count(context, SipRegistration::Refreshed, update.refreshed);
            count(context, SipRegistration::Removed, update.removed);
            count(context, SipRegistration::Expired, update.expired);
            (result, 200, "OK", lines)
        }
        Err(refusal) => {
            count(context, SipRegistration::Refused, 1);
            let result = if refusal.code == 503 { -2 } else { -1 };
            (result, refusal.code, refusal.reason, vec![error_line(&refusal)])
        }
    };
    if flags & flag::NO_REPLY == 0 {
        let own = context.draft.reply_lines.len();
        context.draft.reply_lines.extend(lines);
        let replied = sl::reply(context, code, reason.as_bytes());
        context.draft.reply_lines.truncate(own);
        replied?;
    }
    Ok(result)
}

/// Where the message that is at work came from.
fn origin(context: &Context, only_one: bool) -> Result<Origin, Refusal> {
    let received = Name::parse(RECEIVED).and_then(|name| match var::read(context, &name) {
        Ok(Given::Shared(received)) => Some(received),
        Ok(Given::Str(received)) => Some(Bytes::copy_from_slice(received)),
        _ => None,
    });
    if let Some(received) = &received {
        if received.len() > LONGEST_URI {
            return Err(Refusal::LONG_CONTACT);
        }
        Uri::parse(received).map_err(|_| Refusal::BAD_CONTACT)?;
    }
    let socket = context.env.own.socket(context.draft.received.socket);
    Ok(Origin {
        received,
        socket: socket.map(|socket| (socket.transport, socket.address)),
        flags: context.draft.branch_flags,
        only_one,
        ruid: 0,
    })
}

/// Makes the bindings of the Request-URI's address the targets of the request: 1, -1 without one,
/// -2 where none takes the method, -3 for a Request-URI that can not be read.
fn lookup(context: &mut Context, table: &[u8]) -> Result<i64, Raised> {
    let (draft, env) = (&context.draft, &context.env);
    let Ok(uri) = Uri::parse(draft.uri()) else {
        context.draft.failure = Some(BAD_URI);
        return Ok(-3);
    };
    let Ok(aor) = aor(&uri) else { return Ok(-1) };
    let most = usize::try_from(env.settings.max_branches).unwrap_or(usize::MAX);
    let most = most.saturating_sub(draft.branches.len()).max(1);
    let method = draft.message.method();
    let found = env.shared.locations.read(table, &aor, context.now, |bindings, now| {
        registrar::lookup(bindings, &uri, method, &env.own, most, now)
    });
    let targets = match found {
        Ok(targets) => targets,
        Err(Missed::Unknown) => return Ok(-1),
        Err(Missed::Method) => return Ok(-2),
    };
    for target in &targets {
        let texts = [Some(&target.uri), target.dst_uri.as_ref(), target.path.as_ref()];
        held(&mut context.vars, texts.into_iter().flatten().map(Bytes::len).sum())?;
    }
    let mut targets = targets.into_iter();
    let Some(first) = targets.next() else { return Ok(-1) };
    let draft = &mut context.draft;
    (draft.uri, draft.dst_uri, draft.q) = (Some(first.uri), first.dst_uri, first.q);
    draft.path = first.path;
    draft.force_socket = first.socket.or(draft.force_socket);
    draft.branch_flags |= first.flags;
    draft.branches.extend(targets);
    Ok(1)
}
