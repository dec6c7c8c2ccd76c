//! A client's and a server's side joined by two streams of bytes, under random operations, beside a
//! plain mux.

use proptest::collection::vec;
use proptest::prelude::*;

use super::end::{End, all, half, small};
use super::model::{Side, Told, Watch};
use crate::mux::child::{Outward, Wire};
use crate::mux::{ChildEnd, ChildKey, Limits, MOST_WAITING, Side as Which};
use crate::mux::{Cids, LAST_CID};
use crate::queue::Unpooled;

/// The most bytes that one read brings.
const MOST_READ: usize = 4096;

/// What happens; `bool`s say whether it is at the server's side, numbers choose a child.
#[derive(Clone, Debug)]
enum Op {
    Established(bool),
    Join,
    Pay(bool, usize, usize),
    End(bool, usize),
    Gone(bool, usize, bool),
    Close(bool, usize),
    Pause(bool, usize),
    Resume(bool, usize),
    Room(bool, usize, usize),
    /// The parent gives what it has for its transport.
    Write(bool),
    /// So many bytes of that side arrive at the other one.
    Move(bool, usize),
    Pass(u64),
    Lose,
}

fn op() -> impl Strategy<Value = Op> {
    let (side, child) = (any::<bool>, || 0..6usize);
    let length = || prop_oneof![3 => 0..40usize, 2 => 0..1500usize, 1 => 0..70_000usize];
    prop_oneof![
        3 => side().prop_map(Op::Established),
        6 => Just(Op::Join),
        12 => (side(), child(), length()).prop_map(|(s, c, n)| Op::Pay(s, c, n)),
        2 => (side(), child()).prop_map(|(s, c)| Op::End(s, c)),
        2 => (side(), child(), any::<bool>()).prop_map(|(s, c, r)| Op::Gone(s, c, r)),
        1 => (side(), child()).prop_map(|(s, c)| Op::Close(s, c)),
        4 => (side(), child()).prop_map(|(s, c)| Op::Pause(s, c)),
        4 => (side(), child()).prop_map(|(s, c)| Op::Resume(s, c)),
        5 => (side(), child(), length()).prop_map(|(s, c, n)| Op::Room(s, c, n)),
        14 => side().prop_map(Op::Write),
        14 => (side(), 1..MOST_READ).prop_map(|(s, n)| Op::Move(s, n)),
        2 => prop_oneof![0..100u64, 0..70_000u64].prop_map(Op::Pass),
    ]
}

struct Pair {
    ends: [End; 2],
    told: [Side; 2],
    watch: [Watch; 2],
    limits: Limits,
    lost: bool,
}

impl Pair {
    fn new(limits: Limits, room: usize) -> Self {
        let client = End::new(Which::Client(Cids::new(LAST_CID)), limits);
        let mut server = End::new(Which::Server { most: 1000 }, limits);
        server.room = room;
        Self {
            ends: [client, server],
            told: Default::default(),
            watch: Default::default(),
            limits,
            lost: false,
        }
    }

    fn child(&self, side: usize, child: usize) -> Option<u64> {
        let live = self.told[side].live();
        live.get(child % live.len().max(1)).copied()
    }

    fn does(&mut self, op: Op) {
        match op {
            Op::Established(side) if !self.lost => {
                self.ends[usize::from(side)].parent.established();
            }
            Op::Established(_) => {}
            Op::Join => {
                let key = self.ends[0].join();
                self.told[0].children.insert(key.0, Told::default());
            }
            Op::Write(side) => self.writes(usize::from(side)),
            Op::Move(side, bytes) => self.moves(usize::from(side), bytes),
            Op::Pass(millis) => self.ends.iter_mut().for_each(|end| end.passes(millis)),
            Op::Lose => self.loses(),
            Op::Pay(side, child, _)
            | Op::End(side, child)
            | Op::Gone(side, child, _)
            | Op::Close(side, child)
            | Op::Pause(side, child)
            | Op::Resume(side, child)
            | Op::Room(side, child, _) => {
                if let Some(key) = self.child(side.into(), child) {
                    self.line(side.into(), key, op);
                }
            }
        }
        self.checks();
    }

    /// A line does something.
    fn line(&mut self, side: usize, key: u64, op: Op) {
        let child = self.ends[side].parent.children.get(&ChildKey(key));
        let sends = child
            .is_some_and(|child| child.wire != Wire::Over && child.outward != Outward::Closing);
        let (end, told) = (&mut self.ends[side], &mut self.told[side]);
        let line = told.children.get_mut(&key).unwrap();
        match op {
            Op::Pay(_, _, length) if !line.ended && sends => {
                let from = line.paid.len();
                let bytes = (from..from + length).map(|at| (at + at / 251) as u8 ^ key as u8);
                let bytes: Vec<u8> = bytes.map(|byte| byte ^ (side as u8) << 7).collect();
                told.paid += length;
                line.paid.extend(&bytes);
                end.pays(key, &bytes);
            }
            Op::End(..) => {
                line.graceful |= side == 1 && !line.ended && sends;
                line.ended = true;
                end.ends(key);
            }
            Op::Gone(_, _, reset) => {
                line.graceful |= sends && (line.established || !reset);
                line.over = true;
                end.gone(key, if reset { ChildEnd::Reset } else { ChildEnd::Finished });
            }
            Op::Close(..) => end.closes(key, ChildEnd::Admin),
            Op::Pause(..) => end.pauses(key),
            Op::Resume(..) => end.resumes(key),
            Op::Room(_, _, room) => end.drains(key, room),
            _ => {}
        }
    }

    fn writes(&mut self, side: usize) {
        let end = &mut self.ends[side];
        let before = all(&mut end.out);
        end.out.append(&before, &Unpooled);
        let held = |end: &End| -> Vec<_> {
            let held = end.parent.children.iter().filter(|(_, child)| child.peer_paused);
            held.map(|(key, child)| (*key, child.out.len())).collect()
        };
        let paused = held(end);
        let would = end.parent.has_frames();
        let added = end.parent.transmit(&mut end.out, &Unpooled);
        assert!(would == (added > 0) || !before.is_empty(), "{would} {added}");
        assert!(end.out.len() <= 64 * 1024, "M28");
        let after = all(&mut end.out);
        assert!(after.starts_with(&before));
        self.watch[side].sees(side == 1, &after[before.len()..]);
        end.out.append(&after, &Unpooled);
        for (key, length) in paused {
            let child = end.parent.children.get(&key);
            assert!(child.is_none_or(|child| child.out.len() == length), "M26: {key:?}");
        }
        end.look();
    }

    fn moves(&mut self, side: usize, bytes: usize) {
        let [from, to] = self.ends.get_disjoint_mut([side, 1 - side]).unwrap();
        // What was read before may wait for control frames to leave.
        to.parses();
        if to.parent.stops_reading().is_some() {
            return;
        }
        let count = bytes.min(from.out.len());
        let mut moved = Vec::new();
        while moved.len() < count {
            let head = from.out.head();
            let here = head.len().min(count - moved.len());
            moved.extend_from_slice(&head[..here]);
            from.out.advance(here, &Unpooled);
        }
        to.reads(&moved);
        assert!(to.input.len() <= MOST_WAITING, "M06");
    }

    fn loses(&mut self) {
        self.lost = true;
        for end in &mut self.ends {
            end.out.clear(&Unpooled);
            end.loses_transport();
            end.parent.give_up_waiting(end.now, &Unpooled);
            end.look();
        }
    }

    /// What holds after each step.
    fn checks(&mut self) {
        for side in 0..2 {
            let (end, told) = (&mut self.ends[side], &mut self.told[side]);
            if told.takes(end) {
                // Whoever has ended may have lost what it had to send.
                told.children.values_mut().for_each(|child| child.graceful = false);
            }
            told.agrees(end);
            for child in end.parent.children.values() {
                let most = self.limits.child_buffer + MOST_WAITING + MOST_READ;
                assert!(child.queue.len() <= most, "M24: {}", child.queue.len());
            }
        }
        let [client, server] = &self.told;
        assert!(server.children.len() <= client.opened.len(), "M17");
        for (at, key) in client.opened.iter().enumerate() {
            let up = &client.children[key];
            if let Some(down) = server.children.get(&(at as u64 + 1)) {
                for [from, to] in [[up, down], [down, up]] {
                    assert!(from.paid.starts_with(&to.got), "other bytes, or in another order");
                    let closed = to.finish.as_deref() == Some("peer-closed") && from.graceful;
                    if to.input_ended || closed {
                        assert_eq!(from.paid.len(), to.got.len(), "M19, M30: {key}");
                    }
                }
            }
        }
    }

    /// All takes everything, until nothing moves.
    fn flows(&mut self) {
        for side in 0..2 {
            self.does(Op::Established(side == 1));
            for key in self.told[side].live() {
                self.ends[side].drains(key, usize::MAX);
                self.ends[side].resumes(key);
            }
        }
        for _ in 0..1000 {
            for side in [false, true] {
                self.does(Op::Write(side));
                while !self.ends[usize::from(side)].out.is_empty() {
                    let before = self.ends[usize::from(side)].out.len();
                    self.does(Op::Move(side, MOST_READ));
                    if self.ends[usize::from(side)].out.len() == before {
                        break;
                    }
                }
            }
            // A child that was opened on the way has little room.
            for key in self.told[1].live() {
                self.ends[1].drains(key, usize::MAX);
            }
            self.checks();
            if self.ends.iter().all(|end| end.out.is_empty() && !end.parent.has_frames()) {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    /// Everything that can arrive has arrived, and nothing is left of anybody.
    fn finishes(mut self) {
        self.flows();
        for side in 0..2 {
            assert_eq!(self.ends[side].parent.queued(), 0);
            assert_eq!(self.ends[side].parent.paused(), 0);
            assert_eq!(self.ends[side].parent.stops_reading(), None);
        }
        let [client, server] = &self.told;
        for (at, key) in client.opened.iter().enumerate() {
            let up = &client.children[key];
            let Some(down) = server.children.get(&(at as u64 + 1)) else {
                assert!(self.lost);
                continue;
            };
            if !up.over && !down.over {
                assert_eq!((down.got.len(), up.got.len()), (up.paid.len(), down.paid.len()));
            }
        }
        for side in [false, true] {
            for key in self.told[usize::from(side)].live() {
                self.line(side.into(), key, Op::Gone(side, 0, false));
                self.checks();
            }
        }
        self.flows();
        self.does(Op::Pass(61_000));
        self.flows();
        for cid in self.watch[0].cids().chain(self.watch[1].cids()) {
            let [up, down] = [self.watch[0].of(cid), self.watch[1].of(cid)];
            let ended = up.closed || down.closed || (up.fin && down.fin);
            assert!(ended || self.lost, "M18, M30: {cid} {up:?} {down:?}");
        }
        for (end, told) in self.ends.iter().zip(&self.told) {
            assert!(end.parent.is_empty() && told.live().is_empty(), "{:?}", end.parent.children);
            assert_eq!((end.parent.next_wake(), end.parent.queued()), (None, 0));
            for key in told.children.keys() {
                let line = &end.lines[&ChildKey(*key)];
                assert!(line.out().0 == 0 || told.children[key].over, "{key}: its credit is back");
            }
        }
    }
}

fn limits() -> impl Strategy<Value = Limits> {
    let wide = Limits::default();
    let narrow = Limits { parent_buffer: Some(2000), ..half() };
    prop_oneof![Just(small()), Just(half()), Just(wide), Just(narrow)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn mux_m01_m32_two_sides_under_random_operations(
        limits in limits(),
        room in prop_oneof![Just(usize::MAX), 0..2000usize],
        ops in vec(op(), 1..200),
        lost in proptest::option::weighted(0.2, vec(op(), 0..20)),
    ) {
        let mut pair = Pair::new(limits, room);
        for op in ops {
            pair.does(op);
        }
        if let Some(more) = lost {
            pair.does(Op::Lose);
            for op in more {
                // Nobody joins a parent that is lost.
                if !matches!(op, Op::Join | Op::Move(..)) {
                    pair.does(op);
                }
            }
        }
        pair.finishes();
    }
}
