//! The limits of time and memory: nothing that a script does goes past them.

use super::*;

/// Ways to go on for ever.
const ENDLESS: &[&str] = &[
    "while true do end",
    "::again:: goto again",
    "local function f() return f() end f()",
    "while true do pcall(error, 'x') end",
    "while true do pcall(function() while true do end end) end",
    "while true do xpcall(error, function() while true do end end) end",
    "while true do coroutine.wrap(function() while true do end end)() end",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "for _ in function() return 1 end do end",
    "while true do KSR.test.flags() end",
    "while true do pcall(KSR.test.fails) end",
    "table.sort({3, 1, 2}, function() while true do end end)",
    "('a'):gsub('a', function() while true do end end)",
    "tostring(setmetatable({}, {__tostring = function() while true do end end}))",
    "error(setmetatable({}, {__tostring = function() while true do end end}))",
    "return #setmetatable({}, {__len = function() while true do end end})",
    "load(function() return ' ' end)",
    "load(function() while true do end end)",
    "select(2, pcall(load, 'while true do end'))()",
    "do local x <close> = setmetatable({}, {__close = function() while true do end end}) end",
    "local t = {} for i = 1, 200000 do t[i] = i % 7 end while true do table.sort(t) end",
    "local t = {} for i = 1, 200000 do t[i] = i end while true do table.insert(t, 1, 1) table.remove(t, 1) end",
    "local t = {} for i = 1, 200000 do t[i] = i end while true do pcall(table.concat, t) end",
    "while true do pcall(table.move, {}, 1, 4000000, 2) end",
    "while true do select('#', table.unpack({}, 1, 200000)) end",
    "while true do pcall(string.find, ('a'):rep(50), ('a-'):rep(20) .. 'b') end",
    "while true do collectgarbage() end",
    "local s = ('x'):rep(1 << 20) while true do local t = s .. s .. s end",
    "local s = ('x'):rep(1 << 20) while true do s:upper() end",
    "while true do s = ('x'):rep(100000):gsub('x', 'yy') end",
    "while true do require('nothing') end",
    "while true do pcall(require, 'nothing') end",
];

#[test]
fn past_the_limit_an_invocation_is_over_whatever_it_does() {
    for route in ENDLESS {
        let started = Instant::now();
        let end = ran(route);
        let took = started.elapsed();
        let End::Failed(error) = end else { panic!("{end:?} of {route}") };
        if route.contains("load(function() return") {
            // It reads a chunk of blanks until that is too large; then it is over by itself.
            continue;
        }
        assert!(
            error.kind == ScriptFault::Time || route.starts_with("while true do require"),
            "{error:?} of {route}"
        );
        assert!(took < Duration::from_secs(5), "{took:?} of {route}");
    }
}

#[test]
fn an_error_of_time_names_the_line() {
    let error = failed("local x = 1\nlocal y = 2\nwhile true do end");
    assert_eq!((&*error.file, error.line), ("/etc/lineway/proxy.lua", 4));
    assert_eq!(error.message, "the script took too long");
}

/// Ways to go on for ever in what runs when the invocation is over.
const CLOSING: &[&str] = &[
    "table.sort({3, 1, 2}, function()
        local x <close> = setmetatable({}, {__close = function() while true do end end})
        while true do end
    end)",
    "local meta = {}
    local t = setmetatable({}, meta)
    meta.__close = function() while true do end end
    local x <close> = t
    while true do end",
    "coroutine.wrap(function()
        local x <close> = setmetatable({}, {__close = function() while true do end end})
        coroutine.wrap(function() while true do end end)()
    end)()",
    "local function f()
        local x <close> = setmetatable({}, {__close = function() while true do end end})
        while true do end
    end
    while true do pcall(f) end",
    "local function f()
        local x <close> = setmetatable({}, {__close = function() pcall(f) end})
        pcall(f)
    end
    while true do pcall(f) end",
    "local function f()
        local a <close> = setmetatable({}, {__close = f})
        local b <close> = setmetatable({}, {__close = f})
    end
    f()",
    "local function f()
        local a <close> = setmetatable({}, {__close = function() coroutine.wrap(f)() end})
        pcall(coroutine.wrap(f))
    end
    f()",
];

#[test]
fn what_is_closed_past_the_limit_does_nothing() {
    for route in CLOSING {
        let error = failed(route);
        assert_eq!(error.kind, ScriptFault::Time, "{error} of {route}");
    }
}

/// Burns CPU time of this thread.
fn burn(time: Duration) {
    let until = limits::thread_time() + time;
    while limits::thread_time() < until {
        std::hint::black_box(0);
    }
}

#[test]
fn the_time_that_an_invocation_waits_does_not_count() {
    let route = "for i = 1, 3 do for j = 1, 5000 do end KSR.test.wait() end
        for j = 1, 5000 do end
        KSR.test.set(1)";
    let text = format!("function ksr_request_route() {route} end");
    let script = script(&text).expect("it loads");
    let mut step = script.start(Route::Request, context());
    while let Step::Suspended(waits, _) = step {
        burn(limits().time * 2);
        step = waits.resume(1, Instant::now());
    }
    let Step::Ended(context, end) = step else { unreachable!("it waits") };
    assert_eq!((context.draft.flags, end), (1, End::Normal));
}

#[test]
fn the_time_of_all_steps_counts_together() {
    // Each step stays far below the limit, all of them are far above it.
    let route = "while true do
            local until_ = os.clock() + 0.005
            while os.clock() < until_ do end
            KSR.test.wait()
        end";
    let error = failed(route);
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ScriptFault::Time, "the script took too long")
    );
}

#[test]
fn memory_has_a_limit_and_comes_back() {
    let text = |route: &str| {
        format!(
            "n = 0
            function ksr_request_route()
                n = n + 1
                if n > 1 then return KSR.test.set(1) end
                {route}
            end"
        )
    };
    let limits = ScriptLimits { time: Duration::from_secs(5), memory: 8 << 20 };
    for route in [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t[#t + 1] = ('x'):rep(100000) .. #t end",
        "local t = {} while true do t[#t + 1] = coroutine.create(print) end",
        "local function f() return f() + 1 end while true do pcall(f) f() end",
    ] {
        let script = Script::with(&source(&text(route)), limits, FUNCTIONS.iter());
        let script = script.expect("it loads");
        let End::Failed(error) = run(&script).1 else { panic!("{route}") };
        assert!(script.memory() < 8 << 20);
        if !route.contains("pcall(f)") {
            assert_eq!(error.kind, ScriptFault::Memory, "{error} of {route}");
        }
        let (context, end) = run(&script);
        assert_eq!((context.draft.flags, end), (1, End::Normal), "{route}");
    }
}

#[test]
fn a_script_that_keeps_its_memory_fails_alone() {
    let limits = ScriptLimits { time: Duration::from_secs(5), memory: 4 << 20 };
    let text = "kept = {}
        function ksr_request_route()
            while true do kept[#kept + 1] = ('x'):rep(1000) .. #kept end
        end
        function ksr_reply_route() end";
    let script = Script::with(&source(text), limits, FUNCTIONS.iter()).expect("it loads");
    for _ in 0..3 {
        let End::Failed(error) = run(&script).1 else { panic!("it ends") };
        assert_eq!(error.kind, ScriptFault::Memory, "{error}");
    }
}

#[test]
fn a_stack_has_a_limit() {
    for (route, said) in [
        ("local function f() return 1 + f() end f()", "stack overflow"),
        ("local function f() local ok, e = pcall(f) error(e, 0) end f()", ""),
        ("local function f(s) return (s:gsub('.', f)) end f('a')", ""),
        ("local function f() table.sort({1, 2, 3}, f) end f()", ""),
        ("local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k + 1] end
            return t[1]", ""),
        ("local function f() coroutine.wrap(f)() end f()", ""),
        ("xpcall(error, error) local function f(e) error(e) end xpcall(error, f) f('x')", ""),
        ("load(('('):rep(5000) .. '1' .. (')'):rep(5000))()", ""),
        ("return tostring(setmetatable({}, {__tostring = tostring}))", ""),
        ("return ('x'):rep(100, ','):find(('('):rep(40))", ""),
    ] {
        let limits = ScriptLimits { time: Duration::from_secs(20), memory: 256 << 20 };
        let text = format!("function ksr_request_route() {route} end");
        let script = Script::with(&source(&text), limits, FUNCTIONS.iter()).expect("it loads");
        let End::Failed(error) = run(&script).1 else { panic!("{route} works") };
        assert!(error.message.contains(said), "{error} of {route}");
        assert_eq!(error.kind, ScriptFault::Runtime, "{error} of {route}");
    }
}
