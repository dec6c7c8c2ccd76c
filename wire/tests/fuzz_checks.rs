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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn fisher_s01_s08_random_input_of_the_probe(input in input::<2>(step())) {
        checks::fisher::probe(&input);
    }

    #[test]
    fn fisher_c08_c09_random_input_of_the_reply(input in input::<1>((0u8..8).boxed())) {
        checks::fisher::reply(&input);
    }

    #[test]
    fn whatever_the_bytes_are_they_mean_something(input in vec(any::<u8>(), 0..64)) {
        checks::fisher::probe(&input);
        checks::fisher::reply(&input);
    }
}
