//! What a pseudo-variable is. Of the message it is what came, not what edits made of it
//! (contract 3); the Request-URI and `$du` are as they are to go out.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lineway_wire::sip::draft::Draft;
use lineway_wire::sip::message::{
    ContentLength, Message, Name as Header, NameAddr, Start, Uri, unfold,
};
use lineway_wire::sip::own::{DEFAULT_PORT, Transport};

use super::super::auth;
use super::{BranchField, Index, Name, Part, Plain, Side, Var, Whose};
use crate::sip::htable::Datum;
use crate::sip::script::Context;
use crate::sip::script::function::{Given, Raised};
use crate::sip::script::tm::{RouteKind, Tm};

/// The most values that are joined or found by a place from the end.
const MOST_VALUES: usize = 4096;
/// The longest text that one with variables in it becomes.
const LONGEST_TEXT: usize = 64 * 1024;

/// The value of a variable; `Nil` where it has none.
///
/// # Errors
/// A name in it can not be read.
pub(in super::super) fn read<'c>(
    context: &'c Context,
    name: &Name<'_>,
) -> Result<Given<'c>, Raised> {
    read_of(context, &context.draft, name)
}

/// The value of a variable of one message of the invocation.
fn read_of<'c>(
    context: &'c Context,
    draft: &'c Draft,
    name: &Name<'_>,
) -> Result<Given<'c>, Raised> {
    Ok(match name.var {
        Var::Uri(whose, part) => uri(draft, whose).and_then(|uri| part_of(uri, part)).into(),
        Var::Display(whose) => {
            Some(address(draft, whose).display).filter(|display| !display.is_empty()).into()
        }
        Var::Tag(whose) => address(draft, whose).tag().into(),
        Var::Header(header) => {
            let header = expand(context, header)?;
            let values = draft.message.named(&header).map(|header| header.value);
            picked(values, name.index, b",")
        }
        Var::HeaderCount(header) => {
            let header = expand(context, header)?;
            count(draft.message.named(&header).count())
        }
        Var::Script(script) => match context.vars.script(script) {
            Some(value) => value.into(),
            None => Given::Int(0),
        },
        Var::Avp(avp) => {
            let avp = expand(context, avp)?;
            read_avps(context, &avp, name.index)
        }
        Var::Xavp(xavp) => context.vars.xavp(xavp).map_or(Given::Nil, Given::from),
        Var::Table(table, key) => {
            let key = expand(context, key)?;
            let value = context.env.shared.tables.get(table, &key, context.now);
            value.as_ref().map_or(Given::Nil, Given::from)
        }
        Var::TableEnd(table, key) => {
            let key = expand(context, key)?;
            let left = context.env.shared.tables.left(table, &key, context.now);
            left.flatten().map_or(Given::Int(0), seconds)
        }
        Var::Branch(field) => branch(draft, field, name.index),
        Var::Format(text) => match expand(context, text)? {
            Cow::Borrowed(text) => Given::Owned(text.to_vec()),
            Cow::Owned(text) => Given::Owned(text),
        },
        Var::Auth(part) => auth::part(context, part),
        Var::Plain(plain) => read_plain(context, draft, plain),
        Var::Other(side, text) => {
            let wanted = |other: &&Draft| other.message.is_request() == (side == Side::Request);
            match context.tm.other.as_deref().filter(wanted) {
                Some(other) => {
                    let name = Name::parse(text).ok_or_else(|| unknown(text))?;
                    read_of(context, other, &name)?
                }
                None => Given::Nil,
            }
        }
    })
}

/// A text with the values of the variables in it; one without a value adds nothing.
///
/// # Errors
/// A `$` without a known name behind it, or too long a text.
pub(in super::super) fn expand<'t>(
    context: &Context,
    text: &'t [u8],
) -> Result<Cow<'t, [u8]>, Raised> {
    let Some(mut at) = text.iter().position(|byte| *byte == b'$') else {
        return Ok(Cow::Borrowed(text));
    };
    let (mut out, mut from) = (Vec::with_capacity(text.len() + 32), 0);
    loop {
        out.extend_from_slice(&text[from..at]);
        let (name, len) = Name::parse_prefix(&text[at..]).ok_or_else(|| unknown(&text[at..]))?;
        if matches!(name.var, Var::Format(_)) {
            return Err(Raised::error("$_s can not stand in another text"));
        }
        match read(context, &name)? {
            Given::Str(value) => out.extend_from_slice(value),
            Given::Owned(value) => out.extend_from_slice(&value),
            Given::Shared(value) => out.extend_from_slice(&value),
            Given::Int(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Given::Nil | Given::Bool(_) | Given::Wait(_) => {}
        }
        if out.len() > LONGEST_TEXT {
            return Err(Raised::error("the text with its variables is longer than 64 KiB"));
        }
        from = at + len;
        match text[from..].iter().position(|byte| *byte == b'$') {
            Some(next) => at = from + next,
            None => break,
        }
    }
    out.extend_from_slice(&text[from..]);
    Ok(Cow::Owned(out))
}

/// The error for a text that is no variable.
pub(in super::super) fn unknown(text: &[u8]) -> Raised {
    let shown = &text[..text.len().min(64)];
    Raised::Error(format!("{:?} is no pseudo-variable", String::from_utf8_lossy(shown)))
}

impl From<&Datum> for Given<'_> {
    fn from(value: &Datum) -> Self {
        match value {
            Datum::Int(value) => Self::Int(*value),
            Datum::Text(text) => Self::Shared(text.clone()),
        }
    }
}

/// The URI that these variables are parts of.
pub(in super::super) fn uri(draft: &Draft, whose: Whose) -> Option<&[u8]> {
    match (whose, draft.message.start()) {
        (Whose::From | Whose::To, _) => Some(address(draft, whose).uri),
        (Whose::Destination, _) => draft.dst_uri.as_deref(),
        (Whose::Request, Start::Request { .. }) => Some(draft.uri()),
        (Whose::Original, Start::Request { uri, .. }) => Some(uri),
        (Whose::Request | Whose::Original, Start::Reply { .. }) => None,
    }
}

fn address(draft: &Draft, whose: Whose) -> NameAddr<'_> {
    if whose == Whose::To { draft.message.to() } else { draft.message.from() }
}

/// A part of a URI; nothing where it has none. Port and transport have what is meant where they are
/// not written.
pub(in super::super) fn part_of(text: &[u8], part: Part) -> Option<Given<'_>> {
    if part == Part::Whole {
        return Some(Given::Str(text));
    }
    let uri = Uri::parse(text).ok()?;
    match part {
        Part::Whole | Part::User => uri.number().filter(|user| !user.is_empty()).map(Given::Str),
        Part::Host => Some(uri.host).filter(|host| !host.is_empty()).map(Given::Str),
        Part::Scheme => Some(Given::Str(uri.scheme)),
        Part::Port => {
            let meant = if uri.is_sips() { DEFAULT_PORT + 1 } else { DEFAULT_PORT };
            let port = uri.port.unwrap_or(meant);
            uri.is_sip().then(|| Given::Owned(port.to_string().into_bytes()))
        }
        Part::Transport => {
            let meant: &[u8] = if uri.is_sips() { b"TLS" } else { b"UDP" };
            let written = uri.params.get(b"transport").flatten();
            uri.is_sip().then(|| Given::Str(written.unwrap_or(meant)))
        }
    }
}

/// One of several values, or all of them with a separator. Folds are taken out.
fn picked<'c>(
    mut values: impl Iterator<Item = &'c [u8]>,
    index: Index,
    separator: &[u8],
) -> Given<'c> {
    let value = match index {
        Index::First => values.next(),
        Index::At(place) if place >= 0 => values.nth(usize::try_from(place).unwrap_or(usize::MAX)),
        Index::At(place) => {
            let values: Vec<_> = values.take(MOST_VALUES).collect();
            let back = usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX);
            values.len().checked_sub(back).map(|at| values[at])
        }
        Index::All => {
            let values: Vec<_> = values.take(MOST_VALUES).map(unfold).collect();
            return if values.is_empty() {
                Given::Nil
            } else {
                Given::Owned(values.join(separator))
            };
        }
    };
    unfolded(value)
}

fn read_avps<'c>(context: &'c Context, name: &[u8], index: Index) -> Given<'c> {
    let mut values = context.vars.avps(name);
    let value = match index {
        Index::First => values.next(),
        Index::At(place) if place >= 0 => values.nth(usize::try_from(place).unwrap_or(usize::MAX)),
        Index::At(place) => {
            values.nth_back(usize::try_from(place.unsigned_abs() - 1).unwrap_or(usize::MAX))
        }
        Index::All => {
            let text = |value: &Datum| match value {
                Datum::Int(value) => value.to_string().into_bytes(),
                Datum::Text(text) => text.to_vec(),
            };
            let values: Vec<_> = values.take(MOST_VALUES).map(text).collect();
            return if values.is_empty() {
                Given::Nil
            } else {
                Given::Owned(values.join(&b", "[..]))
            };
        }
    };
    value.map_or(Given::Nil, Given::from)
}

fn branch(draft: &Draft, field: BranchField, index: Index) -> Given<'_> {
    let place = match index {
        Index::First => 0,
        Index::At(place) => usize::try_from(place).unwrap_or(usize::MAX),
        Index::All => usize::MAX,
    };
    let target = draft.branches.get(place);
    match field {
        BranchField::Count => count(draft.branches.len()),
        BranchField::Uri => target.map(|target| &target.uri[..]).into(),
        BranchField::Destination => target.and_then(|target| target.dst_uri.as_deref()).into(),
        BranchField::Q => target.and_then(|target| target.q).map(i64::from).into(),
        BranchField::Flags => target.map(|target| i64::from(target.flags)).into(),
    }
}

fn read_plain<'c>(context: &'c Context, draft: &'c Draft, plain: Plain) -> Given<'c> {
    let message = &draft.message;
    let received = &draft.received;
    let socket = context.env.own.socket(received.socket);
    match plain {
        Plain::CallId => Given::Str(message.call_id()),
        Plain::CSeqNumber => Given::Str(message.cseq().digits),
        Plain::CSeq => value(message, Header::CSeq),
        Plain::Method => Given::Str(message.method().as_bytes()),
        Plain::Status => Some(message.status()).filter(|code| *code > 0).map(i64::from).into(),
        Plain::Reason => match message.start() {
            Start::Reply { reason, .. } => Given::Str(reason),
            Start::Request { .. } => Given::Nil,
        },
        Plain::SourceIp => ip(received.source.ip()),
        Plain::SourcePort => Given::Int(received.source.port().into()),
        Plain::SourceUri => socket_uri(received.source, received.transport),
        Plain::ReceivedIp => socket.map_or(Given::Nil, |socket| ip(socket.address.ip())),
        Plain::ReceivedPort => socket.map(|socket| i64::from(socket.address.port())).into(),
        Plain::ReceivedUri => {
            socket.map_or(Given::Nil, |socket| socket_uri(socket.address, socket.transport))
        }
        Plain::Transport => Given::Str(received.transport.word().as_bytes()),
        Plain::Message => Given::Str(message.bytes()),
        Plain::MessageLength => count(message.bytes().len()),
        Plain::Body => Given::Str(message.body()),
        Plain::BodyLength => count(message.body().len()),
        Plain::Contact => value(message, Header::Contact),
        Plain::ContentType => value(message, Header::ContentType),
        Plain::ContentLength => match message.content_length() {
            ContentLength::Bytes(length) => i64::try_from(length).ok().into(),
            ContentLength::Missing | ContentLength::Bad => Given::Nil,
        },
        Plain::UserAgent => value(message, Header::UserAgent),
        Plain::AssertedIdentity => {
            let identity = message.named(b"P-Asserted-Identity").next();
            identity
                .and_then(|header| NameAddr::parse(header.value).ok())
                .map(|addr| addr.uri)
                .into()
        }
        Plain::Flags => Given::Int(draft.flags.into()),
        Plain::FlagsHex => Given::Owned(format!("{:08X}", draft.flags).into_bytes()),
        Plain::BranchFlags => Given::Int(draft.branch_flags.into()),
        Plain::BranchFlagsHex => Given::Owned(format!("{:08X}", draft.branch_flags).into_bytes()),
        Plain::Time => seconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
        // What a function gives is what Lua has of it; the code of the last route is that of none.
        Plain::ReturnCode => Given::Int(0),
        Plain::Dollar => Given::Str(b"$"),
        Plain::ReplyCode => Given::Int(context.tm.reply_code.into()),
        Plain::LastReply => Some(context.tm.reply_code)
            .filter(|_| context.tm.route == RouteKind::BranchReply)
            .map(i64::from)
            .into(),
        Plain::BranchIndex => Given::Int(branch_index(&context.tm)),
    }
}

/// The branch at hand; in a failure route how many branches there were so far, elsewhere 0.
fn branch_index(tm: &Tm) -> i64 {
    let index = match &tm.failed {
        Some(failed) => failed.finals.iter().map(|one| i64::from(one.branch) + 1).max(),
        None => tm.branch.map(i64::from),
    };
    index.unwrap_or(0)
}

/// The value of the first header of a name, without folds.
pub(in super::super) fn value(message: &Message, name: Header) -> Given<'_> {
    unfolded(message.first(name).map(|header| header.value))
}

/// A value without folds.
pub(in super::super) fn unfolded(value: Option<&[u8]>) -> Given<'_> {
    match value.map(unfold) {
        Some(Cow::Borrowed(value)) => Given::Str(value),
        Some(Cow::Owned(value)) => Given::Owned(value),
        None => Given::Nil,
    }
}

/// The value, or a text where there is none.
pub(in super::super) fn or<'c>(value: Given<'c>, otherwise: &'static [u8]) -> Given<'c> {
    if value == Given::Nil { Given::Str(otherwise) } else { value }
}

/// An address as text.
pub(in super::super) fn ip(address: IpAddr) -> Given<'static> {
    Given::Owned(address.to_canonical().to_string().into_bytes())
}

fn socket_uri(address: SocketAddr, transport: Transport) -> Given<'static> {
    let transport = if transport == Transport::Tcp { ";transport=tcp" } else { "" };
    Given::Owned(format!("sip:{address}{transport}").into_bytes())
}

fn seconds(time: Duration) -> Given<'static> {
    i64::try_from(time.as_secs()).ok().into()
}

fn count(count: usize) -> Given<'static> {
    i64::try_from(count).ok().into()
}
