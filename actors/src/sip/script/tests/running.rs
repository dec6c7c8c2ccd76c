//! Invocations: how they end, how they wait, what they share.

use super::*;

fn waiting(step: Step) -> Suspended {
    match step {
        Step::Suspended(waits, Want::Forward { uri: None }) => waits,
        Step::Suspended(_, want) => panic!("it wants {want:?}"),
        Step::Ended(_, end) => panic!("it ended: {end:?}"),
    }
}

fn ended(step: Step) -> (Context, End) {
    match step {
        Step::Ended(context, end) => (context, end),
        Step::Suspended(_, want) => panic!("it waits for {want:?}"),
    }
}

#[test]
fn a_route_works_on_the_message_of_its_invocation() {
    let script = script(
        "function ksr_request_route()
            assert(KSR.test.call_id() == 'c1')
            assert(KSR.test.same('\\xff\\0') == '\\xff\\0')
            KSR.test.set(KSR.test.flags() + 5)
        end",
    );
    let script = script.expect("it loads");
    let mut given = context();
    given.draft.flags = 3;
    let (context, end) = ended(script.start(Route::Request, given));
    assert_eq!((context.draft.flags, end), (8, End::Normal));
}

#[test]
fn exit_and_drop_pass_through_everything_that_could_hold_them() {
    for around in [
        "CALL",
        "pcall(KSR.x.HOW)",
        "pcall(function() CALL end)",
        "pcall(pcall, pcall, KSR.x.HOW)",
        "xpcall(KSR.x.HOW, function(e) return 'held' end)",
        "xpcall(function() CALL end, error)",
        "coroutine.resume(coroutine.create(function() CALL end))",
        "coroutine.wrap(function() pcall(KSR.x.HOW) end)()",
        "pcall(coroutine.wrap(function() coroutine.wrap(function() CALL end)() end))",
        "pcall(table.sort, {3, 1, 2}, function() CALL end)",
        "pcall(string.gsub, 'a', 'a', function() CALL end)",
        "pcall(function() return #setmetatable({}, {__len = function() CALL end}) end)",
        "do local x <close> = setmetatable({}, {__close = function() error('other') end}) CALL end",
        "pcall(function() local x <close> = setmetatable({}, {__close = function() CALL end}) end)",
        "coroutine.close((function()
            local c = coroutine.create(function()
                local x <close> = setmetatable({}, {__close = function() CALL end})
                coroutine.yield()
            end)
            coroutine.resume(c)
            return c
        end)())",
    ] {
        for (how, end) in [("exit", End::Normal), ("drop", End::Dropped)] {
            let around = around.replace("CALL", "KSR.x.HOW()").replace("HOW", how);
            assert_eq!(ran(&format!("{around}\nerror('it went on')")), end, "{around}");
        }
    }
}

#[test]
fn a_function_ends_an_invocation_as_exit_and_drop_do() {
    assert_eq!(ran("pcall(KSR.test.ends) error('it went on')"), End::Normal);
    assert_eq!(ran("pcall(KSR.test.drops) error('it went on')"), End::Dropped);
    assert_eq!(ran("KSR.test.marks() KSR.test.flags()"), End::Dropped);
    assert_eq!(ran("KSR.test.marks() KSR.x.exit()"), End::Dropped);
}

#[test]
fn the_next_invocation_begins_anew() {
    let script = script(
        "n = 0
        function ksr_request_route()
            n = n + 1
            if n == 1 then KSR.x.drop() end
            if n == 2 then error('two') end
            if n == 3 then pcall(KSR.test.panics) end
            if n == 4 then while true do end end
            KSR.test.set(n)
        end",
    );
    let script = script.expect("it loads");
    assert_eq!(run(&script).1, End::Dropped);
    assert!(matches!(run(&script).1, End::Failed(error) if error.message == "two"));
    assert!(matches!(run(&script).1, End::Failed(error) if error.message.ends_with("panicked")));
    assert!(matches!(run(&script).1, End::Failed(error) if error.kind == ScriptFault::Time));
    let (context, end) = run(&script);
    assert_eq!((context.draft.flags, end), (5, End::Normal));
}

#[test]
fn what_waits_gets_its_result_and_keeps_its_context() {
    let script = script(
        "function ksr_request_route()
            local a = KSR.test.flags()
            local b = KSR.test.wait()
            local ok, c = pcall(KSR.test.wait)
            assert(ok)
            local d = coroutine.wrap(function()
                local ok, r = coroutine.resume(coroutine.create(KSR.test.wait))
                assert(ok)
                return r
            end)()
            assert(KSR.test.now() == 7)
            KSR.test.set(a * 1000 + b * 100 + c * 10 + d)
        end",
    );
    let script = script.expect("it loads");
    let start = |flags| {
        let mut context = context();
        context.draft.flags = flags;
        waiting(script.start(Route::Request, context))
    };
    // Two at once, each with its own locals and its own message.
    let (mut one, mut two) = (start(4), start(7));
    one.context().draft.flags += 1;
    assert_eq!((one.context().draft.flags, two.context().draft.flags), (5, 7));
    let mut one = waiting(one.resume(1, Instant::now()));
    two = waiting(two.resume(9, Instant::now()));
    one = waiting(one.resume(2, Instant::now()));
    two = waiting(two.resume(8, Instant::now()));
    let (context, end) = ended(two.resume(7, Instant::now()));
    assert_eq!((context.draft.flags, end), (7987, End::Normal));
    let (context, end) = ended(one.resume(3, Instant::now()));
    assert_eq!((context.draft.flags, end), (4123, End::Normal));
}

#[test]
fn a_generator_that_waits_still_yields_its_own_values() {
    let script = script(
        "function ksr_request_route()
            local out = {}
            local function each()
                for i = 1, 3 do coroutine.yield(i, KSR.test.wait()) end
                return 'end'
            end
            local c = coroutine.create(each)
            while true do
                local ok, i, r = coroutine.resume(c)
                assert(ok, i)
                if i == 'end' then break end
                out[#out + 1] = i .. ':' .. r
            end
            for i, r in coroutine.wrap(each) do
                if i == 'end' then break end
                out[#out + 1] = i .. ':' .. r
            end
            local all = table.concat(out, ' ')
            assert(all == '1:1 2:1 3:1 1:1 2:1 3:1', all)
        end",
    );
    assert_eq!(run(&script.expect("it loads")).1, End::Normal);
}

#[test]
fn what_can_not_wait_says_so() {
    let error = failed("\ntable.sort({3, 1, 2}, function() return KSR.test.wait() end)");
    assert_eq!(error.line, 3);
    assert!(error.message.starts_with("KSR.test.wait can not wait here"), "{error}");
}

#[test]
fn an_invocation_that_waits_can_be_dropped() {
    let script = script("function ksr_request_route() KSR.test.wait() end").expect("it loads");
    drop(waiting(script.start(Route::Request, context())));
    let before = script.memory();
    for _ in 0..10_000 {
        drop(waiting(script.start(Route::Request, context())));
    }
    assert!(script.memory() < before + (2 << 20), "{} after {before}", script.memory());
    assert_eq!(run(&script).1, End::Normal);
}

#[test]
fn a_generation_lives_while_invocations_do() {
    let script = script("function ksr_request_route() KSR.test.wait() KSR.test.set(4) end");
    let script = script.expect("it loads");
    let weak = Rc::downgrade(&script);
    let waits = waiting(script.start(Route::Request, context()));
    drop(script);
    assert!(weak.upgrade().is_some());
    let (context, end) = ended(waits.resume(1, Instant::now()));
    assert_eq!((context.draft.flags, end), (4, End::Normal));
    assert!(weak.upgrade().is_none());
}

#[test]
fn nobody_waits_for_ever_in_turn() {
    let error = failed("while true do KSR.test.wait() end");
    assert_eq!((error.message.as_str(), error.kind), ("it waits too often", ScriptFault::Time));
}

#[test]
fn one_invocation_makes_a_bounded_number_of_messages() {
    let error = failed("while true do pcall(KSR.test.sends) end");
    assert_eq!((error.message.as_str(), error.line), ("the script sends too many messages", 2));
}

#[test]
fn what_goes_to_functions_is_bounded() {
    let error = failed("KSR.test.same(('x'):rep(65536))");
    assert_eq!(error.message, "KSR.test.same: a string is longer than a message can be");
    let error = failed("local x = ('x'):rep(65000) while true do pcall(KSR.test.same, x) end");
    assert_eq!(error.message, "the script gives too much to functions");
}

#[test]
fn a_route_that_is_not_there() {
    let script = script("function ksr_request_route() end armed = 5").expect("it loads");
    assert!(!script.has(Route::Reply) && script.has(Route::Request));
    assert_eq!(ended(script.start(Route::Reply, context())).1, End::Normal);
    for name in ["armed", "other"] {
        let (_, end) = ended(script.start(Route::Named(name), context()));
        let End::Failed(error) = end else { panic!("{end:?}") };
        assert_eq!(error.message, format!("there is no function {name}"));
    }
}

#[test]
fn routes_by_name_and_of_replies_run() {
    let script = script(
        "function ksr_request_route() end
        function ksr_reply_route() KSR.test.set(2) end
        function armed() KSR.test.set(3) end",
    );
    let script = script.expect("it loads");
    assert_eq!(ended(script.start(Route::Reply, context())).0.draft.flags, 2);
    assert_eq!(ended(script.start(Route::Named("armed"), context())).0.draft.flags, 3);
}

#[test]
fn what_is_not_there_yet_fails_when_it_is_called() {
    let route = "if KSR.tm then KSR.test.flags() end
        if KSR.tm and KSR.tm.t_relay then KSR.tm.t_relay() end";
    let error = failed(route);
    assert_eq!(error.line, 3);
    assert_eq!(
        error.message,
        "KSR.tm.t_relay needs transactions, which this version does not have"
    );
}

#[test]
fn errors_of_functions_have_a_place() {
    let error = failed("\nlocal x = 1\nKSR.test.fails()");
    assert_eq!((error.line, error.message.as_str()), (4, "KSR.test.fails: it is so"));
    let error = failed("\nKSR.test.set(1.5)");
    assert_eq!(error.line, 3);
    assert_eq!(error.message, "KSR.test.set: argument 1 has to be an integer, not number");
    let error = failed("KSR.test.set('5x')");
    assert_eq!(error.message, "KSR.test.set: argument 1 has to be an integer, not string");
    assert_eq!(ran("KSR.test.set(5.0) KSR.test.set('5') KSR.test.set(' 5 ')"), End::Normal);
}

#[test]
fn a_message_is_there_in_invocations_only() {
    let error = loaded("KSR.test.flags()").expect_err("there is a message");
    assert_eq!(error.message, "KSR.test.flags: there is no message while the script is loaded");
    let error = loaded("KSR.test.wait()").expect_err("there is a message");
    assert_eq!(error.message, "KSR.test.wait: there is no message while the script is loaded");
}

#[test]
fn a_script_has_no_hand_on_the_coroutine_of_an_invocation() {
    let script = script(
        "function ksr_request_route()
            if not kept then
                kept = coroutine.running()
                KSR.test.wait()
            end
            assert(not coroutine.isyieldable() and select(2, coroutine.running()))
            assert(not pcall(coroutine.resume, kept, 1))
            assert(not pcall(coroutine.close, kept))
            assert(not pcall(coroutine.yield, 1))
            KSR.test.set(1)
        end",
    );
    let script = script.expect("it loads");
    let waits = waiting(script.start(Route::Request, context()));
    let (context, end) = run(&script);
    assert_eq!((context.draft.flags, end), (1, End::Normal));
    assert_eq!(ended(waits.resume(1, Instant::now())).1, End::Normal);
}

#[test]
fn errors_in_a_module_name_the_module() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("helper.lua");
    std::fs::write(&file, "local M = {}\nfunction M.go()\n  error('deep')\nend\nreturn M").unwrap();
    let broken = folder.path().join("broken.lua");
    std::fs::write(&broken, "return = 1").unwrap();
    let text = "local M = require('helper')\nfunction ksr_request_route() M.go() end";
    let name = folder.path().join("main.lua").to_str().expect("a name").to_owned();
    let source = Source { name: name.as_str().into(), text: text.as_bytes().into() };
    let script = Script::load(&source, limits()).expect("it loads");
    let End::Failed(error) = run(&script).1 else { panic!("it works") };
    assert!(error.file.ends_with("helper.lua"), "{error}");
    assert_eq!((error.line, error.message.as_str()), (3, "deep"));
    let text = b"\nrequire('broken')".as_slice();
    let error = Script::load(&Source { name: name.as_str().into(), text: text.into() }, limits());
    let error = error.expect_err("it loads");
    assert!(error.file.ends_with("broken.lua"), "{error}");
    assert_eq!(error.line, 1);
    let text = b"\nrequire('other')".as_slice();
    let error = Script::load(&Source { name: name.as_str().into(), text: text.into() }, limits());
    let error = error.expect_err("it loads");
    assert_eq!((&*error.file, error.line), (name.as_str(), 2));
    assert!(error.message.starts_with("module 'other' not found"), "{error}");
}
