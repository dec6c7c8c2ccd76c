//! The metrics of the parents and children of one mux node.

use std::sync::Arc;

use lineway_wire::line::Direction;
use lineway_wire::mux::{ChildEnd, Counts, Dropped, FrameKind, ParentPause};
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::node::NodeMetrics;
use super::register;

/// Which side of the mux a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MuxSide {
    /// It makes parents and numbers their children.
    Client,
    /// Parents come to it, and it takes any number.
    Server,
}

impl MuxSide {
    /// True when a child of this side can end so.
    const fn ends(self, end: ChildEnd) -> bool {
        match self {
            Self::Client => end.on_client(),
            Self::Server => end.on_server(),
        }
    }
}

/// What all parents of a node count, as handles.
#[derive(Debug)]
pub(super) struct MuxMetrics {
    side: MuxSide,
    parents: IntGauge,
    exhausted: IntGauge,
    pauses: [IntCounter; ParentPause::ALL.len()],
    children: IntGauge,
    opened: IntCounter,
    closed: [Option<IntCounter>; ChildEnd::ALL.len()],
    paused: IntGauge,
    frames: [[IntCounter; FrameKind::ALL.len()]; Direction::ALL.len()],
    payload: [IntCounter; Direction::ALL.len()],
    dropped: [IntCounter; Dropped::ALL.len()],
    queued: IntGauge,
    lost: IntCounter,
    agreed: IntCounter,
    making: Option<MakingMetrics>,
}

/// What only the side counts that makes parents.
#[derive(Debug)]
struct MakingMetrics {
    retries: IntCounter,
    leased: IntGauge,
    used: IntGauge,
}

/// What a parent shows of itself at the end of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParentNow {
    /// It takes no further child: exhausted (M12), or drained.
    pub exhausted: bool,
    /// Children whose own side is paused (M21).
    pub paused: u64,
    /// Bytes in the queues of its children (M22).
    pub queued: u64,
    /// Its cids that were leased (M08); 0 on a server.
    pub cids_leased: u32,
    /// Its cids that were given to children; 0 on a server.
    pub cids_used: u32,
}

/// The metrics of one live parent, which are part of those of its node.
///
/// What it shows goes away with it, however it ends; children that it had then are counted as
/// closed by a panic, since a parent ends its children before itself. It is told once a turn; what
/// did not move costs nothing.
#[derive(Debug)]
pub struct ParentMetrics {
    node: Arc<NodeMetrics>,
    children: u64,
    shown: ParentNow,
}

impl NodeMetrics {
    /// The metrics of a parent that begins to live. Nothing is counted for a node that is no mux.
    pub fn mux_parent(self: &Arc<Self>) -> ParentMetrics {
        if let Some(mux) = &self.mux {
            mux.parents.inc();
        }
        ParentMetrics { node: Arc::clone(self), children: 0, shown: ParentNow::default() }
    }
}

impl ParentMetrics {
    /// Shows what holds at the end of a turn.
    pub fn show(&mut self, now: ParentNow) {
        let before = std::mem::replace(&mut self.shown, now);
        if before == now {
            return;
        }
        let Some(mux) = &self.node.mux else {
            return;
        };
        moved(&mux.exhausted, before.exhausted.into(), now.exhausted.into());
        moved(&mux.paused, before.paused, now.paused);
        moved(&mux.queued, before.queued, now.queued);
        if let Some(making) = &mux.making {
            moved(&making.leased, before.cids_leased.into(), now.cids_leased.into());
            moved(&making.used, before.cids_used.into(), now.cids_used.into());
        }
    }

    /// Counts what passed since this was called last.
    pub fn count(&mut self, counts: &Counts) {
        if *counts == Counts::default() {
            return;
        }
        let ended: u64 = counts.ended.iter().sum();
        self.children = (self.children + counts.opened).saturating_sub(ended);
        let Some(mux) = &self.node.mux else {
            return;
        };
        let (sent, received) = match mux.side {
            MuxSide::Client => (Direction::Upstream, Direction::Downstream),
            MuxSide::Server => (Direction::Downstream, Direction::Upstream),
        };
        add_all(&mux.frames[sent as usize], &counts.sent);
        add_all(&mux.frames[received as usize], &counts.received);
        add(&mux.payload[sent as usize], counts.sent_bytes);
        add(&mux.payload[received as usize], counts.received_bytes);
        add_all(&mux.dropped, &counts.dropped);
        add_all(&mux.pauses, &counts.pauses);
        add(&mux.opened, counts.opened);
        for (counter, count) in mux.closed.iter().zip(counts.ended) {
            if let Some(counter) = counter {
                add(counter, count);
            }
        }
        moved(&mux.children, ended, counts.opened);
        add(&mux.lost, counts.lost_bytes);
        add(&mux.agreed, counts.agreed);
    }

    /// The transport is tried again (M14).
    pub fn retried(&self) {
        if let Some(making) = self.node.mux.as_ref().and_then(|mux| mux.making.as_ref()) {
            making.retries.inc();
        }
    }
}

impl Drop for ParentMetrics {
    fn drop(&mut self) {
        self.show(ParentNow::default());
        let mut left = Counts::default();
        left.ended[ChildEnd::Panic as usize] = self.children;
        self.count(&left);
        if let Some(mux) = &self.node.mux {
            mux.parents.dec();
        }
    }
}

fn add(counter: &IntCounter, count: u64) {
    if count > 0 {
        counter.inc_by(count);
    }
}

fn add_all(counters: &[IntCounter], counts: &[u64]) {
    for (counter, count) in counters.iter().zip(counts) {
        add(counter, *count);
    }
}

fn moved(gauge: &IntGauge, before: u64, now: u64) {
    if before != now {
        gauge.add(now.cast_signed() - before.cast_signed());
    }
}

/// The families of the mux.
pub(super) struct MuxFamilies {
    parents: IntGaugeVec,
    exhausted: IntGaugeVec,
    retries: IntCounterVec,
    pauses: IntCounterVec,
    children: IntGaugeVec,
    opened: IntCounterVec,
    closed: IntCounterVec,
    paused: IntGaugeVec,
    frames: IntCounterVec,
    payload: IntCounterVec,
    dropped: IntCounterVec,
    queued: IntGaugeVec,
    lost: IntCounterVec,
    agreed: IntCounterVec,
    leased: IntGaugeVec,
    used: IntGaugeVec,
}

impl MuxFamilies {
    pub(super) fn new(registry: &Registry) -> Self {
        let counter = |name, help, labels: &[&str]| {
            register(registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let gauge =
            |name, help| register(registry, IntGaugeVec::new(Opts::new(name, help), &["node"]));
        Self {
            parents: gauge("lineway_mux_parents_open", "Live parents, exhausted ones included."),
            exhausted: gauge(
                "lineway_mux_parents_exhausted",
                "Live parents that take no further child.",
            ),
            retries: counter(
                "lineway_mux_parent_retries_total",
                "Times that a parent's transport was tried again while children waited.",
                &["node"],
            ),
            pauses: counter(
                "lineway_mux_parent_pauses_total",
                "Times that reading of a parent was paused, by what was full.",
                &["node", "reason"],
            ),
            children: gauge("lineway_mux_children_open", "Live children."),
            opened: counter(
                "lineway_mux_children_opened_total",
                "Children that came, refused ones included.",
                &["node"],
            ),
            closed: counter(
                "lineway_mux_children_closed_total",
                "Children that are over, by why they are.",
                &["node", "reason"],
            ),
            paused: gauge(
                "lineway_mux_children_paused",
                "Live children whose own side takes nothing at the moment.",
            ),
            frames: counter(
                "lineway_mux_frames_total",
                "Frames by kind; upstream is from the client to the server of the mux.",
                &["node", "direction", "kind"],
            ),
            payload: counter(
                "lineway_mux_payload_bytes_total",
                "Payload bytes of Data frames, without headers.",
                &["node", "direction"],
            ),
            dropped: counter(
                "lineway_mux_dropped_frames_total",
                "Frames that were dropped when they came, or whose payload was, by why.",
                &["node", "reason"],
            ),
            queued: gauge(
                "lineway_mux_queued_bytes",
                "Payload bytes that wait in parents for children whose own side does not take them.",
            ),
            lost: counter(
                "lineway_mux_lost_bytes_total",
                "Queued payload bytes that were thrown away with their child.",
                &["node"],
            ),
            agreed: counter(
                "lineway_mux_half_close_agreements_total",
                "Parents whose two ends agreed on half-closes.",
                &["node"],
            ),
            leased: gauge("lineway_mux_cids_leased", "Numbers that live parents may use."),
            used: gauge("lineway_mux_cids_used", "Numbers that live parents gave to children."),
        }
    }

    /// Makes every series that a node of this side has.
    pub(super) fn node(&self, node: &str, side: MuxSide) -> MuxMetrics {
        let own = [node];
        MuxMetrics {
            side,
            parents: self.parents.with_label_values(&own),
            exhausted: self.exhausted.with_label_values(&own),
            pauses: ParentPause::ALL.map(|w| self.pauses.with_label_values(&[node, w.as_str()])),
            children: self.children.with_label_values(&own),
            opened: self.opened.with_label_values(&own),
            closed: ChildEnd::ALL.map(|end| {
                side.ends(end).then(|| self.closed.with_label_values(&[node, end.as_str()]))
            }),
            paused: self.paused.with_label_values(&own),
            frames: Direction::ALL.map(|direction| {
                FrameKind::ALL.map(|kind| {
                    self.frames.with_label_values(&[node, direction.as_str(), kind.as_str()])
                })
            }),
            payload: Direction::ALL
                .map(|direction| self.payload.with_label_values(&[node, direction.as_str()])),
            dropped: Dropped::ALL.map(|why| self.dropped.with_label_values(&[node, why.as_str()])),
            queued: self.queued.with_label_values(&own),
            lost: self.lost.with_label_values(&own),
            agreed: self.agreed.with_label_values(&own),
            making: (side == MuxSide::Client).then(|| MakingMetrics {
                retries: self.retries.with_label_values(&own),
                leased: self.leased.with_label_values(&own),
                used: self.used.with_label_values(&own),
            }),
        }
    }

    /// Takes every series of a node away. Those that it never had are no matter.
    pub(super) fn remove(&self, node: &str) {
        let gauges = [
            &self.parents,
            &self.exhausted,
            &self.children,
            &self.paused,
            &self.queued,
            &self.leased,
            &self.used,
        ];
        for family in gauges {
            let _ = family.remove_label_values(&[node]);
        }
        for family in [&self.retries, &self.opened, &self.lost, &self.agreed] {
            let _ = family.remove_label_values(&[node]);
        }
        for why in ParentPause::ALL {
            let _ = self.pauses.remove_label_values(&[node, why.as_str()]);
        }
        for end in ChildEnd::ALL {
            let _ = self.closed.remove_label_values(&[node, end.as_str()]);
        }
        for why in Dropped::ALL {
            let _ = self.dropped.remove_label_values(&[node, why.as_str()]);
        }
        for direction in Direction::ALL {
            let _ = self.payload.remove_label_values(&[node, direction.as_str()]);
            for kind in FrameKind::ALL {
                let labels = [node, direction.as_str(), kind.as_str()];
                let _ = self.frames.remove_label_values(&labels);
            }
        }
    }
}
