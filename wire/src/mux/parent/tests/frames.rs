//! Frames on the wire: cut, skipped, dropped, waiting; and who goes first (M02 to M06, M28, M29).

use super::end::{End, bytes_of, data, small, texts};
use crate::mux::{ChildEnd, MOST_WAITING};
use crate::queue::Unpooled;

#[test]
fn mux_m02_a_larger_payload_is_cut_into_frames_of_at_most_65527_in_order() {
    for mut end in End::both(small()) {
        let payload: Vec<u8> = (0..200_000_u32).map(|at| (at / 7) as u8).collect();
        end.pays(1, &payload);
        let (mut sent, mut sizes) = (Vec::new(), Vec::new());
        loop {
            let written = end.writes();
            if written.is_empty() {
                break;
            }
            assert_eq!(&written[2..8], [4, 0, 0, 0, 0, 1]);
            sizes.push(u16::from_be_bytes([written[0], written[1]]));
            sent.extend_from_slice(&written[8..]);
        }
        assert_eq!(sizes, [65_527, 65_527, 65_527, 3_419]);
        assert!(sent == payload);
    }
}

#[test]
fn mux_m03_payload_on_other_frames_is_skipped_and_the_pad_has_no_meaning() {
    let mut server = End::server(small());
    server.reads(&[0, 3, 0, 0xff, 0, 0, 0, 1, b'x', b'y', b'z']);
    server.reads(&[0, 1, 2, 0xff, 0, 0, 0, 1, b'x']);
    server.reads(&[0, 2, 4, 0xff, 0, 0, 0, 1, b'o', b'k']);
    server.reads(&[0, 1, 3, 1, 0, 0, 0, 1, b'x']);
    assert_eq!(server.told(), ["opened 1", "pause 1 peer", "resume 1 peer"]);
    assert_eq!(server.got(1), b"ok");
    server.reads(&[0, 2, 1, 7, 0, 0, 0, 1, b'x', b'y']);
    assert_eq!(server.told(), ["finish 1 peer-closed"]);
    assert_eq!(server.dropped(), [("payload-on-control", 4)]);
    for mut end in End::both(small()) {
        end.pauses(1);
        end.pays(1, b"8 bytes.");
        assert!(end.writes().chunks(8).all(|header| header[3] == 0 || header == b"8 bytes."));
        end.gone(1, ChildEnd::Finished);
        assert_eq!(end.writes(), [0, 0, 1, 0, 0, 0, 0, 1]);
    }
}

#[test]
fn mux_m04_an_empty_data_frame_is_not_sent_and_one_that_comes_is_ignored_and_counted() {
    for mut end in End::both(small()) {
        end.counts();
        end.pays(1, b"");
        assert!(end.sent().is_empty());
        end.hears(&["data 1", "data 1 x", "data 1"]);
        assert_eq!((end.got(1), end.dropped()), (b"x".to_vec(), vec![("empty-data", 2)]));
    }
}

#[test]
fn mux_m05_case_t23_late_and_unknown_frames_are_dropped_and_counted() {
    let mut server = End::server(small());
    server.hears(&["open 3"]);
    server.told();
    server.reads(b"\x00\x02\x04\x00\x00\x00\x00\x09hi");
    server.reads(b"\x00\x00\x03\x00\x00\x00\x00\x09");
    server.reads(b"\x00\x00\x01\x00\x00\x00\x00\x09");
    server.reads(b"\x00\x00\x00\x00\x00\x00\x00\x03");
    server.reads(b"\x00\x00\x7f\x00\x00\x00\x00\x03");
    server.reads(b"\x00\x02\x04\x00\x00\x00\x00\x03ok");
    assert!(server.told().is_empty(), "nobody is dialled");
    let dropped = [("unknown-cid", 3), ("unknown-flag", 1), ("open-live-cid", 1)];
    assert_eq!((server.got(1), server.dropped()), (b"ok".to_vec(), dropped.to_vec()));
    server.pays(1, b"ok");
    assert_eq!(server.sent(), ["data 3 ok"]);
}

#[test]
fn mux_m05_a_clients_peer_opens_nothing() {
    let [mut client, _] = End::both(small());
    client.counts();
    client.hears(&["open 1", "open 2", "data 2 x", "fin 2"]);
    assert_eq!(client.dropped(), [("unknown-cid", 3), ("open-live-cid", 1)]);
    assert!(client.told().is_empty() && client.sent().is_empty());
}

#[test]
fn mux_m05_frames_for_a_child_that_is_closing_are_dropped_and_counted() {
    for mut end in End::both(small()) {
        end.counts();
        end.blocks(true);
        end.gone(1, ChildEnd::Reset);
        end.hears(&["data 1 x", "flow-pause 1", "flow-resume 1"]);
        assert_eq!(end.dropped(), [("closing", 3)]);
        assert!(end.got(1).is_empty() && end.told().is_empty());
        assert_eq!(end.sent(), ["close 1"]);
        end.hears(&["data 1 x", "close 1"]);
        assert_eq!(end.dropped(), [("unknown-cid", 2)]);
    }
}

#[test]
fn mux_m06_frames_are_read_at_any_segmentation_and_an_incomplete_one_waits() {
    let mut server = End::server(small());
    let mut stream = [bytes_of("open 1"), data(1, 65_535), bytes_of("close 1")].concat();
    let last = stream.pop().unwrap();
    for byte in stream {
        server.reads(&[byte]);
        assert!(server.input.len() <= MOST_WAITING);
    }
    assert_eq!(server.got(1).len(), 65_535);
    assert_eq!((server.told(), server.input.len()), (vec!["opened 1".to_owned()], 7));
    server.reads(&[last]);
    assert_eq!(server.told(), ["finish 1 peer-closed"]);
}

#[test]
fn mux_m28_control_frames_wait_for_no_more_than_64_kib() {
    for mut end in End::both(small()) {
        end.pays(1, &vec![0; 1 << 20]);
        end.parent.transmit(&mut end.out, &Unpooled);
        let full = end.out.len();
        assert!(full > 65_000, "{full}");
        end.pauses(1);
        assert_eq!(end.parent.transmit(&mut end.out, &Unpooled), 0, "not yet");
        end.out.advance(100, &Unpooled);
        assert_eq!(end.parent.transmit(&mut end.out, &Unpooled), 8, "FlowPause, and no Data");
        end.hears(&["data 1 x"]);
        end.closes(1, ChildEnd::Admin);
        end.out.clear(&Unpooled);
        assert!(end.parent.has_frames());
    }
}

/// A client's side with two children, of which the first has much to send.
fn beside_a_bulk_child() -> End {
    let mut client = End::client(small());
    for _ in 0..2 {
        client.join();
    }
    client.sent();
    client.pays(1, &vec![0; 1 << 20]);
    client.writes();
    client
}

#[test]
fn mux_m28_a_close_passes_the_data_of_others() {
    let mut client = beside_a_bulk_child();
    client.gone(2, ChildEnd::Finished);
    client.blocks(true);
    assert_eq!(client.sent(), ["close 2"]);
}

#[test]
fn mux_m29_a_bulk_child_does_not_starve_an_interactive_one() {
    let mut client = beside_a_bulk_child();
    client.pays(2, b"hi");
    assert!(texts(&client.writes()).contains(&"data 2 hi".to_owned()), "with the next write");
}

#[test]
fn mux_m29_bulk_children_take_turns() {
    let mut client = End::client(small());
    let mut sent = [0; 8];
    for at in 1..=8 {
        client.join();
        client.pays(at, &vec![0; 1 << 20]);
    }
    for _ in 0..40 {
        let mut written = client.writes();
        while !written.is_empty() {
            let length = usize::from(u16::from_be_bytes([written[0], written[1]]));
            sent[usize::from(written[7]) - 1] += length;
            written.drain(..8 + length);
        }
    }
    let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
    assert!(most - least <= 2 * 16 * 1024 && *least > 200_000, "{sent:?}");
}
