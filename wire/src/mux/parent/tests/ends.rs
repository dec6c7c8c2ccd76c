//! How a child ends (M18 to M20).

use super::end::{End, bytes_of, small, texts};
use crate::mux::{ChildEnd, ChildKey};
use crate::queue::{ByteQueue, Unpooled};

#[test]
fn mux_m18_exactly_one_close_for_each_child() {
    for mut end in End::both(small()) {
        end.gone(1, ChildEnd::Finished);
        end.gone(1, ChildEnd::Reset);
        assert_eq!(end.sent(), ["close 1"]);
        end.gone(1, ChildEnd::Reset);
        assert!(end.sent().is_empty() && end.parent.is_empty());
    }
    for mut end in End::both(small()) {
        end.hears(&["close 1"]);
        assert_eq!(end.told(), ["finish 1 peer-closed"]);
        end.gone(1, ChildEnd::Finished);
        assert!(end.sent().is_empty(), "not answered");
        assert!(end.parent.is_empty());
    }
    for mut end in End::both(small()) {
        end.closes(1, ChildEnd::Admin);
        assert_eq!(end.told(), ["finish 1 admin"]);
        end.gone(1, ChildEnd::Finished);
        assert_eq!(end.sent(), ["close 1"]);
        assert_eq!(end.counts().ended[ChildEnd::Admin as usize], 1);
    }
}

#[test]
fn mux_m18_crossing_closes_are_normal() {
    for mut end in End::both(small()) {
        end.counts();
        end.gone(1, ChildEnd::Finished);
        end.hears(&["close 1"]);
        assert!(end.sent().is_empty(), "theirs came before ours went");
        assert!(end.parent.is_empty() && end.told().is_empty());
    }
    for mut end in End::both(small()) {
        end.counts();
        end.gone(1, ChildEnd::Finished);
        assert_eq!(end.sent(), ["close 1"]);
        end.hears(&["close 1"]);
        assert_eq!(end.dropped(), [("unknown-cid", 1)]);
    }
}

#[test]
fn mux_m18_a_child_that_nobody_heard_of_leaves_no_trace() {
    let mut client = End::client(small());
    client.blocks(true);
    client.join();
    client.gone(1, ChildEnd::Finished);
    client.join();
    client.pays(2, b"x");
    client.gone(2, ChildEnd::Reset);
    client.join();
    client.pays(3, b"x");
    client.gone(3, ChildEnd::Finished);
    client.blocks(false);
    assert_eq!(client.sent(), ["open 1", "data 1 x", "close 1"], "what was sent is carried");
}

#[test]
fn mux_m19_case_t05_a_paused_child_drains_its_queue_before_it_ends() {
    let mut server = End::server(small());
    server.room = 0;
    let t05 = b"\x00\x00\x00\x00\x00\x00\x00\x07\
        \x00\x03\x04\x00\x00\x00\x00\x07abc\
        \x00\x00\x01\x00\x00\x00\x00\x07";
    server.reads(t05);
    assert_eq!((server.told(), server.got(1)), (vec!["opened 1".to_owned()], vec![]));
    server.drains(1, 2);
    assert_eq!((server.told(), server.got(1)), (vec![], b"ab".to_vec()));
    server.drains(1, 2);
    assert_eq!((server.told(), server.got(1)), (vec!["finish 1 peer-closed".into()], b"c".into()));

    for mut end in End::both(small()) {
        end.pauses(1);
        end.hears(&["data 1 abc", "close 1"]);
        assert!(end.told().is_empty() && end.sent().is_empty());
        end.resumes(1);
        assert_eq!((end.told().len(), end.got(1)), (1, b"abc".to_vec()));
        assert!(end.parent.is_empty());
    }
}

#[test]
fn mux_m19_close_stands_behind_the_data_before_it() {
    for mut end in End::both(small()) {
        end.pays(1, b"abc");
        end.gone(1, ChildEnd::Finished);
        assert_eq!(texts(&end.writes()), ["data 1 abc", "close 1"], "in one write");
    }
    for mut end in End::both(small()) {
        end.pays(1, &vec![0; 100_000]);
        end.gone(1, ChildEnd::Finished);
        assert_eq!(end.sent(), ["data 1 *65527", "data 1 *34473", "close 1"]);
    }
    for mut end in End::both(small()) {
        end.hears(&["flow-pause 1"]);
        end.pays(1, b"abc");
        end.gone(1, ChildEnd::Finished);
        assert!(end.sent().is_empty());
        end.hears(&["flow-resume 1"]);
        assert_eq!(end.sent(), ["data 1 abc", "close 1"]);
    }
}

#[test]
fn mux_m19_case_t05_what_can_not_be_sent_for_too_long_is_lost() {
    for mut end in End::both(small()) {
        end.hears(&["flow-pause 1"]);
        end.pays(1, b"abc");
        end.closes(1, ChildEnd::Admin);
        assert_eq!(end.told(), ["pause 1 peer", "finish 1 admin"]);
        end.passes(59_999);
        assert!(end.sent().is_empty());
        end.passes(1);
        assert_eq!(end.sent(), ["close 1"]);
        assert_eq!((end.counts().lost_bytes, end.parent.next_wake()), (3, None));
    }
}

#[test]
fn mux_m20_what_was_parsed_is_delivered_when_the_transport_is_lost() {
    for mut end in End::both(small()) {
        end.counts();
        end.pays(1, b"unsent");
        end.pauses(1);
        end.hears(&["data 1 abc"]);
        end.reads(&bytes_of("data 1 incomplete")[..12]);
        assert_eq!(end.loses_transport(), 0);
        assert!(end.told().is_empty() && !end.parent.is_over());
        end.hears(&["open 2", "data 1 late"]);
        assert!(end.told().is_empty() && end.input.is_empty(), "nothing is left of the stream");
        end.passes(600_000);
        assert_eq!(end.parent.len(), 1, "a paused child keeps its queue");
        end.resumes(1);
        assert_eq!((end.told(), end.got(1)), (vec!["finish 1 parent-lost".into()], b"abc".into()));
        assert!(end.parent.is_over() && end.sent().is_empty());
        assert_eq!(end.counts().lost_bytes, 6);
    }
}

#[test]
fn line_l08_what_comes_for_a_line_that_is_not_there_any_more_is_harmless() {
    let [mut client, _] = End::both(small());
    let mut payload = ByteQueue::default();
    payload.append(b"late", &Unpooled);
    let nobody = ChildKey(99);
    client.parent.payload(nobody, &mut payload, &Unpooled);
    assert!(payload.is_empty());
    client.parent.pause(nobody);
    client.parent.resume(nobody);
    client.parent.has_room(nobody);
    client.ends(99);
    client.gone(99, ChildEnd::Finished);
    assert!(client.told().is_empty() && client.sent().is_empty());
}

#[test]
fn mux_m19_a_line_that_comes_late_for_its_child_is_told_its_end() {
    let mut server = End::server(small());
    let opens = ["open 7", "data 7 abc", "close 7"].map(bytes_of).concat();
    server.input.append(&opens, &Unpooled);
    let (now, input) = (server.now, &mut server.input);
    while server.parent.receive(now, input, &Unpooled) > 0 {}
    server.look();
    assert_eq!((server.told().len(), server.got(1)), (2, b"abc".to_vec()));
    assert!(server.parent.is_empty());
}
