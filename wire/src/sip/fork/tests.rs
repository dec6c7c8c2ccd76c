use super::{Keep, Outcome, Rank, priority};

type Fork = super::Fork<u16>;
type Final = super::Final<u16>;

fn replied(code: u16) -> Final {
    Final { code, reply: Some(code), timed_out: false }
}

#[test]
fn sip_r068_to_r072_priorities() {
    for (code, expected) in [
        (600, 1000),
        (699, 1099),
        (300, 3000),
        (399, 3099),
        (401, 4001),
        (407, 4007),
        (415, 4015),
        (420, 4020),
        (484, 4084),
        (400, 4100),
        (408, 4108),
        (499, 4199),
        (500, 5000),
        (599, 5099),
        (700, 10_700),
        (999, 10_999),
    ] {
        assert_eq!(priority(code), expected, "{code}");
    }
}

#[test]
fn sip_r073_ranks_are_ordered_by_priority_then_branch() {
    let ranks = [
        Rank::new(false, 603, 9),
        Rank::new(false, 486, 0),
        Rank::new(false, 486, 1),
        Rank::new(false, 999, 0),
        Rank::new(true, 603, 0),
        Rank::new(true, 999, u16::MAX - 1),
        Rank::UNSENT,
    ];
    assert!(ranks.windows(2).all(|pair| pair[0] > pair[1]), "the best one is the greatest");
    assert_eq!((Rank::UNSENT.branch(), ranks[5].branch()), (None, Some(u16::MAX - 1)));
}

#[test]
fn a_fork_that_answered_takes_no_more() {
    let mut fork = Fork::new(false);
    assert_eq!((fork.add(), fork.add()), (Some(0), Some(1)));
    let mut lost = Vec::new();
    fork.answer(1, 200, |branch| lost.push(branch));
    fork.answer(0, 200, |branch| lost.push(branch));
    assert_eq!((lost, fork.outcome()), (vec![0], Outcome::Answered));
    assert_eq!(fork.add(), None);
    assert_eq!(fork.finals().collect::<Vec<_>>(), [(0, 200, false), (1, 200, false)]);
}

#[test]
fn a_leg_without_branches_has_nothing() {
    let mut fork = Fork::new(false);
    fork.seal();
    assert_eq!(fork.outcome(), Outcome::Nothing);
    assert!(fork.take().is_none());
    assert_eq!(fork.add(), Some(0), "another one may follow");
}

#[test]
fn what_is_taken_is_gone() {
    let mut fork = Fork::new(false);
    fork.add();
    fork.add();
    fork.seal();
    assert!(fork.fail(0, replied(404)) && fork.fail(1, replied(486)));
    assert!(!fork.fail(0, replied(300)), "it has its final");
    assert_eq!(fork.outcome(), Outcome::Failed(0));
    assert!(fork.take().is_some());
    assert!(fork.take().is_none());
    assert_eq!(fork.finals().count(), 0);
}

#[test]
fn sip_r094_finals_of_earlier_legs_that_are_kept_compete() {
    for (keep, expected) in [(Keep::Nothing, 1), (Keep::AllButLast, 1), (Keep::All, 0)] {
        let mut fork = Fork::new(false);
        fork.add();
        fork.seal();
        fork.fail(0, replied(404));
        fork.keep(keep);
        assert_eq!(fork.add(), Some(1));
        fork.seal();
        assert_eq!((fork.outcome(), fork.open()), (Outcome::Open, 1));
        fork.fail(1, replied(486));
        assert_eq!(fork.outcome(), Outcome::Failed(expected), "{keep:?}");
    }
}
