//! Where requests go and what they may be: `maxfwd`, `sanity`, `rr`, `siputils`, `nathelper`,
//! `corex`.

use bytes::Bytes;
use lineway_wire::sip::draft::Target;
use lineway_wire::sip::message::Uri;
use lineway_wire::sip::rewrite::is_clean;
use lineway_wire::sip::textops::Flags;
use lineway_wire::sip::{maxfwd, nat, rr, sanity, siputils};

use super::edit::pattern;
use super::var::held;
use super::{INT, INT2, Module, STR, STR2, sl, text};
use crate::sip::script::Context;
use crate::sip::script::function::{Function, Given, Raised};

const MAXFWD: Module = Module("maxfwd");
const SANITY: Module = Module("sanity");
const RR: Module = Module("rr");
const SIPUTILS: Module = Module("siputils");
const NATHELPER: Module = Module("nathelper");
const COREX: Module = Module("corex");

/// The functions of these modules.
pub(super) static FUNCTIONS: &[Function] = &[
    MAXFWD.int("process_maxfwd", INT, |context, args| {
        edit(context, 8)?;
        Ok(maxfwd::process(&mut context.draft, args.int(0)).into())
    }),
    MAXFWD.int("is_maxfwd_lt", INT, |context, args| {
        Ok(maxfwd::is_lower(&context.draft, args.int(0)).into())
    }),
    SANITY.int("sanity_check", INT2, |context, args| {
        match sanity::check(&context.draft, args.int(0), args.int(1)) {
            None => Ok(Given::Int(1)),
            Some(failure) => {
                sl::reply(context, failure.code, failure.reason.as_bytes())?;
                Ok(Given::Int(-1))
            }
        }
    }),
    RR.int("record_route", &[], |context, _| {
        edit(context, 256)?;
        let append_fromtag = context.env.settings.append_fromtag;
        Ok(rr::record_route(&mut context.draft, append_fromtag).into())
    }),
    RR.int("record_route_preset", STR2, |context, args| {
        let (first, second) = (args.str(0), args.str(1));
        edit(context, first.len() + second.len())?;
        let append_fromtag = context.env.settings.append_fromtag;
        Ok(rr::record_route_preset(&mut context.draft, first, second, append_fromtag).into())
    }),
    RR.int("loose_route", &[], |context, _| {
        edit(context, 256)?;
        Ok(rr::loose_route(&mut context.draft, &context.env.own).into())
    }),
    RR.int("add_rr_param", STR, |context, args| {
        edit(context, args.str(0).len())?;
        Ok(rr::add_rr_param(&mut context.draft, args.str(0)).into())
    }),
    RR.int("check_route_param", STR, |context, args| {
        let pattern = pattern(context, args.str(0), Flags::default())?;
        Ok(rr::check_route_param(&context.draft, &pattern).into())
    }),
    RR.int("is_direction", STR, |context, args| {
        Ok(rr::is_direction(&context.draft, text(args, 0)?).into())
    }),
    SIPUTILS.int("has_totag", &[], |context, _| Ok(siputils::has_totag(&context.draft).into())),
    SIPUTILS.int("is_request", &[], |context, _| Ok(siputils::is_request(&context.draft).into())),
    SIPUTILS.int("is_reply", &[], |context, _| Ok(siputils::is_reply(&context.draft).into())),
    SIPUTILS.int("is_first_hop", &[], |context, _| {
        Ok(siputils::is_first_hop(&context.draft, &context.env.own).into())
    }),
    SIPUTILS.int("is_tel_number", STR, |_, args| Ok(siputils::is_tel_number(args.str(0)).into())),
    NATHELPER.int("nat_uac_test", INT, |context, args| {
        Ok(nat::nat_uac_test(&context.draft, args.int(0)).into())
    }),
    NATHELPER.int("fix_nated_contact", &[], |context, _| {
        edit(context, 256)?;
        Ok(nat::fix_nated_contact(&mut context.draft).into())
    }),
    NATHELPER.int("set_contact_alias", &[], |context, _| {
        edit(context, 256)?;
        Ok(nat::set_contact_alias(&mut context.draft).into())
    }),
    NATHELPER.int("add_contact_alias", &[], |context, _| {
        edit(context, 256)?;
        Ok(nat::add_contact_alias(&mut context.draft).into())
    }),
    NATHELPER.int("handle_ruri_alias", &[], |context, _| {
        edit(context, 256)?;
        Ok(nat::handle_ruri_alias(&mut context.draft).into())
    }),
    COREX.int("append_branch", &[], |context, _| Ok(append_branch(context, b"", None))),
    COREX.int("append_branch_uri", STR, |context, args| {
        Ok(append_branch(context, args.str(0), None))
    }),
    COREX.int("append_branch_uri_q", STR2, |context, args| match q(args.str(1)) {
        Some(q) => Ok(append_branch(context, args.str(0), Some(q))),
        None => Ok(Given::Int(-1)),
    }),
    COREX.int("has_ruri_user", &[], |context, _| {
        let user = Uri::parse(context.draft.uri()).ok().and_then(|uri| uri.user);
        Ok(Given::Int(if user.is_some_and(|user| !user.is_empty()) { 1 } else { -1 }))
    }),
];

/// Takes room for an edit of about this size.
fn edit(context: &mut Context, bytes: usize) -> Result<(), Raised> {
    held(&mut context.vars, bytes)
}

/// Adds a target: a URI, or the Request-URI and `$du` as they stand.
fn append_branch(context: &mut Context, uri: &[u8], q: Option<u16>) -> Given<'static> {
    let draft = &mut context.draft;
    // The Request-URI is the first branch.
    let most = context.env.settings.max_branches.saturating_sub(1);
    let is_full = draft.branches.len() >= usize::try_from(most).unwrap_or(usize::MAX);
    let (uri, dst_uri) = match uri {
        b"" => (Bytes::copy_from_slice(draft.uri()), draft.dst_uri.clone()),
        uri => (Bytes::copy_from_slice(uri), None),
    };
    if is_full || !draft.message.is_request() || !is_clean(&uri) {
        return Given::Int(-1);
    }
    let flags = draft.branch_flags;
    let socket = draft.force_socket;
    let path = draft.path.clone();
    draft.branches.push(Target { uri, dst_uri, q, flags, socket, path });
    Given::Int(1)
}

/// A q in thousandths: 0 to 1 with at most three digits (RFC 3261 25.1).
fn q(text: &[u8]) -> Option<u16> {
    let (whole, digits) = match text.iter().position(|byte| *byte == b'.') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    if digits.len() > 3 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let part = (0..3).fold(0, |sum, place| {
        sum * 10 + u16::from(digits.get(place).map_or(0, |digit| digit - b'0'))
    });
    match whole {
        b"0" | b"" if !text.is_empty() => Some(part),
        b"1" if part == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::q;

    #[test]
    fn a_q_is_a_number_up_to_1_with_three_digits() {
        let read =
            ["0", "1", "0.5", "0.55", "0.123", "1.000", ".7", "0."].map(|text| q(text.as_bytes()));
        let want = [0, 1000, 500, 550, 123, 1000, 700, 0].map(Some);
        assert_eq!(read, want);
        for bad in ["", "x", "2", "1.001", "0.1234", "-1", "0.5x", "1.", "0,5"] {
            let want = (bad == "1.").then_some(1000);
            assert_eq!(q(bad.as_bytes()), want, "{bad}");
        }
    }
}
