//! Pseudo-variables.

use super::*;

#[test]
fn a_request_has_these_values() {
    check(
        INVITE,
        &[
            (r#"KSR.pv.get("$ru")"#, "string:sip:bob@example.com"),
            (r#"KSR.pv.get("$rU")"#, "string:bob"),
            (r#"KSR.pv.get("$rd")"#, "string:example.com"),
            (r#"KSR.pv.get("$rp")"#, "string:5060"),
            (r#"KSR.pv.get("$rP")"#, "string:UDP"),
            (r#"KSR.pv.get("$rz")"#, "string:sip"),
            (r#"KSR.pv.get("$ou")"#, "string:sip:bob@example.com"),
            (r#"KSR.pv.get("$oU")"#, "string:bob"),
            (r#"KSR.pv.get("$od")"#, "string:example.com"),
            (r#"KSR.pv.get("$du")"#, "nil:nil"),
            (r#"KSR.pv.get("$dd")"#, "nil:nil"),
            (r#"KSR.pv.get("$fu")"#, "string:sip:alice@127.0.0.1"),
            (r#"KSR.pv.get("$fU")"#, "string:alice"),
            (r#"KSR.pv.get("$fd")"#, "string:127.0.0.1"),
            (r#"KSR.pv.get("$fn")"#, "string:\"Al\""),
            (r#"KSR.pv.get("$ft")"#, "string:a1"),
            (r#"KSR.pv.get("$tu")"#, "string:sip:bob@127.0.0.1"),
            (r#"KSR.pv.get("$tU")"#, "string:bob"),
            (r#"KSR.pv.get("$td")"#, "string:127.0.0.1"),
            (r#"KSR.pv.get("$tt")"#, "nil:nil"),
            (r#"KSR.pv.get("$ci")"#, "string:c1@127.0.0.1"),
            (r#"KSR.pv.get("$cs")"#, "string:1"),
            (r#"KSR.pv.get("$csb")"#, "string:1 INVITE"),
            (r#"KSR.pv.get("$rm")"#, "string:INVITE"),
            (r#"KSR.pv.get("$rs")"#, "nil:nil"),
            (r#"KSR.pv.get("$rr")"#, "nil:nil"),
            (r#"KSR.pv.get("$si")"#, "string:127.0.0.1"),
            (r#"KSR.pv.get("$sp")"#, "int:15460"),
            (r#"KSR.pv.get("$su")"#, "string:sip:127.0.0.1:15460"),
            (r#"KSR.pv.get("$Ri")"#, "string:127.0.0.1"),
            (r#"KSR.pv.get("$Rp")"#, "int:25460"),
            (r#"KSR.pv.get("$Ru")"#, "string:sip:127.0.0.1:25460"),
            (r#"KSR.pv.get("$pr")"#, "string:udp"),
            (r#"KSR.pv.get("$ml")"#, "int:373"),
            (r#"#KSR.pv.get("$mb")"#, "int:373"),
            (r#"KSR.pv.get("$rb")"#, "string:hello"),
            (r#"KSR.pv.get("$bs")"#, "int:5"),
            (r#"KSR.pv.get("$ct")"#, "string:<sip:alice@127.0.0.1:15060>"),
            (r#"KSR.pv.get("$cT")"#, "string:text/plain"),
            (r#"KSR.pv.get("$cl")"#, "int:5"),
            (r#"KSR.pv.get("$ua")"#, "string:PBX"),
            (r#"KSR.pv.get("$ai")"#, "string:sip:ass@x.y"),
            (r#"KSR.pv.get("$rc")"#, "int:0"),
            (r#"KSR.pv.get("$retcode")"#, "int:0"),
            (r#"KSR.pv.get("$mf")"#, "int:0"),
            (r#"KSR.pv.get("$mF")"#, "string:00000000"),
            (r#"KSR.pv.get("$TS") > 1700000000"#, "boolean:true"),
            (r#"KSR.pv.get("$$")"#, "string:$"),
            (r#"KSR.pv.get("$_s(x$rm-$sp)")"#, "string:xINVITE-15460"),
            (r#"KSR.pv.gete("$du")"#, "string:"),
            (r#"KSR.pv.getw("$du")"#, "string:<null>"),
            (r#"KSR.pv.gete("$sp")"#, "int:15460"),
            (r#"KSR.pv.is_null("$du")"#, "boolean:true"),
            (r#"KSR.pv.is_null("$ru")"#, "boolean:false"),
        ],
    );
}

#[test]
fn a_reply_has_these_values() {
    check(
        PROGRESS,
        &[
            (r#"KSR.pv.get("$rm")"#, "string:INVITE"),
            (r#"KSR.pv.get("$rs")"#, "int:183"),
            (r#"KSR.pv.get("$rr")"#, "string:Session Progress"),
            (r#"KSR.pv.get("$ru")"#, "nil:nil"),
            (r#"KSR.pv.get("$rU")"#, "nil:nil"),
            (r#"KSR.pv.get("$ou")"#, "nil:nil"),
            (r#"KSR.pv.get("$rb")"#, "string:"),
            (r#"KSR.pv.get("$cl")"#, "nil:nil"),
            (r#"KSR.pv.get("$ct")"#, "nil:nil"),
            (r#"KSR.pv.get("$ua")"#, "nil:nil"),
            (r#"KSR.pv.get("$fu")"#, "string:sip:alice@127.0.0.1:99"),
            (r#"KSR.pv.get("$fn")"#, "nil:nil"),
            (r#"KSR.pv.get("$tu")"#, "string:tel:+4912;ext=3"),
            (r#"KSR.pv.get("$tU")"#, "string:+4912"),
            (r#"KSR.pv.get("$td")"#, "nil:nil"),
            (r#"KSR.pv.get("$tt")"#, "string:b1"),
            (r#"KSR.pv.get("$hdrc(v)")"#, "int:2"),
            (
                r#"KSR.pv.get("$(hdr(via)[1])")"#,
                "string:SIP/2.0/UDP 127.0.0.1:15460;branch=z9hG4bKc1",
            ),
            (r#"KSR.pv.sets("$ru", "sip:x@y")"#, "boolean:false"),
        ],
    );
}

#[test]
fn headers_are_found_by_any_name_and_place() {
    check(
        INVITE,
        &[
            (r#"KSR.pv.get("$hdr(X-A)")"#, "string:one"),
            (r#"KSR.pv.get("$hdr(x-a)")"#, "string:one"),
            (r#"KSR.pv.get("$hdr(Nope)")"#, "nil:nil"),
            (r#"KSR.pv.get("$(hdr(X-A)[0])")"#, "string:one"),
            (r#"KSR.pv.get("$(hdr(X-A)[1])")"#, "string:two"),
            (r#"KSR.pv.get("$(hdr(X-A)[2])")"#, "nil:nil"),
            (r#"KSR.pv.get("$(hdr(X-A)[-1])")"#, "string:two"),
            (r#"KSR.pv.get("$(hdr(X-A)[-3])")"#, "nil:nil"),
            (r#"KSR.pv.get("$(hdr(X-A)[*])")"#, "string:one,two"),
            (r#"KSR.pv.get("$(hdr(Nope)[*])")"#, "nil:nil"),
            (r#"KSR.pv.get("$hdrc(X-A)")"#, "int:2"),
            (r#"KSR.pv.get("$hdrc(Nope)")"#, "int:0"),
            (r#"KSR.pv.get("$hdr(f)")"#, "string:\"Al\" <sip:alice@127.0.0.1>;tag=a1"),
            (r#"KSR.pv.sets("$var(h)", "User-Agent")"#, "boolean:true"),
            (r#"KSR.pv.get("$hdr($var(h))")"#, "string:PBX"),
            (r#"KSR.pv.sets("$hdr(X-A)", "x")"#, "boolean:false"),
        ],
    );
}

#[test]
fn case_s27_a_folded_value_is_read_as_one_line() {
    let folded = INVITE.replace("X-A: one\n", "X-A: one\n two\n");
    check(
        &folded,
        &[
            (r#"KSR.pv.get("$hdr(X-A)")"#, "string:one two"),
            (r#"KSR.hdr.get("X-A")"#, "string:one two"),
            (r#"KSR.pv.get("$(hdr(X-A)[*])")"#, "string:one two,two"),
        ],
    );
}

#[test]
fn a_script_variable_is_0_until_it_is_set() {
    check(
        INVITE,
        &[
            (r#"KSR.pv.get("$var(a)")"#, "int:0"),
            (r#"KSR.pv.is_null("$var(a)")"#, "boolean:false"),
            (r#"KSR.pv.sets("$var(a)", "x")"#, "boolean:true"),
            (r#"KSR.pv.get("$var(a)")"#, "string:x"),
            (r#"KSR.pv.seti("$var(a)", 5)"#, "boolean:true"),
            (r#"KSR.pv.get("$var(a)")"#, "int:5"),
            (r#"KSR.pv.sets("$var(a)", 7)"#, "boolean:true"),
            (r#"KSR.pv.get("$var(a)")"#, "string:7"),
            (r#"KSR.pv.unset("$var(a)")"#, "boolean:true"),
            (r#"KSR.pv.get("$var(a)")"#, "int:0"),
        ],
    );
}

#[test]
fn an_avp_is_a_stack_of_values() {
    check(
        INVITE,
        &[
            (r#"KSR.pv.is_null("$avp(b)")"#, "boolean:true"),
            (r#"KSR.pv.sets("$avp(b)", "one")"#, "boolean:true"),
            (r#"KSR.pv.seti("$avp(b)", 2)"#, "boolean:true"),
            (r#"KSR.pv.get("$avp(b)")"#, "int:2"),
            (r#"KSR.pv.get("$(avp(b)[1])")"#, "string:one"),
            (r#"KSR.pv.get("$(avp(b)[-1])")"#, "string:one"),
            (r#"KSR.pv.get("$(avp(b)[5])")"#, "nil:nil"),
            (r#"KSR.pv.get("$(avp(b)[*])")"#, "string:2, one"),
            (r#"KSR.pv.unset("$avp(b)")"#, "boolean:true"),
            (r#"KSR.pv.get("$avp(s:b)")"#, "string:one"),
            (r#"KSR.pv.sets("$(avp(b)[*])", "only")"#, "boolean:true"),
            (r#"KSR.pv.get("$(avp(b)[*])")"#, "string:only"),
            (r#"KSR.pv.unset("$(avp(b)[*])")"#, "boolean:true"),
            (r#"KSR.pv.get("$avp(b)")"#, "nil:nil"),
            (r#"KSR.pv.unset("$avp(b)")"#, "boolean:true"),
        ],
    );
}

#[test]
fn an_xavp_has_keys_below_a_root() {
    check(
        INVITE,
        &[
            (r#"KSR.pv.get("$xavp(x=>k)")"#, "nil:nil"),
            (r#"KSR.pv.sets("$xavp(x=>k)", "one")"#, "boolean:true"),
            (r#"KSR.pv.get("$xavp(x=>k)")"#, "string:one"),
            (r#"KSR.pv.get("$xavp(x[0]=>k)")"#, "string:one"),
            (r#"KSR.pv.seti("$xavp(x=>k)", 3)"#, "boolean:true"),
            (r#"KSR.pv.get("$xavp(x=>k)")"#, "int:3"),
            (r#"KSR.pv.get("$xavp(x=>k[1])")"#, "nil:nil"),
            (r#"KSR.pv.sets("$xavp(x=>j)", "v")"#, "boolean:true"),
            (r#"KSR.pv.get("$xavp(x=>j)")"#, "string:v"),
            (r#"KSR.pv.unset("$xavp(x=>k)")"#, "boolean:true"),
            (r#"KSR.pv.get("$xavp(x=>k)")"#, "nil:nil"),
            (r#"KSR.pv.get("$xavp(x=>j)")"#, "string:v"),
            (r#"KSR.pv.unset("$xavp(x)")"#, "boolean:true"),
            (r#"KSR.pv.get("$xavp(x=>j)")"#, "nil:nil"),
            (r#"KSR.pv.sets("$xavp(y)", "plain")"#, "boolean:true"),
            (r#"KSR.pv.get("$xavp(y)")"#, "string:plain"),
            (r#"KSR.pv.sets("$xavp(y=>k)", "v")"#, "boolean:false"),
        ],
    );
}

#[test]
fn sip_r016_the_request_uri_is_set_whole_and_in_parts() {
    let ran = check(
        INVITE,
        &[
            (r#"KSR.pv.seti("$ru", 4)"#, "boolean:false"),
            (r#"KSR.pv.sets("$ru", "sip:u:pw@h:5061;a=b;transport=tcp?x=y")"#, "boolean:true"),
            (r#"KSR.pv.sets("$rU", "carl")"#, "boolean:true"),
            (r#"KSR.pv.sets("$rd", "example.net")"#, "boolean:true"),
            (r#"KSR.pv.seti("$rp", 5098)"#, "boolean:true"),
            (r#"KSR.pv.get("$ru")"#, "string:sip:carl:pw@example.net:5098;a=b;transport=tcp?x=y"),
            (r#"KSR.pv.get("$rp")"#, "string:5098"),
            (r#"KSR.pv.get("$rP")"#, "string:tcp"),
            (r#"KSR.pv.sets("$rp", "5099")"#, "boolean:true"),
            (r#"KSR.pv.sets("$rp", "x")"#, "boolean:false"),
            (r#"KSR.pv.seti("$rp", 70000)"#, "boolean:false"),
            (r#"KSR.pv.unset("$rU")"#, "boolean:true"),
            (r#"KSR.pv.sets("$rp", "")"#, "boolean:true"),
            (r#"KSR.pv.get("$ru")"#, "string:sip:example.net;a=b;transport=tcp?x=y"),
            (r#"KSR.pv.get("$rU")"#, "nil:nil"),
            (r#"KSR.pv.get("$ou")"#, "string:sip:bob@example.com"),
            (r#"KSR.pv.get("$tu")"#, "string:sip:bob@127.0.0.1"),
            (r#"KSR.pv.unset("$ru")"#, "boolean:false"),
            (r#"KSR.pv.sets("$ou", "sip:q@q")"#, "boolean:false"),
            (r#"KSR.pv.sets("$sp", "x")"#, "boolean:false"),
        ],
    );
    assert_eq!(ran.context.draft.uri(), b"sip:example.net;a=b;transport=tcp?x=y");
}

#[test]
fn case_s15_no_variable_breaks_the_start_line() {
    check(
        INVITE,
        &[
            (r#"KSR.pv.sets("$ru", "sip:a@b SIP/2.0\r\nX: y")"#, "boolean:false"),
            (r#"KSR.pv.sets("$ru", "")"#, "boolean:false"),
            (r#"KSR.pv.sets("$rU", "a b")"#, "boolean:false"),
            (r#"KSR.pv.sets("$rd", "h\r\n")"#, "boolean:false"),
            (r#"KSR.pv.sets("$du", "sip:h\r\n")"#, "boolean:false"),
            (r#"KSR.pv.get("$ru")"#, "string:sip:bob@example.com"),
        ],
    );
}

#[test]
fn the_destination_is_set_read_and_cleared() {
    check(
        INVITE,
        &[
            (r#"KSR.pv.sets("$du", "sip:1.2.3.4:5;transport=tcp")"#, "boolean:true"),
            (r#"KSR.pv.get("$du")"#, "string:sip:1.2.3.4:5;transport=tcp"),
            (r#"KSR.pv.get("$dd")"#, "string:1.2.3.4"),
            (r#"KSR.pv.get("$dp")"#, "string:5"),
            (r#"KSR.pv.get("$dP")"#, "string:tcp"),
            (r#"KSR.pv.unset("$du")"#, "boolean:true"),
            (r#"KSR.pv.get("$du")"#, "nil:nil"),
        ],
    );
}

#[test]
fn flags_are_numbers_too() {
    check(
        INVITE,
        &[
            (r#"KSR.pv.seti("$mf", 5)"#, "boolean:true"),
            ("KSR.isflagset(2)", "boolean:true"),
            ("KSR.isflagset(1)", "boolean:false"),
            (r#"KSR.pv.get("$mF")"#, "string:00000005"),
            (r#"KSR.pv.seti("$mf", -1)"#, "boolean:false"),
            ("KSR.setbflag(4)", "boolean:true"),
            (r#"KSR.pv.get("$bf")"#, "int:16"),
        ],
    );
}

#[test]
fn what_is_no_variable_is_an_error_that_names_it() {
    for (call, want) in [
        (r#"KSR.pv.get("$nonsense")"#, "KSR.pv.get: \"$nonsense\" is no pseudo-variable"),
        (r#"KSR.pv.sets("ru", "x")"#, "KSR.pv.sets: \"ru\" is no pseudo-variable"),
        (r#"KSR.pv.get("$T_req(ru)")"#, "\"$T_req(ru)\" is no pseudo-variable"),
        (r#"KSR.pv.get("$T_req($T_req($ru))")"#, "is no pseudo-variable"),
        (r#"KSR.pv.get("$hdr($nope)")"#, "\"$nope\" is no pseudo-variable"),
    ] {
        let ran = run(call, INVITE);
        assert!(ran.error().contains(want), "{call}: {}", ran.error());
        assert!(ran.error().starts_with("test.lua:1: "), "{}", ran.error());
    }
}

#[test]
fn a_message_holds_no_more_than_its_limit() {
    let ran = run(
        r#"local s = ("x"):rep(60000); for i = 1, 100 do KSR.pv.sets("$avp(a)", s) end"#,
        INVITE,
    );
    assert!(ran.error().contains("holds more than 1 MiB"), "{}", ran.error());
    let ran = run(r#"for i = 1, 100000 do KSR.pv.sets("$avp(a)", "") end"#, INVITE);
    assert!(ran.error().contains("holds more than 1 MiB"), "{}", ran.error());
    let ran = run(
        r#"local s = ("x"):rep(60000)
        for i = 1, 30 do
            KSR.pv.sets("$var(v)", s)
            KSR.pv.sets("$avp(a)", s); KSR.pv.unset("$avp(a)")
            KSR.pv.sets("$(avp(b)[*])", s)
            KSR.pv.sets("$xavp(x=>k)", s)
        end"#,
        INVITE,
    );
    assert_eq!(ran.end, End::Normal, "what is replaced or removed does not count");
}
