//! Serial forking by q (contract 2.13): targets of one q are tried side by side, one q after the
//! other from high to low.

use lineway_wire::sip::draft::{Draft, Target};

use crate::sip::script::Context;
use crate::sip::script::tm::RouteKind;

/// What gives that no group is left.
const NONE_LEFT: i64 = -2;

/// Makes groups of the targets that the request has: those that were appended, and the Request-URI
/// if it has not been tried. One target alone stays where it is, and is a group of its own as long as
/// there is no other: loading twice does no harm.
pub(super) fn load(context: &mut Context) -> i64 {
    let (draft, tm) = (&mut context.draft, &mut context.tm);
    if !draft.message.is_request() || !matches!(tm.route, RouteKind::Request | RouteKind::Failure) {
        return -1;
    }
    let first = first(draft);
    let is_used = match &tm.used {
        Some((uri, dst_uri)) => *uri == first.uri && *dst_uri == first.dst_uri,
        None => false,
    };
    let is_alone = draft.branches.is_empty();
    if is_alone && (is_used || !tm.groups.is_empty() || tm.route == RouteKind::Failure) {
        return 1;
    }
    let mut targets = Vec::with_capacity(draft.branches.len() + 1);
    targets.extend((!is_used).then_some(first));
    targets.append(&mut draft.branches);
    // Stable: those of one q stay in their order. Unspecified is the lowest.
    targets.sort_by_key(|target| target.q);
    tm.groups.clear();
    for target in targets {
        match tm.groups.last_mut() {
            Some(group) if group[0].q == target.q => group.push(target),
            _ => tm.groups.push(vec![target]),
        }
    }
    1
}

/// Moves the next group to where `t_relay` finds it.
pub(super) fn next(context: &mut Context) -> i64 {
    let (draft, tm) = (&mut context.draft, &mut context.tm);
    let Some(group) = tm.groups.pop() else { return NONE_LEFT };
    let mut targets = group.into_iter();
    if let Some(Target { uri, dst_uri, q, flags, socket, path }) = targets.next() {
        draft.uri = Some(uri);
        draft.dst_uri = dst_uri;
        draft.q = q;
        draft.branch_flags = flags;
        draft.force_socket = socket;
        draft.path = path;
        tm.used = None;
    }
    draft.branches = targets.collect();
    1
}

/// The Request-URI as a target.
fn first(draft: &Draft) -> Target {
    let uri = draft.uri.clone();
    Target {
        uri: uri.unwrap_or_else(|| draft.message.bytes().slice(draft.message.uri_at())),
        dst_uri: draft.dst_uri.clone(),
        q: draft.q,
        flags: draft.branch_flags,
        socket: draft.force_socket,
        path: draft.path.clone(),
    }
}
