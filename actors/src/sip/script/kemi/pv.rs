//! `KSR.pv`: pseudo-variables by name.

use super::var::{self, Fresh, Name};
use super::{Module, STR, STR_INT, STR2};
use crate::sip::script::Context;
use crate::sip::script::function::{Answer, Function, Given, Raised};

const PV: Module = Module("pv");

/// The functions of `KSR.pv`.
pub(super) static FUNCTIONS: &[Function] = &[
    PV.value("get", STR, |context, args| read(context, args.str(0))),
    PV.value("gete", STR, |context, args| {
        read(context, args.str(0)).map(|value| var::or(value, b""))
    }),
    PV.value("getw", STR, |context, args| {
        read(context, args.str(0)).map(|value| var::or(value, b"<null>"))
    }),
    PV.bool("is_null", STR, |context, args| {
        read(context, args.str(0)).map(|value| (value == Given::Nil).into())
    }),
    PV.bool("seti", STR_INT, |context, args| {
        let name = name(args.str(0))?;
        Ok(var::write(context, &name, Fresh::Int(args.int(1)))?.into())
    }),
    PV.bool("sets", STR2, |context, args| {
        let name = name(args.str(0))?;
        Ok(var::write(context, &name, Fresh::Text(args.str(1)))?.into())
    }),
    PV.bool("unset", STR, |context, args| {
        let name = name(args.str(0))?;
        Ok(var::unset(context, &name)?.into())
    }),
];

fn name(text: &[u8]) -> Result<Name<'_>, Raised> {
    Name::parse(text).ok_or_else(|| var::unknown(text))
}

fn read<'c>(context: &'c Context, text: &[u8]) -> Answer<'c> {
    var::read(context, &name(text)?)
}
