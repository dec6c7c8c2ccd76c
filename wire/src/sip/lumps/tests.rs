use std::net::SocketAddr;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::sip::own::{SocketId, Transport};

const SOURCE: &[u8] = b"0123456789";

fn socket(id: u16, host: &'static str, port: u16, transport: Transport) -> Socket {
    let address = SocketAddr::new(host.parse().expect("an address"), port);
    Socket { id: SocketId(id), transport, address, host: Bytes::from_static(host.as_bytes()), port }
}

fn text(text: &'static str) -> Insert {
    Insert::Bytes(Bytes::from_static(text.as_bytes()))
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn applied_with(lumps: &Lumps, patches: &[Patch<'_>]) -> String {
    let one = socket(0, "127.0.0.1", 5060, Transport::Udp);
    let ends = Ends { received: &one, sending: &one };
    let mut out = Vec::new();
    lumps.apply_bytes(SOURCE, 0, ends, patches, &mut out);
    String::from_utf8(out).expect("text")
}

fn applied(lumps: &Lumps) -> String {
    applied_with(lumps, &[])
}

#[test]
fn an_empty_list_changes_nothing() {
    let lumps = Lumps::default();
    assert!(lumps.is_empty());
    assert_eq!(applied(&lumps), "0123456789");
}

#[test]
fn chains_stand_around_what_is_deleted_and_the_last_one_comes_first() {
    let mut lumps = Lumps::default();
    let lump = lumps.delete(3..6);
    lumps.before(lump, [text("b1")]);
    lumps.before(lump, [text("b2")]);
    lumps.after(lump, [text("a1")]);
    lumps.after(lump, [text("a2"), text("!")]);
    assert_eq!(applied(&lumps), "012b2b1a2!a16789");
}

#[test]
fn places_of_one_offset_keep_the_order_of_their_creation() {
    let mut lumps = Lumps::default();
    lumps.insert(5, bytes("a"));
    lumps.insert(2, bytes("x"));
    lumps.insert(5, bytes("b"));
    assert_eq!(applied(&lumps), "01x234ab56789");
}

#[test]
fn nothing_is_deleted_twice_and_no_attached_text_is_lost() {
    let mut lumps = Lumps::default();
    let inner = lumps.delete(4..6);
    lumps.before(inner, [text("<")]);
    lumps.after(inner, [text(">")]);
    let anchor = lumps.anchor(5);
    lumps.before(anchor, [text("A")]);
    let outer = lumps.delete(2..5);
    lumps.after(outer, [text("O")]);
    assert_eq!(applied(&lumps), "01O<>A6789");
    assert!(lumps.is_deleted(2..6));
    assert!(lumps.is_deleted(3..5));
    assert!(!lumps.is_deleted(2..7));
    assert!(!lumps.is_deleted(1..3));
}

#[test]
fn a_replacement_goes_with_its_range() {
    let mut lumps = Lumps::default();
    assert!(lumps.replace(3..5, bytes("one")));
    assert!(lumps.replace(3..5, bytes("two")));
    assert_eq!(applied(&lumps), "012two56789");
    assert_eq!(lumps.text(SOURCE, 2..6).as_ref(), b"2two5");
    assert!(!lumps.is_deleted(3..5));
    lumps.delete(2..8);
    assert_eq!(applied(&lumps), "0189");
    assert!(lumps.is_deleted(3..5));
    assert!(!lumps.replace(3..5, bytes("three")));
    assert_eq!(applied(&lumps), "0189");
}

#[test]
fn a_replacement_across_the_edge_of_another_is_refused() {
    let mut lumps = Lumps::default();
    assert!(lumps.replace(3..6, bytes("x")));
    assert!(!lumps.replace(5..8, bytes("y")));
    assert!(!lumps.replace(4..5, bytes("y")));
    assert!(!lumps.replace(4..4, bytes("y")));
    assert!(lumps.replace(3..3, bytes("(")));
    assert!(lumps.replace(6..6, bytes(")")));
    assert!(lumps.replace(6..8, bytes("y")));
    assert_eq!(applied(&lumps), "012(xy89");
}

#[test]
fn empty_replacements_add_up_and_go_with_their_range() {
    let mut lumps = Lumps::default();
    assert!(lumps.replace(5..5, bytes(";a")));
    assert!(lumps.replace(5..5, bytes(";b")));
    assert_eq!(lumps.text(SOURCE, 3..5).as_ref(), b"34;a;b");
    lumps.insert(5, bytes("|"));
    assert_eq!(applied(&lumps), "01234|;a;b56789");
    lumps.delete(4..7);
    assert_eq!(applied(&lumps), "0123|789");
}

#[test]
fn a_patch_has_the_last_word_but_not_over_what_is_gone() {
    let mut lumps = Lumps::default();
    lumps.insert(2, bytes("L"));
    assert!(lumps.replace(4..5, bytes("list")));
    lumps.delete(6..9);
    let patch = |at, text| Patch { at, text };
    let patches = [
        patch(7..8, b"gone".as_slice()),
        patch(3..6, b"patch"),
        patch(2..2, b"P"),
        patch(9..9, b"E"),
        patch(6..6, b"S"),
    ];
    assert_eq!(applied_with(&lumps, &patches), "01LP2patchSE9");
    assert_eq!(applied(&lumps), "01L23list59");
}

#[test]
fn markers_wait_for_the_sending_socket() {
    let udp = socket(0, "10.0.0.1", 5060, Transport::Udp);
    let tcp = socket(1, "10.0.0.2", 5070, Transport::Tcp);
    let mut lumps = Lumps::default();
    let lump = lumps.anchor(0);
    lumps.before(
        lump,
        [
            Insert::Marker(Marker::SendingAll),
            text(" "),
            Insert::Marker(Marker::ReceivedAll),
            text(" "),
            Insert::Marker(Marker::SendingHost),
            Insert::Marker(Marker::SendingPort),
            Insert::Marker(Marker::SendingProto),
            Insert::Marker(Marker::ReceivedHost),
            Insert::Marker(Marker::ReceivedPort),
            Insert::Marker(Marker::ReceivedProto),
            text(" "),
        ],
    );
    let run = |received, sending| {
        let mut out = Vec::new();
        lumps.apply_bytes(SOURCE, 8, Ends { received, sending }, &[], &mut out);
        assert_eq!(out, b"89");
        out.clear();
        lumps.apply_bytes(SOURCE, 0, Ends { received, sending }, &[], &mut out);
        String::from_utf8(out).expect("text")
    };
    assert_eq!(
        run(&udp, &tcp),
        "10.0.0.2:5070;transport=tcp 10.0.0.1 10.0.0.25070tcp10.0.0.15060udp 0123456789"
    );
    assert_eq!(run(&udp, &udp), "10.0.0.1 10.0.0.1 10.0.0.15060udp10.0.0.15060udp 0123456789");
}

#[test]
fn a_condition_skips_the_rest_of_its_chain_alone() {
    let udp = socket(0, "10.0.0.1", 5060, Transport::Udp);
    let tcp = socket(1, "10.0.0.1", 5060, Transport::Tcp);
    let mut lumps = Lumps::default();
    let lump = lumps.anchor(1);
    lumps.before(lump, [text("other")]);
    lumps.before(lump, [text("["), Insert::IfSocketsDiffer, text("r2"), text("]")]);
    let run = |received, sending| {
        let mut out = Vec::new();
        lumps.apply_bytes(b"012", 0, Ends { received, sending }, &[], &mut out);
        String::from_utf8(out).expect("text")
    };
    assert_eq!(run(&udp, &udp), "0[other12");
    assert_eq!(run(&udp, &tcp), "0[r2]other12");
}

#[test]
fn settling_keeps_what_waits_for_the_socket() {
    let udp = socket(0, "10.0.0.1", 5060, Transport::Udp);
    let mut lumps = Lumps::default();
    lumps.insert(3, bytes("new"));
    let lump = lumps.anchor(4);
    lumps.before(lump, [Insert::Marker(Marker::SendingHost), text(";")]);
    lumps.delete(5..7);
    let mut out = Vec::new();
    let late = lumps.settle(SOURCE, &[], &mut out);
    assert_eq!(out, b"012new34789");
    let mut after = Vec::new();
    late.apply_bytes(&out, 0, Ends { received: &udp, sending: &udp }, &[], &mut after);
    assert_eq!(after, b"012new310.0.0.1;4789");
}

#[test]
fn offsets_behind_the_end_do_no_harm() {
    let mut lumps = Lumps::default();
    lumps.delete(8..400);
    lumps.insert(500, bytes("end"));
    lumps.before(LumpId(77), [text("nowhere")]);
    assert_eq!(applied(&lumps), "01234567end");
}

#[test]
fn a_place_of_its_own_is_put_behind_many_others_at_once() {
    let mut lumps = Lumps::default();
    for index in 0..10_000 {
        lumps.insert(9 - index % 10, bytes("x"));
    }
    let wanted: String = (0..10).flat_map(|digit| ["x".repeat(1000), digit.to_string()]).collect();
    assert_eq!(applied(&lumps), wanted);
}

/// A raw edit at random: a range to delete, empty for an anchor, and the texts around it.
type Raw = (usize, usize, Vec<(bool, String)>);

fn raw() -> impl Strategy<Value = Raw> {
    let texts = proptest::collection::vec((any::<bool>(), "[a-z]{1,2}"), 0..4);
    (0_usize..10, 0_usize..5, texts)
}

/// The walk of contract 3, as it is told there.
fn walked(edits: &[Raw]) -> String {
    let mut sorted: Vec<&Raw> = edits.iter().collect();
    sorted.sort_by_key(|(at, ..)| *at);
    let source = std::str::from_utf8(SOURCE).expect("text");
    let mut out = String::new();
    let mut pos = 0;
    for (at, length, texts) in sorted {
        out.push_str(&source[pos..(*at).max(pos)]);
        pos = pos.max(*at);
        let side = |is_before: bool| texts.iter().rev().filter(move |text| text.0 == is_before);
        side(true).for_each(|(_, text)| out.push_str(text));
        pos = pos.max((at + length).min(source.len()));
        side(false).for_each(|(_, text)| out.push_str(text));
    }
    out + &source[pos..]
}

proptest! {
    #[test]
    fn any_places_and_deletions_come_out_as_the_walk_says(
        edits in proptest::collection::vec(raw(), 0..12),
    ) {
        let mut lumps = Lumps::default();
        for (at, length, texts) in &edits {
            let lump = match length {
                0 => lumps.anchor(*at),
                _ => lumps.delete(*at..at + length),
            };
            for (is_before, text) in texts {
                let text = [Insert::Bytes(text.clone().into())];
                if *is_before { lumps.before(lump, text) } else { lumps.after(lump, text) }
            }
        }
        prop_assert_eq!(applied(&lumps), walked(&edits));
        let one = socket(0, "127.0.0.1", 5060, Transport::Udp);
        let ends = Ends { received: &one, sending: &one };
        prop_assert!(lumps.most(SOURCE.len(), 0, ends, &[]) >= applied(&lumps).len());
    }
}
