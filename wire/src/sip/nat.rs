//! Clients behind a NAT (contract 5, the part that edits messages): `nat_uac_test`,
//! `fix_nated_contact`, contact aliases.

use std::net::IpAddr;
use std::ops::Range;

use bytes::Bytes;

use super::draft::Draft;
use super::message::{Name, NameAddr, Uri, host_ip};
use super::own::{DEFAULT_PORT, Transport};

#[cfg(test)]
mod tests;

/// The tests of [`nat_uac_test`]. 64 is WebSocket, which is not carried.
mod bit {
    pub(super) const CONTACT_PRIVATE: i64 = 1;
    pub(super) const VIA_ADDRESS: i64 = 2;
    pub(super) const VIA_PRIVATE: i64 = 4;
    pub(super) const SDP_PRIVATE: i64 = 8;
    pub(super) const VIA_PORT: i64 = 16;
    pub(super) const SOURCE_PRIVATE: i64 = 32;
    pub(super) const CONTACT_PORT: i64 = 128;
    pub(super) const SDP_ADDRESS: i64 = 256;
}

/// `nat_uac_test(flags)`: the tests of these bits; 1 when one is true, else -1.
///
/// 1: a Contact has a private address; 2: the top Via's host is not the source; 4: it is a private
/// address; 8: one in the SDP is; 16: the top Via's port (absent = 5060) is not the source's; 32:
/// the source is private; 128: a Contact's port is not the source's; 256: an address in the SDP is
/// not the source. Private are those of RFC 1918 and RFC 6598.
pub fn nat_uac_test(draft: &Draft, flags: i64) -> i64 {
    let source = draft.received.source;
    let via = draft.message.via();
    let asked = |bit| flags & bit != 0;
    let contact = |test: fn(&Uri<'_>, u16) -> bool| {
        let mut contacts = draft.message.addresses(Name::Contact).flatten();
        contacts.any(|contact| contact.parsed_uri().is_ok_and(|uri| test(&uri, source.port())))
    };
    let is_nat = asked(bit::CONTACT_PRIVATE) && contact(|uri, _| is_private_host(uri.host))
        || asked(bit::VIA_ADDRESS) && host_ip(via.host) != Some(source.ip())
        || asked(bit::VIA_PRIVATE) && is_private_host(via.host)
        || asked(bit::VIA_PORT) && via.port.unwrap_or(DEFAULT_PORT) != source.port()
        || asked(bit::SOURCE_PRIVATE) && is_private(source.ip())
        || asked(bit::CONTACT_PORT)
            && contact(|uri, port| uri.is_sip() && uri.port.unwrap_or(DEFAULT_PORT) != port)
        || asked(bit::SDP_PRIVATE) && sdp_addresses(draft).any(is_private)
        || asked(bit::SDP_ADDRESS)
            && sdp_addresses(draft).any(|ip| ip != source.ip() && !ip.is_unspecified());
    if is_nat { 1 } else { -1 }
}

/// `fix_nated_contact()`: each Contact has the source's address and port. -1 where there is none
/// that could.
pub fn fix_nated_contact(draft: &mut Draft) -> i64 {
    let source = Bytes::from(draft.received.source.to_string());
    let edits: Vec<_> = contacts(draft)
        .map(|(contact, uri)| {
            let host = host_at(&uri);
            (contact.uri_at.start + host.start..contact.uri_at.start + host.end, source.clone())
        })
        .collect();
    edit(draft, edits)
}

/// `set_contact_alias()`: each Contact carries the source in a parameter
/// `alias=address~port~transport`, from which [`handle_ruri_alias`] takes it when the Contact
/// comes back as Request-URI: behind the other parameters, but in front of an alias that is there
/// already. -1 where there is none that could.
pub fn set_contact_alias(draft: &mut Draft) -> i64 {
    alias(draft, |uri| {
        if uri.params.get(b"alias").is_some() {
            return host_at(uri).end;
        }
        uri.text.len() - uri.headers.map_or(0, |headers| headers.len() + 1)
    })
}

/// `add_contact_alias()`: the same, with the alias in front of the other parameters.
pub fn add_contact_alias(draft: &mut Draft) -> i64 {
    alias(draft, |uri| host_at(uri).end)
}

/// Puts the source into each Contact, at that place of its URI.
fn alias(draft: &mut Draft, at: impl Fn(&Uri<'_>) -> usize) -> i64 {
    let source = draft.received.source;
    let host = match source.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let transport = match draft.received.transport {
        Transport::Udp => 1,
        Transport::Tcp => 2,
    };
    let alias = format!(";alias={host}~{}~{transport}", source.port());
    let edits: Vec<_> = contacts(draft)
        .map(|(contact, uri)| {
            let (front, rest) = contact.uri.split_at(at(&uri));
            // Without brackets it would be a parameter of the header.
            let is_bare = contact.uri_at.start == contact.at.start;
            let [open, close] = if is_bare { ["<", ">"] } else { ["", ""] }.map(str::as_bytes);
            let text = [open, front, alias.as_bytes(), rest, close].concat();
            (contact.uri_at, text.into())
        })
        .collect();
    edit(draft, edits)
}

/// `handle_ruri_alias()`: takes the alias out of the Request-URI and makes it `$du`: 1; 2 without
/// one; -1 for one that leads nowhere.
pub fn handle_ruri_alias(draft: &mut Draft) -> i64 {
    let text = draft.uri();
    let Ok(uri) = Uri::parse(text) else { return -1 };
    if !uri.is_sip() {
        return 2;
    }
    let alias = uri.params.get(b"alias").flatten();
    let Some((address, transport)) = alias.and_then(|alias| split_last(alias, b'~')) else {
        return 2;
    };
    let Some((host, port)) = split_last(address, b'~') else { return 2 };
    let port = std::str::from_utf8(port).ok().and_then(|port| port.parse::<u16>().ok());
    let (Some(port), Some(_)) = (port.filter(|port| *port != 0), host_ip(host)) else { return -1 };
    let transport = match transport {
        b"1" => "",
        b"2" => ";transport=tcp",
        b"3" => ";transport=tls",
        b"4" => ";transport=sctp",
        b"5" => ";transport=ws",
        b"6" => ";transport=wss",
        _ => return -1,
    };
    let dst = format!("sip:{}:{port}{transport}", String::from_utf8_lossy(host));
    let uri = without_alias(&uri);
    (draft.uri, draft.dst_uri) = (Some(uri.into()), Some(dst.into()));
    1
}

/// The URI without its first alias.
fn without_alias(uri: &Uri<'_>) -> Vec<u8> {
    let mut out = uri.text[..host_at(uri).end].to_vec();
    let mut gone = false;
    for (name, value) in uri.params.iter() {
        if !gone && name.eq_ignore_ascii_case(b"alias") {
            gone = true;
            continue;
        }
        out.push(b';');
        out.extend_from_slice(name);
        if let Some(value) = value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
    if let Some(headers) = uri.headers {
        out.push(b'?');
        out.extend_from_slice(headers);
    }
    out
}

/// The Contacts with a host that no edit has touched.
fn contacts(draft: &Draft) -> impl Iterator<Item = (NameAddr<'_>, Uri<'_>)> {
    let contacts = draft.message.addresses(Name::Contact).flatten();
    contacts.filter_map(|contact| {
        let uri = contact.parsed_uri().ok().filter(Uri::is_sip)?;
        draft.lumps.is_untouched(contact.uri_at.clone()).then_some((contact, uri))
    })
}

fn edit(draft: &mut Draft, edits: Vec<(Range<usize>, Bytes)>) -> i64 {
    let mut done = false;
    for (at, text) in edits {
        done |= draft.lumps.replace(at, text);
    }
    if done { 1 } else { -1 }
}

/// Where host and port of a sip URI stand in its text.
fn host_at(uri: &Uri<'_>) -> Range<usize> {
    let password = uri.password.map_or(0, |password| password.len() + 1);
    let start = uri.scheme.len() + 1 + uri.user.map_or(0, |user| user.len() + password + 1);
    let mut end = start + uri.host.len();
    if uri.port.is_some() {
        end += 1;
        end += uri.text[end..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    }
    start..end
}

fn split_last(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = memchr::memrchr(at, text)?;
    Some((&text[..place], &text[place + 1..]))
}

/// The connection addresses of an SDP body, alone or among other parts.
fn sdp_addresses(draft: &Draft) -> impl Iterator<Item = IpAddr> {
    let kind = draft.message.first(Name::ContentType).map_or(&b""[..], |header| header.value);
    let begins = |word: &[u8]| kind.get(..word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word));
    let is_sdp = begins(b"application/sdp") || begins(b"multipart/");
    let body = if is_sdp { draft.message.body() } else { b"" };
    body.split(|byte| *byte == b'\n').filter_map(|line| {
        let rest = line.strip_prefix(b"c=IN IP")?;
        let address = rest.get(1..)?.trim_ascii();
        // What follows a slash is the TTL of a multicast address.
        let address = address.split(|byte| *byte == b'/').next()?;
        std::str::from_utf8(address).ok()?.parse().ok()
    })
}

fn is_private_host(host: &[u8]) -> bool {
    host_ip(host).is_some_and(is_private)
}

/// RFC 1918, RFC 6598, and 192.0.0.0/29 of RFC 7335.
fn is_private(ip: IpAddr) -> bool {
    let IpAddr::V4(ip) = ip else { return false };
    let is_in =
        |net: [u8; 4], bits: u32| (u32::from(ip) ^ u32::from_be_bytes(net)).leading_zeros() >= bits;
    ip.is_private() || is_in([100, 64, 0, 0], 10) || is_in([192, 0, 0, 0], 29)
}
