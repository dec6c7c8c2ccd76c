//! `dispatcher`: the functions as scripts call them; the choice itself has its tests beside it.

use super::*;
use crate::settings::DispatcherTarget;

fn env() -> Rc<ScriptEnv> {
    env_with(|settings| {
        let target = |text| DispatcherTarget::parse(text).unwrap();
        let set = ["sip:10.0.0.1;priority=1", "sip:10.0.0.2;priority=5", "sip:10.0.0.3:5070"];
        settings.dispatcher.insert(1, set.map(target).to_vec());
        settings.dispatcher.insert(2, vec![target("sip:127.0.0.1:15460;weight=9")]);
    })
}

#[test]
fn targets_are_tried_one_after_the_other() {
    check_in(
        &env(),
        INVITE,
        &[
            ("KSR.dispatcher.ds_next_dst()", "int:-1"),
            ("KSR.dispatcher.ds_mark_dst()", "int:-1"),
            ("KSR.dispatcher.ds_select_dst(1, 8)", "int:1"),
            (r#"KSR.pv.get("$du")"#, "string:sip:10.0.0.2"),
            ("KSR.dispatcher.ds_next_dst()", "int:1"),
            (r#"KSR.pv.get("$du")"#, "string:sip:10.0.0.1"),
            ("KSR.dispatcher.ds_next_dst()", "int:1"),
            (r#"KSR.pv.get("$du")"#, "string:sip:10.0.0.3:5070"),
            ("KSR.dispatcher.ds_next_dst()", "int:-1"),
            (r#"KSR.pv.get("$du")"#, "string:sip:10.0.0.3:5070"),
            ("KSR.dispatcher.ds_select_dst(7, 4)", "int:-1"),
            ("KSR.dispatcher.ds_select_dst(-1, 4)", "int:-1"),
        ],
    );
    check_in(&env(), PROGRESS, &[("KSR.dispatcher.ds_select_dst(1, 4)", "int:-1")]);
}

#[test]
fn one_that_is_marked_is_not_chosen() {
    let env = env();
    check_in(
        &env,
        INVITE,
        &[
            ("KSR.dispatcher.ds_select_dst(2, 9)", "int:1"),
            (r#"KSR.pv.get("$du")"#, "string:sip:127.0.0.1:15460"),
            ("KSR.dispatcher.ds_mark_dst()", "int:1"),
            ("KSR.dispatcher.ds_select_dst(2, 9)", "int:-1"),
        ],
    );
    // Another message finds it so too.
    check_in(&env, INVITE, &[("KSR.dispatcher.ds_select_dst(2, 4)", "int:-1")]);
    assert_eq!(env.shared.dispatcher.sets(&env.settings), env.targets);
}

#[test]
fn what_is_hashed_goes_to_one_target() {
    let env = env();
    let chosen = |algorithm: i64, message: &str| {
        let body = format!(
            "assert(KSR.dispatcher.ds_select_dst(1, {algorithm}) == 1)
             KSR.pv.sets('$avp(du)', KSR.pv.get('$du'))"
        );
        let ran = run_in(&env, &body, message);
        assert_eq!(ran.end, End::Normal);
        ran.value("$avp(du)")
    };
    let calls = |from: &str, kind: &str| {
        let numbers = 0..24;
        numbers
            .map(|n| INVITE.replace(from, &kind.replace('#', &n.to_string())))
            .collect::<Vec<_>>()
    };
    for (algorithm, from, kind) in [
        (0, "Call-ID: c1", "Call-ID: c#"),
        (1, "From: \"Al\" <sip:alice@", "From: \"Al\" <sip:alice#@"),
        (2, "To: <sip:bob@", "To: <sip:bob#@"),
        (3, "INVITE sip:bob@", "INVITE sip:bob#@"),
    ] {
        let mut reached = std::collections::BTreeSet::new();
        for message in calls(from, kind) {
            let first = chosen(algorithm, &message);
            assert_eq!(chosen(algorithm, &message), first);
            reached.insert(first);
        }
        assert_eq!(reached.len(), 3, "{algorithm}");
    }
    // Without credentials they go round.
    let round: Vec<_> = (0..3).map(|_| chosen(5, INVITE)).collect();
    assert!(round[0] != round[1] && round[1] != round[2] && round[0] != round[2], "{round:?}");
    let with = "X-A: one\nProxy-Authorization: Digest username=\"u\", realm=\"r\", nonce=\"n\", \
                uri=\"sip:a\", response=\"939e7578ed9e3c518a452acee763bce9\"";
    let message = INVITE.replace("X-A: one", with);
    assert_eq!(chosen(5, &message), chosen(5, &message));
    assert!(["sip:10.0.0.1", "sip:10.0.0.2", "sip:10.0.0.3:5070"].contains(&&*chosen(6, INVITE)));
}

#[test]
fn an_algorithm_that_is_not_there_is_an_error() {
    for algorithm in [-1, 7, 10, 11, 12, 99] {
        let body = format!("KSR.dispatcher.ds_select_dst(1, {algorithm})");
        let error = run_in(&env(), &body, INVITE).error();
        assert!(error.contains(&format!("algorithm {algorithm} is not there")), "{error}");
    }
}

#[test]
fn a_source_is_a_target_by_its_address() {
    check_in(
        &env(),
        INVITE,
        &[
            ("KSR.dispatcher.ds_is_from_list(2)", "int:1"),
            ("KSR.dispatcher.ds_is_from_list(1)", "int:-1"),
            ("KSR.dispatcher.ds_is_from_list(3)", "int:-1"),
            ("KSR.dispatcher.ds_is_from_list(-1)", "int:1"),
        ],
    );
}

#[test]
fn what_is_left_of_a_choice_goes_with_the_transaction() {
    let ran = run_in(&env(), "KSR.dispatcher.ds_select_dst(1, 8)", INVITE);
    let kept = ran.context.vars.kept();
    let script = script(
        "function ksr_request_route()
            assert(KSR.dispatcher.ds_mark_dst() == 1)
            assert(KSR.dispatcher.ds_next_dst() == 1)
         end",
    );
    let mut context = Context::new(draft(INVITE), ran.context.env, Instant::now());
    context.vars = kept;
    let ran = run_script(&script, context, 1);
    assert_eq!(ran.end, End::Normal);
    assert_eq!(ran.context.draft.dst_uri.as_deref(), Some(&b"sip:10.0.0.1"[..]));
    let counts = ran.context.env.shared.dispatcher.counts(Instant::now());
    assert_eq!(counts, [], "nothing is in force without a router");
}
