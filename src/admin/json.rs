//! What the JSON of the admin interface looks like.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use jiff::Timestamp;
use lineway_actors::registry::{LineId, LineState, LineView, MuxSides, MuxView, Registry, Takes};
use lineway_actors::wire::line::Direction::{self, Downstream, Upstream};
use lineway_actors::wire::mux::ParentPause;
use serde::Serialize;

use super::query::LinesQuery;

/// The document of a value that can always be written.
pub(super) fn document(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).map(Bytes::from).unwrap_or_default()
}

/// A text that only appears as JSON string.
pub(super) struct Shown<T>(pub(super) T);

impl<T: std::fmt::Display> Serialize for Shown<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[derive(Serialize)]
struct Both<T> {
    upstream: T,
    downstream: T,
}

impl<T> Both<T> {
    fn of(value: impl Fn(Direction) -> T) -> Self {
        Self { upstream: value(Upstream), downstream: value(Downstream) }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    id: Shown<LineId>,
    kind: &'static str,
    node: &'a str,
    maker: Option<Shown<LineId>>,
    /// The parent that carries it, for the child of a mux.
    parent: Option<Shown<LineId>>,
    peer: Option<SocketAddr>,
    opened_at: Shown<Rfc3339>,
    age_seconds: f64,
    state: &'static str,
    bytes: Both<u64>,
    queued: Both<u64>,
    paused: Both<Vec<&'static str>>,
    /// The sides of a mux that it is a parent of.
    mux: Vec<MuxSide<'a>>,
}

/// One side of a mux on its parent.
#[derive(Serialize)]
struct MuxSide<'a> {
    side: &'static str,
    node: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    state: &'static str,
    children: u32,
    children_paused: u32,
    /// Bytes that wait for its children.
    queued: u64,
    /// Why the parent is not read.
    reading_paused: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cids: Option<Cids>,
}

#[derive(Serialize)]
struct Cids {
    leased: u32,
    used: u32,
}

fn sides<'a>(line: &LineView, mux: &'a MuxSides) -> Vec<MuxSide<'a>> {
    let side = |(direction, view): (Direction, &'a Arc<MuxView>)| {
        let (now, client) = (view.now(), direction == Downstream);
        MuxSide {
            side: if client { "client" } else { "server" },
            node: &view.node,
            mode: view.mode,
            state: now.takes.as_str(),
            children: now.children,
            children_paused: now.paused,
            queued: now.queued,
            reading_paused: now.reading.map(ParentPause::as_str),
            cids: client.then(|| Cids { leased: line.cids_leased(), used: line.cids_used() }),
        }
    };
    mux.each().map(side).collect()
}

/// The word for where a line is in its life; a parent that takes no further child says so.
fn state(line: &LineView, mux: &MuxSides) -> &'static str {
    match (line.state(), mux.takes()) {
        (LineState::Open | LineState::Opening, Takes::Draining) => Takes::Draining.as_str(),
        (LineState::Open, Takes::Exhausted) => Takes::Exhausted.as_str(),
        (state, _) => state.as_str(),
    }
}

/// A time for people.
pub(super) struct Rfc3339(pub(super) SystemTime);

impl std::fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = Timestamp::try_from(self.0).unwrap_or(Timestamp::UNIX_EPOCH);
        write!(f, "{time:.3}")
    }
}

/// Appends one line to a document.
pub(super) fn write_line(to: &mut Vec<u8>, line: &LineView, now: Instant) {
    let age = now.saturating_duration_since(line.opened);
    let mux = line.mux();
    let line = Line {
        id: Shown(line.id),
        kind: line.kind.as_str(),
        node: &line.node,
        maker: line.maker.map(Shown),
        parent: line.parent().map(Shown),
        peer: line.peer,
        opened_at: Shown(Rfc3339(line.opened_at)),
        age_seconds: age.as_millis() as f64 / 1000.0,
        state: state(line, &mux),
        bytes: Both::of(|direction| line.bytes(direction)),
        queued: Both::of(|direction| line.queued(direction)),
        paused: Both::of(|direction| line.paused(direction).words().collect()),
        mux: sides(line, &mux),
    };
    // Writing into memory, of a value whose keys are all strings, does not fail.
    let _ = serde_json::to_writer(to, &line);
}

/// A part of the live lines.
pub(super) struct LinesPage {
    /// The lines that match, on every page.
    pub(super) total: usize,
    /// Where the next page begins, if there is one.
    pub(super) next: Option<LineId>,
    /// The lines of this page, ordered by id.
    pub(super) lines: Vec<Arc<LineView>>,
}

impl LinesPage {
    /// The page that a query asks for.
    pub(super) fn of(registry: &Registry, query: &LinesQuery) -> Self {
        let mut lines = registry.snapshot();
        if let Some(node) = &query.node {
            lines.retain(|line| *line.node == **node);
        }
        if let Some(parent) = query.parent {
            lines.retain(|line| line.id == parent || line.parent() == Some(parent));
        }
        let total = lines.len();
        if let Some(most) = query.children {
            thin_out(&mut lines, most);
        }
        if let Some(after) = query.after {
            let before = lines.partition_point(|line| line.id <= after);
            lines.drain(..before);
        }
        let more = lines.len() > query.limit;
        lines.truncate(query.limit);
        let last = lines.last().map(|line| line.id);
        Self { total, next: if more { last } else { None }, lines }
    }

    /// What stands before the first line.
    pub(super) fn head(&self) -> Vec<u8> {
        let next = self.next.map_or_else(|| "null".to_owned(), |id| format!("\"{id}\""));
        format!("{{\"total\":{},\"next\":{next},\"lines\":[", self.total).into_bytes()
    }
}

/// Keeps at most so many children of each node on each parent, the oldest ones.
fn thin_out(lines: &mut Vec<Arc<LineView>>, most: usize) {
    let mut seen: HashMap<(LineId, Arc<str>), usize> = HashMap::new();
    lines.retain(|line| {
        let Some(parent) = line.parent() else {
            return true;
        };
        let children = seen.entry((parent, Arc::clone(&line.node))).or_default();
        *children += 1;
        *children <= most
    });
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::Rfc3339;

    #[test]
    fn times_are_rfc_3339_with_milliseconds() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(951_782_400_045);
        assert_eq!(Rfc3339(time).to_string(), "2000-02-29T00:00:00.045Z");
    }
}
