use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::Scheduler;
use crate::zmp::core::Weight;

fn weight(weight: u32) -> Weight {
    Weight::new(weight).unwrap()
}

/// Peers named by one letter, all of them ROUTERs.
fn scheduler(peers: &[(char, u32)]) -> Scheduler<char> {
    let mut scheduler = Scheduler::default();
    for &(name, w) in peers {
        scheduler.insert(name, Bytes::from(name.to_string()), "e".into(), true, weight(w));
    }
    scheduler
}

fn choose(scheduler: &mut Scheduler<char>, records: usize) -> String {
    (0..records).map(|_| scheduler.select(false, |_| true).unwrap()).collect()
}

fn accumulators(scheduler: &Scheduler<char>, keys: &str) -> Vec<i64> {
    keys.chars().map(|key| scheduler.accumulator(key).unwrap()).collect()
}

#[test]
fn selection_2_2_a_light_first_peer_gives_b_a_b_b() {
    let mut scheduler = scheduler(&[('A', 100), ('B', 300)]);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let chosen = choose(&mut scheduler, 1);
        seen.push((chosen, accumulators(&scheduler, "AB")));
    }
    let expected = [("B", [100, -100]), ("A", [-200, 200]), ("B", [-100, 100]), ("B", [0, 0])];
    assert_eq!(seen, expected.map(|(chosen, sums)| (chosen.to_owned(), sums.to_vec())));
    assert_eq!(choose(&mut scheduler, 8), "BABBBABB");
}

#[test]
fn selection_2_2_the_same_weights_in_the_other_order_give_another_sequence() {
    assert_eq!(choose(&mut scheduler(&[('A', 300), ('B', 100)]), 8), "AABAAABA");
}

#[test]
fn selection_2_2_equal_weights_alternate() {
    assert_eq!(choose(&mut scheduler(&[('A', 100), ('B', 100)]), 6), "ABABAB");
    let three = [('C', 100), ('A', 100), ('B', 100)];
    assert_eq!(choose(&mut scheduler(&three), 6), "ABCABC");
}

#[test]
fn selection_2_2_a_lone_peer_keeps_its_accumulator_at_zero() {
    let mut scheduler = scheduler(&[('A', 7)]);
    assert_eq!(choose(&mut scheduler, 5), "AAAAA");
    assert_eq!(scheduler.accumulator('A'), Some(0));
}

#[test]
fn selection_d_s1_a_peer_without_room_stands_still_and_goes_on_where_it_was() {
    let mut scheduler = scheduler(&[('A', 100), ('B', 300)]);
    assert_eq!(choose(&mut scheduler, 1), "B");
    scheduler.exclude('B');
    for _ in 0..2 {
        assert_eq!(choose(&mut scheduler, 1), "A");
        assert_eq!(accumulators(&scheduler, "AB"), [100, -100]);
    }
    scheduler.include('B');
    assert_eq!(choose(&mut scheduler, 7), "ABBBABB");
}

#[test]
fn selection_d_s1_only_the_run_that_is_accepted_counts() {
    let mut scheduler = scheduler(&[('A', 100), ('B', 300), ('C', 200)]);
    let mut asked = String::new();
    let chosen = scheduler.select(false, |key| {
        asked.push(key);
        key == 'A'
    });
    assert_eq!((chosen, asked.as_str()), (Some('A'), "BCA"));
    assert_eq!(accumulators(&scheduler, "ABC"), [0, 0, 0], "A alone gains and pays 100");

    let chosen = scheduler.select(false, |key| key != 'B');
    assert_eq!(chosen, Some('C'));
    assert_eq!(accumulators(&scheduler, "ABC"), [100, 0, -100]);

    assert_eq!(scheduler.select(false, |_| false), None);
    assert_eq!(accumulators(&scheduler, "ABC"), [100, 0, -100], "no run is no change");
}

#[test]
fn selection_d_s3_weight_zero_leaves_out_and_keeps_the_accumulator() {
    let mut scheduler = scheduler(&[('A', 100), ('B', 300)]);
    choose(&mut scheduler, 1);
    scheduler.set_weight('B', weight(0));
    assert_eq!(choose(&mut scheduler, 3), "AAA");
    assert_eq!(accumulators(&scheduler, "AB"), [100, -100]);
    scheduler.set_weight('A', weight(0));
    assert!(!scheduler.has_candidate(false));
    assert_eq!(scheduler.select(false, |_| true), None);
    assert_eq!(scheduler.preferred(false), None);
    scheduler.set_weight('A', weight(100));
    scheduler.set_weight('B', weight(300));
    assert_eq!(choose(&mut scheduler, 3), "ABB");
}

#[test]
fn selection_d_s3_a_reconnected_peer_restarts_at_zero_in_its_place() {
    let mut scheduler = scheduler(&[('A', 100), ('B', 300)]);
    assert_eq!(choose(&mut scheduler, 2), "BA");
    assert!(scheduler.remove('A'));
    assert!(!scheduler.remove('A'));
    assert_eq!(accumulators(&scheduler, "B"), [200], "the others keep theirs");
    scheduler.insert('A', Bytes::from_static(b"A"), "e".into(), true, weight(100));
    assert_eq!(accumulators(&scheduler, "AB"), [0, 200]);
    assert_eq!(scheduler.len(), 2);
}

#[test]
fn selection_2_2_ids_then_endpoints_then_attach_order_break_ties() {
    let mut scheduler = Scheduler::default();
    let mut insert = |key, id: &'static [u8], endpoint: &str| {
        scheduler.insert(key, Bytes::from_static(id), endpoint.into(), false, weight(5));
    };
    insert('6', b"b", "tcp://a");
    insert('4', b"ab", "tcp://b");
    insert('5', b"ab", "tcp://b");
    insert('3', b"ab", "tcp://a");
    insert('2', b"a", "tcp://z");
    insert('1', b"", "tcp://z");
    assert_eq!(choose(&mut scheduler, 12), "123456123456");
}

#[test]
fn selection_2_2_requests_choose_among_routers() {
    let mut scheduler = scheduler(&[('B', 100), ('C', 100)]);
    scheduler.insert('A', Bytes::from_static(b"A"), "e".into(), false, weight(100));
    assert_eq!(scheduler.select(true, |_| true), Some('B'));
    assert_eq!(accumulators(&scheduler, "ABC"), [0, -100, 100]);
    scheduler.exclude('B');
    scheduler.exclude('C');
    assert!(scheduler.has_candidate(false) && !scheduler.has_candidate(true));
    assert_eq!(scheduler.select(true, |_| true), None);
}

#[test]
fn selection_d_n2_the_preferred_peer_may_have_no_room() {
    let mut scheduler = scheduler(&[('A', 100), ('B', 300)]);
    scheduler.exclude('A');
    scheduler.exclude('B');
    assert_eq!(scheduler.preferred(true), Some('B'));
    assert_eq!(accumulators(&scheduler, "AB"), [0, 0]);
}

#[test]
fn selection_names_keep_their_order_however_they_come() {
    const PEERS: u32 = 700;
    // From the ends to the middle: each one halves the gap of the last two.
    let inwards = (0..PEERS / 2).flat_map(|n| [n, PEERS - 1 - n]);
    let orders: [Vec<u32>; 3] =
        [(0..PEERS).collect(), (0..PEERS).rev().collect(), inwards.collect()];
    for order in orders {
        let mut scheduler = Scheduler::default();
        for n in order {
            let id = Bytes::copy_from_slice(&n.to_be_bytes());
            scheduler.insert(n, id, "e".into(), true, weight(1));
        }
        let chosen: Vec<_> =
            (0..PEERS).map(|_| scheduler.select(false, |_| true).unwrap()).collect();
        assert_eq!(chosen, (0..PEERS).collect::<Vec<_>>());
    }
}

/// The rule as it is written.
#[derive(Default)]
struct Model {
    peers: Vec<ModelPeer>,
    attached: u64,
}

struct ModelPeer {
    key: u8,
    name: (Vec<u8>, String, u64),
    router: bool,
    weight: i128,
    excluded: bool,
    accumulator: i128,
}

impl Model {
    fn select(&mut self, routers_only: bool, refuses: impl Fn(u8) -> bool) -> Option<u8> {
        let mut candidates: Vec<_> = self
            .peers
            .iter_mut()
            .filter(|peer| !peer.excluded && peer.weight > 0 && (peer.router || !routers_only))
            .collect();
        loop {
            let gained = |at: usize| candidates[at].accumulator + candidates[at].weight;
            let winner = (0..candidates.len()).max_by(|&one, &other| {
                let ties = || candidates[other].name.cmp(&candidates[one].name);
                gained(one).cmp(&gained(other)).then_with(ties)
            })?;
            let key = candidates[winner].key;
            if refuses(key) {
                candidates.remove(winner);
                continue;
            }
            let sum: i128 = candidates.iter().map(|peer| peer.weight).sum();
            for peer in &mut candidates {
                peer.accumulator += peer.weight;
            }
            candidates[winner].accumulator -= sum;
            return Some(key);
        }
    }

    fn peer(&mut self, key: u8) -> Option<&mut ModelPeer> {
        self.peers.iter_mut().find(|peer| peer.key == key)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert { key: u8, id: u8, endpoint: u8, router: bool, weight: u32 },
    Remove(u8),
    Exclude(u8),
    Include(u8),
    SetWeight(u8, u32),
    Select { routers_only: bool, refusing: u32 },
}

fn weights() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => prop::sample::select(vec![1u32, 2, 100, 300]),
        1 => Just(0),
        1 => Just(10_000),
        1 => 0..=10_000u32,
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    const KEYS: u8 = 24;
    prop_oneof![
        2 => (0..KEYS, 0..6u8, 0..2u8, any::<bool>(), weights()).prop_map(
            |(key, id, endpoint, router, weight)| Step::Insert { key, id, endpoint, router, weight }
        ),
        1 => (0..KEYS).prop_map(Step::Remove),
        2 => (0..KEYS).prop_map(Step::Exclude),
        2 => (0..KEYS).prop_map(Step::Include),
        2 => (0..KEYS, weights()).prop_map(|(key, weight)| Step::SetWeight(key, weight)),
        12 => (any::<bool>(), prop_oneof![3 => Just(0), 2 => any::<u32>(), 1 => Just(u32::MAX)])
            .prop_map(|(routers_only, refusing)| Step::Select { routers_only, refusing }),
    ]
}

fn follow(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut scheduler = Scheduler::default();
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Insert { key, id, endpoint, router, weight: w } => {
                let id = vec![b'i'; usize::from(id)];
                let endpoint = format!("tcp://{endpoint}");
                model.peers.retain(|peer| peer.key != key);
                model.attached += 1;
                model.peers.push(ModelPeer {
                    key,
                    name: (id.clone(), endpoint.clone(), model.attached),
                    router,
                    weight: i128::from(w),
                    excluded: false,
                    accumulator: 0,
                });
                scheduler.insert(key, id.into(), Arc::from(endpoint), router, weight(w));
            }
            Step::Remove(key) => {
                let known = model.peer(key).is_some();
                model.peers.retain(|peer| peer.key != key);
                prop_assert_eq!(scheduler.remove(key), known);
            }
            Step::Exclude(key) => {
                model.peer(key).into_iter().for_each(|peer| peer.excluded = true);
                scheduler.exclude(key);
            }
            Step::Include(key) => {
                model.peer(key).into_iter().for_each(|peer| peer.excluded = false);
                scheduler.include(key);
            }
            Step::SetWeight(key, w) => {
                model.peer(key).into_iter().for_each(|peer| peer.weight = i128::from(w));
                scheduler.set_weight(key, weight(w));
            }
            Step::Select { routers_only, refusing } => {
                let refuses = |key: u8| refusing & (1 << key) != 0;
                let chosen = scheduler.select(routers_only, |key| !refuses(key));
                prop_assert_eq!(chosen, model.select(routers_only, refuses));
            }
        }
        for peer in &model.peers {
            let accumulator = scheduler.accumulator(peer.key).map(i128::from);
            prop_assert_eq!(accumulator, Some(peer.accumulator), "of {}", peer.key);
        }
        prop_assert_eq!(scheduler.len(), model.peers.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn selection_2_2_is_the_written_rule_in_short_lives(steps in prop::collection::vec(steps(), 1..120)) {
        follow(steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn selection_2_2_is_the_written_rule_over_thousands_of_steps(
        steps in prop::collection::vec(steps(), 3_000..5_000),
    ) {
        follow(steps)?;
    }
}
