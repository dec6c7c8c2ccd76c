//! Pseudo-variables: `$ru`, `$hdr(X)`, `$(avp(x)[1])`; their names, read.
//!
//! A name is read each time that it is used: it is a match on a few bytes, and cheaper than to keep
//! what was read.

mod hold;
mod read;
mod write;

use super::auth::Part as AuthPart;

pub use hold::Vars;
pub(super) use hold::held;
pub(super) use read::{expand, ip, or, part_of, read, unfolded, unknown, uri, value};
pub(super) use write::{Fresh, set_destination, set_part, set_request_uri, set_user, unset, write};

/// Brackets inside of one another. A script may put a name together from what a message says, and
/// each variable inside of another takes from the thread's stack.
const MOST_BRACKETS: usize = 16;

/// A pseudo-variable as a script names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name<'a> {
    pub var: Var<'a>,
    pub index: Index,
}

/// Which of several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    /// None was written: the first.
    First,
    /// `[n]`; negative ones count from the end.
    At(i64),
    /// `[*]`.
    All,
}

/// What a variable is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Var<'a> {
    /// `$ru`, `$fU` and their kind.
    Uri(Whose, Part),
    /// `$fn`, `$tn`.
    Display(Whose),
    /// `$ft`, `$tt`.
    Tag(Whose),
    /// `$hdr(name)`.
    Header(&'a [u8]),
    /// `$hdrc(name)`.
    HeaderCount(&'a [u8]),
    /// `$var(name)`.
    Script(&'a [u8]),
    /// `$avp(name)`.
    Avp(&'a [u8]),
    /// `$xavp(root=>key)`.
    Xavp(Xavp<'a>),
    /// `$sht(table=>key)`.
    Table(&'a [u8], &'a [u8]),
    /// `$shtex(table=>key)`: seconds that are left.
    TableEnd(&'a [u8], &'a [u8]),
    /// `$branch(field)`.
    Branch(BranchField),
    /// `$_s(text)`: a text with variables in it.
    Format(&'a [u8]),
    /// `$au` and its kind: what the credentials say.
    Auth(AuthPart),
    /// One without arguments.
    Plain(Plain),
    /// `$T_req(..)`, `$T_rpl(..)`: a variable of the transaction's other message.
    Other(Side, &'a [u8]),
}

/// Which message of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Request,
    Reply,
}

/// Whose URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The Request-URI as it is to go out.
    Request,
    /// The Request-URI as it came.
    Original,
    /// Where the request goes, if not there.
    Destination,
    From,
    To,
}

/// Which part of a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    User,
    Host,
    Port,
    Transport,
    Scheme,
}

/// `$xavp(root[place]=>key[place])`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Xavp<'a> {
    pub root: &'a [u8],
    pub place: i64,
    pub key: Option<(&'a [u8], i64)>,
}

/// A field of `$branch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BranchField {
    Count,
    Uri,
    Destination,
    Q,
    Flags,
}

/// Variables without arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plain {
    CallId,
    CSeqNumber,
    CSeq,
    Method,
    Status,
    Reason,
    SourceIp,
    SourcePort,
    SourceUri,
    ReceivedIp,
    ReceivedPort,
    ReceivedUri,
    Transport,
    Message,
    MessageLength,
    Body,
    BodyLength,
    Contact,
    ContentType,
    ContentLength,
    UserAgent,
    AssertedIdentity,
    Flags,
    FlagsHex,
    BranchFlags,
    BranchFlagsHex,
    Time,
    ReturnCode,
    Dollar,
    /// `$T_reply_code`.
    ReplyCode,
    /// `$T_reply_last`.
    LastReply,
    /// `$T_branch_idx`.
    BranchIndex,
}

impl<'a> Name<'a> {
    /// Reads a text that is one name and nothing else.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        Self::parse_prefix(text).filter(|(_, len)| *len == text.len()).map(|(name, _)| name)
    }

    /// Reads the name that a text begins with, and tells its length.
    pub(super) fn parse_prefix(text: &'a [u8]) -> Option<(Self, usize)> {
        let rest = text.strip_prefix(b"$")?;
        if rest.starts_with(b"$") {
            let name = Self { var: Var::Plain(Plain::Dollar), index: Index::First };
            return Some((name, 2));
        }
        let (inside, len) = if rest.starts_with(b"(") {
            let len = balanced(rest)?;
            (&rest[1..len - 1], len)
        } else {
            let mut len = word(rest);
            if rest.get(len) == Some(&b'(') {
                len += balanced(&rest[len..])?;
            }
            (&rest[..len], len)
        };
        Some((Self::inside(inside)?, len + 1))
    }

    /// Reads what stands behind the `$`, without the brackets of `$(...)`.
    fn inside(text: &'a [u8]) -> Option<Self> {
        let (name, rest) = text.split_at(word(text));
        let (argument, rest) = match rest.first() {
            Some(b'(') => {
                let len = balanced(rest)?;
                (Some(&rest[1..len - 1]), &rest[len..])
            }
            _ => (None, rest),
        };
        let index = match rest {
            [] => Index::First,
            [b'[', b'*', b']'] => Index::All,
            [b'[', number @ .., b']'] => Index::At(integer(number)?),
            _ => return None,
        };
        let var = match argument {
            Some(argument) => of_argument(name, argument)?,
            None => plain(name)?,
        };
        Some(Self { var, index })
    }
}

fn of_argument<'a>(name: &[u8], argument: &'a [u8]) -> Option<Var<'a>> {
    if argument.is_empty() {
        return None;
    }
    let table =
        || split_arrow(argument).filter(|(table, key)| !table.is_empty() && !key.is_empty());
    Some(match name {
        b"hdr" => Var::Header(argument),
        b"hdrc" => Var::HeaderCount(argument),
        b"var" => Var::Script(argument),
        // A type in front of the name is of no meaning: names are texts.
        b"avp" => Var::Avp(argument.strip_prefix(b"s:").unwrap_or(argument)),
        b"xavp" => Var::Xavp(xavp(argument)?),
        b"sht" => table().map(|(table, key)| Var::Table(table, key))?,
        b"shtex" => table().map(|(table, key)| Var::TableEnd(table, key))?,
        b"branch" => Var::Branch(match argument {
            b"count" => BranchField::Count,
            b"uri" => BranchField::Uri,
            b"dst_uri" => BranchField::Destination,
            b"q" => BranchField::Q,
            b"flags" => BranchField::Flags,
            _ => return None,
        }),
        b"_s" => Var::Format(argument),
        b"T_req" => Var::Other(Side::Request, one_of_message(argument)?),
        b"T_rpl" => Var::Other(Side::Reply, one_of_message(argument)?),
        _ => return None,
    })
}

/// A text that names a variable of a message, for another message than the one at hand.
fn one_of_message(text: &[u8]) -> Option<&[u8]> {
    let name = Name::parse(text)?;
    (!matches!(name.var, Var::Other(..) | Var::Format(_))).then_some(text)
}

fn plain(name: &[u8]) -> Option<Var<'static>> {
    if let Some(uri) = uri_part(name) {
        return Some(uri);
    }
    let plain = match name {
        b"au" => return Some(Var::Auth(AuthPart::User)),
        b"aU" => return Some(Var::Auth(AuthPart::WholeUser)),
        b"ad" => return Some(Var::Auth(AuthPart::Domain)),
        b"ar" => return Some(Var::Auth(AuthPart::Realm)),
        b"adu" => return Some(Var::Auth(AuthPart::Uri)),
        b"aa" => return Some(Var::Auth(AuthPart::Algorithm)),
        b"ci" => Plain::CallId,
        b"cs" => Plain::CSeqNumber,
        b"csb" => Plain::CSeq,
        b"rm" => Plain::Method,
        b"rs" => Plain::Status,
        b"rr" => Plain::Reason,
        b"si" => Plain::SourceIp,
        b"sp" => Plain::SourcePort,
        b"su" => Plain::SourceUri,
        b"Ri" => Plain::ReceivedIp,
        b"Rp" => Plain::ReceivedPort,
        b"Ru" => Plain::ReceivedUri,
        b"pr" | b"proto" => Plain::Transport,
        b"mb" => Plain::Message,
        b"ml" => Plain::MessageLength,
        b"rb" => Plain::Body,
        b"bs" => Plain::BodyLength,
        b"ct" => Plain::Contact,
        b"cT" => Plain::ContentType,
        b"cl" => Plain::ContentLength,
        b"ua" => Plain::UserAgent,
        b"ai" => Plain::AssertedIdentity,
        b"mf" => Plain::Flags,
        b"mF" => Plain::FlagsHex,
        b"bf" => Plain::BranchFlags,
        b"bF" => Plain::BranchFlagsHex,
        b"TS" | b"Ts" => Plain::Time,
        b"rc" | b"retcode" => Plain::ReturnCode,
        b"T_reply_code" => Plain::ReplyCode,
        b"T_reply_last" => Plain::LastReply,
        b"T_branch_idx" => Plain::BranchIndex,
        _ => return None,
    };
    Some(Var::Plain(plain))
}

fn uri_part(name: &[u8]) -> Option<Var<'static>> {
    let [whose, part] = name else { return None };
    let whose = match whose {
        b'r' => Whose::Request,
        b'o' => Whose::Original,
        b'd' => Whose::Destination,
        b'f' => Whose::From,
        b't' => Whose::To,
        _ => return None,
    };
    let is_header = matches!(whose, Whose::From | Whose::To);
    let part = match part {
        b'u' => Part::Whole,
        b'd' => Part::Host,
        b'U' if whose != Whose::Destination => Part::User,
        b'p' if !is_header => Part::Port,
        b'P' if !is_header => Part::Transport,
        b'z' if whose == Whose::Request => Part::Scheme,
        b'n' if is_header => return Some(Var::Display(whose)),
        b't' if is_header => return Some(Var::Tag(whose)),
        _ => return None,
    };
    Some(Var::Uri(whose, part))
}

fn xavp(text: &[u8]) -> Option<Xavp<'_>> {
    let placed = |text| -> Option<(&[u8], i64)> {
        let (name, place) = match split_once(text, b'[') {
            Some((name, place)) => (name, integer(place.strip_suffix(b"]")?)?),
            None => (text, 0),
        };
        (!name.is_empty()).then_some((name, place))
    };
    let (root, key) = match split_arrow(text) {
        Some((root, key)) => (root, Some(placed(key)?)),
        None => (text, None),
    };
    let (root, place) = placed(root)?;
    Some(Xavp { root, place, key })
}

fn split_arrow(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.windows(2).position(|two| two == b"=>")?;
    Some((&text[..at], &text[at + 2..]))
}

fn split_once(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == at)?;
    Some((&text[..at], &text[at + 1..]))
}

fn integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The length of the word that a text begins with.
fn word(text: &[u8]) -> usize {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.iter().position(|byte| !is_word(byte)).unwrap_or(text.len())
}

/// The length of the bracket that a text begins with, to its other half; none if it is
/// [too deep](MOST_BRACKETS).
fn balanced(text: &[u8]) -> Option<usize> {
    let mut open = 0_usize;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'(' if open == MOST_BRACKETS => return None,
            b'(' => open += 1,
            b')' if open == 1 => return Some(at + 1),
            b')' => open -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
