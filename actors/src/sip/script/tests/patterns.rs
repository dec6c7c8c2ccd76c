//! Pattern functions against those of a plain Lua state.

use proptest::prelude::*;

use super::*;

/// A text of the letters that patterns speak of.
fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"aabbxX1.%()[]- \t\n\0\xff".to_vec()), 0..24)
}

/// Any pattern, mostly a right one.
fn pattern() -> impl Strategy<Value = Vec<u8>> {
    let class = prop::sample::select(vec![
        "a", "b", "x", ".", "%a", "%d", "%s", "%w", "%W", "%p", "%x", "%g", "%c", "%u", "%l", "%S",
        "[ab]", "[^a]", "[a-x]", "[%a1]", "[]]", "[^]a]", "[a-]", "[%]]", "%.", "%%", "%(", "\\0",
        "%z", "[%d-z]", "[b-a]",
    ]);
    let part = (class, prop::sample::select(vec!["", "", "", "*", "+", "-", "?"]));
    let part = part.prop_map(|(class, times)| format!("{class}{times}").replace("\\0", "\0"));
    let other = prop::sample::select(vec![
        "(", ")", "()", "(a)", "(.-)", "%1", "%2", "%bab", "%b()", "%f[%a]", "%f[^%w]", "$", "^",
        "%f", "%", "[", "[a", "%b", "%bx",
    ]);
    let piece = prop_oneof![6 => part, 3 => other.prop_map(str::to_owned)];
    prop::collection::vec(piece, 0..7).prop_map(|pieces| pieces.concat().into_bytes())
}

fn replacement() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec!["<", "%0", "%1", "%2", "%%", ">", "%9", "%", "%x"]);
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Calls a function of both states with the same arguments and wants the same results: values, or
/// the error's text.
const SAME: &str = "
    local function run(f, ...)
        local r = table.pack(pcall(f, ...))
        for i = 1, r.n do r[i] = math.type(r[i]) == 'integer' and r[i] or tostring(r[i]) end
        if r[1] == 'false' then r[2] = r[2]:gsub('^[^:]*:%d+: ', '', 1) end
        return table.concat(r, '\\1', 1, r.n)
    end
    local function every(s, p, i)
        local all, n = {}, 0
        for a, b in string.gmatch(s, p, i) do
            all[#all + 1] = tostring(a) .. '\\2' .. tostring(b)
            n = n + 1
            if n > 100 then break end
        end
        return table.concat(all, '\\3')
    end
    return function(s, p, r, i)
        return table.concat({
            run(string.find, s, p, i), run(string.match, s, p, i), run(string.find, s, p, i, true),
            run(every, s, p, i), run(string.gsub, s, p, r), run(string.gsub, s, p, r, 2),
            run(string.gsub, s, p, function(a, b) return b or (a ~= 'a' and a) end),
            run(string.gsub, s, p, { a = 'A', b = false, x = 1, [1] = 'one' }),
        }, '\\4')
    end";

fn results(lua: &mlua::Lua) -> mlua::Function {
    lua.load(SAME).set_name("=same").eval().expect("it loads")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn patterns_do_what_those_of_lua_do(
        s in text(), p in pattern(), r in replacement(), from in -30_i64..30,
    ) {
        thread_local! {
            static BOTH: (mlua::Lua, Rc<Script>) = (mlua::Lua::new(), loaded("").expect("it loads"));
        }
        let (plain, ours) = BOTH.with(|(plain, script)| {
            let call = |lua: &mlua::Lua| {
                let args = (
                    lua.create_string(&s).unwrap(),
                    lua.create_string(&p).unwrap(),
                    lua.create_string(&r).unwrap(),
                    from,
                );
                results(lua).call::<mlua::LuaString>(args).map(|text| text.to_string_lossy())
            };
            (call(plain).unwrap(), call(script.state()).unwrap())
        });
        prop_assert_eq!(plain, ours, "{:?} {:?}", s.escape_ascii(), p.escape_ascii());
    }
}

#[test]
fn wrong_arguments_of_string_functions_are_told_as_lua_tells_them() {
    let both = "
        local out = {}
        for _, call in ipairs({
            'string.find()', 'string.find([[a]])', 'string.find({}, 1)', 'string.find(1, 1, {})',
            'string.find(1, 1, [[x]])', 'string.match(1, 1, 1.5)', 'string.gsub(1, 1)',
            'string.gsub(1, 1, true)', 'string.gsub(1, 1, function() return {} end)',
            'string.rep()', 'string.rep(1, {})', 'string.gmatch(1)', 'string.find(12, 1)',
            'string.gsub(121, 1, 7)', 'string.rep(5, 3, 0)', 'string.rep(1, -1)',
            'string.rep(12, [[2]])', 'string.match([[k=v]], [[(%w)=]], [[1]])',
            'string.rep(1.5, 2.0)', 'string.find(1, 1, 9)', 'string.match(1, [[^()]])',
        }) do
            local ok, e = pcall(load('local r = ' .. call .. ' return r', '=x'))
            out[#out + 1] = call .. ' ' .. tostring(e)
        end
        return table.concat(out, '\\n')";
    let plain: String = mlua::Lua::new().load(both).eval().expect("it runs");
    let script = loaded("").expect("it loads");
    let ours: String = script.state().load(both).eval().expect("it runs");
    assert_eq!(plain, ours);
}

#[test]
fn a_pattern_of_exponential_work_ends() {
    let error = loaded(
        "local ok, e = pcall(string.find, ('a'):rep(60), ('a-'):rep(30) .. 'b')
        assert(not ok)
        error(e, 0)",
    );
    let error = error.expect_err("it ends");
    assert_eq!(error.message, "the pattern takes too many steps");
}

#[test]
fn what_string_functions_build_has_a_limit() {
    for text in [
        "('x'):rep(1 << 40)",
        "(''):rep(1 << 60, 'x')",
        "('x'):rep(math.maxinteger)",
        "('x'):rep(1 << 20):gsub('.', ('y'):rep(1 << 20))",
    ] {
        let error = loaded(&format!("local x = {text}")).expect_err("it is built");
        assert_eq!(error.message, "resulting string too large", "{text}");
    }
    loaded("assert((''):rep(math.maxinteger) == '')").expect("nothing is built at once");
}
