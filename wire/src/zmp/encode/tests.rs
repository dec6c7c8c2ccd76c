use std::num::NonZeroU64;

use super::*;
use crate::zmp::core::{FlowState, Weight};
use crate::zmp::record::Sequence;
use crate::zmp::tester::{hex, parts_of};

/// The bytes of the first slices that wait.
fn waiting(writer: &Writer, most: usize) -> Vec<u8> {
    let mut slices = vec![IoSlice::new(&[]); most];
    let filled = writer.slices(&mut slices);
    let slices: Vec<&[u8]> = slices[..filled].iter().map(|slice| &**slice).collect();
    slices.concat()
}

fn data(parts: &[&str]) -> Outgoing {
    Outgoing::Record(Kind::Data, parts_of(parts))
}

fn typed(kind: fn(Sequence) -> Kind, number: u64, parts: &[&str]) -> Outgoing {
    Outgoing::Record(kind(Sequence::new(number).unwrap()), parts_of(parts))
}

#[test]
fn zmp_1_8_records_are_written_to_the_byte() {
    for (outgoing, bytes) in [
        (
            data(&["hello", "world"]),
            r"5a 01 01 00 00 00 00 05 68 65 6c 6c 6f
            5a 01 00 00 00 00 00 05 77 6f 72 6c 64",
        ),
        (data(&[""]), "5a 01 00 00 00 00 00 00"),
        (
            typed(Kind::Request, 1, &["ping"]),
            "5a 01 00 01 00 00 00 04 00 00 00 00 00 00 00 01 70 69 6e 67",
        ),
        (
            typed(Kind::Request, 2, &["a", "bc"]),
            r"5a 01 01 01 00 00 00 01 00 00 00 00 00 00 00 02 61
            5a 01 00 00 00 00 00 02 62 63",
        ),
        (
            typed(Kind::Reply, 1, &["pong"]),
            "5a 01 00 02 00 00 00 04 00 00 00 00 00 00 00 01 70 6f 6e 67",
        ),
        (
            typed(Kind::ErrorReply, 2, &["\0\0\0\x02", "gone"]),
            r"5a 01 01 03 00 00 00 04 00 00 00 00 00 00 00 02 00 00 00 02
            5a 01 00 00 00 00 00 04 67 6f 6e 65",
        ),
        (
            Outgoing::Weight(Weight::new(300).unwrap()),
            "5a 01 02 00 00 00 00 0a 57 45 49 47 48 54 00 00 01 2c",
        ),
        (
            Outgoing::FlowState { state: FlowState::Paused, epoch: NonZeroU64::MIN },
            "5a 01 02 00 00 00 00 13 46 4c 4f 57 53 54 41 54 45 01 01 00 00 00 00 00 00 00 01",
        ),
    ] {
        let mut writer = Writer::default();
        writer.push(outgoing.clone());
        let expected = hex(bytes);
        assert_eq!(waiting(&writer, 64), expected, "{outgoing:?}");
        assert_eq!(writer.len(), expected.len());
    }
}

#[test]
fn zmp_4_2_the_charge_comes_back_with_the_last_byte_of_a_record() {
    let mut writer = Writer::default();
    writer.push_bytes(Bytes::from_static(b"hello"));
    writer.push(data(&["abc", ""]));
    writer.push(Outgoing::Weight(Weight::DEFAULT));
    writer.push(data(&["x"]));
    assert_eq!(writer.len(), 5 + 19 + 18 + 9);
    assert_eq!(writer.advance(5), 0);
    assert_eq!(writer.advance(18), 0);
    assert_eq!(writer.advance(1), 3 + 2 * 64);
    assert_eq!(writer.advance(18), 0);
    assert_eq!(writer.advance(8), 0);
    assert!(!writer.is_empty());
    assert_eq!(writer.advance(1), 65);
    assert!(writer.is_empty());
    assert_eq!(waiting(&writer, 64), b"");
}

#[test]
fn zmp_large_payloads_are_slices_and_small_ones_share_one() {
    let mut writer = Writer::default();
    let large = Bytes::from(vec![b'L'; 64 * 1024]);
    for _ in 0..100 {
        writer.push(data(&["small"]));
    }
    writer.push(Outgoing::Record(Kind::Data, large.clone().into()));
    writer.push(data(&["small", "too"]));
    let mut slices = [IoSlice::new(&[]); 64];
    assert_eq!(writer.slices(&mut slices), 3);
    assert_eq!(slices[1].as_ptr(), large.as_ptr(), "not copied");
    let mut two = [IoSlice::new(&[]); 2];
    assert_eq!(writer.slices(&mut two), 2, "no more than there is room for");
    assert_eq!(writer.advance(13 * 100 + 8 + 1000), 100 * 69);
    let mut slices = [IoSlice::new(&[]); 64];
    assert_eq!(writer.slices(&mut slices), 2);
    assert_eq!(slices[0].as_ptr(), large[1000..].as_ptr());
}

/// Records of all sizes, written in odd pieces while others are added, are the same stream.
#[test]
fn zmp_any_partial_writes_give_the_same_stream() {
    let (mut writer, mut expected, mut written) = (Writer::default(), Vec::new(), Vec::new());
    let (mut charge, mut came_back) = (0, 0);
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = |most: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % most
    };
    for turn in 0..4_000 {
        let sizes: Vec<_> =
            (0..=next(2)).map(|_| if next(20) == 0 { next(9000) } else { next(200) }).collect();
        let parts = sizes.iter().map(|size| Bytes::from(vec![turn as u8; *size as usize]));
        let record = Record::from_parts(parts).unwrap();
        charge += record.charge();
        let last = sizes.len() - 1;
        for (place, part) in record.parts().iter().enumerate() {
            expected.extend_from_slice(&[0x5A, 1, u8::from(place < last), 0]);
            expected.extend_from_slice(&(part.len() as u32).to_be_bytes());
            expected.extend_from_slice(part);
        }
        writer.push(Outgoing::Record(Kind::Data, record));
        let there = waiting(&writer, 4);
        let pace = if turn % 1000 < 500 { 200 } else { 1200 };
        let some = (next(pace) as usize).min(there.len());
        written.extend_from_slice(&there[..some]);
        came_back += writer.advance(some);
        assert!(writer.copied.len() <= 2 * (writer.len() + MOVE_UP), "written bytes are kept");
    }
    written.extend_from_slice(&waiting(&writer, 100_000));
    came_back += writer.advance(writer.len());
    assert!(written == expected && charge == came_back);
    assert!(writer.pieces.is_empty() && writer.units.is_empty() && writer.copied.is_empty());
}

#[test]
fn zmp_the_buffer_is_used_again_and_given_back_when_large() {
    let mut writer = Writer::default();
    let turn = |writer: &mut Writer, records: usize| {
        for _ in 0..records {
            writer.push(data(&["0123456789"]));
        }
        writer.advance(writer.len());
        (writer.copied.capacity(), writer.copied.as_ptr())
    };
    let first = turn(&mut writer, 1000);
    assert!(first.0 >= 18_000);
    assert_eq!(turn(&mut writer, 1000), first, "no allocation for each turn");
    assert_eq!(turn(&mut writer, 20_000).0, 0);
}

#[test]
fn case_z13_records_that_are_not_wholly_written_are_known() {
    let mut writer = Writer::default();
    writer.push_bytes(Bytes::from_static(b"handshake"));
    writer.push(data(&["one", "two"]));
    writer.push(Outgoing::Weight(Weight::new(300).unwrap()));
    writer.push(data(&["three"]));
    assert_eq!(writer.records(), 2);
    writer.advance(9 + 21);
    assert_eq!(writer.records(), 2, "a byte of the first is missing");
    writer.advance(1);
    assert_eq!(writer.records(), 1);
    writer.advance(writer.len());
    assert_eq!(writer.records(), 0);
}
