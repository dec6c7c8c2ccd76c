//! Random messages and streams, built of what messages are made of.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::checks;

const LINES: [&str; 12] = [
    "Via: SIP/2.0/UDP h;branch=z9hG4bK1\r\n",
    "v: SIP / 2.0 / TCP [::1]:1, SIP/2.0/UDP x;rport\r\n",
    "From: <sip:a@b>;tag=1\r\n",
    "f: \"x\"\r\n <sip:a@b>\r\n",
    "To: sip:a@b\r\n",
    "Call-ID: 1\r\n",
    "CSeq: 1 INVITE\r\n",
    "cseq:\n 2\n BYE\n",
    "m: <sip:a@b>, sip:c@d;q=1\r\n",
    "Route: <sip:h;lr>\r\n",
    "Content-Length: 0\r\n",
    "l: 5\n",
];

const PIECES: [&str; 22] = [
    "\r\n", "\n", "\r", " ", "\t", ";", ",", "\"", "<", ">", "\\", "=", ":", "@", "[", "]", "?",
    "\0", "SIP/2.0", "/", "x", "\u{e9}",
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => proptest::sample::select(&LINES[..]).prop_map(|text| text.as_bytes().to_vec()),
        6 => proptest::sample::select(&PIECES[..]).prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..4),
    ]
}

/// All that a message needs, with a few pieces anywhere in it.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let lines = vec(proptest::sample::select(&LINES[..]), 0..8);
    (lines, vec((any::<proptest::sample::Index>(), piece()), 0..4), vec(any::<u8>(), 0..8))
        .prop_map(|(lines, pieces, body)| {
            let needed = [LINES[0], LINES[2], LINES[4], LINES[5], LINES[6]].concat();
            let head = format!("INVITE sip:a@b SIP/2.0\r\n{needed}{}\r\n", lines.concat());
            let mut bytes = [head.into_bytes(), body].concat();
            for (place, piece) in pieces {
                let at = place.index(bytes.len());
                bytes.splice(at..at, piece);
            }
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn sip_r015_the_parts_of_a_message_are_its_bytes(bytes in message()) {
        checks::message(&bytes);
    }

    #[test]
    fn sip_r144_whatever_comes_is_a_message_or_none(pieces in vec(piece(), 0..40)) {
        checks::message(&[b"INVITE sip:a SIP/2.0\r\n", &pieces.concat()[..]].concat());
        checks::message(&pieces.concat());
    }

    #[test]
    fn sip_r140_case_s18_a_stream_is_the_same_in_any_pieces(
        limit in prop_oneof![4 => Just(255_u8), 1 => any::<u8>()],
        cuts in vec(0_u8..60, 0..60),
        messages in vec(prop_oneof![3 => message(), 1 => piece()], 0..4),
    ) {
        checks::stream(&[&[limit, cuts.len() as u8], &cuts[..], &messages.concat()].concat());
    }
}
