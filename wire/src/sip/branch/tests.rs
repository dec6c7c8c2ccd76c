use proptest::prelude::*;

use super::{read_reversed_hex, reversed_hex};
use crate::sip::draft::Draft;
use crate::sip::kit;

fn branch(draft: &Draft, index: u32) -> String {
    String::from_utf8(super::of(draft, index).to_vec()).expect("text")
}

fn of(text: &kit::Text) -> String {
    branch(&text.draft(), 0)
}

#[test]
fn sip_r003_shape_of_the_branch() {
    let invite = kit::invite().draft();
    let first = branch(&invite, 0);
    assert!(first.starts_with("z9hG4bK"), "R2: {first}");
    let mut parts = first["z9hG4bK".len()..].split('.');
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let hash = parts.next().expect("a hash");
    assert!((1..=4).contains(&hash.len()) && is_hex(hash), "{first}");
    let sum = parts.next().expect("an MD5");
    assert!(sum.len() == 32 && is_hex(sum), "{first}");
    assert_eq!(parts.next(), Some("0"));
    assert_eq!(parts.next(), None);
}

#[test]
fn sip_r003_only_the_index_differs_in_a_fork() {
    let invite = kit::invite().draft();
    let first = branch(&invite, 0);
    let stem = first.strip_suffix('0').expect("index 0");
    assert_eq!(branch(&invite, 1), format!("{stem}1"));
    assert_eq!(branch(&invite, 0x1f), format!("{stem}f1"), "least significant digit first");
}

#[test]
fn sip_r020_a_copy_gets_the_same_branch() {
    assert_eq!(of(&kit::invite()), of(&kit::invite()));
    let mut rewritten = kit::invite().draft();
    rewritten.uri = Some("sip:bob@127.0.0.1:15071".into());
    assert_eq!(branch(&rewritten, 0), of(&kit::invite()), "it stands on the received Request-URI");
}

#[test]
fn sip_r020_the_branch_outlives_applied_changes() {
    let mut draft = kit::invite().draft();
    let before = branch(&draft, 0);
    draft.replace(kit::invite().uri("sip:bob@127.0.0.1:15071").message());
    draft.replace(kit::invite().uri("sip:bob@127.0.0.1:15072").message());
    assert_eq!(branch(&draft, 0), before);
}

#[test]
fn sip_r022_ack_and_cancel_get_the_branch_of_the_invite() {
    let invite = of(&kit::invite());
    assert_eq!(of(&kit::request("CANCEL")), invite);
    let ack = kit::request("ACK").set("To", "<sip:bob@127.0.0.1>;tag=ta");
    assert_eq!(of(&ack), invite);
    let other = kit::request("ACK").set("Via", "SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc2");
    assert_ne!(of(&other), invite, "the ACK to a 2xx has a branch of its own");
}

#[test]
fn sip_r024_what_tells_transactions_apart() {
    let base = of(&kit::invite());
    for other in [
        kit::invite().set("CSeq", "2 INVITE"),
        kit::invite().set("Call-ID", "c2@127.0.0.1"),
        kit::invite().set("From", "<sip:alice@127.0.0.1>;tag=a2"),
        kit::invite().uri("sip:carol@127.0.0.1:5060"),
        kit::invite().set("Via", "SIP/2.0/UDP 127.0.0.2:15060;branch=z9hG4bKc1"),
        kit::invite().set("Via", "SIP/2.0/UDP 127.0.0.1:15061;branch=z9hG4bKc1"),
        kit::invite().set("Via", "SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc9"),
    ] {
        assert_ne!(of(&other), base, "{}", other.text());
    }
    let bye = kit::request("BYE");
    assert_ne!(of(&bye.clone().set("To", "<sip:bob@127.0.0.1>;tag=ta")), of(&bye));
}

#[test]
fn the_number_of_a_cseq_counts_not_its_text() {
    assert_eq!(of(&kit::invite().set("CSeq", "0001 INVITE")), of(&kit::invite()));
}

#[test]
fn reversed_hex_as_written() {
    let written = |number| String::from_utf8(reversed_hex(number).to_vec()).expect("text");
    assert_eq!(written(0), "0");
    assert_eq!(written(0x1a), "a1");
    assert_eq!(written(u32::MAX), "ffffffff");
    assert_eq!(read_reversed_hex(b"A1"), Some(0x1a));
    for bad in [&b""[..], b"g", b"123456789", b"-1", b" 1"] {
        assert_eq!(read_reversed_hex(bad), None);
    }
}

proptest! {
    #[test]
    fn reversed_hex_comes_back(number: u32) {
        prop_assert_eq!(read_reversed_hex(&reversed_hex(number)), Some(number));
    }
}
