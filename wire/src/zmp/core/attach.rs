//! Links come, take turns and go.

use std::collections::{HashSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

use super::counted::Counted;
use super::links::{Link, LinkKey, Pipe, State};
use super::routes::Clash;
use super::waiting::{Place, pin_of};
use super::{Attaching, Closing, ConnectionId, Core, Disconnected, Origin, Rejection, Weight};
use crate::zmp::flow::PeerFlow;
use crate::zmp::monitor::{Event, EventKind, READY_EDGE};
use crate::zmp::outcome::{Errno, RequestResult};
use crate::zmp::record::{Kind, Lane, Record, RoutingId, SocketKind};
use crate::zmp::status::Drop;

impl Core {
    /// A connection whose handshake is over, and whose own READY is written (1.5). The link is
    /// ready when all of its lanes are there.
    ///
    /// # Errors
    /// It is refused: it must be closed.
    pub fn attach(&mut self, now: Instant, attaching: Attaching) -> Result<(), Rejection> {
        let attached = self.try_attach(now, attaching);
        if let Err(rejection) = attached {
            self.counters.peers_rejected[rejection] += 1;
        }
        attached
    }

    fn try_attach(&mut self, now: Instant, attaching: Attaching) -> Result<(), Rejection> {
        let endpoint = match &attaching.origin {
            _ if self.closed => return Err(Rejection::Closed),
            Origin::Accepted(endpoint) => Arc::clone(endpoint),
            Origin::Dialled(id) => {
                let endpoint = self.endpoints.dialled.get(id).ok_or(Rejection::Closed)?;
                Arc::clone(&endpoint.name)
            }
        };
        let two = self.options.kind.lanes_with(attaching.peer) == 2;
        if !two && attaching.lane != Lane::Application {
            return Err(Rejection::Lane);
        }
        let half = if two { self.half(&attaching) } else { None };
        let key = match half {
            Some(key) => self.join_half(key, &attaching)?,
            None => self.begin_link(&attaching, endpoint, two)?,
        };
        let pipe = Pipe::new(attaching.connection, attaching.local, attaching.remote);
        self.connections.insert(attaching.connection.0, (key, attaching.lane));
        let Some(link) = self.links.get_mut(key) else { return Err(Rejection::Closed) };
        link.pipes[usize::from(attaching.lane.byte())] = Some(pipe);
        if attaching.lane == Lane::Application {
            link.connection = attaching.connection;
        }
        if two && link.pipes.iter().any(Option::is_none) {
            return Ok(());
        }
        let ready = self.make_ready(now, key);
        if ready.is_err() {
            // The connection that just came is closed by its refusal, the other one is told.
            self.connections.remove(&attaching.connection.0);
            if let Some(link) = self.links.get_mut(key) {
                link.pipes[usize::from(attaching.lane.byte())] = None;
            }
            let (result, errno) = (RequestResult::NotConnected, Errno::EHOSTUNREACH);
            self.close_link(now, key, Closing::OtherLane, result, errno);
            self.bury(key);
        }
        ready
    }

    /// The link whose other lane this may be: of the same endpoint, or of the same routing id.
    fn half(&self, attaching: &Attaching) -> Option<LinkKey> {
        let key = match &attaching.origin {
            Origin::Dialled(id) => self.endpoints.dialled.get(id)?.half?,
            Origin::Accepted(_) => *self.halves.get(&attaching.routing_id)?,
        };
        self.links.get(key).map(|_| key)
    }

    /// The second connection of a link must say what the first one said (1.3).
    fn join_half(&mut self, key: LinkKey, attaching: &Attaching) -> Result<LinkKey, Rejection> {
        let link = self.links.get_mut(key).ok_or(Rejection::Lane)?;
        let agrees = link.id == attaching.routing_id && link.peer == attaching.peer;
        if !agrees || link.pipe(attaching.lane).is_some() {
            return Err(Rejection::Lane);
        }
        Ok(key)
    }

    fn begin_link(
        &mut self,
        attaching: &Attaching,
        endpoint: Arc<str>,
        two: bool,
    ) -> Result<LinkKey, Rejection> {
        let accepted = matches!(attaching.origin, Origin::Accepted(_));
        // Nothing would tell which two connections of nameless peers belong together.
        if two && accepted && attaching.routing_id.is_empty() {
            return Err(Rejection::Lane);
        }
        let name = self.name_of(attaching);
        if let Some(name) = &name {
            self.clash(name, &attaching.origin)?;
        }
        if self.links.len() >= self.options.max_peers {
            return Err(Rejection::TooManyPeers);
        }
        let key = self.links.insert(Link {
            state: State::Assembling,
            peer: attaching.peer,
            id: attaching.routing_id.clone(),
            name,
            route: None,
            endpoint,
            origin: attaching.origin.clone(),
            largest: attaching.peer_max_message_size,
            pipes: [None, None],
            weight: Weight::DEFAULT,
            flow: PeerFlow::new(),
            writable: false,
            excluded: false,
            in_turn: false,
            connection: attaching.connection,
            requests: Counted::default(),
            live: HashSet::new(),
            inbound: VecDeque::new(),
            records_out: 0,
            records_in: 0,
        });
        if two {
            self.expect_half(key);
        }
        if two && accepted {
            self.halves.insert(attaching.routing_id.clone(), key);
        }
        if let Origin::Dialled(id) = &attaching.origin
            && let Some(endpoint) = self.endpoints.dialled.get_mut(id)
            && two
        {
            endpoint.half = Some(key);
        }
        Ok(key)
    }

    /// The id by which this socket knows a peer; `None` for a DEALER's peer that has none.
    fn name_of(&mut self, attaching: &Attaching) -> Option<RoutingId> {
        let own = RoutingId::new(attaching.routing_id.clone());
        if self.options.kind == SocketKind::Dealer {
            return own;
        }
        let alias = match &attaching.origin {
            Origin::Dialled(id) => {
                self.endpoints.dialled.get(id).and_then(|endpoint| endpoint.alias.clone())
            }
            Origin::Accepted(_) => None,
        };
        Some(alias.or(own).unwrap_or_else(|| self.routes.make_id()))
    }

    /// All connections of a link are there.
    fn make_ready(&mut self, now: Instant, key: LinkKey) -> Result<(), Rejection> {
        let Some(link) = self.links.get(key) else { return Err(Rejection::Closed) };
        let (name, origin) = (link.name.clone(), link.origin.clone());
        if link.peer == SocketKind::Router && self.halves.get(&link.id) == Some(&key) {
            self.halves.remove(&link.id.clone());
        }
        let clash = name.as_ref().map_or(Ok(Clash::None), |name| self.clash(name, &origin))?;
        let mut replaced: SmallVec<[LinkKey; 2]> = SmallVec::new();
        if let Clash::Replaces(old) = clash {
            replaced.push(old);
        }
        if let Origin::Dialled(id) = origin
            && let Some(endpoint) = self.endpoints.dialled.get_mut(&id)
        {
            endpoint.half = None;
            replaced.extend(endpoint.link.replace(key));
        }
        self.counters.peers_opened += 1;
        self.greet(key);
        self.drop_half(key);
        if let Some(name) = &name {
            self.join_route(key, name);
        }
        for old in replaced {
            let (result, errno) = (RequestResult::NotConnected, Errno::EHOSTUNREACH);
            self.close_link(now, old, Closing::HandedOver, result, errno);
        }
        match self.links.get(key).and_then(|link| link.route) {
            Some(route) => self.settle_route(route),
            None => self.activate(key),
        }
        self.show_inbound(key);
        Ok(())
    }

    /// What each link begins with: the weight where the peer would assume another, the flow state
    /// where one was set, the probe (1.5).
    fn greet(&mut self, key: LinkKey) {
        let (weight, flow) = (self.options.weight, self.flow.current());
        let own = self.options.kind;
        let Some(link) = self.links.get_mut(key) else { return };
        let flow_lane = if link.lanes(own) == 2 { Lane::Completion } else { Lane::Application };
        if let Some(pipe) = link.pipe(Lane::Application) {
            pipe.set_weight(weight);
        }
        if let (Some((state, epoch)), Some(pipe)) = (flow, link.pipe(flow_lane)) {
            pipe.set_flow(state, epoch);
        }
        for pipe in link.pipes.iter_mut().flatten() {
            self.wakes.connection(pipe);
        }
        if self.options.probe {
            self.push(key, Lane::Application, Kind::Data, Record::new(bytes::Bytes::new()));
        }
    }

    /// Records may go to this link from now on.
    pub(super) fn activate(&mut self, key: LinkKey) {
        let Some(link) = self.links.get_mut(key) else { return };
        if link.state == State::Active || link.state.is_over() {
            return;
        }
        link.state = State::Active;
        link.excluded = false;
        self.active += 1;
        match (self.options.kind, link.route) {
            (SocketKind::Dealer, _) => {
                let router = link.peer == SocketKind::Router;
                let (id, endpoint) = (link.id.clone(), Arc::clone(&link.endpoint));
                self.scheduler.insert(key, id, endpoint, router, link.weight);
            }
            (SocketKind::Router, route) => {
                if let Some(route) = route.and_then(|route| self.routes.get_mut(route)) {
                    route.active = Some(key);
                }
            }
        }
        self.refresh(key);
        let flags = if self.active > self.ready_told { READY_EDGE } else { 0 };
        self.ready_told = self.ready_told.max(self.active);
        self.tell(key, EventKind::ConnectionReady, self.active as u64, flags);
        self.edge(key);
        self.reply_edge(key);
    }

    /// Another link of its id is used: what was asked here is not answered any more (R-D3).
    pub(super) fn stand_by(&mut self, key: LinkKey) {
        let Some(link) = self.links.get_mut(key) else { return };
        match link.state {
            State::Active => {}
            State::Assembling => {
                link.state = State::Standby;
                return;
            }
            State::Standby | State::Ended => return,
        }
        link.state = State::Standby;
        self.deactivate(key);
        self.end_requests(key, RequestResult::NotConnected, Errno::EHOSTUNREACH);
    }

    /// Takes a link that was active out of the choice.
    fn deactivate(&mut self, key: LinkKey) {
        self.active -= 1;
        self.refresh(key);
        self.scheduler.remove(key);
        let Some(link) = self.links.get(key) else { return };
        let (route, pin) = (link.route, Place::Pinned(pin_of(&link.origin, &link.id)));
        if let Some(route) = route.and_then(|route| self.routes.get_mut(route))
            && route.active == Some(key)
        {
            route.active = None;
        }
        // Calls that are pinned to it look for another link of its peer.
        self.open_place(&pin);
    }

    /// A connection has ended, or never got to [`Self::attach`]. Nothing for one that is unknown.
    pub fn detach(&mut self, now: Instant, connection: ConnectionId, why: Disconnected) {
        let Some((key, lane)) = self.connections.remove(&connection.0) else { return };
        self.tell_lane(key, lane, EventKind::Disconnected, why.value(), 0);
        let Some(link) = self.links.get_mut(key) else { return };
        if let Some(mut pipe) = link.pipes[usize::from(lane.byte())].take() {
            self.lose(&mut pipe);
        }
        self.end_link(now, key, Some(why), RequestResult::NotConnected, Errno::EHOSTUNREACH);
        self.ready_told = self.ready_told.min(self.active);
        self.close_pipes(key, Closing::OtherLane);
        self.bury(key);
        self.check_drained();
    }

    /// What a connection had not written is lost.
    fn lose(&mut self, pipe: &mut Pipe) {
        self.lose_queue(pipe);
        self.load.out -= mem::take(&mut pipe.outstanding);
    }

    /// Ends a link from this side, and closes its connections.
    pub(super) fn close_link(
        &mut self,
        now: Instant,
        key: LinkKey,
        closing: Closing,
        result: RequestResult,
        errno: Errno,
    ) {
        self.end_link(now, key, None, result, errno);
        self.close_pipes(key, closing);
    }

    /// Tells the connections of a link to close. What they have queued is written before where the
    /// application wanted the end, and lost where something else took their place.
    fn close_pipes(&mut self, key: LinkKey, closing: Closing) {
        for lane in [Lane::Application, Lane::Completion] {
            let Some(link) = self.links.get_mut(key) else { return };
            let Some(mut pipe) = link.pipes[usize::from(lane.byte())].take() else { continue };
            if matches!(closing, Closing::HandedOver | Closing::OtherLane) {
                self.lose_queue(&mut pipe);
            }
            pipe.closing.get_or_insert(closing);
            self.wakes.connection(&mut pipe);
            if let Some(link) = self.links.get_mut(key) {
                link.pipes[usize::from(lane.byte())] = Some(pipe);
            }
        }
    }

    /// What a connection had not even taken from its queue is lost.
    fn lose_queue(&mut self, pipe: &mut Pipe) {
        let (mut records, mut charge) = (0, 0);
        for (_, record) in pipe.discard() {
            records += 1;
            charge += record.charge();
        }
        self.load.out_records -= records;
        self.load.out_queued -= charge;
        self.load.out -= charge;
        pipe.outstanding -= charge;
        self.counters.dropped[Drop::NoPeer] += records;
    }

    /// A link is over: nothing is chosen for it, what was asked on it ends, another one of its id
    /// may take its place. What it brought can still be taken. `why` where a connection has ended,
    /// and the monitor was told.
    fn end_link(
        &mut self,
        now: Instant,
        key: LinkKey,
        why: Option<Disconnected>,
        result: RequestResult,
        errno: Errno,
    ) {
        let Some(link) = self.links.get_mut(key) else { return };
        let state = link.state;
        if state.is_over() {
            return;
        }
        let origin = link.origin.clone();
        let paused = link.flow.end(now);
        self.counters.flow.ended(paused);
        link.live.clear();
        if let Origin::Dialled(endpoint) = origin {
            self.unlink_endpoint(endpoint, key);
        }
        let Some(link) = self.links.get_mut(key) else { return };
        link.state = State::Ended;
        let (id, route) = (link.id.clone(), link.route);
        match state {
            State::Active => {
                self.deactivate(key);
                self.count_closed(why);
            }
            State::Standby => self.count_closed(why),
            State::Assembling | State::Ended => {
                if self.halves.get(&id) == Some(&key) {
                    self.halves.remove(&id);
                }
                self.drop_half(key);
            }
        }
        self.leave_route(key);
        self.end_requests(key, result, errno);
        if why.is_some() {
            self.ready_told = self.ready_told.min(self.active);
        }
        if let Some(route) = route {
            self.settle_route(route);
        }
    }

    fn count_closed(&mut self, why: Option<Disconnected>) {
        self.counters.peers_closed[why.unwrap_or(Disconnected::Unknown)] += 1;
    }

    /// Forgets a link that is over, when its connections are gone and all it brought was taken.
    pub(super) fn bury(&mut self, key: LinkKey) {
        let over = self.links.get(key).is_some_and(|link| {
            link.state.is_over()
                && link.inbound.is_empty()
                && link.pipes.iter().all(Option::is_none)
        });
        if over {
            self.links.remove(key);
        }
    }

    /// An event of a link, with the connection of its Application lane.
    pub(super) fn tell(&mut self, key: LinkKey, kind: EventKind, value: u64, flags: u32) {
        self.tell_lane(key, Lane::Application, kind, value, flags);
    }

    fn tell_lane(&mut self, key: LinkKey, lane: Lane, kind: EventKind, value: u64, flags: u32) {
        if !self.monitor.wants(kind) {
            return;
        }
        let Some(link) = self.links.get_mut(key) else { return };
        let routing_id = link.name.as_ref().map_or_else(|| link.id.clone(), RoutingId::to_bytes);
        let Some(pipe) = link.pipe(lane) else { return };
        let event = Event {
            kind,
            value,
            routing_id,
            local: Arc::clone(&pipe.local),
            remote: Arc::clone(&pipe.remote),
            connection: Some(pipe.id),
            lane,
            flags,
        };
        self.report(event);
    }
}
