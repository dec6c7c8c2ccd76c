//! The built-in script, `examples/sip/basic.lua`, without state.

use lineway_wire::sip::{forward, hop};

use super::*;
use crate::settings::{SipMode, built_in_script};

/// What one worker works with in a router that keeps nothing.
fn env() -> Rc<ScriptEnv> {
    env_with(|settings| settings.mode = SipMode::Stateless)
}

/// Runs the built-in script with some of its text replaced.
fn run_changed(change: &[(&str, &str)], message: &str, result: i64) -> Ran {
    let source = built_in_script();
    let mut text = String::from_utf8(source.text.to_vec()).unwrap();
    for (from, to) in change {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let mut context = Context::new(draft(message), env(), Instant::now());
    context.draft.failure = (result < 0).then_some(hop::UNRESOLVABLE);
    let ran = run_script(&script(&text), context, result);
    assert_eq!(ran.end, End::Normal);
    ran
}

fn run(message: &str) -> Ran {
    run_changed(&[], message, 1)
}

/// The request to somebody else.
fn foreign(method: &str) -> String {
    INVITE.replace("INVITE", method).replace("sip:bob@example.com", "sip:bob@127.0.0.1:15071")
}

fn in_dialog(method: &str) -> String {
    foreign(method).replace("To: <sip:bob@127.0.0.1>", "To: <sip:bob@127.0.0.1>;tag=b1")
}

#[track_caller]
fn sent(ran: &Ran) -> String {
    assert_eq!(ran.wants, [Want::Forward { uri: None }]);
    assert_eq!(ran.replies(), [""; 0]);
    written(&ran.context.draft)
}

fn written(draft: &Draft) -> String {
    let own = own();
    let mut out = Vec::new();
    forward::request(draft, &own, &own.sockets[0], 0, &mut out);
    String::from_utf8(out).unwrap().replace("\r\n", "\n")
}

#[track_caller]
fn answered(message: &str, want: &str) -> Ran {
    let ran = run(message);
    assert_eq!(ran.replies(), [format!("SIP/2.0 {want}")]);
    assert_eq!(ran.wants, []);
    ran
}

#[track_caller]
fn ignored(message: &str) {
    let ran = run(message);
    assert_eq!((ran.replies().len(), ran.wants.len()), (0, 0));
}

#[test]
fn sip_r015_a_request_to_others_goes_on_as_it_is() {
    let message = foreign("MESSAGE");
    let sent = sent(&run(&message));
    let own_via = sent.lines().nth(1).unwrap();
    assert!(own_via.starts_with("Via: SIP/2.0/UDP 127.0.0.1:25460;branch=z9hG4bK"), "{sent}");
    let as_it_came =
        sent.replace(&format!("{own_via}\n"), "").replace("Forwards: 69", "Forwards: 70");
    assert_eq!(as_it_came, message);
}

#[test]
fn sip_r017_any_method_goes_on() {
    for method in ["NEWMETHOD", "INFO", "PUBLISH", "UPDATE", "PRACK", "BYE", "REGISTER"] {
        let sent = sent(&run(&foreign(method)));
        assert!(!sent.contains("Record-Route"), "{sent}");
    }
}

#[test]
fn sip_r112_what_begins_a_dialog_comes_back_here() {
    for method in ["INVITE", "SUBSCRIBE", "REFER"] {
        let sent = sent(&run(&foreign(method)));
        assert!(sent.contains("\nRecord-Route: <sip:127.0.0.1:25460;lr>\n"), "{sent}");
    }
    let sent = sent(&run(&foreign("OPTIONS")));
    assert!(!sent.contains("Record-Route"), "{sent}");
}

#[test]
fn sip_r116_a_route_of_an_initial_request_is_not_followed() {
    let routed =
        foreign("INVITE").replace("Max-Forwards", "Route: <sip:10.9.9.9;lr>\nMax-Forwards");
    let ran = run(&routed);
    let sent = sent(&ran);
    assert!(!sent.contains("\nRoute:"), "{sent}");
    assert_eq!(ran.context.draft.dst_uri, None);
}

#[test]
fn sip_r115_a_request_in_a_dialog_follows_its_route() {
    for method in ["BYE", "ACK", "INVITE", "INFO"] {
        let routed = in_dialog(method)
            .replace("Max-Forwards", "Route: <sip:127.0.0.1:25460;lr>\nMax-Forwards");
        let sent = sent(&run(&routed));
        assert!(!sent.contains("Route:"), "{sent}");
        assert!(sent.starts_with(&format!("{method} sip:bob@127.0.0.1:15071 SIP/2.0\n")), "{sent}");
    }
}

#[test]
fn sip_r119_a_request_in_a_dialog_without_a_route_is_404() {
    answered(&in_dialog("BYE"), "404 Not here");
    let own = in_dialog("INVITE").replace("sip:bob@127.0.0.1:15071", "sip:127.0.0.1:25460");
    answered(&own, "404 Not here");
}

#[test]
fn sip_r158_a_stray_ack_is_never_answered() {
    ignored(&INVITE.replace("INVITE", "ACK"));
    let tagged = in_dialog("ACK").replace("sip:bob@127.0.0.1:15071", "sip:bob@127.0.0.1:25460");
    ignored(&tagged);
    ignored(&foreign("ACK").replace("Forwards: 70", "Forwards: 0"));
    ignored(&foreign("ACK").replace("CSeq: 1 ACK", "CSeq: 1 INVITE"));
}

#[test]
fn sip_r022_ack_of_a_failure_and_cancel_go_where_the_invite_went() {
    let branch =
        |text: &str| text.split(";branch=").nth(1).unwrap().lines().next().unwrap().to_owned();
    let invite = branch(&sent(&run(&foreign("INVITE"))));
    assert_eq!(branch(&sent(&run(&foreign("CANCEL")))), invite);
    assert_eq!(branch(&sent(&run(&in_dialog("ACK")))), invite);
}

#[test]
fn sip_r110_options_to_the_proxy_is_200() {
    let options = INVITE.replace("INVITE", "OPTIONS");
    answered(&options.replace("sip:bob@example.com", "sip:127.0.0.1:25460"), "200 OK");
    answered(&options.replace("sip:bob@example.com", "sip:example.com"), "200 OK");
    answered(&options, "404 Not here");
}

#[test]
fn what_is_addressed_to_the_proxy_is_answered() {
    answered(INVITE, "404 Not here");
    answered(&INVITE.replace("INVITE", "CANCEL"), "481 Call/Transaction Does Not Exist");
    let ran = answered(&INVITE.replace("INVITE", "REGISTER"), "405 Method Not Allowed");
    assert!(ran.sent_reply().0.contains("\r\nAllow: INVITE, "));
}

#[test]
fn case_s24_max_forwards() {
    let with =
        |value: &str| foreign("INVITE").replace("Forwards: 70", &format!("Forwards: {value}"));
    for bad in ["0", "-1", "abc"] {
        answered(&with(bad), "483 Too Many Hops");
    }
    let options = INVITE.replace("INVITE", "OPTIONS").replace("sip:bob@", "sip:");
    answered(&options.replace("Forwards: 70", "Forwards: 0"), "483 Too Many Hops");
    for (value, want) in
        [("70", "69"), ("1", "0"), ("100", "70"), ("010", "9"), ("256", "70"), ("9  ", "8")]
    {
        let sent = sent(&run(&with(value)));
        let line = sent.lines().find(|line| line.starts_with("Max-Forwards:")).unwrap();
        assert_eq!(line.split_once(':').unwrap().1.trim(), want, "{value}");
    }
    let missing = foreign("INVITE").replace("Max-Forwards: 70\n", "");
    assert!(sent(&run(&missing)).contains("\nMax-Forwards: 70\n"));
}

#[test]
fn sip_r012_the_483_has_a_to_tag() {
    let ran =
        answered(&foreign("INVITE").replace("Forwards: 70", "Forwards: 0"), "483 Too Many Hops");
    assert!(ran.sent_reply().0.contains("\r\nTo: <sip:bob@127.0.0.1>;tag="));
}

#[test]
fn sip_r122_a_loop_ends_with_483() {
    let mut message = foreign("INVITE").replace("Forwards: 70", "Forwards: 3");
    for _ in 0..3 {
        message = sent(&run(&message));
    }
    answered(&message, "483 Too Many Hops");
}

#[test]
fn case_s28_what_is_not_sane_is_400() {
    for (from, to) in [
        ("CSeq: 1 INVITE", "CSeq: 1 BYE"),
        ("Content-Length: 5", "Content-Length: 5\nContent-Length: 6"),
        ("Content-Length: 5", "Content-Length: 5x"),
    ] {
        let ran = run(&foreign("INVITE").replace(from, to));
        assert_eq!(ran.replies().len(), 1, "{to}");
        assert!(ran.replies()[0].starts_with("SIP/2.0 400 "), "{to}: {:?}", ran.replies());
        assert_eq!(ran.wants, [], "{to}");
    }
}

#[test]
fn sip_r101_what_can_not_be_sent_is_answered_once() {
    let ran = run_changed(&[], &foreign("INVITE"), -1);
    assert_eq!(ran.wants.len(), 1);
    assert_eq!(ran.replies(), ["SIP/2.0 478 Unresolvable destination (478/SL)"]);
    let ran = run_changed(&[], &foreign("CANCEL"), -1);
    assert_eq!(ran.replies().len(), 1);
    let ran = run_changed(&[], &in_dialog("ACK"), -1);
    assert_eq!(ran.replies(), [""; 0]);
}

#[test]
fn case_s30_rport_is_not_filled_unless_it_was_asked_for() {
    let elsewhere = foreign("INVITE")
        .replace("Via: SIP/2.0/UDP 127.0.0.1:15060", "Via: SIP/2.0/UDP 10.9.9.9:5078");
    let sent = sent(&run(&elsewhere));
    assert!(sent.contains("10.9.9.9:5078;received=127.0.0.1;branch=z9hG4bKc1\n"), "{sent}");
    let ran = run_changed(&[("FORCE_RPORT = false", "FORCE_RPORT = true")], &elsewhere, 1);
    assert!(written(&ran.context.draft).contains(";rport=15460"));
}

#[test]
fn sip_r006_a_via_that_is_right_is_not_touched() {
    let sent = sent(&run(&foreign("INVITE")));
    assert!(sent.contains("\nVia: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1\n"), "{sent}");
}

#[test]
fn the_switch_for_nat_notes_the_real_address() {
    let nat = [("local NAT = false", "local NAT = true")];
    let private =
        foreign("INVITE").replace("<sip:alice@127.0.0.1:15060>", "<sip:alice@10.0.0.9:5060>");
    let ran = run_changed(&nat, &private, 1);
    let sent = written(&ran.context.draft);
    assert!(
        sent.contains("\nContact: <sip:alice@10.0.0.9:5060;alias=127.0.0.1~15460~1>\n"),
        "{sent}"
    );
    let back = in_dialog("BYE")
        .replace("Max-Forwards", "Route: <sip:127.0.0.1:25460;lr>\nMax-Forwards")
        .replace(
            "BYE sip:bob@127.0.0.1:15071",
            "BYE sip:alice@10.0.0.9:5060;alias=127.0.0.1~15460~1",
        );
    let ran = run_changed(&nat, &back, 1);
    assert_eq!(ran.context.draft.dst_uri.as_deref(), Some(&b"sip:127.0.0.1:15460"[..]));
}

#[test]
fn the_switch_for_floods_keeps_them_out() {
    let source = built_in_script();
    let text = String::from_utf8(source.text.to_vec()).unwrap();
    let script = script(&text.replace("local PIKE = false", "local PIKE = true"));
    let (env, message) = (env(), foreign("INVITE"));
    let forwarded = (0..40).filter(|_| {
        let context = Context::new(draft(&message), Rc::clone(&env), Instant::now());
        !run_script(&script, context, 1).wants.is_empty()
    });
    assert_eq!(forwarded.count(), 30);
}

#[test]
fn replies_pass_without_the_script() {
    assert!(!script(std::str::from_utf8(&built_in_script().text).unwrap()).has(Route::Reply));
}
