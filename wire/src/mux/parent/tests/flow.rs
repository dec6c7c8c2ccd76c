//! Backpressure of one child, and of the transport (M21 to M23, M26, M27).

use super::end::{End, data, small};
use crate::mux::{ChildEnd, FrameKind, Limits};
use crate::queue::Unpooled;

#[test]
fn mux_m21_a_local_pause_is_told_at_once_and_once() {
    for mut end in End::both(small()) {
        end.pauses(1);
        end.pauses(1);
        assert_eq!(end.sent(), ["flow-pause 1"], "without waiting for a queue");
        end.pauses(1);
        assert!(end.sent().is_empty());
        assert_eq!(end.parent.paused(), 1);
        end.resumes(1);
        end.resumes(1);
        assert_eq!(end.sent(), ["flow-resume 1"]);
        assert_eq!(end.parent.paused(), 0);
    }
}

#[test]
fn mux_m21_a_local_pause_before_open_is_told_with_it() {
    let mut client = End::client(small());
    client.join();
    client.pauses(1);
    client.pays(1, b"x");
    assert_eq!(client.sent(), ["open 1", "flow-pause 1", "data 1 x"]);
}

#[test]
fn mux_m21_lack_of_room_alone_is_no_pause_until_the_queue_passes_the_threshold() {
    for mut end in End::both(small()) {
        end.drains(1, 0);
        end.reads(&data(1, 499));
        assert!(end.sent().is_empty());
        end.reads(&data(1, 1));
        assert_eq!(end.sent(), ["flow-pause 1"]);
        end.drains(1, 1);
        assert_eq!(end.sent(), ["flow-resume 1"]);
    }
}

#[test]
fn mux_m22_data_for_a_paused_child_waits_for_it_alone() {
    let mut server = End::server(small());
    server.hears(&["open 1", "open 2"]);
    server.pauses(1);
    server.hears(&["data 1 abc", "data 2 xyz", "data 1 def", "data 2 !"]);
    assert_eq!((server.got(1), server.got(2)), (vec![], b"xyz!".to_vec()));
    assert_eq!(server.parent.queued(), 6);
    server.resumes(1);
    assert_eq!((server.got(1), server.parent.queued()), (b"abcdef".to_vec(), 0));
}

#[test]
fn mux_m22_a_pause_holds_what_came_but_was_not_asked_for() {
    for mut end in End::both(small()) {
        end.input.append(&data(1, 5), &Unpooled);
        let (now, input) = (end.now, &mut end.input);
        assert_eq!(end.parent.receive(now, input, &Unpooled), 13);
        end.pauses(1);
        assert_eq!((end.got(1), end.parent.queued()), (vec![], 5));
        end.resumes(1);
        assert_eq!(end.got(1), b".....");
    }
}

#[test]
fn mux_m23_flow_resume_goes_out_once_the_queue_is_under_the_threshold() {
    for mut end in End::both(small()) {
        end.drains(1, 0);
        end.pauses(1);
        end.reads(&data(1, 900));
        assert_eq!(end.sent(), ["flow-pause 1"]);
        end.resumes(1);
        assert!(end.sent().is_empty());
        end.drains(1, 400);
        assert!(end.sent().is_empty(), "500 bytes are not under the threshold");
        end.drains(1, 1);
        assert_eq!(end.sent(), ["flow-resume 1"]);
        end.drains(1, 499);
        assert!(end.sent().is_empty());
        assert_eq!((end.got(1).len(), end.parent.queued()), (900, 0));
    }
}

#[test]
fn mux_m23_an_end_needs_no_flow_frames() {
    for mut end in End::both(small()) {
        end.pauses(1);
        end.gone(1, ChildEnd::Finished);
        assert_eq!(end.sent(), ["close 1"]);
        assert_eq!(end.parent.paused(), 0);
    }
}

#[test]
fn mux_m26_flow_pause_stops_the_source_and_holds_its_data_back() {
    for mut end in End::both(small()) {
        end.pays(1, b"abc");
        end.hears(&["flow-pause 1", "flow-pause 1"]);
        assert_eq!(end.told(), ["pause 1 peer"]);
        assert!(!end.parent.has_frames());
        end.pays(1, b"def");
        assert!(end.sent().is_empty());
        end.hears(&["flow-resume 1", "flow-resume 1"]);
        assert_eq!(end.told(), ["resume 1 peer"]);
        assert_eq!(end.sent(), ["data 1 abcdef"]);
    }
}

#[test]
fn mux_m26_a_peers_pause_does_not_stop_the_other_direction_nor_others() {
    let mut server = End::server(small());
    server.hears(&["open 1", "open 2", "flow-pause 1", "data 1 in"]);
    server.pays(1, b"held");
    server.pays(2, b"goes");
    server.pauses(1);
    assert_eq!(server.got(1), b"in");
    assert_eq!(server.sent(), ["flow-pause 1", "data 2 goes"]);
}

#[test]
fn mux_m27_a_paused_transport_stops_the_children_that_write_and_no_others() {
    let mut client = End::client(small());
    for _ in 0..3 {
        client.join();
    }
    client.sent();
    client.told();
    client.pays(1, b"abc");
    client.blocks(true);
    assert!(client.sent().is_empty());
    assert_eq!(client.told(), ["pause 1 transport"]);
    client.pays(2, b"x");
    client.pays(2, b"y");
    assert_eq!(client.told(), ["pause 2 transport"]);
    client.blocks(false);
    assert_eq!(client.sent(), ["data 1 abc", "data 2 xy"]);
    assert_eq!(client.told(), ["resume 1 transport", "resume 2 transport"]);
}

#[test]
fn mux_m27_each_reason_to_stop_is_told_by_itself() {
    for mut end in End::both(small()) {
        end.blocks(true);
        end.writes();
        end.pays(1, b"x");
        end.hears(&["flow-pause 1"]);
        assert_eq!(end.told(), ["pause 1 transport", "pause 1 peer"]);
        end.blocks(false);
        assert!(end.sent().is_empty());
        end.hears(&["flow-resume 1"]);
        assert_eq!(end.sent(), ["data 1 x"]);
        assert_eq!(end.told(), ["resume 1 peer", "resume 1 transport"]);
    }
}

#[test]
fn mux_m32_pause_and_resume_of_one_child_are_one_state() {
    for mut end in End::both(small()) {
        end.blocks(true);
        for _ in 0..10_000 {
            end.pauses(1);
            end.resumes(1);
        }
        assert!(!end.parent.has_frames() && end.sent().is_empty());
        end.pauses(1);
        assert_eq!(end.sent(), ["flow-pause 1"], "M28: also while Data waits");
    }
}

#[test]
fn mux_flow_frames_are_counted_as_they_go_and_come() {
    for mut end in End::both(Limits { half_close: false, ..Limits::default() }) {
        end.counts();
        end.pauses(1);
        end.pays(1, b"abc");
        end.sent();
        end.hears(&["flow-pause 1", "data 1 abcd"]);
        let counts = end.counts();
        let of = |kind: FrameKind| (counts.sent[kind as usize], counts.received[kind as usize]);
        assert_eq!((of(FrameKind::FlowPause), of(FrameKind::Data)), ((1, 1), (1, 1)));
        assert_eq!((counts.sent_bytes, counts.received_bytes), (3, 4));
    }
}
