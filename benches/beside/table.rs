//! Rows of the result.

use lineway::load::table::Table;
use serde::Serialize;

/// What a row must reach.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Must {
    /// Ours by the peer's at least this.
    RatioAtLeast(f64),
    /// Ours by the peer's at most this.
    RatioAtMost(f64),
    /// Ours at most this.
    AtMost(f64),
    /// Shown to explain another row.
    Nothing,
}

/// One measure of both sides.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    measure: String,
    peer: Option<f64>,
    ours: Option<f64>,
    ratio: Option<f64>,
    must: Option<String>,
    /// Nothing if there is no limit or no figure.
    reached: Option<bool>,
}

impl Row {
    pub(crate) fn new(measure: &str, peer: Option<f64>, ours: Option<f64>, must: Must) -> Self {
        let ratio = peer
            .zip(ours)
            .filter(|(peer, ours)| *peer > 0.0 && *ours > 0.0)
            .map(|(peer, ours)| ours / peer);
        let (text, reached) = match must {
            Must::RatioAtLeast(limit) => {
                (Some(format!("ratio >= {limit}")), ratio.map(|r| r >= limit))
            }
            Must::RatioAtMost(limit) => {
                (Some(format!("ratio <= {limit}")), ratio.map(|r| r <= limit))
            }
            Must::AtMost(limit) => (Some(format!("<= {limit}")), ours.map(|v| v <= limit)),
            Must::Nothing => (None, None),
        };
        Self { measure: measure.to_owned(), peer, ours, ratio, must: text, reached }
    }
}

/// The rows as a table of Markdown, so that it can be copied into the documentation; `names` are
/// those of the peer and of ours.
pub(crate) fn render(rows: &[Row], names: [&str; 2]) -> String {
    let [peer, ours] = names;
    let mut lines = vec![
        ["measure", peer, ours, "ratio", "must reach", "reached"].map(str::to_owned),
        ["---", "---:", "---:", "---:", "---", "---"].map(str::to_owned),
    ];
    lines.extend(rows.iter().map(|row| {
        let reached = row.reached.map_or("-", |reached| if reached { "yes" } else { "NO" });
        [
            row.measure.clone(),
            figure(row.peer),
            figure(row.ours),
            row.ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")),
            row.must.clone().unwrap_or("-".into()),
            reached.to_owned(),
        ]
    }));
    let mut table = Table::default();
    for line in lines {
        // The table pads each cell, and a bar is a cell of its own.
        let cells = line.into_iter().flat_map(|cell| [cell, "|".to_owned()]);
        table.row(cells);
    }
    let lines: Vec<_> = table.to_string().lines().map(|line| format!("| {line}")).collect();
    lines.join("\n") + "\n"
}

fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(v) if v.abs() >= 100.0 => format!("{v:.0}"),
        Some(v) if v.abs() >= 10.0 => format!("{v:.1}"),
        Some(v) => format!("{v:.3}"),
    }
}
