//! Small typed readers over a TOML document: each takes a value, or notes what is wrong with it.
//!
//! A reader that notes a problem gives a fallback back, so that all problems of a file are found
//! in one run; a plan is only made when there was none.

use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use lineway_wire::units::{ByteCount, Millis};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::LoadOptions;
use super::problem::{Problem, visible};
use crate::suggest::nearest;

/// A year. What is longer is a slip, and clocks can add it without overflow.
const LONGEST_MS: i64 = 365 * 24 * 60 * 60 * 1000;
/// A gibibyte: what one line may queue at most.
const MOST_BYTES: i64 = 1 << 30;

/// What all readers of one file share.
pub(super) struct Reading<'a> {
    pub(super) text: &'a str,
    /// Where relative paths in it begin.
    pub(super) folder: &'a Path,
    pub(super) options: &'a LoadOptions,
    pub(super) problems: RefCell<Vec<Problem>>,
    /// What is right, and yet worth a word to the operator.
    pub(super) warnings: RefCell<Vec<Problem>>,
    /// Stands in for a table that is left out.
    pub(super) nothing: DeTable<'static>,
}

impl<'a> Reading<'a> {
    /// The reading of a text whose relative paths begin in the current folder.
    pub(super) fn new(text: &'a str, options: &'a LoadOptions) -> Self {
        let (problems, warnings) = (RefCell::default(), RefCell::default());
        let folder = Path::new("");
        Self { text, folder, options, problems, warnings, nothing: DeTable::new() }
    }

    pub(super) fn note(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }
}

/// Where a table or value stands, in the reader's words.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// `node "in"`, inside a node.
    pub(super) node: Option<String>,
    /// `settings.port`; empty at the top.
    pub(super) path: String,
}

impl Place {
    fn key(&self, name: &str) -> Self {
        let name = visible(name);
        let path = if self.path.is_empty() { name } else { format!("{}.{name}", self.path) };
        Self { node: self.node.clone(), path }
    }

    fn element(&self, index: usize) -> Self {
        Self { node: self.node.clone(), path: format!("{}[{index}]", self.path) }
    }

    pub(super) fn problem(&self, span: Range<usize>, what: impl Into<String>) -> Problem {
        Problem {
            span: Some(span),
            node: self.node.clone(),
            setting: Some(self.path.clone()).filter(|path| !path.is_empty()),
            what: what.into(),
            ..Problem::default()
        }
    }
}

/// A value with its place.
#[derive(Clone)]
pub(super) struct Value<'a> {
    toml: &'a DeValue<'a>,
    pub(super) span: Range<usize>,
    pub(super) place: Place,
    reading: &'a Reading<'a>,
}

impl<'a> Value<'a> {
    /// The text of a string.
    pub(super) fn text(&self) -> Option<&'a str> {
        self.toml.as_str()
    }

    /// Whether it is an array.
    pub(super) fn is_array(&self) -> bool {
        self.toml.is_array()
    }

    /// The value as a table, without a word when it is none.
    pub(super) fn as_table(&self) -> Option<&'a DeTable<'a>> {
        self.toml.as_table()
    }

    /// What the file says: the kind of value and its text.
    pub(super) fn found(&self) -> String {
        let kind = match self.toml {
            DeValue::String(text) => return format!("string {}", shortened(&format!("{text:?}"))),
            DeValue::Table(_) => return "table".to_owned(),
            DeValue::Array(array) if array.is_empty() => return "array [] (empty)".to_owned(),
            DeValue::Array(_) => "array",
            DeValue::Integer(_) => "number",
            DeValue::Float(_) => "float",
            DeValue::Boolean(_) => "boolean",
            DeValue::Datetime(_) => "date",
        };
        let text = self.reading.text.get(self.span.clone()).unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{kind} {}", shortened(&visible(&text)))
    }

    /// Notes that something else was expected.
    pub(super) fn wrong(&self, expected: &str) {
        self.wrong_but(expected, None);
    }

    /// Notes that something else was expected, and how to put it right.
    pub(super) fn wrong_but(&self, expected: &str, help: Option<String>) {
        let mut problem = self.problem(format!("found {}, expected {expected}", self.found()));
        problem.label = Some(format!("expected {expected}"));
        problem.help = help;
        self.reading.note(problem);
    }

    /// Notes what does not go together with something else.
    pub(super) fn clash(&self, what: impl Into<String>) {
        self.reading.note(self.problem(what));
    }

    /// Notes that the value is right, and what the operator should know of it.
    pub(super) fn warn(&self, what: &str) {
        let warning = self.problem(format!("found {}: {what}", self.found()));
        self.reading.warnings.borrow_mut().push(warning);
    }

    /// Notes a problem of this value.
    pub(super) fn note(&self, problem: Problem) {
        self.reading.note(problem);
    }

    pub(super) fn options(&self) -> &LoadOptions {
        self.reading.options
    }

    /// Where relative paths begin: the folder of the file.
    pub(super) fn folder(&self) -> &'a Path {
        self.reading.folder
    }

    pub(super) fn problem(&self, what: impl Into<String>) -> Problem {
        self.place.problem(self.span.clone(), what)
    }

    /// A whole number of the range.
    pub(super) fn integer(&self, range: RangeInclusive<i64>, expected: &str) -> Option<i64> {
        let number = self.as_integer().filter(|number| range.contains(number));
        if number.is_none() {
            self.wrong_but(expected, self.unquoted(&range));
        }
        number
    }

    /// The number, without a word when there is none.
    pub(super) fn as_integer(&self) -> Option<i64> {
        let integer = self.toml.as_integer()?;
        i64::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    fn unquoted(&self, range: &RangeInclusive<i64>) -> Option<String> {
        let number: i64 = self.text()?.trim().parse().ok()?;
        range.contains(&number).then(|| format!("write {number} without quotes"))
    }

    /// A time in milliseconds, to a year; `or` is what else would be right.
    pub(super) fn millis_or(&self, or: &str) -> Option<Millis> {
        let number = self.measured(&format!("{or}, or milliseconds"), 0..=LONGEST_MS, &TIME_UNITS);
        number.map(Millis::new)
    }

    /// A time in milliseconds, from `least` to a year.
    pub(super) fn millis(&self, least: i64) -> Option<Millis> {
        let number = self.measured("milliseconds", least..=LONGEST_MS, &TIME_UNITS)?;
        Some(Millis::new(number))
    }

    /// A number of bytes, from `least` to 1 GiB.
    pub(super) fn bytes(&self, least: i64) -> Option<ByteCount> {
        self.bytes_of(least..=MOST_BYTES)
    }

    /// A number of bytes of the range.
    pub(super) fn bytes_of(&self, range: RangeInclusive<i64>) -> Option<ByteCount> {
        self.measured("bytes", range, &SIZE_UNITS).map(ByteCount::new)
    }

    /// A number of the range, in the smallest of these units.
    fn measured(
        &self,
        thing: &str,
        range: RangeInclusive<i64>,
        units: &[(&str, i64)],
    ) -> Option<u64> {
        if let Some(number) = self.as_integer().filter(|number| range.contains(number)) {
            return Some(number.unsigned_abs());
        }
        let help = self.text().and_then(|text| with_unit(text, units));
        let help = help.filter(|number| range.contains(number));
        self.wrong_but(
            &format!("{thing}, number ({} to {})", range.start(), range.end()),
            help.map(|number| format!("write {number}")),
        );
        None
    }

    /// What `read` makes of a string.
    pub(super) fn parsed<T>(
        &self,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let parsed = self.text().and_then(read);
        if parsed.is_none() {
            self.wrong(expected);
        }
        parsed
    }

    /// One word of a closed set.
    pub(super) fn choice<T: Copy>(&self, words: &[(&'static str, T)]) -> Option<T> {
        let written = self.text().unwrap_or_default();
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == written) {
            return Some(*value);
        }
        let known = words.iter().map(|(word, _)| *word);
        let help = nearest(written, known.clone()).map(did_you_mean);
        self.wrong_but(&known.map(|w| format!("{w:?}")).collect::<Vec<_>>().join(", "), help);
        None
    }

    /// An IP address; v4-mapped ones become IPv4.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.parsed("IP address", |text| text.parse().ok().map(|ip: IpAddr| ip.to_canonical()))
    }

    /// The elements of an array.
    pub(super) fn elements(&self, expected: &str) -> Option<Vec<Self>> {
        let Some(array) = self.toml.as_array() else {
            self.wrong(expected);
            return None;
        };
        let element = |(index, value): (usize, &'a Spanned<DeValue<'a>>)| Self {
            toml: value.get_ref(),
            span: value.span(),
            place: self.place.element(index),
            reading: self.reading,
        };
        Some(array.iter().enumerate().map(element).collect())
    }

    /// The keys of a table whose keys are the operator's, with their values.
    pub(super) fn entries(&self, expected: &str) -> Option<Vec<(&'a str, Self)>> {
        let Some(keys) = self.toml.as_table() else {
            self.wrong(expected);
            return None;
        };
        let entry = |(key, value): (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>)| {
            let name: &'a str = key.get_ref();
            let value = Self {
                toml: value.get_ref(),
                span: value.span(),
                place: self.place.key(&shortened(name)),
                reading: self.reading,
            };
            (name, value)
        };
        Some(keys.iter().map(entry).collect())
    }

    /// The value as a table.
    pub(super) fn table(&self, expected: &str) -> Option<Table<'a>> {
        let Some(keys) = self.toml.as_table() else {
            self.wrong(expected);
            return None;
        };
        Some(Table::new(keys, self.span.clone(), self.place.clone(), self.reading))
    }
}

/// A table that is read key by key, and remembers which keys were asked for.
pub(super) struct Table<'a> {
    keys: &'a DeTable<'a>,
    /// Where to point when something is missing: the table's header.
    pub(super) span: Range<usize>,
    pub(super) place: Place,
    pub(super) reading: &'a Reading<'a>,
    asked: Vec<&'static str>,
}

impl<'a> Table<'a> {
    pub(super) fn new(
        keys: &'a DeTable<'a>,
        span: Range<usize>,
        place: Place,
        reading: &'a Reading<'a>,
    ) -> Self {
        Self { keys, span, place, reading, asked: Vec::new() }
    }

    /// A table that is left out: every setting has its default or is missing.
    pub(super) fn left_out(span: Range<usize>, place: Place, reading: &'a Reading<'a>) -> Self {
        Self::new(&reading.nothing, span, place, reading)
    }

    /// The setting names that were asked for: those that the table may have.
    pub(super) fn asked(&self) -> &[&'static str] {
        &self.asked
    }

    /// Whether the setting is written.
    pub(super) fn has(&self, name: &str) -> bool {
        self.keys.contains_key(name)
    }

    /// Where a setting is written.
    pub(super) fn span_of(&self, name: &str) -> Option<Range<usize>> {
        self.keys.get(name).map(Spanned::span)
    }

    /// Where the elements of a setting are written that is an array.
    pub(super) fn element_spans(&self, name: &str) -> Vec<Range<usize>> {
        let array = self.keys.get(name).and_then(|value| value.get_ref().as_array());
        array.into_iter().flat_map(|array| array.iter()).map(Spanned::span).collect()
    }

    /// Which of some settings is written, and where.
    pub(super) fn written(&self, names: [&'static str; 2]) -> Option<(&'static str, Range<usize>)> {
        names.into_iter().find_map(|name| Some((name, self.keys.get(name)?.span())))
    }

    /// A value that may be left out.
    pub(super) fn get(&mut self, name: &'static str) -> Option<Value<'a>> {
        self.asked.push(name);
        let value = self.keys.get(name)?;
        Some(Value {
            toml: value.get_ref(),
            span: value.span(),
            place: self.place.key(name),
            reading: self.reading,
        })
    }

    /// A value that must be there.
    pub(super) fn required(&mut self, name: &'static str, expected: &str) -> Option<Value<'a>> {
        let value = self.get(name);
        if value.is_none() {
            self.missing(name, expected, None);
        }
        value
    }

    /// Notes that a setting is missing.
    pub(super) fn missing(&self, name: &str, expected: &str, help: Option<String>) {
        let what = format!("missing, expected {expected}");
        let mut problem = self.place.key(name).problem(self.span.clone(), what);
        problem.label = Some(format!("`{name}` is missing"));
        problem.help = help;
        problem.absence = true;
        self.reading.note(problem);
    }

    /// `true` or `false`.
    pub(super) fn boolean(&mut self, name: &'static str, default: bool) -> bool {
        let Some(value) = self.get(name) else {
            return default;
        };
        if let DeValue::Boolean(flag) = value.toml {
            return *flag;
        }
        let written = value.text().filter(|text| matches!(*text, "true" | "false"));
        value.wrong_but("true, false", written.map(|text| format!("write {text} without quotes")));
        default
    }

    /// A number between two others, both included.
    pub(super) fn number(&mut self, name: &'static str, range: RangeInclusive<i64>) -> Option<i64> {
        let expected = format!("number ({} to {})", range.start(), range.end());
        self.get(name)?.integer(range, &expected)
    }

    /// A time in milliseconds, from `least` to a year.
    pub(super) fn millis(&mut self, name: &'static str, default: u32, least: i64) -> Millis {
        let written = self.get(name).and_then(|value| value.millis(least));
        written.unwrap_or(Millis::new(u64::from(default)))
    }

    /// A number of bytes, 1 to 1 GiB.
    pub(super) fn bytes(&mut self, name: &'static str) -> Option<(ByteCount, Value<'a>)> {
        let value = self.get(name)?;
        Some((value.bytes(1)?, value))
    }

    /// Notes that a value is above the setting `name`, which is `most`.
    pub(super) fn above(&self, value: &Value<'_>, name: &str, most: ByteCount) {
        let default = if self.has(name) { "" } else { ", its default" };
        value.wrong(&format!("bytes, not above {name} ({}{default})", most.get()));
    }

    /// Notes, where a setting is written, what the operator should know of it.
    pub(super) fn warn(&self, name: &str, what: &str) {
        if let Some(value) = self.keys.get(name) {
            let (toml, span) = (value.get_ref(), value.span());
            let place = self.place.key(name);
            Value { toml, span, place, reading: self.reading }.warn(what);
        }
    }

    /// Notes what does not go together with something else: at the setting where it is written,
    /// else at the table.
    pub(super) fn clash(&self, name: &str, what: impl Into<String>) {
        let span = self.span_of(name).unwrap_or_else(|| self.span.clone());
        self.reading.note(self.place.key(name).problem(span, what));
    }

    /// Notes every key that nobody asked for. `elsewhere` knows where a key belongs instead.
    pub(super) fn finish(&self, thing: &str, elsewhere: impl Fn(&str) -> Option<String>) {
        for key in self.keys.keys() {
            let name: &str = key.get_ref();
            if self.asked.contains(&name) {
                continue;
            }
            let near = || nearest(name, self.asked.iter().copied()).map(did_you_mean);
            let meant = elsewhere(name).or_else(near);
            let place = self.place.key(&shortened(name));
            let mut problem = place.problem(key.span(), format!("unknown setting of {thing}"));
            problem.label = Some(meant.clone().unwrap_or_else(|| "unknown setting".to_owned()));
            problem.help = Some(meant.unwrap_or_else(|| match self.asked.as_slice() {
                [] => "it has none".to_owned(),
                known => format!("known here: {}", known.join(", ")),
            }));
            self.reading.note(problem);
        }
    }
}

pub(super) fn did_you_mean(word: &str) -> String {
    format!("did you mean `{word}`?")
}

/// At most 60 characters of a text.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

const TIME_UNITS: [(&str, i64); 6] =
    [("ms", 1), ("s", 1000), ("sec", 1000), ("m", 60_000), ("min", 60_000), ("h", 3_600_000)];
const SIZE_UNITS: [(&str, i64); 10] = [
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("gib", 1 << 30),
];

/// The number that a text such as `30s` or `512KiB` stands for.
fn with_unit(text: &str, units: &[(&str, i64)]) -> Option<i64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: i64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim();
    if unit.is_empty() {
        return Some(number);
    }
    let (_, factor) = units.iter().find(|(word, _)| *word == unit)?;
    number.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::{SIZE_UNITS, TIME_UNITS, shortened, with_unit};

    #[test]
    fn case_m20_a_time_with_its_unit_becomes_milliseconds() {
        for (text, millis) in [("30s", 30_000), ("30", 30), (" 5 min", 300_000), ("1H", 3_600_000)]
        {
            assert_eq!(with_unit(text, &TIME_UNITS), Some(millis), "{text}");
        }
        for text in ["", "s", "1.5s", "1 day", "99999999999999999999s", "9223372036854775807h"] {
            assert_eq!(with_unit(text, &TIME_UNITS), None, "{text}");
        }
        assert_eq!(with_unit("512KiB", &SIZE_UNITS), Some(524_288));
    }

    #[test]
    fn a_long_text_is_shortened_between_characters() {
        assert_eq!(shortened(&"ü".repeat(60)), "ü".repeat(60));
        assert_eq!(shortened(&"ü".repeat(61)), format!("{}...", "ü".repeat(60)));
    }
}
