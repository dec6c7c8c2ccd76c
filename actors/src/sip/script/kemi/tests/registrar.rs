//! `registrar`, and what `nathelper` does for it.

use lineway_wire::sip::draft::Target;

use super::*;

/// A REGISTER of bob's.
const REGISTER: &str = "REGISTER sip:example.com SIP/2.0
Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKr1
From: <sip:bob@example.com>;tag=a1
To: <sip:Bob@example.com>
Call-ID: r1@127.0.0.1
CSeq: 1 REGISTER
Contact: <sip:bob@10.0.0.1:5070>;q=0.5, <sip:bob@10.0.0.2>;q=0.9
Allow: INVITE, ACK, BYE
Content-Length: 0

";

const SAVE: &str = r#"KSR.registrar.save("location", 0)"#;
const LOOKUP: &str = r#"KSR.registrar.lookup("location")"#;

fn with(from: &str, to: &str) -> String {
    assert!(REGISTER.contains(from), "{from}");
    REGISTER.replace(from, to)
}

/// The reply that a run sent, line by line.
fn reply(ran: &Ran) -> Vec<String> {
    let [Effect::Send { bytes, .. }] = &ran.context.effects[..] else {
        panic!("{:?}", ran.context.effects)
    };
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}

/// What `save` gives, and the lines of its reply that start so.
#[track_caller]
fn saves(env: &Rc<ScriptEnv>, message: &str, gives: &str, status: &str) -> Vec<String> {
    let lines = reply(&check_in(env, message, &[(SAVE, gives)]));
    assert_eq!(lines[0], format!("SIP/2.0 {status}"));
    let told = |line: &&String| line.starts_with("Contact") || line.starts_with("P-Reg");
    lines.iter().filter(told).cloned().collect()
}

#[test]
fn save_tells_what_it_did_and_answers() {
    let env = env();
    let list = saves(&env, REGISTER, "int:1", "200 OK");
    let both = "Contact: <sip:bob@10.0.0.2>;q=0.9;expires=3600, \
                <sip:bob@10.0.0.1:5070>;q=0.5;expires=3600";
    assert_eq!(list, [both]);
    let next = |cseq: &str, contact: &str| {
        let line = "Contact: <sip:bob@10.0.0.1:5070>;q=0.5, <sip:bob@10.0.0.2>;q=0.9";
        with("CSeq: 1 ", &format!("CSeq: {cseq} ")).replace(line, contact)
    };
    assert_eq!(saves(&env, &next("2", "X: y"), "int:4", "200 OK"), [both]);
    let refresh = next("2", "Contact: <sip:bob@10.0.0.2>;expires=90");
    let list = saves(&env, &refresh, "int:2", "200 OK");
    assert!(list[0].ends_with("<sip:bob@10.0.0.2>;expires=90"), "{list:?}");
    let lower = next("1", "Contact: <sip:bob@10.0.0.2>;expires=90");
    let refused = saves(&env, &lower, "int:-1", "400 Bad Request");
    assert_eq!(refused, ["P-Registrar-Error: Invalid CSeq number"]);
    let none = saves(&env, &next("3", "Contact: *\nExpires: 0"), "int:3", "200 OK");
    assert_eq!(none, [""; 0]);
}

#[test]
fn sip_r133_too_many_contacts_are_503_and_minus_2() {
    let env = env_with(|settings| settings.stateful.max_contacts = 1);
    let refused = saves(&env, REGISTER, "int:-2", "503 Service Unavailable");
    assert_eq!(refused, ["P-Registrar-Error: Too many registered contacts"]);
    let env = env_with(|settings| settings.stateful.max_bindings = 1);
    let refused = saves(&env, REGISTER, "int:-2", "503 Service Unavailable");
    assert_eq!(refused, ["P-Registrar-Error: Too many bindings"]);
    assert_eq!(env.shared.locations.bindings(), 0);
}

#[test]
fn the_limits_of_the_settings_are_those_of_save() {
    let env = env_with(|settings| {
        settings.stateful.min_expires = 100;
        settings.stateful.max_expires = 200;
    });
    let list = saves(&env, &with(";q=0.9", ";expires=5"), "int:1", "200 OK");
    assert_eq!(
        list,
        ["Contact: <sip:bob@10.0.0.1:5070>;q=0.5;expires=200, <sip:bob@10.0.0.2>;expires=100"]
    );
}

#[test]
fn save_goes_with_the_lines_of_the_script() {
    let body = format!(
        "KSR.hdr.append_to_reply('X-Mine: 1\\r\\n') {SAVE} KSR.sl.sl_send_reply(500, 'Again')"
    );
    let ran = run(&body, REGISTER);
    let texts: Vec<_> = ran
        .context
        .effects
        .iter()
        .map(|effect| match effect {
            Effect::Send { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
            Effect::Reply { .. } => panic!("{effect:?}"),
        })
        .collect();
    assert!(texts[0].contains("\r\nX-Mine: 1\r\nContact: <sip:bob@"), "{}", texts[0]);
    assert!(texts[1].contains("\r\nX-Mine: 1\r\n") && !texts[1].contains("Contact:"));
}

#[test]
fn the_flags_of_save() {
    let env = env();
    let ran = check_in(&env, REGISTER, &[(r#"KSR.registrar.save("location", 2)"#, "int:1")]);
    assert_eq!((ran.replies().len(), ran.context.answered), (0, false));
    assert_eq!(env.shared.locations.bindings(), 2);
    let one = with("CSeq: 1 ", "CSeq: 2 ");
    let ran = check_in(&env, &one, &[(r#"KSR.registrar.save("location", 4 + 1 + 64)"#, "int:2")]);
    assert!(reply(&ran).contains(&"Contact: <sip:bob@10.0.0.2>;q=0.9;expires=3600".to_owned()));
    assert_eq!(env.shared.locations.bindings(), 1);
}

#[test]
fn only_a_register_is_saved() {
    for message in [INVITE, PROGRESS] {
        let ran = check(message, &[(SAVE, "int:-1")]);
        assert_eq!(ran.replies(), [""; 0]);
    }
}

#[test]
fn sip_r124_lookup_leads_to_the_phones() {
    let env = env();
    check_in(&env, &INVITE.replace("bob@example.com", "BOB@a.b"), &[(LOOKUP, "int:-1")]);
    saves(&env, REGISTER, "int:1", "200 OK");
    let ran = check_in(
        &env,
        &INVITE.replace("bob@example.com", "BOB@a.b"),
        &[
            (r#"KSR.registrar.registered("location")"#, "int:1"),
            (r#"KSR.registrar.registered("elsewhere")"#, "int:-1"),
            (LOOKUP, "int:1"),
            (r#"KSR.pv.get("$ru")"#, "string:sip:bob@10.0.0.2"),
            (r#"KSR.pv.get("$du")"#, "nil:nil"),
            (r#"KSR.pv.get("$branch(count)")"#, "int:1"),
        ],
    );
    let draft = &ran.context.draft;
    assert_eq!((draft.q, draft.force_socket), (Some(900), Some(SocketId(0))));
    let second = Target {
        uri: "sip:bob@10.0.0.1:5070".into(),
        q: Some(500),
        socket: Some(SocketId(0)),
        ..Target::default()
    };
    assert_eq!(draft.branches, [second]);
}

#[test]
fn lookup_tells_why_it_finds_nothing() {
    let env = env();
    saves(&env, REGISTER, "int:1", "200 OK");
    for (method, uri, gives) in [
        ("MESSAGE", "sip:bob@example.com", "int:-2"),
        ("INVITE", "sip:eve@example.com", "int:-1"),
        ("INVITE", "sip:example.com", "int:-1"),
        ("INVITE", "sip:bob@example.com;gr=urn:uuid:1", "int:-1"),
        ("INVITE", "nothing", "int:-3"),
    ] {
        let message = INVITE.replace("INVITE", method).replace("sip:bob@example.com", uri);
        let ran = check_in(&env, &message, &[(LOOKUP, gives)]);
        assert_eq!((ran.context.draft.uri, ran.context.draft.branches.len()), (None, 0), "{uri}");
    }
    check_in(&env, PROGRESS, &[(LOOKUP, "int:-3")]);
}

#[test]
fn lookup_keeps_to_the_branches_of_the_setting() {
    let env = env_with(|settings| settings.max_branches = 2);
    let contacts = "Contact: <sip:b@1>, <sip:b@2>, <sip:b@3>\nX: ";
    saves(&env, &with("Contact: ", contacts), "int:1", "200 OK");
    let ran = check_in(&env, INVITE, &[(LOOKUP, "int:1")]);
    assert_eq!(ran.context.draft.branches.len(), 1);
}

#[test]
fn a_phone_behind_a_nat_is_reached_where_it_came_from() {
    let env = env();
    let list = reply(&check_in(
        &env,
        REGISTER,
        &[
            ("KSR.nathelper.fix_nated_register()", "int:1"),
            (r#"KSR.pv.get("$avp(RECEIVED)")"#, "string:sip:127.0.0.1:15460"),
            ("KSR.setbflag(6)", "boolean:true"),
            (SAVE, "int:1"),
        ],
    ));
    assert!(list.iter().any(|line| line.contains(";received=\"sip:127.0.0.1:15460\"")), "{list:?}");
    let ran = check_in(
        &env,
        INVITE,
        &[
            (LOOKUP, "int:1"),
            (r#"KSR.pv.get("$du")"#, "string:sip:127.0.0.1:15460"),
            ("KSR.isbflagset(6)", "boolean:true"),
        ],
    );
    assert_eq!(ran.context.draft.branches[0].flags, 1 << 6);
    assert_eq!(ran.context.draft.branches[0].dst_uri.as_deref(), Some(&b"sip:127.0.0.1:15460"[..]));
    let mut draft = draft(REGISTER);
    draft.received.transport = Transport::Tcp;
    draft.received.source = "[2001:db8::1]:5099".parse().unwrap();
    let context = Context::new(draft, env, Instant::now());
    let ran = run_with(context, "KSR.nathelper.fix_nated_register()");
    assert_eq!(ran.value("$avp(RECEIVED)"), "sip:[2001:db8::1]:5099;transport=tcp");
}

#[test]
fn what_a_script_says_of_the_source_has_to_be_a_uri() {
    for bad in ["no uri", "x", &format!("sip:{}", "h".repeat(600))] {
        let body = format!("KSR.pv.sets('$avp(RECEIVED)', '{bad}') {SAVE}");
        let ran = run(&body, REGISTER);
        assert_eq!(ran.replies(), ["SIP/2.0 400 Bad Request"], "{bad}");
    }
}

#[test]
fn a_path_goes_in_as_route() {
    let env = env();
    let path = with("Allow:", "Path: <sip:p1.example;lr>\nPath: <sip:p2.example;lr>\nAllow:");
    saves(&env, &path, "int:1", "200 OK");
    let ran = check_in(
        &env,
        INVITE,
        &[(LOOKUP, "int:1"), (r#"KSR.pv.get("$du")"#, "string:sip:p1.example;lr")],
    );
    let path = ran.context.draft.path.as_deref();
    assert_eq!(path, Some(&b"<sip:p1.example;lr>, <sip:p2.example;lr>"[..]));
}

#[test]
fn unregister_removes_all_of_a_user() {
    let env = env();
    saves(&env, REGISTER, "int:1", "200 OK");
    check_in(
        &env,
        INVITE,
        &[
            (r#"KSR.registrar.unregister("location", "sip:BOB@elsewhere")"#, "int:1"),
            (r#"KSR.registrar.registered("location")"#, "int:-1"),
            (r#"KSR.registrar.unregister("location", "sip:bob@elsewhere")"#, "int:1"),
            (r#"KSR.registrar.unregister("location", "bob")"#, "int:-1"),
            (r#"KSR.registrar.unregister("location", "sip:elsewhere")"#, "int:-1"),
        ],
    );
    assert_eq!(env.shared.locations.bindings(), 0);
}

#[test]
fn what_is_over_is_not_found() {
    let env = env();
    saves(&env, REGISTER, "int:1", "200 OK");
    let later = Instant::now() + Duration::from_secs(3601);
    let context = Context::new(draft(INVITE), Rc::clone(&env), later);
    check_with(
        context,
        &[(LOOKUP, "int:-1"), (r#"KSR.registrar.registered("location")"#, "int:-1")],
    );
}
