//! A peer made of a plain socket and the bytes of the wire, which shares no code with the program:
//! it speaks as DEALER or ROUTER, holds, injects whatever bytes, and keeps every frame that it saw.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::common::PATIENCE;
use crate::common::peers::careful;

/// Socket types of a HELLO.
pub(crate) const DEALER: u8 = 5;
pub(crate) const ROUTER: u8 = 6;

/// Kinds of a frame.
pub(crate) const DATA: u8 = 0;
pub(crate) const REQUEST: u8 = 1;
pub(crate) const REPLY: u8 = 2;
pub(crate) const ERROR_REPLY: u8 = 3;

/// Flags of a frame.
pub(crate) const MORE: u8 = 1;
pub(crate) const CONTROL: u8 = 2;

/// A frame as it stood on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) flags: u8,
    pub(crate) kind: u8,
    /// With kinds 1, 2 and 3.
    pub(crate) sequence: Option<u64>,
    pub(crate) body: Vec<u8>,
}

/// A record, put together again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: u8,
    pub(crate) sequence: Option<u64>,
    pub(crate) parts: Vec<Vec<u8>>,
}

impl Record {
    /// The bytes of its only part.
    #[track_caller]
    pub(crate) fn single(&self) -> &[u8] {
        assert_eq!(self.parts.len(), 1, "{self:?}");
        &self.parts[0]
    }
}

/// The bytes of a frame.
pub(crate) fn frame(flags: u8, kind: u8, sequence: Option<u64>, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x5a, 1, flags, kind];
    bytes.extend(u32::try_from(body.len()).expect("a small body").to_be_bytes());
    if let Some(sequence) = sequence {
        bytes.extend(sequence.to_be_bytes());
    }
    bytes.extend(body);
    bytes
}

/// The bytes of a whole record.
pub(crate) fn record(kind: u8, sequence: Option<u64>, parts: &[&[u8]]) -> Vec<u8> {
    let last = parts.len() - 1;
    let each = parts.iter().enumerate().map(|(at, part)| {
        let more = if at < last { MORE } else { 0 };
        if at == 0 { frame(more, kind, sequence, part) } else { frame(more, DATA, None, part) }
    });
    each.collect::<Vec<_>>().concat()
}

/// The bytes of a control frame.
pub(crate) fn control(body: &[u8]) -> Vec<u8> {
    frame(CONTROL, DATA, None, body)
}

/// A HELLO.
pub(crate) fn hello(kind: u8, id: &[u8]) -> Vec<u8> {
    let length = u8::try_from(id.len()).expect("at most 255 bytes");
    control(&[&[1, kind, length][..], id].concat())
}

fn property(name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(name.len()).expect("a short name")];
    bytes.extend(name.as_bytes());
    bytes.extend(u32::try_from(value.len()).expect("a short value").to_be_bytes());
    bytes.extend(value);
    bytes
}

/// What a READY says.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    pub(crate) kind: u8,
    pub(crate) id: Vec<u8>,
    pub(crate) most: u64,
    pub(crate) lanes: u8,
    pub(crate) lane: u8,
}

impl Ready {
    /// One lane, no limit.
    pub(crate) fn new(kind: u8, id: &[u8]) -> Self {
        Self { kind, id: id.to_vec(), most: 0, lanes: 1, lane: 0 }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let name = if self.kind == DEALER { "DEALER" } else { "ROUTER" };
        let mut body = vec![4];
        body.extend(property("Socket-Type", name.as_bytes()));
        body.extend(property("Routing-Id", &self.id));
        body.extend(property("Zlink-Max-Message-Size", &self.most.to_be_bytes()));
        body.extend(property("Zlink-Lane-Count", &[self.lanes]));
        body.extend(property("Zlink-Lane", &[self.lane]));
        control(&body)
    }
}

/// WEIGHT.
pub(crate) fn weight(weight: u32) -> Vec<u8> {
    control(&[b"WEIGHT", &weight.to_be_bytes()[..]].concat())
}

/// FLOWSTATE.
pub(crate) fn flow_state(paused: bool, epoch: u64) -> Vec<u8> {
    control(&[b"FLOWSTATE", &[1, u8::from(paused)][..], &epoch.to_be_bytes()[..]].concat())
}

/// One connection of a raw peer.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
    /// Control frames that came between records.
    pub(crate) controls: Vec<Frame>,
    /// Bytes of the wire that were read, in order.
    pub(crate) seen: Vec<u8>,
}

impl Peer {
    /// A connection on which nothing was said.
    pub(crate) fn of(stream: TcpStream) -> Self {
        Self { stream: careful(stream), read: Vec::new(), controls: Vec::new(), seen: Vec::new() }
    }

    /// Connects, without a word.
    #[track_caller]
    pub(crate) fn dial(to: SocketAddr) -> Self {
        Self::of(TcpStream::connect(to).expect("it listens"))
    }

    /// Connects and shakes hands as this kind of socket, with one lane.
    #[track_caller]
    pub(crate) fn connect(to: SocketAddr, kind: u8, id: &[u8]) -> Self {
        Self::connect_with(to, &Ready::new(kind, id))
    }

    /// Connects and shakes hands with this READY.
    #[track_caller]
    pub(crate) fn connect_with(to: SocketAddr, ready: &Ready) -> Self {
        let mut peer = Self::dial(to);
        peer.send(&hello(ready.kind, &ready.id));
        peer.expect_hello();
        peer.send(&ready.bytes());
        peer.expect_ready();
        peer
    }

    /// Takes the next connection of a listener and shakes hands; also gives the lane asked for.
    #[track_caller]
    pub(crate) fn accept(listener: &TcpListener, kind: u8, id: &[u8]) -> Self {
        let mut peer = Self::of(accept(listener));
        peer.send(&hello(kind, id));
        peer.expect_hello();
        let lane = peer.expect_ready();
        let theirs = Ready { lanes: lane.0, lane: lane.1, ..Ready::new(kind, id) };
        peer.send(&theirs.bytes());
        peer
    }

    /// Sends bytes.
    #[track_caller]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("it takes them");
    }

    /// Sends bytes that may find a closed connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends a record without a sequence.
    #[track_caller]
    pub(crate) fn data(&mut self, parts: &[&[u8]]) {
        self.send(&record(DATA, None, parts));
    }

    /// Sends a REQUEST.
    #[track_caller]
    pub(crate) fn request(&mut self, sequence: u64, parts: &[&[u8]]) {
        self.send(&record(REQUEST, Some(sequence), parts));
    }

    /// Sends a REPLY.
    #[track_caller]
    pub(crate) fn reply(&mut self, sequence: u64, parts: &[&[u8]]) {
        self.send(&record(REPLY, Some(sequence), parts));
    }

    /// The next HELLO: socket type and id.
    #[track_caller]
    pub(crate) fn expect_hello(&mut self) -> (u8, Vec<u8>) {
        let frame = self.frame();
        assert_eq!((frame.flags, frame.kind, frame.body[0]), (CONTROL, 0, 1), "{frame:?}");
        assert_eq!(frame.body.len(), 3 + usize::from(frame.body[2]), "{frame:?}");
        (frame.body[1], frame.body[3..].to_vec())
    }

    /// The next READY: lane count and lane.
    #[track_caller]
    pub(crate) fn expect_ready(&mut self) -> (u8, u8) {
        let properties = self.expect_properties();
        let byte = |name: &str| {
            let of = properties.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
            let value = of.unwrap_or_else(|| panic!("no {name} in {properties:?}"));
            assert_eq!(value.len(), 1, "{name}");
            value[0]
        };
        (byte("Zlink-Lane-Count"), byte("Zlink-Lane"))
    }

    /// The properties of the next READY.
    #[track_caller]
    pub(crate) fn expect_properties(&mut self) -> Vec<(String, Vec<u8>)> {
        let frame = self.frame();
        assert_eq!((frame.flags, frame.kind, frame.body[0]), (CONTROL, 0, 4), "{frame:?}");
        let mut rest = &frame.body[1..];
        let mut properties = Vec::new();
        while let Some((&length, after)) = rest.split_first() {
            let (name, after) = after.split_at(usize::from(length));
            let (size, after) = after.split_at(4);
            let size = u32::from_be_bytes(size.try_into().expect("four bytes"));
            let (value, after) = after.split_at(size as usize);
            properties.push((String::from_utf8_lossy(name).into_owned(), value.to_vec()));
            rest = after;
        }
        properties
    }

    /// The next frame.
    #[track_caller]
    pub(crate) fn frame(&mut self) -> Frame {
        self.frame_within(PATIENCE).expect("a frame comes")
    }

    /// The next frame, if it comes in time; `None` also at the end of the stream.
    #[track_caller]
    pub(crate) fn frame_within(&mut self, limit: Duration) -> Option<Frame> {
        let until = Instant::now() + limit;
        loop {
            if let Some(frame) = self.take_frame() {
                return Some(frame);
            }
            if !self.read_more(until) {
                return None;
            }
        }
    }

    fn take_frame(&mut self) -> Option<Frame> {
        let bytes = &self.read;
        if bytes.len() < 8 {
            return None;
        }
        assert_eq!(bytes[..2], [0x5a, 1], "magic and version of {bytes:x?}");
        let (flags, kind) = (bytes[2], bytes[3]);
        let size = u32::from_be_bytes(bytes[4..8].try_into().expect("four bytes")) as usize;
        let header = if kind == DATA { 8 } else { 16 };
        if bytes.len() < header + size {
            return None;
        }
        let sequence = (kind != DATA)
            .then(|| u64::from_be_bytes(bytes[8..16].try_into().expect("eight bytes")));
        let body = bytes[header..header + size].to_vec();
        self.read.drain(..header + size);
        Some(Frame { flags, kind, sequence, body })
    }

    /// False when the time is over or the stream has ended.
    fn read_more(&mut self, until: Instant) -> bool {
        let Some(left) = until.checked_duration_since(Instant::now()).filter(|d| !d.is_zero())
        else {
            return false;
        };
        self.stream.set_read_timeout(Some(left)).expect("a timeout");
        let mut buffer = [0; 16384];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(length) => {
                self.read.extend(&buffer[..length]);
                self.seen.extend(&buffer[..length]);
                true
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionReset => false,
                _ => panic!("{error}"),
            },
        }
    }

    /// Takes this much from the system, without looking at it.
    #[track_caller]
    pub(crate) fn read_at_least(&mut self, length: usize) {
        let until = Instant::now() + PATIENCE;
        while self.read.len() < length {
            assert!(self.read_more(until), "the bytes come");
        }
    }

    /// Takes bytes that were read.
    pub(crate) fn take(&mut self, length: usize) -> Vec<u8> {
        self.read.drain(..length).collect()
    }

    /// The next record; control frames before it go to `controls`.
    #[track_caller]
    pub(crate) fn record(&mut self) -> Record {
        self.record_within(PATIENCE).expect("a record comes")
    }

    /// The next record, if it comes in time.
    #[track_caller]
    pub(crate) fn record_within(&mut self, limit: Duration) -> Option<Record> {
        let first = loop {
            let frame = self.frame_within(limit)?;
            if frame.flags & CONTROL == 0 {
                break frame;
            }
            self.controls.push(frame);
        };
        let mut more = first.flags & MORE != 0;
        let mut record =
            Record { kind: first.kind, sequence: first.sequence, parts: vec![first.body] };
        while more {
            // Nothing may stand inside of a record (1.4).
            let next = self.frame_within(PATIENCE).expect("the rest of the record comes");
            assert_eq!((next.flags & !MORE, next.kind), (0, DATA), "inside of a record: {next:?}");
            more = next.flags & MORE != 0;
            record.parts.push(next.body);
        }
        Some(record)
    }

    /// The next control frame that is no part of the handshake.
    #[track_caller]
    pub(crate) fn control(&mut self) -> Vec<u8> {
        let frame = self.frame();
        assert_eq!(frame.flags, CONTROL, "{frame:?}");
        frame.body
    }

    /// Nothing comes for so long; the connection stays.
    #[track_caller]
    pub(crate) fn silent(&mut self, time: Duration) {
        let frame = self.frame_within(time);
        assert_eq!(frame, None);
        assert!(!self.is_closed(), "the connection ended");
    }

    /// True when the peer has ended the stream; reads nothing else away.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.stream.set_nonblocking(true).expect("an option");
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).expect("an option");
        match peeked {
            Ok(length) => length == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    /// Waits for the end of the stream; gives the codes of the ERROR frames before it.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Vec<u8> {
        self.end_within(PATIENCE)
    }

    /// The same, in time.
    #[track_caller]
    pub(crate) fn end_within(&mut self, limit: Duration) -> Vec<u8> {
        let until = Instant::now() + limit;
        while self.read_more(until) {}
        assert!(Instant::now() < until, "the connection did not end within {limit:?}");
        let mut codes = Vec::new();
        while let Some(frame) = self.take_frame() {
            if frame.flags == CONTROL && frame.body.first() == Some(&5) {
                assert_eq!(frame.body.len(), 3 + usize::from(frame.body[2]), "{frame:?}");
                codes.push(frame.body[1]);
            }
        }
        assert!(self.read.is_empty(), "half a frame: {:x?}", self.read);
        codes
    }
}

/// The next connection, in time.
#[track_caller]
pub(crate) fn accept(listener: &TcpListener) -> TcpStream {
    let mut accepted = None;
    listener.set_nonblocking(true).expect("an option");
    crate::common::until("a connection", || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (stream, _) = accepted.expect("it is there");
    stream.set_nonblocking(false).expect("an option");
    stream
}

/// A listener for a raw peer, and its endpoint.
pub(crate) fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = format!("tcp://{}", listener.local_addr().expect("an address"));
    (listener, endpoint)
}
