//! The caller's side: copies, ACK, CANCEL, and the end (contract 2.5, 2.8).

use super::*;
use crate::sip::transaction::server::CancelWhy::{Caller, Refused};

const RELIABLE: TransactionStart = TransactionStart { reliable: true, ..INVITE };

fn times(sent: &[(u128, String)]) -> Vec<u128> {
    sent.iter().map(|(at, _)| *at).collect()
}

#[test]
fn sip_r032_a_copy_of_an_invite_gets_the_last_provisional() {
    let mut call = Call::of(INVITE, 2);
    assert_eq!(call.again(), None, "nothing was sent");
    call.tm.replied(100, "100".into(), true, call.now);
    assert_eq!(call.again().as_deref(), Some("100"));
    call.says(0, 180).says(1, 183);
    assert_eq!(call.again().as_deref(), Some("183 of 1"));
}

#[test]
fn sip_r033_a_copy_of_another_request_gets_the_final() {
    let mut call = Call::of(OTHER, 1);
    assert_eq!(call.again(), None);
    call.says(0, 404);
    assert_eq!(call.again().as_deref(), Some("404 of 0"));
    assert_eq!(call.after(ms(4_999)), [], "never by itself");
    assert_eq!(call.again().as_deref(), Some("404 of 0"));
    call.after(ms(1));
    assert_eq!(call.again(), None);
}

#[test]
fn sip_r041_a_failure_is_sent_again_until_its_ack() {
    let mut call =
        Call::of(TransactionStart { timing: Timing { fr: secs(30), ..TIMING }, ..INVITE }, 1);
    call.says(0, 486);
    let sent = call.after(secs(12));
    assert_eq!(times(&sent), [500, 1_500, 3_500, 7_500, 11_500]);
    assert!(sent.iter().all(|(_, text)| text == "486 of 0"));
    assert!(call.ack());
    assert_eq!(call.after(secs(60)), []);
    assert!(call.is_over());
}

#[test]
fn sip_r041_without_an_ack_it_ends_by_fr_timer_and_the_wait() {
    let mut call = Call::of(INVITE, 1);
    call.says(0, 486).did();
    assert_eq!(times(&call.after(ms(7_999))), [500, 1_500]);
    assert!(!call.is_over());
    call.after(ms(1));
    assert_eq!(call.did(), ["over"]);
}

#[test]
fn sip_r041_not_sent_again_where_nothing_is_lost() {
    let mut call = Call::of(RELIABLE, 1);
    call.says(0, 486).did();
    assert_eq!(call.after(ms(7_999)), []);
    call.after(ms(1));
    assert_eq!(call.did(), ["over"], "it waits for the ACK all the same");
}

#[test]
fn sip_r042_the_ack_of_a_failure_ends_here() {
    let mut call = Call::of(INVITE, 1);
    assert!(!call.ack(), "there is nothing to acknowledge");
    call.says(0, 486);
    assert!(call.ack() && call.ack());
    call.after(ms(4_999));
    assert!(!call.is_over());
    call.after(ms(1));
    assert!(call.is_over(), "wt_timer behind the ACK");
}

#[test]
fn sip_r042_the_ack_of_a_relayed_2xx_does_not_end_here() {
    let mut call = Call::of(INVITE, 1);
    call.says(0, 200);
    assert!(!call.ack());
}

#[test]
fn sip_r047_r049_a_relayed_2xx_is_sent_again_only_when_asked() {
    let mut call = Call::of(INVITE, 1);
    call.says(0, 200).did();
    assert_eq!(call.after(ms(4_999)), []);
    assert_eq!(call.again().as_deref(), Some("200 of 0"));
    call.after(ms(1));
    assert_eq!(call.did(), ["over"], "R155, R156: after wt_timer nobody is here");
    assert_eq!(call.again(), None);
}

#[test]
fn sip_r155_copies_of_a_2xx_do_not_prolong_the_wait() {
    let mut call = Call::of(INVITE, 2);
    for _ in 0..5 {
        call.says(0, 200).says(1, 200);
        assert!(!call.is_over());
        call.after(secs(1));
    }
    assert!(call.is_over());
}

#[test]
fn sip_r108_a_2xx_made_here_is_sent_again_until_its_ack_on_any_transport() {
    for start in [INVITE, RELIABLE] {
        let mut call = Call::new(start);
        call.replies(200);
        assert_eq!(times(&call.after(secs(2))), [500, 1_500]);
        assert!(call.ack());
        assert_eq!(call.after(secs(5)), []);
        assert!(call.is_over());
    }
}

#[test]
fn rfc6026_copies_behind_a_2xx_are_absorbed_for_64_t1() {
    let start = with(INVITE, Options { rfc6026: true, ..OPTIONS });
    let mut call = Call::of(start, 2);
    call.says(0, 200);
    assert_eq!(call.again(), None);
    call.after(ms(31_999));
    call.did();
    call.says(1, 200);
    assert_eq!(call.did(), ["200 of 1"], "Accepted");
    call.after(ms(1));
    assert!(call.is_over());

    let mut call = Call::new(start);
    call.replies(200);
    assert_eq!(call.after(secs(1)).len(), 1);
    assert!(call.ack());
    assert_eq!(call.after(ms(30_999)), []);
    assert!(!call.is_over(), "timer L");
    call.after(ms(1));
    assert!(call.is_over());
}

#[test]
fn sip_r053_cancel_goes_to_every_open_branch_once() {
    let mut call = Call::of(INVITE, 3);
    call.says(0, 180).says(1, 486).did();
    assert!(call.cancel());
    assert_eq!(call.did(), [cancel(0, Caller), cancel(2, Caller)]);
    assert!(call.cancel(), "there still is something open");
    assert_eq!(call.did(), [""; 0]);
}

#[test]
fn sip_r056_a_cancelled_branch_does_not_ring() {
    let mut call = Call::of(INVITE, 1);
    call.cancel();
    call.did();
    call.says(0, 180);
    assert_eq!(call.did(), [""; 0]);
}

#[test]
fn sip_r057_a_200_that_crosses_the_cancel_is_relayed() {
    let mut call = Call::of(INVITE, 2);
    call.cancel();
    call.did();
    call.says(0, 200);
    assert_eq!(call.did(), ["200 of 0", "settle"], "no second CANCEL");
}

#[test]
fn sip_r061_cancel_behind_the_final_does_nothing() {
    for code in [200, 486] {
        let mut call = Call::of(INVITE, 2);
        call.says(0, code).says(1, 487).did();
        assert!(!call.cancel());
        assert_eq!(call.did(), [""; 0]);
        assert_eq!(call.tm.status(), code);
    }
}

#[test]
fn sip_r062_a_cancelled_branch_that_never_ends_is_487() {
    let mut call = Call::of(INVITE, 2);
    call.says(0, 180);
    call.cancel();
    call.did();
    call.hears(0, Says::Timeout { spoke: true }).hears(1, Says::Gone);
    assert_eq!(call.did(), ["failed 0 487", "487 Request Terminated", "settle"]);
}

#[test]
fn sip_r062_what_timed_out_before_the_cancel_is_487_as_well() {
    let mut call = Call::of(INVITE, 2);
    call.times_out(0);
    call.cancel();
    call.did();
    call.says(1, 487);
    assert_eq!(call.went_up(), ["487 Request Terminated"]);
}

#[test]
fn case_s04_one_final_whether_cancel_or_timeout_comes_first() {
    let mut call = Call::of(INVITE, 1);
    assert!(call.cancel());
    call.times_out(0);
    assert_eq!(call.went_up(), ["487 Request Terminated"]);
    call.after(secs(8));
    assert!(call.is_over());

    let mut call = Call::of(INVITE, 1);
    call.times_out(0);
    assert!(!call.cancel());
    assert_eq!(call.went_up(), ["408 Request Timeout"]);
    call.after(secs(8));
    assert!(call.is_over());
}

#[test]
fn case_s05_a_repeated_cancel_cancels_once() {
    let mut call = Call::of(INVITE, 1);
    call.says(0, 180).did();
    for _ in 0..3 {
        call.cancel();
        call.after(ms(500));
    }
    call.says(0, 487);
    assert_eq!(call.did(), [&cancel(0, Caller), "failed 0 487", "487 of 0", "settle"]);
}

#[test]
fn cancel_without_branches_is_answered_here() {
    let mut call = Call::new(INVITE);
    assert!(!call.cancel());
    assert_eq!(call.did(), ["487 Request canceled", "settle"]);
    assert_eq!(call.tm.add(), None);

    let mut call = Call::new(TransactionStart { cancelled: true, ..INVITE });
    assert_eq!(call.did(), ["487 Request canceled", "settle"], "it overtook its INVITE");
    assert!(call.tm.is_cancelled());
    assert_eq!(call.tm.add(), None);
    assert!(!call.tm.may_reply(500));
}

#[test]
fn one_final_though_the_script_replies_before_the_owner_has_sent_what_it_is_told() {
    let now = Instant::now();
    let mut tm = Transaction::<u8>::new(TransactionStart { cancelled: true, ..INVITE }, now);
    assert!(!tm.may_reply(100) && tm.may_reply(404));
    tm.replied(404, "404".into(), true, now);
    assert!(!tm.may_reply(487) && !tm.may_reply(404) && tm.may_reply(200));

    let mut tm = Transaction::<u8>::new(INVITE, now);
    tm.release(now);
    assert!(!tm.may_reply(404), "nothing is owed");
}

#[test]
fn cancel_without_effect_on_what_is_no_invite() {
    let mut call = Call::of(OTHER, 1);
    assert!(!call.cancel());
    assert!(!call.tm.is_cancelled());
    call.says(0, 200);
    assert_eq!(call.did(), ["200 of 0", "settle"]);
}

#[test]
fn what_is_released_is_over_after_the_wait() {
    let mut call = Call::of(INVITE, 1);
    call.tm.release(call.now);
    call.work();
    assert_eq!(call.did(), [cancel(0, Refused), "settle".to_owned()]);
    assert_eq!(call.again(), None);
    call.after(secs(5));
    assert_eq!(call.did(), ["over"]);
}

#[test]
fn every_transaction_ends_also_one_that_nothing_is_said_to() {
    for (start, life) in [(INVITE, 180), (OTHER, 32)] {
        // Without branches; with one that never says anything; with a route that never ends.
        for begin in [0, 1, 2] {
            let mut call = Call::new(start);
            call.leg(begin.min(1));
            if begin == 2 {
                call.route = true;
                call.says(0, 404).did();
            }
            call.after(secs(life + 3));
            let expected = if begin == 2 { "404 of 0" } else { "408 Request Timeout" };
            assert_eq!(call.went_up(), [expected]);
            call.after(secs(3 + 5));
            assert_eq!(call.did(), ["over"]);
            assert_eq!(call.after(secs(1_000)), []);
            assert_eq!(call.did(), [""; 0], "once");
        }
    }
}

#[test]
fn it_ends_though_its_owner_never_sends_what_it_is_told() {
    let mut tm = Transaction::<u8>::new(INVITE, Instant::now());
    let mut ends = 0;
    while let Some(wake) = tm.wake() {
        assert!(tm.due(wake).is_none());
        ends += std::iter::from_fn(|| tm.poll()).filter(|todo| matches!(todo, Do::Over)).count();
    }
    assert_eq!(ends, 1);
}

#[test]
fn other_times_hold_from_there_on() {
    let mut call = Call::of(INVITE, 1);
    call.tm.retime(Timing { wt: secs(1), t1: ms(100), t2: ms(200), ..TIMING });
    call.says(0, 486);
    assert_eq!(times(&call.after(ms(500))), [100, 300, 500]);
    call.ack();
    call.after(secs(1));
    assert!(call.is_over());
}

#[test]
fn times_of_zero_make_no_endless_work() {
    let timing = Timing { t1: Duration::ZERO, t2: Duration::ZERO, fr: ms(10), ..TIMING };
    let mut call = Call::of(TransactionStart { timing, ..INVITE }, 1);
    call.says(0, 486);
    assert_eq!(call.after(ms(10)).len(), 9);
}
