//! Bytes of a recorded pair of another implementation, read and played: its client against a
//! server's side, its server against a client's side. It opens children with their first payload,
//! so that what is sent is compared child by child.

use std::collections::BTreeMap;
use std::time::Instant;

use lineway_wire::mux::{
    ChildEnd, ChildKey, Cids, Event, FrameKind, HEADER_BYTES, Header, LAST_CID, Limits, Owner,
    Parent, Side,
};
use lineway_wire::queue::{ByteQueue, Unpooled};

macro_rules! recorded {
    ($name:literal) => {
        include_bytes!(concat!("../../tests/golden/", $name, ".bin"))
    };
}

const BASIC_UP: &[u8] = recorded!("mux_basic.c0.c2s");
const BASIC_DOWN: &[u8] = recorded!("mux_basic.c0.s2c");
const FLOW_UP: &[u8] = recorded!("mux_flow.c0.c2s.ctl");
const FLOW_DOWN: &[u8] = recorded!("mux_flow.c0.s2c.ctl");
const FISHED_UP: &[u8] = recorded!("fmux_basic.c0.c2s");
const FISHED_DOWN: &[u8] = recorded!("fmux_basic.c0.s2c");

/// Bytes of the marker that a fisher puts before all others.
const MARKER: usize = 5;

#[derive(Debug)]
struct Line;

impl Owner for Line {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn give_back(&self, _: usize, _: usize) {}
}

/// Frames as text: the flags' word, the cid, the payload. No recorded header has a pad.
fn frames(mut bytes: &[u8]) -> Vec<String> {
    let mut frames = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let header = Header::decode(*header);
        let (payload, rest) = rest.split_at(header.length.into());
        bytes = rest;
        let word = FrameKind::of(header.flags).expect("a known frame").as_str();
        let text = format!("{word} {} {}", header.cid, str::from_utf8(payload).unwrap());
        frames.push(text.trim_end().to_owned());
    }
    assert!(bytes.is_empty());
    frames
}

/// For each cid, its frames in order; Data joined.
fn by_child(frames: &[String]) -> BTreeMap<u32, String> {
    let mut children: BTreeMap<u32, String> = BTreeMap::new();
    for frame in frames {
        let mut words = frame.splitn(3, ' ');
        let (word, cid) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
        let child = children.entry(cid).or_default();
        *child += words.next().unwrap_or(word);
        *child += if word == "data" { "" } else { " " };
    }
    children
}

/// One side, which notes all that its lines get.
struct End {
    parent: Parent<Line>,
    now: Instant,
    input: ByteQueue,
    told: Vec<String>,
    got: BTreeMap<u64, Vec<u8>>,
    sent: Vec<u8>,
}

impl End {
    fn new(side: Side) -> Self {
        let mut parent = Parent::new(side, Limits { half_close: false, ..Limits::default() });
        parent.established();
        Self {
            parent,
            now: Instant::now(),
            input: ByteQueue::default(),
            told: Vec::new(),
            got: BTreeMap::new(),
            sent: Vec::new(),
        }
    }

    fn client(children: u64) -> Self {
        let mut client = Self::new(Side::Client(Cids::new(LAST_CID)));
        for key in 1..=children {
            client.parent.join(client.now, ChildKey(key), Line);
        }
        client.look();
        client.told.clear();
        client
    }

    fn server() -> Self {
        Self::new(Side::Server { most: 100 })
    }

    fn look(&mut self) {
        let mut out = ByteQueue::default();
        while self.parent.transmit(&mut out, &Unpooled) > 0 {
            while let Some(buffer) = out.pop() {
                self.sent.extend_from_slice(&buffer);
            }
        }
        while let Some((key, mut payload)) = self.parent.poll_delivery(self.now, &Unpooled) {
            while let Some(buffer) = payload.pop() {
                self.got.entry(key.0).or_default().extend_from_slice(&buffer);
            }
        }
        while let Some(event) = self.parent.poll_event() {
            self.told.push(match event {
                Event::Opened(key) => {
                    self.parent.attach(key, Line);
                    format!("opened {}", key.0)
                }
                Event::Est(key) => format!("est {}", key.0),
                Event::Pause(key, why) => format!("pause {} {}", key.0, why.as_str()),
                Event::Resume(key, why) => format!("resume {} {}", key.0, why.as_str()),
                Event::Finish(key, _, end) => format!("finish {} {}", key.0, end.as_str()),
                other => format!("{other:?}"),
            });
        }
        self.parent.assert_sound();
    }

    fn hears(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.input.append(&[*byte], &Unpooled);
            while self.parent.receive(self.now, &mut self.input, &Unpooled) > 0 {
                self.look();
            }
        }
        self.look();
        assert!(self.input.is_empty());
        assert_eq!(self.parent.take_counts().dropped, [0; 8]);
    }

    fn pays(&mut self, key: u64, payload: &[u8]) {
        let mut queue = ByteQueue::default();
        queue.append(payload, &Unpooled);
        self.parent.payload(ChildKey(key), &mut queue, &Unpooled);
        self.look();
    }

    fn gone(&mut self, key: u64) {
        self.parent.gone(self.now, ChildKey(key), ChildEnd::Finished, &Unpooled);
        self.look();
    }

    fn got(&self, key: u64) -> &str {
        str::from_utf8(self.got.get(&key).map(Vec::as_slice).unwrap_or_default()).unwrap()
    }
}

#[test]
fn mux_wire_recorded_headers_decode_and_encode_to_what_was_recorded() {
    for bytes in
        [BASIC_UP, BASIC_DOWN, FLOW_UP, FLOW_DOWN, &FISHED_UP[MARKER..], &FISHED_DOWN[MARKER..]]
    {
        let mut at = 0;
        while at < bytes.len() {
            let recorded: [u8; HEADER_BYTES] = bytes[at..at + HEADER_BYTES].try_into().unwrap();
            let header = Header::decode(recorded);
            assert_eq!(header.pad, 0, "M03");
            let again = match FrameKind::of(header.flags).unwrap() {
                FrameKind::Data => Header::data(header.cid, header.length),
                kind => Header::control(kind, header.cid),
            };
            assert_eq!(again.encode(), recorded);
            at += HEADER_BYTES + usize::from(header.length);
        }
    }
    let basic_up = [
        "open 1",
        "data 1 hello-A",
        "open 2",
        "data 2 hello-B-1",
        "data 2 hello-B-2",
        "close 1",
        "open 3",
        "close 3",
        "open 4",
        "data 4 last",
    ];
    assert_eq!(frames(BASIC_UP), basic_up);
    let basic_down = ["data 1 reply-A", "data 2 reply-B", "close 2", "data 4 bye", "close 4"];
    assert_eq!(frames(BASIC_DOWN), basic_down);
    let flow_up = [
        "open 1",
        "data 1 down",
        "open 2",
        "data 2 B",
        "flow-pause 1",
        "flow-resume 1",
        "flow-pause 1",
        "flow-resume 1",
        "close 2",
        "close 1",
    ];
    assert_eq!(frames(FLOW_UP), flow_up);
    assert_eq!(frames(FLOW_DOWN), ["data 2 alive?", "flow-pause 1", "flow-resume 1"]);
}

#[test]
fn mux_m16_m18_a_recorded_client_is_served() {
    let mut server = End::server();
    server.hears(BASIC_UP);
    let told = [
        "opened 1",
        "opened 2",
        "finish 1 peer-closed",
        "opened 3",
        "finish 3 peer-closed",
        "opened 4",
    ];
    assert_eq!(server.told, told);
    let got = [1, 2, 3, 4].map(|key| server.got(key));
    assert_eq!(got, ["hello-A", "hello-B-1hello-B-2", "", "last"]);

    // The same again, with the answers when the recorded backend gave them.
    let mut server = End::server();
    server.hears(&BASIC_UP[..65]);
    server.pays(1, b"reply-A");
    server.pays(2, b"reply-B");
    server.gone(2);
    server.hears(&BASIC_UP[65..]);
    server.pays(4, b"bye");
    server.gone(4);
    assert_eq!(by_child(&frames(&server.sent)), by_child(&frames(BASIC_DOWN)));
    assert!(server.parent.is_empty());
}

#[test]
fn mux_m15_m18_a_recorded_server_serves() {
    let mut client = End::client(4);
    client.pays(1, b"hello-A");
    client.pays(2, b"hello-B-1");
    client.pays(2, b"hello-B-2");
    client.pays(4, b"last");
    client.hears(&BASIC_DOWN[..15]);
    client.gone(1);
    client.gone(3);
    client.hears(&BASIC_DOWN[15..]);
    assert_eq!([1, 2, 3, 4].map(|key| client.got(key)), ["reply-A", "reply-B", "", "bye"]);
    assert_eq!(client.told, ["finish 2 peer-closed", "finish 4 peer-closed"]);
    assert_eq!(by_child(&frames(&client.sent)), by_child(&frames(BASIC_UP)));
    assert!(client.parent.is_empty());
}

#[test]
fn mux_m21_m26_recorded_flow_frames_pause_and_resume_and_ours_are_the_same() {
    let mut server = End::server();
    server.hears(&FLOW_UP[..45]);
    server.pays(1, b"held back");
    server.pays(2, b"alive?");
    server.hears(&FLOW_UP[45..69]);
    server.parent.pause(ChildKey(1));
    server.look();
    server.parent.resume(ChildKey(1));
    server.look();
    assert_eq!(frames(&server.sent)[0], "data 2 alive?");
    assert_eq!(frames(&server.sent)[1], "data 1 held back");
    assert_eq!(server.sent[server.sent.len() - 16..], FLOW_DOWN[14..]);
    let told = ["pause 1 peer", "resume 1 peer", "pause 1 peer", "resume 1 peer"];
    assert_eq!(server.told, [&["opened 1", "opened 2"][..], &told].concat());

    let mut client = End::client(2);
    client.pays(1, b"down");
    client.pays(2, b"B");
    client.hears(FLOW_DOWN);
    for _ in 0..2 {
        client.parent.pause(ChildKey(1));
        client.look();
        client.parent.resume(ChildKey(1));
        client.look();
    }
    client.gone(2);
    client.gone(1);
    assert_eq!(client.told, ["pause 1 peer", "resume 1 peer"]);
    assert_eq!(client.got(2), "alive?");
    assert_eq!(by_child(&frames(&client.sent)), by_child(&frames(FLOW_UP)));
}

#[test]
fn mux_m01_a_recorded_parent_behind_a_fisher_is_a_parent_behind_five_bytes() {
    let (up, down) = (&FISHED_UP[MARKER..], &FISHED_DOWN[MARKER..]);
    let mut server = End::server();
    server.hears(up);
    assert_eq!([1, 2].map(|key| server.got(key)), ["hello-A", "hello-B"]);
    assert!(server.parent.is_empty() && server.sent.is_empty());
    let mut client = End::client(2);
    client.pays(1, b"hello-A");
    client.pays(2, b"hello-B");
    client.hears(down);
    assert_eq!([1, 2].map(|key| client.got(key)), ["reply-A", "reply-B"]);
    client.gone(1);
    client.gone(2);
    assert_eq!(by_child(&frames(&client.sent)), by_child(&frames(up)));
}
