//! One connection of a ZMP socket under any bytes, at any segmentation and any credit (1.1 to 1.7,
//!

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use lineway_wire::zmp::connection::{Connection, ConnectionOptions, Event, Next, error_frame};
use lineway_wire::zmp::encode::Writer;
use lineway_wire::zmp::frame::ProtocolError;
use lineway_wire::zmp::{Charge, Inbound, Lane, Outgoing, RoutingId, SocketKind};

use super::input::Input;

/// What a stream said, and how it ended.
type Heard = (Vec<Event>, Result<(), ProtocolError>);

/// The bytes mean the same in pieces as whole, with little credit as with any; what was understood
/// is understood again when it is written.
///
/// The input: a byte of bits (1 a ROUTER, 2 dialled, 4 with a ROUTER, 8 behind a good handshake,
/// 16 the Completion lane, 32 a `MAXMSGSIZE` of 300); the receive limit in units of 64 bytes, 0 for
/// none; the lengths of the pieces, counted by a byte; the bytes.
pub(crate) fn connection(data: &[u8]) {
    let mut input = Input::new(data);
    let bits = input.byte();
    let hwm = Charge::from(input.byte()) * 64;
    let cuts = input.counted();
    let stream = input.rest();
    let kind = |bit| if bits & bit > 0 { SocketKind::Router } else { SocketKind::Dealer };
    let both_routers = bits & 5 == 5;
    let lane = if both_routers && bits & 16 > 0 { Lane::Completion } else { Lane::Application };
    let own = ConnectionOptions {
        kind: kind(1),
        routing_id: RoutingId::new("own").expect("not empty"),
        dialled: bits & 2 > 0,
        lane,
        max_message_size: if bits & 32 > 0 { 300 } else { 0 },
    };
    let peer = ConnectionOptions {
        kind: kind(4),
        routing_id: RoutingId::new("peer").expect("not empty"),
        dialled: !own.dialled,
        ..own.clone()
    };
    let greeting = if bits & 8 > 0 { greeting(&own, &peer) } else { Vec::new() };

    let whole = listen(&own, &greeting, &[], stream, 0);
    assert_eq!(listen(&own, &greeting, cuts, stream, hwm), whole);
    if !greeting.is_empty() {
        let again = written(&whole.0);
        let (events, end) = listen(&own, &greeting, cuts, &again, 0);
        let understood = |events: &[Event]| {
            let known = |event: &&Event| matches!(event, Event::Inbound(inbound) if *inbound != Inbound::Malformed);
            events.iter().filter(known).cloned().collect::<Vec<_>>()
        };
        assert_eq!((understood(&events), end), (understood(&whole.0), Ok(())));
    }
}

/// What the peer sends until both sides are established.
fn greeting(own: &ConnectionOptions, peer: &ConnectionOptions) -> Vec<u8> {
    let (mut own, mut peer) = (Connection::new(own.clone()), Connection::new(peer.clone()));
    let mut sent = Vec::new();
    while !(own.is_established() && peer.is_established()) {
        let (to_own, to_peer) = (peer.output(), own.output());
        assert!(to_own.is_some() || to_peer.is_some(), "both wait");
        for (connection, bytes) in [(&mut own, &to_own), (&mut peer, &to_peer)] {
            let mut input = BytesMut::from(bytes.as_deref().unwrap_or_default());
            while connection.next(&mut input, 0, 0).expect("no fault") != Next::NeedsMore {}
            assert!(input.is_empty());
        }
        sent.extend_from_slice(&to_own.unwrap_or_default());
    }
    sent.extend_from_slice(&peer.output().unwrap_or_default());
    sent
}

/// Reads a stream that comes in pieces of these lengths and a last one, and then ends. A record is
/// taken when nothing else goes on.
fn listen(
    own: &ConnectionOptions,
    greeting: &[u8],
    cuts: &[u8],
    stream: &[u8],
    hwm: Charge,
) -> Heard {
    let (mut connection, mut input) = (Connection::new(own.clone()), BytesMut::from(greeting));
    let (mut events, mut queue, mut taken) = (Vec::new(), VecDeque::new(), 0);
    let mut pieces = Input::new(stream);
    for length in cuts.iter().map(|cut| usize::from(*cut)).chain([stream.len()]) {
        input.extend_from_slice(pieces.take(length));
        loop {
            let next = connection.next(&mut input, hwm, taken);
            let outstanding = connection.reserved() - taken;
            match next {
                Ok(Next::Event(event)) => {
                    if let Event::Inbound(Inbound::Record(_, record)) = &event {
                        queue.push_back(record.charge());
                    }
                    events.push(event);
                }
                Ok(Next::Blocked) => {
                    taken += queue.pop_front().expect("X-3: a record blocks itself");
                }
                Ok(Next::NeedsMore) => {
                    assert!(connection.wanted() > 0, "nothing would be read");
                    assert!(connection.wanted() <= (2 * input.len()).max(16 * 1024), "Z-14 c");
                    break;
                }
                Err(fault) => {
                    assert_eq!(connection.next(&mut input, hwm, taken), Err(fault));
                    assert_eq!(connection.end(&input), Err(fault));
                    said(own, fault);
                    return (events, Err(fault));
                }
            }
            let alone = queue.len() <= 1;
            let limited = hwm > 0 && own.lane == Lane::Application && connection.is_established();
            assert!(!limited || alone || outstanding <= hwm, "X-3: {outstanding} of {hwm}");
        }
    }
    let end = connection.end(&input);
    (events, end)
}

/// The peer understands why.
fn said(own: &ConnectionOptions, fault: ProtocolError) {
    let mut frame = BytesMut::from(&error_frame(&fault)[..]);
    let reason = Bytes::from_static(fault.code.text().as_bytes());
    let error = Event::Error { code: fault.code.byte(), reason };
    let next = Connection::new(own.clone()).next(&mut frame, 0, 0);
    assert_eq!(next, Ok(Next::Event(error)));
}

/// What came, as it would be sent.
fn written(events: &[Event]) -> Vec<u8> {
    let (mut writer, mut charge) = (Writer::default(), 0);
    for event in events {
        writer.push(match event.clone() {
            Event::Inbound(Inbound::Record(kind, record)) => {
                charge += record.charge();
                Outgoing::Record(kind, record)
            }
            Event::Inbound(Inbound::Weight(weight)) => Outgoing::Weight(weight),
            Event::Inbound(Inbound::FlowState { state, epoch }) => {
                Outgoing::FlowState { state, epoch }
            }
            _ => continue,
        });
    }
    let (mut bytes, length) = (Vec::new(), writer.len());
    while !writer.is_empty() {
        let mut slices = [IoSlice::new(&[]); 3];
        let filled = writer.slices(&mut slices);
        let mut written = 0;
        for slice in &slices[..filled] {
            // Not all of the last one, as a socket does.
            let some = slice.len().min(1000);
            bytes.extend_from_slice(&slice[..some]);
            written += some;
            if some < slice.len() {
                break;
            }
        }
        charge -= writer.advance(written);
    }
    assert_eq!((bytes.len(), charge), (length, 0));
    bytes
}
