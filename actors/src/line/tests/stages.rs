//! Stages on a line: what they delay, change, keep and hand on.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use lineway_wire::line::{Direction, FinishReason, LineKind};

use super::{SECOND, bytes};
use crate::line::stage::Stages;
use crate::line::{End, LineParts, MainLine, Stage, StageOut};
use crate::metrics::ActorKind;
use crate::registry::{LineId, LineView};
use crate::spawn;
use crate::testkit::{Kit, Outcome, Peer, run, socket};
use crate::worker::timers;
use lineway_wire::queue::ByteQueue;

/// Opens a line with these stages on a plain chain; its far side waits for a stage to begin it.
fn open(kit: &Kit, stages: Vec<Box<dyn Stage>>) -> Peer {
    let chain = kit.plain_chain();
    let id = LineId { worker: 0, number: 1000 };
    let node = Arc::clone(&chain.entry.plan.name);
    let (socket, client) = socket();
    let parts = LineParts {
        view: Arc::new(LineView::new(id, LineKind::Main, node, None, None)),
        chain: Rc::clone(&chain),
        near: End::Socket(socket),
        stages: Stages::new(stages),
        far: End::Waiting,
    };
    let line = MainLine::new(&kit.worker, parts, None, None);
    let actors = kit.board.metrics.actors();
    spawn::start(ActorKind::MainLine, actors, |_| line, |_| {});
    client
}

fn pop_all(input: &mut ByteQueue) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(buffer) = input.pop() {
        all.extend_from_slice(&buffer);
    }
    all
}

fn push(out: &mut StageOut<'_>, direction: Direction, bytes: &[u8]) {
    out.towards(direction).push(BytesMut::from(bytes));
}

/// Looks for a knock at the start, as a detector does: begins the onward side when the first four
/// bytes are there, answers a knock, and is done. It gives up at the end of input or after 2 s.
struct Door {
    until: Instant,
    done: bool,
}

const KNOCK: &[u8] = b"KNCK";

impl Door {
    fn boxed() -> Box<dyn Stage> {
        Box::new(Self { until: timers::now() + SECOND * 2, done: false })
    }

    fn open(&mut self, out: &mut StageOut<'_>) {
        out.init_next();
        self.done = true;
    }
}

impl Stage for Door {
    fn payload(&mut self, direction: Direction, input: &mut ByteQueue, out: &mut StageOut<'_>) {
        assert!(!self.done, "payload for a stage that is done");
        assert_eq!(direction, Direction::Upstream);
        if input.len() < KNOCK.len() {
            return;
        }
        let all = pop_all(input);
        if let Some(rest) = all.strip_prefix(KNOCK) {
            push(out, Direction::Downstream, b"come in");
            push(out, Direction::Upstream, rest);
        } else {
            push(out, Direction::Upstream, &all);
        }
        self.open(out);
    }

    fn input_ended(&mut self, _: Direction, out: &mut StageOut<'_>) {
        self.open(out);
    }

    fn next_wake(&self) -> Option<Instant> {
        Some(self.until)
    }

    fn timeout(&mut self, now: Instant, _: &dyn Fn() -> Option<Duration>, out: &mut StageOut<'_>) {
        assert!(now >= self.until);
        self.open(out);
    }

    fn done(&self) -> bool {
        self.done
    }
}

/// Adds to every byte upstream what it takes from every byte downstream, whole pairs of bytes
/// alone.
struct Shift(u8);

impl Stage for Shift {
    fn payload(&mut self, direction: Direction, input: &mut ByteQueue, out: &mut StageOut<'_>) {
        let mut all = pop_all(input);
        let kept = all.split_off(all.len() & !1);
        input.push(BytesMut::from(&kept[..]));
        for byte in &mut all {
            *byte = match direction {
                Direction::Upstream => byte.wrapping_add(self.0),
                Direction::Downstream => byte.wrapping_sub(self.0),
            };
        }
        out.init_next();
        push(out, direction, &all);
    }
}

/// Ends the line at the first payload.
struct Refuses;

impl Stage for Refuses {
    fn payload(&mut self, _: Direction, _: &mut ByteQueue, out: &mut StageOut<'_>) {
        push(out, Direction::Downstream, b"go away");
        out.finish(FinishReason::ProtocolError);
        out.finish(FinishReason::Overflow);
    }
}

/// Keeps everything until the input ends, and then gives it on as one piece.
#[derive(Default)]
struct Gathers {
    ended: [bool; 2],
    gathered: [Vec<u8>; 2],
}

impl Stage for Gathers {
    fn payload(&mut self, direction: Direction, input: &mut ByteQueue, out: &mut StageOut<'_>) {
        assert!(!self.ended[direction as usize], "payload behind its end");
        out.init_next();
        self.gathered[direction as usize].extend(pop_all(input));
    }

    fn input_ended(&mut self, direction: Direction, out: &mut StageOut<'_>) {
        self.ended[direction as usize] = true;
        push(out, direction, &self.gathered[direction as usize]);
    }
}

#[test]
fn stage_the_end_passes_the_stages_in_the_order_of_the_bytes_both_ways() {
    run(async |kit| {
        let stage = || -> Box<dyn Stage> { Box::<Gathers>::default() };
        let client = open(&kit, vec![stage(), stage(), stage()]);
        client.offer(b"to begin with, ");
        kit.quiet().await;
        client.offer(b"a question");
        client.end();
        kit.quiet().await;
        let server = kit.dials.peer(0);
        assert_eq!(server.take(), b"to begin with, a question");
        server.offer(b"an ");
        kit.quiet().await;
        server.offer(b"answer");
        server.end();
        kit.quiet().await;
        assert_eq!(client.take(), b"an answer");
        assert!(client.is_shut_down() && server.is_shut_down());
        kit.assert_empty().await;
    });
}

#[test]
fn stage_the_onward_side_begins_when_the_stage_says_so() {
    run(async |kit| {
        let client = open(&kit, vec![Door::boxed()]);
        client.offer(b"KN");
        kit.quiet().await;
        assert!(kit.dials.is_empty(), "Init before the stage gave it");
        client.offer(b"CKhello");
        kit.quiet().await;
        assert_eq!(client.take(), b"come in");
        assert_eq!(kit.dials.len(), 1);
        assert_eq!(kit.dials.peer(0).take(), b"hello");
    });
}

#[test]
fn stage_what_a_stage_kept_goes_on_in_order_when_it_is_taken_out() {
    run(async |kit| {
        let client = open(&kit, vec![Door::boxed()]);
        client.read_at_most(1);
        client.offer(b"no knock at all");
        kit.quiet().await;
        let server = kit.dials.peer(0);
        assert_eq!(server.take(), b"no knock at all");
        server.offer(b"downstream too");
        client.offer(b"KNCK is plain now");
        kit.quiet().await;
        assert_eq!(client.take(), b"downstream too");
        assert_eq!(server.take(), b"KNCK is plain now");
    });
}

#[test]
fn stage_a_prefix_that_is_kept_at_the_end_of_input_is_delivered_before_the_end() {
    run(async |kit| {
        let client = open(&kit, vec![Door::boxed()]);
        client.offer(b"KNC");
        kit.quiet().await;
        assert!(kit.dials.is_empty());
        client.end();
        kit.quiet().await;
        let server = kit.dials.peer(0);
        assert_eq!(server.take(), b"KNC");
        assert!(server.is_shut_down());
        server.offer(b"answer");
        server.end();
        kit.quiet().await;
        assert_eq!(client.take(), b"answer");
        kit.assert_empty().await;
    });
}

#[test]
fn stage_a_prefix_that_is_kept_when_its_time_is_over_is_delivered() {
    run(async |kit| {
        let client = open(&kit, vec![Door::boxed()]);
        client.offer(b"KNC");
        kit.pass(Duration::from_millis(1990)).await;
        assert!(kit.dials.is_empty());
        kit.pass(Duration::from_millis(20)).await;
        assert_eq!(kit.dials.peer(0).take(), b"KNC");
        client.offer(b"K?");
        kit.quiet().await;
        assert_eq!(kit.dials.peer(0).take(), b"K?");
    });
}

#[test]
fn stage_two_stages_stand_in_the_order_of_the_chain_both_ways() {
    run(async |kit| {
        let client = open(&kit, vec![Box::new(Shift(1)), Box::new(Shift(10))]);
        client.read_at_most(3);
        client.offer(&bytes(9999));
        kit.quiet().await;
        let server = kit.dials.peer(0);
        let shifted: Vec<u8> = bytes(9998).iter().map(|b| b.wrapping_add(11)).collect();
        assert!(server.take() == shifted, "a pair is kept whole");
        client.offer(&bytes(1));
        kit.quiet().await;
        assert_eq!(server.take().len(), 2);
        server.offer(&shifted);
        kit.quiet().await;
        assert!(client.take() == bytes(9998));
    });
}

#[test]
fn stage_bytes_that_a_stage_keeps_hold_the_line_while_the_server_is_not_up() {
    run(async |kit| {
        kit.dials.plan(Outcome::UpAfter(SECOND));
        let client = open(&kit, vec![Box::new(Shift(1))]);
        client.offer(b"aaa");
        kit.quiet().await;
        assert_eq!(kit.dials.pending(), 1);
        client.end();
        kit.pass(SECOND * 2).await;
        assert_eq!(kit.dials.peer(0).take(), b"bb");
    });
}

#[test]
fn stage_finish_ends_the_line_behind_the_bytes_that_it_gave() {
    run(async |kit| {
        let client = open(&kit, vec![Box::new(Refuses)]);
        client.window(2);
        client.offer(b"hello");
        kit.quiet().await;
        assert!(!client.is_dropped());
        client.open_window();
        kit.quiet().await;
        assert_eq!(client.take(), b"go away");
        assert!(client.is_dropped() && kit.dials.is_empty());
        assert!((kit.closed("protocol-error") - 1.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}
