//! A strict reader of both exposition formats: it refuses whatever a lenient one would let pass.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    OpenMetrics,
}

pub(super) struct Page {
    pub(super) families: Vec<Family>,
}

#[derive(Default)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) help: String,
    pub(super) samples: Vec<Sample>,
}

/// One line with a value. A bound (`le`) is written as a number in one form.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: f64,
}

impl Page {
    /// Every name with its labels.
    pub(super) fn series(&self) -> BTreeSet<(String, BTreeMap<String, String>)> {
        let samples = self.families.iter().flat_map(|family| &family.samples);
        samples.map(|s| (s.name.clone(), s.labels.clone())).collect()
    }

    /// The value of one series.
    pub(super) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut samples = self.families.iter().flat_map(|family| &family.samples);
        samples.find(|s| s.name == name && s.labels == labels).map(|s| s.value)
    }
}

/// Reads a page, or says what is wrong with it.
pub(super) fn parse(page: &str, format: Format) -> Result<Page, String> {
    let mut body = page.strip_suffix('\n').ok_or("no line feed at the end")?;
    if format == Format::OpenMetrics {
        body = body.strip_suffix("\n# EOF").ok_or("no # EOF at the end")?;
    }
    let mut families: Vec<Family> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut lines = body.split('\n').peekable();
    while let Some(line) = lines.next() {
        let rest = line.strip_prefix("# HELP ").ok_or(format!("no HELP: {line}"))?;
        let (name, help) = rest.split_once(' ').ok_or(format!("no help text: {line}"))?;
        let line = lines.next().ok_or("no TYPE")?;
        let rest = line.strip_prefix("# TYPE ").ok_or(format!("no TYPE: {line}"))?;
        let (typed, kind) = rest.split_once(' ').ok_or(format!("no type: {line}"))?;
        if typed != name || !is_name(name, ":") || !seen.insert(name.to_owned()) {
            return Err(format!("wrong or repeated name: {line}"));
        }
        let mut family = Family {
            name: name.to_owned(),
            kind: kind.to_owned(),
            help: unescape(help, format == Format::OpenMetrics)?,
            samples: Vec::new(),
        };
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            family.samples.push(sample(line, &family, format)?);
        }
        check(&family)?;
        families.push(family);
    }
    Ok(Page { families })
}

fn is_name(text: &str, also: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || also.contains(c);
    !text.is_empty() && text.chars().all(good) && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Takes the escapes out; with `quotes` a bare quote is wrong and an escaped one is right.
fn unescape(text: &str, quotes: bool) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('\\') => '\\',
                Some('n') => '\n',
                Some('"') if quotes => '"',
                other => return Err(format!("wrong escape {other:?}: {text}")),
            },
            '"' if quotes => return Err(format!("bare quote: {text}")),
            c => c,
        });
    }
    Ok(out)
}

fn sample(line: &str, family: &Family, format: Format) -> Result<Sample, String> {
    let wrong = |what: &str| format!("{what}: {line}");
    let end = line.find(['{', ' ']).ok_or(wrong("no value"))?;
    let name = &line[..end];
    let suffix = name.strip_prefix(family.name.as_str()).ok_or(wrong("strange name"))?;
    let suffixes: &[&str] = match (format, family.kind.as_str()) {
        (Format::Text, "counter") | (_, "gauge") => &[""],
        (Format::OpenMetrics, "counter") => &["_total"],
        (Format::OpenMetrics, "info") => &["_info"],
        (_, "histogram") => &["_bucket", "_sum", "_count"],
        _ => return Err(wrong("strange type")),
    };
    if !suffixes.contains(&suffix) {
        return Err(wrong("strange suffix"));
    }
    if format == Format::OpenMetrics && family.kind == "counter" && family.name.ends_with("_total")
    {
        return Err(wrong("a counter's family ends in _total"));
    }
    let mut labels = BTreeMap::new();
    let mut rest = &line[end..];
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").ok_or(wrong("no label value"))?;
            if !is_name(label, "") {
                return Err(wrong("strange label"));
            }
            let quote = end_quote(after).ok_or(wrong("no closing quote"))?;
            let mut value = unescape(&after[..quote], true)?;
            if label == "le" {
                value = bound(&value, format)?;
            }
            if labels.insert(label.to_owned(), value).is_some() {
                return Err(wrong("label twice"));
            }
            rest = &after[quote + 1..];
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            rest = rest.strip_prefix(',').ok_or(wrong("no comma"))?;
        }
    }
    if labels.contains_key("le") != (suffix == "_bucket") {
        return Err(wrong("le in the wrong place"));
    }
    let value = rest.strip_prefix(' ').ok_or(wrong("no space before the value"))?;
    let value = value.parse().map_err(|_| wrong("no number"))?;
    Ok(Sample { name: name.to_owned(), labels, value })
}

fn end_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let end = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        end.then_some(at)
    })
}

/// The bound of a bucket; `OpenMetrics` wants it as a decimal with a point.
fn bound(text: &str, format: Format) -> Result<String, String> {
    if text == "+Inf" {
        return Ok(text.to_owned());
    }
    if format == Format::OpenMetrics && !text.contains('.') {
        return Err(format!("bound {text} has no point"));
    }
    let number: f64 = text.parse().map_err(|_| format!("strange bound {text}"))?;
    Ok(number.to_string())
}

/// What holds for a family as a whole: samples, each series once, buckets that only grow.
fn check(family: &Family) -> Result<(), String> {
    let name = &family.name;
    if family.samples.is_empty() {
        return Err(format!("{name} has no sample"));
    }
    let mut seen = BTreeSet::new();
    if !family.samples.iter().all(|s| seen.insert((&s.name, &s.labels))) {
        return Err(format!("{name} has a series twice"));
    }
    if family.kind == "counter" && family.samples.iter().any(|s| s.value < 0.0) {
        return Err(format!("{name} is under 0"));
    }
    if family.kind != "histogram" {
        return Ok(());
    }
    let mut rest = family.samples.as_slice();
    while !rest.is_empty() {
        let buckets = rest.iter().take_while(|s| s.name.ends_with("_bucket")).count();
        let (run, after) = rest.split_at(buckets);
        let [sum, count, after @ ..] = after else {
            return Err(format!("{name} has no sum and count"));
        };
        let last = run.last().ok_or(format!("{name} has no bucket"))?;
        let grows = run.windows(2).all(|pair| pair[0].value <= pair[1].value);
        let bounds: Vec<f64> = run.iter().filter_map(|s| s.labels["le"].parse().ok()).collect();
        let rises = bounds.windows(2).all(|pair| pair[0] < pair[1]);
        let same = run.iter().all(|s| {
            let mut labels = s.labels.clone();
            labels.remove("le");
            labels == sum.labels && labels == count.labels
        });
        let whole = last.labels["le"] == "+Inf" && (last.value - count.value).abs() < f64::EPSILON;
        let named = sum.name.ends_with("_sum") && count.name.ends_with("_count");
        if !(grows && rises && same && whole && named && bounds.len() == buckets) {
            return Err(format!("{name} is no histogram"));
        }
        rest = after;
    }
    Ok(())
}
