//! The handshake of one connection (1.3, 1.5): what was told, what is answered.

use bytes::{Bytes, BytesMut};

use super::connection::ConnectionOptions;
use super::control::{self, Ready, internal};
use super::frame::{ErrorCode, ProtocolError};
use super::record::{Lane, SocketKind};

/// What the peer's HELLO said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) kind: SocketKind,
    /// May be empty. A copy: it lives as long as the connection.
    pub(super) routing_id: Bytes,
}

/// What the two READYs agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    /// The largest record that the peer takes, in bytes; 0 = no limit.
    pub(super) max_message_size: u64,
    pub(super) lane: Lane,
}

/// Writes the own HELLO.
pub(super) fn hello(own: &ConnectionOptions, output: &mut BytesMut) {
    control::put_hello(output, own.kind, own.routing_id.as_bytes());
}

/// Takes the peer's HELLO; the side that dialled writes its READY.
///
/// # Errors
/// The peer is neither DEALER nor ROUTER, or has no such lane.
pub(super) fn met(
    own: &ConnectionOptions,
    socket_type: u8,
    routing_id: &[u8],
    output: &mut BytesMut,
) -> Result<Peer, ProtocolError> {
    let Some(kind) = SocketKind::from_byte(socket_type) else {
        let what = "the peer is neither DEALER nor ROUTER";
        return Err(ProtocolError::new(ErrorCode::SocketType, what));
    };
    if own.dialled {
        let count = own.kind.lanes_with(kind);
        if own.lane.byte() >= count {
            return Err(internal("the peer of a second lane has only one"));
        }
        put_ready(own, count, own.lane, output);
    }
    Ok(Peer { kind, routing_id: Bytes::copy_from_slice(routing_id) })
}

/// Takes the peer's READY; the side that was dialled writes its own.
///
/// # Errors
/// It does not agree with the HELLO, or with what this side expects.
pub(super) fn ready(
    own: &ConnectionOptions,
    peer: &Peer,
    ready: Ready<'_>,
    output: &mut BytesMut,
) -> Result<Agreed, ProtocolError> {
    if ready.socket_type.is_some_and(|name| name != peer.kind.name().as_bytes()) {
        return Err(internal("the Socket-Type of READY is not the one of HELLO"));
    }
    if ready.routing_id.is_some_and(|id| id != peer.routing_id) {
        return Err(internal("the Routing-Id of READY is not the one of HELLO"));
    }
    let count = own.kind.lanes_with(peer.kind);
    if ready.lane_count != Some(&[count]) {
        return Err(internal("a READY whose Zlink-Lane-Count is missing or wrong"));
    }
    let lane = match ready.lane {
        Some([0]) => Lane::Application,
        Some([1]) if count == 2 => Lane::Completion,
        _ => return Err(internal("a READY whose Zlink-Lane is missing or wrong")),
    };
    let max_message_size = match ready.max_message_size.map(TryInto::try_into) {
        None => 0,
        Some(Ok(bytes)) => u64::from_be_bytes(bytes),
        Some(Err(_)) => return Err(internal("a Zlink-Max-Message-Size that is not 8 bytes")),
    };
    if !own.dialled {
        put_ready(own, count, lane, output);
    } else if lane != own.lane {
        return Err(internal("the peer answered for the other lane"));
    }
    Ok(Agreed { max_message_size, lane })
}

fn put_ready(own: &ConnectionOptions, count: u8, lane: Lane, output: &mut BytesMut) {
    let id = own.routing_id.as_bytes();
    control::put_ready(output, own.kind, id, own.max_message_size, count, lane);
}
