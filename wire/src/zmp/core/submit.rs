//! Submitting records: who gets one, or why nobody does (2.2, 2.3, 3.2, 3.3).

use std::time::Instant;

use smallvec::SmallVec;

use super::links::{LinkKey, State};
use super::waiting::{Call, Pin, Place, pin_of};
use super::{Attempt, Core, Refused, Submit, Submitted, Target, WaiterId};
use crate::zmp::MOST_PARTS;
use crate::zmp::outcome::{Errno, SubmitError, SubmitResult};
use crate::zmp::record::{Charge, Kind, Lane, Record, RoutingId, SocketKind};
use crate::zmp::status::Drop;

/// Who gets a record.
enum Choice {
    Link(LinkKey),
    /// Nobody at the moment.
    Waits(Place),
    Fails(SubmitError),
    /// Nobody, and nobody is told (R-O1, X-6).
    Drops(Drop),
}

/// What became of one attempt.
enum Tried {
    Done(Submitted),
    Waits(Record, Place),
    Failed(Record, SubmitError),
}

/// What a record asks for, and whether its submitter waits.
#[derive(Clone, Copy)]
struct Wish {
    submit: Submit,
    context: u64,
    waits: bool,
    /// A waiting call is pinned to this link.
    only: Option<LinkKey>,
}

impl Wish {
    fn is_request(&self) -> bool {
        matches!(self.submit, Submit::Request { .. })
    }
}

const EAGAIN: SubmitError = SubmitError::new(SubmitResult::Backpressured, Errno::EAGAIN);
const NO_ROUTE: SubmitError = SubmitError::new(SubmitResult::NotConnected, Errno::EHOSTUNREACH);
const TOO_LARGE: SubmitError = SubmitError::new(SubmitResult::InvalidArgument, Errno::EMSGSIZE);

impl Core {
    /// DONTWAIT: one attempt (D-D1). Without room it gives a wait token with `context`.
    ///
    /// # Errors
    /// The record comes back.
    pub fn try_submit(
        &mut self,
        now: Instant,
        target: Target<'_>,
        record: Record,
        submit: Submit,
        context: u64,
    ) -> Result<Submitted, Box<Refused>> {
        let wish = Wish { submit, context, waits: false, only: None };
        match self.attempt(now, target, record, wish) {
            Tried::Done(submitted) => Ok(submitted),
            Tried::Failed(record, error) => Err(Box::new(Refused { record, error, token: None })),
            Tried::Waits(record, place) => match self.issue_token(place, context) {
                Ok(token) => {
                    self.counters.backpressured += 1;
                    Err(Box::new(Refused { record, error: EAGAIN, token: Some(token) }))
                }
                Err(error) => Err(Box::new(Refused { record, error, token: None })),
            },
        }
    }

    /// NONE: the first attempt. `Waits` has begun a wait of this id, whose limit the caller keeps.
    pub fn begin(
        &mut self,
        now: Instant,
        target: Target<'_>,
        record: Record,
        submit: Submit,
        context: u64,
    ) -> (Attempt, Option<WaiterId>) {
        let wish = Wish { submit, context, waits: true, only: None };
        match self.attempt(now, target, record, wish) {
            Tried::Done(submitted) => (Attempt::Done(submitted), None),
            Tried::Failed(record, error) => {
                (Attempt::Failed(Refused { record, error, token: None }), None)
            }
            Tried::Waits(record, place) => {
                let place = self.pin(place);
                let target = target.cloned();
                let waiter = self.add_call(Call { place, target, submit, context, failed: None });
                (Attempt::Waits(record), Some(waiter))
            }
        }
    }

    /// The next attempt of a waiting call, after its [`super::Wake::Waiter`].
    pub fn again(&mut self, now: Instant, waiter: WaiterId, record: Record) -> Attempt {
        let over = self.over(waiter);
        let Some(call) = self.waits.calls.get(&waiter.0) else {
            return Attempt::Failed(Refused { record, error: over.unwrap_or(CLOSED), token: None });
        };
        if let Some(error) = over {
            self.remove_call(waiter);
            return Attempt::Failed(Refused { record, error, token: None });
        }
        let (place, target) = (call.place.clone(), call.target.clone());
        let (submit, context) = (call.submit, call.context);
        let mut record = record;
        let mut only = None;
        loop {
            if let Place::Pinned(pin) = &place {
                match self.pinned_link(pin) {
                    Some((key, State::Active)) => only = Some(key),
                    // It stands by: another link of its peer is used.
                    Some(_) => {}
                    None => {
                        self.call_waits(waiter, place);
                        return Attempt::Waits(record);
                    }
                }
            }
            let wish = Wish { submit, context, waits: true, only };
            match self.attempt(now, target.as_ref(), record, wish) {
                Tried::Done(submitted) => {
                    self.remove_call(waiter);
                    return Attempt::Done(submitted);
                }
                Tried::Failed(record, error) => {
                    self.remove_call(waiter);
                    return Attempt::Failed(Refused { record, error, token: None });
                }
                Tried::Waits(back, wanted) => {
                    record = back;
                    if only.is_some_and(|tried| self.has_other_link(&place, tried)) {
                        continue;
                    }
                    let place = if only.is_some() { place } else { self.pin(wanted) };
                    self.call_waits(waiter, place);
                    return Attempt::Waits(record);
                }
            }
        }
    }

    /// A call is pinned to a peer with several links, of which another one has room.
    fn has_other_link(&self, place: &Place, tried: LinkKey) -> bool {
        let Place::Pinned(pin) = place else { return false };
        let next = self.pinned_link(pin).map(|(key, _)| key);
        next.is_some_and(|key| {
            key != tried && self.links.get(key).is_some_and(|link| link.writable)
        })
    }

    /// The time of a waiting call is over: what it ends with (D-N3, D-N4, X-6).
    pub fn give_up(&mut self, waiter: WaiterId) -> SubmitError {
        let over = self.over(waiter);
        let Some(call) = self.remove_call(waiter) else { return over.unwrap_or(CLOSED) };
        let error = over.unwrap_or_else(|| match &call.target {
            Some(id) if self.has_link(id) => EAGAIN,
            Some(_) => NO_ROUTE,
            None => self.expired(matches!(call.submit, Submit::Request { .. })),
        });
        self.counters.backpressured += u64::from(error == EAGAIN);
        error
    }

    /// What ends a call whatever happens.
    fn over(&self, waiter: WaiterId) -> Option<SubmitError> {
        let failed = self.waits.calls.get(&waiter.0).and_then(|call| call.failed);
        if self.closed { Some(CLOSED) } else { failed }
    }

    /// What a DEALER's call ends with that waited in vain: the peers that it knows decide.
    fn expired(&self, request: bool) -> SubmitError {
        let links = self.links.iter().filter(|link| link.is_ready());
        let gone = self.endpoints.dialled.values();
        let gone = gone.filter(|endpoint| endpoint.link.is_none());
        let gone = gone.filter_map(|endpoint| endpoint.known.as_ref());
        let mut known = links
            .map(|link| (link.peer, link.weight))
            .chain(gone.map(|known| (known.peer, known.weight)))
            .filter(|(peer, _)| !request || *peer == SocketKind::Router)
            .peekable();
        if known.peek().is_none() {
            return if request {
                SubmitError::new(SubmitResult::NotConnected, Errno::ENOTCONN)
            } else {
                EAGAIN
            };
        }
        if known.all(|(_, weight)| weight.get() == 0) {
            return SubmitError::new(SubmitResult::NotAdmitted, Errno::ECONNREFUSED);
        }
        EAGAIN
    }

    // ---- one attempt --------------------------------------------------------------------------

    fn attempt(&mut self, now: Instant, target: Target<'_>, record: Record, wish: Wish) -> Tried {
        let choice = match self.check(target, &record) {
            Err(error) => Choice::Fails(error),
            Ok(()) => match target {
                Some(id) => self.choose_by_id(id, &record, wish),
                None => self.choose_by_weight(&record, wish),
            },
        };
        let key = match choice {
            Choice::Link(key) => key,
            Choice::Waits(place) => return Tried::Waits(record, place),
            Choice::Fails(error) => {
                self.counters.backpressured += u64::from(error == EAGAIN);
                return Tried::Failed(record, error);
            }
            Choice::Drops(reason) => {
                self.counters.dropped[reason] += 1;
                return Tried::Done(None);
            }
        };
        let Submit::Request { timeout, claim } = wish.submit else {
            self.push(key, Lane::Application, Kind::Data, record);
            return Tried::Done(None);
        };
        let timeout = timeout.unwrap_or(self.options.request_timeout);
        let deadline = (now, now.checked_add(timeout));
        match self.open_request(key, deadline, target, wish.context, claim) {
            Ok((kind, id)) => {
                self.push(key, Lane::Application, kind, record);
                Tried::Done(Some(id))
            }
            Err(error) => Tried::Failed(record, error),
        }
    }

    /// Arguments, then the state of the socket (4.8).
    fn check(&mut self, target: Target<'_>, record: &Record) -> Result<(), SubmitError> {
        if target.is_some() != (self.options.kind == SocketKind::Router) {
            return Err(SubmitError::new(SubmitResult::InvalidArgument, Errno::EINVAL));
        }
        self.check_size(record)?;
        self.check_open()
    }

    /// The socket's own limit, and those of the wire (1.2).
    pub(super) fn check_size(&mut self, record: &Record) -> Result<(), SubmitError> {
        let limit = self.options.max_message_size;
        let frame = |part: &bytes::Bytes| u32::try_from(part.len()).is_ok();
        let parts = record.parts();
        let wire = parts.len() <= MOST_PARTS && parts.iter().all(frame);
        if (limit > 0 && record.payload() > limit) || !wire {
            self.counters.oversize_out += 1;
            return Err(TOO_LARGE);
        }
        Ok(())
    }

    pub(super) fn check_open(&self) -> Result<(), SubmitError> {
        if self.closed { Err(CLOSED) } else { Ok(()) }
    }

    /// A request needs a reservation and numbers before anything is chosen (D-R1, D-W8, D-W9).
    fn check_request(&self) -> Result<(), SubmitError> {
        if !self.has_reservation() {
            return Err(EAGAIN);
        }
        self.requests.check_numbers()
    }

    /// DEALER: the peer whose turn it is among those that can take the record (D-S1).
    fn choose_by_weight(&mut self, record: &Record, wish: Wish) -> Choice {
        let request = wish.is_request();
        if request && let Err(error) = self.check_request() {
            return Choice::Fails(error);
        }
        let waits = Choice::Waits(if request { Place::AnyRouter } else { Place::Any });
        let (charge, payload) = (record.charge(), record.payload());
        let hwm = self.options.send_hwm;
        if let Some(only) = wish.only
            && !self.may_take(only, charge, payload)
        {
            return waits;
        }
        let links = &mut self.links;
        let mut too_large = false;
        let mut full: SmallVec<[LinkKey; 4]> = SmallVec::new();
        let chosen = self.scheduler.select(request, |key| {
            if too_large || wish.only.is_some_and(|only| only != key) {
                return false;
            }
            let Some(link) = links.get_mut(key) else { return false };
            if !link.takes(payload) {
                // Not offered to another one (D-S2).
                too_large = true;
                return false;
            }
            let room = link.application().is_some_and(|pipe| pipe.has_room(charge, hwm));
            if !room {
                full.push(key);
            }
            room
        });
        for key in full {
            self.mark_full(key, Lane::Application, hwm);
        }
        match chosen {
            Some(key) => Choice::Link(key),
            None if too_large => {
                self.counters.oversize_out += 1;
                Choice::Fails(TOO_LARGE)
            }
            None => waits,
        }
    }

    /// A pinned link could take this record, or would say that it is too large. Asked before the
    /// others are, which all have to refuse for its sake.
    fn may_take(&mut self, key: LinkKey, charge: Charge, payload: u64) -> bool {
        let hwm = self.options.send_hwm;
        let Some(link) = self.links.get(key).filter(|link| link.writable) else { return false };
        if !link.takes(payload) || link.application().is_some_and(|pipe| pipe.has_room(charge, hwm))
        {
            return true;
        }
        self.mark_full(key, Lane::Application, hwm);
        false
    }

    /// ROUTER: the link of this id.
    fn choose_by_id(&mut self, id: &RoutingId, record: &Record, wish: Wish) -> Choice {
        let request = wish.is_request();
        let unreachable = if request || self.options.mandatory {
            Choice::Fails(NO_ROUTE)
        } else {
            Choice::Drops(Drop::NoRoute)
        };
        let Some(route_key) = self.routes.find(id) else {
            return if request && wish.waits {
                Choice::Fails(SubmitError::new(SubmitResult::NotFound, Errno::ENOENT))
            } else {
                unreachable
            };
        };
        let Some(route) = self.routes.get(route_key) else { return unreachable };
        if request && route.peer == SocketKind::Dealer {
            return Choice::Fails(SubmitError::new(SubmitResult::NotAdmitted, Errno::EPROTOTYPE));
        }
        let waits = Choice::Waits(Place::Route(route_key));
        let Some(key) = route.active else {
            let waitable = wish.waits || route.halves > 0;
            return if waitable && matches!(unreachable, Choice::Fails(_)) {
                waits
            } else {
                unreachable
            };
        };
        if request && let Err(error) = self.check_request() {
            return Choice::Fails(error);
        }
        let hwm = self.options.send_hwm;
        let Some(link) = self.links.get(key) else { return unreachable };
        if !link.takes(record.payload()) {
            self.counters.oversize_out += 1;
            return Choice::Fails(TOO_LARGE);
        }
        let room = link.application().is_some_and(|pipe| pipe.has_room(record.charge(), hwm));
        if link.writable && room {
            return Choice::Link(key);
        }
        if link.writable {
            self.mark_full(key, Lane::Application, hwm);
        }
        if request || self.options.mandatory { waits } else { Choice::Drops(Drop::Hwm) }
    }

    // ---- pins ---------------------------------------------------------------------------------

    /// What a call waits for that finds no room: one endpoint, chosen by the rule among all peers
    /// of positive weight (D-N2). Where none is connected, a request waits for a ROUTER that was
    /// (D-N4).
    fn pin(&self, place: Place) -> Place {
        let request = match place {
            Place::Any => false,
            Place::AnyRouter => true,
            Place::Pinned(_) | Place::Route(_) | Place::Reply(_) => return place,
        };
        let preferred = self.scheduler.preferred(request);
        if let Some(link) = preferred.and_then(|key| self.links.get(key)) {
            return match pin_of(&link.origin, &link.id) {
                Pin::Peer(id) if id.is_empty() => place,
                pin => Place::Pinned(pin),
            };
        }
        let gone = self.endpoints.dialled.iter().filter(|(_, endpoint)| {
            endpoint.link.is_none()
                && endpoint
                    .known
                    .as_ref()
                    .is_some_and(|known| known.peer == SocketKind::Router && known.weight.get() > 0)
        });
        let first = gone.min_by_key(|(_, endpoint)| {
            (endpoint.known.as_ref().and_then(|known| known.id.clone()), endpoint.name.clone())
        });
        match first {
            Some((id, _)) if request => Place::Pinned(Pin::Endpoint(*id)),
            _ => place,
        }
    }

    /// The link that a call is pinned to, while it is there; of several links of a peer one that has
    /// room, if there is one.
    fn pinned_link(&self, pin: &Pin) -> Option<(LinkKey, State)> {
        let link = |key: LinkKey| self.links.get(key).map(|link| (key, link));
        let (key, link) = match pin {
            Pin::Endpoint(id) => link(self.endpoints.dialled.get(id)?.link?)?,
            Pin::Peer(id) => {
                let route = self.routes.get(self.routes.find(&RoutingId::new(id.clone())?)?)?;
                let links = route.accepted.iter().chain(&route.dialled);
                let active = links.filter_map(|key| link(*key));
                let mut active = active.filter(|(_, link)| link.state == State::Active);
                active.clone().find(|(_, link)| link.writable).or_else(|| active.next())?
            }
        };
        Some((key, link.state))
    }
}

/// The socket takes nothing more.
const CLOSED: SubmitError = SubmitError::new(SubmitResult::Terminated, Errno::ESHUTDOWN);
