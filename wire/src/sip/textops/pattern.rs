//! Regular expressions of scripts: POSIX extended syntax, as SIP scripts are written in, on the
//! engine of this program, which takes no more than linear time.

use std::collections::HashMap;
use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};

mod ere;

/// How a pattern is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Letters match both cases (`i`).
    pub any_case: bool,
    /// A line end is a byte like others, `^` and `$` are the ends of the text (`s`).
    pub one_line: bool,
}

impl Flags {
    /// Letters match both cases.
    pub const ANY_CASE: Self = Self { any_case: true, one_line: false };
}

/// Why a pattern or expression is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// Longer than [`Patterns::MAX_BYTES`].
    #[error("the pattern has more than {} bytes", Patterns::MAX_BYTES)]
    TooLong,
    /// What it would need is more than one pattern gets.
    #[error("the pattern is too large")]
    TooLarge,
    /// Not the syntax of a pattern.
    #[error("{0}")]
    Syntax(&'static str),
    /// Not `/pattern/replacement/flags`.
    #[error("not /pattern/replacement/flags: {0}")]
    Expression(&'static str),
}

/// The patterns that were used last, ready to run. What a script uses all the time stays, whatever
/// else it makes up.
#[derive(Debug, Default)]
pub struct Patterns {
    young: [HashMap<Box<[u8]>, Arc<Regex>>; 4],
    old: [HashMap<Box<[u8]>, Arc<Regex>>; 4],
    /// Patterns in `young`.
    count: usize,
}

impl Patterns {
    /// Bytes of one pattern at most.
    pub const MAX_BYTES: usize = 2_048;
    /// Half of the patterns that are kept.
    const GENERATION: usize = 64;
    /// What a compiled pattern, and its cache, may take.
    const MAX_SIZE: usize = 1 << 18;

    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// The pattern, ready to run.
    ///
    /// Outside of POSIX, `\w \W \s \S \b \B \< \> \d \D \n \r \t` are known; back references in the
    /// pattern are not. Alternatives are tried in their order: the first that fits is taken, not the
    /// longest. A line end is LF with or without CR in front of it.
    ///
    /// # Errors
    /// Not a pattern, or too large.
    pub fn get(&mut self, pattern: &[u8], flags: Flags) -> Result<Arc<Regex>, PatternError> {
        let which = usize::from(flags.any_case) | usize::from(flags.one_line) << 1;
        if let Some(regex) = self.young[which].get(pattern) {
            return Ok(Arc::clone(regex));
        }
        let regex = match self.old[which].remove(pattern) {
            Some(regex) => regex,
            None => Arc::new(compile(pattern, flags)?),
        };
        if self.count == Self::GENERATION {
            self.old = std::mem::take(&mut self.young);
            self.count = 0;
        }
        self.young[which].insert(pattern.into(), Arc::clone(&regex));
        self.count += 1;
        Ok(regex)
    }
}

fn compile(pattern: &[u8], flags: Flags) -> Result<Regex, PatternError> {
    if pattern.len() > Patterns::MAX_BYTES {
        return Err(PatternError::TooLong);
    }
    let text = ere::translate(pattern, flags)?;
    RegexBuilder::new(&text)
        .unicode(false)
        .case_insensitive(flags.any_case)
        .multi_line(!flags.one_line)
        .crlf(!flags.one_line)
        .dot_matches_new_line(flags.one_line)
        .size_limit(Patterns::MAX_SIZE)
        .dfa_size_limit(Patterns::MAX_SIZE)
        .nest_limit(100)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
            _ => PatternError::Syntax("the pattern can not be read"),
        })
}

#[cfg(test)]
mod tests;
