//! What a worker does with the messages of its calls: parse, run the script, send what it decided.

use std::rc::Rc;
use std::sync::Arc;
use std::task::Context as TaskContext;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use lineway_wire::sip::draft::{Draft, Failure};
use lineway_wire::sip::message::{
    ContentLength, Limits, Malformed, Message, Method, Start, call_id_of,
};
use lineway_wire::sip::own::{Received, Transport};
use lineway_wire::sip::reply::ReplyDrop;
use lineway_wire::sip::stream::{StreamError, StreamFault};

use super::calls::{CallKey, Calls, hash};
use super::sending::{Outcome, ReplyOutcome, Sending};
use super::tm::{Answer, relayed};
use crate::metrics::{SipDrop, SipRoute, SipRouterMetrics};
use crate::sip::back::Way;
use crate::sip::ring::Arrival;
use crate::sip::script::tm::RouteKind;
use crate::sip::script::{Context, Effect, End, Route, Script, Step, Suspended, Want};
use crate::sip::shared::ScriptEnv;
use crate::sip::transaction::{Hold, Home};

/// Invocations that may wait for the network on one worker.
const MOST_SUSPENDED: usize = 4096;

/// What a request gets that would wait when too many do.
pub(super) const OVERLOADED: Failure = Failure { code: 503, reason: "Service Unavailable" };

/// What takes time.
pub(super) type Job = LocalBoxFuture<'static, Done>;

/// A job is over.
pub(super) struct Done {
    call: CallKey,
    then: Then,
}

/// What goes on behind a job.
enum Then {
    /// An invocation, with the result of what it waited for.
    Resume(Kind, Box<Suspended>, Result<(), Failure>),
    /// The same for `t_relay()`.
    Relayed(Kind, Box<Suspended>, Result<(), Failure>),
    /// Nothing.
    Nothing,
}

/// What an invocation is for.
enum Kind {
    Request,
    /// With the reply as it came, which goes on when the script fails.
    Reply(Box<(Message, Received)>),
}

/// One generation of a router: its script, with what it works on and what it sends by.
pub(in crate::sip) struct Generation {
    pub(in crate::sip) script: Rc<Script>,
    pub(in crate::sip) env: Rc<ScriptEnv>,
    pub(in crate::sip) sending: Rc<Sending>,
}

/// What handles the messages of one worker.
pub(super) struct Core {
    pub(super) generation: Rc<Generation>,
    limits: Limits,
    pub(super) metrics: Arc<SipRouterMetrics>,
    pub(super) calls: Calls,
    begun: Vec<Job>,
    /// The transactions of this worker.
    pub(super) home: Rc<Home>,
    /// Calls that are free again.
    freed: Vec<CallKey>,
}

impl Core {
    pub(super) fn new(generation: Rc<Generation>, limits: Limits, home: Rc<Home>) -> Self {
        let metrics = Arc::clone(&generation.sending.metrics);
        let (calls, begun) = (Calls::default(), Vec::new());
        Self { generation, limits, metrics, calls, begun, home, freed: Vec::new() }
    }

    /// Jobs that were begun since this was asked last.
    pub(super) fn begun(&mut self) -> impl Iterator<Item = Job> + '_ {
        self.begun.drain(..)
    }

    /// Takes a message that came in.
    pub(super) fn arrived(&mut self, arrival: Arrival, now: Instant) {
        if self.calls.is_empty() {
            return self.handle(arrival, now);
        }
        let key = call_id_of(&arrival.bytes).map_or(0, hash);
        if self.calls.is_held(key) {
            self.look_ahead(&arrival);
        }
        match self.calls.wait(key, arrival) {
            Err(arrival) => self.handle(arrival, now),
            Ok(true) => self.metrics.waiting.inc(),
            Ok(false) => self.metrics.dropped(SipDrop::Overload),
        }
    }

    fn handle(&mut self, arrival: Arrival, now: Instant) {
        let message = match Message::parse(arrival.bytes, &self.limits) {
            Ok(message) => message,
            Err(Malformed::Empty) => return,
            Err(malformed) => return self.metrics.dropped(malformed.into()),
        };
        match message.start() {
            Start::Request { method, .. } => {
                self.metrics.request(method);
                self.request(message, arrival.received, now);
            }
            Start::Reply { code, .. } => {
                self.metrics.reply(code);
                self.reply(message, arrival.received, now);
            }
        }
    }

    fn request(&mut self, message: Message, received: Received, now: Instant) {
        let is_ack = message.method() == Method::Ack;
        if is_ack && self.generation.env.sl.borrow().absorbs(&message, now) {
            return self.metrics.dropped(SipDrop::Ack);
        }
        // A stream is framed by its lengths, so there they are right.
        let length_is_wrong = received.transport == Transport::Udp && !length_fits(&message);
        let mut draft = Draft::new(message, received);
        if length_is_wrong {
            return self.answer(&draft, 400, b"Bad Content-Length", now);
        }
        if self.refuses(&mut draft, now) {
            return;
        }
        let context = self.context(draft, now);
        let step = Rc::clone(&self.generation).script.start(Route::Request, context);
        self.go_on(Kind::Request, step, now);
    }

    fn reply(&mut self, message: Message, received: Received, now: Instant) {
        if received.transport == Transport::Udp && !length_fits(&message) {
            return self.metrics.dropped(SipDrop::BadLength);
        }
        if self.generation.env.shared.dispatcher.heard(&message, now) {
            return;
        }
        if !self.generation.script.has(Route::Reply) {
            return self.pass_reply(Draft::new(message, received));
        }
        let kind = Kind::Reply(Box::new((message.clone(), received)));
        let mut context = self.context(Draft::new(message, received), now);
        context.tm.route = RouteKind::Reply;
        let step = Rc::clone(&self.generation).script.start(Route::Reply, context);
        self.go_on(kind, step, now);
    }

    fn context(&self, draft: Draft, now: Instant) -> Context {
        Context::new(draft, Rc::clone(&self.generation.env), now)
    }

    /// Goes on with an invocation until it is over or has to wait.
    fn go_on(&mut self, kind: Kind, mut step: Step, now: Instant) {
        loop {
            let (mut suspended, want) = match step {
                Step::Ended(context, end) => return self.ended(kind, context, end, now),
                Step::Suspended(suspended, want) => (suspended, want),
            };
            let context = suspended.context();
            self.take_effects(context);
            if let Want::Tm(want) = want {
                let result = match self.tm(want, context) {
                    Answer::Now(result) => result,
                    Answer::Later(_) if self.is_crowded() => relayed(context, Err(OVERLOADED)),
                    Answer::Later(asked) => {
                        let call = hash(context.draft.message.call_id());
                        self.metrics.suspended.inc();
                        let suspended = Box::new(suspended);
                        return self.begin(call, async move {
                            let result = asked.await.unwrap_or(Err(NO_WAY));
                            Done { call, then: Then::Relayed(kind, suspended, result) }
                        });
                    }
                };
                step = suspended.resume(result, now);
                continue;
            }
            let outcome = match &want {
                Want::Forward { uri } => {
                    let sending = Rc::clone(&self.generation.sending);
                    sending.request(&context.draft, uri.as_deref())
                }
                Want::ForwardReply { code, reason } => {
                    context.forwarded = true;
                    let draft = &mut context.draft;
                    if code.is_some() || reason.is_some() {
                        let code = code.unwrap_or_else(|| draft.message.status());
                        let own = || match draft.message.start() {
                            Start::Reply { reason, .. } => Bytes::copy_from_slice(reason),
                            Start::Request { .. } => Bytes::new(),
                        };
                        draft.status = Some((code, reason.clone().unwrap_or_else(own)));
                    }
                    match self.generation.sending.reply(draft) {
                        ReplyOutcome::Now(result) => Outcome::Now(result.map_err(|_| NO_WAY)),
                        ReplyOutcome::Later(sent) => Outcome::Later(Box::pin(async move {
                            sent.await;
                            Ok(())
                        })),
                    }
                }
                Want::Tm(_) => unreachable!("it was taken above"),
            };
            let result = match outcome {
                Outcome::Now(result) => result,
                Outcome::Later(_) if self.is_crowded() => Err(OVERLOADED),
                Outcome::Later(done) => {
                    let call = hash(context.draft.message.call_id());
                    self.metrics.suspended.inc();
                    let suspended = Box::new(suspended);
                    return self.begin(call, async move {
                        let result = done.await;
                        Done { call, then: Then::Resume(kind, suspended, result) }
                    });
                }
            };
            step = resume(suspended, result, now);
        }
    }

    /// No further message may wait for the network.
    pub(super) fn is_crowded(&self) -> bool {
        self.calls.len() >= MOST_SUSPENDED
    }

    fn begin(&mut self, call: CallKey, job: impl Future<Output = Done> + 'static) {
        self.calls.enter(call);
        self.begun.push(Box::pin(job));
    }

    /// A job is over: its invocation goes on, then what waited behind it.
    pub(super) fn done(&mut self, done: Done, now: Instant) {
        match done.then {
            Then::Resume(kind, suspended, result) => {
                self.metrics.suspended.dec();
                let step = resume(*suspended, result, now);
                self.go_on(kind, step, now);
            }
            Then::Relayed(kind, mut suspended, result) => {
                self.metrics.suspended.dec();
                let value = relayed(suspended.context(), result);
                let step = suspended.resume(value, now);
                self.go_on(kind, step, now);
            }
            Then::Nothing => {}
        }
        self.left(done.call, now);
    }

    /// Something of a call is over: what waited behind it goes on.
    fn left(&mut self, call: CallKey, now: Instant) {
        self.calls.leave(call);
        while let Some(arrival) = self.calls.next(call) {
            self.metrics.waiting.dec();
            self.handle(arrival, now);
        }
    }

    /// Goes on with the calls whose messages the transactions are done with.
    pub(super) fn go_on_with_freed(&mut self, now: Instant, cx: &mut TaskContext<'_>) {
        let mut freed = std::mem::take(&mut self.freed);
        self.home.holds.take(&mut freed, cx);
        for call in freed.drain(..) {
            self.left(call, now);
        }
        self.freed = freed;
    }

    /// Holds the call of a message that is handed to a transaction.
    pub(super) fn hold(&mut self, message: &Message) -> Hold {
        let call = hash(message.call_id());
        self.calls.enter(call);
        self.home.holds.hold(call)
    }

    fn ended(&mut self, kind: Kind, mut context: Context, end: End, now: Instant) {
        self.take_effects(&mut context);
        let route = match &kind {
            Kind::Request => SipRoute::Request,
            Kind::Reply(_) => SipRoute::Reply,
        };
        self.metrics.script.ran(route, context.ran);
        if let End::Failed(error) = &end {
            self.home.failed(error, &context.draft.message);
        }
        match (kind, end) {
            (Kind::Request, end) => self.request_over(&context, &end, now),
            (Kind::Reply(_), End::Dropped) => self.metrics.dropped(SipDrop::Script),
            (Kind::Reply(_), End::Normal | End::Failed(_)) if context.forwarded => {}
            (Kind::Reply(_), End::Normal) => self.pass_reply(context.draft),
            (Kind::Reply(came), End::Failed(_)) => {
                let (message, received) = *came;
                self.pass_reply(Draft::new(message, received));
            }
        }
    }

    pub(super) fn forward_reply(&mut self, draft: &Draft) {
        match self.generation.sending.reply(draft) {
            ReplyOutcome::Now(Ok(())) => {}
            ReplyOutcome::Now(Err(ReplyDrop::NoVia)) => self.metrics.dropped(SipDrop::NoVia),
            ReplyOutcome::Now(Err(ReplyDrop::BadVia)) => self.metrics.dropped(SipDrop::NoWay),
            ReplyOutcome::Later(_) if self.is_crowded() => {
                self.metrics.dropped(SipDrop::Overload);
            }
            ReplyOutcome::Later(sent) => {
                let call = hash(draft.message.call_id());
                self.begin(call, async move {
                    sent.await;
                    Done { call, then: Then::Nothing }
                });
            }
        }
    }

    /// Sends what a step left.
    fn take_effects(&mut self, context: &mut Context) {
        for effect in std::mem::take(&mut context.effects) {
            match effect {
                Effect::Send { way, bytes, code } => self.send(&way, bytes, code),
                Effect::Reply { code, reason, lines } => {
                    self.reply_with(context, code, reason, lines);
                }
            }
        }
    }

    /// A reply to a request that was made here.
    pub(super) fn answer(&mut self, draft: &Draft, code: u16, reason: &[u8], now: Instant) {
        let env = Rc::clone(&self.generation.env);
        let mut out = Vec::with_capacity(512);
        let back = env.sl.borrow_mut().reply(draft, code, reason, now, &mut out);
        if let Some(back) = back {
            self.send(&Way::back(back, draft), out.into(), code);
        }
    }

    fn send(&self, way: &Way, bytes: Bytes, code: u16) {
        let sent = move |metrics: &SipRouterMetrics| metrics.reply_sent(code);
        self.home.send(&self.generation.sending.transports, way, bytes, sent);
    }
}

/// A reply that has no way back.
pub(super) const NO_WAY: Failure = Failure { code: 500, reason: "Server Internal Error" };

fn resume(mut suspended: Suspended, result: Result<(), Failure>, now: Instant) -> Step {
    let value = match result {
        Ok(()) => 1,
        Err(failure) => {
            suspended.context().draft.failure = Some(failure);
            -1
        }
    };
    suspended.resume(value, now)
}

/// Whether a datagram holds as much of a body as it says (RFC 3261 18.3).
fn length_fits(message: &Message) -> bool {
    match message.content_length() {
        ContentLength::Missing => true,
        ContentLength::Bytes(length) => length <= message.body().len() as u64,
        ContentLength::Bad => false,
    }
}

/// What a connection is told before it is closed because of what came on it: 400, where a
/// request can be made out (S-19).
pub(super) fn refusal(
    error: &StreamError,
    received: Received,
    env: &ScriptEnv,
    limits: &Limits,
    now: Instant,
) -> Option<Bytes> {
    let message = Message::parse(error.headers.clone()?, limits).ok()?;
    let reason: &[u8] = match error.fault {
        StreamFault::TooLarge => b"Content-Length Too Large",
        _ => b"Bad Content-Length",
    };
    let mut out = Vec::with_capacity(512);
    let draft = Draft::new(message, received);
    env.sl.borrow_mut().reply(&draft, 400, reason, now, &mut out)?;
    Some(out.into())
}
