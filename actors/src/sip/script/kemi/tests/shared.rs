//! `htable`, `$sht`, `pike`, `permissions`.

use super::*;

#[test]
fn a_table_is_there_from_its_first_key_on() {
    let env = env();
    check_in(
        &env,
        INVITE,
        &[
            (r#"KSR.htable.sht_get("a", "k")"#, "nil:nil"),
            (r#"KSR.htable.sht_sets("a", "k", "v")"#, "int:1"),
            (r#"KSR.htable.sht_get("a", "k")"#, "string:v"),
            (r#"KSR.htable.sht_seti("a", "k", 3)"#, "int:1"),
            (r#"KSR.htable.sht_get("a", "k")"#, "int:3"),
            (r#"KSR.htable.sht_inc("a", "k")"#, "int:4"),
            (r#"KSR.htable.sht_dec("a", "n")"#, "int:-1"),
            (r#"KSR.htable.sht_rm("nope", "k")"#, "int:-1"),
        ],
    );
    // Another message, and with the same tables any other worker's.
    check_in(
        &env,
        INVITE,
        &[
            (r#"KSR.htable.sht_get("a", "k")"#, "int:4"),
            (r#"KSR.htable.sht_rm("a", "k")"#, "int:1"),
            (r#"KSR.htable.sht_rm("a", "k")"#, "int:1"),
            (r#"KSR.htable.sht_get("a", "k")"#, "nil:nil"),
        ],
    );
}

#[test]
fn a_table_is_read_and_written_as_a_variable() {
    check(
        INVITE,
        &[
            (r#"KSR.pv.is_null("$sht(a=>k)")"#, "boolean:true"),
            (r#"KSR.pv.sets("$sht(a=>k)", "v")"#, "boolean:true"),
            (r#"KSR.pv.get("$sht(a=>k)")"#, "string:v"),
            (r#"KSR.pv.seti("$sht(a=>k)", 4)"#, "boolean:true"),
            (r#"KSR.pv.get("$sht(a=>k)")"#, "int:4"),
            (r#"KSR.pv.unset("$sht(a=>k)")"#, "boolean:true"),
            (r#"KSR.pv.get("$sht(a=>k)")"#, "nil:nil"),
            (r#"KSR.pv.sets("$sht(a=>$ci::x)", "nested")"#, "boolean:true"),
            (r#"KSR.htable.sht_get("a", "c1@127.0.0.1::x")"#, "string:nested"),
            (r#"KSR.pv.get("$shtex(a=>nokey)")"#, "int:0"),
            (r#"KSR.pv.seti("$shtex(a=>$ci::x)", 60)"#, "boolean:true"),
            (r#"KSR.pv.get("$shtex(a=>$ci::x)")"#, "int:60"),
            (r#"KSR.htable.sht_setex("a", "c1@127.0.0.1::x", 0)"#, "int:1"),
            (r#"KSR.pv.get("$sht(a=>$ci::x)")"#, "nil:nil"),
        ],
    );
}

#[test]
fn keys_are_searched_in_four_ways() {
    check(
        INVITE,
        &[
            (r#"KSR.htable.sht_sets("a", "ab:1", "v")"#, "int:1"),
            (r#"KSR.htable.sht_sets("a", "xab:2", "v")"#, "int:1"),
            (r#"KSR.htable.sht_match_name("a", "eq", "ab")"#, "int:-1"),
            (r#"KSR.htable.sht_match_name("a", "eq", "ab:1")"#, "int:1"),
            (r#"KSR.htable.sht_match_name("a", "ne", "ab:1")"#, "int:1"),
            (r#"KSR.htable.sht_match_name("a", "sw", "ab")"#, "int:1"),
            (r#"KSR.htable.sht_match_name("a", "re", "^x.b")"#, "int:1"),
            (r#"KSR.htable.sht_match_name("a", "re", "^y")"#, "int:-1"),
            (r#"KSR.htable.sht_match_name("a", "zz", "^x.b")"#, "int:-1"),
            (r#"KSR.htable.sht_match_name("nope", "eq", "x")"#, "int:-1"),
        ],
    );
}

#[test]
fn a_table_has_no_more_entries_than_the_setting_allows() {
    let env = env_with(|settings| settings.max_htable_entries = 2);
    check_in(
        &env,
        INVITE,
        &[
            (r#"KSR.htable.sht_sets("a", "1", "v")"#, "int:1"),
            (r#"KSR.htable.sht_seti("a", "2", 1)"#, "int:1"),
            (r#"KSR.htable.sht_sets("a", "3", "v")"#, "int:-1"),
            (r#"KSR.pv.sets("$sht(a=>3)", "v")"#, "boolean:false"),
            (r#"KSR.htable.sht_inc("a", "3") < 0"#, "boolean:true"),
            (r#"KSR.htable.sht_sets("a", "1", "w")"#, "int:1"),
            (r#"KSR.htable.sht_sets("b", "3", "v")"#, "int:1"),
        ],
    );
}

#[test]
fn a_flood_is_seen_by_pike() {
    let body = "for i = 1, 30 do if KSR.pike.pike_check_req() ~= 1 then KSR.setflag(1) end end
        KSR.pv.seti('$var(first)', KSR.pike.pike_check_req())
        KSR.pv.seti('$var(then)', KSR.pike.pike_check_req())";
    let ran = run(body, INVITE);
    assert_eq!(ran.context.draft.flags, 0);
    assert_eq!(ran.value("$var(first)"), "Int(-2)");
    assert_eq!(ran.value("$var(then)"), "Int(-1)");
}

#[test]
fn a_source_is_allowed_by_the_networks_of_its_group() {
    let env = env_with(|settings| {
        settings.addresses.insert(1, vec!["127.0.0.0/8".parse().unwrap()]);
        settings.addresses.insert(2, vec!["10.0.0.0/8".parse().unwrap()]);
    });
    check_in(
        &env,
        INVITE,
        &[
            ("KSR.permissions.allow_source_address(1)", "int:1"),
            ("KSR.permissions.allow_source_address(2)", "int:-1"),
            ("KSR.permissions.allow_source_address(3)", "int:-1"),
        ],
    );
}
