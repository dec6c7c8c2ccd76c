//! Endpoints that the socket was told of (4.4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::links::LinkKey;
use super::waiting::{Pin, Place};
use super::{Closing, Core, EndpointId, Weight};
use crate::zmp::outcome::{Errno, RequestResult};
use crate::zmp::record::{RoutingId, SocketKind};

/// What this side dials.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) name: Arc<str>,
    /// ROUTER: how its peer is called, whatever that says (R-O2).
    pub(super) alias: Option<RoutingId>,
    /// Its link.
    pub(super) link: Option<LinkKey>,
    /// A link to be, of which a connection is missing.
    pub(super) half: Option<LinkKey>,
    /// What its last peer was (D-N4).
    pub(super) known: Option<Known>,
}

/// A peer that was there.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) peer: SocketKind,
    pub(super) weight: Weight,
    /// The id of its route.
    pub(super) id: Option<RoutingId>,
}

/// All endpoints.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    last: u64,
    pub(super) dialled: BTreeMap<EndpointId, Endpoint>,
    pub(super) bound: BTreeSet<Arc<str>>,
}

impl Core {
    /// `connect`: the socket counts with this endpoint from now on. `routing_id` is
    /// `CONNECT_ROUTING_ID` (R-O2).
    pub fn add_endpoint(&mut self, name: Arc<str>, routing_id: Option<RoutingId>) -> EndpointId {
        self.endpoints.last += 1;
        let id = EndpointId(self.endpoints.last);
        let alias = routing_id.filter(|_| self.options.kind == SocketKind::Router);
        let endpoint = Endpoint { name, alias, link: None, half: None, known: None };
        self.endpoints.dialled.insert(id, endpoint);
        id
    }

    /// `disconnect`: its links close, requests end `NOT_FOUND`, tokens and waiting calls whose target
    /// this was end (D-W6, D-N6). False when there is no such endpoint.
    pub fn remove_endpoint(&mut self, now: Instant, endpoint: EndpointId) -> bool {
        let Some(removed) = self.endpoints.dialled.remove(&endpoint) else { return false };
        let id = match removed.link.and_then(|link| self.links.get(link)) {
            Some(link) => link.name.clone(),
            None => removed.known.and_then(|known| known.id),
        };
        for link in removed.link.into_iter().chain(removed.half) {
            self.close_link(now, link, Closing::Removed, RequestResult::NotFound, Errno::ENOENT);
            self.discard_inbound(link);
        }
        self.remove_place(&Place::Pinned(Pin::Endpoint(endpoint)));
        match self.options.kind {
            SocketKind::Router => {
                let route = id.or(removed.alias).and_then(|id| self.routes.find(&id));
                if let Some(route) = route
                    && self.routes.get(route).is_some_and(|route| !route.has_link())
                {
                    self.remove_place(&Place::Route(route));
                }
            }
            SocketKind::Dealer => self.end_targets(),
        }
        true
    }

    /// `bind`: peers may come by this endpoint.
    pub fn bound(&mut self, endpoint: Arc<str>) {
        self.endpoints.bound.insert(endpoint);
    }

    /// `unbind`: its links live on. False when nobody is bound to it.
    pub fn unbound(&mut self, endpoint: &str) -> bool {
        let was = self.endpoints.bound.remove(endpoint);
        if self.options.kind == SocketKind::Dealer {
            self.end_targets();
        }
        was
    }

    /// A DEALER that has no endpoint and no peer left will never have a target.
    fn end_targets(&mut self) {
        if self.endpoints.dialled.is_empty()
            && self.endpoints.bound.is_empty()
            && self.links.iter().all(|link| link.state.is_over())
        {
            self.remove_place(&Place::Any);
            self.remove_place(&Place::AnyRouter);
        }
    }

    /// Notes what the peer of an endpoint was; its link is over.
    pub(super) fn unlink_endpoint(&mut self, id: EndpointId, key: LinkKey) {
        let Some(endpoint) = self.endpoints.dialled.get_mut(&id) else { return };
        if endpoint.half == Some(key) {
            endpoint.half = None;
        }
        if endpoint.link != Some(key) {
            return;
        }
        endpoint.link = None;
        if let Some(link) = self.links.get(key)
            && link.is_ready()
        {
            let known = Known { peer: link.peer, weight: link.weight, id: link.name.clone() };
            endpoint.known = Some(known);
        }
    }
}
