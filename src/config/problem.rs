//! What is wrong with a configuration, said so that a person can put it right.

use std::fmt::{self, Write as _};
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// Problems beyond this number are listed without their source lines.
const SNIPPETS: usize = 100;

/// One thing that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Bytes of the file that are wrong; `None` when no place in the file is.
    pub(crate) span: Option<Range<usize>>,
    /// Stands where the file name would, when the wrong value is not from the file.
    pub(crate) origin: Option<&'static str>,
    /// The node as it is shown: `node "in"`.
    pub(crate) node: Option<String>,
    /// The path of the setting: `settings.port`.
    pub(crate) setting: Option<String>,
    /// What was found, and what would be right.
    pub(crate) what: String,
    /// How to put it right.
    pub(crate) help: Option<String>,
    /// A few words under the caret.
    pub(crate) label: Option<String>,
    /// Another place that matters, and why.
    pub(crate) also: Option<(Range<usize>, &'static str)>,
    /// Something is not there. After a syntax error this may only be its echo.
    pub(crate) absence: bool,
}

/// Every problem of one configuration, in the order of the file; never empty.
///
/// `Display` gives the whole report without colours. Each problem begins with one line that says
/// everything (`file:line:column: node, setting: found, expected`), the source line follows.
#[derive(Clone, Debug)]
pub struct Problems {
    name: String,
    text: String,
    list: Vec<Problem>,
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl Problems {
    pub(crate) fn new(name: String, text: String, mut list: Vec<Problem>) -> Self {
        debug_assert!(!list.is_empty(), "a configuration without a problem is right");
        list.sort_by_key(|problem| problem.span.as_ref().map(|span| span.start));
        list.dedup();
        Self { name, text, list }
    }

    /// How many there are; at least 1.
    #[allow(clippy::len_without_is_empty, reason = "there is at least one problem")]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Each problem as the one line that says everything; for logs.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let starts = line_starts(&self.text);
        self.list.iter().map(move |problem| self.line(problem, &starts))
    }

    /// The whole report: every problem with its source line, and their number at the end.
    pub fn render(&self, styled: bool) -> String {
        let starts = line_starts(&self.text);
        let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
        let (bold, plain) = if styled { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let mut out = String::new();
        for (index, problem) in self.list.iter().enumerate() {
            let line = self.line(problem, &starts);
            let _ = writeln!(out, "{bold}{line}{plain}");
            if let Some(span) = problem.span.as_ref().filter(|_| index < SNIPPETS) {
                let _ = writeln!(out, "{}\n", self.snippet(problem, span, &starts, &renderer));
            }
        }
        let count = match self.list.len() {
            1 => "1 problem".to_owned(),
            n => format!("{n} problems"),
        };
        let _ = writeln!(out, "{}: {count}", self.name);
        out
    }

    fn line(&self, problem: &Problem, starts: &[usize]) -> String {
        let mut line = problem.origin.map_or_else(|| visible(&self.name), str::to_owned);
        if let Some(span) = &problem.span {
            let (row, column) = position(&self.text, starts, span.start);
            let _ = write!(line, ":{}:{}", row + 1, column + 1);
        }
        line.push_str(": ");
        let subject = [problem.node.as_deref(), problem.setting.as_deref()];
        let subject: Vec<_> = subject.into_iter().flatten().collect();
        if !subject.is_empty() {
            line.push_str(&visible(&subject.join(", ")));
            line.push_str(": ");
        }
        line.push_str(&visible(&problem.what));
        if let Some((span, why)) = &problem.also {
            let (row, _) = position(&self.text, starts, span.start);
            let _ = write!(line, " ({why} on line {})", row + 1);
        }
        if let Some(help) = &problem.help {
            let _ = write!(line, "; {}", visible(help));
        }
        line
    }

    /// The source lines that a problem touches, with carets.
    fn snippet(
        &self,
        problem: &Problem,
        span: &Range<usize>,
        starts: &[usize],
        renderer: &Renderer,
    ) -> String {
        let first =
            problem.also.as_ref().map_or(span.start, |(also, _)| also.start.min(span.start));
        let last = problem.also.as_ref().map_or(span.start, |(also, _)| also.start.max(span.start));
        let first_row = row_of(starts, first);
        let from = starts[first_row];
        let to = line_end(&self.text, starts, row_of(starts, last));
        let inside = |span: &Range<usize>| {
            let end = line_end(&self.text, starts, row_of(starts, span.start));
            let start = char_start(&self.text, span.start.min(end));
            let end = char_start(&self.text, span.end.clamp(start, end));
            start - from..end.max(start) - from
        };
        let label = problem.label.as_deref().map(visible);
        let mut snippet = Snippet::source(&self.text[from..to])
            .line_start(first_row + 1)
            .fold(true)
            .annotation(AnnotationKind::Primary.span(inside(span)).label(label));
        if let Some((also, why)) = &problem.also {
            snippet = snippet.annotation(AnnotationKind::Context.span(inside(also)).label(*why));
        }
        renderer.render(&[Group::with_level(Level::ERROR).element(snippet)])
    }
}

/// A text without characters that could move a terminal's cursor or break a line.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_debug());
        } else {
            out.push(c);
        }
    }
    out
}

/// The byte offsets at which the lines of a text start.
pub(crate) fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

/// The line, counted from 0, that holds a byte offset.
pub(crate) fn row_of(starts: &[usize], at: usize) -> usize {
    starts.partition_point(|&start| start <= at).saturating_sub(1)
}

fn line_end(text: &str, starts: &[usize], row: usize) -> usize {
    let end = starts.get(row + 1).map_or(text.len(), |next| next - 1);
    let line = &text[starts[row]..end];
    starts[row] + line.trim_end_matches('\r').len()
}

fn char_start(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Line and column, both counted from 0; columns are characters.
fn position(text: &str, starts: &[usize], at: usize) -> (usize, usize) {
    let at = char_start(text, at);
    let row = row_of(starts, at);
    (row, text[starts[row]..at].chars().count())
}

#[cfg(test)]
mod tests {
    use super::{Problem, Problems, visible};

    fn problems(text: &str, span: std::ops::Range<usize>) -> Problems {
        let problem = Problem { span: Some(span), what: "wrong".into(), ..Problem::default() };
        Problems::new("f.toml".into(), text.into(), vec![problem])
    }

    #[test]
    fn columns_count_characters_and_lines_start_at_one() {
        let text = "a = 1\r\nü = \"ö\"\n";
        let at = text.find("\"ö").unwrap();
        let line = problems(text, at..at + 4).lines().next().unwrap();
        assert_eq!(line, "f.toml:2:5: wrong");
    }

    #[test]
    fn any_span_can_be_shown() {
        for text in ["", "\n", "\r\n", "ü", "a\nü\r\nb", "\t\u{1b}[31m\0"] {
            for start in 0..=text.len() + 2 {
                for end in start..=text.len() + 2 {
                    let shown = problems(text, start..end).render(true);
                    assert!(shown.contains("f.toml:"), "{shown}");
                }
            }
        }
    }

    #[test]
    fn control_characters_of_a_file_do_not_reach_the_terminal() {
        assert_eq!(visible("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        let shown = problems("a = \"\u{1b}[31m\u{7}\"\n", 4..9).render(false);
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown}");
    }
}
