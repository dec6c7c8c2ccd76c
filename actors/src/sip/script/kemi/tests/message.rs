//! `KSR`, `kx`, `siputils`, `corex`, `sl`, `maxfwd`, `sanity`, `rr`, `nathelper`.

use super::*;

#[test]
fn questions_about_the_method() {
    check(
        INVITE,
        &[
            (r#"KSR.is_method("INVITE")"#, "boolean:true"),
            (r#"KSR.is_method("invite")"#, "boolean:true"),
            (r#"KSR.is_method("ACK|INVITE")"#, "boolean:true"),
            (r#"KSR.is_method("ACK|BYE")"#, "boolean:false"),
            (r#"KSR.is_method_in("IABC")"#, "boolean:true"),
            (r#"KSR.is_method_in("ROSN")"#, "boolean:false"),
            ("KSR.is_INVITE()", "boolean:true"),
            ("KSR.is_ACK()", "boolean:false"),
            ("KSR.is_UDP()", "boolean:true"),
            ("KSR.is_TCP()", "boolean:false"),
        ],
    );
    let letters = "ACK A,BYE B,CANCEL C,OPTIONS O,REGISTER R,PRACK E,SUBSCRIBE S,NOTIFY N,PUBLISH P,REFER F,\
                   MESSAGE M,UPDATE U";
    for (method, letter) in letters.split(',').map(|pair| pair.split_once(' ').unwrap()) {
        check(
            &INVITE.replace("INVITE", method),
            &[
                (&format!("KSR.is_method_in('{letter}')"), "boolean:true"),
                (&format!("KSR.is_{method}()"), "boolean:true"),
                ("KSR.is_INVITE()", "boolean:false"),
            ],
        );
    }
    check(
        &INVITE.replace("INVITE", "INFO"),
        &[
            (r#"KSR.is_method_in("ABCDEFGHIJKLMNOPQRSTUVWXYZ")"#, "boolean:false"),
            ("KSR.is_INFO()", "boolean:true"),
        ],
    );
    check(
        PROGRESS,
        &[("KSR.is_INVITE()", "boolean:true"), (r#"KSR.is_method("INVITE")"#, "boolean:true")],
    );
}

#[test]
fn own_names_are_sockets_and_aliases() {
    let ran = check(
        INVITE,
        &[
            (r#"KSR.is_myself("sip:127.0.0.1:25460")"#, "boolean:true"),
            (r#"KSR.is_myself("sip:x@127.0.0.1:25461")"#, "boolean:false"),
            (r#"KSR.is_myself("sip:x@EXAMPLE.com:99")"#, "boolean:true"),
            (r#"KSR.is_myself("127.0.0.1")"#, "boolean:true"),
            (r#"KSR.is_myself("example.com")"#, "boolean:true"),
            (r#"KSR.is_myself("127.0.0.1:25460")"#, "boolean:true"),
            (r#"KSR.is_myself("127.0.0.1:5060")"#, "boolean:false"),
            (r#"KSR.is_myself("udp:127.0.0.1:25460")"#, "boolean:true"),
            (r#"KSR.is_myself("127.0.0.2")"#, "boolean:false"),
            (r#"KSR.is_myself("tel:+123")"#, "boolean:false"),
            (r#"KSR.is_myself("nonsense:x")"#, "boolean:false"),
            (r#"KSR.is_myself("")"#, "boolean:false"),
            ("KSR.is_myself_ruri()", "boolean:true"),
            (r#"KSR.seturi("sip:x@elsewhere.net")"#, "boolean:true"),
            ("KSR.is_myself_ruri()", "boolean:false"),
            ("KSR.is_myself_srcip()", "boolean:true"),
        ],
    );
    assert_eq!(ran.end, End::Normal);
    let own = INVITE.replace("<sip:alice@127.0.0.1>", "<sip:alice@example.com>");
    check(
        &own,
        &[("KSR.is_myself_furi()", "boolean:true"), ("KSR.is_myself_turi()", "boolean:false")],
    );
    check(PROGRESS, &[("KSR.is_myself_ruri()", "boolean:false")]);
}

#[test]
fn flags_are_0_to_31() {
    check(
        INVITE,
        &[
            ("KSR.isflagset(3)", "boolean:false"),
            ("KSR.setflag(3)", "boolean:true"),
            ("KSR.isflagset(3)", "boolean:true"),
            ("KSR.isbflagset(3)", "boolean:false"),
            ("KSR.resetflag(3)", "boolean:true"),
            ("KSR.isflagset(3)", "boolean:false"),
            ("KSR.setflag(31)", "boolean:true"),
            ("KSR.setflag(32)", "boolean:false"),
            ("KSR.setflag(-1)", "boolean:false"),
            ("KSR.isflagset(32)", "boolean:false"),
            ("KSR.setbflag(0)", "boolean:true"),
            ("KSR.isbflagset(0)", "boolean:true"),
            ("KSR.resetbflag(0)", "boolean:true"),
            ("KSR.isbflagset(0)", "boolean:false"),
        ],
    );
}

#[test]
fn where_it_goes_is_set_by_functions_too() {
    let ran = check(
        INVITE,
        &[
            ("KSR.isdsturiset()", "boolean:false"),
            (r#"KSR.setdsturi("sip:1.2.3.4")"#, "boolean:true"),
            ("KSR.isdsturiset()", "boolean:true"),
            ("KSR.resetdsturi()", "boolean:true"),
            ("KSR.isdsturiset()", "boolean:false"),
            (r#"KSR.setdsturi("")"#, "boolean:true"),
            (r#"KSR.seturi("sip:u:pw@h:5061;a=b")"#, "boolean:true"),
            (r#"KSR.setuser("carl")"#, "boolean:true"),
            (r#"KSR.sethost("example.net")"#, "boolean:true"),
            (r#"KSR.pv.get("$ru")"#, "string:sip:carl:pw@example.net:5061;a=b"),
            (r#"KSR.sethost("example.net:5099")"#, "boolean:false"),
            (r#"KSR.setuser("")"#, "boolean:true"),
            (r#"KSR.pv.get("$ru")"#, "string:sip:example.net:5061;a=b"),
            (r#"KSR.seturi("bad uri")"#, "boolean:false"),
            (r#"KSR.seturi("tel:+123;a=b")"#, "boolean:true"),
            (r#"KSR.setuser("9")"#, "boolean:true"),
            ("KSR.kx.get_ruri()", "string:tel:9;a=b"),
            ("KSR.add_local_rport()", "boolean:true"),
            ("KSR.force_rport()", "boolean:true"),
            ("KSR.set_reply_close()", "boolean:true"),
            ("KSR.set_reply_no_connect()", "boolean:true"),
        ],
    );
    let draft = &ran.context.draft;
    assert!(draft.local_rport && draft.force_rport && draft.reply_close && draft.reply_no_connect);
}

#[test]
fn kx_has_what_is_asked_for_most() {
    check(
        INVITE,
        &[
            ("KSR.kx.get_body()", "string:hello"),
            ("KSR.kx.get_callid()", "string:c1@127.0.0.1"),
            ("KSR.kx.get_furi()", "string:sip:alice@127.0.0.1"),
            ("KSR.kx.get_method()", "string:INVITE"),
            ("KSR.kx.get_ruri()", "string:sip:bob@example.com"),
            ("KSR.kx.get_srcip()", "string:127.0.0.1"),
            ("KSR.kx.get_srcport()", "int:15460"),
            ("KSR.kx.get_status()", "int:-1"),
            ("KSR.kx.get_turi()", "string:sip:bob@127.0.0.1"),
            ("KSR.kx.get_ua()", "string:PBX"),
            ("KSR.kx.gete_fhost()", "string:127.0.0.1"),
            ("KSR.kx.gete_fuser()", "string:alice"),
            ("KSR.kx.gete_rhost()", "string:example.com"),
            ("KSR.kx.gete_ruser()", "string:bob"),
            ("KSR.kx.gete_ua()", "string:PBX"),
            (r#"KSR.kx.ifdef("X")"#, "boolean:false"),
        ],
    );
    check(
        PROGRESS,
        &[
            ("KSR.kx.get_status()", "int:183"),
            ("KSR.kx.get_ruri()", "nil:nil"),
            ("KSR.kx.gete_ruser()", "string:"),
            ("KSR.kx.get_ua()", "nil:nil"),
            ("KSR.kx.gete_ua()", "string:"),
            ("KSR.kx.get_body()", "nil:nil"),
        ],
    );
}

#[test]
fn ifdef_tells_the_mode() {
    use crate::settings::SipMode;
    for (mode, is_stateful) in
        [(SipMode::Stateful, "boolean:true"), (SipMode::Stateless, "boolean:false")]
    {
        let env = env_with(|settings| settings.mode = mode);
        check_in(&env, INVITE, &[(r#"KSR.kx.ifdef("STATEFUL")"#, is_stateful)]);
    }
}

#[test]
fn siputils_and_corex_tell_and_add() {
    let ran = check(
        INVITE,
        &[
            ("KSR.siputils.has_totag()", "int:-1"),
            ("KSR.siputils.is_first_hop()", "int:1"),
            ("KSR.siputils.is_reply()", "int:-1"),
            ("KSR.siputils.is_request()", "int:1"),
            (r#"KSR.siputils.is_tel_number("+123")"#, "int:1"),
            (r#"KSR.siputils.is_tel_number("12a") < 0"#, "boolean:true"),
            ("KSR.corex.has_ruri_user()", "int:1"),
            ("KSR.corex.append_branch()", "int:1"),
            (r#"KSR.corex.append_branch_uri("sip:x@y")"#, "int:1"),
            (r#"KSR.corex.append_branch_uri_q("sip:x@z", "0.5")"#, "int:1"),
            (r#"KSR.corex.append_branch_uri_q("sip:x@z", "x")"#, "int:-1"),
            (r#"KSR.corex.append_branch_uri("b\r\nd")"#, "int:-1"),
            (r#"KSR.pv.get("$branch(count)")"#, "int:3"),
            (r#"KSR.pv.get("$(branch(uri)[0])")"#, "string:sip:bob@example.com"),
            (r#"KSR.pv.get("$(branch(uri)[1])")"#, "string:sip:x@y"),
            (r#"KSR.pv.get("$(branch(q)[2])")"#, "int:500"),
            (r#"KSR.pv.get("$(branch(uri)[3])")"#, "nil:nil"),
            (r#"KSR.seturi("sip:example.com")"#, "boolean:true"),
            ("KSR.corex.has_ruri_user()", "int:-1"),
        ],
    );
    assert_eq!(ran.context.draft.branches[1].uri, "sip:x@y");
    check(
        PROGRESS,
        &[
            ("KSR.corex.append_branch()", "int:-1"),
            ("KSR.siputils.is_reply()", "int:1"),
            ("KSR.siputils.has_totag()", "int:1"),
        ],
    );
}

#[test]
fn branches_are_no_more_than_the_setting_allows() {
    let env = env_with(|settings| settings.max_branches = 3);
    check_in(
        &env,
        INVITE,
        &[
            ("KSR.corex.append_branch()", "int:1"),
            ("KSR.corex.append_branch()", "int:1"),
            ("KSR.corex.append_branch()", "int:-1"),
        ],
    );
}

#[test]
fn sip_r103_a_reply_is_made_of_the_request() {
    let ran = run(
        r#"KSR.hdr.append_to_reply("X-R: 4\r\n"); KSR.sl.sl_send_reply(404, "Not here")"#,
        INVITE,
    );
    assert_eq!(ran.replies(), ["SIP/2.0 404 Not here"]);
    assert!(ran.context.answered);
    let (text, way) = ran.sent_reply();
    assert!(text.contains("\r\nX-R: 4\r\n"), "{text}");
    assert_eq!(way.to.to_string(), "127.0.0.1:15060");
    assert!(way.may_connect && !way.close_after);
}

#[test]
fn a_reply_goes_the_way_that_the_script_wants() {
    let ran = run(
        r#"KSR.set_reply_close(); KSR.set_reply_no_connect(); KSR.force_rport(); KSR.sl.send_reply(180, "Ringing")"#,
        INVITE,
    );
    let (_, way) = ran.sent_reply();
    assert!(way.close_after && !way.may_connect);
    assert_eq!(way.to.port(), 15460);
    assert!(!ran.context.answered, "180 is not final");
}

#[test]
fn sip_r106_nothing_answers_an_ack() {
    let ack = INVITE.replace("INVITE", "ACK");
    let ran = check(
        &ack,
        &[
            (r#"KSR.sl.sl_send_reply(200, "OK")"#, "int:-1"),
            (r#"KSR.sl.send_reply(404, "x")"#, "int:-1"),
            ("KSR.sl.sl_reply_error()", "int:-1"),
        ],
    );
    assert_eq!(ran.replies(), [""; 0]);
}

#[test]
fn a_reply_that_can_not_be_written_is_not_sent() {
    let ran = check(
        INVITE,
        &[
            (r#"KSR.sl.sl_send_reply(99, "x")"#, "int:-1"),
            (r#"KSR.sl.sl_send_reply(700, "x")"#, "int:-1"),
            (r#"KSR.sl.sl_send_reply(404, "a\r\nX: y")"#, "int:-1"),
            (r#"KSR.sl.sl_send_reply(200, "")"#, "int:1"),
        ],
    );
    assert_eq!(ran.replies(), ["SIP/2.0 200 "]);
    check(PROGRESS, &[(r#"KSR.sl.send_reply(404, "x")"#, "int:-1")]);
}

#[test]
fn sl_reply_error_tells_what_failed_last() {
    let ran = run("KSR.sl.sl_reply_error()", INVITE);
    assert_eq!(ran.replies(), ["SIP/2.0 500 I'm terribly sorry, server error occurred (1/SL)"]);
    let script = script("function ksr_request_route() KSR.sl.sl_reply_error() end");
    let mut context = Context::new(draft(INVITE), env(), Instant::now());
    context.draft.failure = Some(lineway_wire::sip::hop::UNRESOLVABLE);
    let ran = run_script(&script, context, 1);
    assert_eq!(ran.replies(), ["SIP/2.0 478 Unresolvable destination (478/SL)"]);
}

#[test]
fn forward_waits_and_gives_what_came_of_it() {
    let ran = check(
        INVITE,
        &[
            ("KSR.forward()", "int:1"),
            (r#"KSR.forward_uri("sip:1.2.3.4")"#, "int:1"),
            (r#"KSR.forward_uri("")"#, "int:1"),
        ],
    );
    let uri = Some(Bytes::from_static(b"sip:1.2.3.4"));
    let want = [None, uri, None].map(|uri| Want::Forward { uri });
    assert_eq!(ran.wants, want);
    check(PROGRESS, &[("KSR.forward()", "int:-1")]);
}

#[test]
fn a_reply_goes_on_with_another_status_of_its_class() {
    let ran = check(
        PROGRESS,
        &[
            (r#"KSR.sl.sl_forward_reply("199", "foo")"#, "int:1"),
            (r#"KSR.sl.sl_forward_reply("", "")"#, "int:1"),
            (r#"KSR.sl.sl_forward_reply("99", "foo")"#, "int:-1"),
            (r#"KSR.sl.sl_forward_reply("abc", "foo")"#, "int:-1"),
            (r#"KSR.sl.sl_forward_reply("200", "foo")"#, "int:-1"),
            (r#"KSR.sl.sl_forward_reply("", "a\nb")"#, "int:-1"),
        ],
    );
    let reason = Some(Bytes::from_static(b"foo"));
    let want = [(Some(199), reason), (None, None)];
    assert_eq!(ran.wants, want.map(|(code, reason)| Want::ForwardReply { code, reason }));
    check(INVITE, &[(r#"KSR.sl.sl_forward_reply("200", "x")"#, "int:-1")]);
}

#[test]
fn sip_r010_max_forwards_is_a_function_of_the_script() {
    let ran = check(
        INVITE,
        &[
            ("KSR.maxfwd.is_maxfwd_lt(71)", "int:1"),
            ("KSR.maxfwd.is_maxfwd_lt(70)", "int:-1"),
            ("KSR.maxfwd.process_maxfwd(10)", "int:1"),
        ],
    );
    assert!(!ran.context.draft.lumps.is_empty());
    check(
        &INVITE.replace("Forwards: 70", "Forwards: 0"),
        &[("KSR.maxfwd.process_maxfwd(10)", "int:-1")],
    );
    check(
        &INVITE.replace("Forwards: 70", "Forwards: x"),
        &[("KSR.maxfwd.process_maxfwd(10)", "int:-2")],
    );
    check(&INVITE.replace("Max-Forwards: 70\n", ""), &[("KSR.maxfwd.process_maxfwd(10)", "int:2")]);
}

#[test]
fn case_s28_what_is_not_sane_is_answered_by_the_check() {
    let ran = check(INVITE, &[("KSR.sanity.sanity_check(17895, 7)", "int:1")]);
    assert_eq!(ran.replies(), [""; 0]);
    let bad = INVITE.replace("CSeq: 1 INVITE", "CSeq: 1 BYE");
    let ran = check(&bad, &[("KSR.sanity.sanity_check(17895, 7)", "int:-1")]);
    assert!(ran.replies()[0].starts_with("SIP/2.0 400 "), "{:?}", ran.replies());
}

#[test]
fn sip_r112_record_route_is_a_function_of_the_script() {
    check(
        INVITE,
        &[
            ("KSR.rr.loose_route()", "int:-1"),
            (r#"KSR.rr.add_rr_param(";a=b")"#, "int:1"),
            ("KSR.rr.record_route()", "int:1"),
            ("KSR.rr.record_route()", "int:-1"),
            (r#"KSR.rr.record_route_preset("1.2.3.4:5", "")"#, "int:-1"),
            (r#"KSR.rr.check_route_param("x")"#, "int:-1"),
            (r#"KSR.rr.is_direction("downstream")"#, "int:1"),
            (r#"KSR.rr.is_direction("bad") < 0"#, "boolean:true"),
        ],
    );
}

#[test]
fn nathelper_sees_through_a_nat() {
    check(
        INVITE,
        &[
            ("KSR.nathelper.nat_uac_test(16)", "int:1"),
            ("KSR.nathelper.nat_uac_test(1)", "int:-1"),
            ("KSR.nathelper.set_contact_alias()", "int:1"),
        ],
    );
    check(INVITE, &[("KSR.nathelper.fix_nated_contact()", "int:1")]);
    let aliased = INVITE.replace("sip:bob@example.com", "sip:bob@10.0.0.1;alias=1.2.3.4~5~1");
    check(
        &aliased,
        &[
            ("KSR.nathelper.handle_ruri_alias()", "int:1"),
            (r#"KSR.pv.get("$du")"#, "string:sip:1.2.3.4:5"),
        ],
    );
}

#[test]
fn exit_ends_and_drop_drops() {
    let ran = run("pcall(KSR.x.exit) KSR.setflag(1)", INVITE);
    assert_eq!((ran.end, ran.context.draft.flags), (End::Normal, 0));
    let ran = run("KSR.x.drop() KSR.setflag(1)", PROGRESS);
    assert_eq!((ran.end, ran.context.draft.flags), (End::Dropped, 0));
    let ran = run("KSR.drop() KSR.setflag(1)", PROGRESS);
    assert_eq!((ran.end, ran.context.draft.flags), (End::Dropped, 2));
}
