//! What a parent may hold, and who is ended for it (M24, M25, M32).

use super::end::{End, bytes_of, data, small};
use crate::mux::{ChildEnd, Limits, MOST_CONTROL, ParentPause, Side};
use crate::queue::Unpooled;

/// A side whose child 1 stands at its limit of 1,000 bytes, and takes nothing.
fn full(mut end: End) -> End {
    end.drains(1, 0);
    end.reads(&data(1, 999));
    assert_eq!(end.parent.stops_reading(), None);
    end.reads(&data(1, 1));
    assert_eq!(end.parent.stops_reading(), Some(ParentPause::ChildBuffer));
    assert_eq!(end.sent(), ["flow-pause 1"]);
    end.counts();
    end
}

#[test]
fn mux_m24_reading_pauses_at_the_limit_until_the_queue_is_under_7_8_of_it() {
    for mut end in End::both(small()).map(full) {
        end.drains(1, 125);
        assert_eq!(end.parent.stops_reading(), Some(ParentPause::ChildBuffer), "875 bytes");
        end.drains(1, 1);
        assert_eq!(end.parent.stops_reading(), None);
        assert_eq!(end.parent.next_wake(), None);
        end.reads(&data(1, 126));
        assert_eq!(end.parent.stops_reading(), Some(ParentPause::ChildBuffer), "again");
        assert_eq!(end.counts().pauses[ParentPause::ChildBuffer as usize], 1);
    }
}

#[test]
fn mux_m24_what_was_read_is_still_parsed() {
    let mut server = End::server(small());
    server.hears(&["open 1", "open 2"]);
    let mut server = full(server);
    server.told();
    let read = [data(1, 500), bytes_of("data 2 x"), bytes_of("flow-pause 2")].concat();
    server.reads(&read);
    assert_eq!((server.got(2), server.told()), (b"x".to_vec(), vec!["pause 2 peer".to_owned()]));
    assert_eq!(server.parent.queued(), 1500);
}

#[test]
fn mux_m24_a_child_that_drains_nothing_is_closed_and_the_parent_runs_on() {
    for mut end in End::both(small()).map(full) {
        end.passes(9_999);
        assert!(end.told().is_empty() && end.sent().is_empty());
        end.passes(1);
        assert_eq!(end.told(), ["finish 1 overflow"]);
        assert_eq!(end.sent(), ["close 1"]);
        assert_eq!(end.parent.stops_reading(), None);
        let counts = end.counts();
        assert_eq!((counts.lost_bytes, counts.ended[ChildEnd::Overflow as usize]), (1000, 1));
        assert!(end.parent.is_empty() && end.parent.next_wake().is_none());
    }
}

#[test]
fn mux_m24_a_drained_byte_restarts_the_limit_but_an_episode_lasts_3_times_as_long_at_most() {
    for mut end in End::both(small()).map(full) {
        for _ in 0..3 {
            end.passes(9_000);
            end.drains(1, 1);
        }
        end.passes(2_999);
        assert!(end.told().is_empty(), "29.999 s");
        end.passes(1);
        assert_eq!(end.told(), ["finish 1 overflow"]);
    }
    for mut end in End::both(small()).map(full) {
        end.passes(9_000);
        end.drains(1, 126);
        end.reads(&data(1, 126));
        end.passes(9_999);
        assert!(end.told().is_empty(), "another episode");
        end.passes(1);
        assert_eq!(end.told(), ["finish 1 overflow"]);
    }
}

#[test]
fn mux_m24_a_full_child_that_its_peer_closed_is_ended_as_well() {
    for mut end in End::both(small()).map(full) {
        end.hears(&["close 1"]);
        assert_eq!(end.parent.stops_reading(), Some(ParentPause::ChildBuffer));
        end.passes(10_000);
        assert_eq!(end.told(), ["finish 1 overflow"], "not in order");
        assert!(end.sent().is_empty() && end.parent.stops_reading().is_none());
    }
}

/// A server's side with three children of 1,500, 1,400 and 1,100 bytes: the limit of 4,000.
fn three() -> End {
    let mut server = End::server(Limits { child_buffer: 3000, ..small() });
    server.room = 0;
    server.hears(&["open 1", "open 2", "open 3"]);
    server.told();
    for (cid, length) in [(1, 1500), (2, 1400), (3, 1099)] {
        server.reads(&data(cid, length));
    }
    assert_eq!(server.parent.stops_reading(), None);
    server.reads(&data(3, 1));
    assert_eq!(server.parent.stops_reading(), Some(ParentPause::ParentBuffer));
    assert_eq!(server.sent(), ["flow-pause 1", "flow-pause 2", "flow-pause 3"]);
    server
}

#[test]
fn mux_m25_reading_pauses_at_the_limit_of_all_until_the_sum_is_under_3_4_of_it() {
    let mut server = three();
    server.drains(1, 600);
    server.drains(2, 400);
    assert_eq!(server.parent.stops_reading(), Some(ParentPause::ParentBuffer), "3,000 bytes");
    server.drains(3, 1);
    assert_eq!(server.parent.stops_reading(), None);
}

#[test]
fn mux_m25_above_half_of_it_an_empty_queue_alone_is_resumed() {
    let mut server = three();
    server.drains(3, 1000);
    assert!(server.sent().is_empty(), "100 bytes, but 3,000 in all");
    server.drains(3, 100);
    assert_eq!(server.sent(), ["flow-resume 3"]);
    server.drains(1, 1000);
    assert_eq!(server.parent.queued(), 1900);
    assert!(server.sent().is_empty(), "500 bytes");
    server.drains(1, 1);
    assert_eq!(server.sent(), ["flow-resume 1"], "below half of it the threshold holds");
}

#[test]
fn mux_m25_if_nobody_drains_the_largest_queue_is_closed() {
    let mut server = three();
    server.passes(9_000);
    server.drains(2, 1);
    server.passes(9_999);
    assert!(server.told().is_empty(), "any drained byte of any child restarts it");
    server.passes(1);
    assert_eq!(server.told(), ["finish 1 stalled"]);
    assert_eq!(server.sent(), ["close 1"]);
    assert_eq!(server.parent.stops_reading(), None);
    assert_eq!((server.counts().lost_bytes, server.parent.next_wake()), (1500, None));
}

#[test]
fn mux_m25_off_by_configuration() {
    let limits = Limits { child_buffer: 9000, parent_buffer: None, ..small() };
    for mut end in End::both(limits) {
        end.drains(1, 0);
        end.reads(&data(1, 8999));
        assert_eq!(end.parent.stops_reading(), None);
    }
}

#[test]
fn mux_m32_paused_writing_never_stops_reading() {
    for mut end in End::both(small()) {
        end.blocks(true);
        end.writes();
        end.pays(1, &vec![0; 1 << 20]);
        for _ in 0..100 {
            end.reads(&data(1, 60_000));
        }
        assert_eq!((end.got(1).len(), end.parent.stops_reading()), (6_000_000, None));
    }
}

#[test]
fn mux_m32_an_open_beyond_max_children_gets_close_and_dials_nothing() {
    let mut server = End::new(Side::Server { most: 2 }, small());
    server.parent.established();
    server.hears(&["open 1", "open 2", "open 3", "data 3 x"]);
    assert_eq!(server.told(), ["opened 1", "opened 2"]);
    assert_eq!(server.sent(), ["close 3"]);
    let counts = server.counts();
    assert_eq!((counts.opened, counts.ended[ChildEnd::MaxChildren as usize]), (3, 1));
    server.hears(&["close 1", "open 4"]);
    assert_eq!(server.told(), ["finish 1 peer-closed", "opened 3"]);
}

#[test]
fn mux_m32_more_than_4096_control_frames_that_wait_pause_reading() {
    for most in [0, 1 << 16] {
        let mut server = End::new(Side::Server { most }, Limits { half_close: true, ..small() });
        server.parent.established();
        let opens = |cids: std::ops::RangeInclusive<usize>| {
            cids.flat_map(|cid| bytes_of(&format!("open {cid} half"))).collect::<Vec<_>>()
        };
        server.reads(&opens(1..=MOST_CONTROL));
        assert_eq!(server.parent.stops_reading(), None);
        server.reads(&opens(MOST_CONTROL + 1..=MOST_CONTROL + 3));
        assert_eq!(server.parent.stops_reading(), Some(ParentPause::Control));
        assert_eq!(server.input.len(), 16, "they are not taken");
        assert_eq!(server.sent().len(), MOST_CONTROL + 1);
        assert_eq!(server.parent.stops_reading(), None);
        server.parses();
        assert_eq!((server.sent().len(), server.input.len()), (2, 0));
    }
}

#[test]
fn mux_m32_frames_that_nobody_can_send_keep_nothing_from_being_read() {
    let mut server = End::new(Side::Server { most: 0 }, small());
    server.parent.established();
    let opens = |cids: std::ops::RangeInclusive<usize>| {
        cids.flat_map(|cid| bytes_of(&format!("open {cid}"))).collect::<Vec<_>>()
    };
    server.reads(&opens(1..=MOST_CONTROL + 100));
    assert_eq!(server.parent.stops_reading(), Some(ParentPause::Control));
    assert_eq!(server.input.len(), 99 * 8);
    server.parent.mute();
    assert_eq!(server.parent.stops_reading(), None);
    server.parses();
    server.reads(&opens(10_000..=10_000 + 2 * MOST_CONTROL));
    assert_eq!((server.input.len(), server.parent.stops_reading()), (0, None));
    assert!(server.sent().is_empty(), "nobody takes them");
}

#[test]
fn mux_m32_children_that_come_and_go_leave_nothing_while_nothing_can_be_written() {
    let mut server = End::server(Limits { half_close: true, ..small() });
    server.blocks(true);
    server.writes();
    for cid in 1..=2000 {
        server.hears(&[&format!("open {cid} half")]);
        server.pays(cid, b"hello");
        // Looks at the length of every list.
        server.hears(&[&format!("close {cid}")]);
    }
    server.parent.transmit(&mut server.out, &Unpooled);
    assert!(server.parent.is_empty() && server.out.is_empty());
}
