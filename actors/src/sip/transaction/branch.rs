//! The actor of a branch: it sends its request, again where that is needed, acknowledges failures,
//! cancels, and tells its transaction what comes back.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Instant;

use actix::fut::{ActorFuture, ActorFutureExt};
use actix::prelude::*;
use bytes::Bytes;
use lineway_wire::sip::draft::Failure;
use lineway_wire::sip::message::{Limits, Message};
use lineway_wire::sip::transaction::{
    Cancelling, Client, ClientStart, Due, Kind, Pass, ack, cancel, core_of,
};
use lineway_wire::wheel::Key;

use super::home::{Entry, Hold};
use super::messages::{
    BranchSays, CancelBranch, EndBranch, Overdue, Replied, Retime, Settle, Word,
};
use crate::metrics::{ActorKind, SipAck, SipAgain, SipBranchEnd, SipTimeout};
use crate::sip::router::sending::{Going, Left, Outcome};
use crate::spawn;
use crate::worker::timers;

/// What a branch is made of.
pub(super) struct BranchStart {
    pub(super) entry: Rc<Entry>,
    pub(super) index: u16,
    pub(super) client: ClientStart,
    pub(super) going: Going,
}

/// One place that a request was sent to.
pub struct SipBranch {
    entry: Rc<Entry>,
    index: u16,
    state: State,
    /// Nothing while somebody wants it.
    cancel: Option<Box<Cancel>>,
    timer: Option<(Instant, Key)>,
    /// How it ended is counted.
    counted: bool,
    /// A provisional came.
    spoke: bool,
    /// Another final behind the first was logged.
    warned: bool,
}

/// Where a branch is.
#[expect(clippy::large_enum_variant, reason = "nearly all have left, and stay so")]
enum State {
    /// Its request has not left yet.
    Going(Box<ClientStart>),
    /// It has.
    Sent(Client, Left),
}

impl State {
    /// The client transaction, once there is one.
    const fn client(&self) -> Option<&Client> {
        match self {
            Self::Sent(client, _) => Some(client),
            Self::Going(_) => None,
        }
    }
}

/// The CANCEL of a branch.
enum Cancel {
    /// It is wanted, with these header lines (R59, R65).
    Wanted(Vec<Bytes>),
    /// It has left, and leaves again as it is.
    Sent(Bytes),
}

impl SipBranch {
    /// Sends the request of a branch: its actor, unless it could not be sent, and what came of it,
    /// unless it takes time and the branch says so later.
    pub(super) fn start(start: BranchStart) -> (Option<Addr<Self>>, Option<Result<(), Failure>>) {
        let BranchStart { entry, index, client, going } = start;
        let (state, later) = match entry.generation.sending.branch(going) {
            Outcome::Now(Err(failure)) => return (None, Some(Err(failure))),
            Outcome::Now(Ok(left)) => (begun(client, left), None),
            Outcome::Later(later) => (State::Going(Box::new(client)), Some(later)),
        };
        let result = later.is_none().then_some(Ok(()));
        entry.home.metrics.transactions.branch_opened();
        let actors = entry.home.worker.board.metrics.actors().clone();
        let panicked = Rc::clone(&entry);
        let build = |ctx: &mut Context<Self>| {
            let branch = Self {
                entry,
                index,
                state,
                cancel: None,
                timer: None,
                counted: false,
                spoke: false,
                warned: false,
            };
            if let Some(later) = later {
                ctx.spawn(later.into_actor(&branch).map(|left, branch: &mut Self, ctx| {
                    branch.left(left, ctx);
                }));
            }
            branch
        };
        let address = spawn::start(ActorKind::SipBranch, &actors, build, move |_| {
            if let Some(main) = panicked.main.get() {
                main.do_send(BranchSays { branch: index, word: Word::Broken, hold: None });
            }
        });
        (Some(address), result)
    }

    /// What came of sending a request that took time.
    fn left(&mut self, left: Result<Left, Failure>, ctx: &mut Context<Self>) {
        let result = left.map(|left| {
            if let State::Going(start) = &self.state {
                self.state = begun(**start, left);
            }
        });
        let failed = result.is_err();
        if failed {
            self.count(SipBranchEnd::Unsent);
        }
        self.say(Word::Sent(result), None);
        if failed {
            return ctx.stop();
        }
        // It may have been cancelled on the way.
        if self.cancel.is_some() {
            self.cancel();
        }
        self.watch();
    }

    /// Counts how it ended, once.
    fn count(&mut self, how: SipBranchEnd) {
        if !std::mem::replace(&mut self.counted, true) {
            self.entry.home.metrics.transactions.branch_closed(how);
        }
    }

    /// Nobody is there, or has time (RFC 3263 4.3): the transaction goes elsewhere, if it can.
    fn say_or_go(&mut self, word: Word, hold: Option<Hold>) {
        let elsewhere = match &mut self.state {
            State::Sent(client, left) if !client.is_cancelled() => left.elsewhere.take(),
            _ => None,
        };
        match elsewhere {
            Some(elsewhere) => self.say(Word::Elsewhere(elsewhere, Box::new(word)), hold),
            None => self.say(word, hold),
        }
    }

    fn say(&self, word: Word, hold: Option<Hold>) {
        if let Some(main) = self.entry.main.get() {
            main.do_send(BranchSays { branch: self.index, word, hold });
        }
    }

    /// The request as it was sent.
    fn request(left: &Left) -> Option<Message> {
        Message::parse(left.bytes.clone(), &Limits::NONE).ok()
    }

    fn send(&self, left: &Left, bytes: Bytes) {
        self.entry.home.send(&self.entry.generation.sending.transports, &left.way, bytes, |_| {});
    }

    /// Sends the CANCEL, the same bytes each time.
    fn send_cancel(&mut self) {
        let State::Sent(_, left) = &self.state else { return };
        let bytes = if let Some(Cancel::Sent(bytes)) = self.cancel.as_deref() {
            bytes.clone()
        } else {
            let Some(request) = Self::request(left) else { return };
            let reasons = match self.cancel.as_deref() {
                Some(Cancel::Wanted(reasons)) => &reasons[..],
                _ => &[],
            };
            exact(&cancel(&request, reasons))
        };
        self.send(left, bytes.clone());
        self.cancel = Some(Box::new(Cancel::Sent(bytes)));
    }

    fn cancel(&mut self) {
        let State::Sent(client, _) = &mut self.state else { return };
        match client.cancel(timers::now()) {
            Cancelling::Now => self.send_cancel(),
            Cancelling::Gone => self.say(Word::Gone, None),
            Cancelling::Later | Cancelling::Nothing => {}
        }
    }

    fn replied(&mut self, Replied { draft, of_cancel, hold }: Replied) {
        let State::Sent(client, _) = &mut self.state else { return };
        let (code, now) = (draft.message.status(), timers::now());
        if of_cancel {
            return client.cancel_answered(code, now);
        }
        let before = client.ended();
        let heard = client.reply(code, now);
        let cancelled = client.is_cancelled();
        let is_other = before.is_some_and(|before| before != code && before != 487)
            && !(code == 487 && before == Some(408));
        if code >= 300 && is_other && heard.pass == Pass::Nothing && !self.warned {
            self.warned = true;
            self.entry.home.warn_of_final(&draft.message, before.unwrap_or_default());
        }
        if heard.ack
            && let State::Sent(_, left) = &self.state
            && let Some(request) = Self::request(left)
        {
            self.send(left, ack(&request, &draft.message).into());
            self.entry.home.metrics.transactions.ack(SipAck::Made);
        }
        match heard.pass {
            Pass::Success => self.count(SipBranchEnd::Answered),
            Pass::Failure if cancelled => self.count(SipBranchEnd::Cancelled),
            Pass::Failure => self.count(SipBranchEnd::Failed),
            Pass::Provisional | Pass::Nothing => {}
        }
        if heard.cancel {
            self.send_cancel();
        }
        if code < 200 {
            self.forget_the_rest();
        }
        match heard.pass {
            Pass::Nothing => {}
            Pass::Failure if code == 503 => {
                self.say_or_go(Word::Reply(heard.pass, draft), Some(hold));
            }
            pass => self.say(Word::Reply(pass, draft), Some(hold)),
        }
    }

    /// A request that is not sent again is needed for its ACK and its CANCEL only: of a large one
    /// no more is kept.
    fn forget_the_rest(&mut self) {
        let State::Sent(_, left) = &mut self.state else { return };
        if self.entry.kind == Kind::Invite
            && !std::mem::replace(&mut self.spoke, true)
            && let Some(request) = Self::request(left)
        {
            left.bytes = exact(&core_of(&request));
        }
    }

    /// Does what the time asks for.
    fn due(&mut self) {
        let now = timers::now();
        while let State::Sent(client, _) = &mut self.state {
            match client.due(now) {
                None => return,
                Some(Due::Request) => {
                    if let State::Sent(_, left) = &self.state {
                        self.send(left, left.bytes.clone());
                        self.entry.home.metrics.transactions.sent_again(SipAgain::Request);
                    }
                }
                Some(Due::Cancel) => {
                    self.send_cancel();
                    self.entry.home.metrics.transactions.sent_again(SipAgain::Cancel);
                }
                Some(Due::Timeout { spoke, cancel }) => {
                    let timer = match self.entry.kind {
                        _ if client.is_past_its_life(now) => SipTimeout::Lifetime,
                        Kind::Invite if spoke => SipTimeout::FrInv,
                        _ => SipTimeout::Fr,
                    };
                    self.entry.home.metrics.transactions.timeout(timer);
                    self.count(SipBranchEnd::Timeout);
                    if cancel {
                        self.send_cancel();
                    }
                    let word = Word::Timeout { spoke };
                    if spoke { self.say(word, None) } else { self.say_or_go(word, None) }
                }
            }
        }
    }

    /// Has the supervisor watch the deadline.
    fn watch(&self) {
        let deadline = self.state.client().and_then(Client::deadline);
        self.entry.set_deadline(self.index, deadline, &self.entry.home.worker.reporter);
    }

    /// Sets the timer to the next retransmission.
    fn set_timer(&mut self, waker: &Waker) {
        let next = self.state.client().and_then(Client::wake);
        let set = self.timer.as_ref().map(|(at, _)| *at);
        if set == next {
            return;
        }
        let timers = &self.entry.home.worker.timers;
        if let Some((_, key)) = self.timer.take() {
            timers.cancel(key);
        }
        self.timer = next.map(|at| (at, timers.set(at, waker)));
    }
}

/// The client transaction of a request that has left.
fn begun(mut start: ClientStart, left: Left) -> State {
    start.reliable = left.way.transport.is_reliable();
    State::Sent(Client::new(start, timers::now()), left)
}

/// Bytes that are kept: no more room than they need.
fn exact(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

impl Drop for SipBranch {
    fn drop(&mut self) {
        let broken = std::thread::panicking();
        self.count(if broken { SipBranchEnd::Broken } else { SipBranchEnd::Cancelled });
        if let Some((_, key)) = self.timer.take() {
            self.entry.home.worker.timers.cancel(key);
        }
        self.entry.set_deadline(self.index, None, &self.entry.home.worker.reporter);
    }
}

impl std::fmt::Debug for SipBranch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SipBranch").field("index", &self.index).finish_non_exhaustive()
    }
}

impl Actor for SipBranch {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.watch();
        ctx.spawn(Turn);
    }
}

/// The time of a branch; polled behind its mailbox.
struct Turn;

impl ActorFuture<SipBranch> for Turn {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        branch: &mut SipBranch,
        _: &mut Context<SipBranch>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<()> {
        if branch.timer.is_some_and(|(at, _)| at <= timers::now()) {
            branch.timer = None;
            branch.due();
            branch.watch();
        }
        branch.set_timer(cx.waker());
        Poll::Pending
    }
}

impl Handler<Replied> for SipBranch {
    type Result = ();

    fn handle(&mut self, replied: Replied, _: &mut Self::Context) {
        self.replied(replied);
        self.watch();
    }
}

impl Handler<CancelBranch> for SipBranch {
    type Result = ();

    fn handle(&mut self, CancelBranch { reasons }: CancelBranch, _: &mut Self::Context) {
        if self.cancel.is_none() {
            self.cancel = Some(Box::new(Cancel::Wanted(reasons)));
            self.cancel();
            self.watch();
        }
    }
}

impl Handler<Settle> for SipBranch {
    type Result = ();

    fn handle(&mut self, _: Settle, _: &mut Self::Context) {
        if let State::Sent(client, _) = &mut self.state {
            client.settle();
        }
        self.watch();
    }
}

impl Handler<Retime> for SipBranch {
    type Result = ();

    fn handle(&mut self, Retime(timing): Retime, _: &mut Self::Context) {
        match &mut self.state {
            State::Going(start) => start.timing = timing,
            State::Sent(client, _) => client.retime(timing, timers::now()),
        }
        self.watch();
    }
}

impl Handler<EndBranch> for SipBranch {
    type Result = ();

    fn handle(&mut self, _: EndBranch, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Handler<Overdue> for SipBranch {
    type Result = ();

    fn handle(&mut self, _: Overdue, _: &mut Self::Context) {
        self.due();
        self.watch();
    }
}
