//! Stateless replies (contract 1.6): the top Via goes, the next one tells where to.

use std::net::SocketAddr;

use bytes::Bytes;

use super::draft::Draft;
use super::own::{ConnectionId, Own, Socket, Transport};

/// Where a reply goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyHop {
    /// What the Via says.
    pub transport: Transport,
    /// An address, or a name to resolve.
    pub to: ReplyTo,
    /// The connection that `i=` of the removed Via names.
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

/// Where a reply goes.
///
/// # Errors
/// It goes nowhere.
pub fn next_hop(_draft: &Draft, _own: &Own) -> Result<ReplyHop, ReplyDrop> {
    unimplemented!()
}

/// Writes the reply without its top Via, edits applied, Content-Length added towards TCP (R160).
pub fn write(_draft: &Draft, _own: &Own, _sending: &Socket, _out: &mut Vec<u8>) {
    unimplemented!()
}
