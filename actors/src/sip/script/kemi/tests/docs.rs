//! `docs/sip-scripting.md` has each function, and nothing else.

use std::collections::BTreeMap;

use super::table::name;
use super::*;
use crate::sip::script::function::{Function, Gives, Kind};
use crate::sip::script::kemi::functions;

const PAGE: &str = include_str!("../../../../../../docs/sip-scripting.md");

/// What the page has of one function: signature, text, example.
struct Row {
    text: String,
    example: String,
}

fn rows() -> BTreeMap<String, Row> {
    let row = |line: &str| {
        let inside = line.strip_prefix("| `KSR.")?.strip_suffix("` |")?;
        let (signature, rest) = inside.split_once("` | ")?;
        let (text, example) = rest.rsplit_once(" | `")?;
        let row = Row { text: text.to_owned(), example: example.replace("\\|", "|") };
        Some((format!("KSR.{signature}"), row))
    };
    PAGE.lines().filter_map(row).collect()
}

/// A function as the page writes it.
fn signature(function: &Function) -> String {
    let kind = |kind: &Kind| if *kind == Kind::Str { "str" } else { "int" };
    let takes: Vec<_> = function.takes.iter().map(kind).collect();
    let gives = match function.gives {
        Gives::None => "none",
        Gives::Bool => "bool",
        Gives::Int => "int",
        Gives::Value => "value",
    };
    format!("{}({}) -> {gives}", name(function), takes.join(", "))
}

#[test]
fn the_page_has_each_function_and_no_other() {
    let rows = rows();
    let mut known: Vec<String> = functions().map(signature).collect();
    // They are the engine's.
    known.extend(["KSR.x.exit() -> none", "KSR.x.drop() -> none"].map(str::to_owned));
    for signature in &known {
        let row = rows.get(signature).unwrap_or_else(|| panic!("the page lacks {signature}"));
        assert!(!row.text.is_empty(), "{signature}");
        let called = signature.split('(').next().unwrap();
        assert!(row.example.contains(&format!("{called}(")), "{signature}: {}", row.example);
    }
    let strangers: Vec<_> = rows.keys().filter(|row| !known.contains(row)).collect();
    assert_eq!(strangers, [""; 0], "the page has what is not there");
}

#[test]
fn each_example_runs() {
    for (signature, row) in rows() {
        let message = if row.example.contains("reply(\"") { PROGRESS } else { INVITE };
        match run(&row.example, message).end {
            End::Normal | End::Dropped => {}
            End::Failed(error) => panic!("{signature}: {error}"),
        }
    }
}

#[test]
fn the_page_has_each_variable() {
    let rows = PAGE.split("## Pseudo-variables").nth(1).unwrap();
    let mut count = 0;
    for name in rows.split('`').filter(|text| text.starts_with('$')) {
        let name = name.replace("..", "x");
        let is_general = name.starts_with("$name") || name.starts_with("$(name");
        assert!(is_general || Name::parse(name.as_bytes()).is_some(), "{name}");
        count += 1;
    }
    assert!(count > 60, "{count}");
}

#[test]
fn the_first_script_of_the_page_runs() {
    let text = PAGE.split("```lua\n").nth(1).unwrap().split("```").next().unwrap();
    let context = Context::new(draft(INVITE), env(), Instant::now());
    let ran = run_script(&script(text), context, 1);
    assert_eq!((ran.end, ran.wants), (End::Normal, vec![Want::Forward { uri: None }]));
}
