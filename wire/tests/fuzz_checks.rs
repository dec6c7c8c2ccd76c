//! The checks of the fuzz targets, over their corpus and over random input.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../../fuzz/checks/mod.rs"]
mod checks;

fn corpus(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut checked = 0;
    for entry in fs::read_dir(&folder).expect("a corpus") {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check(&fs::read(&path).unwrap());
        checked += 1;
    }
    assert!(checked >= 5, "{checked} inputs in {}", folder.display());
}

#[test]
fn fisher_s01_s08_case_t20_the_corpus_of_the_probe() {
    corpus("fisher_probe", checks::fisher::probe);
}

#[test]
fn fisher_c08_c09_the_corpus_of_the_reply() {
    corpus("fisher_reply", checks::fisher::reply);
}

#[test]
fn mux_m01_m06_the_corpus_of_the_frames() {
    corpus("mux_frames", checks::mux::frames);
}

#[test]
fn mux_m01_m32_case_t05_t23_the_corpus_of_a_parent() {
    corpus("mux_parent", checks::mux::parent);
}

#[test]
fn zmp_1_1_to_1_7_the_corpus_of_a_connection() {
    corpus("zmp_connection", checks::zmp::connection);
}

#[test]
fn sip_r015_r144_the_corpus_of_the_message() {
    corpus("sip_message", checks::sip::message);
}

#[test]
fn sip_r140_r141_the_corpus_of_the_stream() {
    corpus("sip_stream", checks::sip::stream);
}

/// Bytes that are often a marker, or nearly.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let marker = prop_oneof![
        Just(b"FISH?".to_vec()),
        Just(b"FISH!".to_vec()),
        Just(b"FISH".to_vec()),
        vec(any::<u8>(), 0..8),
    ];
    (marker, vec(any::<u8>(), 0..24)).prop_map(|(marker, rest)| [marker, rest].concat())
}

/// An input as the checks read it: what stands before, so many steps, and the bytes.
fn input<const N: usize>(step: BoxedStrategy<u8>) -> impl Strategy<Value = Vec<u8>> {
    (any::<[u8; N]>(), vec(step, 0..16), stream())
        .prop_map(|(first, steps, rest)| [&first[..], &[steps.len() as u8], &steps, &rest].concat())
}

fn step() -> BoxedStrategy<u8> {
    prop_oneof![6 => 0u8..8, 2 => 0x40u8..0x80, 1 => any::<u8>()].boxed()
}

/// Frames, the last one often cut short, behind lengths of pieces.
fn mux_frames() -> impl Strategy<Value = Vec<u8>> {
    let frame = (vec(any::<u8>(), 0..40), any::<[u8; 6]>())
        .prop_map(|(payload, rest)| [&[0, payload.len() as u8], &rest[..], &payload].concat());
    let stream = (vec(frame, 0..8), 0..20usize).prop_map(|(frames, cut)| {
        let mut stream = frames.concat();
        stream.truncate(stream.len().saturating_sub(cut));
        stream
    });
    (vec(0u8..20, 0..60), stream)
        .prop_map(|(cuts, stream)| [&[cuts.len() as u8], &cuts[..], &stream].concat())
}

/// Steps of a parent: mostly such that children live and something moves.
fn mux_steps() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        4 => Just(1u8), 4 => Just(2), 1 => Just(3), 1 => Just(4), 2 => Just(5), 2 => Just(6),
        2 => Just(7), 1 => Just(8), 5 => Just(9), 4 => Just(10), 8 => Just(11), 1 => Just(12),
        1 => Just(13), 1 => 0u8..16,
    ];
    let step = (kind, 0u8..16, 0u8..8, vec(any::<u8>(), 0..30)).prop_map(
        |(kind, high, number, payload)| match kind {
            0 | 1 | 9 | 10 | 14 | 15 => vec![kind | high << 4],
            11 if high % 6 != 4 => vec![kind | high << 4, number],
            11 => [&[kind | high << 4, number, payload.len() as u8], &payload[..]].concat(),
            12 => [&[kind, payload.len() as u8], &payload[..]].concat(),
            _ => vec![kind | high << 4, number],
        },
    );
    (any::<u8>(), vec(step, 0..120))
        .prop_map(|(bits, steps)| [vec![bits, 0], steps.concat()].concat())
}

/// Frames of records and control frames, most of them right and the last one often cut short,
/// behind what the check of a connection reads first.
fn zmp_frames() -> impl Strategy<Value = Vec<u8>> {
    let part = (any::<bool>(), vec(any::<u8>(), 0..90)).prop_map(|(more, payload)| {
        [&[0x5A, 1, u8::from(more), 0, 0, 0, 0, payload.len() as u8], &payload[..]].concat()
    });
    let typed = (0u8..2, 1u8..4, 0u8..9, vec(any::<u8>(), 0..90)).prop_map(
        |(more, kind, sequence, payload)| {
            let header = [0x5A, 1, more, kind, 0, 0, 0, payload.len() as u8];
            [&header[..], &[0, 0, 0, 0, 0, 0, 0, sequence], &payload].concat()
        },
    );
    let body = prop_oneof![
        4 => any::<[u8; 2]>().prop_map(|weight| [b"WEIGHT\0\0", &weight[..]].concat()),
        4 => (0u8..3, 0u8..9)
            .prop_map(|(state, epoch)| [b"FLOWSTATE\x01", &[state, 0, 0, 0, 0, 0, 0, 0, epoch][..]].concat()),
        1 => Just(b"\x05\x01\x02no".to_vec()),
        2 => vec(any::<u8>(), 1..30),
    ];
    let control =
        body.prop_map(|body| [&[0x5A, 1, 2, 0, 0, 0, 0, body.len() as u8], &body[..]].concat());
    let odd = vec(prop_oneof![Just(0x5A), Just(1), Just(0), any::<u8>()], 0..20);
    let frame = prop_oneof![12 => part, 4 => typed, 4 => control, 1 => odd];
    let stream = (vec(frame, 0..20), prop_oneof![3 => Just(0), 1 => 0..20usize]).prop_map(
        |(frames, cut)| {
            let mut stream = frames.concat();
            stream.truncate(stream.len().saturating_sub(cut));
            stream
        },
    );
    let bits = prop_oneof![8 => any::<u8>().prop_map(|bits| bits | 8), 1 => any::<u8>()];
    (bits, 0u8..8, vec(0u8..40, 0..60), stream).prop_map(|(bits, hwm, cuts, stream)| {
        [&[bits, hwm, cuts.len() as u8], &cuts[..], &stream].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn zmp_1_1_to_1_7_random_frames_at_random_segmentation_and_credit(input in zmp_frames()) {
        checks::zmp::connection(&input);
    }

    #[test]
    fn fisher_s01_s08_random_input_of_the_probe(input in input::<2>(step())) {
        checks::fisher::probe(&input);
    }

    #[test]
    fn fisher_c08_c09_random_input_of_the_reply(input in input::<1>((0u8..8).boxed())) {
        checks::fisher::reply(&input);
    }

    #[test]
    fn mux_m06_random_frames_at_random_segmentation(input in mux_frames()) {
        checks::mux::frames(&input);
    }

    #[test]
    fn whatever_the_bytes_are_they_mean_something(input in vec(any::<u8>(), 0..64)) {
        checks::fisher::probe(&input);
        checks::fisher::reply(&input);
        checks::mux::frames(&input);
        checks::mux::parent(&input);
        checks::zmp::connection(&input);
        checks::sip::message(&input);
        checks::sip::stream(&input);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn mux_m01_m32_random_steps_of_a_parent(input in mux_steps()) {
        checks::mux::parent(&input);
    }
}
