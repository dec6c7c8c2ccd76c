//! POSIX extended regular expressions in the syntax of the `regex` crate.

use std::fmt::Write as _;

use super::{Flags, PatternError};

type Result<T> = std::result::Result<T, PatternError>;

/// What a pattern becomes.
pub(super) fn translate(pattern: &[u8], flags: Flags) -> Result<String> {
    let mut reader = Reader { rest: pattern, flags, out: String::with_capacity(4 * pattern.len()) };
    reader.read()?;
    Ok(reader.out)
}

/// What a repetition would repeat.
#[derive(Clone, Copy)]
enum Before {
    /// Nothing.
    None,
    /// What stands in the output from there on.
    Atom(usize),
    /// The same, with a repetition behind it.
    Repeated(usize),
}

struct Reader<'a> {
    rest: &'a [u8],
    flags: Flags,
    out: String,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }
    fn read(&mut self) -> Result<()> {
        let mut before = Before::None;
        let mut groups = Vec::new();
        while let Some(byte) = self.next() {
            let at = self.out.len();
            before = match byte {
                b'(' => {
                    groups.push(at);
                    self.out.push('(');
                    Before::None
                }
                b')' => match groups.pop() {
                    Some(group) => {
                        self.out.push(')');
                        Before::Atom(group)
                    }
                    None => self.literal(byte),
                },
                b'|' | b'^' | b'$' => {
                    self.out.push(byte.into());
                    Before::None
                }
                b'*' | b'+' | b'?' => self.repeat(before, &char::from(byte).to_string())?,
                b'{' => match interval(self.rest) {
                    Some((text, length)) => {
                        self.rest = &self.rest[length..];
                        self.repeat(before, &text)?
                    }
                    None => self.literal(byte),
                },
                b'.' => {
                    self.out.push('.');
                    Before::Atom(at)
                }
                b'[' => {
                    let set = self.bracket()?;
                    self.set(&set);
                    Before::Atom(at)
                }
                b'\\' => self.escape()?,
                _ => self.literal(byte),
            };
        }
        if groups.is_empty() { Ok(()) } else { Err(PatternError::Syntax("a ( has no )")) }
    }
    fn literal(&mut self, byte: u8) -> Before {
        let at = self.out.len();
        if byte.is_ascii_alphanumeric() {
            self.out.push(byte.into());
        } else {
            // Writing to a String does not fail.
            let _ = write!(self.out, "\\x{byte:02x}");
        }
        Before::Atom(at)
    }
    fn repeat(&mut self, before: Before, text: &str) -> Result<Before> {
        let at = match before {
            Before::None => return Err(PatternError::Syntax("a repetition of nothing")),
            Before::Atom(at) => at,
            // Two in a row: `a+?` would be a lazy one.
            Before::Repeated(at) => {
                self.out.insert_str(at, "(?:");
                self.out.push(')');
                at
            }
        };
        self.out.push_str(text);
        Ok(Before::Repeated(at))
    }
    fn escape(&mut self) -> Result<Before> {
        let at = self.out.len();
        let Some(byte) = self.next() else {
            return Err(PatternError::Syntax("a \\ at the end"));
        };
        let (text, is_atom) = match byte {
            b'w' => ("\\w", true),
            b'W' => ("\\W", true),
            b's' => ("\\s", true),
            b'S' => ("\\S", true),
            b'd' => ("\\d", true),
            b'D' => ("\\D", true),
            b'n' => ("\\n", true),
            b'r' => ("\\r", true),
            b't' => ("\\t", true),
            b'b' => ("\\b", false),
            b'B' => ("\\B", false),
            b'<' => ("\\b{start}", false),
            b'>' => ("\\b{end}", false),
            b'`' => ("\\A", false),
            b'\'' => ("\\z", false),
            b'1'..=b'9' => return Err(PatternError::Syntax("a back reference in the pattern")),
            _ => return Ok(self.literal(byte)),
        };
        self.out.push_str(text);
        Ok(if is_atom { Before::Atom(at) } else { Before::None })
    }
    /// What stands between brackets.
    fn bracket(&mut self) -> Result<[bool; 256]> {
        let open = PatternError::Syntax("a [ has no ]");
        let mut set = [false; 256];
        let negated = self.rest.first() == Some(&b'^');
        if negated {
            self.next();
        }
        let mut first = true;
        loop {
            let byte = self.next().ok_or_else(|| open.clone())?;
            match byte {
                b']' if !first => break,
                b'[' if self.rest.first() == Some(&b':') => self.class(&mut set)?,
                _ => {
                    let from = self.element(byte)?;
                    let to = match self.rest {
                        [b'-', next, ..] if *next != b']' => {
                            self.next();
                            let byte = self.next().ok_or_else(|| open.clone())?;
                            self.element(byte)?
                        }
                        _ => from,
                    };
                    if from > to {
                        return Err(PatternError::Syntax("a range from high to low"));
                    }
                    set[usize::from(from)..=usize::from(to)].fill(true);
                }
            }
            first = false;
        }
        if self.flags.any_case {
            for letter in b'a'..=b'z' {
                let (low, high) = (usize::from(letter), usize::from(letter.to_ascii_uppercase()));
                let either = set[low] || set[high];
                (set[low], set[high]) = (either, either);
            }
        }
        if negated {
            set = set.map(|is_in| !is_in);
            if !self.flags.one_line {
                // No match runs over the end of a line unless it says so.
                (set[usize::from(b'\r')], set[usize::from(b'\n')]) = (false, false);
            }
        }
        Ok(set)
    }
    /// A member of a bracket: a byte, `[.x.]` or `[=x=]`.
    fn element(&mut self, byte: u8) -> Result<u8> {
        match (byte, self.rest) {
            (b'[', [open @ (b'.' | b'='), member, close, b']', rest @ ..]) if open == close => {
                self.rest = rest;
                Ok(*member)
            }
            (b'[', [b'.' | b'=', ..]) => Err(PatternError::Syntax("no such member of a bracket")),
            _ => Ok(byte),
        }
    }
    /// `[:alpha:]`, its `[` read.
    fn class(&mut self, set: &mut [bool; 256]) -> Result<()> {
        let unknown = PatternError::Syntax("no such class of characters");
        let rest = &self.rest[1..];
        let end = rest.windows(2).position(|two| two == b":]").ok_or_else(|| unknown.clone())?;
        let is_in: fn(&u8) -> bool = match &rest[..end] {
            b"alpha" => u8::is_ascii_alphabetic,
            b"digit" => u8::is_ascii_digit,
            b"alnum" => u8::is_ascii_alphanumeric,
            b"upper" => u8::is_ascii_uppercase,
            b"lower" => u8::is_ascii_lowercase,
            b"xdigit" => u8::is_ascii_hexdigit,
            b"punct" => u8::is_ascii_punctuation,
            b"cntrl" => u8::is_ascii_control,
            b"graph" => u8::is_ascii_graphic,
            b"print" => |byte| matches!(byte, b' '..=b'~'),
            b"blank" => |byte| matches!(byte, b' ' | b'\t'),
            b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
            _ => return Err(unknown),
        };
        for byte in 0..=u8::MAX {
            set[usize::from(byte)] |= is_in(&byte);
        }
        self.rest = &rest[end + 2..];
        Ok(())
    }
    /// Writes a set as ranges.
    fn set(&mut self, set: &[bool; 256]) {
        if set.iter().all(|is_in| !is_in) {
            self.out.push_str("[^\\x00-\\xff]");
            return;
        }
        self.out.push('[');
        let mut at = 0;
        while at < set.len() {
            let length = set[at..].iter().take_while(|is_in| **is_in).count();
            if length > 0 {
                let _ = write!(self.out, "\\x{at:02x}-\\x{:02x}", at + length - 1);
            }
            at += length.max(1);
        }
        self.out.push(']');
    }
}

/// `m}`, `m,}`, `,n}` or `m,n}`, and its length; the `{` is read.
fn interval(text: &[u8]) -> Option<(String, usize)> {
    let end = text.iter().position(|byte| *byte == b'}')?;
    let inside = std::str::from_utf8(&text[..end]).ok()?;
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u16>().ok()).flatten()
    };
    let text = match inside.split_once(',') {
        None => format!("{{{}}}", number(inside)?),
        Some((from, "")) => format!("{{{},}}", number(from)?),
        Some(("", to)) => format!("{{0,{}}}", number(to)?),
        Some((from, to)) => {
            let (from, to) = (number(from)?, number(to)?);
            (from <= to).then(|| format!("{{{from},{to}}}"))?
        }
    };
    Some((text, end + 1))
}
