//! What the tests of a connection share: bytes as the contract writes them, and a peer of bytes.

use bytes::{Bytes, BytesMut};

use super::connection::{Connection, ConnectionOptions, Event, Next};
use super::frame::{ErrorCode, ProtocolError};
use super::record::{Inbound, Kind, Lane, Record, RoutingId, SocketKind};

/// Bytes: pairs of hexadecimal digits, texts in quotation marks, and `|` for the eye.
pub(super) fn hex(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (place, piece) in text.split('"').enumerate() {
        if place % 2 == 1 {
            bytes.extend_from_slice(piece.as_bytes());
            continue;
        }
        let digits: Vec<u8> =
            piece.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
        bytes.extend(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
    }
    bytes
}

/// The HELLO of a type of socket with this routing id.
pub(super) fn hello(socket_type: u8, id: &str) -> Vec<u8> {
    let length = id.len() as u8;
    [&hex("5a 01 02 00 00 00 00")[..], &[length + 3, 1, socket_type, length], id.as_bytes()]
        .concat()
}

/// A property of READY.
pub(super) fn property(name: &str, value: &[u8]) -> Vec<u8> {
    let length = (value.len() as u32).to_be_bytes();
    [&[name.len() as u8], name.as_bytes(), &length, value].concat()
}

/// A control frame with this body.
pub(super) fn control(body: &[u8]) -> Vec<u8> {
    [&hex("5a 01 02 00"), &(body.len() as u32).to_be_bytes()[..], body].concat()
}

/// The READY of these properties.
pub(super) fn ready_of(properties: &[Vec<u8>]) -> Vec<u8> {
    control(&[&[4], &properties.concat()[..]].concat())
}

/// The properties of a right READY in the library's order.
pub(super) fn properties(kind: SocketKind, id: &str, count: u8, lane: u8) -> [Vec<u8>; 5] {
    [
        property("Socket-Type", kind.name().as_bytes()),
        property("Routing-Id", id.as_bytes()),
        property("Zlink-Max-Message-Size", &[0; 8]),
        property("Zlink-Lane-Count", &[count]),
        property("Zlink-Lane", &[lane]),
    ]
}

/// HELLO and READY of a peer on a lane of this number, for a socket of kind `to`.
pub(super) fn greeting(to: SocketKind, kind: SocketKind, id: &str, lane: u8) -> Vec<u8> {
    let ready = ready_of(&properties(kind, id, to.lanes_with(kind), lane));
    [hello(kind.byte(), id), ready].concat()
}

/// A socket called `R1` or `D1`.
pub(super) fn options(kind: SocketKind, dialled: bool) -> ConnectionOptions {
    let id = if kind == SocketKind::Router { "R1" } else { "D1" };
    ConnectionOptions {
        kind,
        routing_id: RoutingId::new(id).unwrap(),
        dialled,
        lane: Lane::Application,
        max_message_size: 0,
    }
}

/// An accepted connection whose handshake with a peer `P` is over, and nothing is in the output.
pub(super) fn established(own: SocketKind, peer: SocketKind, lane: u8, max: u64) -> Connection {
    let mut connection =
        Connection::new(ConnectionOptions { max_message_size: max, ..options(own, false) });
    let (events, end) = all(&mut connection, &greeting(own, peer, "P", lane));
    assert_eq!((events.len(), end), (2, Ok(Next::NeedsMore)));
    assert!(connection.is_established());
    connection.output().expect("HELLO and READY");
    connection
}

/// Everything that these bytes say to a connection that nothing limits.
pub(super) fn all(
    connection: &mut Connection,
    bytes: &[u8],
) -> (Vec<Event>, Result<Next, ProtocolError>) {
    all_of(connection, &mut BytesMut::from(bytes))
}

/// The same of an input that goes on.
pub(super) fn all_of(
    connection: &mut Connection,
    input: &mut BytesMut,
) -> (Vec<Event>, Result<Next, ProtocolError>) {
    let mut events = Vec::new();
    loop {
        match connection.next(input, 0, 0) {
            Ok(Next::Event(event)) => events.push(event),
            end => return (events, end),
        }
    }
}

/// The code that ends a connection for these bytes; nothing may have been delivered before.
pub(super) fn code(connection: &mut Connection, bytes: &[u8]) -> ErrorCode {
    let (events, end) = all(connection, bytes);
    assert_eq!(events, []);
    end.expect_err("a fault").code
}

/// A record that came.
pub(super) fn record(kind: Kind, parts: &[&str]) -> Event {
    Event::Inbound(Inbound::Record(kind, parts_of(parts)))
}

/// A record of these parts.
pub(super) fn parts_of(parts: &[&str]) -> Record {
    let parts = parts.iter().map(|part| Bytes::copy_from_slice(part.as_bytes()));
    Record::from_parts(parts).expect("a part")
}
