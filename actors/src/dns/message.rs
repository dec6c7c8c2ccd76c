//! Questions and what servers make of them.

use std::time::Duration;

use bytes::Bytes;
use domain::base::iana::{Class, Rcode};
use domain::base::name::{ParsedName, ToName};
use domain::base::record::ParsedRecord;
use domain::base::{Message, MessageBuilder, Name, Rtype};
use domain::rdata::{A, Aaaa, Cname, Naptr, Soa, Srv};
use lineway_wire::sip::locate;
use smallvec::SmallVec;

use super::records::{Kind, Records};

/// The UDP answer size that every path carries without fragments (DNS flag day 2020).
const UDP_PAYLOAD: u16 = 1_232;

/// Records that one answer may have; more are left out.
const MAX_RECORDS: usize = 64;

/// Aliases that are followed for one name.
pub(super) const MAX_ALIASES: usize = 8;

/// How long an answer without records is kept when it does not say.
const UNSAID_NEGATIVE_TTL: Duration = Duration::from_secs(1);

pub(super) type OwnedName = Name<Vec<u8>>;

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Records; the TTL is the least of theirs and their aliases'.
    Found(Records, Duration),
    /// The name exists without such a record.
    NoData(Duration),
    /// The name does not exist.
    NotFound(Duration),
    /// The name stands for another one, of which nothing was said.
    Alias { name: OwnedName, aliases: usize, ttl: Duration },
    /// The answer did not fit: ask over TCP.
    Truncated,
    /// The server does not understand the question; perhaps without EDNS.
    NotUnderstood,
    /// The server can not answer, or not so that it could be read.
    Unusable,
}

/// The question for records of `name` with a random id; `None` if it can not be written.
pub(super) fn question(name: &OwnedName, kind: Kind, edns: bool) -> Option<Message<Vec<u8>>> {
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_random_id();
    builder.header_mut().set_rd(true);
    let mut builder = builder.question();
    builder.push((name, rtype(kind))).ok()?;
    let mut builder = builder.additional();
    if edns {
        let opt = builder.opt(|opt| {
            opt.set_udp_payload_size(UDP_PAYLOAD);
            Ok(())
        });
        opt.ok()?;
    }
    Some(builder.into_message())
}

/// Reads an answer to `question`; `None` if it is not one and is to be ignored.
pub(super) fn read(question: &Message<Vec<u8>>, answer: &[u8], kind: Kind) -> Option<Reply> {
    let message = Message::from_slice(answer).ok()?;
    let header = message.header();
    // Servers that do not understand a question may send back its header alone.
    let bare = message.header_counts().qdcount() == 0 && header.rcode() != Rcode::NOERROR;
    let mine = if bare {
        header.qr() && header.id() == question.header().id()
    } else {
        message.is_answer(question)
    };
    if !mine {
        return None;
    }
    Some(match header.rcode() {
        Rcode::FORMERR | Rcode::NOTIMP => Reply::NotUnderstood,
        Rcode::NOERROR | Rcode::NXDOMAIN if bare => Reply::Unusable,
        Rcode::NOERROR | Rcode::NXDOMAIN if header.tc() => Reply::Truncated,
        Rcode::NOERROR => records(message, kind).unwrap_or(Reply::Unusable),
        Rcode::NXDOMAIN => Reply::NotFound(negative_ttl(message).unwrap_or(UNSAID_NEGATIVE_TTL)),
        _ => Reply::Unusable,
    })
}

const fn rtype(kind: Kind) -> Rtype {
    match kind {
        Kind::A => Rtype::A,
        Kind::Aaaa => Rtype::AAAA,
        Kind::Srv => Rtype::SRV,
        Kind::Naptr => Rtype::NAPTR,
    }
}

/// Follows the aliases to the records; `None` if the records can not be read.
fn records(message: &Message<[u8]>, kind: Kind) -> Option<Reply> {
    let mut name = message.sole_question().ok()?.into_qname();
    let mut least = u32::MAX;
    let mut aliases = 0;
    while let Some((target, ttl)) = alias(message, &name)? {
        aliases += 1;
        if aliases > MAX_ALIASES {
            return None;
        }
        name = target;
        least = least.min(ttl);
    }
    let mut found = Found::new(kind);
    for record in message.answer().ok()? {
        let record = record.ok()?;
        if record.class() == Class::IN && record.owner() == name && found.take(&record)? {
            least = least.min(record.ttl().as_secs());
        }
    }
    let found = found.records();
    if !found.is_empty() {
        return Some(Reply::Found(found, ttl(least)));
    }
    Some(match negative_ttl(message) {
        Some(ttl) => Reply::NoData(ttl),
        None if aliases > 0 => Reply::Alias { name: name.to_vec(), aliases, ttl: ttl(least) },
        None => Reply::NoData(UNSAID_NEGATIVE_TTL),
    })
}

/// The records of an answer as they are read.
enum Found {
    Addresses(Kind, SmallVec<[std::net::IpAddr; 4]>),
    Srv(Vec<locate::Srv>),
    Naptr(Vec<locate::Naptr>),
}

impl Found {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::A | Kind::Aaaa => Self::Addresses(kind, SmallVec::new()),
            Kind::Srv => Self::Srv(Vec::new()),
            Kind::Naptr => Self::Naptr(Vec::new()),
        }
    }

    /// Takes a record, if it is of the kind that was asked for; `None` if it can not be read.
    fn take(&mut self, record: &ParsedRecord<'_, [u8]>) -> Option<bool> {
        let is_of_kind = match self {
            Self::Addresses(kind, list) => {
                let address = match kind {
                    Kind::Aaaa => record.to_record::<Aaaa>().ok()?.map(|a| a.data().addr().into()),
                    _ => record.to_record::<A>().ok()?.map(|a| a.data().addr().into()),
                };
                let is_of_kind = address.is_some();
                if let Some(address) = address.filter(|address| !list.contains(address))
                    && list.len() < MAX_RECORDS
                {
                    list.push(address);
                }
                is_of_kind
            }
            Self::Srv(list) => {
                let record = record.to_record::<Srv<ParsedName<_>>>().ok()?;
                let server = record.as_ref().map(|record| {
                    let srv = record.data();
                    locate::Srv {
                        priority: srv.priority(),
                        weight: srv.weight(),
                        port: srv.port(),
                        target: text(srv.target()),
                    }
                });
                list.extend(server.filter(|_| list.len() < MAX_RECORDS));
                record.is_some()
            }
            Self::Naptr(list) => {
                let record = record.to_record::<Naptr<_, ParsedName<_>>>().ok()?;
                let service = record.as_ref().map(|record| {
                    let naptr = record.data();
                    locate::Naptr {
                        order: naptr.order(),
                        preference: naptr.preference(),
                        flags: Bytes::copy_from_slice(naptr.flags().as_slice()),
                        services: Bytes::copy_from_slice(naptr.services().as_slice()),
                        replacement: text(naptr.replacement()),
                    }
                });
                list.extend(service.filter(|_| list.len() < MAX_RECORDS));
                record.is_some()
            }
        };
        Some(is_of_kind)
    }

    fn records(self) -> Records {
        match self {
            Self::Addresses(_, list) => Records::Addresses(list.as_slice().into()),
            Self::Srv(list) => Records::Srv(list.into()),
            Self::Naptr(list) => Records::Naptr(list.into()),
        }
    }
}

/// A name in lower case without a final dot; the root is empty.
fn text(name: &ParsedName<&[u8]>) -> Bytes {
    let mut text = name.to_string();
    text.make_ascii_lowercase();
    text.truncate(text.trim_end_matches('.').len());
    text.into()
}

/// What `name` stands for, if it is an alias, with the alias's TTL.
#[allow(clippy::type_complexity)] // one tuple for one caller
fn alias<'a>(
    message: &'a Message<[u8]>,
    name: &ParsedName<&'a [u8]>,
) -> Option<Option<(ParsedName<&'a [u8]>, u32)>> {
    for record in message.answer().ok()?.limit_to_in::<Cname<_>>() {
        let record = record.ok()?;
        if record.owner() == name {
            let ttl = record.ttl().as_secs();
            return Some(Some((record.into_data().into_cname(), ttl)));
        }
    }
    Some(None)
}

/// How long the answer that there is nothing may be kept (RFC 2308 5).
fn negative_ttl(message: &Message<[u8]>) -> Option<Duration> {
    let mut authority = message.authority().ok()?.limit_to_in::<Soa<_>>();
    let soa = authority.next()?.ok()?;
    Some(ttl(soa.ttl().as_secs().min(soa.data().minimum().as_secs())))
}

/// A TTL; one with the top bit set counts as 0 (RFC 2181 8).
fn ttl(seconds: u32) -> Duration {
    Duration::from_secs(i32::try_from(seconds).map_or(0, |seconds| seconds as u64))
}
