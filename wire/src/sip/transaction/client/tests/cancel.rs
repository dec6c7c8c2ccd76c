//! What becomes of a branch that nobody wants any more (contract 2.7, 2.8).

use super::*;

#[test]
fn sip_r056_without_a_provisional_the_cancel_waits_and_the_invite_is_repeated() {
    check(
        invite(),
        &[
            (
                "200 cancel; 1600 180; 1700 cancel 200; 1800 180; 1900 487; 99999 end",
                "200 cancelled: later; 500 request; 1500 request; 1600 180 CANCEL hidden; \
                 1800 180 hidden; 1900 487 ACK up",
            ),
            (
                "200 cancel; 300 cancel; 400 100",
                "200 cancelled: later; 300 cancelled: nothing; 400 100 CANCEL hidden",
            ),
            (
                "200 cancel; 400 404; 500 180",
                "200 cancelled: later; 400 404 ACK up; 500 180 hidden",
            ),
        ],
    );
    let silent = play(invite(), "200 cancel; 99999 end");
    assert_eq!(silent, format!("200 cancelled: later; {COPIES}; 30000 timeout"));
}

#[test]
fn sip_r057_a_200_that_crosses_the_cancel_goes_up() {
    let log = play(invite(), "100 180; 200 cancel; 220 200; 230 cancel 481; 720 200; 99999 end");
    assert_eq!(log, "100 180 up; 200 cancelled: now; 220 200 up; 720 200 up");
}

#[test]
fn sip_r058_the_cancel_is_repeated_until_it_is_answered() {
    check(
        invite(),
        &[
            (
                "100 180; 1000 cancel; 9000 cancel 200; 30000 end",
                "100 180 up; 1000 cancelled: now; 1500 CANCEL; 2500 CANCEL; 4500 CANCEL; 8500 CANCEL",
            ),
            (
                "100 180; 1000 cancel; 1600 cancel 100; 6000 end",
                "100 180 up; 1000 cancelled: now; 1500 CANCEL; 5600 CANCEL",
            ),
            // Its own reply ends it, not that of the INVITE.
            (
                "100 180; 1000 cancel; 1600 487; 3000 cancel 200; 30000 end",
                "100 180 up; 1000 cancelled: now; 1500 CANCEL; 1600 487 ACK up; 2500 CANCEL",
            ),
        ],
    );
    let tcp = play(over_tcp(invite()), "100 180; 1000 cancel; 2000 180; 30000 end");
    assert_eq!(tcp, "100 180 up; 1000 cancelled: now; 2000 180 hidden");
    let short = with(invite(), |start| start.timing.fr = ms(3_000));
    check(
        short,
        &[
            (
                "100 180; 200 cancel; 99999 end",
                "100 180 up; 200 cancelled: now; 700 CANCEL; 1700 CANCEL; \
                 3200 timeout behind a provisional",
            ),
            (
                "100 180; 200 cancel; 200 settle; 99999 end",
                "100 180 up; 200 cancelled: now; 700 CANCEL; 1700 CANCEL",
            ),
            (
                "100 180; 200 cancel; 200 settle; 300 cancel 100; 99999 end",
                "100 180 up; 200 cancelled: now",
            ),
        ],
    );
}

#[test]
fn sip_r058_a_provisional_repeats_a_cancel_that_is_not_answered() {
    let log = play(invite(), "100 180; 200 cancel; 300 183; 400 cancel 200; 500 183; 900 end");
    assert_eq!(log, "100 180 up; 200 cancelled: now; 300 183 CANCEL hidden; 500 183 hidden");
}

#[test]
fn sip_r062_a_cancelled_branch_waits_no_longer_than_fr_for_its_487() {
    let tcp = over_tcp(invite());
    check(
        tcp,
        &[
            (
                "100 180; 200 cancel; 300 cancel 200; 99999 end",
                "100 180 up; 200 cancelled: now; 30200 timeout behind a provisional",
            ),
            // Provisionals do not put that off.
            (
                "100 180; 200 cancel; 300 cancel 200; 20000 180; 99999 end",
                "100 180 up; 200 cancelled: now; 20000 180 hidden; 30200 timeout behind a provisional",
            ),
            // It rings at last, which gives it no more time either.
            (
                "200 cancel; 29000 180; 99999 end",
                "200 cancelled: later; 29000 180 CANCEL hidden; 30000 timeout behind a provisional",
            ),
        ],
    );
    let ringing = with(tcp, |start| start.timing.fr_inv = ms(5_000));
    let log = play(ringing, "100 180; 200 cancel; 9999 end");
    assert_eq!(log, "100 180 up; 200 cancelled: now; 5100 timeout behind a provisional");
}

#[test]
fn sip_r067_a_settled_branch_gets_its_cancel_once_it_speaks() {
    check(
        invite(),
        &[
            ("100 cancel; 200 settle; 99999 end", "100 cancelled: later"),
            ("200 settle; 99999 end", ""),
            (
                "100 cancel; 200 settle; 1000 100; 2000 cancel 200; 3000 180; 4000 487",
                "100 cancelled: later; 1000 100 CANCEL hidden; 1500 CANCEL; 3000 180 hidden; 4000 487 ACK up",
            ),
            (
                "200 settle; 1000 180; 1800 cancel 200; 99999 end",
                "1000 180 CANCEL hidden; 1500 CANCEL",
            ),
            ("200 settle; 300 cancel; 400 180", "300 cancelled: later; 400 180 CANCEL hidden"),
        ],
    );
}

#[test]
fn sip_r065_what_has_spoken_gets_its_cancel_and_repeats_it_though_the_transaction_is_settled() {
    check(
        invite(),
        &[
            (
                "100 180; 200 cancel; 200 settle; 1000 cancel 200; 99999 end",
                "100 180 up; 200 cancelled: now; 700 CANCEL",
            ),
            (
                "100 180; 200 settle; 300 cancel; 900 end",
                "100 180 up; 300 cancelled: now; 800 CANCEL",
            ),
        ],
    );
}

#[test]
fn sip_r084_nothing_is_cancelled_but_an_invite() {
    check(
        other(),
        &[
            (
                "100 180; 200 cancel; 300 180; 400 404",
                "100 180 up; 200 cancelled: nothing; 300 180 up; 400 404 up",
            ),
            ("200 settle; 300 180; 99999 end", "300 180 hidden"),
        ],
    );
}

#[test]
fn cancel_b_method_0_gives_a_silent_branch_up() {
    let start = with(invite(), |start| start.options.cancel_b_method = 0);
    check(
        start,
        &[
            ("600 cancel; 99999 end", "500 request; 600 cancelled: gone"),
            ("100 cancel; 200 486; 300 200", "100 cancelled: gone; 200 486 ACK hidden; 300 200 up"),
            (
                "100 cancel; 200 180; 300 487",
                "100 cancelled: gone; 200 180 CANCEL hidden; 300 487 ACK hidden",
            ),
            ("100 180; 200 cancel", "100 180 up; 200 cancelled: now"),
        ],
    );
}

#[test]
fn cancel_b_method_2_cancels_at_once() {
    let start = with(invite(), |start| start.options.cancel_b_method = 2);
    let log = play(start, "600 cancel; 1700 cancel 200; 1800 487; 99999 end");
    assert_eq!(log, "500 request; 600 cancelled: now; 1100 CANCEL; 1800 487 ACK up");
    let silent = play(over_tcp(start), "600 cancel; 700 cancel 200; 99999 end");
    assert_eq!(silent, "600 cancelled: now; 30000 timeout");
}

#[test]
fn a_reply_to_a_cancel_that_was_not_sent_changes_nothing() {
    let log = play(invite(), "100 cancel 200; 200 cancel; 300 cancel 200; 400 180; 999 end");
    assert_eq!(log, "200 cancelled: later; 400 180 CANCEL hidden; 900 CANCEL");
}
