//! `KSR.tm`, `KSR.tmx`, and what other functions do where the message has a transaction.

use lineway_wire::sip::draft::{Failure, Target};
use lineway_wire::sip::transaction::{Table, TransactionId};
use smallvec::smallvec;

use super::*;
use crate::sip::script::kemi::Vars;
use crate::sip::script::tm::{BranchFinal, Branches, Failed, RelayTo, RouteKind, TmWant};

mod contacts;
mod replies;

const ROUTES: [RouteKind; 6] = [
    RouteKind::Request,
    RouteKind::Reply,
    RouteKind::Branch,
    RouteKind::BranchReply,
    RouteKind::Failure,
    RouteKind::BranchFailure,
];

fn transaction() -> TransactionId {
    Table::default().insert(&draft(INVITE), ())
}

/// The context of a route, with the message that it runs for. Those of a transaction have it.
fn context(route: RouteKind) -> Context {
    let is_reply = matches!(route, RouteKind::Reply | RouteKind::BranchReply);
    let message = draft(if is_reply { PROGRESS } else { INVITE });
    let mut context = Context::new(message, env(), Instant::now());
    context.tm.route = route;
    if !matches!(route, RouteKind::Request | RouteKind::Reply) {
        context.tm.transaction = Some(transaction());
    }
    context
}

/// The same, with something changed.
fn context_with(route: RouteKind, change: impl FnOnce(&mut Context)) -> Context {
    let mut context = context(route);
    change(&mut context);
    context
}

/// A failure route: two branches side by side, the winner a 486 that rang.
fn failed() -> Failed {
    let of = |branch, code, timed_out| BranchFinal { branch, code, timed_out };
    let winner = of(0, 486, false);
    Failed { winner, winner_replied: true, finals: smallvec![winner, of(1, 408, true)] }
}

fn failure() -> Context {
    context_with(RouteKind::Failure, |context| {
        context.tm.reply_code = 486;
        context.tm.failed = Some(Box::new(failed()));
    })
}

/// The failure route of a call whose one branch, as this run of an earlier route made it, ended with
/// this status: what goes along from route to route.
pub(super) fn failure_of(earlier: &Context, code: u16) -> Context {
    let mut context = Context::new(earlier.draft.clone(), Rc::clone(&earlier.env), Instant::now());
    context.vars = earlier.vars.kept();
    let winner = BranchFinal { branch: 0, code, timed_out: code == 408 };
    let tm = &mut context.tm;
    tm.route = RouteKind::Failure;
    tm.transaction = Some(transaction());
    tm.reply_code = code;
    tm.groups.clone_from(&earlier.tm.groups);
    tm.used = Some((Bytes::copy_from_slice(earlier.draft.uri()), earlier.draft.dst_uri.clone()));
    let finals = smallvec![winner];
    tm.failed = Some(Box::new(Failed { winner, winner_replied: false, finals }));
    context
}

#[test]
fn what_needs_the_machinery_is_wanted() {
    let cancel = INVITE.replace("INVITE", "CANCEL");
    for (call, want) in [
        ("t_relay()", TmWant::Relay(None)),
        ("t_newtran()", TmWant::NewTransaction),
        ("t_check_trans()", TmWant::CheckTrans),
        ("t_lookup_request()", TmWant::LookupRequest),
        ("t_lookup_cancel()", TmWant::LookupCancel),
        ("t_reply(486, 'Busy')", TmWant::Reply { code: 486, reason: Bytes::from("Busy") }),
    ] {
        let ran = run(&format!("KSR.pv.seti('$var(got)', KSR.tm.{call})"), &cancel);
        assert_eq!(ran.wants, [Want::Tm(want)], "{call}");
        assert_eq!(ran.value("$var(got)"), "Int(1)", "what it is resumed with");
    }
    let ran = run("KSR.tmx.t_precheck_trans()", INVITE);
    assert_eq!(ran.wants, [Want::Tm(TmWant::PrecheckTrans)]);
}

#[test]
fn a_request_that_has_its_transaction_needs_not_ask_for_it() {
    let stateful =
        || context_with(RouteKind::Request, |context| context.tm.transaction = Some(transaction()));
    let ran = check_with(
        stateful(),
        &[
            ("KSR.tm.t_check_trans()", "int:1"),
            ("KSR.tm.t_lookup_request()", "int:1"),
            ("KSR.tm.t_lookup_cancel()", "int:-1"),
            ("KSR.tm.t_newtran()", "int:-10"),
            ("KSR.tmx.t_precheck_trans()", "int:-1"),
        ],
    );
    assert_eq!(ran.wants, []);
    assert_eq!(run_with(stateful(), "KSR.tm.t_release()").wants, [Want::Tm(TmWant::Release)]);
}

#[test]
fn outside_of_transactions_there_is_nothing_to_tell() {
    for message in [INVITE, PROGRESS] {
        let mut context = Context::new(draft(message), env(), Instant::now());
        context.tm.route = if message == INVITE { RouteKind::Request } else { RouteKind::Reply };
        let calls = "t_any_replied t_any_timeout t_branch_replied t_branch_timeout t_is_canceled \
                     t_is_expired t_lookup_cancel";
        let calls: Vec<_> = calls.split(' ').map(|call| format!("KSR.tm.{call}()")).collect();
        let mut expected: Vec<_> = calls.iter().map(|call| (call.as_str(), "int:-1")).collect();
        expected.push(("KSR.tm.t_grep_status(486)", "int:-1"));
        expected.push(("KSR.tm.t_check_status('486')", "int:-1"));
        expected.push(("KSR.tm.t_next_contacts()", "int:-2"));
        expected.push(("KSR.tm.t_release()", "int:1"));
        expected.push(("KSR.tmx.t_cancel_branches('all')", "int:-1"));
        expected.push(("KSR.pv.get('$T_reply_code')", "int:0"));
        expected.push(("KSR.pv.get('$T_branch_idx')", "int:0"));
        expected.push(("KSR.pv.get('$T_reply_last')", "nil:nil"));
        expected.push(("KSR.pv.get('$T_req($ru)')", "nil:nil"));
        expected.push(("KSR.pv.get('$T_rpl($rs)')", "nil:nil"));
        assert_eq!(check_with(context, &expected).wants, []);
    }
    check(PROGRESS, &[("KSR.tm.t_check_status('183')", "int:1")]);
}

#[test]
fn a_route_knows_what_it_is() {
    let of = |name: &str| match name {
        "request" => vec![RouteKind::Request],
        "branch" => vec![RouteKind::Branch],
        "reply" => vec![RouteKind::Reply, RouteKind::BranchReply],
        _ => vec![RouteKind::Failure],
    };
    for route in ROUTES {
        for name in ["request", "branch", "reply", "failure"] {
            let call = format!("KSR.tmx.t_is_{name}_route()");
            let want = if of(name).contains(&route) { "int:1" } else { "int:-1" };
            check_with(context(route), &[(&call, want)]);
        }
    }
}

#[test]
fn sip_r089_routes_are_armed_by_name_and_disarmed_by_an_empty_one() {
    let ran = check_with(
        context(RouteKind::Request),
        &[
            ("KSR.tm.t_is_set('branch_route')", "int:-1"),
            ("KSR.tm.t_on_branch('on_branch')", "int:1"),
            ("KSR.tm.t_is_set('branch_route')", "int:1"),
            ("KSR.tm.t_on_reply('on_reply')", "int:1"),
            ("KSR.tm.t_is_set('onreply_route')", "int:1"),
            ("KSR.tm.t_on_failure('on_failure')", "int:1"),
            ("KSR.tm.t_on_failure('x')", "int:1"),
            ("KSR.tm.t_is_set('failure_route')", "int:1"),
            ("KSR.tm.t_on_branch_failure('tm:branch-failure:x')", "int:1"),
            ("KSR.tm.t_is_set('nonsense')", "int:-1"),
            ("KSR.tm.t_on_reply('')", "int:1"),
            ("KSR.tm.t_is_set('onreply_route')", "int:-1"),
        ],
    );
    let armed = &ran.context.tm.armed;
    assert_eq!(armed.branch.as_deref(), Some("on_branch"));
    assert_eq!(armed.failure.as_deref(), Some("x"));
    assert_eq!((armed.reply.as_deref(), armed.branch_failure.as_deref()), (None, Some("x")));
}

#[test]
fn a_route_that_the_script_does_not_have_is_an_error() {
    let ran = run("KSR.tm.t_on_failure('nofun')", INVITE);
    let want = "test.lua:1: KSR.tm.t_on_failure: there is no function nofun";
    assert_eq!((ran.error().as_str(), ran.context.tm.armed.failure), (want, None));
    let ran = run("KSR.tm.t_on_branch('KSR')", INVITE);
    assert!(ran.error().contains("there is no function KSR"), "{}", ran.error());
}

#[test]
fn sip_r087_a_failure_route_knows_what_failed() {
    check_with(
        failure(),
        &[
            ("KSR.tm.t_check_status('486')", "int:1"),
            ("KSR.tm.t_check_status('^4[0-9][0-9]$')", "int:1"),
            ("KSR.tm.t_check_status('8')", "int:1"),
            ("KSR.tm.t_check_status('^(408|5[0-9][0-9])$')", "int:-1"),
            ("KSR.tm.t_grep_status(408)", "int:1"),
            ("KSR.tm.t_grep_status(486)", "int:1"),
            ("KSR.tm.t_grep_status(404)", "int:-1"),
            ("KSR.tm.t_grep_status(0)", "int:-1"),
            ("KSR.tm.t_grep_status(-1)", "int:-1"),
            ("KSR.tm.t_any_timeout()", "int:1"),
            ("KSR.tm.t_any_replied()", "int:1"),
            ("KSR.tm.t_branch_timeout()", "int:-1"),
            ("KSR.tm.t_branch_replied()", "int:1"),
            ("KSR.tm.t_is_canceled()", "int:-1"),
            ("KSR.pv.get('$T_reply_code')", "int:486"),
            ("KSR.pv.get('$T_branch_idx')", "int:2"),
            ("KSR.pv.get('$rs')", "nil:nil"),
            ("KSR.kx.get_method()", "string:INVITE"),
        ],
    );
    let ran = run_with(failure(), "KSR.tm.t_check_status('(')");
    assert!(ran.error().contains("KSR.tm.t_check_status: "), "{}", ran.error());
}

#[test]
fn sip_r087_silence_is_a_timeout() {
    let silent = |spoke| {
        context_with(RouteKind::Failure, |context| {
            let winner = BranchFinal { branch: 0, code: 408, timed_out: true };
            context.tm.reply_code = 408;
            let finals = smallvec![winner];
            context.tm.failed = Some(Box::new(Failed { winner, winner_replied: spoke, finals }));
        })
    };
    for (spoke, replied) in [(true, "int:1"), (false, "int:-1")] {
        check_with(
            silent(spoke),
            &[
                ("KSR.tm.t_check_status('408')", "int:1"),
                ("KSR.tm.t_branch_timeout()", "int:1"),
                ("KSR.tm.t_any_timeout()", "int:1"),
                ("KSR.tm.t_branch_replied()", replied),
                ("KSR.tm.t_any_replied()", replied),
            ],
        );
    }
}

#[test]
fn the_last_reply_of_the_winner_is_no_earlier_one() {
    let one = context_with(RouteKind::Failure, |context| {
        let winner = BranchFinal { branch: 3, code: 404, timed_out: false };
        let finals = smallvec![winner];
        context.tm.failed = Some(Box::new(Failed { winner, winner_replied: false, finals }));
    });
    check_with(one, &[("KSR.tm.t_any_replied()", "int:-1"), ("KSR.tm.t_any_timeout()", "int:-1")]);
}

#[test]
fn a_branch_failure_route_knows_its_branch() {
    let context = context_with(RouteKind::BranchFailure, |context| {
        let tm = &mut context.tm;
        (tm.branch, tm.reply_code, tm.branch_timed_out) = (Some(2), 408, true);
        tm.branch_replied = true;
        (tm.cancelled, tm.expired) = (true, true);
    });
    check_with(
        context,
        &[
            ("KSR.tm.t_branch_timeout()", "int:1"),
            ("KSR.tm.t_branch_replied()", "int:1"),
            ("KSR.tm.t_check_status('408')", "int:1"),
            ("KSR.tm.t_is_canceled()", "int:1"),
            ("KSR.tm.t_is_expired()", "int:1"),
            ("KSR.pv.get('$T_branch_idx')", "int:2"),
        ],
    );
}

#[test]
fn sip_r038_times_are_set_and_set_back() {
    let ran = check_with(
        context(RouteKind::Request),
        &[
            ("KSR.tm.t_set_fr(2000, 1000)", "int:1"),
            ("KSR.tm.t_set_fr(0, 500)", "int:1"),
            ("KSR.tm.t_set_fr(0, 0)", "int:1"),
            ("KSR.tm.t_set_fr(-1, 700)", "int:-1"),
            ("KSR.tm.t_set_fr(100000000, 0)", "int:-1"),
            ("KSR.tm.t_set_retr(300, 0)", "int:1"),
            ("KSR.tm.t_set_retr(1, -5)", "int:-1"),
            ("KSR.tm.t_set_max_lifetime(0, 5000)", "int:1"),
        ],
    );
    let timing = ran.context.tm.timing;
    let millis = |millis| Some(Duration::from_millis(millis));
    assert_eq!((timing.fr_inv, timing.fr), (millis(2000), millis(500)));
    assert_eq!((timing.t1, timing.t2), (millis(300), None));
    assert_eq!((timing.max_inv, timing.max_noninv), (None, millis(5000)));

    let ran = check_with(
        ran.context,
        &[
            ("KSR.tm.t_set_fr_inv(900)", "int:1"),
            ("KSR.tm.t_reset_fr()", "int:1"),
            ("KSR.tm.t_reset_retr()", "int:1"),
        ],
    );
    let (timing, settings) = (ran.context.tm.timing, SipRouterSettings::default().stateful);
    assert_eq!(timing.fr, Some(settings.fr_timer.duration()));
    assert_eq!(timing.fr_inv, Some(settings.fr_inv_timer.duration()));
    assert_eq!(timing.t1, Some(settings.retr_timer1.duration()));
    assert_eq!(timing.t2, Some(settings.retr_timer2.duration()));
}

#[test]
fn sip_r094_which_replies_are_dropped_is_the_scripts_choice() {
    for (call, dropped) in [
        ("KSR.tm.t_drop_replies('n')", Some('n')),
        ("KSR.tm.t_drop_replies('l')", Some('l')),
        ("KSR.tm.t_drop_replies_all()", Some('a')),
    ] {
        assert_eq!(check_with(failure(), &[(call, "int:1")]).context.tm.drop_replies, dropped);
    }
    for bad in ["", "x", "all"] {
        let ran = check_with(failure(), &[(&format!("KSR.tm.t_drop_replies('{bad}')"), "int:-1")]);
        assert_eq!(ran.context.tm.drop_replies, None);
    }
}

#[test]
fn branches_are_cancelled_from_a_reply_route() {
    for (text, which) in
        [("all", Branches::All), ("others", Branches::Others), ("this", Branches::This)]
    {
        let call = format!("KSR.tmx.t_cancel_branches('{text}')");
        let ran = check_with(context(RouteKind::BranchReply), &[(&call, "int:1")]);
        assert_eq!(ran.context.tm.cancel_branches, Some(which));
        let ran = check_with(failure(), &[(&call, "int:-1")]);
        assert_eq!(ran.context.tm.cancel_branches, None);
    }
    check_with(context(RouteKind::BranchReply), &[("KSR.tmx.t_cancel_branches('x')", "int:-1")]);
}

#[test]
fn a_destination_may_be_given() {
    let ran = run("KSR.tm.t_relay_to_proto_addr('tcp', '[::1]', 5062)", INVITE);
    let to = RelayTo { transport: Transport::Tcp, host: Bytes::from("[::1]"), port: 5062 };
    assert_eq!(ran.wants, [Want::Tm(TmWant::Relay(Some(to)))]);
    let ran = check(
        INVITE,
        &[
            ("KSR.tm.t_relay_to_proto_addr('xyz', '10.0.0.1', 5060)", "int:-1"),
            ("KSR.tm.t_relay_to_proto_addr('udp', '', 5060)", "int:-1"),
            ("KSR.tm.t_relay_to_proto_addr('udp', 'a b', 5060)", "int:-1"),
            ("KSR.tm.t_relay_to_proto_addr('udp', '10.0.0.1', 70000)", "int:-1"),
            ("KSR.tm.t_relay_to_proto_addr('udp', '10.0.0.1', -1)", "int:-1"),
        ],
    );
    assert_eq!(ran.wants, []);
}

#[test]
fn what_makes_no_sense_in_a_route_is_an_error_that_says_so() {
    let says = |route: RouteKind, call: &str, name: &str| {
        let ran = run_with(context(route), call);
        assert_eq!(ran.wants, []);
        let want = format!("test.lua:1: {name}: it can not be called in {}", route.as_str());
        assert_eq!(ran.error(), want);
    };
    for route in
        [RouteKind::Reply, RouteKind::Branch, RouteKind::BranchReply, RouteKind::BranchFailure]
    {
        says(route, "KSR.tm.t_relay()", "KSR.tm.t_relay");
        let call = "KSR.tm.t_relay_to_proto_addr('udp', '10.0.0.1', 5060)";
        says(route, call, "KSR.tm.t_relay_to_proto_addr");
    }
    let routes =
        [RouteKind::Branch, RouteKind::BranchReply, RouteKind::Failure, RouteKind::BranchFailure];
    for route in routes {
        says(route, "KSR.forward()", "KSR.forward");
        says(route, "KSR.forward_uri('sip:10.0.0.1')", "KSR.forward_uri");
        says(route, "KSR.sl.sl_forward_reply('180', '')", "KSR.sl.sl_forward_reply");
    }
    assert_eq!(run_with(failure(), "KSR.tm.t_relay()").wants, [Want::Tm(TmWant::Relay(None))]);
}

#[test]
fn sip_r086_a_target_that_the_script_sets_is_a_branch_of_its_own() {
    let used = |body: &str| {
        let mut context = failure();
        context.tm.used = Some((Bytes::from("sip:bob@example.com"), None));
        run_with(context, body).context.tm.used.is_some()
    };
    assert!(used("KSR.corex.append_branch()"), "the target itself is not another for it");
    assert!(used("KSR.corex.append_branch_uri('sip:carl@example.com')"));
    for body in [
        "KSR.seturi(KSR.kx.get_ruri())",
        "KSR.pv.sets('$rU', 'carl')",
        "KSR.sethost('10.0.0.1')",
        "KSR.pv.sets('$du', 'sip:10.0.0.1')",
        "KSR.setdsturi('')",
        "KSR.resetdsturi()",
        "KSR.pv.unset('$du')",
    ] {
        assert!(!used(body), "{body}");
    }
}

#[test]
fn the_other_message_of_a_transaction_is_read() {
    let reply = context_with(RouteKind::BranchReply, |context| {
        context.tm.other = Some(Rc::new(draft(INVITE)));
        (context.tm.branch, context.tm.reply_code) = (Some(1), 183);
    });
    check_with(
        reply,
        &[
            ("KSR.pv.get('$T_req($ru)')", "string:sip:bob@example.com"),
            ("KSR.pv.get('$T_req($hdr(X-A))')", "string:one"),
            ("KSR.pv.get('$T_req($(hdr(X-A)[1]))')", "string:two"),
            ("KSR.pv.get('$T_req($sp)')", "int:15460"),
            ("KSR.pv.get('$T_rpl($rs)')", "nil:nil"),
            ("KSR.pv.get('$T_reply_code')", "int:183"),
            ("KSR.pv.get('$T_reply_last')", "int:183"),
            ("KSR.pv.get('$T_branch_idx')", "int:1"),
            ("KSR.pv.get('$rs')", "int:183"),
            ("KSR.pv.get('$_s(from $T_req($fU))')", "string:from alice"),
            ("KSR.pv.sets('$T_req($ru)', 'sip:x@y')", "boolean:false"),
        ],
    );
    let mut failure = failure();
    failure.tm.other = Some(Rc::new(draft(PROGRESS)));
    check_with(
        failure,
        &[
            ("KSR.pv.get('$T_rpl($rs)')", "int:183"),
            ("KSR.pv.get('$T_rpl($rr)')", "string:Session Progress"),
            ("KSR.pv.get('$T_req($rm)')", "nil:nil"),
            ("KSR.pv.get('$rm')", "string:INVITE"),
        ],
    );
}

#[test]
fn avps_go_with_the_transaction_and_variables_do_not() {
    let ran = run(
        "KSR.pv.sets('$avp(a)', 'one'); KSR.pv.sets('$avp(a)', 'two')
        KSR.pv.sets('$xavp(x=>k)', 'deep'); KSR.pv.sets('$var(v)', 'gone')",
        INVITE,
    );
    let with =
        |vars: &Vars| context_with(RouteKind::BranchReply, |context| context.vars = vars.kept());
    check_with(
        with(&ran.context.vars),
        &[
            ("KSR.pv.get('$(avp(a)[*])')", "string:two, one"),
            ("KSR.pv.get('$xavp(x=>k)')", "string:deep"),
            ("KSR.pv.get('$var(v)')", "int:0"),
        ],
    );
    // What is kept counts, what is not does not.
    let mut vars = Vars::new();
    for _ in 0..40 {
        let ran = run_with(with(&vars), "KSR.pv.sets('$var(v)', ('x'):rep(60000))");
        assert_eq!(ran.end, End::Normal);
        vars = ran.context.vars;
    }
    let body = "for i = 1, 10 do KSR.pv.sets('$avp(a)', ('x'):rep(60000)) end";
    let ran = run_with(with(&vars), body);
    assert_eq!(ran.end, End::Normal);
    assert!(run_with(with(&ran.context.vars), body).error().contains("holds more than 1 MiB"));
}
