//! `auth`, `auth_db`, `$au` and its kind.

use lineway_wire::sip::digest::{Algorithm, Answer, Hash, Nonces, Qop};

use super::*;
use crate::sip::users::{Secret, Users};

const REALM: &str = "example.com";

fn users() -> Arc<Users> {
    let mut users = Users::default();
    users.add("alice".into(), None, Secret::Password("secret".into()));
    let md5 = Hash::ha1(Algorithm::Md5, b"carol", b"old.example", b"third");
    users.add("carol".into(), Some("old.example".into()), Secret::Ha1(vec![md5]));
    Arc::new(users)
}

fn env() -> Rc<ScriptEnv> {
    env_with(|settings| settings.stateful.users = users())
}

fn request(method: &str, headers: &str) -> String {
    format!(
        "{method} sip:bob@example.com SIP/2.0
Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1
From: <sip:alice@example.com>;tag=a1
To: <sip:alice@example.com>
Call-ID: c1
CSeq: 7 {method}
{headers}Content-Length: 0

"
    )
}

/// The challenges of the reply that a run made: the header's name, and the parameters.
fn challenges(ran: &Ran) -> Vec<(String, String)> {
    let Some(Effect::Send { bytes, .. }) = ran.context.effects.last() else { return Vec::new() };
    let text = String::from_utf8_lossy(bytes).into_owned();
    let line = |line: &str| {
        let (name, value) = line.split_once(": Digest ")?;
        Some((name.to_owned(), value.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

fn nonce_of(challenge: &str) -> String {
    challenge.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

/// A nonce that is good in this environment.
fn nonce(env: &Rc<ScriptEnv>) -> String {
    let ran = run_in(env, "KSR.auth.www_challenge('example.com', 1)", &request("REGISTER", ""));
    nonce_of(&challenges(&ran)[0].1)
}

/// The line with the credentials of a user.
fn credentials(header: &str, method: &str, nonce: &str, user: &str, password: &str) -> String {
    counted(header, method, nonce, (user, password), 1)
}

fn counted(
    header: &str,
    method: &str,
    nonce: &str,
    (user, password): (&str, &str),
    count: u32,
) -> String {
    let answer = Answer {
        user,
        realm: REALM,
        nonce,
        algorithm: Algorithm::Sha256,
        qop: Some(Qop::Auth),
        count,
        cnonce: "c",
        uri: "sip:example.com",
    };
    format!("{header}: {}\n", answer.credentials(password, method, b""))
}

const CHECK: &str = "KSR.auth_db.auth_check('example.com', 'subscriber', 0)";

#[track_caller]
fn checks(env: &Rc<ScriptEnv>, message: &str, call: &str, gives: i64) {
    check_in(env, message, &[(call, &format!("int:{gives}"))]);
}

#[test]
fn a_challenge_has_a_line_for_each_algorithm() {
    let body = "assert(KSR.auth.auth_challenge('example.com', 1) == 1)";
    for (method, status, header) in [
        ("REGISTER", "SIP/2.0 401 Unauthorized", "WWW-Authenticate"),
        ("INVITE", "SIP/2.0 407 Proxy Authentication Required", "Proxy-Authenticate"),
    ] {
        let ran = run_in(&env(), body, &request(method, ""));
        assert_eq!((ran.end.clone(), ran.replies()), (End::Normal, vec![status.to_owned()]));
        let lines = challenges(&ran);
        assert!(lines.iter().all(|(name, _)| name == header), "{lines:?}");
        for ((_, line), algorithm) in lines.iter().zip(["SHA-512-256", "SHA-256", "MD5"]) {
            assert!(line.starts_with("realm=\"example.com\", nonce=\""), "{line}");
            assert!(line.ends_with(&format!(", qop=\"auth\", algorithm={algorithm}")), "{line}");
        }
        assert_eq!(lines.len(), 3);
        assert!(ran.context.draft.reply_lines.is_empty(), "another reply is no challenge");
    }
}

#[test]
fn the_flags_of_a_challenge() {
    let lines = |flags: i64| {
        let body = format!("assert(KSR.auth.proxy_challenge('example.com', {flags}) == 1)");
        let lines = challenges(&run_in(&env(), &body, &request("INVITE", "")));
        lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>()
    };
    assert!(lines(0).iter().all(|line| !line.contains("qop") && !line.contains("stale")));
    assert!(lines(2).iter().all(|line| line.contains("qop=\"auth-int\"")));
    assert!(lines(3).iter().all(|line| line.contains("qop=\"auth,auth-int\"")));
    assert!(lines(17).iter().all(|line| line.contains("stale=true")));
    let algorithms = |flags| {
        let of = |line: String| line.rsplit_once('=').unwrap().1.to_owned();
        lines(flags).into_iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(algorithms(33), ["MD5"]);
    assert_eq!(algorithms(97), ["SHA-256", "MD5"]);
    assert_eq!(algorithms(129), ["SHA-512-256"]);
}

#[test]
fn a_realm_is_offered_what_its_users_can_be_checked_with() {
    let env = env_with(|settings| {
        let mut users = Users::default();
        let md5 = Hash::ha1(Algorithm::Md5, b"carol", b"old.example", b"third");
        users.add("carol".into(), Some("old.example".into()), Secret::Ha1(vec![md5]));
        settings.stateful.users = Arc::new(users);
    });
    let body = "KSR.auth.www_challenge('old.example', 1)";
    let lines = challenges(&run_in(&env, body, &request("REGISTER", "")));
    assert_eq!(lines.len(), 1);
    assert!(lines[0].1.ends_with("algorithm=MD5"));
}

#[test]
fn what_can_not_be_challenged_or_is_no_realm() {
    for method in ["ACK", "CANCEL"] {
        let message = request(method, "");
        checks(&env(), &message, "KSR.auth.auth_challenge('example.com', 1)", -1);
        checks(&env(), &message, CHECK, 1);
    }
    let ran = run_in(&env(), r#"KSR.auth.auth_challenge('a"b', 1)"#, &request("INVITE", ""));
    assert_eq!(ran.replies(), ["SIP/2.0 500 Server Internal Error"]);
    let ran = run_in(&env(), r#"KSR.auth.auth_challenge('a"b', 5)"#, &request("INVITE", ""));
    assert_eq!(ran.replies(), [""; 0]);
    checks(&env(), PROGRESS, "KSR.auth.auth_challenge('example.com', 1)", -1);
    checks(&env(), PROGRESS, CHECK, -5);
}

#[test]
fn without_a_realm_it_is_the_setting_or_the_domain_of_who_asks() {
    let realm = |env: &Rc<ScriptEnv>, method: &str| {
        let message =
            request(method, "").replace("To: <sip:alice@example.com>", "To: <sip:a@to.example>");
        let ran = run_in(env, "KSR.auth.auth_challenge('', 1)", &message);
        challenges(&ran)[0].1.split('"').nth(1).unwrap().to_owned()
    };
    assert_eq!(realm(&env(), "INVITE"), "example.com");
    assert_eq!(realm(&env(), "REGISTER"), "to.example");
    let env = env_with(|settings| settings.stateful.realm = Some("set.example".into()));
    assert_eq!(realm(&env, "REGISTER"), "set.example");
}

#[test]
fn what_credentials_are_worth() {
    let env = env();
    let nonce = nonce(&env);
    let with = |user, password| {
        let line = credentials("Authorization", "REGISTER", &nonce, user, password);
        request("REGISTER", &line)
    };
    checks(&env, &with("alice", "secret"), CHECK, 1);
    checks(&env, &with("alice", "wrong"), CHECK, -2);
    checks(&env, &with("bob", "secret"), CHECK, -3);
    checks(&env, &request("REGISTER", ""), CHECK, -5);
    let other = "KSR.auth_db.auth_check('other.example', 'subscriber', 0)";
    checks(&env, &with("alice", "secret"), other, -5);
    let broken = with("alice", "secret").replace("qop=auth", "qop=x");
    checks(&env, &broken, CHECK, -1);
    let line = credentials("Proxy-Authorization", "INVITE", &nonce, "alice", "secret");
    checks(&env, &request("INVITE", &line), CHECK, 1);
    let line = credentials("Authorization", "INVITE", &nonce, "alice", "secret");
    checks(&env, &request("INVITE", &line), CHECK, 1);
    let line = credentials("Authorization", "REGISTER", &nonce, "alice", "secret");
    checks(&env, &request("INVITE", &line), CHECK, -2);
}

#[test]
fn a_nonce_that_is_old_or_of_somebody_else_is_stale_and_the_next_challenge_says_so() {
    let env = env();
    let stale = "assert(KSR.auth_db.auth_check('example.com', 'x', 0) == -4)
        KSR.auth.www_challenge('example.com', 1)";
    let foreign = "ab".repeat(32);
    let line = credentials("Authorization", "REGISTER", &foreign, "alice", "secret");
    let ran = run_in(&env, stale, &request("REGISTER", &line));
    assert_eq!(ran.end, End::Normal);
    assert!(challenges(&ran).iter().all(|(_, line)| line.contains("stale=true")));

    let line = credentials("Authorization", "REGISTER", &nonce(&env), "alice", "secret");
    let context = |later| {
        let message = draft(&request("REGISTER", &line));
        Context::new(message, Rc::clone(&env), Instant::now() + later)
    };
    let script = script(&format!("function ksr_request_route() {stale} end"));
    let ran = run_script(&script, context(Nonces::LIFETIME + Duration::from_secs(1)), 1);
    assert_eq!(ran.end, End::Normal);
    let ran = run_script(&script, context(Duration::from_secs(1)), 1);
    assert!(ran.error().contains("assertion"), "it is good for its time");

    // Who does not know the password learns nothing of the nonce.
    let line = credentials("Authorization", "REGISTER", &foreign, "alice", "wrong");
    checks(&env, &request("REGISTER", &line), CHECK, -2);
}

#[test]
fn a_nonce_is_good_for_one_request_of_each_count_if_that_is_asked_for() {
    let env = env();
    let nonce = nonce(&env);
    let with = |count, number: u32| {
        let user = ("alice", "secret");
        let line = counted("Authorization", "REGISTER", &nonce, user, count);
        request("REGISTER", &line).replace("CSeq: 7", &format!("CSeq: {number}"))
    };
    let strict = "KSR.auth_db.auth_check('example.com', 'x', 4)";
    checks(&env, &with(1, 1), strict, 1);
    checks(&env, &with(1, 1), strict, 1);
    checks(&env, &with(1, 2), strict, -6);
    checks(&env, &with(2, 2), strict, 1);
    checks(&env, &with(2, 3), CHECK, 1);
}

#[test]
fn from_and_to_are_of_the_user_if_that_is_asked_for() {
    let env = env_with(|settings| {
        let mut users = Users::default();
        for name in ["alice", "alice@example.com", "eve"] {
            users.add(name.into(), None, Secret::Password("secret".into()));
        }
        settings.stateful.users = Arc::new(users);
    });
    let nonce = nonce(&env);
    let gives = |method: &str, user, flags: i64, change: (&str, &str), gives| {
        let line = credentials("Authorization", method, &nonce, user, "secret");
        let message = request(method, &line).replace(change.0, change.1);
        let call = format!("KSR.auth_db.auth_check('example.com', 'x', {flags})");
        checks(&env, &message, &call, gives);
    };
    let same = ("", "");
    gives("REGISTER", "alice", 1, same, 1);
    gives("REGISTER", "alice@example.com", 1, same, 1);
    gives("REGISTER", "eve", 1, same, -8);
    gives("REGISTER", "eve", 0, same, 1);
    gives("REGISTER", "alice", 1, ("To: <sip:alice@", "To: <sip:bob@"), -8);
    gives("REGISTER", "alice", 1, ("From: <sip:alice@", "From: <sip:bob@"), -8);
    gives("INVITE", "alice", 1, ("To: <sip:alice@", "To: <sip:bob@"), 1);
    gives("INVITE", "eve", 1, same, -8);
    gives("INVITE", "eve", 3, same, 1);
    gives("SUBSCRIBE", "eve", 3, same, -8);
    gives("PUBLISH", "alice", 1, same, -8);
    gives("PUBLISH", "alice", 1, ("PUBLISH sip:bob@", "PUBLISH sip:alice@"), 1);
}

#[test]
fn credentials_that_were_found_right_can_be_removed() {
    let env = env();
    let line = credentials("Proxy-Authorization", "INVITE", &nonce(&env), "alice", "secret");
    let other = "Proxy-Authorization: Digest username=\"x\", realm=\"next.example\", nonce=\"n\", \
                 uri=\"sip:a\", response=\"939e7578ed9e3c518a452acee763bce9\"\n";
    let message = request("INVITE", &format!("{other}{line}"));
    let body = "assert(KSR.auth.consume_credentials() == -1)
        assert(KSR.auth_db.auth_check('example.com', 'x', 0) == 1)
        KSR.pv.sets('$avp(au)', KSR.pv.get('$au'))
        assert(KSR.auth.consume_credentials() == 1)
        KSR.textopsx.msg_apply_changes()";
    let ran = run_in(&env, body, &message);
    assert_eq!(ran.end, End::Normal);
    assert_eq!(ran.value("$avp(au)"), "alice", "the ones that were found right");
    let text = String::from_utf8_lossy(ran.context.draft.message.bytes()).into_owned();
    assert!(text.contains("next.example") && !text.contains("username=\"alice\""), "{text}");
}

#[test]
fn credentials_have_variables() {
    let env = env();
    let nonce = nonce(&env);
    let line = credentials("Authorization", "REGISTER", &nonce, "alice@x.example", "secret");
    check_in(
        &env,
        &request("REGISTER", &line),
        &[
            (r#"KSR.pv.get("$au")"#, "string:alice"),
            (r#"KSR.pv.get("$aU")"#, "string:alice@x.example"),
            (r#"KSR.pv.get("$ad")"#, "string:x.example"),
            (r#"KSR.pv.get("$ar")"#, "string:example.com"),
            (r#"KSR.pv.get("$adu")"#, "string:sip:example.com"),
            (r#"KSR.pv.get("$aa")"#, "string:SHA-256"),
        ],
    );
    check(INVITE, &[(r#"KSR.pv.get("$au")"#, "nil:nil"), (r#"KSR.pv.get("$ar")"#, "nil:nil")]);
}
