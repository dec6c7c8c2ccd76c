//! Who answers: the transaction where there is one, `sl` where there is none.

use super::*;

const UNRESOLVABLE: Failure = Failure { code: 478, reason: "Unresolvable destination" };

/// A request that has its transaction.
fn stateful() -> Context {
    context_with(RouteKind::Request, |context| context.tm.transaction = Some(transaction()))
}

#[test]
fn sip_r108_what_answers_does_it_by_the_transaction() {
    let body = r#"
        KSR.hdr.append_to_reply("X-R: 1\r\n")
        KSR.sl.send_reply(183, "Wait")
        KSR.hdr.append_to_reply("X-R: 2\r\n")
        KSR.tm.t_reply(404, "Not here")"#;
    let ran = run_with(stateful(), body);
    let line = |text: &str| Bytes::from(format!("X-R: {text}\r\n"));
    let want = [
        Effect::Reply { code: 183, reason: "Wait".into(), lines: vec![line("1")] },
        Effect::Reply { code: 404, reason: "Not here".into(), lines: vec![line("1"), line("2")] },
    ];
    assert_eq!(ran.context.effects, want);
    assert!(ran.context.answered);
    assert_eq!(ran.wants, []);
}

#[test]
fn sl_is_without_state_whatever_there_is() {
    let ran = run_with(stateful(), "KSR.sl.sl_send_reply(404, 'Not here')");
    assert_eq!(ran.replies(), ["SIP/2.0 404 Not here"]);
}

#[test]
fn sanity_answers_by_the_transaction_too() {
    let mut context = stateful();
    context.draft = draft(&INVITE.replace("CSeq: 1 INVITE", "CSeq: 1 BYE"));
    let ran = run_with(context, "KSR.sanity.sanity_check(17895, 7)");
    assert_eq!(ran.replies().len(), 1);
    assert!(ran.replies()[0].starts_with("400 "), "{:?}", ran.replies());
}

#[test]
fn there_is_one_final_reply() {
    let ran = check_with(
        stateful(),
        &[
            ("KSR.tm.t_reply(99, 'x')", "int:-1"),
            ("KSR.tm.t_reply(700, 'x')", "int:-1"),
            ("KSR.tm.t_reply(404, 'x\\r\\n')", "int:-1"),
            ("KSR.tm.t_reply(180, 'Ringing')", "int:1"),
            ("KSR.tm.t_reply(404, 'Not here')", "int:1"),
            ("KSR.tm.t_reply(405, 'No')", "int:-1"),
            ("KSR.tm.t_reply(180, 'Ringing')", "int:-1"),
            ("KSR.sl.send_reply(406, 'No')", "int:-1"),
            ("KSR.tm.t_relay()", "int:-1"),
        ],
    );
    assert_eq!(ran.replies(), ["180 Ringing", "404 Not here"]);
    assert_eq!(ran.wants, []);
}

#[test]
fn sip_r090_a_failure_route_answers_in_place_of_the_failure() {
    let ran = check_with(failure(), &[("KSR.tm.t_reply(480, 'Later')", "int:1")]);
    assert_eq!(ran.replies(), ["480 Later"]);
    let ran = check_with(failure(), &[("KSR.sl.send_reply(480, 'Later')", "int:1")]);
    assert_eq!(ran.replies(), ["480 Later"]);
}

#[test]
fn a_reply_route_ends_the_call_and_a_branch_route_does_not() {
    let refuse =
        [("KSR.tm.t_reply(433, 'No')", "int:1"), ("KSR.sl.send_reply(433, 'No')", "int:-1")];
    let ran = check_with(context(RouteKind::BranchReply), &refuse);
    assert_eq!(ran.replies(), ["433 No"]);
    for route in [RouteKind::Branch, RouteKind::BranchFailure, RouteKind::Reply] {
        let refuse =
            [("KSR.tm.t_reply(433, 'No')", "int:-1"), ("KSR.sl.send_reply(433, 'No')", "int:-1")];
        let ran = check_with(context(route), &refuse);
        assert_eq!((ran.replies().len(), ran.wants.len()), (0, 0));
    }
    // What checks a request does not answer for a reply.
    let ran = run_with(context(RouteKind::BranchReply), "KSR.sanity.sanity_check(17895, 7)");
    assert_eq!(ran.replies(), [""; 0]);
}

#[test]
fn nothing_answers_an_ack_by_a_transaction() {
    let mut context = context(RouteKind::Request);
    context.draft = draft(&INVITE.replace("INVITE", "ACK"));
    let ran = check_with(context, &[("KSR.tm.t_reply(404, 'x')", "int:-1")]);
    assert_eq!((ran.replies().len(), ran.wants.len()), (0, 0));
}

#[test]
fn sip_r102_a_relay_that_failed_is_answered_once() {
    let owes = |mut context: Context| {
        context.tm.owed = Some(UNRESOLVABLE);
        context.draft.failure = Some(UNRESOLVABLE);
        context
    };
    let once = [("KSR.sl.sl_reply_error()", "int:1")];
    let ran = check_with(owes(stateful()), &once);
    assert_eq!(ran.replies(), ["478 Unresolvable destination (478/TM)"]);
    assert_eq!(ran.context.tm.owed, None, "the end of the route has nothing to answer");
    let ran = check_with(owes(failure()), &once);
    assert_eq!(ran.replies(), ["478 Unresolvable destination (478/TM)"]);
    let ran = check_with(owes(context(RouteKind::Request)), &once);
    assert_eq!(ran.replies(), ["SIP/2.0 478 Unresolvable destination (478/SL)"]);
    assert_eq!(ran.context.tm.owed, None);
}

#[test]
fn an_error_that_nothing_says_more_of_is_500() {
    let ran = run_with(stateful(), "KSR.sl.sl_reply_error()");
    assert_eq!(ran.replies(), ["500 I'm terribly sorry, server error occurred (1/TM)"]);
}

#[test]
fn a_script_with_an_answer_of_its_own_owes_nothing() {
    for call in ["KSR.tm.t_reply", "KSR.sl.send_reply", "KSR.sl.sl_send_reply"] {
        let mut context = stateful();
        context.tm.owed = Some(UNRESOLVABLE);
        let ran = run_with(context, &format!("{call}(480, 'Later')"));
        assert_eq!(ran.replies(), ["480 Later"], "{call}");
        assert_eq!(ran.context.tm.owed, None, "{call}");
    }
}

#[test]
fn changes_are_not_applied_behind_the_start_of_a_transaction() {
    check_with(stateful(), &[("KSR.textopsx.msg_apply_changes()", "int:-1")]);
    check_with(failure(), &[("KSR.textopsx.msg_apply_changes()", "int:-1")]);
    check_with(context(RouteKind::BranchReply), &[("KSR.textopsx.msg_apply_changes()", "int:1")]);
    check_with(context(RouteKind::Request), &[("KSR.textopsx.msg_apply_changes()", "int:1")]);
}
