//! Lua's own library as scripts get it.

use super::*;

/// Loads a script whose top level holds assertions.
fn holds(text: &str) {
    if let Err(error) = loaded(text) {
        panic!("{error}");
    }
}

#[test]
fn what_would_stop_the_worker_or_the_process_is_not_there() {
    holds(
        "assert(os.exit == nil and os.execute == nil and os.setlocale == nil)
        assert(io.popen == nil and io.read == nil and io.stdin == nil)
        assert(debug.sethook == nil and debug.getregistry == nil and debug.setmetatable == nil)
        assert(require('debug') == debug)
        assert(type(os.time()) == 'number' and os.date('%Y', 0) == '1970' and os.getenv('HOME'))
        assert(not pcall(package.loadlib, 'libc.so.6', '*'))
        assert(getmetatable(io.stderr) == 'FILE*')
        assert(not pcall(io.lines) and not pcall(io.close))",
    );
}

#[test]
fn only_text_is_compiled() {
    holds(
        "local dumped = string.dump(function() return 1 end)
        local f, e = load(dumped)
        assert(not f and e:find('attempt to load a binary chunk'), e)
        f, e = load(dumped, 'x', 'b')
        assert(not f and e:find('attempt to load a binary chunk'), e)
        local done
        f, e = load(function() if not done then done = true return dumped end end)
        assert(not f and e:find('attempt to load a binary chunk'), e)
        f, e = load(('x'):rep(1 << 20) .. 'x')
        assert(not f and e == 'the chunk is too large')",
    );
}

#[test]
fn load_does_what_it_does() {
    holds(
        "assert(load('return 1 + 1')() == 2)
        local env = {y = 4}
        assert(load('return y', 'n', 't', env)() == 4)
        assert(load('return y', 'n', 't', nil) and not pcall(load('return y.z', 'n', 't', nil)))
        local parts, i = {'return ', '1', '+ 5'}, 0
        assert(load(function() i = i + 1 return parts[i] end)() == 6)
        local f, e = load('x = = 1', '@file.lua')
        assert(not f and e:find('^file.lua:1: '), e)
        f, e = load(function() return 5 end)
        assert(not f and e == 'reader function must return a string')
        assert(not pcall(loadfile) and not pcall(dofile))
        f, e = loadfile('/nothing/there.lua')
        assert(not f and e:find('cannot open'))",
    );
}

#[test]
fn files_beside_the_script_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("one.lua", b"return {name = ..., n = 1}");
    write("two/init.lua", b"return {n = 2}");
    write("three.lua", b"\x1bLua");
    write("four.lua", b"return 4, KSR.info('from a file')");
    let text = format!(
        "assert(require('one').n == 1 and require('one').name == 'one')
        assert(package.loaded.one == require('one'))
        assert(require('two').n == 2)
        local ok, e = pcall(require, 'three')
        assert(not ok and e:find('attempt to load a binary chunk'), e)
        assert(dofile('{0}/four.lua') == 4 and loadfile('{0}/four.lua')() == 4)
        function ksr_request_route() end",
        folder.path().display()
    );
    let name = folder.path().join("main.lua").to_str().expect("a name").to_owned();
    let source = Source { name: name.as_str().into(), text: text.as_bytes().into() };
    Script::load(&source, limits()).expect("it loads");
}

#[test]
fn finalizers_are_refused() {
    let error = loaded("\nsetmetatable({}, {__gc = function() while true do end end})");
    let error = error.expect_err("it loads");
    assert_eq!((error.line, error.message.as_str()), (2, "__gc is not to be had in a SIP script"));
    holds(
        "local meta = {}
        local t = setmetatable({}, meta)
        meta.__gc = function() end
        assert(not pcall(setmetatable, t, meta))
        assert(setmetatable(t, nil) == t)
        assert(not pcall(setmetatable, 1, {}))",
    );
}

#[test]
fn errors_and_coroutines_are_as_ever() {
    holds(
        "assert(select('#', pcall(function() end)) == 1)
        local ok, a, b = pcall(function(...) return ... end, 1, 2)
        assert(ok and a == 1 and b == 2)
        assert(not pcall(xpcall, error, 5))
        local ok, e = xpcall(function() error('x', 0) end, function(e) return e .. 'y' end)
        assert(not ok and e == 'xy')
        ok, e = pcall(error, {code = 5})
        assert(not ok and e.code == 5)
        ok, e = pcall(error)
        assert(not ok and e == nil)
        local c = coroutine.create(function(a) local b = coroutine.yield(a + 1) return b * 2 end)
        assert(select(2, coroutine.resume(c, 1)) == 2 and coroutine.status(c) == 'suspended')
        assert(select(2, coroutine.resume(c, 4)) == 8 and coroutine.status(c) == 'dead')
        ok, e = coroutine.resume(c)
        assert(not ok and e == 'cannot resume dead coroutine')
        assert(select('#', coroutine.resume(coroutine.create(function() end))) == 1)
        local each = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end)
        assert(each() == 1 and each() == 2 and each() == 3 and each() == nil)
        ok, e = pcall(coroutine.wrap(function() error('inside', 0) end))
        assert(not ok and e == 'inside', e)
        c = coroutine.create(function() assert(coroutine.isyieldable()) coroutine.yield() end)
        assert(coroutine.resume(c) and coroutine.close(c) and coroutine.status(c) == 'dead')
        for f, want in pairs({resume = 'coroutine', close = 'coroutine', wrap = 'function'}) do
            ok, e = pcall(function() coroutine[f](5) end)
            local said = [[proxy.lua:24: bad argument #1 to '%s' (%s expected)]]
            said = said:format(f, want)
            assert(not ok and e:find(said, 1, true), e)
        end
        ok, e = pcall(function() pcall() end)
        assert(e:find([[proxy.lua:29: bad argument #1 to 'pcall' (value expected)]], 1, true), e)
        ok, e = pcall(function() table.insert(5, 1) end)
        assert(e:find('proxy.lua:31: bad argument #1 to', 1, true), e)",
    );
}

#[test]
fn debug_shows_where_a_script_is() {
    holds(
        "local info = debug.getinfo(1, 'Sl')
        assert(info.currentline == 1 and info.short_src == '/etc/lineway/proxy.lua', info.short_src)
        local function f() return debug.getinfo(1) end
        assert(f().currentline == 3 and debug.getinfo(f).linedefined == 3)
        assert(debug.getinfo(99) == nil and not pcall(debug.getinfo, 'x'))
        assert(debug.traceback('at'):find('^at\\nstack traceback:\\n'), debug.traceback('at'))
        local ok, e = xpcall(function() error('deep') end, debug.traceback)
        assert(not ok and e:find('^/etc/lineway/proxy.lua:7: deep\\nstack traceback:'), e)",
    );
}

#[test]
fn tables_are_as_ever() {
    holds(
        "local t = {}
        for i = 1, 20000 do table.insert(t, 20001 - i) end
        table.sort(t)
        assert(t[1] == 1 and t[20000] == 20000)
        table.sort(t, function(a, b) return a > b end)
        assert(t[1] == 20000 and table.remove(t) == 1 and table.remove(t, 1) == 20000)
        assert(#table.concat(t, ',', 1, 3) == 17 and table.concat({1, 2, 3}, '-') == '1-2-3')
        assert(table.move({1, 2, 3}, 1, 3, 2)[4] == 3)
        assert(not pcall(table.move, {}, 1, math.maxinteger, 2))
        assert(not pcall(table.move, {}, math.mininteger, math.maxinteger, 2))
        local a, b = table.unpack({1, 2, 3}, 2)
        assert(a == 2 and b == 3 and select('#', table.unpack({})) == 0)
        assert(collectgarbage('count') > 0 and collectgarbage() == 0)
        collectgarbage('stop')
        assert(collectgarbage('isrunning'))",
    );
}
