//! What each function gives and does, run by scripts. Where nothing says otherwise the values are
//! those that Kamailio 5.6.3 gives for the same message.

use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lineway_wire::sip::draft::Draft;
use lineway_wire::sip::message::{Limits, Message};
use lineway_wire::sip::own::{Alias, Own, Received, Socket, SocketId, Transport};

use super::var::{self, Name};
use crate::settings::SipRouterSettings;
use crate::sip::back::Way;
use crate::sip::script::function::Given;
use crate::sip::script::{Context, Effect, End, Route, Script, ScriptLimits, Source, Step, Want};
use crate::sip::shared::{ScriptEnv, SipShared};

mod auth;
mod basic;
mod dispatcher;
mod docs;
mod edits;
mod examples;
mod message;
mod pv;
mod registrar;
mod shared;
mod stateful;
mod table;
mod tm;

/// A request as the caller sends it.
const INVITE: &str = "INVITE sip:bob@example.com SIP/2.0
Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1
Max-Forwards: 70
From: \"Al\" <sip:alice@127.0.0.1>;tag=a1
To: <sip:bob@127.0.0.1>
Call-ID: c1@127.0.0.1
CSeq: 1 INVITE
X-A: one
X-A: two
User-Agent: PBX
P-Asserted-Identity: <sip:ass@x.y>
Contact: <sip:alice@127.0.0.1:15060>
Content-Type: text/plain
Content-Length: 5

hello";

/// A reply as the callee sends it.
const PROGRESS: &str = "SIP/2.0 183 Session Progress
Via: SIP/2.0/UDP 127.0.0.1:25460;branch=z9hG4bK1e7d.7719d4a5a71b81bd9cb3d846c73d5103.0
Via: SIP/2.0/UDP 127.0.0.1:15460;branch=z9hG4bKc1
From: sip:alice@127.0.0.1:99;tag=a1
To: <tel:+4912;ext=3>;tag=b1
Call-ID: c1@127.0.0.1
CSeq: 7 INVITE

";

/// What a run left.
struct Ran {
    context: Context,
    end: End,
    wants: Vec<Want>,
}

impl Ran {
    /// The replies that it made: status lines; those of a transaction without the version.
    fn replies(&self) -> Vec<String> {
        let line = |effect: &Effect| match effect {
            Effect::Send { bytes, .. } => {
                let end = bytes.iter().position(|byte| *byte == b'\r').unwrap();
                String::from_utf8_lossy(&bytes[..end]).into_owned()
            }
            Effect::Reply { code, reason, .. } => {
                format!("{code} {}", String::from_utf8_lossy(reason))
            }
        };
        self.context.effects.iter().map(line).collect()
    }

    /// The bytes and the way of the one reply without state that it made.
    #[track_caller]
    fn sent_reply(&self) -> (&str, &Way) {
        match &self.context.effects[..] {
            [Effect::Send { bytes, way, .. }] => (std::str::from_utf8(bytes).unwrap(), way),
            other => panic!("{other:?}"),
        }
    }

    fn value(&self, name: &str) -> String {
        let name = Name::parse(name.as_bytes()).unwrap();
        match var::read(&self.context, &name).unwrap() {
            Given::Shared(text) => String::from_utf8_lossy(&text).into_owned(),
            other => format!("{other:?}"),
        }
    }

    #[track_caller]
    fn error(&self) -> String {
        match &self.end {
            End::Failed(error) => error.to_string(),
            other => panic!("it did not fail: {other:?}"),
        }
    }
}

fn own() -> Own {
    let socket = |id, transport| Socket {
        id: SocketId(id),
        transport,
        address: "127.0.0.1:25460".parse().unwrap(),
        host: Bytes::from_static(b"127.0.0.1"),
        port: 25460,
    };
    let alias = Alias { host: Bytes::from_static(b"example.com"), port: None, transport: None };
    Own {
        sockets: vec![socket(0, Transport::Udp), socket(1, Transport::Tcp)],
        aliases: vec![alias],
    }
}

/// What one worker works with, with settings that are not the default.
fn env_with(change: impl FnOnce(&mut SipRouterSettings)) -> Rc<ScriptEnv> {
    let mut settings = SipRouterSettings::default();
    change(&mut settings);
    let shared = Arc::new(SipShared::default());
    Rc::new(ScriptEnv::new("proxy".into(), Rc::new(own()), Arc::new(settings), shared))
}

fn env() -> Rc<ScriptEnv> {
    env_with(|_| {})
}

fn draft(message: &str) -> Draft {
    let (head, body) = message.split_once("\n\n").unwrap();
    let text = format!("{}\r\n\r\n{body}", head.replace('\n', "\r\n"));
    let message = Message::parse(text.into(), &Limits::default()).unwrap();
    let received = Received {
        source: "127.0.0.1:15460".parse().unwrap(),
        socket: SocketId(0),
        transport: Transport::Udp,
        connection: None,
    };
    Draft::new(message, received)
}

fn script(text: &str) -> Rc<Script> {
    let limits = ScriptLimits { time: Duration::from_secs(5), memory: 64 << 20 };
    let source = Source { name: "test.lua".into(), text: text.as_bytes().into() };
    Script::load(&source, limits).unwrap()
}

/// Runs a whole script on a message; what waits goes on with `result`.
fn run_script(script: &Rc<Script>, context: Context, result: i64) -> Ran {
    let is_request = context.draft.message.is_request();
    let route = if is_request { Route::Request } else { Route::Reply };
    run_route(script, route, context, |_| result)
}

/// Runs a route; what waits goes on with what `results` has for it.
fn run_route(
    script: &Rc<Script>,
    route: Route<'_>,
    context: Context,
    results: impl Fn(&Want) -> i64,
) -> Ran {
    let (mut wants, mut step) = (Vec::new(), script.start(route, context));
    loop {
        step = match step {
            Step::Ended(context, end) => return Ran { context, end, wants },
            Step::Suspended(suspended, want) => {
                let result = results(&want);
                wants.push(want);
                suspended.resume(result, Instant::now())
            }
        }
    }
}

/// Runs the body of a route on a message.
fn run_in(env: &Rc<ScriptEnv>, body: &str, message: &str) -> Ran {
    run_with(Context::new(draft(message), Rc::clone(env), Instant::now()), body)
}

/// Runs the body of a route in a context. There are functions `x` and `on_..` to arm.
fn run_with(context: Context, body: &str) -> Ran {
    let script = script(&format!(
        "local function route() {body}\nend\nksr_request_route = route\nksr_reply_route = route
        x, on_branch, on_reply, on_failure, on_branch_failure = route, route, route, route, route"
    ));
    run_script(&script, context, 1)
}

fn run(body: &str, message: &str) -> Ran {
    run_in(&env(), body, message)
}

/// Runs expressions one after the other in one invocation, and compares each with `type:value`.
#[track_caller]
fn check_in(env: &Rc<ScriptEnv>, message: &str, expected: &[(&str, &str)]) -> Ran {
    check_with(Context::new(draft(message), Rc::clone(env), Instant::now()), expected)
}

#[track_caller]
fn check_with(context: Context, expected: &[(&str, &str)]) -> Ran {
    let mut body = String::new();
    for (place, (expression, _)) in expected.iter().enumerate() {
        writeln!(
            body,
            "do local v = {expression}; KSR.pv.sets('$avp(out{place})', \
             math.type(v) == 'integer' and 'int:' .. v or type(v) .. ':' .. tostring(v)) end"
        )
        .unwrap();
    }
    let ran = run_with(context, &body);
    assert_eq!(ran.end, End::Normal);
    for (place, (expression, want)) in expected.iter().enumerate() {
        assert_eq!(ran.value(&format!("$avp(out{place})")), *want, "{expression}");
    }
    ran
}

#[track_caller]
fn check(message: &str, expected: &[(&str, &str)]) -> Ran {
    check_in(&env(), message, expected)
}
