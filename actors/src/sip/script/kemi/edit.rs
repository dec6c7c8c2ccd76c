//! Edits of headers and body: `hdr`, `textops`, `textopsx`.

use std::sync::Arc;

use lineway_wire::sip::message::Limits;
use lineway_wire::sip::textops::{self, Expression, Flags, PatternError};
use regex::bytes::Regex;

use super::var::{self, held};
use super::{Module, STR, STR2, STR3};
use crate::sip::script::Context;
use crate::sip::script::function::{Args, Function, Given, Raised};

const HDR: Module = Module("hdr");
const TEXTOPS: Module = Module("textops");
const TEXTOPSX: Module = Module("textopsx");

/// The functions of these modules.
pub(super) static FUNCTIONS: &[Function] = &[
    HDR.int("append", STR, |context, args| {
        held(&mut context.vars, args.str(0).len())?;
        Ok(textops::append(&mut context.draft, args.str(0)).into())
    }),
    HDR.int("append_after", STR2, |context, args| {
        held(&mut context.vars, args.str(0).len())?;
        Ok(textops::append_after(&mut context.draft, args.str(0), args.str(1)).into())
    }),
    HDR.int("append_to_reply", STR, |context, args| {
        held(&mut context.vars, args.str(0).len())?;
        Ok(textops::append_to_reply(&mut context.draft, args.str(0)).into())
    }),
    HDR.value("get", STR, |context, args| Ok(header(context, args))),
    HDR.value("gete", STR, |context, args| Ok(var::or(header(context, args), b""))),
    HDR.value("getw", STR, |context, args| Ok(var::or(header(context, args), b"<null>"))),
    HDR.int("insert", STR, |context, args| {
        held(&mut context.vars, args.str(0).len())?;
        Ok(textops::insert(&mut context.draft, args.str(0)).into())
    }),
    HDR.int("insert_before", STR2, |context, args| {
        held(&mut context.vars, args.str(0).len())?;
        Ok(textops::insert_before(&mut context.draft, args.str(0), args.str(1)).into())
    }),
    HDR.int("is_present", STR, |context, args| {
        Ok(textops::is_present(&context.draft, args.str(0)).into())
    }),
    HDR.int("remove", STR, |context, args| {
        Ok(textops::remove(&mut context.draft, args.str(0)).into())
    }),
    TEXTOPS.int("has_body", &[], |context, _| Ok(textops::has_body(&context.draft).into())),
    TEXTOPS.int("is_present_hf", STR, |context, args| {
        Ok(textops::is_present(&context.draft, args.str(0)).into())
    }),
    TEXTOPS.int("remove_hf", STR, |context, args| {
        Ok(textops::remove(&mut context.draft, args.str(0)).into())
    }),
    TEXTOPS.int("remove_hf_re", STR, |context, args| {
        let names = pattern(context, args.str(0), Flags::ANY_CASE)?;
        Ok(textops::remove_matching(&mut context.draft, &names).into())
    }),
    TEXTOPS.int("replace_body", STR2, |context, args| {
        held(&mut context.vars, args.str(1).len())?;
        let pattern = pattern(context, args.str(0), Flags::default())?;
        Ok(textops::replace_body(&mut context.draft, &pattern, args.str(1)).into())
    }),
    TEXTOPS.int("set_body", STR2, |context, args| {
        held(&mut context.vars, args.str(0).len() + args.str(1).len())?;
        Ok(textops::set_body(&mut context.draft, args.str(0), args.str(1)).into())
    }),
    TEXTOPS.int("subst", STR, |context, args| {
        let expression = expression(context, args.str(0))?;
        Ok(textops::subst(&mut context.draft, &expression).into())
    }),
    TEXTOPS.int("subst_body", STR, |context, args| {
        let expression = expression(context, args.str(0))?;
        Ok(textops::subst_body(&mut context.draft, &expression).into())
    }),
    TEXTOPS.int("subst_hf", STR3, |context, args| {
        let expression = expression(context, args.str(1))?;
        Ok(textops::subst_hf(&mut context.draft, args.str(0), &expression, args.str(2)).into())
    }),
    TEXTOPSX.int("msg_apply_changes", &[], |context, _| {
        // A transaction stands on the request as it was when it began (contract 3).
        let is_late = context.tm.transaction.is_some() && context.draft.message.is_request();
        if is_late {
            return Ok(Given::Int(-1));
        }
        Ok(textops::apply_changes(&mut context.draft, &Limits::default()).into())
    }),
];

/// The value of the first header of a name, without folds.
fn header<'c>(context: &'c Context, args: &Args<'_>) -> Given<'c> {
    var::unfolded(textops::get(&context.draft, args.str(0)))
}

/// A regular expression, made once and kept.
pub(super) fn pattern(context: &Context, text: &[u8], flags: Flags) -> Result<Arc<Regex>, Raised> {
    context.env.patterns.borrow_mut().get(text, flags).map_err(bad)
}

/// `/pattern/replacement/flags`, with the values of the variables in its replacement.
fn expression(context: &mut Context, text: &[u8]) -> Result<Expression, Raised> {
    held(&mut context.vars, text.len())?;
    let patterns = &context.env.patterns;
    let mut expression = Expression::parse(text, &mut patterns.borrow_mut()).map_err(bad)?;
    let (mut failed, mut size) = (None, 0);
    expression.expand(|text| match var::expand(context, text) {
        Ok(text) => {
            size += text.len();
            text.into_owned()
        }
        Err(raised) => {
            failed = Some(raised);
            Vec::new()
        }
    });
    held(&mut context.vars, size)?;
    failed.map_or(Ok(expression), Err)
}

fn bad(error: PatternError) -> Raised {
    Raised::Error(error.to_string())
}
