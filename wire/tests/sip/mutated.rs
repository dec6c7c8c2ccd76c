//! A million mutated messages: none of them does any harm (S-28, R144).

use bytes::{Bytes, BytesMut};
use lineway_wire::sip::message::{Limits, Message, Name, call_id_of};
use lineway_wire::sip::stream::{Framed, Framer};

use crate::checks;
use crate::torture::messages;

/// Messages of each of the four runs.
const EACH: u32 = 250_000;

/// Numbers that look random and are the same each time (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        number as usize % limit.max(1)
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let from = self.below(length + 1);
        from..from + self.below((length - from).min(40) + 1)
    }
}

/// Bytes that mean something, to be put anywhere.
const MEANING: &[u8] = b"\r\n\t ;,:\"<>\\=@[]?/\0\x7f\xff0a%-";

/// Changes a message in one to three places.
fn mutate(numbers: &mut Numbers, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    for _ in 0..=numbers.below(3) {
        let range = numbers.range(bytes.len());
        match numbers.below(16) {
            0 | 6 | 7 => {
                bytes.drain(range);
            }
            1 | 8 | 9 => {
                let copy = bytes[range.clone()].to_vec();
                bytes.splice(range.start..range.start, copy);
            }
            // What ends too early is seldom read far.
            2 if range.len() < 10 => bytes.truncate(range.end),
            3..6 => {
                let other = &others[numbers.below(others.len())];
                let part = numbers.range(other.len());
                bytes.splice(range, other[part].iter().copied());
            }
            _ => {
                let meaning = MEANING[numbers.below(MEANING.len())];
                match bytes.get_mut(range.start) {
                    Some(byte) => *byte = meaning,
                    None => bytes.push(meaning),
                }
            }
        }
    }
}

fn run(seed: u64) {
    let originals: Vec<_> = messages().into_iter().map(|message| message.bytes).collect();
    let (mut numbers, mut parsed, limits) = (Numbers(seed), 0, Limits::default());
    let mut bytes = Vec::new();
    for round in 0..EACH {
        bytes.clear();
        bytes.extend_from_slice(&originals[numbers.below(originals.len())]);
        mutate(&mut numbers, &mut bytes, &originals);
        // All questions to some of them, the parser to each.
        if round % 32 == 0 {
            checks::message(&bytes);
            let mut input = BytesMut::from(&bytes[..]);
            let mut framer = Framer::new(limits);
            while matches!(framer.next(&mut input), Ok(Framed::Message(_) | Framed::Ping)) {}
        }
        let whole = Bytes::from(std::mem::take(&mut bytes));
        if let Ok(message) = Message::parse(whole.clone(), &limits) {
            parsed += 1;
            if round % 8 == 0 {
                assert_eq!(call_id_of(&whole), Some(message.call_id()));
                assert!(message.vias().count() > 0);
                message.addresses(Name::Contact).flatten().for_each(|one| {
                    let _ = one.parsed_uri();
                });
            }
        }
        drop(whole);
    }
    // The mutations are such that much of them is read to the end.
    assert!((EACH / 4..EACH).contains(&parsed), "{parsed}");
}

#[test]
fn sip_r144_case_s28_mutated_messages_first_quarter() {
    run(1);
}

#[test]
fn sip_r144_case_s28_mutated_messages_second_quarter() {
    run(2);
}

#[test]
fn sip_r144_case_s28_mutated_messages_third_quarter() {
    run(3);
}

#[test]
fn sip_r144_case_s28_mutated_messages_last_quarter() {
    run(4);
}
