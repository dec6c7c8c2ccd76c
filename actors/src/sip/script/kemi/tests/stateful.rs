//! The built-in script where the router has transactions.

use super::tm::failure_of;
use super::*;
use crate::settings::built_in_script;
use crate::sip::script::tm::TmWant;
use crate::sip::users::{Secret, Users};

const RELAY: Want = Want::Tm(TmWant::Relay(None));
const CHECK: Want = Want::Tm(TmWant::CheckTrans);

fn changed(change: &[(&str, &str)]) -> Rc<Script> {
    let mut text = String::from_utf8(built_in_script().text.to_vec()).unwrap();
    for (from, to) in change {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    script(&text)
}

/// Runs the request route; `t_check_trans` gives `check`, all else 1.
fn run_checked(script: &Rc<Script>, env: &Rc<ScriptEnv>, message: &str, check: i64) -> Ran {
    let context = Context::new(draft(message), Rc::clone(env), Instant::now());
    let ran = run_route(script, Route::Request, context, |want| match want {
        Want::Tm(TmWant::CheckTrans) => check,
        _ => 1,
    });
    assert_eq!(ran.end, End::Normal);
    ran
}

fn run_in(script: &Rc<Script>, env: &Rc<ScriptEnv>, message: &str) -> Ran {
    run_checked(script, env, message, -1)
}

fn run(message: &str) -> Ran {
    run_in(&changed(&[]), &env(), message)
}

fn foreign(method: &str) -> String {
    INVITE.replace("INVITE", method).replace("sip:bob@example.com", "sip:bob@127.0.0.1:15071")
}

fn in_dialog(method: &str) -> String {
    foreign(method).replace("To: <sip:bob@127.0.0.1>", "To: <sip:bob@127.0.0.1>;tag=b1")
}

/// A registration of a user of ours at this Contact.
pub(super) fn register(user: &str, contact: &str) -> String {
    INVITE
        .replace("INVITE sip:bob@example.com", "REGISTER sip:example.com")
        .replace("INVITE", "REGISTER")
        .replace("sip:bob@127.0.0.1", &format!("sip:{user}@example.com"))
        .replace("c1@127.0.0.1", &format!("register-{user}@127.0.0.1"))
        .replace("Contact: <sip:alice@127.0.0.1:15060>", &format!("Contact: {contact}"))
}

#[test]
fn sip_r063_a_request_to_others_gets_a_transaction() {
    for method in ["INVITE", "MESSAGE", "SUBSCRIBE", "NEWMETHOD"] {
        let ran = run(&foreign(method));
        assert_eq!((ran.wants, ran.context.effects.len()), (vec![CHECK, RELAY], 0), "{method}");
        let begins_dialog = matches!(method, "INVITE" | "SUBSCRIBE");
        assert_eq!(ran.context.draft.record_routed, begins_dialog, "{method}");
        assert_eq!(ran.context.tm.armed.failure, None);
    }
}

#[test]
fn sip_r032_a_copy_is_absorbed_before_anything_is_decided() {
    for method in ["INVITE", "MESSAGE", "BYE", "REGISTER"] {
        let ran = run_checked(&changed(&[]), &env(), &foreign(method), 0);
        assert_eq!((ran.wants, ran.context.effects.len()), (vec![CHECK], 0), "{method}");
    }
}

#[test]
fn sip_r053_a_cancel_goes_where_its_invite_went() {
    for message in [foreign("CANCEL"), INVITE.replace("INVITE", "CANCEL")] {
        let ran = run_checked(&changed(&[]), &env(), &message, 1);
        assert_eq!((ran.wants, ran.context.effects.len()), (vec![CHECK, RELAY], 0));
    }
}

#[test]
fn sip_r060_a_cancel_without_an_invite_is_dropped() {
    for message in [foreign("CANCEL"), INVITE.replace("INVITE", "CANCEL")] {
        let ran = run(&message);
        assert_eq!((ran.wants, ran.context.effects.len()), (vec![CHECK], 0));
    }
}

#[test]
fn sip_r048_the_ack_of_a_2xx_follows_its_route() {
    let routed =
        in_dialog("ACK").replace("Max-Forwards", "Route: <sip:127.0.0.1:25460;lr>\nMax-Forwards");
    let ran = run(&routed);
    assert_eq!((ran.wants, ran.context.effects.len()), (vec![RELAY], 0));
}

#[test]
fn sip_r042_the_ack_of_a_failure_ends_here() {
    for check in [0, 1, -1] {
        let ran = run_checked(&changed(&[]), &env(), &in_dialog("ACK"), check);
        assert_eq!((ran.wants, ran.context.effects.len()), (vec![CHECK], 0));
    }
}

#[test]
fn sip_r115_a_request_in_a_dialog_follows_its_route() {
    let routed =
        in_dialog("BYE").replace("Max-Forwards", "Route: <sip:127.0.0.1:25460;lr>\nMax-Forwards");
    let ran = run(&routed);
    assert_eq!((ran.wants, ran.context.effects.len()), (vec![CHECK, RELAY], 0));
    assert_eq!(run(&in_dialog("BYE")).replies(), ["SIP/2.0 404 Not here"]);
}

#[test]
fn sip_r110_options_to_the_proxy_is_200() {
    let options = INVITE.replace("INVITE", "OPTIONS").replace("sip:bob@", "sip:");
    assert_eq!(run(&options).replies(), ["SIP/2.0 200 OK"]);
}

#[test]
fn sip_r131_an_unknown_user_is_404() {
    let ran = run(INVITE);
    assert_eq!((ran.replies(), ran.wants), (vec!["SIP/2.0 404 Not here".to_owned()], vec![CHECK]));
}

#[test]
fn sip_r124_who_has_registered_is_called() {
    let (script, env) = (changed(&[]), env());
    let saved = run_in(&script, &env, &register("bob", "<sip:bob@10.0.0.5:5070>"));
    assert_eq!(saved.replies(), ["SIP/2.0 200 OK"]);
    assert!(saved.sent_reply().0.contains("\r\nContact: <sip:bob@10.0.0.5:5070>;expires="));
    let ran = run_in(&script, &env, INVITE);
    assert_eq!((ran.wants, ran.context.effects.len()), (vec![CHECK, RELAY], 0));
    assert_eq!(ran.context.draft.uri(), b"sip:bob@10.0.0.5:5070");
}

#[test]
fn sip_r129_all_phones_of_a_user_ring_at_once() {
    let (script, env) = (changed(&[]), env());
    run_in(&script, &env, &register("bob", "<sip:bob@10.0.0.5>;q=0.5, <sip:bob@10.0.0.6>;q=0.7"));
    let ran = run_in(&script, &env, INVITE);
    assert_eq!(ran.wants, [CHECK, RELAY]);
    assert_eq!(ran.context.draft.uri(), b"sip:bob@10.0.0.6");
    let others: Vec<_> = ran.context.draft.branches.iter().map(|one| one.uri.clone()).collect();
    assert_eq!(others, ["sip:bob@10.0.0.5"]);
}

#[test]
fn sip_r130_the_switch_for_serial_lets_them_ring_one_after_the_other() {
    let (script, env) = (changed(&[("local SERIAL = false", "local SERIAL = true")]), env());
    run_in(&script, &env, &register("bob", "<sip:bob@10.0.0.5>;q=0.5, <sip:bob@10.0.0.6>;q=0.7"));
    let ran = run_in(&script, &env, INVITE);
    assert_eq!(ran.wants, [CHECK, RELAY]);
    assert_eq!(ran.context.draft.uri(), b"sip:bob@10.0.0.6");
    assert_eq!(ran.context.draft.branches, []);
    let tm = &ran.context.tm;
    assert_eq!(tm.armed.failure.as_deref(), Some("next_phones"));
    assert_eq!(tm.timing.fr_inv, Some(Duration::from_secs(20)));

    let second = |cancelled| {
        let mut context = failure_of(&ran.context, 480);
        context.tm.cancelled = cancelled;
        run_route(&script, Route::Named("next_phones"), context, |_| 1)
    };
    assert_eq!(second(true).wants, []);
    let second = second(false);
    assert_eq!((second.end, second.wants), (End::Normal, vec![RELAY]));
    assert_eq!(second.context.draft.uri(), b"sip:bob@10.0.0.5");
    let last = failure_of(&second.context, 480);
    let last = run_route(&script, Route::Named("next_phones"), last, |_| 1);
    assert_eq!((last.end, last.wants), (End::Normal, vec![]), "the failure goes up");
}

#[test]
fn a_method_that_no_phone_takes_is_405() {
    let (script, env) = (changed(&[]), env());
    let register = register("bob", "<sip:bob@10.0.0.5>")
        .replace("User-Agent", "Allow: INVITE, ACK\nUser-Agent");
    run_in(&script, &env, &register);
    let ran = run_in(&script, &env, &INVITE.replace("INVITE", "MESSAGE"));
    assert_eq!(ran.replies(), ["SIP/2.0 405 Method Not Allowed"]);
}

#[test]
fn the_setting_users_or_the_switch_asks_who_it_is() {
    asks_who_it_is(&changed(&[("local AUTH = false", "local AUTH = true")]), &env());
    let mut users = Users::default();
    assert!(users.add("bob".into(), None, Secret::Password("secret".into())));
    let users = Arc::new(users);
    asks_who_it_is(&changed(&[]), &env_with(|settings| settings.stateful.users = users));
}

fn asks_who_it_is(script: &Rc<Script>, env: &Rc<ScriptEnv>) {
    let ours = |message: &str| message.replace("sip:alice@127.0.0.1>", "sip:alice@example.com>");
    let says = |message: &str| run_in(script, env, message).replies();
    let asked = says(&register("bob", "<sip:bob@10.0.0.5>"));
    assert!(asked[0].starts_with("SIP/2.0 401 "), "{asked:?}");
    let asked = says(&ours(INVITE));
    assert!(asked[0].starts_with("SIP/2.0 407 "), "{asked:?}");
    let asked = says(&ours(&foreign("INVITE")));
    assert!(asked[0].starts_with("SIP/2.0 407 "), "{asked:?}");
    // A stranger may call us, and nobody else.
    let stranger = |message: String| message.replace("sip:alice@127.0.0.1>", "sip:al@example.org>");
    assert_eq!(says(&stranger(INVITE.into())), ["SIP/2.0 404 Not here"]);
    assert_eq!(says(&stranger(foreign("INVITE"))), ["SIP/2.0 403 Not relaying"]);
    // A call that is there is not asked again, and nothing answers an ACK.
    let ran = run_in(script, env, &ours(&in_dialog("BYE")));
    assert_eq!(ran.replies(), ["SIP/2.0 404 Not here"]);
    assert_eq!(says(&ours(&foreign("ACK"))), [""; 0]);
}

#[test]
fn the_switch_for_nat_knows_phones_by_their_source() {
    let (script, env) = (changed(&[("local NAT = false", "local NAT = true")]), env());
    run_in(&script, &env, &register("bob", "<sip:bob@192.168.1.5>"));
    let ran = run_in(&script, &env, INVITE);
    assert_eq!(ran.context.draft.uri(), b"sip:bob@192.168.1.5");
    assert_eq!(ran.context.draft.dst_uri.as_deref(), Some(&b"sip:127.0.0.1:15460"[..]));
    assert_eq!(ran.context.tm.armed.reply.as_deref(), Some("on_reply"));

    let reply = PROGRESS.replace("CSeq", "Contact: <sip:bob@192.168.1.5>\nCSeq");
    let context = Context::new(draft(&reply), Rc::clone(&env), Instant::now());
    let ran = run_route(&script, Route::Named("on_reply"), context, |_| 1);
    assert_eq!(ran.end, End::Normal);
    let mut out = Vec::new();
    lineway_wire::sip::reply::write(&ran.context.draft, &own(), &own().sockets[0], &mut out);
    let sent = String::from_utf8(out).unwrap();
    assert!(sent.contains("Contact: <sip:bob@192.168.1.5;alias=127.0.0.1~15460~1>"), "{sent}");
}
