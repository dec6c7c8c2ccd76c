//! What a parent shows of the children that stand on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use lineway_wire::line::Direction;
use lineway_wire::mux::ParentPause;

/// Whether a parent takes further children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Takes {
    /// It takes them.
    Taking,
    /// It takes no further one: its mode says so, or its way is one of a former configuration
    /// (M12).
    Exhausted,
    /// It takes no further one, since an operator closes it.
    Draining,
}

impl Takes {
    const ALL: [Self; 3] = [Self::Taking, Self::Exhausted, Self::Draining];

    /// The word used as admin field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Taking => "taking",
            Self::Exhausted => "exhausted",
            Self::Draining => "draining",
        }
    }
}

/// One side of a mux on a parent's line, as others may see it. The parent writes with relaxed
/// stores; readers take what they find.
#[derive(Debug)]
pub struct MuxView {
    /// The `MuxClient` or `MuxServer`.
    pub node: Arc<str>,
    /// The `mode` of a `MuxClient`, as written in the configuration.
    pub mode: Option<&'static str>,
    takes: AtomicU8,
    /// 0 for none, else one more than the reason's place.
    reading: AtomicU8,
    children: AtomicU32,
    paused: AtomicU32,
    queued: AtomicU64,
}

/// What a [`MuxView`] shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MuxNow {
    /// Whether it takes further children.
    pub takes: Takes,
    /// Why the transport is not read, if so (M24, M25, M32).
    pub reading: Option<ParentPause>,
    /// Children that live.
    pub children: u32,
    /// Children whose own side takes nothing (M21).
    pub paused: u32,
    /// Bytes that wait for children (M22).
    pub queued: u64,
}

impl MuxView {
    /// A side without children.
    pub const fn new(node: Arc<str>, mode: Option<&'static str>) -> Self {
        Self {
            node,
            mode,
            takes: AtomicU8::new(Takes::Taking as u8),
            reading: AtomicU8::new(0),
            children: AtomicU32::new(0),
            paused: AtomicU32::new(0),
            queued: AtomicU64::new(0),
        }
    }

    /// Shows what holds at the end of a turn.
    pub fn set(&self, now: MuxNow) {
        self.takes.store(now.takes as u8, Relaxed);
        self.reading.store(now.reading.map_or(0, |reason| reason as u8 + 1), Relaxed);
        self.children.store(now.children, Relaxed);
        self.paused.store(now.paused, Relaxed);
        self.queued.store(now.queued, Relaxed);
    }

    /// What it showed last.
    pub fn now(&self) -> MuxNow {
        let reading = usize::from(self.reading.load(Relaxed));
        MuxNow {
            takes: Takes::ALL[usize::from(self.takes.load(Relaxed)) % Takes::ALL.len()],
            reading: reading.checked_sub(1).and_then(|at| ParentPause::ALL.get(at)).copied(),
            children: self.children.load(Relaxed),
            paused: self.paused.load(Relaxed),
            queued: self.queued.load(Relaxed),
        }
    }
}

/// The sides of a mux on one parent's line: that of a `MuxClient` at its near end, that of a
/// `MuxServer` at its far end. In one process a line may have both.
#[derive(Clone, Debug, Default)]
pub struct MuxSides {
    /// The client's.
    pub client: Option<Arc<MuxView>>,
    /// The server's.
    pub server: Option<Arc<MuxView>>,
}

impl MuxSides {
    /// Both, where they are; each with the direction in which its children's bytes wait for them.
    pub fn each(&self) -> impl Iterator<Item = (Direction, &Arc<MuxView>)> {
        let client = self.client.iter().map(|view| (Direction::Downstream, view));
        client.chain(self.server.iter().map(|view| (Direction::Upstream, view)))
    }

    /// Whether the parent takes further children: not when one of its sides does not.
    pub fn takes(&self) -> Takes {
        self.each().map(|(_, view)| view.now().takes).max().unwrap_or(Takes::Taking)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lineway_wire::mux::ParentPause;

    use super::{MuxNow, MuxSides, MuxView, Takes};

    #[test]
    fn what_a_parent_shows_reads_back() {
        let view = MuxView::new("mux".into(), None);
        let mut now = view.now();
        assert_eq!((now.takes, now.reading, now.children), (Takes::Taking, None, 0));
        for reading in ParentPause::ALL.map(Some).into_iter().chain([None]) {
            for takes in Takes::ALL {
                now = MuxNow { takes, reading, children: 3, paused: 2, queued: 1 };
                view.set(now);
                assert_eq!(view.now(), now);
            }
        }
    }

    #[test]
    fn mux_m12_a_parent_takes_children_while_both_of_its_sides_do() {
        let side = |takes| {
            let view = MuxView::new("mux".into(), None);
            view.set(MuxNow { takes, ..view.now() });
            Some(Arc::new(view))
        };
        let takes = |client, server| MuxSides { client, server }.takes();
        assert_eq!(takes(None, None), Takes::Taking);
        assert_eq!(takes(side(Takes::Taking), side(Takes::Taking)), Takes::Taking);
        assert_eq!(takes(side(Takes::Taking), side(Takes::Exhausted)), Takes::Exhausted);
        assert_eq!(takes(side(Takes::Draining), side(Takes::Exhausted)), Takes::Draining);
        assert_eq!(takes(None, side(Takes::Exhausted)), Takes::Exhausted);
    }
}
