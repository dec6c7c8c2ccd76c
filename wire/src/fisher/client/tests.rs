use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{Answer, Candidate, Fisher, Loss, NoRoom};
use crate::fisher::{BODY_BYTES, QUEUE_BUFFERS, QUEUE_BYTES};
use crate::select::Event;

fn drain<C>(fisher: &mut Fisher<C>) -> Vec<Event<C, Loss>> {
    std::iter::from_fn(|| fisher.poll()).collect()
}

#[test]
fn fisher_c08_the_five_bytes_are_checked_when_complete_and_four_are_kept_at_most() {
    let mut candidate = Candidate::new();
    assert_eq!(candidate.bytes(b"FIS", 0), Answer::More);
    assert_eq!(candidate.bytes(b"H", 0), Answer::More);
    assert_eq!(candidate.kept(), 4);
    assert_eq!(candidate.bytes(b"!A", 0), Answer::Proved(1));
    assert_eq!(Candidate::new().bytes(b"XXXX", 0), Answer::More, "not before all five are there");
    assert_eq!(Candidate::new().bytes(b"FISH ", 0), Answer::Lost(Loss::BadReply));
}

#[test]
fn fisher_c09_two_mebibytes_may_come_with_the_reply_and_the_marker_is_not_counted() {
    let mut whole = b"FISH!".to_vec();
    whole.resize(5 + BODY_BYTES, b'x');
    assert_eq!(Candidate::new().bytes(&whole, 0), Answer::Proved(5));
    assert_eq!(Candidate::new().bytes(&whole, 1), Answer::Lost(Loss::Overflow));
}

#[test]
fn fisher_c05_the_limits_on_what_waits_hold_to_the_byte_and_to_the_buffer() {
    let fisher = Fisher::<()>::new();
    assert_eq!(fisher.room(QUEUE_BYTES, QUEUE_BUFFERS), Ok(()));
    assert_eq!(fisher.room(QUEUE_BYTES + 1, 1), Err(NoRoom));
    assert_eq!(fisher.room(QUEUE_BUFFERS + 1, QUEUE_BUFFERS + 1), Err(NoRoom));
}

#[test]
fn fisher_c07_the_first_est_of_a_live_candidate_is_told_once() {
    let mut fisher = Fisher::new();
    let a = fisher.start('a').unwrap();
    let b = fisher.start('b').unwrap();
    assert_eq!(fisher.lost(a, Loss::Closed), Some('a'));
    assert!(!fisher.established(a), "it is gone");
    assert!(fisher.established(b));
    assert!(!fisher.established(b), "told already");
}

#[test]
fn fisher_c04_there_is_no_deadline_when_a_winner_was_chosen_while_candidates_were_started() {
    let mut fisher = Fisher::new();
    let a = fisher.start('a').unwrap();
    assert!(fisher.proved(a));
    assert_eq!(fisher.start('b'), Err('b'), "C02");
    assert_eq!(fisher.started(Instant::now()), None);
    assert_eq!(drain(&mut fisher), [Event::Settled(Ok((a, 'a')))]);
}

#[test]
fn fisher_c12_c13_c14_a_selection_without_a_winner_says_why() {
    let now = Instant::now();
    let two = || {
        let mut fisher = Fisher::new();
        let ids = [fisher.start('a').unwrap(), fisher.start('b').unwrap()];
        assert_eq!(fisher.started(now), Some(now + Duration::from_secs(5)));
        (fisher, ids)
    };
    let (mut closed, [a, b]) = two();
    closed.lost(a, Loss::BadReply);
    assert!(!closed.is_decided());
    closed.lost(b, Loss::Closed);
    assert_eq!(drain(&mut closed), [Event::Settled(Err(Loss::BadReply))]);
    let (mut late, [a, b]) = two();
    late.expire(now + Duration::from_secs(5));
    let lost = [Event::Lost(a, 'a'), Event::Lost(b, 'b'), Event::Settled(Err(Loss::Timeout))];
    assert_eq!(drain(&mut late), lost);
    let (mut gone, ..) = two();
    gone.end(Loss::Cancelled);
    assert_eq!(drain(&mut gone).pop(), Some(Event::Settled(Err(Loss::Cancelled))));
}

/// What may happen to a selection.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Start,
    Started,
    Est(usize),
    Proves(usize),
    Closes(usize, Loss),
    Late,
    End(Loss),
}

fn happens() -> impl Strategy<Value = Happens> {
    let loss = prop_oneof![Just(Loss::Closed), Just(Loss::BadReply), Just(Loss::Overflow)];
    prop_oneof![
        3 => Just(Happens::Start),
        1 => Just(Happens::Started),
        2 => (0usize..5).prop_map(Happens::Est),
        2 => (0usize..5).prop_map(Happens::Proves),
        3 => (0usize..5, loss).prop_map(|(at, why)| Happens::Closes(at, why)),
        1 => Just(Happens::Late),
        1 => prop_oneof![Just(Loss::Cancelled), Just(Loss::Overflow)].prop_map(Happens::End),
    ]
}

proptest! {
    #[test]
    fn fisher_c15_any_order_of_events_has_one_outcome_and_every_candidate_ends_once(
        script in proptest::collection::vec(happens(), 1..40),
    ) {
        let now = Instant::now();
        let mut fisher = Fisher::new();
        let (mut ids, mut ended, mut outcomes, mut told) = (Vec::new(), Vec::new(), 0, 0);
        let mut first_proof = None;
        let tail = [Happens::Started, Happens::Late];
        for event in script.into_iter().chain(tail) {
            match event {
                Happens::Start => ids.extend(fisher.start(ids.len())),
                Happens::Started => drop(fisher.started(now)),
                Happens::Est(at) => {
                    told += u32::from(ids.get(at).is_some_and(|id| fisher.established(*id)));
                }
                Happens::Proves(at) => {
                    if ids.get(at).is_some_and(|id| fisher.proved(*id)) {
                        prop_assert!(first_proof.is_none(), "two winners");
                        first_proof = Some(at);
                    }
                }
                Happens::Closes(at, why) => {
                    ended.extend(ids.get(at).and_then(|id| fisher.lost(*id, why)));
                }
                Happens::Late => fisher.expire(now + Duration::from_secs(6)),
                Happens::End(why) => fisher.end(why),
            }
            while let Some(event) = fisher.poll() {
                prop_assert_eq!(outcomes, 0, "nothing comes behind the outcome");
                match event {
                    Event::Lost(_, candidate) => ended.push(candidate),
                    Event::Settled(outcome) => {
                        outcomes += 1;
                        prop_assert_eq!(outcome.as_ref().ok().map(|(_, at)| *at), first_proof);
                        ended.extend(outcome.ok().map(|(_, at)| at));
                    }
                }
            }
        }
        prop_assert_eq!(outcomes, 1);
        prop_assert!(told <= 1);
        ended.sort_unstable();
        prop_assert_eq!(ended, (0..ids.len()).collect::<Vec<_>>());
    }

    #[test]
    fn fisher_c08_any_segmentation_of_a_reply_gives_the_same(
        body in proptest::collection::vec(any::<u8>(), 0..30),
        cuts in proptest::collection::vec(1usize..6, 0..6),
    ) {
        let whole: Vec<u8> = b"FISH!".iter().chain(&body).copied().collect();
        let mut candidate = Candidate::new();
        let mut rest = whole.as_slice();
        let mut steps = cuts.into_iter().chain(std::iter::repeat(whole.len()));
        let behind = loop {
            let (piece, after) = rest.split_at(steps.next().unwrap().min(rest.len()));
            match candidate.bytes(piece, after.len()) {
                Answer::More => rest = after,
                Answer::Proved(used) => break &rest[used..],
                lost @ Answer::Lost(_) => prop_assert!(false, "{lost:?}"),
            }
        };
        prop_assert_eq!(behind, body.as_slice());
    }
}
