//! What the router does about transactions: finds them, begins them, and hands messages to them.

use actix::Addr;
use bytes::Bytes;
use lineway_wire::sip::draft::{Draft, Failure};
use lineway_wire::sip::message::{Limits, Message, Method, Name};
use lineway_wire::sip::own::Received;
use lineway_wire::sip::transaction::Kind;
use std::rc::Rc;
use std::time::Instant;
use tokio::sync::oneshot;

use super::admission::RETRY_AFTER;
use super::core::{Core, OVERLOADED};
use super::sending::{Outcome, result_of};
use crate::metrics::{SipCancelFound, SipRefused};
use crate::settings::UnmatchedCancel;
use crate::sip::ring::Arrival;
use crate::sip::script::tm::{RelayTo, TimingChange, TmWant};
use crate::sip::script::{Context, End};
use crate::sip::transaction::{
    Acked, Again, Asked, Begin, Cancelled, Entry, First, Relay, RelayWay, Release, Replied,
    ReplyWith, SipTransaction, Times,
};

/// What a script is told.
pub(super) enum Answer {
    /// At once.
    Now(i64),
    /// `t_relay()` takes time.
    Later(oneshot::Receiver<Result<(), Failure>>),
}

const YES: Answer = Answer::Now(1);
const DONE: Answer = Answer::Now(0);
const NO: Answer = Answer::Now(-1);

/// The reason phrases of the 200 to a CANCEL (R55).
const CANCELING: &[u8] = b"canceling";
const NO_MORE: &[u8] = b"ok -- no more pending branches";

impl Core {
    /// Does what a script wants of transactions.
    pub(super) fn tm(&mut self, want: TmWant, context: &mut Context) -> Answer {
        if !context.draft.message.is_request() {
            return self.of_reply(&want, &context.draft);
        }
        match want {
            TmWant::Relay(to) => self.relay(to, context),
            TmWant::NewTransaction => self.new_transaction(context),
            TmWant::Reply { code, reason } => self.begin_with_reply(code, reason, context),
            TmWant::CheckTrans => self.check(context),
            TmWant::PrecheckTrans => {
                let entry = self.find(&context.draft);
                if entry.is_some() { YES } else { NO }
            }
            TmWant::LookupRequest => {
                let entry = self.of(context).or_else(|| self.find(&context.draft));
                context.tm.transaction = entry.as_ref().and_then(|entry| entry.id.get().copied());
                if entry.is_some() { YES } else { NO }
            }
            TmWant::LookupCancel => match self.cancelled_by(&context.draft) {
                Some(_) => YES,
                None => NO,
            },
            TmWant::Release => match self.of(context).and_then(|entry| main(&entry)) {
                Some(main) => {
                    main.do_send(Release);
                    YES
                }
                None => NO,
            },
        }
    }

    /// The same in the reply route.
    fn of_reply(&self, want: &TmWant, draft: &Draft) -> Answer {
        let found = self.home.table.borrow().find_reply(&draft.message);
        match want {
            TmWant::CheckTrans | TmWant::LookupRequest if found.is_some() => YES,
            _ => NO,
        }
    }

    /// The transaction that the context has.
    fn of(&self, context: &Context) -> Option<Rc<Entry>> {
        self.home.entry(context.tm.transaction?)
    }

    /// The transaction of which a request is a copy.
    pub(super) fn find(&self, draft: &Draft) -> Option<Rc<Entry>> {
        let id = self.home.table.borrow().find(&draft.message, draft.received.transport)?;
        self.home.entry(id)
    }

    /// The INVITE that a CANCEL cancels.
    fn cancelled_by(&self, draft: &Draft) -> Option<Rc<Entry>> {
        if draft.message.method() != Method::Cancel {
            return None;
        }
        let transport = draft.received.transport;
        let id = self.home.table.borrow().find_cancelled(&draft.message, transport)?;
        self.home.entry(id)
    }

    /// The INVITE whose ACK this is, if that ends here.
    fn acked_by(&self, draft: &Draft) -> Option<Rc<Entry>> {
        let transport = draft.received.transport;
        let id = self.home.table.borrow().find_acked(&draft.message, transport)?;
        self.home.entry(id)
    }

    fn check(&mut self, context: &mut Context) -> Answer {
        let draft = &context.draft;
        match draft.message.method() {
            Method::Ack => {
                if self.acked(draft) {
                    DONE
                } else {
                    NO
                }
            }
            Method::Cancel => {
                if self.again(draft) {
                    return DONE;
                }
                if self.cancelled_by(draft).is_some() { YES } else { NO }
            }
            _ if context.tm.transaction.is_some() => YES,
            _ if self.again(draft) => DONE,
            _ => NO,
        }
    }

    /// Hands the ACK of a failure, or of a 2xx that was made here, to its transaction, where it
    /// ends; false where there is none.
    fn acked(&mut self, draft: &Draft) -> bool {
        let Some(entry) = self.acked_by(draft) else { return false };
        if let Some(main) = main(&entry) {
            let hold = self.hold(&draft.message);
            main.do_send(Acked(hold));
        }
        true
    }

    /// Hands a copy of a request to its transaction; false where there is none.
    fn again(&mut self, draft: &Draft) -> bool {
        let Some(main) = self.find(draft).and_then(|entry| main(&entry)) else { return false };
        let hold = self.hold(&draft.message);
        main.do_send(Again(hold));
        true
    }

    fn relay(&mut self, to: Option<RelayTo>, context: &mut Context) -> Answer {
        let to = to.map(|to| to.uri());
        match context.draft.message.method() {
            Method::Ack => {
                if self.acked(&context.draft) {
                    return YES;
                }
                return self.stateless(to.as_deref(), context);
            }
            Method::Cancel if context.tm.transaction.is_none() => {
                if self.again(&context.draft) {
                    return YES;
                }
                if let Some(entry) = self.cancelled_by(&context.draft) {
                    self.metrics.transactions.cancel(SipCancelFound::Matched);
                    return self.cancel(&entry, context);
                }
                self.metrics.transactions.cancel(SipCancelFound::Unmatched);
                match context.env.settings.stateful.unmatched_cancel {
                    UnmatchedCancel::Relay => {}
                    UnmatchedCancel::Stateless => return self.stateless(to.as_deref(), context),
                    UnmatchedCancel::Drop => return YES,
                }
            }
            _ => {}
        }
        let draft = &context.draft;
        let own = context
            .tm
            .used
            .as_ref()
            .is_none_or(|(uri, to)| uri[..] != *draft.uri() || *to != draft.dst_uri);
        let own = own || to.is_some();
        let is_nothing = !own && draft.branches.is_empty();
        let way = RelayWay { to, own };
        context.tm.used = Some((Bytes::copy_from_slice(draft.uri()), draft.dst_uri.clone()));
        if let Some(entry) = self.of(context) {
            if is_nothing {
                // They have been tried, or are being tried: it is no error of the call.
                return NO;
            }
            return Self::relay_more(&entry, way, context);
        }
        if self.again(&context.draft) {
            return YES;
        }
        let Some((entry, asked)) = self.begin_transaction(context, First::Relay(way)) else {
            return NO;
        };
        context.tm.transaction = entry.id.get().copied();
        match asked {
            Asked::Now(result) => Answer::Now(relayed(context, result)),
            Asked::Later(asked) => Answer::Later(asked),
        }
    }

    /// `t_relay()` of a request whose transaction is there already.
    fn relay_more(entry: &Entry, way: RelayWay, context: &mut Context) -> Answer {
        let Some(main) = main(entry) else { return NO };
        let (answer, asked) = oneshot::channel();
        main.do_send(Relay {
            draft: Box::new(context.draft.clone()),
            vars: context.vars.kept(),
            armed: context.tm.armed.clone(),
            timing: std::mem::take(&mut context.tm.timing),
            way,
            answer,
        });
        Answer::Later(asked)
    }

    /// Sends an ACK or a CANCEL on without state.
    fn stateless(&mut self, to: Option<&[u8]>, context: &mut Context) -> Answer {
        let sending = Rc::clone(&self.generation.sending);
        match sending.request(&context.draft, to) {
            Outcome::Now(result) => Answer::Now(relayed(context, result)),
            Outcome::Later(_) if self.is_crowded() => {
                Answer::Now(relayed(context, Err(OVERLOADED)))
            }
            Outcome::Later(sent) => {
                let (answer, asked) = oneshot::channel();
                tokio::task::spawn_local(async move {
                    let _ = answer.send(sent.await);
                });
                Answer::Later(asked)
            }
        }
    }

    fn new_transaction(&mut self, context: &mut Context) -> Answer {
        if context.tm.transaction.is_some() || context.draft.message.method() == Method::Ack {
            return NO;
        }
        if self.again(&context.draft) {
            return DONE;
        }
        let Some((entry, _)) = self.begin_transaction(context, First::Wait) else { return NO };
        context.tm.transaction = entry.id.get().copied();
        YES
    }

    fn begin_with_reply(&mut self, code: u16, reason: Bytes, context: &mut Context) -> Answer {
        if context.draft.message.method() == Method::Ack {
            return NO;
        }
        if self.again(&context.draft) {
            return DONE;
        }
        let first = First::Reply(code, reason);
        let Some((entry, _)) = self.begin_transaction(context, first) else { return NO };
        context.tm.transaction = entry.id.get().copied();
        context.answered |= code >= 200;
        YES
    }

    /// Begins a transaction, unless there are too many: that is answered without state then.
    fn begin_transaction(
        &mut self,
        context: &mut Context,
        first: First,
    ) -> Option<(Rc<Entry>, Asked)> {
        if self.is_full(context) {
            self.metrics.transactions.refused(SipRefused::Limit);
            context.draft.reply_lines.push(RETRY_AFTER);
            self.answer(&context.draft, OVERLOADED.code, OVERLOADED.reason.as_bytes(), context.now);
            context.answered = true;
            return None;
        }
        Some(self.start_transaction(context, first))
    }

    /// Whether there are as many transactions as there may be.
    fn is_full(&self, context: &Context) -> bool {
        self.home.shared.transactions() >= context.env.settings.stateful.max_transactions
    }

    fn start_transaction(&self, context: &mut Context, first: First) -> (Rc<Entry>, Asked) {
        SipTransaction::begin(Begin {
            home: Rc::clone(&self.home),
            generation: Rc::clone(&self.generation),
            draft: context.draft.clone(),
            vars: context.vars.kept(),
            armed: context.tm.armed.clone(),
            timing: std::mem::take(&mut context.tm.timing),
            groups: std::mem::take(&mut context.tm.groups),
            first,
        })
    }

    /// A CANCEL gets a transaction of its own, which answers it, and its INVITE hears of it (R53).
    fn cancel(&mut self, invite: &Rc<Entry>, context: &mut Context) -> Answer {
        let reason = if invite.open.get() { CANCELING } else { NO_MORE };
        if self.is_full(context) {
            // What ends a call is not refused, or there would never be room again.
            self.answer(&context.draft, 200, reason, context.now);
        } else {
            let first = First::Reply(200, Bytes::from_static(reason));
            let (entry, _) = self.start_transaction(context, first);
            context.tm.transaction = entry.id.get().copied();
        }
        context.answered = true;
        invite.cancelled.set(true);
        if let Some(main) = main(invite) {
            let message = &context.draft.message;
            let lines = message.named(b"Reason");
            let reasons = lines.map(|header| message.bytes().slice(header.line)).collect();
            let hold = self.hold(message);
            main.do_send(Cancelled { reasons, hold });
        }
        YES
    }

    /// A stateful reply of the request route.
    pub(super) fn reply_with(
        &mut self,
        context: &Context,
        code: u16,
        reason: Bytes,
        lines: Vec<Bytes>,
    ) {
        if let Some(main) = self.of(context).and_then(|entry| main(&entry)) {
            let hold = self.hold(&context.draft.message);
            let redirects = (300..400).contains(&code);
            let draft = redirects.then(|| Box::new(context.draft.clone()));
            main.do_send(ReplyWith { code, reason, lines, draft, hold });
        }
    }

    /// The request route is over: what it owes the caller is paid.
    pub(super) fn request_over(&mut self, context: &Context, end: &End, now: Instant) {
        if context.tm.timing != TimingChange::default()
            && let Some(main) = self.of(context).and_then(|entry| main(&entry))
        {
            main.do_send(Times(context.tm.timing));
        }
        let failure = match (end, context.tm.owed) {
            (End::Failed(_), _) if !context.answered => {
                Failure { code: 500, reason: "Server Internal Error" }
            }
            (_, Some(owed)) if !context.answered => owed,
            _ => {
                if let Some(entry) = self.of(context)
                    && entry.status.get() < 200
                    && entry.branches.borrow().is_empty()
                    && !context.answered
                    && let Some(main) = main(&entry)
                {
                    // Nothing was done with it.
                    main.do_send(Release);
                }
                return;
            }
        };
        match self.of(context) {
            Some(entry) if entry.status.get() >= 200 => {}
            Some(_) => {
                let reason = match (end, failure.reason) {
                    (End::Failed(_), reason) => reason.to_owned(),
                    (_, "") => "I'm terribly sorry, server error occurred (1/TM)".to_owned(),
                    (_, reason) => format!("{reason} ({}/TM)", failure.code),
                };
                let lines = context.draft.reply_lines.clone();
                self.reply_with(context, failure.code, reason.into(), lines);
            }
            None if matches!(end, End::Failed(_)) => {
                self.answer(&context.draft, failure.code, failure.reason.as_bytes(), now);
            }
            None => {}
        }
    }

    /// A reply behind the reply route: to its branch, or on without state (R27, R157).
    pub(super) fn pass_reply(&mut self, draft: Draft) {
        let found = self.home.table.borrow().find_reply(&draft.message);
        let branch = found.and_then(|found| {
            let entry = self.home.entry(found.id)?;
            let branches = entry.branches.borrow();
            let address = branches.get(usize::from(found.branch))?.address.clone()?;
            Some((address, found.of_cancel))
        });
        match branch {
            None => self.forward_reply(&draft),
            Some((address, of_cancel)) => {
                let hold = self.hold(&draft.message);
                address.do_send(Replied { draft: Box::new(draft), of_cancel, hold });
            }
        }
    }

    /// A message has to wait behind its call; a CANCEL is in force at once, so that no further
    /// branch is made (contract 9).
    pub(super) fn look_ahead(&self, arrival: &Arrival) {
        if !arrival.bytes.starts_with(b"CANCEL ") {
            return;
        }
        let Received { transport, .. } = arrival.received;
        let Ok(message) = Message::parse(arrival.bytes.clone(), &Limits::default()) else { return };
        let id = self.home.table.borrow().find_cancelled(&message, transport);
        if let Some(entry) = id.and_then(|id| self.home.entry(id))
            && entry.kind == Kind::Invite
            && message.first(Name::CSeq).is_some()
        {
            entry.cancelled.set(true);
        }
    }
}

/// What `t_relay()` gives, and what the request route owes for it.
pub(in crate::sip) fn relayed(context: &mut Context, result: Result<(), Failure>) -> i64 {
    match result {
        Ok(()) => {
            context.tm.owed = None;
            1
        }
        Err(failure) => {
            context.draft.failure = Some(failure);
            context.tm.owed = Some(failure);
            result_of(failure)
        }
    }
}

fn main(entry: &Entry) -> Option<Addr<SipTransaction>> {
    entry.main.get().cloned()
}
