//! Routing ids: which link has one, which stands by, and who waits for it (section 3).

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use slab::Slab;
use smallvec::SmallVec;

use super::links::LinkKey;
use super::waiting::{Place, Waiting};
use super::{Closing, ConnectionId, Core, DuplicatePolicy, Origin, Rejection};
use crate::zmp::outcome::{Errno, RequestResult};
use crate::zmp::record::{RoutingId, SocketKind};

/// Names one routing id from when it was met until it is forgotten or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RouteKey {
    index: u32,
    serial: u64,
}

/// A routing id.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) id: RoutingId,
    /// What the last peer of this id was.
    pub(super) peer: SocketKind,
    /// Links that this side made; one at most in a ROUTER.
    pub(super) dialled: SmallVec<[LinkKey; 1]>,
    /// Links that peers made.
    pub(super) accepted: SmallVec<[LinkKey; 1]>,
    /// ROUTER: the one that records go to.
    pub(super) active: Option<LinkKey>,
    pub(super) waiting: Waiting,
    pub(super) replying: Waiting,
    /// Links to be, of which a connection is missing.
    pub(super) halves: usize,
    /// Replies owed to it.
    pub(super) owed: usize,
    /// It is in the list of those that left.
    departed: bool,
}

impl Route {
    pub(super) fn has_link(&self) -> bool {
        !self.dialled.is_empty() || !self.accepted.is_empty()
    }

    fn links(&mut self, dialled: bool) -> &mut SmallVec<[LinkKey; 1]> {
        if dialled { &mut self.dialled } else { &mut self.accepted }
    }

    fn is_idle(&self) -> bool {
        !self.has_link()
            && self.halves == 0
            && self.owed == 0
            && self.waiting.is_empty()
            && self.replying.is_empty()
    }
}

/// All routing ids.
#[derive(Debug, Default)]
pub(super) struct Routes {
    slab: Slab<(u64, Route)>,
    serial: u64,
    /// Peers choose these.
    by_id: HashMap<RoutingId, RouteKey>,
    /// Ids without a link, the oldest first: they are known for a while (R-S1).
    departed: VecDeque<RouteKey>,
    /// The last id made for a peer without one (R-O3).
    made: u32,
}

impl Routes {
    pub(super) fn get(&self, key: RouteKey) -> Option<&Route> {
        let (serial, route) = self.slab.get(key.index as usize)?;
        (*serial == key.serial).then_some(route)
    }

    pub(super) fn get_mut(&mut self, key: RouteKey) -> Option<&mut Route> {
        let (serial, route) = self.slab.get_mut(key.index as usize)?;
        (*serial == key.serial).then_some(route)
    }

    pub(super) fn find(&self, id: &RoutingId) -> Option<RouteKey> {
        self.by_id.get(id).copied()
    }

    /// The route of an id, made where there is none.
    pub(super) fn obtain(&mut self, id: &RoutingId, peer: SocketKind) -> RouteKey {
        if let Some(key) = self.find(id) {
            return key;
        }
        self.serial += 1;
        let route = Route {
            id: id.clone(),
            peer,
            dialled: SmallVec::new(),
            accepted: SmallVec::new(),
            active: None,
            halves: 0,
            waiting: Waiting::default(),
            replying: Waiting::default(),
            owed: 0,
            departed: false,
        };
        let index = self.slab.insert((self.serial, route)) as u32;
        let key = RouteKey { index, serial: self.serial };
        self.by_id.insert(id.clone(), key);
        key
    }

    /// Every key of this id is void from now on.
    pub(super) fn remove(&mut self, key: RouteKey) {
        if self.get(key).is_some() {
            let (_, route) = self.slab.remove(key.index as usize);
            self.by_id.remove(&route.id);
        }
    }

    /// An id for a peer that has none: a zero byte and a number that count up (R-O3).
    pub(super) fn make_id(&mut self) -> RoutingId {
        loop {
            self.made = self.made.wrapping_add(1);
            let mut id = [0; 5];
            id[1..].copy_from_slice(&self.made.to_be_bytes());
            if let Some(id) = RoutingId::new(Bytes::copy_from_slice(&id))
                && self.find(&id).is_none()
            {
                return id;
            }
        }
    }

    pub(super) fn end_waits(&mut self) {
        for (_, (_, route)) in &mut self.slab {
            route.waiting = Waiting::default();
            route.replying = Waiting::default();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }
}

/// What becomes of a link whose routing id is known already.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Clash {
    /// Nothing is in its way.
    None,
    /// It takes the place of this one.
    Replaces(LinkKey),
}

impl Core {
    /// Whether a link of this id and direction may come (R-D1). A DEALER does not send by id: any
    /// number of links may have one.
    pub(super) fn clash(&self, id: &RoutingId, origin: &Origin) -> Result<Clash, Rejection> {
        let Some(route) = self.routes.find(id).and_then(|key| self.routes.get(key)) else {
            return Ok(Clash::None);
        };
        let there = match origin {
            Origin::Dialled(_) => &route.dialled,
            Origin::Accepted(_) => &route.accepted,
        };
        if self.options.kind == SocketKind::Dealer {
            return Ok(Clash::None);
        }
        let Some(&old) = there.first() else { return Ok(Clash::None) };
        let same_endpoint = matches!(origin, Origin::Dialled(_))
            && self.links.get(old).is_some_and(|link| link.origin == *origin);
        if same_endpoint || self.options.duplicates == DuplicatePolicy::Handover {
            Ok(Clash::Replaces(old))
        } else {
            Err(Rejection::DuplicateId)
        }
    }

    /// A link of which a connection is missing: its id has a route that is not ready.
    pub(super) fn expect_half(&mut self, key: LinkKey) {
        let Some(link) = self.links.get_mut(key) else { return };
        let Some(name) = &link.name else { return };
        let route_key = self.routes.obtain(name, link.peer);
        link.route = Some(route_key);
        if let Some(route) = self.routes.get_mut(route_key) {
            route.halves += 1;
        }
    }

    /// The link is whole, or will never be.
    pub(super) fn drop_half(&mut self, key: LinkKey) {
        let Some(link) = self.links.get_mut(key) else { return };
        let Some(route_key) = link.route.take() else { return };
        if let Some(route) = self.routes.get_mut(route_key) {
            route.halves -= 1;
            self.tidy_route(route_key);
        }
    }

    /// Adds a link that is ready to the links of its id.
    pub(super) fn join_route(&mut self, key: LinkKey, id: &RoutingId) {
        let Some(link) = self.links.get_mut(key) else { return };
        let route_key = self.routes.obtain(id, link.peer);
        link.route = Some(route_key);
        if let Some(route) = self.routes.get_mut(route_key) {
            route.peer = link.peer;
            route.links(link.is_dialled()).push(key);
        }
    }

    /// Takes a link out of the links of its id.
    pub(super) fn leave_route(&mut self, key: LinkKey) {
        let Some(link) = self.links.get(key) else { return };
        let (Some(route_key), dialled) = (link.route, link.is_dialled()) else { return };
        let Some(route) = self.routes.get_mut(route_key) else { return };
        route.links(dialled).retain(|other| *other != key);
        if route.active == Some(key) {
            route.active = None;
        }
        if !route.has_link() && !route.departed {
            route.departed = true;
            self.routes.departed.push_back(route_key);
        }
        while self.routes.departed.len() > self.options.max_peers.max(1) {
            let oldest = self.routes.departed.pop_front();
            if let Some(oldest) = oldest
                && let Some(route) = self.routes.get_mut(oldest)
            {
                route.departed = false;
                self.tidy_route(oldest);
            }
        }
    }

    /// Forgets an id that has no link, is owed nothing and nobody waits for.
    pub(super) fn tidy_route(&mut self, key: RouteKey) {
        if self.routes.get(key).is_some_and(|route| route.is_idle() && !route.departed) {
            self.routes.remove(key);
        }
    }

    /// Chooses which links of an id are active: those of the side with the smaller routing id,
    /// where both have made some (R-D2). The others stand by.
    pub(super) fn settle_route(&mut self, key: RouteKey) {
        let Some(route) = self.routes.get(key) else { return };
        let dialled_wins = match (route.dialled.first(), route.accepted.first()) {
            (Some(&dialled), Some(_)) => {
                let peer = self.links.get(dialled).map(|link| link.id.clone()).unwrap_or_default();
                self.options.routing_id.as_bytes() <= peer.as_ref()
            }
            (dialled, _) => dialled.is_some(),
        };
        let (winners, losers) = if dialled_wins {
            (route.dialled.clone(), route.accepted.clone())
        } else {
            (route.accepted.clone(), route.dialled.clone())
        };
        for loser in losers {
            self.stand_by(loser);
        }
        for winner in winners {
            self.activate(winner);
        }
    }

    /// This connection is part of a link.
    pub fn has_connection(&self, connection: ConnectionId) -> bool {
        self.connections.contains_key(&connection.0)
    }

    /// ROUTER: this id has a link that is ready.
    pub fn has_link(&self, id: &RoutingId) -> bool {
        let route = self.routes.find(id).and_then(|key| self.routes.get(key));
        route.is_some_and(Route::has_link)
    }

    /// `disconnect_rid`: the link of this id closes, its tokens and replies end (R-S3, R-P3).
    /// False when there is no such id.
    pub fn disconnect_rid(&mut self, now: Instant, id: &RoutingId) -> bool {
        let Some(key) = self.routes.find(id) else { return false };
        let Some(route) = self.routes.get_mut(key) else { return false };
        let owed = std::mem::take(&mut route.owed);
        let links: SmallVec<[LinkKey; 2]> =
            route.dialled.iter().chain(&route.accepted).copied().collect();
        route.dialled.clear();
        route.accepted.clear();
        route.active = None;
        self.remove_place(&Place::Route(key));
        self.remove_place(&Place::Reply(key));
        for link in links {
            self.close_link(now, link, Closing::Removed, RequestResult::NotFound, Errno::ENOENT);
            self.discard_inbound(link);
        }
        self.routes.remove(key);
        self.free_replies(owed);
        true
    }
}
