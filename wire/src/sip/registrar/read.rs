//! What a REGISTER says.

use bytes::Bytes;

use super::{
    LISTED_EACH, LONGEST_AOR, LONGEST_PATH, LONGEST_URI, LONGEST_WORD, MOST_LISTED, Methods,
    Refusal, Rules,
};
use crate::sip::message::{Message, Name, NameAddr, Uri, unfold};

/// The expires of a Contact that has none that can be read (R128).
const DEFAULT_EXPIRES: u32 = 3600;
/// More Contacts than a 200 could list.
const MOST_CONTACTS: usize = MOST_LISTED / LISTED_EACH;

/// A REGISTER, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// The address of record.
    pub aor: Bytes,
    /// What it asks for.
    pub ask: Ask,
    /// Its Call-ID.
    pub call_id: Bytes,
    /// Its CSeq number.
    pub cseq: u32,
    /// Its Path as the value of a Route.
    pub path: Option<Bytes>,
    /// Its User-Agent, or the beginning of a long one.
    pub user_agent: Option<Bytes>,
    /// The phone wants to see the Path (RFC 3327 5.3).
    pub shows_path: bool,
    /// The To URI without parameters, where the phone takes GRUUs (RFC 5627).
    pub gruu: Option<Bytes>,
}

/// What a REGISTER asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// No Contact: the bindings as they are (R127).
    List,
    /// `*`: no bindings any more (R126).
    Clear,
    /// These Contacts.
    Bind(Vec<Contact>),
}

/// One Contact of a REGISTER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Its URI.
    pub uri: Bytes,
    /// q in thousandths.
    pub q: Option<u16>,
    /// Seconds; 0 removes (R125).
    pub expires: u32,
    /// `methods`, else the Allow.
    pub methods: Option<Methods>,
    /// `+sip.instance` without its quotes.
    pub instance: Option<Bytes>,
    /// `reg-id`; only beside an instance.
    pub reg_id: Option<u32>,
}

impl Register {
    /// Reads one.
    ///
    /// # Errors
    /// [`Refusal`]: something that matters can not be read, or is too long to be kept.
    pub fn read(message: &Message, rules: &Rules) -> Result<Self, Refusal> {
        let to = message.to().parsed_uri().map_err(|_| Refusal::NO_AOR)?;
        let aor = aor(&to)?.into();
        let call_id = copy(message.call_id(), LONGEST_WORD, Refusal::LONG_CALL_ID)?;
        let user_agent = message.first(Name::UserAgent).map(|agent| {
            let text = unfold(agent.value);
            Bytes::copy_from_slice(&text[..text.len().min(LONGEST_WORD)])
        });
        Ok(Self {
            aor,
            ask: ask(message, rules)?,
            call_id,
            cseq: message.cseq().number,
            path: path(message)?,
            user_agent,
            shows_path: supports(message, b"path"),
            gruu: supports(message, b"gruu").then(|| without_params(&to)),
        })
    }

    /// How many bindings it can make.
    pub const fn contacts(&self) -> usize {
        match &self.ask {
            Ask::Bind(contacts) => contacts.len(),
            Ask::List | Ask::Clear => 0,
        }
    }
}

/// The address of record of a URI: its user without escapes, in lower case (R135).
///
/// # Errors
/// It has no user, or a long one.
pub fn aor(uri: &Uri<'_>) -> Result<Vec<u8>, Refusal> {
    let user = uri.user.filter(|user| !user.is_empty()).ok_or(Refusal::NO_AOR)?;
    let mut aor = Vec::with_capacity(user.len());
    let mut rest = user;
    while let [first, behind @ ..] = rest {
        let escaped = behind.get(..2).filter(|_| *first == b'%').and_then(hex);
        rest = if escaped.is_some() { &behind[2..] } else { behind };
        aor.push(escaped.unwrap_or(*first).to_ascii_lowercase());
    }
    if aor.len() > LONGEST_AOR { Err(Refusal::LONG_AOR) } else { Ok(aor) }
}

fn hex(digits: &[u8]) -> Option<u8> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(value(digits[0])? * 16 + value(digits[1])?).ok()
}

fn ask(message: &Message, rules: &Rules) -> Result<Ask, Refusal> {
    let header = message.first(Name::Expires).map(|expires| expires.value);
    let allow = Methods::of_message(message);
    let (mut contacts, mut stars) = (Vec::new(), 0);
    for (place, contact) in message.addresses(Name::Contact).enumerate() {
        if place == MOST_CONTACTS {
            return Err(Refusal::TOO_MANY);
        }
        let contact = contact.map_err(|_| Refusal::BAD_CONTACT)?;
        if contact.uri == b"*" {
            stars += 1;
        } else {
            contacts.push(Contact::read(&contact, header, allow, rules)?);
        }
    }
    match (stars, contacts.len()) {
        (0, 0) => Ok(Ask::List),
        (0, _) => Ok(Ask::Bind(contacts)),
        (1, 0) if header.and_then(number) == Some(0) => Ok(Ask::Clear),
        (1, 0) => Err(Refusal::STAR_EXPIRES),
        _ => Err(Refusal::STAR_BESIDE),
    }
}

impl Contact {
    fn read(
        contact: &NameAddr<'_>,
        header: Option<&[u8]>,
        allow: Option<Methods>,
        rules: &Rules,
    ) -> Result<Self, Refusal> {
        contact.parsed_uri().map_err(|_| Refusal::BAD_CONTACT)?;
        let params = contact.params;
        let q = match params.get(b"q").flatten() {
            Some(text) => Some(q(text).ok_or(Refusal::BAD_Q)?),
            None => None,
        };
        let instance = match params.get(b"+sip.instance").flatten() {
            Some(text) if is_quotable(text) => {
                Some(copy(text, LONGEST_WORD, Refusal::LONG_CONTACT)?)
            }
            Some(_) => return Err(Refusal::BAD_CONTACT),
            None => None,
        };
        let reg_id = params.get(b"reg-id").flatten().and_then(number);
        Ok(Self {
            uri: copy(contact.uri, LONGEST_URI, Refusal::LONG_CONTACT)?,
            q,
            expires: expires(params.get(b"expires").flatten().or(header), rules),
            methods: params.get(b"methods").flatten().map(Methods::of_list).or(allow),
            reg_id: reg_id.filter(|_| instance.is_some()),
            instance,
        })
    }
}

/// The seconds of a Contact (R128): what its parameter or the header says, else an hour; within the
/// limits, but 0 stays 0.
fn expires(text: Option<&[u8]>, rules: &Rules) -> u32 {
    let asked = text.map_or(DEFAULT_EXPIRES, |text| number(text).unwrap_or(DEFAULT_EXPIRES));
    match asked {
        0 => 0,
        asked if rules.max_expires > 0 => asked.min(rules.max_expires).max(rules.min_expires),
        asked => asked.max(rules.min_expires),
    }
}

/// A q in thousandths: 0 to 1; digits behind the third are left out.
fn q(text: &[u8]) -> Option<u16> {
    let (whole, digits) = match text.split_first()? {
        (whole @ (b'0' | b'1'), []) => return Some(u16::from(whole - b'0') * 1000),
        (whole @ (b'0' | b'1'), [b'.', digits @ ..]) => (whole - b'0', digits),
        (b'.', digits) => (0, digits),
        _ => return None,
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let part = (0..3).fold(0, |sum, place| {
        sum * 10 + u16::from(digits.get(place).map_or(0, |digit| digit - b'0'))
    });
    let q = u16::from(whole) * 1000 + part;
    (q <= 1000).then_some(q)
}

/// A number of digits alone that fits.
fn number(text: &[u8]) -> Option<u32> {
    let text = text.trim_ascii();
    let digits = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

/// The Path of all headers as the value of one Route (RFC 3327): each entry in brackets.
fn path(message: &Message) -> Result<Option<Bytes>, Refusal> {
    let mut path = Vec::new();
    for entry in message.addresses(Name::Path) {
        let entry = entry.map_err(|_| Refusal::BAD_PATH)?;
        entry.parsed_uri().map_err(|_| Refusal::BAD_PATH)?;
        if !path.is_empty() {
            path.extend_from_slice(b", ");
        }
        path.push(b'<');
        path.extend_from_slice(entry.uri);
        path.push(b'>');
        if !entry.params.0.is_empty() {
            path.push(b';');
            path.extend_from_slice(&unfold(entry.params.0));
        }
        if path.len() > LONGEST_PATH {
            return Err(Refusal::BAD_PATH);
        }
    }
    Ok((!path.is_empty()).then(|| path.into()))
}

fn supports(message: &Message, option: &[u8]) -> bool {
    let mut lists = message.all(Name::Supported);
    lists.any(|list| {
        let mut options = list.value.split(|byte| *byte == b',');
        options.any(|there| there.trim_ascii().eq_ignore_ascii_case(option))
    })
}

/// A URI up to its parameters.
fn without_params(uri: &Uri<'_>) -> Bytes {
    let mut end = uri.text.len();
    end -= uri.headers.map_or(0, |headers| headers.len() + 1);
    if !uri.params.0.is_empty() {
        end -= uri.params.0.len() + 1;
    }
    Bytes::copy_from_slice(&uri.text[..end])
}

/// Whether a text can stand between quotes as it is.
fn is_quotable(text: &[u8]) -> bool {
    let bad = |byte: &u8| byte.is_ascii_control() || matches!(byte, b'"' | b'\\');
    !text.is_empty() && !text.iter().any(bad)
}

/// A copy of what is not too long.
fn copy(text: &[u8], most: usize, otherwise: Refusal) -> Result<Bytes, Refusal> {
    if text.len() > most { Err(otherwise) } else { Ok(Bytes::copy_from_slice(text)) }
}
