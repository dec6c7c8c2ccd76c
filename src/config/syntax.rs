//! From text to a TOML table, with every syntax error at once.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::problem::{Problem, line_starts, row_of, visible};
use super::reader::shortened;

/// A document, as far as it could be read.
pub(super) struct Parsed<'a> {
    /// What could be read.
    pub(super) table: DeTable<'a>,
    /// A key that is written twice: the rest of the document is whole.
    duplicates: Vec<Problem>,
    /// Text that is no TOML: what the table says near it, or lacks, may be wrong.
    errors: Vec<Problem>,
}

/// What the parser says of a key without a value. It gives up the rest of the document there.
const BARE_KEY: &str = "key with no value";

/// The document with every line blanked at which the parser would stop, and what is wrong there.
pub(super) fn readable(text: &str) -> (Cow<'_, str>, Vec<Problem>) {
    let (_, errors) = DeTable::parse_recoverable(text);
    let mut blanked = Cow::Borrowed(text);
    let mut problems = Vec::new();
    let starts = line_starts(text);
    for error in errors.iter().filter(|error| error.message().starts_with(BARE_KEY)) {
        let span = error.span().unwrap_or_default();
        let row = row_of(&starts, span.start);
        let end = starts.get(row + 1).map_or(text.len(), |next| next - 1);
        let line = starts[row]..end;
        // One space for each byte, so that every other place stays where it is.
        let spaces = " ".repeat(line.len());
        blanked.to_mut().replace_range(line, &spaces);
        problems.push(syntax_error(text, span, error.message()));
    }
    (blanked, problems)
}

/// Reads a document that [`readable`] made, in which `errors` were found.
pub(super) fn parse<'a>(text: &str, readable: &'a str, mut errors: Vec<Problem>) -> Parsed<'a> {
    if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        let start = text.find('{').unwrap_or_default();
        let problem = Problem {
            span: Some(start..start + 1),
            what: "found JSON, expected TOML".to_owned(),
            help: Some("a node is written as [[node]], then name = \"...\"".to_owned()),
            ..Problem::default()
        };
        return Parsed { table: DeTable::new(), duplicates: Vec::new(), errors: vec![problem] };
    }
    let (table, found) = DeTable::parse_recoverable(readable);
    let table = table.into_inner();
    let mut duplicates = Vec::new();
    let keys = if found.is_empty() { Vec::new() } else { keys(&table) };
    for error in found {
        let span = error.span().unwrap_or(text.len()..text.len());
        if error.message() == "duplicate key" {
            duplicates.push(duplicate(text, &keys, span));
        } else {
            errors.push(syntax_error(text, span, error.message()));
        }
    }
    // The first error of a line; the others are mostly its echoes.
    let starts = line_starts(text);
    errors.sort_by_key(|error| error.span.as_ref().map(|span| span.start));
    errors.dedup_by_key(|error| error.span.as_ref().map(|span| row_of(&starts, span.start)));
    Parsed { table, duplicates, errors }
}

/// A syntax error in the parser's words, except where it guesses what a value should have been.
fn syntax_error(text: &str, span: Range<usize>, message: &str) -> Problem {
    let blank = [' ', '\t'];
    let before = text.get(..span.start).unwrap_or_default().trim_end_matches(blank);
    let after = text.get(span.start..).unwrap_or_default().trim_start_matches(blank);
    let nothing = after.is_empty() || after.starts_with(['\n', '\r', '#', ',', '}', ']']);
    let guesses = ["invalid boolean", "invalid float", "string values must be quoted"];
    let (what, help) = if before.ends_with('=') && nothing {
        ("no value after `=`".to_owned(), None)
    } else if guesses.iter().any(|guess| message.starts_with(guess)) {
        ("not a value".to_owned(), Some("a string stands in quotes".to_owned()))
    } else {
        (visible(message), None)
    };
    Problem { span: Some(span), what, help, ..Problem::default() }
}

impl Parsed<'_> {
    /// Adds what was found in the table, without the mere echoes of a syntax error: what is
    /// missing, what stands on a line that could not be read, and what follows a broken table
    /// header, whose keys went elsewhere.
    pub(super) fn with(mut self, text: &str, mut problems: Vec<Problem>) -> Vec<Problem> {
        problems.append(&mut self.duplicates);
        if !self.errors.is_empty() {
            let starts = line_starts(text);
            let row = |span: &Range<usize>| row_of(&starts, span.start);
            let broken: HashSet<_> =
                self.errors.iter().filter_map(|e| e.span.as_ref().map(row)).collect();
            let header = |row: &&usize| text[starts[**row]..].trim_start().starts_with('[');
            let first_header = broken.iter().filter(header).min();
            problems.retain(|problem| {
                let clear = |span: &Range<usize>| {
                    !span.is_empty()
                        && !broken.contains(&row(span))
                        && first_header.is_none_or(|header| row(span) < *header)
                };
                !problem.absence && problem.span.as_ref().is_none_or(clear)
            });
        }
        problems.append(&mut self.errors);
        problems
    }
}

/// Every byte sequence that is no UTF-8, and the text with each replaced by one `U+FFFD`.
pub(super) fn not_utf8(bytes: &[u8]) -> (String, Vec<Problem>) {
    let mut text = String::with_capacity(bytes.len());
    let mut problems = Vec::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if chunk.invalid().is_empty() {
            continue;
        }
        let start = text.len();
        text.push('\u{fffd}');
        let hex: Vec<_> = chunk.invalid().iter().map(|byte| format!("{byte:#04x}")).collect();
        problems.push(Problem {
            span: Some(start..text.len()),
            what: format!("found {}, expected UTF-8", hex.join(" ")),
            ..Problem::default()
        });
    }
    (text, problems)
}

/// A key of the document.
struct Key {
    span: Range<usize>,
    node: Option<String>,
    path: String,
}

/// Every key of the document with its path.
fn keys(root: &DeTable<'_>) -> Vec<Key> {
    let mut keys = Vec::new();
    collect(root, None, "", &mut keys);
    keys
}

fn collect(table: &DeTable<'_>, node: Option<&str>, path: &str, keys: &mut Vec<Key>) {
    for (key, value) in table {
        let name = visible(&shortened(key.get_ref()));
        let path = if path.is_empty() { name } else { format!("{path}.{name}") };
        keys.push(Key { span: key.span(), node: node.map(str::to_owned), path: path.clone() });
        match value.get_ref() {
            DeValue::Table(table) => collect(table, node, &path, keys),
            DeValue::Array(array) => {
                for (index, element) in array.iter().enumerate() {
                    let Some(table) = element.get_ref().as_table() else {
                        continue;
                    };
                    if path == super::node::NODE {
                        let node = super::node::title(table, index);
                        collect(table, Some(&node), "", keys);
                    } else {
                        collect(table, node, &format!("{path}[{index}]"), keys);
                    }
                }
            }
            _ => {}
        }
    }
}

/// A key or table that is written twice. The parser keeps the first and tells only the second.
fn duplicate(text: &str, keys: &[Key], span: Range<usize>) -> Problem {
    let written = |span: &Range<usize>| text.get(span.clone()).unwrap_or_default();
    let name = written(&span);
    let first = keys
        .iter()
        .filter(|key| key.span.start <= span.start && written(&key.span) == name)
        .max_by_key(|key| key.span.start);
    // Of a table that is opened twice the parser keeps the second key: look for the header itself.
    let header = || {
        let start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let line = text[start..].lines().next()?.split('#').next()?.trim();
        let mut at = 0;
        text[..start].split_inclusive('\n').find_map(|earlier| {
            let begin = at;
            at += earlier.len();
            let same = earlier.split('#').next()?.trim() == line && line.starts_with('[');
            same.then(|| {
                let key = begin + earlier.find(name).unwrap_or(0);
                key..key + name.len()
            })
        })
    };
    let also = match first {
        Some(key) if key.span.start < span.start => Some(key.span.clone()),
        _ => header(),
    };
    Problem {
        span: Some(span.clone()),
        node: first.and_then(|key| key.node.clone()),
        setting: Some(first.map_or_else(|| visible(&shortened(name)), |key| key.path.clone())),
        what: "written twice".to_owned(),
        help: Some("keep one of the two".to_owned()),
        label: Some("second".to_owned()),
        also: also.map(|span| (span, "first")),
        ..Problem::default()
    }
}
