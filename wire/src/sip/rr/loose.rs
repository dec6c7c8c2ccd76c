//! Route: which part of the way is done, and where it goes on (16.4, 16.6 step 6).

use std::cell::Cell;
use std::ops::Range;

use bytes::Bytes;
use regex::bytes::Regex;
use smallvec::SmallVec;

use super::super::draft::Draft;
use super::super::lumps::Lumps;
use super::super::message::{Message, Name, NameAddr, Params, Uri, UriError};
use super::super::own::{Own, SocketId, Transport};

/// One Route value.
struct Stop<'a> {
    at: Range<usize>,
    line: Range<usize>,
    uri_at: Range<usize>,
    uri: Uri<'a>,
    /// An edit took it out before.
    gone: bool,
    /// It is to be taken out.
    done: Cell<bool>,
}

impl Stop<'_> {
    /// A loose router: it leaves the Request-URI alone.
    fn is_loose(&self) -> bool {
        self.uri.params.has(b"lr")
    }
    /// One of a pair of ours (R143).
    fn is_double(&self) -> bool {
        self.uri.params.has(b"r2")
    }
    fn text(&self, message: &Message) -> Bytes {
        message.bytes().slice(self.uri_at.clone())
    }
}

/// What the Route values make of a request.
#[derive(Default)]
struct Turn {
    /// The own value that was passed, or the own Request-URI: its parameters.
    params: Option<Bytes>,
    /// The socket that the inner own value names.
    socket: Option<SocketId>,
    /// The next Request-URI.
    uri: Option<Bytes>,
    /// The next hop; `None` with a new Request-URI = by that.
    dst_uri: Option<Bytes>,
    /// The old Request-URI goes behind the last Route (R117).
    keeps_old: bool,
    /// No Route is left.
    over: bool,
}

/// `loose_route()`: 1 = go on by `$du` or the Request-URI, -1 = there is no Route, or one that can
/// not be read, -3 = a preloaded Route (no tag in To) of which nothing is left.
///
/// Own values at the top go, both of a pair at once (R116, S-11); what follows is the next hop, by
/// `$du` if it is a loose router, else as Request-URI (R117). A Request-URI of ours within a dialog
/// says that the previous hop was a strict router: the last Route is the target (R118).
pub fn loose_route(draft: &mut Draft, own: &Own) -> i64 {
    let Draft { message, lumps, uri, dst_uri, force_socket, route_params, .. } = draft;
    let message = &*message;
    if !message.is_request() {
        return -1;
    }
    let Some(stops) = stops(message, lumps) else { return -1 };
    let old = uri.clone().unwrap_or_else(|| message.bytes().slice(message.uri_at()));
    let in_dialog = message.to().tag().is_some_and(|tag| !tag.is_empty());
    let left: SmallVec<[&Stop<'_>; 8]> = stops.iter().filter(|stop| !stop.gone).collect();
    if left.is_empty() {
        return -1;
    }
    let turn = match Uri::parse(&old) {
        Ok(uri) if in_dialog && own.is_own_uri(&uri) => behind_strict(message, own, uri, &left),
        _ => behind_loose(message, own, &left),
    };
    for cut in cuts(&stops) {
        lumps.delete(cut);
    }
    if turn.keeps_old {
        let end = stops.last().map_or(0, |stop| stop.line.end);
        lumps.insert(end, [b"Route: <", &old[..], b">\r\n"].concat().into());
    }
    *route_params = turn.params;
    if turn.socket.is_some() {
        *force_socket = turn.socket;
    }
    if turn.uri.is_some() || turn.dst_uri.is_some() {
        *dst_uri = turn.dst_uri;
    }
    if turn.uri.is_some() {
        *uri = turn.uri;
    }
    if turn.over && !in_dialog { -3 } else { 1 }
}

/// Every Route value; `None` if there is one that can not be read.
fn stops<'a>(message: &'a Message, lumps: &Lumps) -> Option<SmallVec<[Stop<'a>; 8]>> {
    let stop = |address: Result<NameAddr<'a>, UriError>| {
        let address = address.ok()?;
        Some(Stop {
            uri: address.parsed_uri().ok()?,
            gone: lumps.is_deleted(address.at.clone()),
            at: address.at,
            line: address.line,
            uri_at: address.uri_at,
            done: Cell::new(false),
        })
    };
    message.addresses(Name::Route).map(stop).collect()
}

/// The top value may be ours.
fn behind_loose(message: &Message, own: &Own, left: &[&Stop<'_>]) -> Turn {
    let mut turn = Turn::default();
    let mut at = 0;
    if own.is_own_uri(&left[0].uri) {
        turn.params = Some(left[0].text(message).slice(params(&left[0].uri)));
        turn.socket = socket(own, &left[0].uri);
        left[0].done.set(true);
        at = 1;
        if let [first, second, ..] = left
            && first.is_double()
            && second.is_double()
            && own.is_own_uri(&second.uri)
        {
            turn.socket = socket(own, &second.uri).or(turn.socket);
            second.done.set(true);
            at = 2;
        }
    }
    match left.get(at) {
        None => turn.over = true,
        Some(next) if next.is_loose() => turn.dst_uri = Some(next.text(message)),
        Some(next) => {
            turn.uri = Some(next.text(message));
            next.done.set(true);
            turn.keeps_old = true;
        }
    }
    turn
}

/// The top value of ours went into the Request-URI, the target behind the last Route.
fn behind_strict(message: &Message, own: &Own, uri: Uri<'_>, left: &[&Stop<'_>]) -> Turn {
    let params = Bytes::copy_from_slice(&uri.text[params(&uri)]);
    let mut turn = Turn { params: Some(params), ..Turn::default() };
    let mut at = 0;
    if left[0].is_double() && own.is_own_uri(&left[0].uri) {
        turn.socket = socket(own, &left[0].uri);
        left[0].done.set(true);
        at = 1;
    }
    let last = left.len() - 1;
    match left.get(at) {
        None => turn.over = true,
        Some(next) if next.is_loose() => {
            if at < last {
                turn.dst_uri = Some(next.text(message));
            }
            turn.uri = Some(left[last].text(message));
            left[last].done.set(true);
        }
        Some(next) => {
            turn.uri = Some(next.text(message));
            left[at].done.set(true);
        }
    }
    turn
}

fn socket(own: &Own, uri: &Uri<'_>) -> Option<SocketId> {
    let transport = uri.params.get(b"transport").flatten().and_then(Transport::of);
    own.named(uri.host, uri.port, transport).map(|socket| socket.id)
}

/// Where the parameters of a URI stand in its text, with the first semicolon.
fn params(uri: &Uri<'_>) -> Range<usize> {
    let end = uri.text.len() - uri.headers.map_or(0, |headers| headers.len() + 1);
    let length = uri.params.0.len();
    end - length - usize::from(length > 0)..end
}

/// What goes with the values that are done: a line without a value left goes whole, else each with
/// one comma.
fn cuts(stops: &[Stop<'_>]) -> SmallVec<[Range<usize>; 4]> {
    let mut cuts = SmallVec::new();
    for line in stops.chunk_by(|left, right| left.line == right.line) {
        if !line.iter().any(|stop| stop.done.get()) {
            continue;
        }
        let mut kept = line.iter().enumerate().filter(|(_, stop)| !stop.gone && !stop.done.get());
        let Some((first, stop)) = kept.next() else {
            cuts.push(line[0].line.clone());
            continue;
        };
        if first > 0 {
            cuts.push(line[0].at.start..stop.at.start);
        }
        let mut last = first;
        for (place, _) in kept {
            if place > last + 1 {
                cuts.push(line[last].at.end..line[place - 1].at.end);
            }
            last = place;
        }
        if last + 1 < line.len() {
            cuts.push(line[last].at.end..line[line.len() - 1].at.end);
        }
    }
    cuts
}

/// `check_route_param(regex)`: whether the parameters of the own Route that was removed, such as
/// `;lr;nat=yes`, have a match; 1 or -1.
pub fn check_route_param(draft: &Draft, pattern: &Regex) -> i64 {
    let params = draft.route_params.as_deref();
    if params.is_some_and(|params| pattern.is_match(params)) { 1 } else { -1 }
}

/// `is_direction("upstream" | "downstream")` by the `ftag` that came back: 1 or -1. What comes from
/// the tag of From that the dialog began with goes downstream, as does what has no `ftag`.
pub fn is_direction(draft: &Draft, which: &str) -> i64 {
    let params = draft.route_params.as_deref().unwrap_or_default();
    let params = Params(params.strip_prefix(b";").unwrap_or(params));
    let ftag = params.get(b"ftag").flatten();
    let is_upstream = ftag.is_some_and(|ftag| draft.message.from().tag() != Some(ftag));
    let is_asked = match which {
        _ if which.eq_ignore_ascii_case("upstream") => is_upstream,
        _ if which.eq_ignore_ascii_case("downstream") => !is_upstream,
        _ => false,
    };
    if is_asked { 1 } else { -1 }
}
