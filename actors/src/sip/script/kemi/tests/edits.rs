//! `hdr`, `textops`, `textopsx`: what scripts get, and what goes out.

use lineway_wire::sip::forward;

use super::*;

/// The message as it leaves by the first socket, without the own Via.
fn sent(ran: &Ran) -> String {
    let own = own();
    let mut out = Vec::new();
    forward::request(&ran.context.draft, &own, &own.sockets[0], 0, &mut out);
    let text = String::from_utf8(out).unwrap();
    let own_via = |line: &&str| !line.starts_with("Via: SIP/2.0/UDP 127.0.0.1:25460;");
    text.split("\r\n").filter(own_via).collect::<Vec<_>>().join("\n")
}

#[test]
fn sip_r099_headers_are_added_and_removed() {
    let ran = check(
        INVITE,
        &[
            (r#"KSR.hdr.is_present("x-a")"#, "int:1"),
            (r#"KSR.hdr.is_present("nope")"#, "int:-1"),
            (r#"KSR.hdr.get("X-A")"#, "string:one"),
            (r#"KSR.hdr.get("nope")"#, "nil:nil"),
            (r#"KSR.hdr.gete("nope")"#, "string:"),
            (r#"KSR.hdr.getw("nope")"#, "string:<null>"),
            (r#"KSR.hdr.append("X-N: 1\r\n")"#, "int:1"),
            (r#"KSR.hdr.append_after("X-N: 2\r\n", "From")"#, "int:1"),
            (r#"KSR.hdr.insert("X-N: 3\r\n")"#, "int:1"),
            (r#"KSR.hdr.insert_before("X-N: 4\r\n", "To")"#, "int:1"),
            (r#"KSR.hdr.remove("X-A")"#, "int:1"),
            (r#"KSR.hdr.remove("X-A")"#, "int:-1"),
            (r#"KSR.hdr.is_present("X-A")"#, "int:1"),
            (r#"KSR.textops.is_present_hf("X-A")"#, "int:1"),
            (r#"KSR.textops.remove_hf("User-Agent")"#, "int:1"),
            (r#"KSR.textops.remove_hf_re("^p-")"#, "int:1"),
            (r#"KSR.textops.remove_hf_re("^nope")"#, "int:-1"),
            (r#"KSR.hdr.append_to_reply("X-R: 4\r\n")"#, "int:1"),
            (r#"KSR.hdr.append_to_reply("")"#, "int:-1"),
        ],
    );
    assert_eq!(
        sent(&ran),
        "INVITE sip:bob@example.com SIP/2.0
X-N: 3
Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1
Max-Forwards: 70
From: \"Al\" <sip:alice@127.0.0.1>;tag=a1
X-N: 2
X-N: 4
To: <sip:bob@127.0.0.1>
Call-ID: c1@127.0.0.1
CSeq: 1 INVITE
Contact: <sip:alice@127.0.0.1:15060>
Content-Type: text/plain
Content-Length: 5
X-N: 1

hello"
    );
}

#[test]
fn sip_r100_a_changed_body_has_its_length() {
    let ran = check(
        INVITE,
        &[
            ("KSR.textops.has_body()", "int:1"),
            (r#"KSR.textops.subst_body("/hell/be well, /")"#, "int:1"),
            (r#"KSR.textops.replace_body("nope", "x")"#, "int:-1"),
        ],
    );
    assert!(sent(&ran).ends_with("Content-Length: 10\n\nbe well, o"), "{}", sent(&ran));
    let ran = check(INVITE, &[(r#"KSR.textops.replace_body("l+", "y, h")"#, "int:1")]);
    assert!(sent(&ran).ends_with("Content-Length: 7\n\nhey, ho"), "{}", sent(&ran));
    let ran = check(INVITE, &[(r#"KSR.textops.set_body("newbody", "a/b")"#, "int:1")]);
    assert!(sent(&ran).contains("\nContent-Type: a/b\n"), "{}", sent(&ran));
    assert!(sent(&ran).ends_with("\n\nnewbody"), "{}", sent(&ran));
}

#[test]
fn a_replacement_has_groups_and_variables() {
    let ran = check(
        INVITE,
        &[
            (r#"KSR.textops.subst_hf("From", "/(ali)ce/\\1-$rm-$sp/", "a")"#, "int:1"),
            (r#"KSR.textops.subst_hf("From", "/nope/zed/", "a")"#, "int:-1"),
            (r#"KSR.textops.subst("/^User-Agent: (.*)$/User-Agent: \\1 2/i")"#, "int:1"),
            (r#"KSR.textops.subst("/nope/bye/")"#, "int:-1"),
        ],
    );
    let sent = sent(&ran);
    assert!(sent.contains("\nFrom: \"Al\" <sip:ali-INVITE-15460@127.0.0.1>;tag=a1\n"), "{sent}");
    assert!(sent.contains("\nUser-Agent: PBX 2\n"), "{sent}");
}

#[test]
fn sip_r099_from_and_to_are_set_in_parts() {
    let ran = check(
        INVITE,
        &[
            (r#"KSR.pv.sets("$fU", "anonymous")"#, "boolean:true"),
            (r#"KSR.pv.sets("$fd", "anonymous.invalid")"#, "boolean:true"),
            (r#"KSR.pv.sets("$fn", '"Anonymous"')"#, "boolean:true"),
            (r#"KSR.pv.get("$fU")"#, "string:alice"),
            (r#"KSR.pv.sets("$ft", "x")"#, "boolean:false"),
            (r#"KSR.pv.sets("$tu", "tel:+1")"#, "boolean:true"),
            (r#"KSR.pv.sets("$tu", "tel:+1>;tag=2")"#, "boolean:false"),
            (r#"KSR.pv.sets("$tn", "Bob")"#, "boolean:true"),
        ],
    );
    let from = "\nFrom: \"Anonymous\" <sip:anonymous@anonymous.invalid>;tag=a1\n";
    assert!(sent(&ran).contains(from), "{}", sent(&ran));
    assert!(sent(&ran).contains("\nTo: Bob <tel:+1>\n"), "{}", sent(&ran));
    let ran = check(
        INVITE,
        &[
            (r#"KSR.pv.unset("$fn")"#, "boolean:true"),
            (r#"KSR.pv.unset("$tU")"#, "boolean:true"),
            (r#"KSR.pv.unset("$fd")"#, "boolean:false"),
        ],
    );
    assert!(sent(&ran).contains("\nFrom: <sip:alice@127.0.0.1>;tag=a1\n"), "{}", sent(&ran));
    assert!(sent(&ran).contains("\nTo: <sip:127.0.0.1>\n"), "{}", sent(&ran));
}

#[test]
fn what_is_no_expression_is_an_error() {
    for (call, want) in [
        (r#"KSR.textops.subst("bad")"#, "KSR.textops.subst: not /pattern/replacement/flags"),
        (r#"KSR.textops.remove_hf_re("(")"#, "KSR.textops.remove_hf_re: "),
        (r#"KSR.textops.subst("/a/$nope/")"#, "\"$nope\" is no pseudo-variable"),
    ] {
        let error = run(call, INVITE).error();
        assert!(error.starts_with("test.lua:1: ") && error.contains(want), "{call}: {error}");
    }
}

#[test]
fn reads_see_the_edits_once_they_are_applied() {
    check(
        INVITE,
        &[
            (r#"KSR.hdr.append("X-N: 1\r\n")"#, "int:1"),
            (r#"KSR.hdr.remove("X-A")"#, "int:1"),
            (r#"KSR.hdr.get("X-N")"#, "nil:nil"),
            (r#"KSR.hdr.get("X-A")"#, "string:one"),
            ("KSR.textopsx.msg_apply_changes()", "int:1"),
            (r#"KSR.hdr.get("X-N")"#, "string:1"),
            (r#"KSR.hdr.get("X-A")"#, "nil:nil"),
        ],
    );
}

#[test]
fn edits_of_a_reply_are_there_too() {
    check(
        PROGRESS,
        &[
            (r#"KSR.hdr.append("X-N: 1\r\n")"#, "int:1"),
            ("KSR.textops.has_body()", "int:-1"),
            ("KSR.textopsx.msg_apply_changes()", "int:1"),
            (r#"KSR.pv.get("$hdr(X-N)")"#, "string:1"),
        ],
    );
}
