//! Lines that another line made stand under it.

use std::collections::HashMap;

use super::Line;

/// Deeper ones are not moved further to the right.
const DEEPEST: usize = 8;

/// The places of all lines in the order of the table, each with the mark before its id: what a
/// line made follows it. A line whose maker is not listed stands for itself.
pub(super) fn of(lines: &[Line]) -> Vec<(String, usize)> {
    let places: HashMap<_, _> =
        lines.iter().enumerate().map(|(at, line)| (line.id.as_str(), at)).collect();
    let mut made: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut first = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let maker = line.maker.as_deref().and_then(|maker| places.get(maker));
        match maker {
            Some(maker) => made.entry(*maker).or_default().push(at),
            None => first.push(at),
        }
    }
    let mut all = Vec::with_capacity(lines.len());
    let mut next: Vec<_> = first.into_iter().rev().map(|at| (String::new(), at)).collect();
    while let Some((mark, at)) = next.pop() {
        let depth = mark.chars().count().div_ceil(2).min(DEEPEST);
        let below = made.remove(&at).unwrap_or_default();
        for (nth, child) in below.into_iter().rev().enumerate() {
            let branch = if nth == 0 { "\u{2514} " } else { "\u{251c} " };
            next.push((format!("{}{branch}", "  ".repeat(depth)), child));
        }
        all.push((mark, at));
    }
    // No service says that a line made itself; what says so is listed nevertheless.
    let mut rest: Vec<_> = made.into_values().flatten().collect();
    rest.sort_unstable();
    all.extend(rest.into_iter().map(|at| (String::new(), at)));
    all
}
