//! Stateless replies (contract 1.6): the top Via goes, the next one tells where to.

use std::net::SocketAddr;

use bytes::Bytes;
use smallvec::SmallVec;

use super::branch;
use super::draft::Draft;
use super::hop::HopHost;
use super::lumps::{Ends, Patch, content_length};
use super::message::{Message, Name, Via, host_ip};
use super::own::{ConnectionId, DEFAULT_PORT, Own, Socket, Transport};

/// Where a reply goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyHop {
    /// What the Via says.
    pub transport: Transport,
    /// An address, or a name to resolve.
    pub to: ReplyTo,
    /// The connection that `i=` of the removed Via names, for TCP. Whoever sent the reply wrote it:
    /// it is of use only if that connection leads to this address.
    pub connection: Option<ConnectionId>,
}

/// The address of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyTo {
    /// `received` or the sent-by, with rport, port, or 5060.
    Address(SocketAddr),
    /// The sent-by is a name and there is no `received`.
    Name(Bytes, Option<u16>),
}

/// Why a reply is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyDrop {
    /// No second Via (R26).
    #[error("no second Via")]
    NoVia,
    /// The second Via says a transport that is not carried, or can not be read.
    #[error("the second Via is of no use")]
    BadVia,
}

/// Where a reply goes. The top Via is not compared with the own address (R28), so that replies to
/// what others forwarded pass as well (R27).
///
/// # Errors
/// It goes nowhere.
pub fn next_hop(draft: &Draft) -> Result<ReplyHop, ReplyDrop> {
    let message = &draft.message;
    let top = message.via();
    let via = second(message)?;
    let transport = Transport::of(via.transport).ok_or(ReplyDrop::BadVia)?;
    let rport = via.rport().flatten().and_then(port);
    let port = rport.or(via.port);
    if port == Some(0) {
        return Err(ReplyDrop::BadVia);
    }
    let ip = via.received().and_then(host_ip);
    let to = match ip.map(HopHost::Ip).or_else(|| HopHost::of(via.host)) {
        Some(HopHost::Ip(ip)) => ReplyTo::Address((ip, port.unwrap_or(DEFAULT_PORT)).into()),
        Some(HopHost::Name(name)) => ReplyTo::Name(name, port),
        None => return Err(ReplyDrop::BadVia),
    };
    let connection = top.params.get(b"i").flatten().and_then(branch::read_reversed_hex);
    let connection = connection.filter(|_| transport == Transport::Tcp).map(ConnectionId);
    Ok(ReplyHop { transport, to, connection })
}

fn second(message: &Message) -> Result<Via<'_>, ReplyDrop> {
    if let Some(via) = message.vias().nth(1) {
        return Ok(via);
    }
    let more = message.via().shares_line || message.all(Name::Via).nth(1).is_some();
    Err(if more { ReplyDrop::BadVia } else { ReplyDrop::NoVia })
}

fn port(text: &[u8]) -> Option<u16> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|port| *port != 0)
}

/// Writes the reply without its top Via (R25), edits applied, Content-Length added towards TCP
/// (R160).
pub fn write(draft: &Draft, own: &Own, sending: &Socket, out: &mut Vec<u8>) {
    let Draft { message, lumps, .. } = draft;
    let length = content_length(message, lumps, sending.transport);
    let mut patches = SmallVec::<[Patch<'_>; 4]>::new();
    patches.push(Patch { at: top_value(message), text: b"" });
    patches.extend(length.patches());

    let received = own.socket(draft.received.socket).unwrap_or(sending);
    let ends = Ends { received, sending };
    let Some((code, reason)) = &draft.status else {
        return lumps.apply(message, 0, ends, &patches, out);
    };
    let from = message.headers_at();
    out.reserve(16 + reason.len() + lumps.size(message, from, ends, &patches));
    out.extend_from_slice(b"SIP/2.0 ");
    out.extend_from_slice(code.to_string().as_bytes());
    out.extend_from_slice(b" ");
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
    lumps.apply(message, from, ends, &patches, out);
}

/// The top Via value in the message: its line, or as far as the next value of that line.
fn top_value(message: &Message) -> std::ops::Range<usize> {
    let top = message.via();
    match message.vias().nth(1).filter(|via| via.line == top.line) {
        Some(next) => top.at.0..next.at.0,
        None => top.line.0..top.line.1,
    }
}

#[cfg(test)]
mod tests;
