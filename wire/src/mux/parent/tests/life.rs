//! How a child begins, and its parent's end (M08, M12, M14 to M17).

use super::end::{End, bytes_of, small};
use crate::mux::{ChildEnd, Cids, LAST_CID, Side};
use crate::queue::Unpooled;

#[test]
fn mux_m15_open_goes_out_alone_and_at_once() {
    let mut client = End::client(small());
    client.join();
    assert!(client.told().is_empty());
    assert_eq!(client.sent(), ["open 1"]);
    assert_eq!(client.told(), ["est 1"]);
}

#[test]
fn mux_m15_open_and_data_share_one_write() {
    let mut client = End::client(small());
    client.join();
    client.pays(1, b"hi");
    client.join();
    client.pays(2, b"ho");
    let written = client.writes();
    let expected = ["open 1", "open 2", "data 1 hi", "data 2 ho"].map(bytes_of).concat();
    assert_eq!(written, expected);
}

#[test]
fn mux_m15_opens_and_est_wait_while_the_transport_is_not_up_or_paused() {
    let mut client = End::new(Side::Client(Cids::new(LAST_CID)), small());
    client.join();
    client.pays(1, b"hi");
    assert!(client.sent().is_empty());
    client.parent.established();
    client.blocks(true);
    assert!(client.sent().is_empty());
    assert_eq!(client.told(), Vec::<String>::new());
    client.blocks(false);
    assert_eq!(client.sent(), ["open 1", "data 1 hi"]);
    assert_eq!(client.told(), ["est 1"]);
}

#[test]
fn mux_m08_a_child_that_finds_no_number_waits_without_open() {
    let mut client = End::new(Side::Client(Cids::new(3000)), small());
    client.parent.established();
    for _ in 0..1025 {
        client.join();
    }
    assert_eq!(client.sent().len(), 1024);
    assert_eq!(client.told().len(), 1024);
    assert!(!client.parent.has_frames());
    let cids = client.parent.cids().unwrap();
    assert!(cids.wants() && cids.granted(1025, 2048));
    assert_eq!(client.sent(), ["open 1025"]);
}

#[test]
fn mux_m16_a_server_takes_a_lazy_open_and_one_directly_followed_by_close() {
    let mut server = End::server(small());
    server.hears(&["open 7", "data 7 abc", "open 8", "close 8"]);
    assert_eq!(server.told(), ["opened 1", "opened 2", "finish 2 peer-closed"]);
    assert_eq!((server.got(1), server.parent.len()), (b"abc".to_vec(), 1));
    assert!(server.sent().is_empty());
}

#[test]
fn mux_m17_a_childs_line_stands_before_its_data_comes() {
    let mut server = End::server(small());
    server.input.append(&["open 7", "data 7 abc"].map(bytes_of).concat(), &Unpooled);
    let (now, input) = (server.now, &mut server.input);
    assert_eq!(server.parent.receive(now, input, &Unpooled), 8, "the Open alone");
    server.look();
    server.parses();
    assert_eq!(server.got(1), b"abc");
}

#[test]
fn mux_m17_data_waits_for_a_line_that_has_no_room_and_a_refused_backend_gives_close() {
    let mut server = End::server(small());
    server.room = 0;
    server.hears(&["open 7", "data 7 abc"]);
    assert_eq!((server.got(1), server.parent.queued()), (vec![], 3));
    server.drains(1, 2);
    assert_eq!((server.got(1), server.parent.queued()), (b"ab".to_vec(), 1));
    server.gone(1, ChildEnd::Refused);
    assert_eq!(server.sent(), ["close 7"]);
    let counts = server.counts();
    assert_eq!((counts.lost_bytes, counts.ended[ChildEnd::Refused as usize]), (1, 1));
    assert!(server.parent.is_empty());
}

#[test]
fn mux_m14_children_that_were_not_opened_wait_for_another_transport() {
    let [mut client, _] = End::both(small());
    client.blocks(true);
    client.join();
    client.pays(2, b"hi");
    client.writes();
    client.pays(2, b"!");
    assert_eq!(client.told(), ["pause 2 transport"]);
    assert_eq!(client.loses_transport(), 1);
    assert_eq!(client.told(), ["resume 2 transport", "finish 1 parent-lost"]);
    assert!(!client.parent.is_over());
    assert_eq!(client.parent.waiting_since(), Some(client.now));
    client.parent.again();
    client.blocks(false);
    assert!(client.sent().is_empty(), "it is not up");
    client.parent.established();
    assert_eq!(client.sent(), ["open 1", "data 1 hi!"], "M07: numbers of the fresh transport");
    assert_eq!(client.told(), ["est 2"]);
}

#[test]
fn mux_m14_those_that_waited_too_long_are_given_up() {
    let mut client = End::new(Side::Client(Cids::new(LAST_CID)), small());
    client.join();
    let first = client.now;
    client.passes(1);
    client.join();
    client.parent.give_up_waiting(first, &Unpooled);
    client.look();
    assert_eq!(client.told(), ["finish 1 parent-failed"]);
    assert_eq!(client.parent.waiting_since(), Some(client.now));
}

#[test]
fn mux_m12_an_exhausted_parent_is_over_with_its_last_child() {
    for mut end in End::both(small()) {
        assert!(!end.parent.is_over());
        end.parent.exhaust();
        assert!(end.parent.is_exhausted() && !end.parent.is_over());
        end.gone(1, ChildEnd::Finished);
        assert!(!end.parent.is_over(), "it owes a Close");
        end.sent();
        assert!(end.parent.is_over());
    }
    let mut server = End::server(small());
    server.parent.exhaust();
    server.hears(&["open 5"]);
    assert!(!server.parent.is_over());
    assert_eq!((server.sent(), server.told()), (vec!["close 5".into()], vec![]));
    assert!(server.parent.is_over());
}
