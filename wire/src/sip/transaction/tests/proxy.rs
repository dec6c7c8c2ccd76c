//! The owner of the machines: what the actors do, without actors. It notes what happens, and sees
//! to it that what has to have happened by the end of a transaction has.

use std::time::Instant;

use bytes::Bytes;

use super::TIMING;
use super::net::{End, Net};
use crate::sip::draft::Draft;
use crate::sip::kit;
use crate::sip::message::{Message, Method};
use crate::sip::own::{Own, Transport};
use crate::sip::transaction::{
    CancelWhy, Cancelling, Client, ClientStart, Do, Due, Ended, Found, Kind, Options, Pass, Says,
    Table, Tag, Transaction, TransactionId, TransactionStart, ack, cancel, reply_headers,
};
use crate::sip::{forward, reply};

/// What happens to a transaction, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A leg with so many branches begins.
    Leg(u16),
    /// A branch replied, whatever its client makes of it.
    Replied(u16, u16),
    /// A branch was waited for long enough, or was given up.
    GaveUp(u16, u16),
    /// The caller cancelled.
    Cancelled,
    /// A reply left for the caller: its status, and whether it was made here.
    Up(u16, bool),
}

#[derive(Debug)]
struct Branch {
    client: Client,
    sent: Message,
    phone: usize,
    cancel: Option<Bytes>,
    rang: bool,
    ended: bool,
}

#[derive(Debug)]
pub(super) struct Call {
    id: TransactionId,
    draft: Draft,
    tag: Tag,
    born: Instant,
    tm: Transaction<Message>,
    branches: Vec<Branch>,
    /// The phones of the legs that may follow.
    legs: Vec<Vec<usize>>,
    pub(super) events: Vec<Event>,
}

#[derive(Debug)]
pub(super) struct Proxy {
    own: Own,
    kind: Kind,
    options: Options,
    /// The phones of each leg.
    legs: Vec<Vec<usize>>,
    pub(super) table: Table<usize>,
    calls: Vec<Option<Call>>,
    /// Transactions that are over, without those of CANCELs.
    pub(super) over: Vec<Vec<Event>>,
}

fn is_cancel(draft: &Draft) -> bool {
    draft.message.method() == Method::Cancel
}

impl Proxy {
    pub(super) fn new(kind: Kind, options: Options, legs: Vec<Vec<usize>>) -> Self {
        let (table, calls, over) = (Table::default(), Vec::new(), Vec::new());
        Self { own: kit::own(), kind, options, legs, table, calls, over }
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.calls.iter().flatten().filter_map(Call::wake).min()
    }

    pub(super) fn due(&mut self, net: &mut Net) {
        for number in 0..self.calls.len() {
            if let Some(call) = &mut self.calls[number] {
                call.due(net);
                self.work(number, net);
            }
        }
    }

    pub(super) fn receive(&mut self, message: Message, net: &mut Net) {
        let udp = Transport::Udp;
        match message.method() {
            _ if !message.is_request() => self.reply(message, net),
            Method::Ack => match self.table.find_acked(&message, udp) {
                Some(id) => {
                    let number = self.table.get(id).copied().expect("a call");
                    let call = self.calls[number].as_mut().expect("a call");
                    assert!(call.tm.ack(net.now), "R42");
                    self.work(number, net);
                }
                None => self.forward_ack(message, net),
            },
            _ => match self.table.find(&message, udp).and_then(|id| self.table.get(id)) {
                Some(number) => {
                    let call = self.calls[*number].as_mut().expect("a call");
                    if let Some(bytes) = call.tm.again() {
                        net.send(End::Caller, bytes);
                    }
                }
                None => self.begin(message, net),
            },
        }
    }

    /// The ACK of a relayed 2xx: statelessly to the phone that its Request-URI names.
    fn forward_ack(&self, message: Message, net: &mut Net) {
        let draft = Draft::new(message, kit::udp_from(kit::CALLER));
        let port = String::from_utf8_lossy(draft.uri()).rsplit(':').next().map(str::to_owned);
        // That of a failure whose transaction is over goes nowhere.
        let Some(phone) = port.and_then(|port| port.parse::<usize>().ok()?.checked_sub(15_071))
        else {
            return;
        };
        let mut bytes = Vec::new();
        forward::request(&draft, &self.own, &self.own.sockets[0], 0, &mut bytes);
        net.send(End::Phone(phone), bytes.into());
    }

    fn begin(&mut self, message: Message, net: &mut Net) {
        let draft = Draft::new(message, kit::udp_from(kit::CALLER));
        let method = draft.message.method();
        let kind = if method == Method::Invite { Kind::Invite } else { Kind::Other };
        let mut cancelled = false;
        if is_cancel(&draft) {
            // R60: one that matches nothing is dropped.
            let Some(id) = self.table.find_cancelled(&draft.message, Transport::Udp) else {
                return;
            };
            let number = self.table.get(id).copied().expect("a call");
            let call = self.calls[number].as_mut().expect("a call");
            call.events.push(Event::Cancelled);
            cancelled = call.tm.cancel(net.now);
            self.work(number, net);
        }
        let start = TransactionStart {
            kind,
            reliable: false,
            timing: TIMING,
            options: self.options,
            cancelled: false,
        };
        let number = self.calls.len();
        let id = self.table.insert(&draft, number);
        let call = Call {
            id,
            tag: Tag::new(&self.own, &draft.message),
            born: net.now,
            tm: Transaction::new(start, net.now),
            branches: Vec::new(),
            legs: self.legs.clone(),
            events: Vec::new(),
            draft,
        };
        self.calls.push(Some(call));
        let call = self.calls[number].as_mut().expect("a call");
        if is_cancel(&call.draft) {
            let reason = if cancelled { "canceling" } else { "ok -- no more pending branches" };
            call.send_local(200, reason, &[], &mut self.table, net);
        } else {
            if kind == Kind::Invite {
                call.send_local(
                    100,
                    "trying -- your call is important to us",
                    &[],
                    &mut self.table,
                    net,
                );
            }
            call.leg(&self.own, self.options, &mut self.table, net);
        }
        self.work(number, net);
    }

    fn reply(&mut self, message: Message, net: &mut Net) {
        let found = self.table.find_reply(&message);
        let Some(Found { id, branch, of_cancel }) = found else {
            // R27: statelessly by the second Via, if there is one.
            if message.vias().nth(1).is_some() {
                net.send(End::Caller, up(&message, &self.own));
            }
            return;
        };
        let number = self.table.get(id).copied().expect("a call");
        let call = self.calls[number].as_mut().expect("a call");
        call.hear(branch, of_cancel, message, net);
        self.work(number, net);
    }

    /// Does what a transaction asks for.
    fn work(&mut self, number: usize, net: &mut Net) {
        let call = self.calls[number].as_mut().expect("a call");
        while let Some(todo) = call.tm.poll() {
            match todo {
                Do::Relay { code, reply, .. } => {
                    call.send(code, up(&reply, &self.own), false, &mut self.table, net);
                }
                Do::Local { code, reason } => {
                    call.send_local(code, reason, &[], &mut self.table, net);
                }
                Do::Challenge { code, replies } => {
                    let lines: Vec<_> = replies.iter().flat_map(challenges).collect();
                    call.send_local(code, "Challenged", &lines, &mut self.table, net);
                }
                Do::Cancel { branch, why } => call.cancel(branch, why, net),
                Do::Settle => call.branches.iter_mut().for_each(|branch| branch.client.settle()),
                Do::Failed { .. } => {
                    if call.tm.is_cancelled() || call.legs.is_empty() {
                        call.tm.decline(net.now);
                    } else {
                        call.leg(&self.own, self.options, &mut self.table, net);
                    }
                }
                Do::Over => {
                    call.check_end(self.kind);
                    assert_eq!(self.table.remove(call.id), Some(number));
                    let call = self.calls[number].take().expect("a call");
                    assert_eq!(call.tm.wake(), None);
                    if !is_cancel(&call.draft) {
                        self.over.push(call.events);
                    }
                    return;
                }
            }
        }
    }
}

/// A reply as it goes up.
fn up(reply: &Message, own: &Own) -> Bytes {
    let draft = Draft::new(reply.clone(), kit::udp_from("127.0.0.1:15071"));
    let mut bytes = Vec::new();
    reply::write(&draft, own, &own.sockets[0], &mut bytes);
    bytes.into()
}

/// The lines of a reply that ask for credentials.
fn challenges(reply: &Message) -> Vec<Bytes> {
    let names: [&[u8]; 2] = [b"WWW-Authenticate", b"Proxy-Authenticate"];
    let lines = names.into_iter().flat_map(|name| reply.named(name));
    lines.map(|header| reply.bytes().slice(header.line)).collect()
}

impl Call {
    fn wake(&self) -> Option<Instant> {
        let clients = self.branches.iter().map(|branch| &branch.client);
        let clients = clients.flat_map(|client| [client.wake(), client.deadline()]).flatten();
        clients.chain(self.tm.wake()).min()
    }

    fn due(&mut self, net: &mut Net) {
        for at in 0..self.branches.len() {
            while let Some(due) = self.branches[at].client.due(net.now) {
                let branch = &mut self.branches[at];
                let to = End::Phone(branch.phone);
                match due {
                    Due::Request => net.send(to, branch.sent.bytes().clone()),
                    Due::Cancel => net.send(to, branch.cancel.clone().expect("a CANCEL")),
                    Due::Timeout { spoke, cancel } => {
                        assert_eq!(spoke, branch.rang);
                        if cancel {
                            self.send_cancel(at, b"", net);
                        }
                        self.give_up(at as u16, Says::Timeout { spoke }, 408, net);
                    }
                }
            }
        }
        while let Some(bytes) = self.tm.due(net.now) {
            net.send(End::Caller, bytes);
        }
    }

    fn give_up(&mut self, branch: u16, says: Says<Message>, code: u16, net: &Net) {
        let code = if self.tm.is_cancelled() { 487 } else { code };
        self.events.push(Event::GaveUp(branch, code));
        self.tm.hear(branch, says, net.now);
    }

    /// Begins the next leg.
    fn leg(&mut self, own: &Own, options: Options, table: &mut Table<usize>, net: &mut Net) {
        let phones = self.legs.remove(0);
        self.events.push(Event::Leg(phones.len() as u16));
        for phone in phones {
            let next = self.tm.next_index();
            let mut draft = self.draft.clone();
            draft.uri = Some(format!("sip:bob@127.0.0.1:{}", 15_071 + phone).into());
            let mut bytes = Vec::new();
            forward::request(&draft, own, &own.sockets[0], next.into(), &mut bytes);
            let sent = kit::parse(bytes);
            assert_eq!(self.tm.add(), Some(next));
            net.send(End::Phone(phone), sent.bytes().clone());
            let is_invite = sent.method() == Method::Invite;
            let start = ClientStart {
                kind: if is_invite { Kind::Invite } else { Kind::Other },
                reliable: false,
                timing: TIMING,
                options,
                born: self.born,
            };
            let client = Client::new(start, net.now);
            let branch = Branch { client, sent, phone, cancel: None, rang: false, ended: false };
            self.branches.push(branch);
        }
        table.set_branches(self.id, self.branches.len() as u16);
        self.tm.seal();
    }

    fn hear(&mut self, at: u16, of_cancel: bool, reply: Message, net: &mut Net) {
        let code = reply.status();
        let branch = &mut self.branches[usize::from(at)];
        if of_cancel {
            assert!(branch.cancel.is_some(), "a reply to a CANCEL that was not sent");
            return branch.client.cancel_answered(code, net.now);
        }
        self.events.push(Event::Replied(at, code));
        let heard = branch.client.reply(code, net.now);
        branch.rang |= code < 200;
        branch.ended |= code >= 200;
        let is_invite = branch.sent.method() == Method::Invite;
        assert_eq!(heard.ack, is_invite && code >= 300, "R43, R45");
        if heard.ack {
            net.send(End::Phone(branch.phone), ack(&branch.sent, &reply).into());
        }
        if heard.cancel {
            self.send_cancel(usize::from(at), b"", net);
        }
        let says = match heard.pass {
            Pass::Provisional => Says::Provisional(code, reply),
            Pass::Success => Says::Success(code, reply),
            Pass::Failure => Says::Failure(code, reply),
            Pass::Nothing => return,
        };
        self.tm.hear(at, says, net.now);
    }

    fn cancel(&mut self, branch: u16, why: CancelWhy, net: &mut Net) {
        assert_eq!(self.draft.message.method(), Method::Invite);
        match self.branches[usize::from(branch)].client.cancel(net.now) {
            Cancelling::Now => {
                let reason: &[u8] = match why {
                    CancelWhy::Answered => b"SIP ;cause=200 ;text=\"Call completed elsewhere\"",
                    CancelWhy::Refused | CancelWhy::Caller => b"",
                };
                self.send_cancel(usize::from(branch), reason, net);
            }
            Cancelling::Gone => self.give_up(branch, Says::Gone, 487, net),
            Cancelling::Later | Cancelling::Nothing => {}
        }
    }

    fn send_cancel(&mut self, at: usize, reason: &[u8], net: &mut Net) {
        let branch = &mut self.branches[at];
        let first = branch.cancel.is_none();
        assert!(!(first && branch.ended), "S-10: a CANCEL for a branch that is over");
        let bytes = branch.cancel.get_or_insert_with(|| {
            let line = [b"Reason: ", reason, b"\r\n"].concat().into();
            let lines = if reason.is_empty() { Vec::new() } else { vec![line] };
            cancel(&branch.sent, &lines).into()
        });
        net.send(End::Phone(branch.phone), bytes.clone());
    }

    fn send_local(
        &mut self,
        code: u16,
        reason: &str,
        lines: &[Bytes],
        table: &mut Table<usize>,
        net: &mut Net,
    ) {
        let mut bytes = Vec::new();
        reply_headers(&self.draft, code, reason.as_bytes(), &self.tag, lines, &mut bytes);
        self.send(code, bytes.into(), true, table, net);
    }

    fn send(
        &mut self,
        code: u16,
        bytes: Bytes,
        local: bool,
        table: &mut Table<usize>,
        net: &mut Net,
    ) {
        let before = self.tm.status();
        assert!(before < 200 || (200..300).contains(&code), "{code} behind {before}");
        assert!(self.tm.may_reply(code), "{code} behind {before}");
        self.events.push(Event::Up(code, local));
        let tag = kit::parse(bytes.clone()).to().tag().map(Box::from).unwrap_or_default();
        net.send(End::Caller, bytes.clone());
        self.tm.replied(code, bytes, local, net.now);
        match code {
            200..300 if local => table.set_ended(self.id, Ended::Success(tag)),
            200..300 => table.set_ended(self.id, Ended::No),
            300.. => table.set_ended(self.id, Ended::Failure),
            _ => {}
        }
    }

    /// What has to be so once it is over.
    fn check_end(&self, kind: Kind) {
        if is_cancel(&self.draft) || kind == Kind::Other {
            return;
        }
        for branch in &self.branches {
            let owes = branch.rang && !branch.ended;
            assert!(!owes || branch.cancel.is_some(), "a branch that spoke was left alone");
        }
    }
}
