//! What is refused before the script sees it, and the end of a router.

use std::rc::Rc;
use std::time::Instant;

use actix::prelude::*;
use bytes::Bytes;
use lineway_wire::sip::breadth;
use lineway_wire::sip::draft::{Draft, Failure};
use lineway_wire::sip::message::Method;
use lineway_wire::sip::strict;

use super::SipRouter;
use super::core::{Core, OVERLOADED};
use crate::metrics::SipRefused;

/// When a caller may try again that got a 503 from here.
pub(super) const RETRY_AFTER: Bytes = Bytes::from_static(b"Retry-After: 10\r\n");

/// New calls are refused from here on. The result is how many transactions live on this worker, and
/// calls whose messages are being handled.
#[derive(Message)]
#[rtype(result = "usize")]
pub(super) struct Drain;

impl Handler<Drain> for SipRouter {
    type Result = usize;

    fn handle(&mut self, _: Drain, _: &mut Self::Context) -> usize {
        let home = &self.belongings.home;
        home.drains.set(true);
        let waiting = self.core.calls.len() + self.belongings.ring.load().1;
        home.table.borrow().len() + waiting
    }
}

impl Core {
    /// Whether a request is refused as it comes in; it has its answer then.
    pub(super) fn refuses(&mut self, draft: &mut Draft, now: Instant) -> bool {
        let Some((failure, lines)) = self.refusal_of(draft) else { return false };
        draft.reply_lines.extend(lines);
        self.answer(draft, failure.code, failure.reason.as_bytes(), now);
        true
    }

    /// What a request is refused with: while the router drains a call that would begin, then what
    /// the settings say.
    fn refusal_of(&self, draft: &mut Draft) -> Option<(Failure, Vec<Bytes>)> {
        let message = &draft.message;
        if self.home.drains.get()
            && message.method() == Method::Invite
            && message.to().tag().is_none()
            && self.find(draft).is_none()
        {
            self.metrics.transactions.refused(SipRefused::Drain);
            return Some((OVERLOADED, vec![RETRY_AFTER]));
        }
        let env = Rc::clone(&self.generation.env);
        let settings = &env.settings.stateful;
        if settings.strict_answers
            && let Some(refused) = strict::check(draft, &env.own)
        {
            return Some(refused);
        }
        if settings.loop_detection
            && let Some(failure) = breadth::detect(draft, &env.own)
        {
            return Some((failure, Vec::new()));
        }
        None
    }
}
