//! Receive-flow states and what a link has to say at its next record boundary (1.7, 2.9, 2.10).

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use super::core::{FlowState, Weight};
use super::record::Outgoing;

#[cfg(test)]
mod tests;

/// The state that a socket asks of its peers, with its epoch (D-F1, X-7).
#[derive(Clone, Copy, Debug, Default)]
pub struct SendFlow {
    current: Option<(FlowState, NonZeroU64)>,
}

impl SendFlow {
    /// A socket that never set a state: its peers are told nothing.
    pub const fn new() -> Self {
        Self { current: None }
    }

    /// Sets the state. What every ready link is to be told, or `None` where nothing changed: the
    /// first setting is a change, whatever it says (D-F1). Epochs count from 1 and never go back.
    pub fn set(&mut self, state: FlowState) -> Option<(FlowState, NonZeroU64)> {
        let epoch = match self.current {
            None => NonZeroU64::MIN,
            Some((current, _)) if current == state => return None,
            Some((_, epoch)) => epoch.saturating_add(1),
        };
        self.current = Some((state, epoch));
        self.current
    }

    /// What a link that becomes ready is told (D-F2); `None` while no state was ever set.
    pub const fn current(&self) -> Option<(FlowState, NonZeroU64)> {
        self.current
    }

    /// How many epochs were used.
    pub fn epochs(&self) -> u64 {
        self.current.map_or(0, |(_, epoch)| epoch.get())
    }
}

/// What became of a FLOWSTATE that arrived (1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowChange {
    /// Applied: the peer asks for nothing more.
    Paused,
    /// Applied: the peer takes records again.
    Resumed {
        /// How long it did not.
        paused_for: Duration,
    },
    /// Its epoch counts, but the state is what it was.
    Same,
    /// An epoch that is not above the last one: without effect (D-F4).
    Stale,
}

/// The state that a peer asked for on one connection. A new connection begins with a new one: it
/// runs, and no epoch was seen (1.7, D-F7).
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerFlow {
    epoch: u64,
    paused_since: Option<Instant>,
}

impl PeerFlow {
    /// A connection on which nothing was said.
    pub const fn new() -> Self {
        Self { epoch: 0, paused_since: None }
    }

    /// A FLOWSTATE that this connection carried.
    pub fn accept(&mut self, state: FlowState, epoch: NonZeroU64, now: Instant) -> FlowChange {
        if epoch.get() <= self.epoch {
            return FlowChange::Stale;
        }
        self.epoch = epoch.get();
        match (state, self.paused_since) {
            (FlowState::Paused, None) => {
                self.paused_since = Some(now);
                FlowChange::Paused
            }
            (FlowState::Running, Some(since)) => {
                self.paused_since = None;
                FlowChange::Resumed { paused_for: now.saturating_duration_since(since) }
            }
            (FlowState::Paused, Some(_)) | (FlowState::Running, None) => FlowChange::Same,
        }
    }

    /// The connection ended: how long it had been paused, if it was.
    pub fn end(&mut self, now: Instant) -> Option<Duration> {
        self.paused_since.take().map(|since| now.saturating_duration_since(since))
    }

    /// The peer wants no new record (D-F5).
    pub const fn is_paused(&self) -> bool {
        self.paused_since.is_some()
    }

    /// The state as it is.
    pub const fn state(&self) -> FlowState {
        if self.is_paused() { FlowState::Paused } else { FlowState::Running }
    }

    /// The last epoch accepted; 0 = none.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// The control frames that one connection has to send at its next record boundary: one of each
/// kind, the newest, in the order in which they were last set (1.7).
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    stamp: u64,
    weight: Option<(u64, Weight)>,
    flow: Option<(u64, FlowState, NonZeroU64)>,
    advertised: Weight,
}

impl Default for Pending {
    fn default() -> Self {
        Self::new()
    }
}

impl Pending {
    /// A new connection: its peer assumes [`Weight::DEFAULT`] and a running socket (1.5).
    pub const fn new() -> Self {
        Self { stamp: 0, weight: None, flow: None, advertised: Weight::DEFAULT }
    }

    /// The socket's weight is this. Nothing is sent when the peer has that value already.
    pub fn set_weight(&mut self, weight: Weight) {
        if self.weight.is_some_and(|(_, pending)| pending == weight) {
            return;
        }
        self.weight = (weight != self.advertised).then(|| (self.next_stamp(), weight));
    }

    /// The socket's receive-flow state is this.
    pub fn set_flow(&mut self, state: FlowState, epoch: NonZeroU64) {
        self.flow = Some((self.next_stamp(), state, epoch));
    }

    /// Takes the next frame to send; it counts as sent.
    pub fn pop(&mut self) -> Option<Outgoing> {
        let weight_first = match (self.weight, self.flow) {
            (None, None) => return None,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((weight, _)), Some((flow, ..))) => weight < flow,
        };
        if weight_first {
            let (_, weight) = self.weight.take()?;
            self.advertised = weight;
            Some(Outgoing::Weight(weight))
        } else {
            let (_, state, epoch) = self.flow.take()?;
            Some(Outgoing::FlowState { state, epoch })
        }
    }

    /// Nothing is to be sent.
    pub const fn is_empty(&self) -> bool {
        self.weight.is_none() && self.flow.is_none()
    }

    fn next_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }
}
