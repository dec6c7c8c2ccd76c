//! Setting and clearing pseudo-variables.

use std::time::Duration;

use bytes::Bytes;
use lineway_wire::sip::rewrite::{self, is_clean};
use lineway_wire::sip::textops::{self, Change, Party};

use super::{Index, Name, Part, Plain, Var, Whose, expand, held};
use crate::sip::htable::Datum;
use crate::sip::script::Context;
use crate::sip::script::function::Raised;

/// A value that a script sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Fresh<'a> {
    Int(i64),
    Text(&'a [u8]),
}

impl Fresh<'_> {
    fn datum(self) -> Datum {
        match self {
            Self::Int(value) => Datum::Int(value),
            Self::Text(text) => Datum::Text(Bytes::copy_from_slice(text)),
        }
    }
}

/// Sets a variable; false where it can not be set, or not to this.
///
/// # Errors
/// The message would hold too much, or a name in it can not be read.
pub(in super::super) fn write(
    context: &mut Context,
    name: &Name<'_>,
    value: Fresh<'_>,
) -> Result<bool, Raised> {
    match (name.var, value) {
        (Var::Uri(whose, part), value) => set_uri(context, whose, part, value),
        (Var::Display(whose), Fresh::Text(name)) => {
            set_party(context, whose, Change::Display(name))
        }
        (Var::Script(script), value) => {
            context.vars.set_script(script, value.datum())?;
            Ok(true)
        }
        (Var::Avp(avp), value) => {
            let avp = expand(context, avp)?;
            if name.index == Index::All {
                context.vars.remove_avps(&avp, true);
            }
            context.vars.add_avp(&avp, value.datum())?;
            Ok(true)
        }
        (Var::Xavp(xavp), value) => context.vars.set_xavp(xavp, value.datum()),
        (Var::Table(table, key), value) => {
            let key = expand(context, key)?;
            Ok(super::super::store::set(context, table, &key, value.datum()))
        }
        (Var::TableEnd(table, key), Fresh::Int(left)) => {
            let key = expand(context, key)?;
            let left = Duration::from_secs(u64::try_from(left).unwrap_or(0));
            Ok(context.env.shared.tables.expire(table, &key, left, context.now))
        }
        (Var::Plain(Plain::Flags), Fresh::Int(flags)) => {
            Ok(u32::try_from(flags).map(|flags| context.draft.flags = flags).is_ok())
        }
        (Var::Plain(Plain::BranchFlags), Fresh::Int(flags)) => {
            Ok(u32::try_from(flags).map(|flags| context.draft.branch_flags = flags).is_ok())
        }
        _ => Ok(false),
    }
}

/// Clears a variable; false where it can not be cleared.
///
/// # Errors
/// A name in it can not be read.
pub(in super::super) fn unset(context: &mut Context, name: &Name<'_>) -> Result<bool, Raised> {
    match name.var {
        Var::Script(script) => context.vars.unset_script(script),
        Var::Avp(avp) => {
            let avp = expand(context, avp)?;
            context.vars.remove_avps(&avp, name.index == Index::All);
        }
        Var::Xavp(xavp) => context.vars.remove_xavp(xavp),
        Var::Table(table, key) => {
            let key = expand(context, key)?;
            return Ok(context.env.shared.tables.remove(table, &key));
        }
        Var::Uri(Whose::Destination, Part::Whole) => return set_destination(context, b""),
        Var::Uri(Whose::Request, Part::User) => {
            return set_part(context, rewrite::Part::User(None));
        }
        Var::Uri(Whose::Request, Part::Port) => {
            return set_part(context, rewrite::Part::Port(None));
        }
        Var::Uri(whose, Part::User) => {
            return set_party(context, whose, Change::Part(rewrite::Part::User(None)));
        }
        Var::Display(whose) => return set_party(context, whose, Change::Display(b"")),
        _ => return Ok(false),
    }
    Ok(true)
}

fn set_uri(
    context: &mut Context,
    whose: Whose,
    part: Part,
    value: Fresh<'_>,
) -> Result<bool, Raised> {
    match (whose, part, value) {
        (Whose::Request, Part::Whole, Fresh::Text(uri)) => set_request_uri(context, uri),
        (Whose::Request, Part::User, Fresh::Text(user)) => set_user(context, user),
        (Whose::Request, Part::Host, Fresh::Text(host)) => {
            set_part(context, rewrite::Part::Host(host))
        }
        (Whose::Request, Part::Port, Fresh::Text(b"")) => {
            set_part(context, rewrite::Part::Port(None))
        }
        (Whose::Request, Part::Port, value) => {
            let port = match value {
                Fresh::Int(port) => u16::try_from(port).ok(),
                Fresh::Text(port) => {
                    std::str::from_utf8(port).ok().and_then(|port| port.parse().ok())
                }
            };
            match port {
                Some(port) => set_part(context, rewrite::Part::Port(Some(port))),
                None => Ok(false),
            }
        }
        (Whose::Destination, Part::Whole, Fresh::Text(uri)) => set_destination(context, uri),
        (_, Part::Whole, Fresh::Text(uri)) => set_party(context, whose, Change::Uri(uri)),
        (_, Part::User, Fresh::Text(user)) => {
            let user = Some(user).filter(|user| !user.is_empty());
            set_party(context, whose, Change::Part(rewrite::Part::User(user)))
        }
        (_, Part::Host, Fresh::Text(host)) => {
            set_party(context, whose, Change::Part(rewrite::Part::Host(host)))
        }
        _ => Ok(false),
    }
}

/// Changes From or To; false for what is neither, and where the change does not fit.
fn set_party(context: &mut Context, whose: Whose, change: Change<'_>) -> Result<bool, Raised> {
    let party = match whose {
        Whose::From => Party::From,
        Whose::To => Party::To,
        Whose::Request | Whose::Original | Whose::Destination => return Ok(false),
    };
    let size = match change {
        Change::Uri(text) | Change::Display(text) => text.len(),
        Change::Part(rewrite::Part::User(user)) => user.map_or(0, <[u8]>::len),
        Change::Part(rewrite::Part::Host(host)) => host.len(),
        Change::Part(rewrite::Part::Port(_)) => 0,
    };
    held(&mut context.vars, size)?;
    Ok(textops::change(&mut context.draft, party, change))
}

/// `seturi`, `$ru`: false for a reply, and for what can not stand in a request line.
///
/// # Errors
/// The message would hold too much.
pub(in super::super) fn set_request_uri(context: &mut Context, uri: &[u8]) -> Result<bool, Raised> {
    if !context.draft.message.is_request() || !is_clean(uri) {
        return Ok(false);
    }
    held(&mut context.vars, uri.len())?;
    context.tm.used = None;
    context.draft.uri = Some(Bytes::copy_from_slice(uri));
    Ok(true)
}

/// `setuser`, `$rU`: an empty one takes the user out.
///
/// # Errors
/// The message would hold too much.
pub(in super::super) fn set_user(context: &mut Context, user: &[u8]) -> Result<bool, Raised> {
    set_part(context, rewrite::Part::User(Some(user).filter(|user| !user.is_empty())))
}

/// Replaces a part of the Request-URI; false where it does not fit.
///
/// # Errors
/// The message would hold too much.
pub(in super::super) fn set_part(
    context: &mut Context,
    part: rewrite::Part<'_>,
) -> Result<bool, Raised> {
    match rewrite::rewrite(context.draft.uri(), part) {
        Some(uri) => set_request_uri(context, &uri),
        None => Ok(false),
    }
}

/// `setdsturi`, `$du`; an empty one clears it.
///
/// # Errors
/// The message would hold too much.
pub(in super::super) fn set_destination(context: &mut Context, uri: &[u8]) -> Result<bool, Raised> {
    if uri.is_empty() {
        context.tm.used = None;
        context.draft.dst_uri = None;
        return Ok(true);
    }
    if !is_clean(uri) {
        return Ok(false);
    }
    held(&mut context.vars, uri.len())?;
    context.tm.used = None;
    context.draft.dst_uri = Some(Bytes::copy_from_slice(uri));
    Ok(true)
}
