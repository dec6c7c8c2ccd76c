//! The scripts beside the built-in one, `examples/sip`.

use super::stateful::register;
use super::tm::failure_of;
use super::*;
use crate::settings::DispatcherTarget;
use crate::sip::script::tm::TmWant;

const FAILOVER: &str = include_str!("../../../../../../examples/sip/failover.lua");
const SERIAL: &str = include_str!("../../../../../../examples/sip/serial.lua");

const RELAY: Want = Want::Tm(TmWant::Relay(None));

fn start(script: &Rc<Script>, env: &Rc<ScriptEnv>, message: &str) -> Ran {
    let context = Context::new(draft(message), Rc::clone(env), Instant::now());
    let ran = run_script(script, context, 1);
    assert_eq!(ran.end, End::Normal);
    ran
}

/// Runs the failure route that a run has armed, for a failure of this status.
fn fail(script: &Rc<Script>, earlier: &Ran, code: u16) -> Ran {
    let route = earlier.context.tm.armed.failure.clone().expect("a failure route");
    let ran = run_route(script, Route::Named(&route), failure_of(&earlier.context, code), |_| 1);
    assert_eq!(ran.end, End::Normal);
    ran
}

fn destination(ran: &Ran) -> String {
    String::from_utf8_lossy(ran.context.draft.dst_uri.as_deref().unwrap_or_default()).into_owned()
}

#[test]
fn each_example_loads() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/sip");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "lua") {
            script(&std::fs::read_to_string(path).unwrap());
            count += 1;
        }
    }
    assert!(count >= 3, "{count}");
}

#[test]
fn sip_r085_the_second_trunk_takes_what_the_first_does_not() {
    let (script, env) = (script(FAILOVER), env());
    let first = start(&script, &env, INVITE);
    assert_eq!(
        (&first.wants[..], destination(&first)),
        (&[RELAY][..], "sip:trunk1.example.net".into())
    );
    assert_eq!(first.context.tm.timing.fr, Some(Duration::from_secs(3)));
    for code in [503, 500, 408] {
        let second = fail(&script, &first, code);
        assert_eq!(second.wants, [RELAY], "{code}");
        assert_eq!(destination(&second), "sip:trunk2.example.net;transport=tcp");
        assert_eq!(fail(&script, &second, 503).wants, [], "there is no third");
    }
}

#[test]
fn sip_r088_what_the_callee_says_goes_up() {
    let (script, env) = (script(FAILOVER), env());
    let first = start(&script, &env, INVITE);
    for code in [486, 404, 603, 487] {
        let ran = fail(&script, &first, code);
        assert_eq!((ran.wants.len(), ran.replies().len()), (0, 0), "{code}");
    }
}

#[test]
fn the_targets_of_a_dispatcher_are_trunks_too() {
    let text = FAILOVER.replace("local DISPATCHER_SET = 0", "local DISPATCHER_SET = 1");
    let script = script(&text);
    let env = env_with(|settings| {
        let targets = ["sip:10.0.0.1", "sip:10.0.0.2"].into_iter();
        let targets = targets.filter_map(DispatcherTarget::parse).collect();
        settings.dispatcher.insert(1, targets);
    });
    let first = start(&script, &env, INVITE);
    assert_eq!(first.wants, [RELAY]);
    let second = fail(&script, &first, 503);
    assert_eq!(second.wants, [RELAY]);
    let mut both = [destination(&first), destination(&second)];
    both.sort();
    assert_eq!(both, ["sip:10.0.0.1", "sip:10.0.0.2"]);
    assert_eq!(fail(&script, &second, 503).wants, []);
}

#[test]
fn sip_r130_phones_are_tried_from_high_q_to_low() {
    let (script, env) = (script(SERIAL), env());
    let contacts = "<sip:a@10.0.0.1>;q=0.5, <sip:b@10.0.0.2>;q=0.9, <sip:c@10.0.0.3>;q=0.5";
    assert_eq!(start(&script, &env, &register("bob", contacts)).replies(), ["SIP/2.0 200 OK"]);
    let first = start(&script, &env, INVITE);
    assert_eq!(
        (&first.wants[..], first.context.draft.uri()),
        (&[RELAY][..], &b"sip:b@10.0.0.2"[..])
    );
    let second = fail(&script, &first, 486);
    assert_eq!((second.wants.len(), second.context.draft.branches.len()), (1, 1));
    let last = fail(&script, &second, 408);
    assert_eq!(
        (&last.wants[..], destination(&last)),
        (&[RELAY][..], "sip:voicemail.example.com".into())
    );
    assert_eq!(last.context.draft.uri(), b"sip:bob@example.com", "the name that was called");
    assert_eq!(last.context.tm.armed.failure, None);
    assert_eq!(fail(&script, &first, 603).wants, [], "a refusal is meant for all phones");
}

#[test]
fn who_has_no_phone_has_a_voice_mail() {
    let (script, env) = (script(SERIAL), env());
    let ran = start(&script, &env, INVITE);
    assert_eq!(
        (&ran.wants[..], destination(&ran)),
        (&[RELAY][..], "sip:voicemail.example.com".into())
    );
    let ran = start(&script, &env, &INVITE.replace("INVITE", "MESSAGE"));
    assert_eq!(ran.replies(), ["SIP/2.0 404 Not here"]);
}
