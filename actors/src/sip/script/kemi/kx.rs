//! `KSR.kx`: what is asked for most, by functions of their own.

use lineway_wire::sip::message::Name;

use super::var::{self, Part, Whose};
use super::{Module, STR};
use crate::settings::SipMode;
use crate::sip::script::Context;
use crate::sip::script::function::{Function, Given, Gives, Run};

const KX: Module = Module("kx");

/// The functions of `KSR.kx`.
pub(super) static FUNCTIONS: &[Function] = &[
    KX.value("get_body", &[], |context, _| {
        Ok(Some(context.draft.message.body()).filter(|body| !body.is_empty()).into())
    }),
    KX.value("get_callid", &[], |context, _| Ok(Given::Str(context.draft.message.call_id()))),
    KX.value("get_furi", &[], |context, _| Ok(part(context, Whose::From, Part::Whole))),
    KX.value("get_method", &[], |context, _| {
        Ok(Given::Str(context.draft.message.method().as_bytes()))
    }),
    KX.value("get_ruri", &[], |context, _| Ok(part(context, Whose::Request, Part::Whole))),
    KX.value("get_srcip", &[], |context, _| Ok(var::ip(context.draft.received.source.ip()))),
    KX.value("get_srcport", &[], |context, _| {
        Ok(Given::Int(context.draft.received.source.port().into()))
    }),
    KX.int("get_status", &[], |context, _| {
        let code = Some(context.draft.message.status()).filter(|code| *code > 0);
        Ok(Given::Int(code.map_or(-1, i64::from)))
    }),
    KX.value("get_turi", &[], |context, _| Ok(part(context, Whose::To, Part::Whole))),
    KX.value("get_ua", &[], |context, _| Ok(var::value(&context.draft.message, Name::UserAgent))),
    KX.value("gete_fhost", &[], |context, _| {
        Ok(var::or(part(context, Whose::From, Part::Host), b""))
    }),
    KX.value("gete_fuser", &[], |context, _| {
        Ok(var::or(part(context, Whose::From, Part::User), b""))
    }),
    KX.value("gete_rhost", &[], |context, _| {
        Ok(var::or(part(context, Whose::Request, Part::Host), b""))
    }),
    KX.value("gete_ruser", &[], |context, _| {
        Ok(var::or(part(context, Whose::Request, Part::User), b""))
    }),
    KX.value("gete_ua", &[], |context, _| {
        Ok(var::or(var::value(&context.draft.message, Name::UserAgent), b""))
    }),
    KX.row(
        "ifdef",
        STR,
        Gives::Bool,
        Run::Anytime(|context, args| {
            let is_defined = context.is_some_and(|context| {
                let settings = &context.env.settings;
                match args.str(0) {
                    b"STATEFUL" => settings.mode == SipMode::Stateful,
                    b"USERS" => !settings.stateful.users.is_empty(),
                    _ => false,
                }
            });
            Ok(Given::Bool(is_defined))
        }),
    ),
];

fn part(context: &Context, whose: Whose, part: Part) -> Given<'_> {
    let uri = var::uri(&context.draft, whose);
    uri.and_then(|uri| var::part_of(uri, part)).unwrap_or(Given::Nil)
}
