//! Replies without state (contract 4), and the tag by which their ACK is known.

use std::net::SocketAddr;
use std::time::Instant;

use super::draft::Draft;
use super::message::Message;
use super::own::{ConnectionId, Own, SocketId, Transport};

/// Where a reply of ours goes: the way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back {
    /// The socket that it leaves by.
    pub socket: SocketId,
    /// The transport.
    pub transport: Transport,
    /// Where to: source address, and rport, source or Via port.
    pub to: SocketAddr,
    /// The connection, for TCP.
    pub connection: Option<ConnectionId>,
}

/// Replies without state; one for each worker, all with the same tags.
#[derive(Debug)]
pub struct Sl {
    _last: Option<Instant>,
}

impl Sl {
    /// The tags stand on the first own socket.
    pub fn new(_own: &Own) -> Self {
        unimplemented!()
    }
    /// Writes the reply to a request, and says where it goes; `None` for an ACK, which gets none
    /// (R106), and for a reply.
    pub fn reply(
        &mut self,
        _draft: &Draft,
        _own: &Own,
        _code: u16,
        _reason: &[u8],
        _now: Instant,
        _out: &mut Vec<u8>,
    ) -> Option<Back> {
        unimplemented!()
    }
    /// Whether this ACK is that of a reply of ours: it is absorbed. Asked within 2 s after the last.
    pub fn absorbs(&self, _ack: &Message, _now: Instant) -> bool {
        unimplemented!()
    }
}
