//! Taking what arrived: whose turn it is, and what becomes free.

use std::collections::VecDeque;

use super::links::LinkKey;
use super::requests::{error_reply, reply};
use super::{Core, HeldCharge, Received};
use crate::zmp::outcome::Errno;
use crate::zmp::record::{Kind, Lane, Record, SocketKind};
use crate::zmp::status::Drop;

/// Links that have something to take, in fair turns (D-V1). Those whose next record is a REQUEST
/// stand in a row of their own: at the limit of reply tokens they wait (R-P4), and nobody has to
/// look past them.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Tickets tell which row has been waiting longer.
    ticket: u64,
    data: VecDeque<(u64, LinkKey)>,
    requests: VecDeque<(u64, LinkKey)>,
}

impl Turns {
    fn join(&mut self, key: LinkKey, kind: Kind) {
        self.ticket += 1;
        let row = match kind {
            Kind::Request(_) => &mut self.requests,
            _ => &mut self.data,
        };
        row.push_back((self.ticket, key));
    }

    fn leave(&mut self, key: LinkKey) {
        self.data.retain(|(_, other)| *other != key);
        self.requests.retain(|(_, other)| *other != key);
    }

    /// Whose turn it is, and whether its row is that of the requests.
    fn next(&self, may_ask: bool) -> Option<(LinkKey, bool)> {
        let data = self.data.front();
        let request = self.requests.front().filter(|_| may_ask);
        match (data, request) {
            (Some((first, _)), Some((second, key))) if second < first => Some((*key, true)),
            (Some((_, key)), _) => Some((*key, false)),
            (None, Some((_, key))) => Some((*key, true)),
            (None, None) => None,
        }
    }

    fn take(&mut self, asks: bool) {
        let row = if asks { &mut self.requests } else { &mut self.data };
        row.pop_front();
    }

    pub(super) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }
}

impl Core {
    /// A record can be taken.
    pub(super) fn has_input(&self) -> bool {
        self.turns.next(self.may_owe()).is_some()
    }

    /// A link has received something, or is ready: it takes its place in the turns if it has none.
    pub(super) fn show_inbound(&mut self, key: LinkKey) {
        let Some(link) = self.links.get_mut(key) else { return };
        if link.in_turn || !link.is_ready() {
            return;
        }
        let Some(&(kind, _)) = link.inbound.front() else { return };
        link.in_turn = true;
        self.turns.join(key, kind);
        if self.has_input() {
            self.wakes.readable();
        }
    }

    /// The next record, in fair turns over the links (D-V1).
    pub fn recv(&mut self) -> Option<Received> {
        let (received, held) = self.recv_held()?;
        self.release(held);
        Some(received)
    }

    /// As [`Self::recv`], but the record goes on to count as queued on its link, and in
    /// [`Self::queued`], until its charge is given back with [`Self::release`]: for a broker, which
    /// holds what it can not pass on inside the receive limit of each link (B-1).
    pub fn recv_held(&mut self) -> Option<(Received, HeldCharge)> {
        loop {
            let (key, asks) = self.turns.next(self.may_owe())?;
            self.turns.take(asks);
            let link = self.links.get_mut(key)?;
            link.in_turn = false;
            let (kind, record) = link.inbound.pop_front()?;
            let (connection, from) = (link.connection, link.name.clone());
            let held = HeldCharge { connection, charge: record.charge() };
            self.load.in_records -= 1;
            self.load.in_queued -= held.charge;
            let mut reply = None;
            if let Kind::Request(sequence) = kind {
                reply = self.owe(key, sequence);
                if reply.is_none() {
                    // No number is left for it (R-P4).
                    self.refuse_request(key, sequence, Errno::EIO);
                    self.release(held);
                    self.next_inbound(key);
                    continue;
                }
            }
            self.next_inbound(key);
            let from = from.filter(|_| self.options.kind == SocketKind::Router);
            return Some((Received { from, record, reply }, held));
        }
    }

    /// What stood behind a record that was taken: REPLYs become completions (D-R6), and the link
    /// goes to the end of the row.
    fn next_inbound(&mut self, key: LinkKey) {
        loop {
            let Some(link) = self.links.get_mut(key) else { return };
            let connection = link.connection;
            match link.inbound.front() {
                None => return self.bury(key),
                Some(&(kind @ (Kind::Data | Kind::Request(_)), _)) => {
                    link.in_turn = true;
                    self.turns.join(key, kind);
                    return;
                }
                Some((Kind::Reply(_) | Kind::ErrorReply(_), _)) => {}
            }
            let Some((kind, record)) = link.inbound.pop_front() else { return };
            let held = HeldCharge { connection, charge: record.charge() };
            self.load.in_records -= 1;
            self.load.in_queued -= held.charge;
            self.resolve_kind(key, kind, record, held);
        }
    }

    /// A REPLY or an ERROR REPLY has its turn.
    pub(super) fn resolve_kind(
        &mut self,
        key: LinkKey,
        kind: Kind,
        record: Record,
        held: HeldCharge,
    ) {
        match kind {
            Kind::Reply(sequence) => {
                self.resolve(key, sequence, |held| reply(record, held), held);
            }
            Kind::ErrorReply(sequence) => {
                self.resolve(key, sequence, |held| error_reply(record, held), held);
            }
            Kind::Data | Kind::Request(_) => self.release(held),
        }
    }

    /// What [`Self::recv_held`] gave has been passed on. Where its link has ended, only
    /// [`Self::queued`] falls.
    pub fn release(&mut self, held: HeldCharge) {
        let HeldCharge { connection, charge } = held;
        self.load.inward -= charge;
        let Some(&(key, lane)) = self.connections.get(&connection.0) else { return };
        let low = self.receive_limit(lane).div_ceil(2);
        let Some(pipe) = self.links.get_mut(key).and_then(|link| link.pipe(lane)) else { return };
        pipe.taken += charge;
        pipe.untaken -= charge;
        // Credit goes back in batches (4.2).
        if pipe.blocked && pipe.untaken <= low {
            pipe.blocked = false;
            self.wakes.connection(pipe);
        }
    }

    fn receive_limit(&self, lane: Lane) -> u64 {
        match lane {
            Lane::Application => self.options.receive_hwm,
            Lane::Completion => super::COMPLETION_LIMIT,
        }
    }

    /// How many parts the next record has (D-V3).
    pub fn next_parts(&self) -> Option<usize> {
        let (key, _) = self.turns.next(self.may_owe())?;
        let (_, record) = self.links.get(key)?.inbound.front()?;
        Some(record.parts().len())
    }

    /// What a link brought is not wanted any more.
    pub(super) fn discard_inbound(&mut self, key: LinkKey) {
        let Some(link) = self.links.get_mut(key) else { return };
        let connection = link.connection;
        let in_turn = std::mem::take(&mut link.in_turn);
        let inbound = std::mem::take(&mut link.inbound);
        if in_turn {
            self.turns.leave(key);
        }
        for (_, record) in inbound {
            let held = HeldCharge { connection, charge: record.charge() };
            self.load.in_records -= 1;
            self.load.in_queued -= held.charge;
            self.counters.dropped[Drop::Broken] += 1;
            self.release(held);
        }
        self.bury(key);
    }
}
