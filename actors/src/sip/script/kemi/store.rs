//! What all workers share: `htable`, `pike`, `permissions`.

use std::time::Duration;

use bytes::Bytes;
use lineway_wire::sip::textops::Flags;

use super::{INT, Module, STR2, STR2_INT, STR3, edit};
use crate::sip::htable::Datum;
use crate::sip::permissions;
use crate::sip::pike::{PikeLimits, Verdict};
use crate::sip::script::Context;
use crate::sip::script::function::{Answer, Args, Function, Given};

const HTABLE: Module = Module("htable");
const PIKE: Module = Module("pike");
const PERMISSIONS: Module = Module("permissions");

/// The functions of these modules.
pub(super) static FUNCTIONS: &[Function] = &[
    HTABLE.value("sht_get", STR2, |context, args| {
        let value = context.env.shared.tables.get(args.str(0), args.str(1), context.now);
        Ok(value.as_ref().map_or(Given::Nil, Given::from))
    }),
    HTABLE.int("sht_sets", STR3, |context, args| {
        let value = Datum::Text(Bytes::copy_from_slice(args.str(2)));
        Ok(success(set(context, args.str(0), args.str(1), value)))
    }),
    HTABLE.int("sht_seti", STR2_INT, |context, args| {
        let value = Datum::Int(args.int(2));
        Ok(success(set(context, args.str(0), args.str(1), value)))
    }),
    HTABLE.int("sht_rm", STR2, |context, args| {
        Ok(success(context.env.shared.tables.remove(args.str(0), args.str(1))))
    }),
    HTABLE.int("sht_inc", STR2, |context, args| Ok(count(context, args, 1))),
    HTABLE.int("sht_dec", STR2, |context, args| Ok(count(context, args, -1))),
    HTABLE.int("sht_setex", STR2_INT, |context, args| {
        let left = Duration::from_secs(u64::try_from(args.int(2)).unwrap_or(0));
        let tables = &context.env.shared.tables;
        Ok(success(tables.expire(args.str(0), args.str(1), left, context.now)))
    }),
    HTABLE.int("sht_match_name", STR3, match_name),
    PIKE.int("pike_check_req", &[], |context, _| {
        let source = context.draft.received.source.ip();
        let limits = PikeLimits::default();
        match context.env.shared.pike.check(source, limits, context.now) {
            Verdict::Passes => Ok(Given::Int(1)),
            Verdict::Blocked => Ok(Given::Int(-1)),
            Verdict::Detected => {
                let node = context.env.node.as_ref();
                tracing::warn!(node, %source, "a source floods and is blocked");
                Ok(Given::Int(-2))
            }
        }
    }),
    PERMISSIONS.int("allow_source_address", INT, |context, args| {
        let source = context.draft.received.source.ip();
        let groups = &context.env.settings.addresses;
        Ok(success(permissions::allows(groups, args.int(0), source)))
    }),
];

/// What counting gives where the table is full: no usual count.
const NOT_COUNTED: i64 = -255;

/// The entries that a table may have.
fn most_entries(context: &Context) -> usize {
    usize::try_from(context.env.settings.max_htable_entries).unwrap_or(usize::MAX)
}

/// Sets a key; false where there is no room for it.
pub(super) fn set(context: &Context, table: &[u8], key: &[u8], value: Datum) -> bool {
    let most = most_entries(context);
    let set = context.env.shared.tables.set(table, key, value, most, context.now);
    if let Err(error) = &set {
        let table = String::from_utf8_lossy(table);
        tracing::debug!(node = context.env.node.as_ref(), %table, %error, "a key is not set");
    }
    set.is_ok()
}

fn count(context: &Context, args: &Args<'_>, step: i64) -> Given<'static> {
    let most = most_entries(context);
    let tables = &context.env.shared.tables;
    let sum = tables.add(args.str(0), args.str(1), step, most, context.now);
    Given::Int(sum.unwrap_or(NOT_COUNTED))
}

fn match_name<'c>(context: &'c mut Context, args: &Args<'_>) -> Answer<'c> {
    let (tables, now) = (&context.env.shared.tables, context.now);
    let (table, wanted) = (args.str(0), args.str(2));
    let found = match args.str(1) {
        b"eq" => tables.get(table, wanted, now).is_some(),
        b"ne" => tables.any_key(table, now, |key| key != wanted),
        b"sw" => tables.any_key(table, now, |key| key.starts_with(wanted)),
        b"re" => {
            let pattern = edit::pattern(context, wanted, Flags::default())?;
            tables.any_key(table, now, |key| pattern.is_match(key))
        }
        _ => false,
    };
    Ok(success(found))
}

const fn success(done: bool) -> Given<'static> {
    Given::Int(if done { 1 } else { -1 })
}
