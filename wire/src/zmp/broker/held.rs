//! What clients sent and no worker takes yet: in order for each client, in turns over them (B-2).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use slab::Slab;

use crate::zmp::core::{HeldCharge, ReplyId};
use crate::zmp::record::{Record, RoutingId};

/// What has to take an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Any worker.
    Data,
    /// A worker that is a ROUTER.
    Request,
}

/// One record that waits for a worker.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The record as the worker gets it.
    pub(super) record: Record,
    /// What it is charged on its client's link.
    pub(super) charge: HeldCharge,
    /// The reply that a request is owed; `None`: DATA.
    pub(super) reply: Option<ReplyId>,
    /// When a request is answered with ETIMEDOUT (B-4), and when it is looked at whether the
    /// connection of DATA is still there.
    pub(super) due: Instant,
}

impl Entry {
    pub(super) fn sort(&self) -> Sort {
        if self.reply.is_some() { Sort::Request } else { Sort::Data }
    }
}

/// An entry whose turn it is, and its place, should nobody take it.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) client: RoutingId,
    pub(super) entry: Entry,
    pub(super) place: Place,
}

/// Where an entry was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    number: u64,
    ticket: u64,
}

/// All that waits. Every operation is logarithmic in it.
#[derive(Debug, Default)]
pub(super) struct Held {
    ids: HashMap<RoutingId, usize>,
    clients: Slab<Client>,
    /// By client and the order of arrival.
    entries: BTreeMap<(usize, u64), Entry>,
    /// By [`Sort`], when which entry is due.
    due: [BTreeSet<(Instant, usize, u64)>; 2],
    /// Clients that are not stalled, by the sort of their first entry and when they come next.
    turns: [BTreeMap<u64, usize>; 2],
    numbers: u64,
    tickets: u64,
    /// Entries of clients that are not stalled.
    ready: usize,
}

#[derive(Debug)]
struct Client {
    id: RoutingId,
    entries: usize,
    /// Gets nothing submitted: it does not read its replies.
    stalled: bool,
    turn: Option<(Sort, u64)>,
}

impl Held {
    /// Adds at the end of its client's queue.
    pub(super) fn push(&mut self, client: &RoutingId, stalled: bool, entry: Entry) {
        self.numbers += 1;
        let index = self.client(client, stalled);
        self.insert(index, self.numbers, entry);
        self.settle(index);
    }

    /// The next entry of the sorts that `may` go; its client comes again after all others.
    pub(super) fn next(&mut self, may: impl Fn(Sort) -> bool) -> Option<Taken> {
        let (ticket, index) = [Sort::Data, Sort::Request]
            .into_iter()
            .filter(|sort| may(*sort))
            .filter_map(|sort| self.turns[sort as usize].first_key_value())
            .map(|(ticket, index)| (*ticket, *index))
            .min()?;
        let client = self.clients[index].id.clone();
        let number = self.first(index)?;
        self.take_turn(index);
        let entry = self.remove(index, number)?;
        self.settle(index);
        Some(Taken { client, entry, place: Place { number, ticket } })
    }

    /// Nobody took it: it is its client's first again, and that client's turn comes first.
    pub(super) fn put_back(&mut self, taken: Taken) {
        let Taken { client, entry, place: Place { number, ticket } } = taken;
        let sort = entry.sort();
        let index = self.client(&client, false);
        self.insert(index, number, entry);
        self.take_turn(index);
        self.turns[sort as usize].insert(ticket, index);
        self.clients[index].turn = Some((sort, ticket));
        self.settle(index);
    }

    /// A request whose time is over, earliest first.
    pub(super) fn expired(&mut self, now: Instant) -> Option<(RoutingId, Entry)> {
        let (deadline, index, number) = *self.due[Sort::Request as usize].first()?;
        if deadline > now {
            return None;
        }
        self.take(index, number)
    }

    /// Looks at DATA that has waited for so long, and takes out what is `gone`; the rest is looked
    /// at `again`.
    pub(super) fn look(
        &mut self,
        now: Instant,
        again: Instant,
        gone: impl Fn(&Entry) -> bool,
    ) -> Vec<Entry> {
        let mut taken = Vec::new();
        while let Some(&(look, index, number)) = self.due[Sort::Data as usize].first()
            && look <= now
            && let Some(mut entry) = self.remove(index, number)
        {
            if gone(&entry) {
                self.settle(index);
                taken.push(entry);
            } else {
                entry.due = again;
                self.insert(index, number, entry);
            }
        }
        taken
    }

    /// Whatever waits, in no particular order.
    pub(super) fn pop(&mut self) -> Option<(RoutingId, Entry)> {
        let (index, number) = *self.entries.first_key_value()?.0;
        self.take(index, number)
    }

    /// When the first entry is due: a request expires, or DATA is to be looked at.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.iter().filter_map(BTreeSet::first).map(|(due, ..)| *due).min()
    }

    /// From now on nothing of this client has its turn, or again it has.
    pub(super) fn stall(&mut self, client: &RoutingId, stalled: bool) {
        let Some(&index) = self.ids.get(client) else { return };
        let client = &mut self.clients[index];
        if client.stalled != stalled {
            client.stalled = stalled;
            if stalled {
                self.ready -= client.entries;
            } else {
                self.ready += client.entries;
            }
            self.settle(index);
        }
    }

    /// Entries of clients that are not stalled.
    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    /// All requests.
    pub(super) fn requests(&self) -> usize {
        self.due[Sort::Request as usize].len()
    }

    /// All DATA.
    pub(super) fn data(&self) -> usize {
        self.due[Sort::Data as usize].len()
    }

    fn client(&mut self, id: &RoutingId, stalled: bool) -> usize {
        if let Some(&index) = self.ids.get(id) {
            return index;
        }
        let index = self.clients.insert(Client { id: id.clone(), entries: 0, stalled, turn: None });
        self.ids.insert(id.clone(), index);
        index
    }

    fn first(&self, index: usize) -> Option<u64> {
        self.entries.range((index, 0)..=(index, u64::MAX)).next().map(|((_, number), _)| *number)
    }

    fn take(&mut self, index: usize, number: u64) -> Option<(RoutingId, Entry)> {
        let entry = self.remove(index, number)?;
        let client = self.clients[index].id.clone();
        self.settle(index);
        Some((client, entry))
    }

    fn insert(&mut self, index: usize, number: u64, entry: Entry) {
        self.due[entry.sort() as usize].insert((entry.due, index, number));
        self.entries.insert((index, number), entry);
        let client = &mut self.clients[index];
        client.entries += 1;
        self.ready += usize::from(!client.stalled);
    }

    fn remove(&mut self, index: usize, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&(index, number))?;
        self.due[entry.sort() as usize].remove(&(entry.due, index, number));
        let client = &mut self.clients[index];
        client.entries -= 1;
        self.ready -= usize::from(!client.stalled);
        Some(entry)
    }

    fn take_turn(&mut self, index: usize) {
        if let Some((sort, ticket)) = self.clients[index].turn.take() {
            self.turns[sort as usize].remove(&ticket);
        }
    }

    /// Gives the client the turn that its first entry has a right to; forgets one without entries.
    fn settle(&mut self, index: usize) {
        let first = self.first(index).map(|number| self.entries[&(index, number)].sort());
        let (stalled, turn) = (self.clients[index].stalled, self.clients[index].turn);
        match first {
            Some(sort) if !stalled => {
                if turn.is_some_and(|(had, _)| had == sort) {
                    return;
                }
                self.take_turn(index);
                let ticket = turn.map_or_else(
                    || {
                        self.tickets += 1;
                        self.tickets
                    },
                    |(_, ticket)| ticket,
                );
                self.turns[sort as usize].insert(ticket, index);
                self.clients[index].turn = Some((sort, ticket));
            }
            Some(_) => self.take_turn(index),
            None => {
                self.take_turn(index);
                let client = self.clients.remove(index);
                self.ids.remove(&client.id);
            }
        }
    }
}

#[cfg(test)]
mod tests;
