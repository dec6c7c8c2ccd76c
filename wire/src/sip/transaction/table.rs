//! Which transaction a message belongs to (contract 2.1, 2.2), in constant time.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use slab::Slab;
use smallvec::SmallVec;

use crate::sip::branch;
use crate::sip::draft::Draft;
use crate::sip::message::{Message, Method};
use crate::sip::own::{DEFAULT_PORT, Transport};

/// Names one transaction of a [`Table`], and no later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransactionId {
    pub(super) place: u32,
    pub(super) generation: u32,
}

impl TransactionId {
    /// It as a number, unique in its table and never used twice within a while.
    pub const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.place as u64
    }
}

/// How an INVITE ended, for its ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Not yet, or by a 2xx that was relayed: no ACK belongs to it.
    No,
    /// By a final of 300 and above: its ACK has its branch.
    Failure,
    /// By a 2xx that was made here: its ACK has its dialog, with this To tag.
    Success(Box<[u8]>),
}

/// What a reply belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The transaction.
    pub id: TransactionId,
    /// Which branch of it, as the reply says; below the number given with [`Table::set_branches`].
    pub branch: u16,
    /// It is a reply to the branch's CANCEL.
    pub of_cancel: bool,
}

/// Room for this many entries is kept when the table is empty.
const KEPT: usize = 1024;

/// The transactions of one worker. `T` is what the owner wants to find.
///
/// Entries stand in a slab; the hash tables hold their places. Whoever sends chooses what is
/// hashed, so the hasher has a secret key, and no hash is shared by entries of different keys.
#[derive(Debug)]
pub struct Table<T> {
    entries: Slab<Entry<T>>,
    /// By what makes a request a copy of another.
    requests: HashTable<u32>,
    /// By the own branch and the method. One entry for each: a request that would share them with
    /// another, such as the same bytes by another transport, gets no replies by its branch.
    replies: HashTable<u32>,
    /// By what the ACK says, where that is not the branch of its INVITE.
    acks: HashTable<u32>,
    hasher: RandomState,
    /// A second one, for digests that stand for what they are made of.
    second: RandomState,
    generation: u32,
}

#[derive(Debug)]
struct Entry<T> {
    item: T,
    key: Box<[u8]>,
    own: OwnBranch,
    branches: u16,
    generation: u32,
    /// Call-ID, `CSeq` number and From tag of an INVITE, by a digest with secret keys.
    dialog: [u64; 2],
    ended: Ended,
}

/// What all own branches of a transaction begin with (contract 1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OwnBranch {
    hash: u16,
    md5: [u8; 16],
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            entries: Slab::new(),
            requests: HashTable::new(),
            replies: HashTable::new(),
            acks: HashTable::new(),
            hasher: RandomState::new(),
            second: RandomState::new(),
            generation: 0,
        }
    }
}

impl<T> Table<T> {
    /// Enters the transaction of a request.
    pub fn insert(&mut self, draft: &Draft, item: T) -> TransactionId {
        let message = &draft.message;
        let method = message.method();
        let key = key(message, draft.received_uri(), draft.received.transport, method);
        let own = branch::of(draft, 0);
        let own = OwnBranch::read(&own).map_or(OwnBranch { hash: 0, md5: [0; 16] }, |own| own.0);
        let dialog =
            if method == Method::Invite { self.dialog_of(message) } else { Default::default() };
        self.enter(key.into_vec().into(), own, dialog, item)
    }

    fn enter(
        &mut self,
        key: Box<[u8]>,
        own: OwnBranch,
        dialog: [u64; 2],
        item: T,
    ) -> TransactionId {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let entry = Entry { item, key, own, branches: 0, generation, dialog, ended: Ended::No };
        let hash = self.hasher.hash_one(&*entry.key);
        let reply_hash = entry.reply_hash(&self.hasher);
        let place = self.entries.insert(entry) as u32;
        let Self { entries, requests, replies, hasher, .. } = self;
        requests
            .insert_unique(hash, place, |place| hasher.hash_one(&*entries[*place as usize].key));
        let entry = &entries[place as usize];
        let is_same = |other: &u32| {
            let other = &entries[*other as usize];
            other.own == entry.own && other.method() == entry.method()
        };
        if replies.find(reply_hash, is_same).is_none() {
            replies.insert_unique(reply_hash, place, |place| {
                entries[*place as usize].reply_hash(hasher)
            });
        }
        TransactionId { place, generation }
    }

    /// What was entered.
    pub fn get(&self, id: TransactionId) -> Option<&T> {
        Some(&self.entry(id)?.item)
    }

    fn entry(&self, id: TransactionId) -> Option<&Entry<T>> {
        let entry = self.entries.get(id.place as usize)?;
        (entry.generation == id.generation).then_some(entry)
    }

    /// Takes it out.
    pub fn remove(&mut self, id: TransactionId) -> Option<T> {
        self.set_ended(id, Ended::No);
        let entry = self.entry(id)?;
        let (hash, reply_hash) =
            (self.hasher.hash_one(&*entry.key), entry.reply_hash(&self.hasher));
        remove(&mut self.requests, hash, id.place);
        remove(&mut self.replies, reply_hash, id.place);
        let entry = self.entries.remove(id.place as usize);
        if self.entries.is_empty() && self.entries.capacity() > KEPT {
            self.entries = Slab::new();
            self.requests = HashTable::new();
            self.replies = HashTable::new();
            self.acks = HashTable::new();
        }
        Some(entry.item)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every transaction, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (TransactionId, &T)> {
        self.entries.iter().map(|(place, entry)| {
            let id = TransactionId { place: place as u32, generation: entry.generation };
            (id, &entry.item)
        })
    }

    /// How many branches it has (R157), and whether those have sent a CANCEL is not asked.
    pub fn set_branches(&mut self, id: TransactionId, branches: u16) {
        if let Some(entry) = self.entries.get_mut(id.place as usize)
            && entry.generation == id.generation
        {
            entry.branches = branches;
        }
    }

    /// How it ended.
    pub fn set_ended(&mut self, id: TransactionId, ended: Ended) {
        let Some(entry) = self.entry(id) else {
            return;
        };
        if let Some(hash) = entry.ack_hash(&self.hasher) {
            remove(&mut self.acks, hash, id.place);
        }
        let Self { entries, acks, hasher, .. } = self;
        let entry = &mut entries[id.place as usize];
        entry.ended = ended;
        let Some(hash) = entry.ack_hash(hasher) else {
            return;
        };
        let entry = &entries[id.place as usize];
        if acks.find(hash, |other| entries[*other as usize].has_ack_of(entry)).is_none() {
            acks.insert_unique(hash, id.place, |place| {
                entries[*place as usize].ack_hash(hasher).unwrap_or_default()
            });
        }
    }

    /// The transaction of which this request is a copy (R32, R33, R150, R151).
    pub fn find(&self, message: &Message, transport: Transport) -> Option<TransactionId> {
        self.find_method(message, transport, message.method())
    }

    fn find_method(
        &self,
        message: &Message,
        transport: Transport,
        method: Method<'_>,
    ) -> Option<TransactionId> {
        let key = key(message, uri_of(message), transport, method);
        let is_it = |place: &u32| *self.entries[*place as usize].key == *key;
        self.requests.find(self.hasher.hash_one(&*key), is_it).map(|place| self.id(*place))
    }

    fn id(&self, place: u32) -> TransactionId {
        TransactionId { place, generation: self.entries[place as usize].generation }
    }

    /// The INVITE whose ACK this is (contract 2.1), if that ends here.
    pub fn find_acked(&self, ack: &Message, transport: Transport) -> Option<TransactionId> {
        let of_failure = if has_cookie(ack) {
            let id = self.find_method(ack, transport, Method::Invite);
            id.filter(|id| self.entries[id.place as usize].ended == Ended::Failure)
        } else {
            let headers = headers_key(ack, uri_of(ack), transport, Method::Invite);
            let is_it = |place: &u32| {
                let entry = &self.entries[*place as usize];
                entry.ended == Ended::Failure && without_to(&entry.key) == Some(&headers)
            };
            self.acks.find(self.hasher.hash_one(&*headers), is_it).map(|place| self.id(*place))
        };
        of_failure.or_else(|| {
            let (dialog, tag) = (self.dialog_of(ack), ack.to().tag()?);
            let is_it = |place: &u32| {
                let entry = &self.entries[*place as usize];
                entry.dialog == dialog
                    && matches!(&entry.ended, Ended::Success(ours) if **ours == *tag)
            };
            self.acks.find(self.hasher.hash_one((dialog, tag)), is_it).map(|place| self.id(*place))
        })
    }

    /// The request that this CANCEL cancels: an INVITE, or any other of a method that is known.
    pub fn find_cancelled(&self, cancel: &Message, transport: Transport) -> Option<TransactionId> {
        CANCELLABLE.iter().find_map(|method| self.find_method(cancel, transport, *method))
    }

    /// The CANCEL that was there before this request.
    pub fn find_cancel_of(&self, request: &Message, transport: Transport) -> Option<TransactionId> {
        self.find_method(request, transport, Method::Cancel)
    }

    /// The branch whose reply this is (contract 2.2).
    pub fn find_reply(&self, reply: &Message) -> Option<Found> {
        let (own, branch) = OwnBranch::read(reply.via().branch()?)?;
        let find = |method| self.find_own(own, branch, method);
        let method = reply.cseq().method;
        if let Some(id) = find(method) {
            return Some(Found { id, branch, of_cancel: false });
        }
        let id = find(Method::Invite).filter(|_| method == Method::Cancel)?;
        Some(Found { id, branch, of_cancel: true })
    }

    fn find_own(&self, own: OwnBranch, branch: u16, method: Method<'_>) -> Option<TransactionId> {
        let hash = self.hasher.hash_one((own, method.as_bytes()));
        let is_it = |place: &u32| self.entries[*place as usize].is_of(own, method);
        let place = *self.replies.find(hash, is_it)?;
        (branch < self.entries[place as usize].branches).then(|| self.id(place))
    }

    fn dialog_of(&self, message: &Message) -> [u64; 2] {
        let parts = (message.call_id(), message.cseq().number, message.from().tag());
        [self.hasher.hash_one(parts), self.second.hash_one(parts)]
    }
}

fn remove(table: &mut HashTable<u32>, hash: u64, place: u32) {
    if let Ok(found) = table.find_entry(hash, |other| *other == place) {
        found.remove();
    }
}

impl<T> Entry<T> {
    fn method(&self) -> &[u8] {
        first_part(&self.key[KEY_START..])
    }

    fn is_of(&self, own: OwnBranch, method: Method<'_>) -> bool {
        self.own == own && self.method() == method.as_bytes()
    }

    fn reply_hash(&self, hasher: &RandomState) -> u64 {
        hasher.hash_one((self.own, self.method()))
    }

    /// The hash of what its ACK says, where that is not the branch.
    fn ack_hash(&self, hasher: &RandomState) -> Option<u64> {
        match &self.ended {
            Ended::No => None,
            Ended::Failure => without_to(&self.key).map(|headers| hasher.hash_one(headers)),
            Ended::Success(tag) => Some(hasher.hash_one((self.dialog, &**tag))),
        }
    }

    /// Both have the same ACK.
    fn has_ack_of(&self, other: &Self) -> bool {
        self.ended == other.ended
            && match self.ended {
                Ended::No => false,
                Ended::Failure => without_to(&self.key) == without_to(&other.key),
                Ended::Success(_) => self.dialog == other.dialog,
            }
    }
}

impl OwnBranch {
    /// Reads an own branch and its index.
    fn read(text: &[u8]) -> Option<(Self, u16)> {
        let mut parts = text.strip_prefix(branch::COOKIE)?.split(|byte| *byte == b'.');
        let hash = branch::read_reversed_hex(parts.next()?)?.try_into().ok()?;
        let digits: &[u8; 32] = parts.next()?.try_into().ok()?;
        let index = branch::read_reversed_hex(parts.next()?)?.try_into().ok()?;
        if parts.next().is_some() {
            return None;
        }
        let mut md5 = [0; 16];
        for (byte, pair) in md5.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = lower_hex(pair[0])? << 4 | lower_hex(pair[1])?;
        }
        Some((Self { hash, md5 }, index))
    }
}

const fn lower_hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// The methods that a CANCEL finds, the usual one first.
const CANCELLABLE: [Method<'static>; 12] = [
    Method::Invite,
    Method::Register,
    Method::Options,
    Method::Message,
    Method::Subscribe,
    Method::Notify,
    Method::Publish,
    Method::Bye,
    Method::Update,
    Method::Info,
    Method::Refer,
    Method::Prack,
];

// ---- keys --------------------------------------------------------------------------------------
//
// What is compared, one part behind the other, each with its length: different requests have
// different keys. First how it is matched and the transport, then the method.

/// A key of the branch and the sent-by.
const BY_BRANCH: u8 = 1;
/// A key of headers (RFC 3261 17.2.3, for RFC 2543).
const BY_HEADERS: u8 = 2;
/// Where the method stands.
const KEY_START: usize = 2;

type Key = SmallVec<[u8; 256]>;

/// What makes a request a copy of another (contract 2.1).
fn key(message: &Message, uri: &[u8], transport: Transport, method: Method<'_>) -> Key {
    if !has_cookie(message) {
        let mut key = headers_key(message, uri, transport, method);
        let from = key.len() as u32;
        key.extend_from_slice(message.to().text);
        key.extend_from_slice(&from.to_le_bytes());
        return key;
    }
    let via = message.via();
    let mut key = begin(BY_BRANCH, transport, method);
    // What follows has one length, or reaches to the end.
    key.extend_from_slice(&via.port.unwrap_or(DEFAULT_PORT).to_le_bytes());
    part(&mut key, via.host);
    key.extend_from_slice(&via.branch().unwrap_or_default()[branch::COOKIE.len()..]);
    key
}

/// The headers of a request that its ACK has as well: the To by its URI alone.
fn headers_key(message: &Message, uri: &[u8], transport: Transport, method: Method<'_>) -> Key {
    let mut key = begin(BY_HEADERS, transport, method);
    key.extend_from_slice(&message.cseq().number.to_le_bytes());
    for text in [message.call_id(), message.from().text, uri, message.via().text, message.to().uri]
    {
        part(&mut key, text);
    }
    key
}

/// The part of a key that [`headers_key`] has made; `None` for one of another kind.
fn without_to(key: &[u8]) -> Option<&[u8]> {
    if key[0] != BY_HEADERS {
        return None;
    }
    let (_, length) = key.split_last_chunk::<4>()?;
    key.get(..u32::from_le_bytes(*length) as usize)
}

fn begin(kind: u8, transport: Transport, method: Method<'_>) -> Key {
    let mut key = Key::new();
    key.extend_from_slice(&[kind, transport as u8]);
    part(&mut key, method.as_bytes());
    key
}

fn part(key: &mut Key, text: &[u8]) {
    key.extend_from_slice(&(text.len() as u32).to_le_bytes());
    key.extend_from_slice(text);
}

fn first_part(key: &[u8]) -> &[u8] {
    let (length, rest) = key.split_first_chunk::<4>().unwrap_or((&[0; 4], key));
    rest.get(..u32::from_le_bytes(*length) as usize).unwrap_or_default()
}

/// The branch begins with the cookie and has something behind it.
fn has_cookie(message: &Message) -> bool {
    let branch = message.via().branch().unwrap_or_default();
    branch.strip_prefix(branch::COOKIE).is_some_and(|rest| !rest.is_empty())
}

fn uri_of(message: &Message) -> &[u8] {
    &message.bytes()[message.uri_at()]
}

#[cfg(test)]
mod tests;
