//! What all sockets of the process queue together, and who stops reading when it is too much (B-7).
//!
//! A link may read while what waits of it is not more than what is left below the limit. So the
//! largest queues stop first, a link of which nothing waits stops last, and the limit itself is
//! never reached by reading. What a link has read of a record that is not whole can not be taken by
//! anybody, though, and links that stopped in the midst of theirs would wait for each other. So
//! where little else is queued one link at a time may go beyond its share, to the end of its record.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// `total-queue-bytes` in bytes, unless the service is told otherwise.
const DEFAULT_LIMIT: u64 = 512 << 20;

/// What is queued by all sockets, in bytes, and its limit.
#[derive(Debug)]
pub struct Total {
    used: AtomicI64,
    /// What of it belongs to records that are not whole.
    held: AtomicI64,
    limit: AtomicU64,
    /// How many readers are parked: nobody locks to wake nobody.
    parked: AtomicUsize,
    waits: Mutex<Waits>,
}

#[derive(Debug, Default)]
struct Waits {
    next_ticket: u64,
    /// By what waits of them, the smallest first.
    parked: BTreeMap<(u64, u64), Waker>,
    /// Who may read to the end of its record.
    finisher: Option<u64>,
    /// Who would like to, in order, and what waits of each.
    finishers: VecDeque<(u64, u64)>,
}

impl Default for Total {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl Total {
    /// Nothing queued; 0 = no limit.
    pub fn new(limit: u64) -> Self {
        let total = Self {
            used: AtomicI64::new(0),
            held: AtomicI64::new(0),
            limit: AtomicU64::new(0),
            parked: AtomicUsize::new(0),
            waits: Mutex::default(),
        };
        total.set_limit(limit);
        total
    }

    /// Sets another limit in bytes; 0 = none.
    pub fn set_limit(&self, limit: u64) {
        let limit = if limit == 0 { u64::MAX } else { limit };
        self.limit.store(limit, Ordering::SeqCst);
        self.wake();
    }

    /// The limit in bytes; `None` = there is none.
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit != u64::MAX)
    }

    /// What is queued in bytes.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::SeqCst).max(0).cast_unsigned()
    }

    /// How many links wait for others to be drained.
    pub fn waiting(&self) -> usize {
        self.parked.load(Ordering::Relaxed)
    }

    /// So many bytes came (positive) or left.
    pub fn moved(&self, bytes: i64) {
        if bytes == 0 {
            return;
        }
        self.used.fetch_add(bytes, Ordering::SeqCst);
        if bytes < 0 {
            self.wake();
        }
    }

    /// What may still be queued, below the limit.
    fn left(&self) -> u64 {
        self.limit.load(Ordering::SeqCst).saturating_sub(self.used())
    }

    fn fits(&self, outstanding: u64) -> bool {
        let left = self.left();
        left > 0 && outstanding <= left
    }

    /// Whether links stand in the midst of records because of each other: little that is whole is
    /// queued, and nothing would come of waiting for that.
    fn is_stuck(&self) -> bool {
        let whole = self.used().saturating_sub(self.held.load(Ordering::SeqCst).max(0) as u64);
        whole <= self.limit.load(Ordering::SeqCst) / 4
    }

    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those that may read again.
    fn wake(&self) {
        if self.parked.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut woken = Vec::new();
        let mut waits = self.lock();
        while let Some(entry) = waits.parked.first_entry() {
            if !self.fits(entry.key().0) {
                break;
            }
            woken.push(entry.remove());
        }
        self.parked.store(waits.parked.len(), Ordering::SeqCst);
        if waits.finisher.is_none() {
            woken.extend(self.pass_on(&mut waits));
        }
        drop(waits);
        for waker in woken {
            waker.wake();
        }
    }

    /// Gives the next one in the queue the right to finish its record, if that is needed.
    fn pass_on(&self, waits: &mut Waits) -> Option<Waker> {
        waits.finisher = None;
        if !self.is_stuck() {
            return None;
        }
        let (ticket, outstanding) = waits.finishers.pop_front()?;
        waits.finisher = Some(ticket);
        let waker = waits.parked.remove(&(outstanding, ticket));
        self.parked.store(waits.parked.len(), Ordering::SeqCst);
        waker
    }
}

/// A link's place among those that read.
#[derive(Debug)]
pub struct Reader {
    total: Arc<Total>,
    ticket: u64,
    /// What waited of it when it was parked.
    parked: Option<u64>,
    /// It is, or wants to be, the one that finishes its record.
    finishes: bool,
    /// What it has read that no socket counts yet.
    held: u64,
}

impl Reader {
    /// A place for one more link.
    pub fn new(total: &Arc<Total>) -> Self {
        let mut waits = total.lock();
        waits.next_ticket += 1;
        let ticket = waits.next_ticket;
        drop(waits);
        Self { total: Arc::clone(total), ticket, parked: None, finishes: false, held: 0 }
    }

    /// Says how many bytes the link has read of a record that is not whole.
    pub fn holds(&mut self, bytes: u64) {
        let held = std::mem::replace(&mut self.held, bytes);
        if held != bytes {
            let change = bytes.cast_signed() - held.cast_signed();
            self.total.held.fetch_add(change, Ordering::SeqCst);
            self.total.moved(change);
        }
    }

    /// Whether the link may read, while so much waits of it (with what it [`holds`](Self::holds)).
    /// If not, the waker is called when it should ask again.
    pub fn may_read(&mut self, outstanding: u64, waker: &Waker) -> bool {
        let idle = self.parked.is_none() && !self.finishes;
        if idle && self.total.fits(outstanding) {
            return true;
        }
        let total = Arc::clone(&self.total);
        let mut waits = total.lock();
        self.unpark(&mut waits);
        waits.parked.insert((outstanding, self.ticket), waker.clone());
        total.parked.store(waits.parked.len(), Ordering::SeqCst);
        // Looked at when it is parked: what left before has woken nobody.
        let fits = total.fits(outstanding);
        let finishes = !fits && self.may_finish(&waits);
        let passed = if finishes {
            waits.finisher = Some(self.ticket);
            None
        } else {
            self.give_up_finishing(&mut waits)
        };
        if fits || finishes {
            waits.parked.remove(&(outstanding, self.ticket));
            total.parked.store(waits.parked.len(), Ordering::SeqCst);
        } else {
            self.parked = Some(outstanding);
            if self.held > 0 {
                waits.finishers.push_back((self.ticket, outstanding));
            }
        }
        self.finishes = finishes || (self.parked.is_some() && self.held > 0);
        drop(waits);
        wake(passed);
        fits || finishes
    }

    /// Whether it is this link that reads to the end of its record.
    fn may_finish(&self, waits: &Waits) -> bool {
        match waits.finisher {
            Some(ticket) => ticket == self.ticket && self.held > 0,
            None => self.held > 0 && self.total.is_stuck(),
        }
    }

    /// True while the link reads beyond its share, and others may wait for it to come to an end.
    pub fn is_finishing(&self) -> bool {
        self.finishes && self.parked.is_none()
    }

    /// The link has come to the end of a record: if that was beyond its share, it is another one's
    /// turn.
    pub fn finished(&mut self) {
        if self.is_finishing() {
            let total = Arc::clone(&self.total);
            let mut waits = total.lock();
            let passed = self.give_up_finishing(&mut waits);
            drop(waits);
            wake(passed);
        }
    }

    /// The link that reads beyond its share gets nothing: it is another one's turn, if one waits.
    pub fn stalls(&mut self) {
        if !self.is_finishing() {
            return;
        }
        let total = Arc::clone(&self.total);
        let mut waits = total.lock();
        if !waits.finishers.is_empty() {
            let passed = self.give_up_finishing(&mut waits);
            drop(waits);
            wake(passed);
        }
    }

    fn unpark(&mut self, waits: &mut Waits) {
        if let Some(outstanding) = self.parked.take() {
            waits.parked.remove(&(outstanding, self.ticket));
            self.total.parked.store(waits.parked.len(), Ordering::SeqCst);
        }
    }

    /// Leaves the queue of those that want to finish, or passes the right on.
    fn give_up_finishing(&mut self, waits: &mut Waits) -> Option<Waker> {
        if !std::mem::take(&mut self.finishes) {
            return None;
        }
        waits.finishers.retain(|(ticket, _)| *ticket != self.ticket);
        (waits.finisher == Some(self.ticket)).then(|| self.total.pass_on(waits)).flatten()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.holds(0);
        let total = Arc::clone(&self.total);
        if self.parked.is_some() || self.finishes {
            let mut waits = total.lock();
            self.unpark(&mut waits);
            let passed = self.give_up_finishing(&mut waits);
            drop(waits);
            wake(passed);
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
