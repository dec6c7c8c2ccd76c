//! Which transaction a message belongs to (contract 2.1, 2.2), in constant time.

use crate::sip::draft::Draft;
use crate::sip::message::Message;
use crate::sip::own::Transport;

/// Names one transaction of a [`Table`], and no later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransactionId {
    pub(super) place: u32,
    pub(super) generation: u32,
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

/// The transactions of one worker. `T` is what the owner wants to find.
#[derive(Debug)]
pub struct Table<T> {
    items: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { items: Vec::new() }
    }
}

impl<T> Table<T> {
    /// Enters the transaction of a request.
    pub fn insert(&mut self, draft: &Draft, item: T) -> TransactionId {
        todo!()
    }
    /// What was entered.
    pub fn get(&self, id: TransactionId) -> Option<&T> {
        todo!()
    }
    /// Takes it out.
    pub fn remove(&mut self, id: TransactionId) -> Option<T> {
        todo!()
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        todo!()
    }
    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Every transaction, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (TransactionId, &T)> {
        std::iter::empty()
    }
    /// How many branches it has (R157), and whether those have sent a CANCEL is not asked.
    pub fn set_branches(&mut self, id: TransactionId, branches: u16) {
        todo!()
    }
    /// How it ended.
    pub fn set_ended(&mut self, id: TransactionId, ended: Ended) {
        todo!()
    }
    /// The transaction of which this request is a copy (R32, R33, R150, R151).
    pub fn find(&self, message: &Message, transport: Transport) -> Option<TransactionId> {
        todo!()
    }
    /// The INVITE whose ACK this is (contract 2.1), if that ends here.
    pub fn find_acked(&self, ack: &Message, transport: Transport) -> Option<TransactionId> {
        todo!()
    }
    /// The request that this CANCEL cancels.
    pub fn find_cancelled(&self, cancel: &Message, transport: Transport) -> Option<TransactionId> {
        todo!()
    }
    /// The CANCEL that was there before this request.
    pub fn find_cancel_of(&self, request: &Message, transport: Transport) -> Option<TransactionId> {
        todo!()
    }
    /// The branch whose reply this is (contract 2.2).
    pub fn find_reply(&self, reply: &Message) -> Option<Found> {
        todo!()
    }
}
