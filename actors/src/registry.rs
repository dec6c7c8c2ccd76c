//! The live lines, for people and for the admin interface: never on the path of a payload.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use dashmap::DashMap;
use lineway_wire::line::{Direction, LineKind, PauseReasons};

mod parent;
mod sip;
mod socket;

pub use parent::{MuxNow, MuxSides, MuxView, Takes};
pub use sip::{AskTransactions, BranchView, SipChains, SipView, TransactionView};
pub use socket::{Answers, SocketSnapshot, SocketView, Sockets};

/// The name of a line: its worker and its number there, counted from 1 and never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineId {
    /// Index of the worker that the line lives on.
    pub worker: u16,
    /// The line's number on that worker.
    pub number: u64,
}

impl fmt::Display for LineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.worker, self.number)
    }
}

/// The text is not a line id such as `0-17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line id is a worker and a number, such as 0-17")]
pub struct WrongLineId;

impl FromStr for LineId {
    type Err = WrongLineId;

    fn from_str(text: &str) -> Result<Self, WrongLineId> {
        let (worker, number) = text.split_once('-').ok_or(WrongLineId)?;
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(worker) || !digits(number) {
            return Err(WrongLineId);
        }
        Ok(Self {
            worker: worker.parse().map_err(|_| WrongLineId)?,
            number: number.parse().map_err(|_| WrongLineId)?,
        })
    }
}

/// Where a line is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LineState {
    /// The onward side is not up: resolving, connecting, racing.
    Opening,
    /// Payload moves both ways.
    Open,
    /// One direction ended, the other goes on (L07).
    HalfClosed,
    /// Finish was seen; queued bytes are being delivered (T05).
    Closing,
}

impl LineState {
    const ALL: [Self; 4] = [Self::Opening, Self::Open, Self::HalfClosed, Self::Closing];

    /// The word used as log field and admin field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Open => "open",
            Self::HalfClosed => "half-closed",
            Self::Closing => "closing",
        }
    }
}

/// One live line as others may see it. The line writes with relaxed stores; readers take what they
/// find.
#[derive(Debug)]
pub struct LineView {
    /// The line's name.
    pub id: LineId,
    /// What sort of line it is.
    pub kind: LineKind,
    /// The node that made it.
    pub node: Arc<str>,
    /// The line that made it, for a child line.
    pub maker: Option<LineId>,
    /// The remote address of the accepted connection, where there is one.
    pub peer: Option<SocketAddr>,
    /// When it was made, for ages.
    pub opened: Instant,
    /// When it was made, for people.
    pub opened_at: SystemTime,
    state: AtomicU8,
    bytes: [AtomicU64; 2],
    queued: [AtomicU64; 2],
    paused: [AtomicU8; 2],
    cids_leased: AtomicU32,
    cids_used: AtomicU32,
    /// The number of the parent that carries it, which is on the same worker; 0 for none.
    parent: AtomicU64,
    /// What a parent shows of its children; boxed, since few lines are parents.
    mux: Mutex<Option<Box<MuxSides>>>,
}

impl LineView {
    /// A line that was just made.
    pub fn new(
        id: LineId,
        kind: LineKind,
        node: Arc<str>,
        maker: Option<LineId>,
        peer: Option<SocketAddr>,
    ) -> Self {
        Self {
            id,
            kind,
            node,
            maker,
            peer,
            opened: tokio::time::Instant::now().into_std(),
            opened_at: SystemTime::now(),
            state: AtomicU8::new(LineState::Opening as u8),
            bytes: Default::default(),
            queued: Default::default(),
            paused: Default::default(),
            cids_leased: AtomicU32::new(0),
            cids_used: AtomicU32::new(0),
            parent: AtomicU64::new(0),
            mux: Mutex::new(None),
        }
    }

    /// Where the line is in its life.
    pub fn state(&self) -> LineState {
        LineState::ALL[usize::from(self.state.load(Relaxed)) % LineState::ALL.len()]
    }

    /// Notes where the line is in its life.
    pub fn set_state(&self, state: LineState) {
        self.state.store(state as u8, Relaxed);
    }

    /// Payload bytes that entered the line in this direction.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.bytes[direction as usize].load(Relaxed)
    }

    /// Notes the payload bytes that entered in this direction.
    pub fn set_bytes(&self, direction: Direction, bytes: u64) {
        self.bytes[direction as usize].store(bytes, Relaxed);
    }

    /// Bytes that wait in this direction.
    pub fn queued(&self, direction: Direction) -> u64 {
        self.queued[direction as usize].load(Relaxed)
    }

    /// Notes the bytes that wait in this direction.
    pub fn set_queued(&self, direction: Direction, bytes: u64) {
        self.queued[direction as usize].store(bytes, Relaxed);
    }

    /// Why the source of this direction is stopped.
    pub fn paused(&self, direction: Direction) -> PauseReasons {
        PauseReasons::from_bits(self.paused[direction as usize].load(Relaxed))
    }

    /// Notes why the source of this direction is stopped.
    pub fn set_paused(&self, direction: Direction, reasons: PauseReasons) {
        self.paused[direction as usize].store(reasons.bits(), Relaxed);
    }

    /// The parent that carries the line, for the child of a mux.
    pub fn parent(&self) -> Option<LineId> {
        let number = self.parent.load(Relaxed);
        (number > 0).then_some(LineId { worker: self.id.worker, number })
    }

    /// Notes the parent that carries the line.
    pub fn set_parent(&self, parent: LineId) {
        self.parent.store(parent.number, Relaxed);
    }

    /// What the line shows of its children, if it is a parent: neither side of a mux is there
    /// otherwise.
    pub fn mux(&self) -> MuxSides {
        let sides = self.mux.lock().unwrap_or_else(PoisonError::into_inner);
        sides.as_deref().cloned().unwrap_or_default()
    }

    /// The line is a parent, or has another side of one.
    pub fn set_mux(&self, set: impl FnOnce(&mut MuxSides)) {
        set(self.mux.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default());
    }

    /// A parent's mark: the greatest cid that was ever leased to it (M08). 0 for every other line.
    pub fn cids_leased(&self) -> u32 {
        self.cids_leased.load(Relaxed)
    }

    /// Sets the mark: the parent with its first lease, before it reports that it was made, and
    /// from then on the supervisor with each lease that it grants.
    pub fn set_cids_leased(&self, mark: u32) {
        self.cids_leased.store(mark, Relaxed);
    }

    /// How many of its cids a parent has given to children.
    pub fn cids_used(&self) -> u32 {
        self.cids_used.load(Relaxed)
    }

    /// Notes how many cids a parent has given to children.
    pub fn set_cids_used(&self, used: u32) {
        self.cids_used.store(used, Relaxed);
    }
}

/// Every live line of the process, which the supervisor keeps, and every message socket and SIP
/// chain, which the service does. Anybody may read it.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    lines: Arc<DashMap<LineId, Arc<LineView>>>,
    sockets: Sockets,
    sip: SipChains,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// The message sockets.
    pub const fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// The SIP chains.
    pub const fn sip(&self) -> &SipChains {
        &self.sip
    }

    /// Enters a line.
    pub fn insert(&self, line: Arc<LineView>) {
        self.lines.insert(line.id, line);
    }

    /// Takes a line out; false if it was not there.
    pub fn remove(&self, id: LineId) -> bool {
        self.lines.remove(&id).is_some()
    }

    /// One line.
    pub fn get(&self, id: LineId) -> Option<Arc<LineView>> {
        self.lines.get(&id).map(|entry| Arc::clone(entry.value()))
    }

    /// Keeps the lines for which `keep` says so.
    pub fn retain(&self, mut keep: impl FnMut(&LineView) -> bool) {
        self.lines.retain(|_, line| keep(line));
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// True when there is no line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Every line, ordered by id.
    pub fn snapshot(&self) -> Vec<Arc<LineView>> {
        let mut lines: Vec<_> = self.lines.iter().map(|e| Arc::clone(e.value())).collect();
        lines.sort_unstable_by_key(|line| line.id);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::{LineId, WrongLineId};

    #[test]
    fn a_line_id_reads_back_from_its_text() {
        let id = LineId { worker: 3, number: 1_234_567_890_123 };
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "1", "1-", "-1", "+1-2", "1-+2", "70000-1", "0-99999999999999999999"] {
            assert_eq!(wrong.parse::<LineId>(), Err(WrongLineId), "{wrong}");
        }
    }
}
