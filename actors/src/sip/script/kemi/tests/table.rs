//! The table of all functions, as a whole.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::*;
use crate::sip::script::function::{Function, Gives, Kind, MAX_ARGS};
use crate::sip::script::kemi::functions;

/// How a script names a function.
pub(super) fn name(function: &Function) -> String {
    let dot = if function.module.is_empty() { "" } else { "." };
    format!("KSR.{}{dot}{}", function.module, function.name)
}

/// Arguments of the right kinds.
fn arguments(function: &Function) -> String {
    let argument = |kind: &Kind| if *kind == Kind::Str { "'x'" } else { "1" };
    function.takes.iter().map(argument).collect::<Vec<_>>().join(", ")
}

#[test]
fn no_function_is_there_twice() {
    let names: Vec<_> = functions().map(name).collect();
    let different: BTreeSet<_> = names.iter().collect();
    assert_eq!(different.len(), names.len());
    assert!(functions().all(|function| function.takes.len() <= MAX_ARGS));
}

#[test]
fn each_function_gives_what_its_row_says() {
    let mut body = String::new();
    for function in functions() {
        let types = match function.gives {
            Gives::None => "v == nil",
            Gives::Bool => "type(v) == 'boolean'",
            Gives::Int => "math.type(v) == 'integer'",
            Gives::Value => "v == nil or type(v) == 'string' or math.type(v) == 'integer'",
        };
        let name = name(function);
        // The arguments are of the right kinds, but not always something to work with.
        write!(body, "do local ok, v = pcall(function() return {name}({}) end)\n\
             if ok then assert({types}, '{name} gave a ' .. type(v)) else\n\
             assert(v:find('pseudo-variable', 1, true) or v:find('/pattern/', 1, true), v) end end\n",
            arguments(function)
        )
        .unwrap();
    }
    for message in [INVITE, PROGRESS] {
        assert_eq!(run(&body, message).end, End::Dropped, "KSR.drop() is among them");
    }
}

#[test]
fn wrong_arguments_are_an_error_that_names_the_function() {
    let mut body = String::new();
    for function in functions() {
        let name = name(function);
        let good = arguments(function);
        let comma = if good.is_empty() { "" } else { ", " };
        let mut calls = vec![format!("{name}({good}{comma}'more')")];
        for place in 0..function.takes.len() {
            let bad = |at: usize| match function.takes[at] {
                _ if at == place => "{}",
                Kind::Str => "'x'",
                Kind::Int => "1",
            };
            let arguments: Vec<_> = (0..function.takes.len()).map(bad).collect();
            calls.push(format!("{name}({})", arguments.join(", ")));
            calls.push(format!("{name}({})", arguments[..place].join(", ")));
        }
        for call in calls {
            write!(
                body,
                "do local ok, why = pcall(function() return {call} end)\n\
                 assert(not ok, [[{call} went through]])\n\
                 assert(why:find('^test.lua:%d+: {name}: '), why) end\n"
            )
            .unwrap();
        }
    }
    assert_eq!(run(&body, INVITE).end, End::Normal);
}

#[test]
fn a_number_will_do_for_a_string_and_what_is_whole_for_an_integer() {
    check(
        INVITE,
        &[
            ("KSR.hdr.is_present(5)", "int:-1"),
            ("KSR.setflag(3.0)", "boolean:true"),
            ("pcall(KSR.setflag, 3.5)", "boolean:false"),
            ("KSR.setflag('3')", "boolean:true"),
            ("pcall(KSR.setflag, '3x')", "boolean:false"),
            ("pcall(KSR.setflag, nil)", "boolean:false"),
        ],
    );
}

#[test]
fn media_relays_answer_that_none_is_there() {
    check(
        INVITE,
        &[
            ("type(KSR.rtpengine)", "string:table"),
            (r#"KSR.rtpengine.rtpengine_manage("replace-origin")"#, "int:-1"),
            ("KSR.rtpengine.rtpengine_delete0()", "int:-1"),
            (r#"KSR.rtpproxy.rtpproxy_manage("co")"#, "int:-1"),
        ],
    );
}

#[test]
fn a_function_needs_a_message_but_a_log_line_does_not() {
    let loaded = |text: &str| {
        let text = format!("{text}\nfunction ksr_request_route() end");
        let limits = ScriptLimits { time: Duration::from_secs(5), memory: 64 << 20 };
        let source = Source { name: "test.lua".into(), text: text.as_bytes().into() };
        Script::load(&source, limits).map(|_| ())
    };
    assert_eq!(loaded("KSR.info('loaded\\n') local stateful = KSR.kx.ifdef('STATEFUL')"), Ok(()));
    let error = loaded("KSR.force_rport()").unwrap_err().to_string();
    assert!(error.contains("KSR.force_rport: "), "{error}");
}
