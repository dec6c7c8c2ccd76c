//! Loading: what is found before anything is handled.

use super::*;

fn fails(text: &str) -> ScriptError {
    loaded(text).expect_err("it loads")
}

#[test]
fn a_syntax_error_names_file_and_line() {
    let error = fails("local x = 1\nlocal = 2");
    assert_eq!(error.kind, ScriptFault::Syntax);
    assert_eq!((&*error.file, error.line), ("/etc/lineway/proxy.lua", 2));
    assert_eq!(error.message, "<name> expected near '='");
    assert_eq!(error.to_string(), "/etc/lineway/proxy.lua:2: <name> expected near '='");
}

#[test]
fn an_error_of_the_top_level_names_file_and_line() {
    let error = fails("local t = nil\n\nprint(t.x)");
    assert_eq!(error.kind, ScriptFault::Runtime);
    assert_eq!((&*error.file, error.line), ("/etc/lineway/proxy.lua", 3));
    assert_eq!(error.message, "attempt to index a nil value (local 't')");
}

#[test]
fn a_long_file_name_is_told_whole() {
    let name = format!("/etc/{}/proxy.lua", "deep/".repeat(40));
    let source = Source { name: name.as_str().into(), text: b"x = = 1".as_slice().into() };
    let error = Script::load(&source, limits()).expect_err("it loads");
    assert_eq!((&*error.file, error.line), (name.as_str(), 1));
}

#[test]
fn a_script_without_a_request_route_is_refused() {
    let error = Script::load(&source("function ksr_reply_route() end"), limits());
    let error = error.expect_err("it loads");
    assert_eq!(error.message, "there is no function ksr_request_route");
}

#[test]
fn error_objects_that_are_no_strings_get_a_line() {
    for (text, message) in [
        ("error({code = 1})", "the error object is a table"),
        ("error(nil)", "the error object is a nil"),
        ("error(setmetatable({}, {__tostring = function() return 'mine' end}))", "mine"),
        ("error(setmetatable({}, {__tostring = function() error('twice') end}))", "twice"),
    ] {
        let error = fails(&format!("\n{text}"));
        assert_eq!((error.line, error.message.as_str()), (2, message), "{text}");
    }
}

#[test]
fn a_function_with_wrong_arguments_names_itself() {
    for (text, message) in [
        ("KSR.info()", "KSR.info: argument 1 has to be a string, not nil"),
        ("KSR.info({})", "KSR.info: argument 1 has to be a string, not table"),
        ("KSR.info('a', 'b')", "KSR.info: too many arguments (it takes 1)"),
        ("KSR.info('a', nil, nil, 1)", "KSR.info: too many arguments (it takes 1)"),
    ] {
        let error = fails(&format!("\n\n{text}"));
        assert_eq!((error.line, error.message.as_str()), (3, message), "{text}");
    }
    loaded("KSR.info(5) KSR.info('\\xff\\0')").expect("numbers and bytes are strings");
}

#[test]
fn a_script_sees_errors_of_functions_as_strings() {
    loaded(
        "local ok, e = pcall(KSR.info, {})
        assert(not ok and type(e) == 'string', type(e))
        ok, e = pcall(function() KSR.info({}) end)
        assert(e:find('proxy.lua:3: KSR.info: ', 1, true), e)
        local c = coroutine.create(function() KSR.info({}) end)
        ok, e = coroutine.resume(c)
        assert(not ok and type(e) == 'string')
        ok, e = xpcall(function() KSR.info({}) end, function(e) return type(e) end)
        assert(not ok and e == 'string')",
    )
    .expect("it loads");
}

#[test]
fn a_top_level_that_exits_is_loaded_until_there() {
    let script = Script::load(
        &source("function ksr_request_route() end pcall(KSR.x.exit) error('not reached')"),
        limits(),
    );
    script.expect("it loads");
}
