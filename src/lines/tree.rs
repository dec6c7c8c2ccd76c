//! Lines that another line made, or that a parent carries, stand under it.

use std::collections::HashMap;

use super::Line;

/// Deeper ones are not moved further to the right.
const DEEPEST: usize = 8;

/// What a row of the table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// The line at this place, under that of the other one.
    Line(usize, Option<usize>),
    /// One side of the mux of the line at this place.
    Side(usize, usize),
    /// So many more children stand on the parent above.
    More(usize),
}

/// All rows of the table in order, each with the mark before its first word. A line follows the one
/// that made it, or else its parent; where neither is listed it stands for itself. Of each node's
/// children on one parent only the first `most` are listed.
pub(super) fn of(lines: &[Line], most: usize) -> Vec<(String, Row)> {
    let places: HashMap<_, _> =
        lines.iter().enumerate().map(|(at, line)| (line.id.as_str(), at)).collect();
    let place = |id: &Option<String>| id.as_deref().and_then(|id| places.get(id)).copied();
    let mut below: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut first = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        match place(&line.maker).or_else(|| place(&line.parent)) {
            Some(above) => below.entry(above).or_default().push(at),
            None => first.push(at),
        }
    }
    let mut all = Vec::with_capacity(lines.len());
    let mut next: Vec<_> =
        first.into_iter().rev().map(|at| (String::new(), Row::Line(at, None))).collect();
    while let Some((mark, row)) = next.pop() {
        let Row::Line(at, _) = row else {
            all.push((mark, row));
            continue;
        };
        let depth = "  ".repeat(mark.chars().count().div_ceil(2).min(DEEPEST));
        let under = below.remove(&at).unwrap_or_default();
        let (shown, mut hidden) = few(lines, at, under, most);
        let more = hidden.len();
        while let Some(at) = hidden.pop() {
            hidden.extend(below.remove(&at).unwrap_or_default());
        }
        all.push((mark, row));
        let bar = if shown.is_empty() { "  " } else { "\u{2502} " };
        for side in 0..lines[at].mux.len() {
            all.push((format!("{depth}{bar}"), Row::Side(at, side)));
        }
        let mut rows: Vec<_> = shown.into_iter().map(|child| Row::Line(child, Some(at))).collect();
        rows.extend((more > 0).then_some(Row::More(more)));
        for (nth, row) in rows.into_iter().rev().enumerate() {
            let branch = if nth == 0 { "\u{2514} " } else { "\u{251c} " };
            next.push((format!("{depth}{branch}"), row));
        }
    }
    // No service says that a line made itself; what says so is listed nevertheless.
    let mut rest: Vec<_> = below.into_values().flatten().collect();
    rest.sort_unstable();
    all.extend(rest.into_iter().map(|at| (String::new(), Row::Line(at, None))));
    all
}

/// What stands under a line, and the children of it that are too many.
fn few(lines: &[Line], parent: usize, under: Vec<usize>, most: usize) -> (Vec<usize>, Vec<usize>) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    under.into_iter().partition(|at| {
        let line = &lines[*at];
        if line.parent.as_ref() != Some(&lines[parent].id) {
            return true;
        }
        let children = seen.entry(&line.node).or_default();
        *children += 1;
        *children <= most
    })
}
