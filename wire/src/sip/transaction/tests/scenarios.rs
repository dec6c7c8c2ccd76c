//! Calls to read: nothing is lost unless it is said.

use super::peers::Plan;
use super::world::{Play, World};
use super::{OPTIONS, ms, secs};
use crate::sip::transaction::{Kind, Options};

const ELSEWHERE: &str = "CANCEL SIP ;cause=200 ;text=\"Call completed elsewhere\"";

fn rings() -> Plan {
    Plan::default().rings(ms(100))
}

#[test]
fn three_phones_ring_and_the_first_to_answer_has_the_call() {
    let world = World::play(Play::call(&[&[
        rings(),
        rings().answers(secs(2), 200),
        rings().answers(secs(4), 200),
    ]]));
    assert_eq!(world.caller.codes(), [100, 180, 180, 180, 200]);
    assert_eq!(world.phones[0].got, ["INVITE", ELSEWHERE, "ACK"], "R65, R66");
    assert_eq!(world.phones[1].got, ["INVITE", "ACK"]);
    assert_eq!(world.phones[2].got, ["INVITE", ELSEWHERE, "ACK"]);
    assert_eq!(world.proxy.over.len(), 1);
}

#[test]
fn all_phones_fail_and_the_best_failure_goes_up() {
    let world = World::play(Play::call(&[&[
        Plan::default().answers(ms(400), 486),
        rings().answers(secs(2), 480),
        rings().answers(ms(500), 503),
    ]]));
    assert_eq!(world.caller.codes(), [100, 180, 180, 480]);
    for phone in &world.phones {
        assert_eq!(phone.got, ["INVITE", "ACK"], "R43");
    }
    assert_eq!(world.caller.seen[3].tag, "phone1");
}

#[test]
fn a_failure_route_tries_another_phone() {
    let world = World::play(Play::call(&[
        &[Plan::default().answers(ms(10), 503)],
        &[Plan::default().rings(ms(10)), Plan::default().answers(ms(10), 486)],
        &[rings().answers(secs(1), 200)],
    ]));
    // The second leg lasts until its first phone has rung for fr_inv_timer.
    assert_eq!(world.caller.codes(), [100, 180, 180, 200], "R85: one 100, no failure");
    assert_eq!(world.phones[1].got, ["INVITE", "CANCEL", "ACK"], "R39");
}

#[test]
fn the_caller_hangs_up_while_phones_ring() {
    let world = World::play(Play::call(&[&[rings(), rings().deaf()]]).hangs_up(secs(1)));
    assert_eq!(world.caller.cancelled, ["200 canceling"], "R53, R55");
    assert_eq!(world.caller.codes(), [100, 180, 180, 487], "R62");
    assert_eq!(world.phones[0].got, ["INVITE", "CANCEL", "ACK"]);
    assert_eq!(world.phones[1].got, ["INVITE", "CANCEL"], "S-04: no 487 ever comes");
}

#[test]
fn the_caller_hangs_up_before_a_phone_rings() {
    let rings_late = Plan::default().rings(ms(1_700));
    let world = World::play(Play::call(&[&[rings_late]]).hangs_up(ms(200)));
    assert_eq!(world.caller.codes(), [100, 487], "R56: that 180 does not go up");
    assert_eq!(world.phones[0].got, ["INVITE", "INVITE", "INVITE", "CANCEL", "ACK"]);
}

#[test]
fn cancel_b_method_says_what_happens_before_a_provisional() {
    for (cancel_b_method, phone) in [(0, vec!["INVITE"]), (2, vec!["INVITE", "CANCEL", "ACK"])] {
        let mut play = Play::call(&[&[Plan::default()]]).hangs_up(ms(200));
        play.options = Options { cancel_b_method, ..OPTIONS };
        let world = World::play(play);
        assert_eq!(world.caller.codes(), [100, 487]);
        assert_eq!(world.phones[0].got, phone);
    }
}

#[test]
fn a_200_crosses_the_cancel() {
    // The CANCEL leaves at 1000 ms, gets there at 1020; the 200 has left at 1015.
    let world = World::play(Play::call(&[&[rings().answers(ms(995), 200)]]).hangs_up(secs(1)));
    assert_eq!(world.caller.codes(), [100, 180, 200], "R57");
    assert_eq!(world.phones[0].got, ["INVITE", "CANCEL", "ACK"]);
}

#[test]
fn case_s01_two_phones_answer_in_the_same_moment() {
    let world = World::play(Play::call(&[&[
        rings().answers(secs(1), 200),
        rings().answers(ms(1_005), 200),
    ]]));
    assert_eq!(world.caller.codes(), [100, 180, 180, 200, 200]);
    assert_eq!(world.phones[0].got, ["INVITE", "ACK"]);
    assert_eq!(world.phones[1].got, ["INVITE", ELSEWHERE, "ACK"], "each ACK finds its phone");
}

#[test]
fn a_200_behind_the_end_of_the_transaction_passes_statelessly() {
    let world = World::play(Play::call(&[&[
        rings().answers(secs(1), 200),
        rings().deaf().answers(ms(6_500), 200),
    ]]));
    assert_eq!(world.caller.codes(), [100, 180, 180, 200, 200], "R155");
    assert_eq!(world.phones[1].got, ["INVITE", ELSEWHERE, "ACK"]);
}

#[test]
fn a_phone_that_rings_for_ever_is_given_up() {
    let world = World::play(Play::call(&[&[rings()]]));
    assert_eq!(world.caller.codes(), [100, 180, 408], "R39");
    assert_eq!(world.caller.seen[2].reason, "Request Timeout");
    assert_eq!(world.phones[0].got, ["INVITE", "CANCEL", "ACK"]);
}

#[test]
fn silence_is_408() {
    let world = World::play(Play::call(&[&[Plan::default()]]));
    assert_eq!(world.caller.codes(), [100, 408], "R38");
    assert_eq!(world.phones[0].count("INVITE"), 3);
    assert_eq!(world.phones[0].count("CANCEL"), 0);
}

#[test]
fn challenges_of_two_phones_come_as_one() {
    let world = World::play(Play::call(&[&[
        Plan::default().answers(ms(10), 407),
        Plan::default().answers(ms(20), 401),
    ]]));
    assert_eq!(world.caller.codes(), [100, 401], "R76");
    assert!(!world.caller.seen[1].tag.starts_with("phone"), "R77");
}

#[test]
fn lost_packets_are_made_good() {
    let play = Play::call(&[&[rings().answers(secs(1), 200), rings()]]);
    // Each packet of the call in turn.
    for lost in 0..20 {
        let world = World::play(play.clone().lose(&[lost]));
        let codes = world.caller.codes();
        assert_eq!(codes.last(), Some(&200), "{lost}: {codes:?}");
        assert!(world.phones[0].count("ACK") > 0 && world.phones[1].count("CANCEL") > 0);
    }
    // The first five, every other one.
    for lost in [vec![0, 1, 2, 3, 4], (0..40).step_by(2).collect()] {
        let world = World::play(play.clone().lose(&lost));
        let codes = world.caller.codes();
        assert_eq!(codes.last(), Some(&200), "{lost:?}: {codes:?}");
    }
}

#[test]
fn a_message_goes_to_two_phones() {
    let mut play = Play::call(&[&[
        Plan::default().answers(ms(50), 200),
        Plan::default().answers(ms(100), 200),
    ]]);
    play.kind = Kind::Other;
    let world = World::play(play.clone().lose(&[0]));
    assert_eq!(world.caller.codes(), [200], "R84");
    for phone in &world.phones {
        assert_eq!(phone.got, ["MESSAGE"]);
    }

    play.legs = vec![vec![Plan::default(), Plan::default().answers(ms(100), 486)]];
    let world = World::play(play);
    assert_eq!(world.caller.codes(), [408], "R149");
}
