//! Settings of the tester nodes.

use lineway_actors::settings::{NodeSettings, TesterSettings};

use super::Table;

const MOST_LINES: i64 = 1_000_000;

/// Settings of a `TesterClient`.
pub(super) fn client(table: &mut Table<'_>) -> Option<NodeSettings> {
    let chunk_count = chunk_count(table);
    let timeout = table.millis("timeout-ms", 30_000, 1);
    let terminate = table.boolean("terminate", true);
    let lines = table.number("lines", 1..=MOST_LINES).unwrap_or(1);
    let lines = usize::try_from(lines).ok()?;
    Some(NodeSettings::TesterClient(TesterSettings { chunk_count, timeout, terminate, lines }))
}

/// Settings of a `TesterServer`.
pub(super) fn server(table: &mut Table<'_>) -> NodeSettings {
    let chunk_count = chunk_count(table);
    let timeout = lineway_wire::units::Millis::new(30_000);
    let settings = TesterSettings { chunk_count, timeout, terminate: true, lines: 1 };
    NodeSettings::TesterServer(settings)
}

fn chunk_count(table: &mut Table<'_>) -> usize {
    let count = table.number("chunk-count", 1..=11);
    count.and_then(|count| usize::try_from(count).ok()).unwrap_or(11)
}
