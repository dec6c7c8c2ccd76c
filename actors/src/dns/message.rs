//! Questions and answers as bytes (RFC 1035), by the `domain` crate.

use std::net::IpAddr;
use std::time::Duration;

use domain::base::iana::{Class, Rcode};
use domain::base::message_builder::PushError;
use domain::base::{Message, MessageBuilder, Name, Rtype};
use domain::rdata::{A, Aaaa, Cname, Soa};

use super::{Addresses, Family};

/// The size of a UDP answer that we take (RFC 9715).
pub(super) const UDP_SIZE: u16 = 1232;

/// Addresses of one answer that are used.
const MOST_ADDRESSES: usize = 64;

/// Records of one answer that are looked at.
const MOST_RECORDS: usize = 512;

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Addresses, and how long they are good.
    Found(Addresses, Duration),
    /// The name is another name's alias, whose addresses are not in the answer.
    Alias(String, Duration),
    /// There is no such name or address, and how long that is good.
    NotFound(Duration),
    /// The answer did not fit: ask over TCP.
    Truncated,
    /// This server has no answer; another one may.
    Failed,
}

/// The question for the addresses of a name. `None` for a name that can not be asked for.
pub(super) fn question(id: u16, name: &str, family: Family) -> Option<Vec<u8>> {
    let name: Name<Vec<u8>> = name.parse().ok()?;
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(id);
    builder.header_mut().set_rd(true);
    let mut builder = builder.question();
    let pushed: Result<(), PushError> = builder.push((name, rtype(family)));
    pushed.ok()?;
    let mut builder = builder.additional();
    let size = |opt: &mut domain::base::message_builder::OptBuilder<'_, Vec<u8>>| {
        opt.set_udp_payload_size(UDP_SIZE);
        Ok(())
    };
    builder.opt(size).ok()?;
    Some(builder.finish())
}

/// Reads an answer to [`question`]. `None` for what is no answer to it: whoever sent it.
pub(super) fn answer(bytes: &[u8], id: u16, name: &str, family: Family) -> Option<Reply> {
    let message = Message::from_slice(bytes).ok()?;
    let asked: Name<Vec<u8>> = name.parse().ok()?;
    let header = message.header();
    let question = message.sole_question().ok()?;
    let ours = header.qr()
        && header.id() == id
        && question.qtype() == rtype(family)
        && question.qclass() == Class::IN
        && *question.qname() == asked;
    if !ours {
        return None;
    }
    if header.tc() {
        return Some(Reply::Truncated);
    }
    match header.rcode() {
        Rcode::NOERROR => Some(found(message, &asked, family)),
        Rcode::NXDOMAIN => Some(Reply::NotFound(denial_ttl(message))),
        _ => Some(Reply::Failed),
    }
}

fn found(message: &Message<[u8]>, asked: &Name<Vec<u8>>, family: Family) -> Reply {
    let Some(owner) = message.canonical_name() else {
        return Reply::Failed;
    };
    let Ok(section) = message.answer() else {
        return Reply::Failed;
    };
    let mut addresses = Addresses::new();
    let mut ttl = Duration::MAX;
    for record in section.take(MOST_RECORDS) {
        let Ok(record) = record else {
            return Reply::Failed;
        };
        let of_owner = record.owner() == owner;
        let ip = match family {
            Family::V4 => {
                record.to_record::<A>().ok().flatten().map(|r| IpAddr::V4(r.data().addr()))
            }
            Family::V6 => {
                record.to_record::<Aaaa>().ok().flatten().map(|r| IpAddr::V6(r.data().addr()))
            }
        };
        let alias = record.to_record::<Cname<_>>().ok().flatten().is_some();
        if alias || (of_owner && ip.is_some()) {
            ttl = ttl.min(Duration::from_secs(record.ttl().as_secs().into()));
        }
        if let Some(ip) = ip.filter(|_| of_owner && addresses.len() < MOST_ADDRESSES) {
            addresses.push(ip);
        }
    }
    if !addresses.is_empty() {
        Reply::Found(addresses, ttl)
    } else if owner == *asked {
        Reply::NotFound(denial_ttl(message))
    } else {
        Reply::Alias(owner.to_string(), ttl)
    }
}

/// How long a denial is good: the smaller of the SOA's TTL and its minimum (RFC 2308 5).
fn denial_ttl(message: &Message<[u8]>) -> Duration {
    let Ok(section) = message.authority() else {
        return Duration::ZERO;
    };
    let soa = section.limit_to_in::<Soa<_>>().take(MOST_RECORDS).flatten().next();
    let ttl = soa.map_or(0, |soa| soa.ttl().as_secs().min(soa.data().minimum().as_secs()));
    Duration::from_secs(ttl.into())
}

const fn rtype(family: Family) -> Rtype {
    match family {
        Family::V4 => Rtype::A,
        Family::V6 => Rtype::AAAA,
    }
}

#[cfg(test)]
mod tests;
