use super::*;

fn var(text: &str) -> Option<Var<'_>> {
    Name::parse(text.as_bytes()).map(|name| name.var)
}

#[test]
fn each_short_name_is_a_variable() {
    let names = "ru rU rd rp rP rz ou oU od op du dd dp dP fu fU fd fn ft tu tU td tn tt ci cs csb rm rs rr \
                 si sp su Ri Rp Ru pr proto mb ml rb bs ct cT cl ua ai mf mF bf bF TS Ts rc retcode";
    for name in names.split_whitespace() {
        assert!(var(&format!("${name}")).is_some(), "${name}");
        assert_eq!(var(&format!("$({name})")), var(&format!("${name}")), "$({name})");
    }
    for name in ["nonsense", "fp", "tP", "dU", "fz", "on", "dt", "", "r", "hdr", "var", "ru2"] {
        assert_eq!(var(&format!("${name}")), None, "${name}");
    }
}

#[test]
fn a_name_has_its_argument_and_its_index() {
    let read = |text: &'static str| Name::parse(text.as_bytes());
    let name = |var, index| Some(Name { var, index });
    assert_eq!(read("$hdr(X-A)"), name(Var::Header(b"X-A"), Index::First));
    assert_eq!(read("$(hdr(X-A)[2])"), name(Var::Header(b"X-A"), Index::At(2)));
    assert_eq!(read("$(hdr(X-A)[-1])"), name(Var::Header(b"X-A"), Index::At(-1)));
    assert_eq!(read("$(avp(s:b)[*])"), name(Var::Avp(b"b"), Index::All));
    assert_eq!(read("$var(a)"), name(Var::Script(b"a"), Index::First));
    assert_eq!(read("$sht(ban=>$si::x)"), name(Var::Table(b"ban", b"$si::x"), Index::First));
    assert_eq!(read("$hdr($var(x))"), name(Var::Header(b"$var(x)"), Index::First));
    assert_eq!(read("$branch(count)"), name(Var::Branch(BranchField::Count), Index::First));
    assert_eq!(read("$T_req($ru)"), name(Var::Other(Side::Request, b"$ru"), Index::First));
}

#[test]
fn variables_inside_of_one_another_have_a_most() {
    let nested = |depth| format!("{}x{}", "$hdr(".repeat(depth), ")".repeat(depth));
    assert!(var(&nested(MOST_BRACKETS)).is_some());
    for depth in [MOST_BRACKETS + 1, 10_000] {
        assert_eq!(var(&nested(depth)), None, "{depth}");
    }
}

#[test]
fn an_xavp_has_a_root_and_a_key_with_places() {
    let xavp = |root: &'static [u8], place, key| Some(Var::Xavp(Xavp { root, place, key }));
    assert_eq!(var("$xavp(x)"), xavp(b"x", 0, None));
    assert_eq!(var("$xavp(x=>k)"), xavp(b"x", 0, Some((b"k", 0))));
    assert_eq!(var("$xavp(x[1]=>k[2])"), xavp(b"x", 1, Some((b"k", 2))));
    for bad in ["$xavp()", "$xavp(=>k)", "$xavp(x=>)", "$xavp(x[a])", "$xavp(x[1)"] {
        assert_eq!(var(bad), None, "{bad}");
    }
}

#[test]
fn what_is_no_single_name_is_none() {
    for bad in [
        "",
        "$",
        "ru",
        " $ru",
        "$ru ",
        "$ru$rU",
        "$( ru )",
        "$(ru",
        "$hdr(x",
        "$hdr()",
        "$(ru[)",
        "$(ru[x])",
        "$(ru)x",
        "$()",
        "$(hdr(x)[1]",
        "$sht(a)",
        "$sht(=>k)",
        "$sht(a=>)",
        "$var(a)(b)",
        "$(ru{s.len})",
    ] {
        assert_eq!(Name::parse(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn a_prefix_ends_where_the_name_does() {
    let len = |text: &str| Name::parse_prefix(text.as_bytes()).map(|(_, len)| len);
    assert_eq!(len("$ci::x"), Some(3));
    assert_eq!(len("$hdr(a(b)c)d"), Some(11));
    assert_eq!(len("$(avp(x)[1])/"), Some(12));
    assert_eq!(len("$$x"), Some(2));
    assert_eq!(len("$cix"), None);
}

mod property {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_panics(text in r"\$?[\$\(\)\[\]=>a-z*0-9{-]{0,24}") {
            if let Some((_, len)) = Name::parse_prefix(text.as_bytes()) {
                prop_assert!(len <= text.len());
            }
        }
    }
}
