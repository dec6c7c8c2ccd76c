//! The bytes of a DEALER or ROUTER peer, made and read without the code that they test.

/// Socket types of a HELLO.
pub const DEALER: u8 = 5;
/// See [`DEALER`].
pub const ROUTER: u8 = 6;

/// Kinds of a frame.
pub const DATA: u8 = 0;
/// Wants a reply.
pub const REQUEST: u8 = 1;
/// Answers a request.
pub const REPLY: u8 = 2;

/// The flag of every frame of a record but the last.
pub const MORE: u8 = 1;
/// The flag of a control frame.
pub const CONTROL: u8 = 2;

/// A frame; the sequence is that of kinds 1 to 3.
pub fn frame(flags: u8, kind: u8, sequence: u64, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut bytes = [&[0x5a, 1, flags, kind], &size[..]].concat();
    if kind != DATA {
        bytes.extend(sequence.to_be_bytes());
    }
    bytes.extend(body);
    bytes
}

/// A control frame.
pub fn control(body: &[u8]) -> Vec<u8> {
    frame(CONTROL, DATA, 0, body)
}

/// A record without a sequence.
pub fn data(parts: &[&[u8]]) -> Vec<u8> {
    let last = parts.len().saturating_sub(1);
    let each = parts.iter().enumerate();
    each.flat_map(|(at, part)| frame(u8::from(at < last), DATA, 0, part)).collect()
}

/// A HELLO.
pub fn hello(kind: u8, id: &[u8]) -> Vec<u8> {
    control(&[&[1, kind, id.len() as u8], id].concat())
}

/// The READY of a socket on one of so many lanes.
pub fn ready(kind: u8, id: &[u8], lanes: u8, lane: u8) -> Vec<u8> {
    let property = |name: &str, value: &[u8]| {
        let size = (value.len() as u32).to_be_bytes();
        [&[name.len() as u8], name.as_bytes(), &size[..], value].concat()
    };
    let name: &[u8] = if kind == ROUTER { b"ROUTER" } else { b"DEALER" };
    control(
        &[
            vec![4],
            property("Socket-Type", name),
            property("Routing-Id", id),
            property("Zlink-Max-Message-Size", &[0; 8]),
            property("Zlink-Lane-Count", &[lanes]),
            property("Zlink-Lane", &[lane]),
        ]
        .concat(),
    )
}

/// HELLO and READY of a DEALER at a ROUTER.
pub fn greeting(id: &[u8]) -> Vec<u8> {
    [hello(DEALER, id), ready(DEALER, id, 1, 0)].concat()
}

/// A frame that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its flags.
    pub flags: u8,
    /// Its kind.
    pub kind: u8,
    /// Of kinds 1 to 3, else 0.
    pub sequence: u64,
    /// Its body.
    pub body: Vec<u8>,
}

impl Frame {
    /// The code of an ERROR frame.
    pub fn error(&self) -> Option<u8> {
        (self.flags == CONTROL && self.body.first() == Some(&5)).then(|| self.body[1])
    }
}

/// The whole frames at the front of these bytes, which are taken out.
///
/// # Panics
/// They begin with something else.
pub fn frames(bytes: &mut Vec<u8>) -> Vec<Frame> {
    let mut frames = Vec::new();
    loop {
        let Some(header) = bytes.first_chunk::<8>() else {
            return frames;
        };
        let [0x5a, 1, flags, kind, size @ ..] = *header else {
            panic!("no frame: {header:x?}");
        };
        let begin = if kind == DATA { 8 } else { 16 };
        let end = begin + u32::from_be_bytes(size) as usize;
        if bytes.len() < end {
            return frames;
        }
        let sequence = if kind == DATA { &[][..] } else { &bytes[8..16] };
        let sequence = sequence.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let body = bytes[begin..end].to_vec();
        bytes.drain(..end);
        frames.push(Frame { flags, kind, sequence, body });
    }
}

/// The codes of the ERROR frames in these bytes, which are whole frames.
///
/// # Panics
/// They are not.
pub fn errors(bytes: &[u8]) -> Vec<u8> {
    let mut rest = bytes.to_vec();
    let errors = frames(&mut rest).iter().filter_map(Frame::error).collect();
    assert!(rest.is_empty(), "half a frame: {rest:x?}");
    errors
}
