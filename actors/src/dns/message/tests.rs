use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use proptest::prelude::*;

use super::{Reply, answer, question};
use crate::dns::Family;

const ID: u16 = 0x1234;

/// An answer to the question for `name`, byte by byte: header, question, then these records.
fn reply(name: &str, flags: u16, counts: [u16; 3], records: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [ID, flags, 1, counts[0], counts[1], counts[2]] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.extend_from_slice(&wire_name(name));
    bytes.extend_from_slice(&[0, 1, 0, 1]);
    bytes.extend_from_slice(records);
    bytes
}

fn wire_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

fn record(owner: &str, kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = wire_name(owner);
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&[0, 1]);
    bytes.extend_from_slice(&ttl.to_be_bytes());
    bytes.extend_from_slice(&u16::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn read(bytes: &[u8]) -> Option<Reply> {
    answer(bytes, ID, "a.test", Family::V4)
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn tcp_t10_the_question_is_the_one_of_the_standard() {
    let bytes = question(ID, "a.test", Family::V6).unwrap();
    let mut want = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    want.extend_from_slice(b"\x01a\x04test\x00\x00\x1c\x00\x01");
    // EDNS: root name, OPT, 1232 bytes, no flags, no options.
    want.extend_from_slice(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes, want);
    assert_eq!(question(ID, &"x".repeat(64), Family::V4), None);
}

#[test]
fn tcp_t10_addresses_come_with_the_smallest_ttl_of_their_chain() {
    let mut records = record("a.test", 5, 7, &wire_name("b.test"));
    records.extend(record("b.test", 1, 30, &[192, 0, 2, 1]));
    records.extend(record("other.test", 1, 1, &[192, 0, 2, 9]));
    let ip = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let found = read(&reply("a.test", 0x8180, [3, 0, 0], &records));
    assert_eq!(found, Some(Reply::Found([ip].into_iter().collect(), seconds(7))));
}

#[test]
fn tcp_t10_an_alias_without_addresses_is_asked_for_next() {
    let records = record("a.test", 5, 7, &wire_name("b.test"));
    let found = read(&reply("a.test", 0x8180, [1, 0, 0], &records));
    assert_eq!(found, Some(Reply::Alias("b.test".into(), seconds(7))));
}

#[test]
fn case_t25_aliases_that_go_round_are_no_answer() {
    let mut records = record("a.test", 5, 7, &wire_name("b.test"));
    records.extend(record("b.test", 5, 7, &wire_name("a.test")));
    let found = read(&reply("a.test", 0x8180, [2, 0, 0], &records));
    assert!(matches!(found, Some(Reply::Failed | Reply::NotFound(_) | Reply::Alias(..))));
}

#[test]
fn case_t25_a_denial_is_good_for_the_smaller_of_ttl_and_minimum() {
    let mut soa = wire_name("ns.test");
    soa.extend(wire_name("admin.test"));
    for number in [1_u32, 2, 3, 4, 9] {
        soa.extend_from_slice(&number.to_be_bytes());
    }
    let records = record("test", 6, 60, &soa);
    let denied = read(&reply("a.test", 0x8183, [0, 1, 0], &records));
    assert_eq!(denied, Some(Reply::NotFound(seconds(9))));
    let no_data = read(&reply("a.test", 0x8180, [0, 1, 0], &records));
    assert_eq!(no_data, Some(Reply::NotFound(seconds(9))));
    let bare = read(&reply("a.test", 0x8183, [0, 0, 0], &[]));
    assert_eq!(bare, Some(Reply::NotFound(Duration::ZERO)));
}

#[test]
fn tcp_t10_what_is_no_answer_to_the_question_is_not_listened_to() {
    let right = reply("a.test", 0x8180, [0, 0, 0], &[]);
    assert!(read(&right).is_some());
    assert_eq!(answer(&right, ID + 1, "a.test", Family::V4), None, "another id");
    assert_eq!(answer(&right, ID, "b.test", Family::V4), None, "another name");
    assert_eq!(answer(&right, ID, "a.test", Family::V6), None, "another type");
    assert_eq!(read(&reply("a.test", 0x0100, [0, 0, 0], &[])), None, "a question");
    assert!(answer(&right, ID, "A.TEST", Family::V4).is_some(), "case does not count");
}

#[test]
fn tcp_t10_a_cut_answer_and_a_failing_server_are_told_apart() {
    assert_eq!(read(&reply("a.test", 0x8380, [0, 0, 0], &[])), Some(Reply::Truncated));
    assert_eq!(read(&reply("a.test", 0x8182, [0, 0, 0], &[])), Some(Reply::Failed));
    assert_eq!(read(&reply("a.test", 0x8185, [0, 0, 0], &[])), Some(Reply::Failed));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = read(&bytes);
    }

    #[test]
    fn a_right_answer_with_wrong_bytes_is_read_without_a_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut records = record("a.test", 5, 7, &wire_name("b.test"));
        records.extend(record("b.test", 1, 30, &[192, 0, 2, 1]));
        let mut bytes = reply("a.test", 0x8180, [2, 0, 0], &records);
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let _ = read(&bytes);
    }
}
