//! Calls with a message that waits for the network: what comes for them waits behind it, in order.

use std::collections::{HashMap, VecDeque};

use crate::sip::ring::Arrival;

/// Messages that may wait behind one of their call.
const MOST_OF_CALL: usize = 64;

/// Bytes that may wait on one worker.
const MOST_BYTES: usize = 4 << 20;

/// What a message costs beside its bytes.
const OVERHEAD: usize = 256;

/// A call: the hash of its Call-ID. Two calls of one hash only keep each other's order.
pub(super) type CallKey = u64;

/// A hash (FNV-1a) that is the same in every run and on every worker.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The calls whose messages wait.
#[derive(Debug, Default)]
pub(super) struct Calls {
    busy: HashMap<CallKey, Busy>,
    bytes: usize,
}

/// One call.
#[derive(Debug, Default)]
struct Busy {
    /// Jobs of it that run: two calls of one key may each have one.
    jobs: u32,
    queue: VecDeque<Arrival>,
}

impl Calls {
    /// A message of this call waits for the network.
    pub(super) fn enter(&mut self, call: CallKey) {
        self.busy.entry(call).or_default().jobs += 1;
    }

    /// What it waited for is over.
    pub(super) fn leave(&mut self, call: CallKey) {
        if let Some(busy) = self.busy.get_mut(&call) {
            busy.jobs = busy.jobs.saturating_sub(1);
        }
    }

    /// No call waits.
    pub(super) fn is_empty(&self) -> bool {
        self.busy.is_empty()
    }

    /// How many calls wait.
    pub(super) fn len(&self) -> usize {
        self.busy.len()
    }

    /// Whether messages of this call have to wait.
    pub(super) fn is_held(&self, call: CallKey) -> bool {
        self.busy.contains_key(&call)
    }

    /// Lets a message wait behind its call. Gives it back where the call does not wait, and nothing
    /// where there is no room: `Ok(false)`.
    pub(super) fn wait(&mut self, call: CallKey, arrival: Arrival) -> Result<bool, Arrival> {
        let Some(busy) = self.busy.get_mut(&call) else {
            return Err(arrival);
        };
        let cost = arrival.bytes.len() + OVERHEAD;
        if busy.queue.len() >= MOST_OF_CALL || self.bytes + cost > MOST_BYTES {
            return Ok(false);
        }
        self.bytes += cost;
        busy.queue.push_back(arrival);
        Ok(true)
    }

    /// The next message of a call whose jobs are over; without one the call waits no longer.
    pub(super) fn next(&mut self, call: CallKey) -> Option<Arrival> {
        let busy = self.busy.get_mut(&call).filter(|busy| busy.jobs == 0)?;
        let next = busy.queue.pop_front();
        match &next {
            Some(arrival) => self.bytes -= arrival.bytes.len() + OVERHEAD,
            None => drop(self.busy.remove(&call)),
        }
        next
    }

    /// How many messages wait.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.busy.values().map(|busy| busy.queue.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;
    use lineway_wire::sip::own::{Received, SocketId, Transport};

    use super::*;

    fn arrival(bytes: usize) -> Arrival {
        let received = Received {
            source: ([127, 0, 0, 1], 5060).into(),
            socket: SocketId(0),
            transport: Transport::Udp,
            connection: None,
        };
        Arrival { bytes: Bytes::from(vec![b'x'; bytes]), received, at: Instant::now() }
    }

    #[test]
    fn messages_of_a_call_wait_in_order_and_those_of_others_do_not() {
        let mut calls = Calls::default();
        calls.enter(1);
        assert!(calls.wait(2, arrival(1)).is_err());
        for bytes in 1..=3 {
            assert_eq!(calls.wait(1, arrival(bytes)).ok(), Some(true));
        }
        assert!(calls.next(1).is_none(), "its message still waits for the network");
        calls.leave(1);
        let sizes: Vec<_> = std::iter::from_fn(|| calls.next(1)).map(|a| a.bytes.len()).collect();
        assert_eq!(sizes, [1, 2, 3]);
        assert_eq!((calls.len(), calls.bytes), (0, 0));
        assert!(calls.wait(1, arrival(1)).is_err(), "the call waits no longer");
    }

    #[test]
    fn what_waits_is_bounded_for_a_call_and_for_all() {
        let mut calls = Calls::default();
        calls.enter(1);
        let fitted = (0..1000).filter(|_| calls.wait(1, arrival(1)).ok() == Some(true)).count();
        assert_eq!(fitted, MOST_OF_CALL);
        for call in 2..10_000 {
            calls.enter(call);
            let _ = calls.wait(call, arrival(60_000));
        }
        assert!(calls.bytes <= MOST_BYTES);
        assert!(calls.waiting() > MOST_OF_CALL);
    }
}
