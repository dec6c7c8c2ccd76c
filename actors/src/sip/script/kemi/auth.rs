//! `KSR.auth`, `KSR.auth_db`: who sent a request.

use bytes::Bytes;
use lineway_wire::sip::digest::{
    Algorithm, Algorithms, Challenge, Credentials, Use, find, is_realm,
};
use lineway_wire::sip::message::{Header, Message, Method, Name, Uri};

use super::var::held;
use super::{Module, STR_INT, STR2_INT, sl};
use crate::metrics::SipAuth;
use crate::sip::script::Context;
use crate::sip::script::function::{Answer, Args, Function, Given};
use crate::sip::users::Proof;

const AUTH: Module = Module("auth");
const AUTH_DB: Module = Module("auth_db");

/// The functions of these modules.
pub(super) static FUNCTIONS: &[Function] = &[
    AUTH.int("auth_challenge", STR_INT, |context, args| {
        let proxy = context.draft.message.method() != Method::Register;
        challenge(context, args, proxy)
    }),
    AUTH.int("www_challenge", STR_INT, |context, args| challenge(context, args, false)),
    AUTH.int("proxy_challenge", STR_INT, |context, args| challenge(context, args, true)),
    AUTH.int("consume_credentials", &[], |context, _| Ok(consume(context).into())),
    AUTH_DB.int("auth_check", STR2_INT, |context, args| {
        let realm = realm(context, args.str(0));
        let checked = check(context, &realm, args.int(2));
        if let Some(metrics) = context.env.shared.metrics() {
            metrics.auth.checked(checked.map_or_else(Refused::word, |()| SipAuth::Passed));
        }
        Ok(Given::Int(checked.map_or_else(|refused| refused as i64, |()| 1)))
    }),
];

/// What an invocation knows of who sent its request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::sip::script) struct Sender {
    /// The credentials were right and the nonce was not: who is asked again need not be told so.
    stale: bool,
    /// The header and realm of the credentials that were found right.
    proved: Option<(Name, Bytes)>,
}

impl Sender {
    /// Nothing.
    pub(super) const fn new() -> Self {
        Self { stale: false, proved: None }
    }
}

/// Bits of the flags of a challenge.
mod challenge_flags {
    pub(super) const AUTH: i64 = 1;
    pub(super) const AUTH_INT: i64 = 2;
    pub(super) const NO_500: i64 = 4;
    pub(super) const STALE: i64 = 16;
    pub(super) const MD5: i64 = 32;
    pub(super) const SHA_256: i64 = 64;
    pub(super) const SHA_512_256: i64 = 128;
}

/// Bits of the flags of `auth_check`.
mod check_flags {
    pub(super) const USER: i64 = 1;
    pub(super) const NOT_IN_CALLS: i64 = 2;
    pub(super) const COUNT: i64 = 4;
}

/// Why credentials are not accepted: what `auth_check` gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Unreadable = -1,
    WrongPassword = -2,
    UnknownUser = -3,
    StaleNonce = -4,
    NoCredentials = -5,
    NonceReused = -6,
    OtherUser = -8,
}

impl Refused {
    const fn word(self) -> SipAuth {
        match self {
            Self::Unreadable => SipAuth::Malformed,
            Self::WrongPassword => SipAuth::BadPassword,
            Self::UnknownUser => SipAuth::NoUser,
            Self::StaleNonce => SipAuth::Stale,
            Self::NoCredentials => SipAuth::NoCredentials,
            Self::NonceReused => SipAuth::Reused,
            Self::OtherUser => SipAuth::Mismatch,
        }
    }
}

/// The realm that is meant: where none is named the `realm` setting, else the domain that the request
/// is of, To for a REGISTER and From for others.
fn realm(context: &Context, named: &[u8]) -> Bytes {
    if !named.is_empty() {
        return Bytes::copy_from_slice(named);
    }
    if let Some(realm) = &context.env.settings.stateful.realm {
        return Bytes::copy_from_slice(realm.as_bytes());
    }
    let message = &context.draft.message;
    let is_register = message.method() == Method::Register;
    let party = if is_register { message.to() } else { message.from() };
    Uri::parse(party.uri).map_or_else(|_| Bytes::new(), |uri| Bytes::copy_from_slice(uri.host))
}

/// Answers the request with a challenge: 1, or negative for what can not be challenged.
fn challenge(context: &mut Context, args: &Args<'_>, proxy: bool) -> Answer<'static> {
    use challenge_flags::{AUTH, AUTH_INT, MD5, NO_500, SHA_256, SHA_512_256, STALE};
    let (realm, flags) = (realm(context, args.str(0)), args.int(1));
    let has = |flag| flags & flag != 0;
    // RFC 3261 22.1: these two can not be sent again with another number.
    let message = &context.draft.message;
    if !message.is_request() || matches!(message.method(), Method::Ack | Method::Cancel) {
        return Ok(Given::Int(-1));
    }
    if !is_realm(&realm) {
        if !has(NO_500) {
            sl::reply(context, 500, b"Server Internal Error")?;
        }
        return Ok(Given::Int(-1));
    }
    let asked = [(MD5, Algorithm::Md5), (SHA_256, Algorithm::Sha256)]
        .into_iter()
        .chain([(SHA_512_256, Algorithm::Sha512_256)])
        .filter(|(flag, _)| has(*flag))
        .fold(Algorithms::NONE, |asked, (_, algorithm)| asked.with(algorithm));
    let known = context.env.settings.stateful.users.algorithms(&realm);
    let known = if known.is_empty() { Algorithms::ALL } else { known };
    let offered = if known.and(asked).is_empty() { known } else { known.and(asked) };
    let nonce = context.env.shared.auth.nonce(&realm, context.now);
    let challenge = Challenge {
        proxy,
        realm: &realm,
        nonce: &nonce,
        auth: has(AUTH),
        auth_int: has(AUTH_INT),
        stale: context.vars.sender.stale || has(STALE),
    };
    let own = context.draft.reply_lines.len();
    for line in challenge.lines(offered) {
        held(&mut context.vars, line.len())?;
        context.draft.reply_lines.push(line.into());
    }
    let (code, reason): (_, &[u8]) =
        if proxy { (407, b"Proxy Authentication Required") } else { (401, b"Unauthorized") };
    let sent = sl::reply(context, code, reason);
    // Another reply of the script is no challenge.
    context.draft.reply_lines.truncate(own);
    let sent = sent?;
    if let Some(metrics) = context.env.shared.metrics().filter(|_| sent > 0) {
        metrics.auth.challenged();
    }
    Ok(sent.into())
}

/// Checks the credentials of the request for a realm.
fn check(context: &mut Context, realm: &Bytes, flags: i64) -> Result<(), Refused> {
    let has = |flag| flags & flag != 0;
    let message = &context.draft.message;
    if !message.is_request() {
        return Err(Refused::NoCredentials);
    }
    let method = message.method();
    // What can not be challenged belongs to a request that was.
    if matches!(method, Method::Ack | Method::Cancel) {
        return Ok(());
    }
    let (header, credentials) = credentials(message, Some(realm))?;
    let env = &context.env;
    match env.settings.stateful.users.prove(&credentials, method.as_bytes(), message.body()) {
        Proof::Right => {}
        Proof::Wrong => return Err(Refused::WrongPassword),
        Proof::UnknownUser => return Err(Refused::UnknownUser),
    }
    let nonce = env.shared.auth.check(&credentials.nonce, realm, context.now);
    let Ok(nonce) = nonce else {
        context.vars.sender.stale = true;
        return Err(Refused::StaleNonce);
    };
    if has(check_flags::COUNT)
        && env.shared.auth.note(nonce, credentials.count, message, context.now) == Use::Reused
    {
        context.vars.sender.stale = true;
        return Err(Refused::NonceReused);
    }
    let is_exempt = has(check_flags::NOT_IN_CALLS)
        && [&b"INVITE"[..], b"BYE", b"PRACK", b"UPDATE", b"MESSAGE"].contains(&method.as_bytes());
    if has(check_flags::USER) && !is_exempt && !names(message, &credentials.username) {
        return Err(Refused::OtherUser);
    }
    context.vars.sender.proved = Some((header.name, realm.clone()));
    Ok(())
}

/// The credentials of a request: those for who registers users, or for a proxy; else the others.
fn credentials<'a>(
    message: &'a Message,
    realm: Option<&[u8]>,
) -> Result<(Header<'a>, Credentials<'a>), Refused> {
    let names = match message.method() {
        Method::Register => [Name::Authorization, Name::ProxyAuthorization],
        _ => [Name::ProxyAuthorization, Name::Authorization],
    };
    let mut refused = Refused::NoCredentials;
    for name in names {
        match find(message, name, realm) {
            Ok(found) => return Ok(found),
            Err(None) => {}
            Err(Some(_)) => refused = Refused::Unreadable,
        }
    }
    Err(refused)
}

/// Whether a request is in the name of this user: From, and To of a REGISTER, and the Request-URI
/// of a PUBLISH too.
fn names(message: &Message, user: &[u8]) -> bool {
    let is_user = |uri: &[u8]| {
        let named = Uri::parse(uri).ok().and_then(|uri| uri.number());
        named.is_some_and(|named| named == user || named == user_part(user).0)
    };
    let (from, to) = (message.from().uri, message.to().uri);
    match message.method().as_bytes() {
        b"REGISTER" => is_user(from) && is_user(to),
        b"PUBLISH" => is_user(from) && is_user(to) && is_user(&message.bytes()[message.uri_at()]),
        _ => is_user(from),
    }
}

/// `alice` and `example.com` of `alice@example.com`.
fn user_part(user: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'@', user) {
        Some(at) => (&user[..at], Some(&user[at + 1..])),
        None => (user, None),
    }
}

/// Removes the credentials that were found right: 1, or -1 where there are none.
fn consume(context: &mut Context) -> i64 {
    let proved = context.vars.sender.proved.as_ref();
    let draft = &mut context.draft;
    let line = proved.and_then(|(name, realm)| find(&draft.message, *name, Some(realm)).ok());
    match line.map(|(header, _)| header.line) {
        Some(line) => {
            draft.lumps.remove(line);
            1
        }
        None => -1,
    }
}

/// What a pseudo-variable is of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// `$au`.
    User,
    /// `$aU`.
    WholeUser,
    /// `$ad`.
    Domain,
    /// `$ar`.
    Realm,
    /// `$adu`.
    Uri,
    /// `$aa`.
    Algorithm,
}

/// A part of the credentials of the message: of those that were found right, else of the first.
pub(super) fn part(context: &Context, part: Part) -> Given<'_> {
    let message = &context.draft.message;
    let proved = context.vars.sender.proved.as_ref();
    let found = proved.and_then(|(name, realm)| find(message, *name, Some(realm)).ok());
    let found = found.or_else(|| credentials(message, None).ok());
    let Some((_, credentials)) = found.filter(|_| message.is_request()) else { return Given::Nil };
    let (user, domain) = user_part(&credentials.username);
    Given::Owned(match part {
        Part::User => user.to_vec(),
        Part::Domain => match domain {
            Some(domain) => domain.to_vec(),
            None => return Given::Nil,
        },
        Part::WholeUser => credentials.username.into_owned(),
        Part::Realm => credentials.realm.into_owned(),
        Part::Uri => credentials.uri.into_owned(),
        Part::Algorithm => credentials.algorithm().as_str().as_bytes().to_vec(),
    })
}
