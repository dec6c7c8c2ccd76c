//! The mux: frames at any segmentation (M01, M03, M06), and a whole side of a parent under any bytes
//! and any operations (M01 to M32).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lineway_wire::mux::{
    ChildEnd, ChildKey, Cids, Event, FrameKind, HEADER_BYTES, Header, LAST_CID, Limits,
    MOST_WAITING, Owner, Parent, ParentPause, Side,
};
use lineway_wire::queue::{ByteQueue, Unpooled};

use super::input::Input;

/// Frames are the same in pieces as whole.
///
/// The input: the lengths of the pieces, counted by a byte; the bytes.
pub(crate) fn frames(data: &[u8]) {
    let mut input = Input::new(data);
    let cuts = input.counted();
    let stream = input.rest();

    let (mut expected, mut rest) = (Vec::new(), stream);
    while let Some((header, behind)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let length = usize::from(u16::from_be_bytes([header[0], header[1]]));
        let Some((payload, behind)) = behind.split_at_checked(length) else {
            break;
        };
        expected.push((*header, payload));
        rest = behind;
    }

    let (mut input, mut queue, mut frames) = (Input::new(stream), ByteQueue::default(), 0);
    let lengths = cuts.iter().map(|cut| usize::from(*cut)).chain([stream.len()]);
    for length in lengths {
        queue.append(input.take(length), &Unpooled);
        while let Some(header) = Header::of_whole_frame(&queue) {
            let (bytes, payload) = expected[frames];
            assert_eq!((header.encode(), Header::decode(bytes)), (bytes, header));
            queue.advance(HEADER_BYTES, &Unpooled);
            let mut moved = ByteQueue::default();
            queue.move_front(header.length.into(), &mut moved, &Unpooled);
            assert_eq!(all(&mut moved), payload);
            frames += 1;
        }
        assert!(queue.len() <= MOST_WAITING, "M06");
    }
    assert_eq!((frames, all(&mut queue)), (expected.len(), rest.to_vec()));
}

fn all(queue: &mut ByteQueue) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(buffer) = queue.pop() {
        bytes.extend_from_slice(&buffer);
    }
    bytes
}

/// A line: its room.
#[derive(Clone, Debug)]
struct Line(Rc<Cell<usize>>);

impl Owner for Line {
    fn room(&self) -> usize {
        self.0.get()
    }

    fn give_back(&self, _: usize, _: usize) {}
}

/// One side, and what its owner knows.
struct Owned {
    parent: Parent<Line>,
    now: Instant,
    is_server: bool,
    room: usize,
    lines: BTreeMap<ChildKey, Line>,
    input: ByteQueue,
    out: ByteQueue,
    next: u64,
    /// Cids to which Close was sent.
    closed: Vec<u32>,
}

/// One side of a parent.
///
/// The input: a byte of bits (1 a server, 2 half-closes, 4 narrow limits, 8 lines without room),
/// then steps. A step is a byte whose low four bits say what happens, and mostly an argument.
pub(crate) fn parent(data: &[u8]) {
    let mut input = Input::new(data);
    let bits = input.byte();
    let narrow = bits & 4 > 0;
    let limits = Limits {
        child_buffer: if narrow { 64 } else { 1 << 20 },
        child_resume: if narrow { 32 } else { 1 << 16 },
        parent_buffer: (bits & 16 == 0).then_some(if narrow { 200 } else { 4 << 20 }),
        half_close: bits & 2 > 0,
        ..Limits::default()
    };
    let is_server = bits & 1 > 0;
    let side = if is_server { Side::Server { most: 8 } } else { Side::Client(Cids::new(LAST_CID)) };
    let mut owned = Owned {
        parent: Parent::new(side, limits),
        now: Instant::now(),
        is_server,
        room: if bits & 8 > 0 { 0 } else { usize::MAX },
        lines: BTreeMap::new(),
        input: ByteQueue::default(),
        out: ByteQueue::default(),
        next: 0,
        closed: Vec::new(),
    };
    let mut steps = 0;
    while let Some(step) = input.take(1).first().copied() {
        let stalled = owned.parent.stops_reading();
        owned.step(step, &mut input);
        owned.look();
        let limits_hold = owned.parent.queued() <= 70_000 || !narrow;
        assert!(limits_hold || stalled.is_none(), "M24, M25: {}", owned.parent.queued());
        steps += 1;
        if steps > 2000 {
            break;
        }
    }
    owned.finish();
}

impl Owned {
    fn key(&self, number: u8) -> ChildKey {
        let place = usize::from(number) % self.lines.len().max(1);
        self.lines.keys().nth(place).copied().unwrap_or(ChildKey(u64::from(number)))
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step & 0x0f {
            0 => self.parent.established(),
            1 if !self.is_server && !self.parent.is_exhausted() => {
                self.next += 1;
                let (key, line) = (ChildKey(self.next), Line(Rc::new(Cell::new(self.room))));
                self.lines.insert(key, line.clone());
                self.parent.join(self.now, key, line);
            }
            2 => {
                let (key, mut payload) = (self.key(input.byte()), ByteQueue::default());
                payload.append(&vec![step; 1 << (step >> 4)], &Unpooled);
                self.parent.payload(key, &mut payload, &Unpooled);
                assert!(payload.is_empty());
            }
            3 => self.parent.input_ended(self.now, self.key(input.byte())),
            4 => {
                let end = ChildEnd::ALL[usize::from(step >> 4)];
                let key = self.key(input.byte());
                self.parent.gone(self.now, key, end, &Unpooled);
                self.lines.remove(&key);
            }
            5 => self.parent.pause(self.key(input.byte())),
            6 => self.parent.resume(self.key(input.byte())),
            7 => {
                let key = self.key(input.byte());
                if let Some(line) = self.lines.get(&key) {
                    line.0.set(usize::from(step) << 2);
                    self.parent.has_room(key);
                }
            }
            8 => self.close(input.byte(), step & 0x10 > 0),
            9 => self.write(),
            10 => self.out.clear(&Unpooled),
            // One frame that is one, of few children.
            11 => {
                let kind = FrameKind::ALL[usize::from(step >> 4) % FrameKind::ALL.len()];
                let cid = u32::from(input.byte() % 8);
                let payload = if kind == FrameKind::Data { input.counted() } else { &[] };
                let header = Header { length: payload.len() as u16, ..Header::control(kind, cid) };
                let header = header.with_half_close(step & 0x80 > 0);
                self.input.append(&header.encode(), &Unpooled);
                self.input.append(payload, &Unpooled);
                self.read();
            }
            12 => {
                self.input.append(input.counted(), &Unpooled);
                self.read();
            }
            13 => self.pass(Duration::from_millis(u64::from(input.byte()) * 500)),
            14 if step & 0xf0 == 0xf0 => self.lose(),
            14 => self.parent.exhaust(),
            _ => {}
        }
    }

    fn close(&mut self, number: u8, at_once: bool) {
        self.parent.close(self.key(number), ChildEnd::Admin, at_once, &Unpooled);
    }

    /// Waits for reading as an actor does, but for what it has read.
    fn read(&mut self) {
        if matches!(self.parent.stops_reading(), Some(pause) if pause != ParentPause::Control) {
            // It would not have been read.
            return self.input.clear(&Unpooled);
        }
        while self.parent.receive(self.now, &mut self.input, &Unpooled) > 0 {
            self.look();
        }
        let control = self.parent.stops_reading() == Some(ParentPause::Control);
        assert!(control || self.input.len() <= MOST_WAITING, "M06");
    }

    fn write(&mut self) {
        let (before, would) = (self.out.len(), self.parent.has_frames());
        let added = self.parent.transmit(&mut self.out, &Unpooled);
        assert_eq!(added, self.out.len() - before);
        assert!(before > 0 || would == (added > 0), "has_frames: {would}, {added} bytes");
        assert!(self.out.len() <= 64 * 1024, "M28");
        let mut sent = ByteQueue::default();
        let bytes = all(&mut self.out);
        sent.append(&bytes[before..], &Unpooled);
        while let Some(header) = Header::of_whole_frame(&sent) {
            sent.advance(HEADER_BYTES + usize::from(header.length), &Unpooled);
            let kind = FrameKind::of(header.flags).expect("a known frame");
            assert_eq!(kind == FrameKind::Data, header.length > 0, "M03, M04");
            if !self.is_server {
                assert!(!self.closed.contains(&header.cid), "M07, M18");
                if kind == FrameKind::Close {
                    self.closed.push(header.cid);
                }
            }
        }
        assert!(sent.is_empty(), "whole frames");
        self.out.append(&bytes, &Unpooled);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        if self.parent.next_wake().is_some_and(|at| at <= self.now) {
            self.parent.timeout(self.now, &Unpooled);
            assert!(self.parent.next_wake().is_none_or(|at| at > self.now), "due again");
        }
    }

    fn lose(&mut self) {
        self.input.clear(&Unpooled);
        self.out.clear(&Unpooled);
        self.closed.clear();
        self.parent.transport_lost(&Unpooled);
        if !self.is_server {
            self.parent.again();
        }
    }

    fn look(&mut self) {
        loop {
            let mut any = false;
            while let Some((key, payload)) = self.parent.poll_delivery(self.now, &Unpooled) {
                let line = self.lines.get(&key).expect("delivered to somebody");
                assert!(!payload.is_empty() && payload.len() <= line.0.get());
                line.0.set(if self.room == 0 { line.0.get() - payload.len() } else { self.room });
                any = true;
            }
            while let Some(event) = self.parent.poll_event() {
                any = true;
                match event {
                    Event::Opened(key) => {
                        let line = Line(Rc::new(Cell::new(self.room)));
                        assert!(self.lines.insert(key, line.clone()).is_none());
                        self.parent.attach(key, line);
                    }
                    Event::Finish(key, ..) => {
                        assert!(self.lines.remove(&key).is_some(), "{key:?} ended twice");
                    }
                    Event::KeptNoMore(_) => {}
                    Event::Est(key) => assert!(key.0 <= self.next),
                    Event::Pause(key, _)
                    | Event::Resume(key, _)
                    | Event::InputEnded(key)
                    | Event::Over(key, _)
                    | Event::Kept(key) => assert!(self.lines.contains_key(&key), "{key:?} ended"),
                }
            }
            if !any {
                break;
            }
        }
        self.parent.assert_sound();
    }

    /// Nothing is left of anybody once all lines are gone and the transport is.
    fn finish(mut self) {
        for key in std::mem::take(&mut self.lines).into_keys() {
            self.parent.gone(self.now, key, ChildEnd::Finished, &Unpooled);
            self.look();
        }
        self.parent.transport_lost(&Unpooled);
        self.parent.give_up_waiting(self.now, &Unpooled);
        self.look();
        assert!(self.parent.is_empty() && self.parent.is_over());
        assert_eq!((self.parent.queued(), self.parent.paused()), (0, 0));
        assert_eq!(self.parent.next_wake(), None);
    }
}
