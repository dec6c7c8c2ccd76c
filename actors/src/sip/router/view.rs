//! The transactions of a worker as others may see them.

use actix::prelude::*;
use lineway_wire::sip::message::{Limits, Message, Start};
use lineway_wire::sip::transaction::TransactionId;

use super::{SipRouter, now};
use crate::registry::{BranchView, TransactionView};
use crate::sip::transaction::{BranchEntry, Entry};

/// Bytes of a URI or a Call-ID that are shown.
const SHOWN: usize = 80;

/// Asks for at most so many transactions; those that somebody waits for first.
#[derive(Message)]
#[rtype(result = "Vec<TransactionView>")]
pub(super) struct List {
    pub(super) most: usize,
}

impl Handler<List> for SipRouter {
    type Result = MessageResult<List>;

    fn handle(&mut self, List { most }: List, _: &mut Self::Context) -> Self::Result {
        let table = self.belongings.home.table.borrow();
        let worker = self.belongings.worker.index;
        let of = |open: bool| table.iter().filter(move |(_, entry)| entry.open.get() == open);
        let some = of(true).chain(of(false)).take(most);
        MessageResult(some.filter_map(|(id, entry)| view(worker, id, entry)).collect())
    }
}

fn view(worker: u16, id: TransactionId, entry: &Entry) -> Option<TransactionView> {
    let message = Message::parse(entry.request.clone(), &Limits::default()).ok()?;
    let Start::Request { method, uri } = message.start() else { return None };
    let branches = entry.branches.borrow();
    let branch =
        |branch: &BranchEntry| BranchView { uri: short(&branch.uri), status: branch.status.get() };
    Some(TransactionView {
        id: (worker, id.number()),
        method: short(method.as_bytes()),
        uri: short(uri),
        call_id: short(message.call_id()),
        caller: entry.caller,
        age: now().saturating_duration_since(entry.began),
        open: entry.open.get(),
        cancelled: entry.cancelled.get(),
        status: entry.status.get(),
        branches: branches.iter().map(branch).collect(),
    })
}

/// The beginning of a text from outside.
fn short(text: &[u8]) -> Box<str> {
    match text.get(..SHOWN) {
        Some(begin) if text.len() > SHOWN => format!("{}…", String::from_utf8_lossy(begin)).into(),
        _ => String::from_utf8_lossy(text).into(),
    }
}
