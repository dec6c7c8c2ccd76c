//! Control frames: HELLO, READY, ERROR, WEIGHT and FLOWSTATE (1.3).

use std::num::NonZeroU64;

use bytes::BufMut;

use super::core::{FlowState, Weight};
use super::frame::{ErrorCode, Header, ProtocolError};
use super::record::{Lane, SocketKind};

/// First byte of a HELLO.
const HELLO: u8 = 1;
/// First byte of a READY.
const READY: u8 = 4;
/// First byte of an ERROR.
const ERROR: u8 = 5;
/// What a WEIGHT begins with.
const WEIGHT: &[u8] = b"WEIGHT";
/// What a FLOWSTATE begins with.
const FLOWSTATE: &[u8] = b"FLOWSTATE";
/// The version of a FLOWSTATE.
const FLOWSTATE_VERSION: u8 = 1;

/// The bodies that a HELLO may have, in bytes.
pub(super) const HELLO_BYTES: std::ops::RangeInclusive<u32> = 3..=258;

const SOCKET_TYPE: &[u8] = b"Socket-Type";
const ROUTING_ID: &[u8] = b"Routing-Id";
const MAX_MESSAGE_SIZE: &[u8] = b"Zlink-Max-Message-Size";
const LANE_COUNT: &[u8] = b"Zlink-Lane-Count";
const LANE: &[u8] = b"Zlink-Lane";

/// What a control frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control<'a> {
    /// The first frame of each side.
    Hello { socket_type: u8, routing_id: &'a [u8] },
    /// The second one.
    Ready(Ready<'a>),
    /// The peer has given up.
    Error { code: u8, reason: &'a [u8] },
    /// `None`: it begins like one and is none (1.7).
    Weight(Option<Weight>),
    /// `None`: it begins like one and is none (1.7).
    FlowState(Option<(FlowState, NonZeroU64)>),
    /// Nobody knows it.
    Unknown,
}

/// The properties of a READY that somebody knows, as they stand there; of repeated ones the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ready<'a> {
    pub(super) socket_type: Option<&'a [u8]>,
    pub(super) routing_id: Option<&'a [u8]>,
    pub(super) max_message_size: Option<&'a [u8]>,
    pub(super) lane_count: Option<&'a [u8]>,
    pub(super) lane: Option<&'a [u8]>,
}

/// A fault of a handshake or of the order of frames.
pub(super) const fn internal(what: &'static str) -> ProtocolError {
    ProtocolError::new(ErrorCode::Internal, what)
}

/// Reads the body of a control frame.
///
/// # Errors
/// It is empty, or a HELLO, READY or ERROR that does not end where it says.
pub(super) fn parse(body: &[u8]) -> Result<Control<'_>, ProtocolError> {
    match *body {
        [] => Err(internal("an empty control frame")),
        [HELLO, socket_type, length, ref routing_id @ ..]
            if routing_id.len() == usize::from(length) =>
        {
            Ok(Control::Hello { socket_type, routing_id })
        }
        [HELLO, ..] => Err(internal("a HELLO whose length is wrong")),
        [READY, ref properties @ ..] => Ok(Control::Ready(ready(properties)?)),
        [ERROR, code, length, ref reason @ ..] if reason.len() == usize::from(length) => {
            Ok(Control::Error { code, reason })
        }
        [ERROR, ..] => Err(internal("an ERROR whose length is wrong")),
        _ => Ok(match (body.strip_prefix(WEIGHT), body.strip_prefix(FLOWSTATE)) {
            (Some(rest), _) => Control::Weight(weight(rest)),
            (_, Some(rest)) => Control::FlowState(flow_state(rest)),
            _ => Control::Unknown,
        }),
    }
}

fn weight(body: &[u8]) -> Option<Weight> {
    Weight::new(u32::from_be_bytes(body.try_into().ok()?))
}

fn flow_state(body: &[u8]) -> Option<(FlowState, NonZeroU64)> {
    let (&[version, state], epoch) = body.split_first_chunk()?;
    let state = match (version, state) {
        (FLOWSTATE_VERSION, 0) => FlowState::Running,
        (FLOWSTATE_VERSION, 1) => FlowState::Paused,
        _ => return None,
    };
    let epoch = NonZeroU64::new(u64::from_be_bytes(epoch.try_into().ok()?))?;
    Some((state, epoch))
}

fn ready(mut properties: &[u8]) -> Result<Ready<'_>, ProtocolError> {
    let mut ready = Ready::default();
    while !properties.is_empty() {
        let Some((name, value, rest)) = property(properties) else {
            return Err(internal("a READY with an incomplete property"));
        };
        properties = rest;
        let known = match name {
            SOCKET_TYPE => &mut ready.socket_type,
            ROUTING_ID => &mut ready.routing_id,
            MAX_MESSAGE_SIZE => &mut ready.max_message_size,
            LANE_COUNT => &mut ready.lane_count,
            LANE => &mut ready.lane,
            _ => continue,
        };
        *known = Some(value);
    }
    Ok(ready)
}

/// The first property: its name, its value, and what is behind it.
fn property(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(length.into())?;
    let (&length, rest) = rest.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(u32::from_be_bytes(length) as usize)?;
    Some((name, value, rest))
}

/// Writes a HELLO.
pub(super) fn put_hello(to: &mut impl BufMut, kind: SocketKind, routing_id: &[u8]) {
    put_header(to, 3 + routing_id.len());
    to.put_slice(&[HELLO, kind.byte(), routing_id.len() as u8]);
    to.put_slice(routing_id);
}

/// Writes a READY.
pub(super) fn put_ready(
    to: &mut impl BufMut,
    kind: SocketKind,
    routing_id: &[u8],
    max_message_size: u64,
    lane_count: u8,
    lane: Lane,
) {
    let properties: [(&[u8], &[u8]); 5] = [
        (SOCKET_TYPE, kind.name().as_bytes()),
        (ROUTING_ID, routing_id),
        (MAX_MESSAGE_SIZE, &max_message_size.to_be_bytes()),
        (LANE_COUNT, &[lane_count]),
        (LANE, &[lane.byte()]),
    ];
    let size: usize = properties.iter().map(|(name, value)| 5 + name.len() + value.len()).sum();
    put_header(to, 1 + size);
    to.put_u8(READY);
    for (name, value) in properties {
        to.put_u8(name.len() as u8);
        to.put_slice(name);
        to.put_u32(value.len() as u32);
        to.put_slice(value);
    }
}

/// Writes an ERROR with the default text of its code.
pub(super) fn put_error(to: &mut impl BufMut, code: ErrorCode) {
    let text = code.text().as_bytes();
    put_header(to, 3 + text.len());
    to.put_slice(&[ERROR, code.byte(), text.len() as u8]);
    to.put_slice(text);
}

/// Writes a WEIGHT.
pub(super) fn put_weight(to: &mut impl BufMut, weight: Weight) {
    put_header(to, WEIGHT.len() + 4);
    to.put_slice(WEIGHT);
    to.put_u32(weight.get());
}

/// Writes a FLOWSTATE.
pub(super) fn put_flow_state(to: &mut impl BufMut, state: FlowState, epoch: NonZeroU64) {
    put_header(to, FLOWSTATE.len() + 10);
    to.put_slice(FLOWSTATE);
    to.put_slice(&[FLOWSTATE_VERSION, u8::from(state == FlowState::Paused)]);
    to.put_u64(epoch.get());
}

fn put_header(to: &mut impl BufMut, size: usize) {
    let (header, length) = Header::control(size as u32).encode();
    to.put_slice(&header[..length]);
}

#[cfg(test)]
mod tests;
