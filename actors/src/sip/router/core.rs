//! What a worker does with the messages of its calls: parse, run the script, send what it decided.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
use crate::metrics::{SipDrop, SipRouterMetrics};
use crate::sip::back::Way;
use crate::sip::ring::Arrival;
use crate::sip::script::{Context, Effect, End, Route, Script, ScriptError, Step, Suspended, Want};
use crate::sip::shared::ScriptEnv;
use crate::sip::transport::Sent;

/// Invocations that may wait for the network on one worker.
const MOST_SUSPENDED: usize = 4096;

/// Places of script errors that are remembered.
const MOST_TOLD: usize = 256;

/// How often the script error of one place is logged at most.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What a request gets that would wait when too many do.
const OVERLOADED: Failure = Failure { code: 503, reason: "Service Unavailable" };

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
pub(super) struct Generation {
    pub(super) script: Rc<Script>,
    pub(super) env: Rc<ScriptEnv>,
    pub(super) sending: Rc<Sending>,
}

/// What handles the messages of one worker.
pub(super) struct Core {
    pub(super) generation: Rc<Generation>,
    limits: Limits,
    metrics: Arc<SipRouterMetrics>,
    node: Arc<str>,
    calls: Calls,
    begun: Vec<Job>,
    /// The script errors that were logged, by their place.
    told: HashMap<(Arc<str>, u32), Told>,
}

/// A script error that was logged.
struct Told {
    /// When last.
    at: Option<Instant>,
    /// How often it came since, and was not.
    untold: u64,
}

impl Core {
    pub(super) fn new(generation: Rc<Generation>, limits: Limits, node: Arc<str>) -> Self {
        let metrics = Arc::clone(&generation.sending.metrics);
        let (calls, begun) = (Calls::default(), Vec::new());
        Self { generation, limits, metrics, node, calls, begun, told: HashMap::new() }
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
        let draft = Draft::new(message, received);
        if length_is_wrong {
            return self.answer(&draft, 400, b"Bad Content-Length", now);
        }
        let context = self.context(draft, now);
        let step = Rc::clone(&self.generation).script.start(Route::Request, context);
        self.go_on(Kind::Request, step, now);
    }

    fn reply(&mut self, message: Message, received: Received, now: Instant) {
        if received.transport == Transport::Udp && !length_fits(&message) {
            return self.metrics.dropped(SipDrop::BadLength);
        }
        if !self.generation.script.has(Route::Reply) {
            let draft = Draft::new(message, received);
            return self.forward_reply(&draft);
        }
        let kind = Kind::Reply(Box::new((message.clone(), received)));
        let context = self.context(Draft::new(message, received), now);
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
            self.take_effect(&mut context.effects);
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
                Want::Tm(_) => Outcome::Now(Err(NO_WAY)),
            };
            let result = match outcome {
                Outcome::Now(result) => result,
                Outcome::Later(_) if self.calls.len() >= MOST_SUSPENDED => Err(OVERLOADED),
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

    fn begin(&mut self, call: CallKey, job: impl Future<Output = Done> + 'static) {
        self.calls.enter(call);
        self.begun.push(Box::pin(job));
    }

    /// A job is over: its invocation goes on, then what waited behind it.
    pub(super) fn done(&mut self, done: Done, now: Instant) {
        if let Then::Resume(kind, suspended, result) = done.then {
            self.metrics.suspended.dec();
            let step = resume(*suspended, result, now);
            self.go_on(kind, step, now);
        }
        self.calls.leave(done.call);
        while let Some(arrival) = self.calls.next(done.call) {
            self.metrics.waiting.dec();
            self.handle(arrival, now);
        }
    }

    fn ended(&mut self, kind: Kind, mut context: Context, end: End, now: Instant) {
        self.take_effect(&mut context.effects);
        if let End::Failed(error) = &end {
            self.failed(error, &context.draft.message, now);
        }
        match (kind, end) {
            (Kind::Request, End::Failed(_)) if !context.answered => {
                self.answer(&context.draft, 500, b"Server Internal Error", now);
            }
            (Kind::Request, _) => {}
            (Kind::Reply(_), End::Dropped) => self.metrics.dropped(SipDrop::Script),
            (Kind::Reply(_), End::Normal | End::Failed(_)) if context.forwarded => {}
            (Kind::Reply(_), End::Normal) => self.forward_reply(&context.draft),
            (Kind::Reply(came), End::Failed(_)) => {
                let (message, received) = *came;
                self.forward_reply(&Draft::new(message, received));
            }
        }
    }

    /// Counts a script error, and logs it: for each place in the script one line a second, since
    /// what fails for one request may fail for all.
    fn failed(&mut self, error: &ScriptError, message: &Message, now: Instant) {
        self.metrics.script_error(error.kind);
        if self.told.len() >= MOST_TOLD {
            self.told.clear();
        }
        let place = (Arc::clone(&error.file), error.line);
        let told = self.told.entry(place).or_insert(Told { at: None, untold: 0 });
        if told.at.is_some_and(|at| now.duration_since(at) < TELL_EVERY) {
            told.untold += 1;
            return;
        }
        told.at = Some(now);
        let untold = std::mem::take(&mut told.untold);
        let method = String::from_utf8_lossy(message.method().as_bytes());
        let call_id = String::from_utf8_lossy(message.call_id());
        tracing::error!(
            node = %self.node, %error, %method, ?call_id, untold, "the script failed"
        );
    }

    fn forward_reply(&mut self, draft: &Draft) {
        match self.generation.sending.reply(draft) {
            ReplyOutcome::Now(Ok(())) => {}
            ReplyOutcome::Now(Err(ReplyDrop::NoVia)) => self.metrics.dropped(SipDrop::NoVia),
            ReplyOutcome::Now(Err(ReplyDrop::BadVia)) => self.metrics.dropped(SipDrop::NoWay),
            ReplyOutcome::Later(_) if self.calls.len() >= MOST_SUSPENDED => {
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
    fn take_effect(&mut self, effects: &mut Vec<Effect>) {
        for effect in effects.drain(..) {
            match effect {
                Effect::Send { way, bytes, code } => self.send(&way, bytes, code),
                Effect::Reply { .. } => {}
            }
        }
    }

    /// A reply to a request that was made here.
    fn answer(&mut self, draft: &Draft, code: u16, reason: &[u8], now: Instant) {
        let env = Rc::clone(&self.generation.env);
        let mut out = Vec::with_capacity(512);
        let back = env.sl.borrow_mut().reply(draft, code, reason, now, &mut out);
        if let Some(back) = back {
            self.send(&Way::back(back, draft), out.into(), code);
        }
    }

    fn send(&mut self, way: &Way, bytes: Bytes, code: u16) {
        match self.generation.sending.transports.send(way, bytes) {
            Sent::Done => self.metrics.reply_sent(code),
            Sent::Failed(error) => self.metrics.send_error(error),
            Sent::Later(sent) => {
                // Nothing of its call hangs on it.
                let metrics = Arc::clone(&self.metrics);
                tokio::task::spawn_local(async move {
                    match sent.await {
                        Ok(()) => metrics.reply_sent(code),
                        Err(error) => metrics.send_error(error),
                    }
                });
            }
        }
    }
}

/// A reply that has no way back.
const NO_WAY: Failure = Failure { code: 500, reason: "Server Internal Error" };

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
