//! Wait tokens and waiting calls: who wants to know when a target takes records again (2.3, 2.4).
//!
//! All tokens of a target end with one edge. Of its calls one at a time is woken: when it got its
//! record in, or went away, the next one is, so that room for one record wakes one call and not a
//! thousand.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;

use super::counted::Counted;
use super::links::{LinkKey, State};
use super::routes::RouteKey;
use super::{Completion, CompletionId, Core, EndpointId, Origin, Outcome, Submit, WaiterId};
use crate::zmp::outcome::{Errno, SubmitError, SubmitResult};
use crate::zmp::record::{RoutingId, SocketKind};

/// What a NONE call of a DEALER waits for (D-N2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pin {
    /// What this side dials.
    Endpoint(EndpointId),
    /// A peer that dialled, by its routing id; whichever side makes its next link.
    Peer(Bytes),
}

/// Where somebody waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// DEALER: any peer, for a send.
    Any,
    /// DEALER: any ROUTER, for a request.
    AnyRouter,
    /// DEALER: one peer.
    Pinned(Pin),
    /// ROUTER: one routing id.
    Route(RouteKey),
    /// ROUTER: one routing id, for a reply.
    Reply(RouteKey),
}

/// A wait token.
#[derive(Debug)]
struct Token {
    context: u64,
    claim: bool,
}

/// A waiting call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) place: Place,
    pub(super) target: Option<RoutingId>,
    pub(super) submit: Submit,
    pub(super) context: u64,
    /// It never will be.
    pub(super) failed: Option<SubmitError>,
}

/// Who waits in one place.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// In the order of their ids, which is that of time.
    tokens: BTreeMap<u64, Token>,
    calls: BTreeSet<WaiterId>,
    /// The call that was woken and has not tried again.
    baton: Option<WaiterId>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.calls.is_empty()
    }
}

/// Everybody who waits.
#[derive(Debug, Default)]
pub(super) struct Waits {
    any: Waiting,
    any_router: Waiting,
    pinned: HashMap<Pin, Waiting>,
    /// Where each token is.
    tokens: Counted<Place>,
    pub(super) calls: Counted<Call>,
    last_call: u64,
}

impl Waits {
    #[cfg(test)]
    pub(super) fn token_count(&self) -> usize {
        self.tokens.len()
    }
}

impl Core {
    fn waiting(&mut self, place: &Place) -> Option<&mut Waiting> {
        match place {
            Place::Any => Some(&mut self.waits.any),
            Place::AnyRouter => Some(&mut self.waits.any_router),
            Place::Pinned(pin) => self.waits.pinned.get_mut(pin),
            Place::Route(key) => self.routes.get_mut(*key).map(|route| &mut route.waiting),
            Place::Reply(key) => self.routes.get_mut(*key).map(|route| &mut route.replying),
        }
    }

    /// Room for one more token or request (D-W9).
    pub(super) fn has_reservation(&self) -> bool {
        self.requests.reserved < self.options.reservations
    }

    /// Registers a token; the target was looked at in the same step, so no edge is lost (D-W4).
    pub(super) fn issue_token(
        &mut self,
        place: Place,
        context: u64,
    ) -> Result<CompletionId, SubmitError> {
        if !self.has_reservation() {
            return Err(SubmitError::new(SubmitResult::OutOfMemory, Errno::ENOMEM));
        }
        let id = self.requests.next_id()?;
        self.requests.reserved += 1;
        self.counters.tokens_issued += 1;
        if let Some(waiting) = self.waiting(&place) {
            waiting.tokens.insert(id.0.get(), Token { context, claim: false });
        }
        self.waits.tokens.insert(id.0.get(), place);
        Ok(id)
    }

    /// From now on this token's record does not go through the queue (it is taken out of it if it
    /// is there already). False when there is no such token and no record of it.
    pub fn claim_token(&mut self, token: CompletionId) -> bool {
        let Some(place) = self.waits.tokens.get(&token.0.get()).cloned() else {
            return self.claim_queued(token);
        };
        let waiting = self.waiting(&place);
        let found = waiting.and_then(|waiting| waiting.tokens.get_mut(&token.0.get()));
        let Some(found) = found else { return false };
        found.claim = true;
        self.expect_claim(token);
        true
    }

    /// Ends a token without a record.
    pub(super) fn drop_token(&mut self, id: CompletionId) {
        let Some(place) = self.waits.tokens.remove(&id.0.get()) else { return };
        if let Some(waiting) = self.waiting(&place) {
            waiting.tokens.remove(&id.0.get());
        }
        self.requests.reserved -= 1;
        self.counters.tokens_finished += 1;
    }

    /// Ends all tokens of a place, each with its record.
    pub(super) fn finish_tokens(&mut self, place: &Place, outcome: Outcome) {
        let peer = match place {
            Place::Route(key) | Place::Reply(key) => {
                self.routes.get(*key).map(|route| route.id.clone())
            }
            _ => None,
        };
        let Some(waiting) = self.waiting(place) else { return };
        for (id, token) in std::mem::take(&mut waiting.tokens) {
            self.waits.tokens.remove(&id);
            self.counters.tokens_finished += 1;
            let Some(id) = std::num::NonZeroU64::new(id).map(CompletionId) else { continue };
            let completion = Completion {
                id,
                context: token.context,
                peer: peer.clone(),
                outcome: outcome.clone(),
            };
            self.append(completion, token.claim, None);
        }
    }

    /// The socket closes: tokens end silently (D-W7), calls learn it.
    pub(super) fn end_waits(&mut self) {
        self.counters.tokens_finished += self.waits.tokens.len() as u64;
        self.waits.tokens.clear();
        self.waits.any = Waiting::default();
        self.waits.any_router = Waiting::default();
        self.waits.pinned.clear();
        self.routes.end_waits();
        let mut calls: Vec<_> = self.waits.calls.keys().copied().collect();
        calls.sort_unstable();
        for call in calls {
            self.wakes.waiter(WaiterId(call));
        }
    }

    // ---- edges --------------------------------------------------------------------------------

    /// Submitting to this link is worth it again (D-W2).
    pub(super) fn edge(&mut self, key: LinkKey) {
        let Some(link) = self.links.get(key) else { return };
        if link.state != State::Active {
            return;
        }
        if self.options.kind == SocketKind::Router {
            if let Some(route) = link.route {
                self.open_place(&Place::Route(route));
            }
            return;
        }
        let router = link.peer == SocketKind::Router;
        if !self.waits.pinned.is_empty() {
            let (origin, id) = (link.origin.clone(), link.id.clone());
            if let Origin::Dialled(endpoint) = origin {
                self.open_place(&Place::Pinned(Pin::Endpoint(endpoint)));
            }
            self.open_place(&Place::Pinned(Pin::Peer(id)));
        }
        self.open_place(&Place::Any);
        if router {
            self.open_place(&Place::AnyRouter);
        }
    }

    /// Replying to this link is worth it again.
    pub(super) fn reply_edge(&mut self, key: LinkKey) {
        let Some(route) = self.links.get(key).and_then(|link| link.route) else { return };
        let place = Place::Reply(route);
        if self.waiting(&place).is_none_or(|waiting| waiting.is_empty()) {
            return;
        }
        self.finish_tokens(&place, Outcome::Writable);
        // These calls say nothing when they tried in vain, so that each of them is woken.
        self.wake_calls(&place);
    }

    /// Ends the tokens of a place and wakes its first call.
    pub(super) fn open_place(&mut self, place: &Place) {
        let Some(waiting) = self.waiting(place) else { return };
        if waiting.is_empty() {
            return;
        }
        self.finish_tokens(place, Outcome::Writable);
        self.pass_baton(place);
    }

    /// Wakes the first call of a place, if none is awake.
    fn pass_baton(&mut self, place: &Place) {
        let Some(waiting) = self.waiting(place) else { return };
        if waiting.baton.is_some() {
            return;
        }
        if let Some(&first) = waiting.calls.first() {
            waiting.baton = Some(first);
            self.wakes.waiter(first);
        }
    }

    fn wake_calls(&mut self, place: &Place) {
        let Some(waiting) = self.waiting(place) else { return };
        let calls: Vec<_> = waiting.calls.iter().copied().collect();
        for call in calls {
            self.wakes.waiter(call);
        }
    }

    /// The target of a place was removed (D-W6, D-N6).
    pub(super) fn remove_place(&mut self, place: &Place) {
        self.finish_tokens(place, Outcome::Removed);
        let Some(waiting) = self.waiting(place) else { return };
        let calls: Vec<_> = waiting.calls.iter().copied().collect();
        for id in calls {
            if let Some(call) = self.waits.calls.get_mut(&id.0) {
                call.failed = Some(SubmitError::new(SubmitResult::NotFound, Errno::ENOENT));
            }
            self.wakes.waiter(id);
        }
    }

    // ---- calls --------------------------------------------------------------------------------

    /// A call begins to wait.
    pub(super) fn add_call(&mut self, call: Call) -> WaiterId {
        self.waits.last_call += 1;
        let id = WaiterId(self.waits.last_call);
        self.place_call(id, &call.place);
        self.waits.calls.insert(id.0, call);
        id
    }

    fn place_call(&mut self, id: WaiterId, place: &Place) {
        if let Place::Pinned(pin) = place {
            self.waits.pinned.entry(pin.clone()).or_default();
        }
        if let Some(waiting) = self.waiting(place) {
            waiting.calls.insert(id);
        }
    }

    /// Takes a call out of its place. True when it was awake: another one has its chance.
    fn unplace_call(&mut self, id: WaiterId, place: &Place) -> bool {
        let Some(waiting) = self.waiting(place) else { return false };
        waiting.calls.remove(&id);
        let awake = waiting.baton == Some(id);
        if awake {
            waiting.baton = None;
        }
        if let Place::Pinned(pin) = place
            && self.waits.pinned.get(pin).is_some_and(Waiting::is_empty)
        {
            self.waits.pinned.remove(pin);
        }
        awake
    }

    /// The call tried in vain and goes on waiting, perhaps for something else.
    pub(super) fn call_waits(&mut self, id: WaiterId, place: Place) {
        let Some(call) = self.waits.calls.get_mut(&id.0) else { return };
        let old = std::mem::replace(&mut call.place, place.clone());
        if old == place {
            if let Some(waiting) = self.waiting(&place)
                && waiting.baton == Some(id)
            {
                waiting.baton = None;
            }
            return;
        }
        let awake = self.unplace_call(id, &old);
        self.place_call(id, &place);
        if awake {
            self.pass_baton(&old);
        }
    }

    /// The call is over.
    pub(super) fn remove_call(&mut self, id: WaiterId) -> Option<Call> {
        let call = self.waits.calls.remove(&id.0)?;
        if self.unplace_call(id, &call.place) {
            self.pass_baton(&call.place);
        }
        if let Place::Route(route) | Place::Reply(route) = call.place {
            self.tidy_route(route);
        }
        Some(call)
    }

    /// Nobody waits any more: the call was dropped.
    pub fn forget(&mut self, waiter: WaiterId) {
        self.remove_call(waiter);
    }
}

/// What a call that waits for this link is pinned to.
pub(super) fn pin_of(origin: &Origin, id: &Bytes) -> Pin {
    match origin {
        Origin::Dialled(endpoint) => Pin::Endpoint(*endpoint),
        Origin::Accepted(_) => Pin::Peer(id.clone()),
    }
}
