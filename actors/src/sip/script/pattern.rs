//! Lua's patterns with a budget: `string.find` and its like can take exponential time on a bad
//! pattern, and no hook of Lua looks inside of them.
//!
//! The rules are those of the Lua 5.4 manual, section 6.4.1; a fault of a pattern is found when
//! matching comes to it, as there.

use std::ops::Range;

/// Captures of one match at most.
const MAX_CAPTURES: usize = 32;
/// Parts of a pattern that wait for the rest of it.
const MAX_DEPTH: u32 = 200;
/// Steps of one call at most.
const MAX_STEPS: u32 = 10_000_000;
/// Steps between two looks at the time.
const STEPS_BETWEEN_LOOKS: u32 = 16_384;

/// The escape of patterns and replacements.
pub(super) const ESCAPE: u8 = b'%';

/// Why a pattern did not come to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The pattern is wrong, or too much work; as Lua says it.
    Pattern(String),
    /// The invocation's time is over.
    Time,
}

impl Fault {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self::Pattern(text.into())
    }
}

/// One capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// It begins here and is not closed.
    Open(usize),
    /// `()`: the place itself.
    Place(usize),
    /// What stands between.
    Text(usize, usize),
}

/// A pattern at work on one text.
pub(super) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: [Capture; MAX_CAPTURES],
    level: usize,
    depth: u32,
    steps: u32,
    is_over: &'a dyn Fn() -> bool,
}

type Found<T> = Result<T, Fault>;

impl<'a> Matcher<'a> {
    /// A matcher of a pattern, its anchor left out.
    pub(super) fn new(text: &'a [u8], pattern: &'a [u8], is_over: &'a dyn Fn() -> bool) -> Self {
        let captures = [Capture::Open(0); MAX_CAPTURES];
        Self { text, pattern, captures, level: 0, depth: 0, steps: 0, is_over }
    }

    /// Matches at this place: where the match ends.
    pub(super) fn at(&mut self, place: usize) -> Found<Option<usize>> {
        self.level = 0;
        self.depth = 0;
        self.run(place, 0)
    }

    /// The captures of the last match; the whole of it, if that is given, where the pattern has
    /// none.
    pub(super) fn captures(
        &self,
        whole: Option<Range<usize>>,
    ) -> Found<impl Iterator<Item = Capture>> {
        if self.captures[..self.level].iter().any(|one| matches!(one, Capture::Open(_))) {
            return Err(Fault::new("unfinished capture"));
        }
        let whole = whole.filter(|_| self.level == 0);
        let whole = whole.map(|whole| Capture::Text(whole.start, whole.end));
        Ok(self.captures[..self.level].iter().copied().chain(whole))
    }

    /// Capture `number` of the last match, from 1; 1 is the whole where the pattern has none.
    pub(super) fn capture(&self, number: usize, whole: Range<usize>) -> Found<Capture> {
        match self.captures[..self.level].get(number - 1) {
            Some(Capture::Open(_)) => Err(Fault::new("unfinished capture")),
            Some(capture) => Ok(*capture),
            None if number == 1 => Ok(Capture::Text(whole.start, whole.end)),
            None => Err(Fault::new(format!("invalid capture index %{number}"))),
        }
    }

    /// The byte of the pattern at this place; 0 behind its end.
    fn p(&self, place: usize) -> u8 {
        self.pattern.get(place).copied().unwrap_or(0)
    }

    fn step(&mut self) -> Found<()> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(Fault::new("the pattern takes too many steps"));
        }
        if self.steps.is_multiple_of(STEPS_BETWEEN_LOOKS) && (self.is_over)() {
            return Err(Fault::Time);
        }
        Ok(())
    }

    fn run(&mut self, s: usize, p: usize) -> Found<Option<usize>> {
        if self.depth == MAX_DEPTH {
            return Err(Fault::new("pattern too complex"));
        }
        self.depth += 1;
        let found = self.rest(s, p);
        self.depth -= 1;
        found
    }

    /// Matches the pattern from `p` on at `s`.
    fn rest(&mut self, mut s: usize, mut p: usize) -> Found<Option<usize>> {
        loop {
            if p == self.pattern.len() {
                return Ok(Some(s));
            }
            self.step()?;
            match self.pattern[p] {
                b'(' if self.p(p + 1) == b')' => return self.open(s, p + 2, Capture::Place(s)),
                b'(' => return self.open(s, p + 1, Capture::Open(s)),
                b')' => return self.close(s, p + 1),
                b'$' if p + 1 == self.pattern.len() => {
                    return Ok((s == self.text.len()).then_some(s));
                }
                ESCAPE if self.p(p + 1) == b'b' => match self.balance(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                ESCAPE if self.p(p + 1) == b'f' => match self.frontier(s, p + 2)? {
                    Some(next) => p = next,
                    None => return Ok(None),
                },
                ESCAPE if self.p(p + 1).is_ascii_digit() => match self.again(s, self.p(p + 1))? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(p)?;
                    let fits = self.single(s, p, end);
                    match (self.p(end), fits) {
                        (b'?', true) => match self.run(s + 1, end + 1)? {
                            Some(found) => return Ok(Some(found)),
                            None => p = end + 1,
                        },
                        (b'+', true) => return self.most(s + 1, p, end),
                        (b'*', true) => return self.most(s, p, end),
                        (b'-', true) => return self.least(s, p, end),
                        (b'*' | b'?' | b'-', false) => p = end + 1,
                        (_, true) => (s, p) = (s + 1, end),
                        (_, false) => return Ok(None),
                    }
                }
            }
        }
    }

    fn open(&mut self, s: usize, p: usize, capture: Capture) -> Found<Option<usize>> {
        if self.level == MAX_CAPTURES {
            return Err(Fault::new("too many captures"));
        }
        self.captures[self.level] = capture;
        self.level += 1;
        let found = self.run(s, p)?;
        if found.is_none() {
            self.level -= 1;
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> Found<Option<usize>> {
        let is_open = |one: &Capture| matches!(one, Capture::Open(_));
        let Some(index) = self.captures[..self.level].iter().rposition(is_open) else {
            return Err(Fault::new("invalid pattern capture"));
        };
        let Capture::Open(start) = self.captures[index] else { return Ok(None) };
        self.captures[index] = Capture::Text(start, s);
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures[index] = Capture::Open(start);
        }
        Ok(found)
    }

    /// `%1`: what a capture found, again.
    fn again(&self, s: usize, digit: u8) -> Found<Option<usize>> {
        let number = usize::from(digit - b'0');
        match number.checked_sub(1).and_then(|index| self.captures[..self.level].get(index)) {
            Some(Capture::Text(start, end)) => {
                let found = self.text[s..].starts_with(&self.text[*start..*end]);
                Ok(found.then_some(s + (end - start)))
            }
            Some(Capture::Place(_)) => Ok(None),
            Some(Capture::Open(_)) | None => {
                Err(Fault::new(format!("invalid capture index %{number}")))
            }
        }
    }

    /// `%bxy`.
    fn balance(&mut self, s: usize, p: usize) -> Found<Option<usize>> {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(Fault::new("malformed pattern (missing arguments to '%b')"));
        };
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.text.len() {
            self.step()?;
            let byte = self.text[at];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]`: where the pattern goes on, if a frontier is here.
    fn frontier(&self, s: usize, p: usize) -> Found<Option<usize>> {
        if self.p(p) != b'[' {
            return Err(Fault::new("missing '[' after '%f' in pattern"));
        }
        let end = self.class_end(p)?;
        let before = s.checked_sub(1).map_or(0, |at| self.text[at]);
        let here = self.text.get(s).copied().unwrap_or(0);
        let is_frontier = !self.in_set(before, p, end - 1) && self.in_set(here, p, end - 1);
        Ok(is_frontier.then_some(end))
    }

    fn most(&mut self, s: usize, p: usize, end: usize) -> Found<Option<usize>> {
        let mut at = s;
        while self.single(at, p, end) {
            self.step()?;
            at += 1;
        }
        loop {
            if let Some(found) = self.run(at, end + 1)? {
                return Ok(Some(found));
            }
            if at == s {
                return Ok(None);
            }
            at -= 1;
        }
    }

    fn least(&mut self, mut s: usize, p: usize, end: usize) -> Found<Option<usize>> {
        loop {
            if let Some(found) = self.run(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    /// Where the class that begins at `p` ends.
    fn class_end(&self, p: usize) -> Found<usize> {
        match self.pattern[p] {
            ESCAPE if p + 1 == self.pattern.len() => {
                Err(Fault::new("malformed pattern (ends with '%')"))
            }
            ESCAPE => Ok(p + 2),
            b'[' => {
                let mut at = if self.p(p + 1) == b'^' { p + 2 } else { p + 1 };
                loop {
                    let Some(&byte) = self.pattern.get(at) else {
                        return Err(Fault::new("malformed pattern (missing ']')"));
                    };
                    at += 1;
                    if byte == ESCAPE && at < self.pattern.len() {
                        at += 1;
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether the byte at `s` fits the class from `p` to `end`.
    fn single(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(s) else { return false };
        match self.pattern[p] {
            b'.' => true,
            ESCAPE => in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end - 1),
            literal => literal == byte,
        }
    }

    /// Whether a byte is in the set from its `[` at `p` to its `]` at `end`.
    fn in_set(&self, byte: u8, p: usize, end: usize) -> bool {
        let mut at = p + 1;
        let wanted = self.p(at) != b'^';
        if !wanted {
            at += 1;
        }
        while at < end {
            let one = self.pattern[at];
            if one == ESCAPE {
                if in_class(byte, self.p(at + 1)) {
                    return wanted;
                }
                at += 2;
            } else if self.p(at + 1) == b'-' && at + 2 < end {
                if (one..=self.p(at + 2)).contains(&byte) {
                    return wanted;
                }
                at += 3;
            } else {
                if one == byte {
                    return wanted;
                }
                at += 1;
            }
        }
        !wanted
    }
}

/// Whether a byte is of a class such as `a` of `%a`; a capital is its contrary.
fn in_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        // Not in the manual any more, but there.
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}

/// Whether a pattern is plain text.
pub(super) fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))
}
