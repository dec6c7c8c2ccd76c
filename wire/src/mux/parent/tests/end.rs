//! One side of a parent with all that stands around it: lines, a transport, and a clock.
//!
//! Frames and events are told as text: `data 7 abc`, `open 1 half`, `finish 1 peer-closed`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::mux::{
    ChildEnd, ChildKey, Cids, Counts, Dropped, Event, FrameKind, HALF_CLOSE, HEADER_BYTES, Header,
    LAST_CID, Limits, Owner, Parent, Side,
};
use crate::queue::{ByteQueue, Unpooled};

/// A line, and the account that it keeps of its payload.
#[derive(Clone, Debug)]
pub(super) struct Line(Rc<Account>);

#[derive(Debug)]
struct Account {
    room: Cell<usize>,
    /// Bytes that were handed to the parent and not given back.
    out: Cell<usize>,
    buffers: Cell<usize>,
}

impl Line {
    pub(super) fn new(room: usize) -> Self {
        let account = Account { room: Cell::new(room), out: Cell::new(0), buffers: Cell::new(0) };
        Self(Rc::new(account))
    }

    pub(super) fn set_room(&self, room: usize) {
        self.0.room.set(room);
    }

    pub(super) fn out(&self) -> (usize, usize) {
        (self.0.out.get(), self.0.buffers.get())
    }
}

impl Owner for Line {
    fn room(&self) -> usize {
        self.0.room.get()
    }

    fn give_back(&self, bytes: usize, buffers: usize) {
        self.0.out.set(self.0.out.get() - bytes);
        self.0.buffers.set(self.0.buffers.get() - buffers);
    }
}

pub(super) struct End {
    pub(super) parent: Parent<Line>,
    pub(super) now: Instant,
    /// What a line is made with.
    pub(super) room: usize,
    pub(super) lines: BTreeMap<ChildKey, Line>,
    /// What was delivered to each child.
    pub(super) got: BTreeMap<ChildKey, Vec<u8>>,
    /// What waits for the transport.
    pub(super) out: ByteQueue,
    /// What came and was not taken.
    pub(super) input: ByteQueue,
    events: Vec<String>,
    blocked: bool,
    looks: u64,
    next: u64,
}

/// One frame as bytes: its kind, its cid, then `half` or the payload.
pub(super) fn bytes_of(frame: &str) -> Vec<u8> {
    let mut words = frame.splitn(3, ' ');
    let word = words.next().unwrap();
    let kind = FrameKind::ALL.into_iter().find(|kind| kind.as_str() == word).expect(word);
    let cid = words.next().unwrap().parse().unwrap();
    let rest = words.next();
    let half = rest == Some("half");
    let payload = rest.filter(|_| !half).unwrap_or_default();
    let length = payload.len() as u16;
    let header = Header { length, ..Header::control(kind, cid).with_half_close(half) };
    [&header.encode(), payload.as_bytes()].concat()
}

/// A Data frame of so many bytes.
pub(super) fn data(cid: u32, length: usize) -> Vec<u8> {
    [Header::data(cid, length as u16).encode().as_slice(), &vec![b'.'; length]].concat()
}

/// Frames as text; a long payload as its length.
pub(super) fn texts(bytes: &[u8]) -> Vec<String> {
    let mut queue = ByteQueue::default();
    queue.append(bytes, &Unpooled);
    let mut texts = Vec::new();
    while let Some(header) = Header::of_whole_frame(&queue) {
        queue.advance(HEADER_BYTES, &Unpooled);
        let length = usize::from(header.length);
        let mut payload = ByteQueue::default();
        queue.move_front(length, &mut payload, &Unpooled);
        let word = FrameKind::of(header.flags).expect("a known frame").as_str();
        texts.push(match header.pad {
            HALF_CLOSE => format!("{word} {} half", header.cid),
            _ if length == 0 => format!("{word} {}", header.cid),
            _ if length > 20 => format!("{word} {} *{length}", header.cid),
            _ => format!("{word} {} {}", header.cid, String::from_utf8(all(&mut payload)).unwrap()),
        });
    }
    assert!(queue.is_empty(), "whole frames alone are sent");
    texts
}

/// Takes all bytes of a queue.
pub(super) fn all(queue: &mut ByteQueue) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(buffer) = queue.pop() {
        bytes.extend_from_slice(&buffer);
    }
    bytes
}

/// Limits of small numbers: 1,000 bytes for each child, FlowResume under 500, 4,000 in all.
pub(super) fn small() -> Limits {
    Limits {
        child_buffer: 1000,
        child_resume: 500,
        parent_buffer: Some(4000),
        half_close: false,
        ..Limits::default()
    }
}

/// The same with half-closes.
pub(super) fn half() -> Limits {
    Limits { half_close: true, ..small() }
}

impl End {
    pub(super) fn new(side: Side, limits: Limits) -> Self {
        Self {
            parent: Parent::new(side, limits),
            now: Instant::now(),
            room: usize::MAX,
            lines: BTreeMap::new(),
            got: BTreeMap::new(),
            out: ByteQueue::default(),
            input: ByteQueue::default(),
            events: Vec::new(),
            blocked: false,
            looks: 0,
            next: 0,
        }
    }

    /// A client's side whose transport is up.
    pub(super) fn client(limits: Limits) -> Self {
        let mut end = Self::new(Side::Client(Cids::new(LAST_CID)), limits);
        end.parent.established();
        end
    }

    /// A server's side whose transport is up.
    pub(super) fn server(limits: Limits) -> Self {
        let mut end = Self::new(Side::Server { most: 1 << 16 }, limits);
        end.parent.established();
        end
    }

    /// Both sides, each with one child 1 that is open, and nothing left to tell.
    pub(super) fn both(limits: Limits) -> [Self; 2] {
        let (mut client, mut server) = (Self::client(limits), Self::server(limits));
        client.join();
        client.sent();
        client.told();
        let open = if limits.half_close { "open 1 half" } else { "open 1" };
        server.hears(&[open]);
        server.sent();
        server.told();
        [client, server]
    }

    /// What the owner of a parent does after each call.
    pub(super) fn look(&mut self) {
        while self.delivers() | self.tells() {}
        self.looks += 1;
        // Looks at every child: not each time where there are thousands.
        if self.parent.len() < 64 || self.looks.is_multiple_of(256) {
            self.parent.assert_sound();
        }
    }

    fn delivers(&mut self) -> bool {
        let mut any = false;
        while let Some((key, mut payload)) = self.parent.poll_delivery(self.now, &Unpooled) {
            let line = &self.lines[&key];
            assert!(payload.len() <= line.room() && !payload.is_empty(), "what has room");
            let bytes = all(&mut payload);
            if line.room() != usize::MAX {
                line.set_room(line.room() - bytes.len());
            }
            self.got.entry(key).or_default().extend(bytes);
            any = true;
        }
        any
    }

    fn tells(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.parent.poll_event() {
            let text = match event {
                Event::Opened(key) => {
                    let line = Line::new(self.room);
                    self.lines.insert(key, line.clone());
                    self.parent.attach(key, line);
                    format!("opened {}", key.0)
                }
                Event::Est(key) => format!("est {}", key.0),
                Event::Pause(key, why) => format!("pause {} {}", key.0, why.as_str()),
                Event::Resume(key, why) => format!("resume {} {}", key.0, why.as_str()),
                Event::InputEnded(key) => format!("input-ended {}", key.0),
                Event::Over(key, _) => format!("over {}", key.0),
                Event::Kept(key) => format!("kept {}", key.0),
                Event::KeptNoMore(key) => format!("kept-no-more {}", key.0),
                Event::Finish(key, line, end) => {
                    let unsent = self.parent.children.get(&key);
                    let unsent = unsent.map_or((0, 0), |c| (c.out.len(), c.out.buffers()));
                    assert_eq!(line.out(), unsent, "all other credit of {key:?} is back");
                    format!("finish {} {}", key.0, end.as_str())
                }
            };
            self.events.push(text);
            any = true;
        }
        any
    }

    /// The events since the last call.
    pub(super) fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events)
    }

    /// What was delivered to this child since the last call.
    pub(super) fn got(&mut self, key: u64) -> Vec<u8> {
        self.got.remove(&ChildKey(key)).unwrap_or_default()
    }

    pub(super) fn join(&mut self) -> ChildKey {
        self.next += 1;
        let (key, line) = (ChildKey(self.next), Line::new(self.room));
        self.lines.insert(key, line.clone());
        self.parent.join(self.now, key, line);
        self.look();
        key
    }

    pub(super) fn pays(&mut self, key: u64, bytes: &[u8]) {
        let mut payload = ByteQueue::default();
        payload.append(bytes, &Unpooled);
        let account = &self.lines[&ChildKey(key)].0;
        account.out.set(account.out.get() + payload.len());
        account.buffers.set(account.buffers.get() + payload.buffers());
        self.parent.payload(ChildKey(key), &mut payload, &Unpooled);
        assert!(payload.is_empty(), "all of it is taken");
        self.look();
    }

    pub(super) fn ends(&mut self, key: u64) {
        self.parent.input_ended(self.now, ChildKey(key));
        self.look();
    }

    pub(super) fn gone(&mut self, key: u64, end: ChildEnd) {
        self.parent.gone(self.now, ChildKey(key), end, &Unpooled);
        self.look();
    }

    pub(super) fn closes(&mut self, key: u64, end: ChildEnd) {
        self.parent.close(ChildKey(key), end, false, &Unpooled);
        self.look();
    }

    pub(super) fn pauses(&mut self, key: u64) {
        self.parent.pause(ChildKey(key));
        self.look();
    }

    pub(super) fn resumes(&mut self, key: u64) {
        self.parent.resume(ChildKey(key));
        self.look();
    }

    /// So many more bytes are delivered to this child, which is paused again behind them.
    pub(super) fn drains(&mut self, key: u64, bytes: usize) {
        self.lines[&ChildKey(key)].set_room(bytes);
        self.parent.has_room(ChildKey(key));
        self.look();
    }

    /// The time passes, with all that is due in it.
    pub(super) fn passes(&mut self, millis: u64) {
        let until = self.now + Duration::from_millis(millis);
        while let Some(at) = self.parent.next_wake().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.parent.timeout(self.now, &Unpooled);
            assert!(self.parent.next_wake().is_none_or(|next| next > self.now), "due again");
            self.look();
        }
        self.now = until;
    }

    pub(super) fn hears(&mut self, frames: &[&str]) {
        self.reads(&frames.iter().flat_map(|frame| bytes_of(frame)).collect::<Vec<_>>());
    }

    /// These bytes come from the peer.
    pub(super) fn reads(&mut self, bytes: &[u8]) {
        self.input.append(bytes, &Unpooled);
        self.parses();
    }

    pub(super) fn parses(&mut self) {
        while self.parent.receive(self.now, &mut self.input, &Unpooled) > 0 {
            self.look();
        }
        self.look();
    }

    /// The transport takes nothing from here on, or everything.
    pub(super) fn blocks(&mut self, blocked: bool) {
        assert!(self.out.is_empty());
        self.blocked = blocked;
    }

    /// One turn: what goes into one write.
    pub(super) fn writes(&mut self) -> Vec<u8> {
        if self.blocked {
            self.out.append(b"!", &Unpooled);
        }
        let would = self.parent.has_frames();
        let added = self.parent.transmit(&mut self.out, &Unpooled);
        assert!(self.out.len() <= 64 * 1024, "M28: {} bytes", self.out.len());
        assert_eq!(added, self.out.len() - usize::from(self.blocked));
        assert!(self.blocked || would == (added > 0), "has_frames: {would}, {added} bytes");
        self.out.advance(usize::from(self.blocked), &Unpooled);
        self.look();
        all(&mut self.out)
    }

    /// All frames that go out.
    pub(super) fn sent(&mut self) -> Vec<String> {
        let mut sent = Vec::new();
        loop {
            let written = self.writes();
            if written.is_empty() {
                return texts(&sent);
            }
            sent.extend(written);
        }
    }

    pub(super) fn loses_transport(&mut self) -> usize {
        let waiting = self.parent.transport_lost(&Unpooled);
        self.look();
        waiting
    }

    pub(super) fn counts(&mut self) -> Counts {
        self.parent.take_counts()
    }

    /// Frames that were dropped since the last call, by reason.
    pub(super) fn dropped(&mut self) -> Vec<(&'static str, u64)> {
        let dropped = self.counts().dropped;
        let all = Dropped::ALL.into_iter().map(|why| (why.as_str(), dropped[why as usize]));
        all.filter(|(_, count)| *count > 0).collect()
    }
}
