//! Questions and what servers make of them.

use std::net::IpAddr;
use std::time::Duration;

use domain::base::iana::{Class, Rcode};
use domain::base::name::{ParsedName, ToName};
use domain::base::{Message, MessageBuilder, Name, Rtype};
use domain::rdata::{A, Aaaa, Cname, Soa};
use lineway_wire::dial::Family;
use smallvec::SmallVec;

/// The UDP answer size that every path carries without fragments (DNS flag day 2020).
const UDP_PAYLOAD: u16 = 1_232;

/// Addresses that one answer may have; more are left out.
const MAX_ADDRESSES: usize = 64;

/// Aliases that are followed for one name.
pub(super) const MAX_ALIASES: usize = 8;

/// How long an answer without addresses is kept when it does not say.
const UNSAID_NEGATIVE_TTL: Duration = Duration::from_secs(1);

pub(super) type OwnedName = Name<Vec<u8>>;

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Addresses; the TTL is the least of the addresses' and their aliases'.
    Addresses(SmallVec<[IpAddr; 4]>, Duration),
    /// The name exists without such an address.
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

/// The question for the addresses of `name` with a random id; `None` if it can not be written.
pub(super) fn question(name: &OwnedName, family: Family, edns: bool) -> Option<Message<Vec<u8>>> {
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_random_id();
    builder.header_mut().set_rd(true);
    let mut builder = builder.question();
    builder.push((name, rtype(family))).ok()?;
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
pub(super) fn read(question: &Message<Vec<u8>>, answer: &[u8], family: Family) -> Option<Reply> {
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
        Rcode::NOERROR => records(message, family).unwrap_or(Reply::Unusable),
        Rcode::NXDOMAIN => Reply::NotFound(negative_ttl(message).unwrap_or(UNSAID_NEGATIVE_TTL)),
        _ => Reply::Unusable,
    })
}

fn rtype(family: Family) -> Rtype {
    match family {
        Family::V4 => Rtype::A,
        Family::V6 => Rtype::AAAA,
    }
}

/// Follows the aliases to the addresses; `None` if the records can not be read.
fn records(message: &Message<[u8]>, family: Family) -> Option<Reply> {
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
    let mut found = SmallVec::new();
    for record in message.answer().ok()? {
        let record = record.ok()?;
        if record.class() != Class::IN || record.owner() != name {
            continue;
        }
        let address = match family {
            Family::V4 => record.to_record::<A>().ok()?.map(|a| a.data().addr().into()),
            Family::V6 => record.to_record::<Aaaa>().ok()?.map(|a| a.data().addr().into()),
        };
        if let Some(address) = address {
            least = least.min(record.ttl().as_secs());
            if found.len() < MAX_ADDRESSES && !found.contains(&address) {
                found.push(address);
            }
        }
    }
    if !found.is_empty() {
        return Some(Reply::Addresses(found, ttl(least)));
    }
    Some(match negative_ttl(message) {
        Some(ttl) => Reply::NoData(ttl),
        None if aliases > 0 => Reply::Alias { name: name.to_vec(), aliases, ttl: ttl(least) },
        None => Reply::NoData(UNSAID_NEGATIVE_TTL),
    })
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
