//! The metrics of the parents and children of one mux node.

use std::sync::Arc;

use lineway_wire::line::Direction;
use lineway_wire::mux::{ChildEnd, Dropped, FrameKind, ParentPause};
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
    parents: IntGauge,
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
    exhausted: IntGauge,
    retries: IntCounter,
    leased: IntGauge,
    used: IntGauge,
}

/// What a parent shows of itself at the end of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParentNow {
    /// It takes no further child (M12).
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
/// closed by a panic, since a parent ends its children before itself. Counting is one relaxed
/// atomic for each call that has something to count.
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
    /// A child came: before its Open goes out, or with the Open that came in. One that is refused
    /// came as well.
    pub fn child_opened(&mut self) {
        self.children += 1;
        if let Some(mux) = &self.node.mux {
            mux.children.inc();
            mux.opened.inc();
        }
    }

    /// A child is over, for this reason: once for each that came.
    pub fn child_closed(&mut self, end: ChildEnd) {
        self.children = self.children.saturating_sub(1);
        if let Some(mux) = &self.node.mux {
            mux.children.dec();
            if let Some(counter) = &mux.closed[end as usize] {
                counter.inc();
            }
        }
    }

    /// Shows what holds at the end of a turn.
    pub fn show(&mut self, now: ParentNow) {
        let before = std::mem::replace(&mut self.shown, now);
        if before == now {
            return;
        }
        let Some(mux) = &self.node.mux else {
            return;
        };
        moved(&mux.paused, before.paused, now.paused);
        moved(&mux.queued, before.queued, now.queued);
        if let Some(making) = &mux.making {
            moved(&making.exhausted, before.exhausted.into(), now.exhausted.into());
            moved(&making.leased, before.cids_leased.into(), now.cids_leased.into());
            moved(&making.used, before.cids_used.into(), now.cids_used.into());
        }
    }

    /// So many frames of this kind went in this direction. A client sends upstream, a server
    /// downstream.
    pub fn frames(&self, direction: Direction, kind: FrameKind, count: u64) {
        if let Some(mux) = &self.node.mux {
            add(&mux.frames[direction as usize][kind as usize], count);
        }
    }

    /// So many bytes of payload went in this direction, headers not counted.
    pub fn payload(&self, direction: Direction, bytes: u64) {
        if let Some(mux) = &self.node.mux {
            add(&mux.payload[direction as usize], bytes);
        }
    }

    /// So many frames that came were dropped (M03, M04, M05, M30).
    pub fn dropped(&self, why: Dropped, count: u64) {
        if let Some(mux) = &self.node.mux {
            add(&mux.dropped[why as usize], count);
        }
    }

    /// Reading of the transport was paused (M24, M25, M32).
    pub fn paused(&self, why: ParentPause) {
        if let Some(mux) = &self.node.mux {
            mux.pauses[why as usize].inc();
        }
    }

    /// So many queued bytes were thrown away with their child (M20, M24, M25).
    pub fn lost(&self, bytes: u64) {
        if let Some(mux) = &self.node.mux {
            add(&mux.lost, bytes);
        }
    }

    /// Both ends agreed on half-closes (M30): once for each parent.
    pub fn half_close_agreed(&self) {
        if let Some(mux) = &self.node.mux {
            mux.agreed.inc();
        }
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
        while self.children > 0 {
            self.child_closed(ChildEnd::Panic);
        }
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
            parents: self.parents.with_label_values(&own),
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
                exhausted: self.exhausted.with_label_values(&own),
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
