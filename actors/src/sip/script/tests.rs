//! Scripts as the contract's section 9 wants them.

use std::sync::Arc;
use std::time::Duration;

use lineway_wire::sip::message::{Limits, Message};
use lineway_wire::sip::own::{Own, Received, SocketId, Transport};

use super::function::{Answer, Args, Function, Given, Gives, Kind, Raised, Run};
use super::*;
use crate::settings::SipRouterSettings;
use crate::sip::shared::SipShared;

mod library;
mod load;
mod patterns;
mod running;
mod time;

pub(super) fn limits() -> ScriptLimits {
    ScriptLimits { time: Duration::from_millis(50), memory: 64 << 20 }
}

pub(super) fn source(text: &str) -> Source {
    Source { name: "/etc/lineway/proxy.lua".into(), text: text.as_bytes().into() }
}

/// A script of this text, with an empty request route behind it.
pub(super) fn loaded(text: &str) -> Result<Rc<Script>, ScriptError> {
    script(&format!("{text}\nfunction ksr_request_route() end"))
}

/// A script of this text.
pub(super) fn script(text: &str) -> Result<Rc<Script>, ScriptError> {
    Script::with(&source(text), limits(), FUNCTIONS.iter())
}

/// What the tests' scripts call.
static FUNCTIONS: &[Function] = &[
    row("", "info", &[Kind::Str], Run::Anytime(|_, _| Ok(Given::Nil))),
    row("test", "wait", &[], Run::Waiting(|_, _| Ok(Given::Wait(Want::Forward { uri: None })))),
    row("test", "now", &[], Run::Waiting(|_, _| Ok(Given::Int(7)))),
    row("test", "flags", &[], Run::Message(|it, _| Ok(Given::Int(i64::from(it.draft.flags))))),
    row("test", "set", &[Kind::Int], Run::Message(set)),
    row("test", "call_id", &[], Run::Message(|it, _| Ok(it.draft.message.call_id().into()))),
    row("test", "same", &[Kind::Str], Run::Message(|_, args| Ok(args.str(0).into()))),
    row("test", "fails", &[], Run::Message(|_, _| Err(Raised::error("it is so")))),
    row("test", "ends", &[], Run::Message(|_, _| Err(Raised::Exit))),
    row("test", "drops", &[], Run::Message(|_, _| Err(Raised::Drop))),
    row("test", "marks", &[], Run::Message(marks)),
    row("test", "panics", &[], Run::Message(|_, _| panic!("as it is to be"))),
    row("test", "sends", &[], Run::Message(sends)),
    row("tm", "t_relay", &[], Run::Missing("transactions")),
];

const fn row(
    module: &'static str,
    name: &'static str,
    takes: &'static [Kind],
    run: Run,
) -> Function {
    Function { module, name, takes, gives: Gives::Value, run }
}

fn set<'c>(context: &'c mut Context, args: &'c Args<'_>) -> Answer<'c> {
    context.draft.flags =
        u32::try_from(args.int(0)).map_err(|_| Raised::error("it is too large"))?;
    Ok(Given::Bool(true))
}

#[expect(clippy::unnecessary_wraps, reason = "as the table has it")]
fn marks<'c>(context: &'c mut Context, _: &'c Args<'_>) -> Answer<'c> {
    context.dropped = true;
    Ok(Given::Nil)
}

#[expect(clippy::unnecessary_wraps, reason = "as the table has it")]
fn sends<'c>(context: &'c mut Context, _: &'c Args<'_>) -> Answer<'c> {
    let way = Way {
        socket: SocketId(0),
        transport: Transport::Udp,
        to: context.draft.received.source,
        connection: None,
        may_connect: false,
        close_after: false,
    };
    context.effects.push(Effect::Send { way, bytes: Bytes::from_static(b"x"), code: 200 });
    Ok(Given::Int(1))
}

/// A context of a request.
pub(super) fn context() -> Context {
    let text = "OPTIONS sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
        From: <sip:alice@example.org>;tag=a\r\nTo: <sip:bob@example.org>\r\nCall-ID: c1\r\n\
        CSeq: 1 OPTIONS\r\n\r\n";
    let message = Message::parse(Bytes::from_static(text.as_bytes()), &Limits::default());
    let received = Received {
        source: ([192, 0, 2, 1], 5060).into(),
        socket: SocketId(0),
        transport: Transport::Udp,
        connection: None,
    };
    let own = Rc::new(Own::default());
    let settings = Arc::new(SipRouterSettings::default());
    let env = ScriptEnv::new("route".into(), own, settings, Arc::new(SipShared::default()));
    Context::new(Draft::new(message.expect("it parses"), received), Rc::new(env), Instant::now())
}

/// Runs the request route to its end; what waits gets 1.
pub(super) fn run(script: &Rc<Script>) -> (Context, End) {
    let mut step = script.start(Route::Request, context());
    loop {
        match step {
            Step::Ended(context, end) => return (context, end),
            Step::Suspended(waits, _) => step = waits.resume(1, Instant::now()),
        }
    }
}

/// Loads a script with this request route and runs it once: how it ended.
pub(super) fn ran(route: &str) -> End {
    let text = format!("function ksr_request_route()\n{route}\nend");
    run(&script(&text).expect("it loads")).1
}

/// The error that a request route of this text ends with.
pub(super) fn failed(route: &str) -> ScriptError {
    match ran(route) {
        End::Failed(error) => error,
        end => panic!("{end:?} of {route}"),
    }
}
