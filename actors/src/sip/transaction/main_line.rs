//! The actor of a transaction: the caller's side of it, and the choice between its branches.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Instant;

use actix::fut::ActorFuture;
use actix::prelude::*;
use bytes::Bytes;
use lineway_wire::sip::draft::{Draft, Failure, Parked, Target};
use lineway_wire::sip::message::{Method, Name, Start};
use lineway_wire::sip::reply;
use lineway_wire::sip::sl::Back;
use lineway_wire::sip::transaction::{
    CancelWhy, Do, Ended, Kind, Says, TRYING, Tag, Transaction, TransactionStart, reply_headers,
};
use lineway_wire::wheel::Key;

use super::begin::{Begin, First};
use super::branch::SipBranch;
use super::home::{Entry, Hold};
use super::legs::{Asked, RelayWay, Relaying};
use super::messages::{
    Acked, Again, BranchSays, CancelBranch, Cancelled, EndBranch, Finish, Relay, Release,
    ReplyWith, Settle, Times, Word,
};
use super::request::{Bare, Request};
use crate::metrics::{ActorKind, SipAck, SipAgain, SipCancel, SipClosed, SipTimeout};
use crate::sip::back::Way;
use crate::sip::script::kemi::Vars;
use crate::sip::script::tm::Armed;
use crate::spawn;
use crate::worker::timers;

/// What the losers of a fork are told (R65).
const COMPLETED_ELSEWHERE: &[u8] = b"Reason: SIP ;cause=200 ;text=\"Call completed elsewhere\"\r\n";

/// What an error is answered with that nothing says more of (contract 2.14).
const SERVER_ERROR: &str = "I'm terribly sorry, server error occurred (1/TM)";

/// What few transactions have.
#[derive(Default)]
pub(super) struct Rare {
    /// What `append_to_reply` has put into each reply that is made here.
    lines: Vec<Bytes>,
    pub(super) vars: Vars,
    pub(super) groups: Vec<Vec<Target>>,
    /// Calls that wait until a failure route is over.
    pub(super) held: Vec<Hold>,
    /// Header lines for CANCELs, from the caller's.
    reasons: Vec<Bytes>,
    /// Branches that go elsewhere, with the earlier ones and what those have said.
    pub(super) elsewhere: Vec<(u16, u16, Word)>,
}

/// A branch as its transaction knows it.
pub(super) struct Branch {
    /// The routes that were armed when it was made.
    pub(super) armed: Rc<Armed>,
    /// It had a reply before its final.
    pub(super) spoke: bool,
    /// Its final of 300 and above.
    pub(super) last: Option<Rc<Draft>>,
    /// Its flags (`setbflag`).
    pub(super) flags: u32,
    /// What it got of Max-Breadth; 0 without `max-breadth`.
    pub(super) breadth: u32,
}

/// A request that is handled with state.
pub struct SipTransaction {
    pub(super) entry: Rc<Entry>,
    pub(super) machine: Transaction<Rc<Draft>>,
    pub(super) request: Request,
    /// What few transactions have.
    pub(super) rare: Option<Box<Rare>>,
    /// The way back to the caller.
    way: Way,
    pub(super) armed: Rc<Armed>,
    pub(super) branches: Vec<Branch>,
    pub(super) relaying: Option<Box<Relaying>>,
    /// Another leg was begun since this was asked last.
    pub(super) leg_began: bool,
    timer: Option<(Instant, Key)>,
    /// How it ended, once it has.
    end: Option<SipClosed>,
}

impl SipTransaction {
    /// Starts the transaction of a request; what it does first is done when this returns, but for
    /// what takes time.
    pub(in crate::sip) fn begin(begin: Begin) -> (Rc<Entry>, Asked) {
        let Begin { home, generation, mut draft, vars, armed, timing, groups, first } = begin;
        let now = timers::now();
        let is_invite = draft.message.method() == Method::Invite;
        let kind = if is_invite { Kind::Invite } else { Kind::Other };
        let received = draft.received;
        let overtaken = {
            let table = home.table.borrow();
            let cancel = table.find_cancel_of(&draft.message, received.transport);
            is_invite && cancel.is_some()
        };
        let entry = Rc::new(Entry::new(
            Rc::clone(&home),
            Rc::clone(&generation),
            kind,
            overtaken,
            draft.message.bytes().clone(),
            received.source,
        ));
        home.worker.enter_transaction(&entry);
        let id = home.table.borrow_mut().insert(&draft, Rc::clone(&entry));
        let _ = entry.id.set(id);

        let settings = &generation.env.settings.stateful;
        let timing = timing.applied_to(settings.timing());
        let start = TransactionStart {
            kind,
            reliable: received.transport.is_reliable(),
            timing,
            options: settings.options(),
            cancelled: overtaken,
        };
        let way = Way::back(Back::of(&draft), &draft);
        let actors = home.worker.board.metrics.actors().clone();
        home.shared.began();
        home.metrics.transactions.opened(draft.message.method(), kind);
        let lines = std::mem::take(&mut draft.reply_lines);
        let mut asked = Asked::Now(Ok(()));
        let build = |ctx: &mut Context<Self>| {
            let _ = entry.main.set(ctx.address());
            let mut transaction = Self {
                entry: Rc::clone(&entry),
                machine: Transaction::new(start, now),
                rare: None,
                request: Request::Whole(Box::new(draft)),
                way,
                armed: Rc::new(armed),
                branches: Vec::new(),
                relaying: None,
                leg_began: false,
                timer: None,
                end: None,
            };
            transaction.keep_vars(vars);
            if !lines.is_empty() || !groups.is_empty() {
                let rare = transaction.rare();
                (rare.lines, rare.groups) = (lines, groups);
            }
            match first {
                First::Wait => {}
                First::Reply(code, reason) => {
                    transaction.reply(code, &reason, None);
                }
                First::Relay(way) => {
                    let draft = transaction.request.draft();
                    asked = transaction.relay_first(draft, way);
                }
            }
            transaction.act(ctx);
            transaction.park();
            transaction
        };
        spawn::start(ActorKind::SipTransaction, &actors, build, |_| {});
        (entry, asked)
    }

    /// What few transactions have.
    pub(super) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Keeps the variables for the next route.
    pub(super) fn keep_vars(&mut self, vars: Vars) {
        if self.rare.is_some() || !vars.is_empty() {
            self.rare().vars = vars;
        }
    }

    /// `t_relay()` in the request route.
    fn relay_first(&mut self, draft: Draft, way: RelayWay) -> Asked {
        if self.entry.kind == Kind::Invite && self.machine.status() == 0 {
            self.reply(100, TRYING.as_bytes(), None);
        }
        self.relay(draft, way)
    }

    /// The request waits; of one that no route will see again no more is kept than replies are
    /// made of.
    fn park(&mut self) {
        let armed = |armed: &Armed| {
            armed.failure.is_some() || armed.reply.is_some() || armed.branch_failure.is_some()
        };
        if self.relaying.is_none()
            && let Request::Whole(draft) = &self.request
        {
            let is_new = self.branches.is_empty() && self.machine.status() < 200;
            let is_seen_again = is_new
                || armed(&self.armed)
                || self.branches.iter().any(|branch| armed(&branch.armed));
            self.request = if is_seen_again {
                Request::Parked(Parked::new((**draft).clone()))
            } else {
                Request::Bare(Box::new(Bare::new(draft)))
            };
        }
    }

    /// Sends a reply that the script or its failure wants, unless a final is up; `lines` take the
    /// place of those that the request route has appended.
    pub(super) fn reply(&mut self, code: u16, reason: &[u8], lines: Option<&[Bytes]>) {
        if self.machine.may_reply(code) {
            self.make_reply(code, reason, lines);
        }
    }

    /// Makes a reply and sends it.
    fn make_reply(&mut self, code: u16, reason: &[u8], lines: Option<&[Bytes]>) {
        let mut out = Vec::with_capacity(512);
        let own = self.rare.as_ref().map_or(&[][..], |rare| &rare.lines);
        let lines = lines.unwrap_or(own);
        let again;
        let draft = match &self.request {
            Request::Whole(draft) => draft,
            Request::Parked(_) | Request::Bare(_) => {
                again = self.request.draft();
                &again
            }
        };
        let tag = Tag::new(&self.entry.generation.env.own, &draft.message);
        reply_headers(draft, code, reason, &tag, lines, &mut out);
        let bytes = Bytes::copy_from_slice(&out);
        self.send_up(bytes.clone());
        self.entry.home.metrics.reply_sent(code);
        self.replied(code, bytes, Some(&tag));
    }

    /// The answer to what failed (contract 2.14).
    pub(super) fn reply_failure(&mut self, failure: Failure) {
        if failure.code == 500 && failure.reason.is_empty() {
            return self.reply(500, SERVER_ERROR.as_bytes(), None);
        }
        let reason = format!("{} ({}/TM)", failure.reason, failure.code);
        self.reply(failure.code, reason.as_bytes(), None);
    }

    /// Sends the reply of a branch up.
    fn relay_reply(&mut self, code: u16, draft: &Draft) {
        let own = &self.entry.generation.env.own;
        let Some(socket) = own.socket(self.way.socket) else { return };
        let mut out = Vec::with_capacity(draft.message.bytes().len() + 64);
        reply::write(draft, own, socket, &mut out);
        let bytes = Bytes::copy_from_slice(&out);
        self.send_up(bytes.clone());
        self.entry.home.metrics.reply_forwarded(code);
        self.replied(code, bytes, None);
    }

    /// A reply has left; with its tag, if it was made here.
    fn replied(&mut self, code: u16, bytes: Bytes, tag: Option<&Tag>) {
        let now = timers::now();
        self.machine.replied(code, bytes, tag.is_some(), now);
        self.entry.status.set(self.machine.status());
        if code >= 200 {
            if code < 300 && self.entry.kind == Kind::Invite && self.end.is_none() {
                let after = now.saturating_duration_since(self.entry.began);
                self.entry.home.metrics.transactions.set_up(after);
            }
            self.end.get_or_insert(match code {
                _ if self.machine.is_cancelled() => SipClosed::Cancelled,
                _ if tag.is_some() => SipClosed::Local,
                ..300 => SipClosed::Answered,
                _ => SipClosed::Failed,
            });
        }
        let ended = match (code, tag) {
            (300.., _) => Ended::Failure,
            (200.., Some(tag)) => Ended::Success(tag.0.into()),
            _ => return,
        };
        if self.entry.kind == Kind::Invite
            && let Some(id) = self.entry.id.get()
        {
            self.entry.home.table.borrow_mut().set_ended(*id, ended);
        }
    }

    fn send_up(&self, bytes: Bytes) {
        self.entry.home.send(&self.entry.generation.sending.transports, &self.way, bytes, |_| {});
    }

    /// The script does not want a branch any more (`t_cancel_branches`).
    pub(super) fn cancel_by_script(&self, branch: u16) {
        self.entry.home.metrics.transactions.branch_cancelled(SipCancel::Script);
        self.tell(branch, CancelBranch { reasons: Vec::new() });
    }

    fn tell<M>(&self, branch: u16, message: M)
    where
        M: actix::Message<Result = ()> + Send + 'static,
        SipBranch: Handler<M>,
    {
        self.entry.tell(branch, message);
    }

    /// Does what the machine wants done.
    pub(super) fn act(&mut self, ctx: &mut Context<Self>) {
        while let Some(what) = self.machine.poll() {
            match what {
                Do::Relay { code, reply, .. } => self.relay_reply(code, &reply),
                Do::Local { code, reason } => {
                    if code == 408 {
                        self.end.get_or_insert(SipClosed::Timeout);
                    }
                    self.make_reply(code, reason.as_bytes(), None);
                }
                Do::Challenge { code, replies } => self.challenge(code, &replies),
                Do::Cancel { branch, why } => self.cancel_branch(branch, why),
                Do::Settle => self.tell_all(|| Settle),
                Do::Failed { branch, code } => self.failed(branch, code),
                Do::Over => ctx.stop(),
            }
        }
        self.entry.cancelled.set(self.machine.is_cancelled() || self.entry.cancelled.get());
        self.entry.status.set(self.machine.status());
        let is_new = self.branches.is_empty() && self.machine.status() < 200;
        self.entry.open.set(is_new || self.machine.open() > 0);
    }

    /// The challenges of all branches in one reply (R76, R77).
    fn challenge(&mut self, code: u16, replies: &[Rc<Draft>]) {
        let mut lines = self.rare.as_ref().map_or_else(Vec::new, |rare| rare.lines.clone());
        for draft in replies {
            let message = &draft.message;
            let of = |name| message.all(name).map(|header| message.bytes().slice(header.line));
            lines.extend(of(Name::WwwAuthenticate).chain(of(Name::ProxyAuthenticate)));
        }
        let first = replies.iter().find(|draft| draft.message.status() == code);
        let reason = match first.map(|draft| draft.message.start()) {
            Some(Start::Reply { reason, .. }) => reason.to_vec(),
            _ => Vec::new(),
        };
        self.make_reply(code, &reason, Some(&lines));
    }

    fn cancel_branch(&self, branch: u16, why: CancelWhy) {
        self.entry.home.metrics.transactions.branch_cancelled(why.into());
        let reasons = match why {
            CancelWhy::Answered => vec![Bytes::from_static(COMPLETED_ELSEWHERE)],
            CancelWhy::Refused => Vec::new(),
            CancelWhy::Caller => {
                self.rare.as_ref().map_or_else(Vec::new, |rare| rare.reasons.clone())
            }
        };
        self.tell(branch, CancelBranch { reasons });
    }

    pub(super) fn tell_all<M>(&self, message: impl Fn() -> M)
    where
        M: actix::Message<Result = ()> + Send + 'static,
        SipBranch: Handler<M>,
    {
        for branch in (0..).take(self.branches.len()) {
            self.entry.tell(branch, message());
        }
    }

    /// A branch says something.
    fn says(&mut self, BranchSays { branch, word, hold }: BranchSays, ctx: &mut Context<Self>) {
        self.word(branch, word);
        self.act(ctx);
        if self.relaying.is_some()
            && let Some(hold) = hold
        {
            self.rare().held.push(hold);
        }
    }

    /// Hears what a branch says.
    pub(super) fn word(&mut self, branch: u16, word: Word) {
        let now = timers::now();
        match word {
            Word::Sent(result) => self.sent(branch, result),
            Word::Elsewhere(elsewhere, word) => self.go_elsewhere(branch, *elsewhere, *word),
            Word::Reply(pass, draft) => self.heard(branch, pass, draft),
            Word::Timeout { spoke } => {
                if let Some(known) = self.branches.get_mut(usize::from(branch)) {
                    // It may have said no more than 100.
                    known.spoke |= spoke;
                }
                self.branch_failed(branch, 408, true);
                self.machine.hear(branch, Says::Timeout { spoke }, now);
            }
            Word::Gone => self.machine.hear(branch, Says::Gone, now),
            Word::Broken => self.machine.hear(branch, Says::Timeout { spoke: false }, now),
        }
    }

    /// Sets the timer to what comes next.
    fn set_timer(&mut self, waker: &Waker) {
        let next = self.machine.wake().into_iter().chain(self.entry.own_limit()).min();
        if self.timer.as_ref().map(|(at, _)| *at) == next {
            return;
        }
        let timers = &self.entry.home.worker.timers;
        if let Some((_, key)) = self.timer.take() {
            timers.cancel(key);
        }
        self.timer = next.map(|at| (at, timers.set(at, waker)));
    }
}

impl Drop for SipTransaction {
    fn drop(&mut self) {
        self.tell_all(|| EndBranch);
        self.entry.unwatch(&self.entry.home.worker.reporter);
        self.entry.home.worker.transaction_gone(&self.entry);
        if let Some((_, key)) = self.timer.take() {
            self.entry.home.worker.timers.cancel(key);
        }
        if let Some(id) = self.entry.id.get() {
            self.entry.home.table.borrow_mut().remove(*id);
        }
        self.entry.home.shared.ended();
        let end = self.end.unwrap_or(SipClosed::Released);
        self.entry.home.metrics.transactions.closed(self.entry.kind, end, self.branches.len());
    }
}

impl std::fmt::Debug for SipTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SipTransaction").field("id", &self.entry.id).finish_non_exhaustive()
    }
}

impl Actor for SipTransaction {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.spawn(Turn);
    }
}

/// The time of a transaction; polled behind its mailbox.
struct Turn;

impl ActorFuture<SipTransaction> for Turn {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        transaction: &mut SipTransaction,
        ctx: &mut Context<SipTransaction>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<()> {
        let now = timers::now();
        if transaction.timer.as_ref().is_some_and(|(at, _)| *at <= now) {
            transaction.timer = None;
            if transaction.entry.own_limit().is_some_and(|limit| limit <= now) {
                let reporter = &transaction.entry.home.worker.reporter;
                transaction.entry.deadline_is_over(reporter, now);
            }
            let awaited = transaction.machine.awaits_ack();
            while let Some(bytes) = transaction.machine.due(now) {
                transaction.send_up(bytes);
                transaction.entry.home.metrics.transactions.sent_again(SipAgain::Reply);
            }
            if awaited && !transaction.machine.awaits_ack() {
                transaction.entry.home.metrics.transactions.timeout(SipTimeout::Ack);
            }
            transaction.act(ctx);
        }
        transaction.set_timer(cx.waker());
        Poll::Pending
    }
}

impl Handler<Relay> for SipTransaction {
    type Result = ();

    fn handle(&mut self, relay: Relay, ctx: &mut Self::Context) {
        let Relay { mut draft, vars, armed, timing, way, answer } = relay;
        let lines = std::mem::take(&mut draft.reply_lines);
        if !lines.is_empty() || self.rare.is_some() {
            self.rare().lines = lines;
        }
        self.request = Request::Whole(draft);
        self.keep_vars(vars);
        self.armed = Rc::new(armed);
        self.retime(timing);
        let draft = self.request.draft();
        match self.relay_first(draft, way) {
            Asked::Now(result) => drop(answer.send(result)),
            Asked::Later(_) => {
                if let Some(relaying) = &mut self.relaying {
                    relaying.answer_to(answer);
                }
            }
        }
        self.act(ctx);
    }
}

impl Handler<Again> for SipTransaction {
    type Result = ();

    fn handle(&mut self, _: Again, _: &mut Self::Context) {
        self.entry.home.metrics.transactions.copy();
        if let Some(bytes) = self.machine.again() {
            self.send_up(bytes);
        }
    }
}

impl Handler<Acked> for SipTransaction {
    type Result = ();

    fn handle(&mut self, _: Acked, ctx: &mut Self::Context) {
        self.machine.ack(timers::now());
        self.entry.home.metrics.transactions.ack(SipAck::Absorbed);
        self.act(ctx);
    }
}

impl Handler<Cancelled> for SipTransaction {
    type Result = ();

    fn handle(&mut self, Cancelled { reasons, hold }: Cancelled, ctx: &mut Self::Context) {
        if !reasons.is_empty() {
            self.rare().reasons = reasons;
        }
        self.machine.cancel(timers::now());
        self.act(ctx);
        if self.relaying.is_some() {
            self.rare().held.push(hold);
        }
    }
}

impl Handler<Times> for SipTransaction {
    type Result = ();

    fn handle(&mut self, Times(timing): Times, _: &mut Self::Context) {
        self.retime(timing);
    }
}

impl Handler<ReplyWith> for SipTransaction {
    type Result = ();

    fn handle(&mut self, reply: ReplyWith, ctx: &mut Self::Context) {
        if let Some(draft) = reply.draft {
            self.request = Request::Whole(draft);
        }
        self.reply(reply.code, &reply.reason, Some(&reply.lines));
        self.act(ctx);
    }
}

impl Handler<Release> for SipTransaction {
    type Result = ();

    fn handle(&mut self, _: Release, ctx: &mut Self::Context) {
        self.machine.release(timers::now());
        self.act(ctx);
    }
}

impl Handler<Finish> for SipTransaction {
    type Result = ();

    fn handle(&mut self, _: Finish, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Handler<BranchSays> for SipTransaction {
    type Result = ();

    fn handle(&mut self, says: BranchSays, ctx: &mut Self::Context) {
        self.says(says, ctx);
    }
}
