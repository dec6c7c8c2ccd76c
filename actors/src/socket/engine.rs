//! What DEALER and ROUTER do alike: bind, dial and dial again, accept, keep time, linger.

mod closing;
mod listeners;
mod remote;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use actix::prelude::*;
use lineway_wire::zmp::connection::ConnectionOptions;
use lineway_wire::zmp::core::{ConnectionId, Disconnected, EndpointId, Origin};
use lineway_wire::zmp::endpoint::{Endpoint, EndpointError};
use lineway_wire::zmp::monitor::{Event, EventKind};
use lineway_wire::zmp::outcome::{ConnectError, ConnectResult, Errno};
use lineway_wire::zmp::{Lane, RoutingId};
use tokio::sync::mpsc;
use tokio::time::Sleep;

use self::closing::Closing;
use self::listeners::Listeners;
use self::remote::{Remote, Step};
use super::actor::Life;
use super::connection::{ConnectionStart, PeerConnection};
use super::handle::Command;
use super::transport::Arrived;
use super::wait::now;
use super::{Shared, SocketEnv, SocketOptions};
use crate::messages::{ConnectionSays, ConnectionWord, Disconnect};
use crate::metrics::HandshakeFailure;

/// Everything of a socket but its decisions.
pub(super) struct Engine {
    life: Life,
    options: Rc<SocketOptions>,
    env: SocketEnv,
    commands: mpsc::UnboundedReceiver<Command>,
    says: Option<Recipient<ConnectionSays>>,
    next_connection: u64,
    listeners: Listeners,
    remotes: Vec<Remote>,
    connections: BTreeMap<ConnectionId, Live>,
    closing: Option<Closing>,
    sleep: Pin<Box<Sleep>>,
}

/// A connection that has not said its last word.
struct Live {
    actor: Addr<PeerConnection>,
    /// `None`: it was accepted.
    endpoint: Option<EndpointId>,
    /// Its socket has taken it: it may have something to write.
    ready: bool,
    local: Arc<str>,
    remote: Arc<str>,
    lane: Lane,
}

impl Engine {
    pub(super) fn new(
        life: Life,
        options: SocketOptions,
        env: SocketEnv,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        Self {
            life,
            listeners: Listeners::new(options.max_handshakes),
            options: Rc::new(options),
            env,
            commands,
            says: None,
            next_connection: 0,
            remotes: Vec::new(),
            connections: BTreeMap::new(),
            closing: None,
            sleep: Box::pin(tokio::time::sleep_until(tokio::time::Instant::now())),
        }
    }

    /// The actor is there, and connections can speak to it.
    pub(super) fn begin(&mut self, says: Recipient<ConnectionSays>) {
        self.says = Some(says);
    }

    const fn shared(&self) -> &Arc<Shared> {
        &self.life.0
    }

    fn report(&self, event: Event) {
        self.shared().with(|core| core.report(event));
    }

    /// The options with the times as they are.
    fn current_options(&mut self) -> Rc<SocketOptions> {
        let timing = self.shared().look(|state| state.timing);
        if self.options.timing() != timing {
            Rc::make_mut(&mut self.options).set_timing(timing);
        }
        Rc::clone(&self.options)
    }

    /// Everything that there is to do; `Ready` when the socket is over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = now();
            self.obey(cx, now);
            self.poll_listeners(cx, now);
            self.poll_remotes(cx, now);
            if self.poll_closing(now) {
                return Poll::Ready(());
            }
            let times = [
                self.life.0.tick(now, cx.waker()),
                self.listeners.next_wake(),
                self.remotes.iter().filter_map(Remote::next_wake).min(),
                self.closing.as_ref().and_then(|closing| closing.limit),
            ];
            let Some(next) = times.into_iter().flatten().min() else {
                return Poll::Pending;
            };
            self.sleep.as_mut().reset(next.into());
            if self.sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn obey(&mut self, cx: &mut Context<'_>, now: Instant) {
        // Without this the channel, once closed, would be ready for ever.
        while self.closing.is_none() || !self.commands.is_closed() {
            match self.commands.poll_recv(cx) {
                Poll::Pending => return,
                Poll::Ready(None) => return self.close(now, None),
                Poll::Ready(Some(command)) => self.command(command, now),
            }
        }
    }

    fn command(&mut self, command: Command, now: Instant) {
        if self.closing.is_some() && !matches!(command, Command::Close(_)) {
            // Its answer is dropped: whoever asks learns that the socket is closed.
            return;
        }
        match command {
            Command::Bind(endpoint, listener, answer) => self.bind(endpoint, listener, answer),
            Command::Unbind(endpoint, answer) => {
                let unbound = self.unbind(&endpoint);
                let _ = answer.send(found(unbound));
            }
            Command::Connect(endpoint, routing_id, answer) => {
                let _ = answer.send(self.connect(&endpoint, routing_id, now));
            }
            Command::Disconnect(endpoint, answer) => {
                let _ = answer.send(found(self.disconnect(&endpoint, now)));
            }
            Command::Close(answer) => self.close(now, Some(answer)),
        }
    }

    // ---- connects ---------------------------------------------------------------------------

    fn connect(
        &mut self,
        text: &str,
        routing_id: Option<RoutingId>,
        now: Instant,
    ) -> Result<(), ConnectError> {
        let endpoint: Endpoint = text.parse().map_err(|error| wrong(&error))?;
        if !endpoint.is_complete() {
            return Err(ConnectError::new(ConnectResult::InvalidArgument, Errno::EINVAL));
        }
        let name: Arc<str> = endpoint.to_string().into();
        let id = self.shared().step(|state| {
            state.last_endpoint = Some(Arc::clone(&name));
            state.core.add_endpoint(Arc::clone(&name), routing_id)
        });
        self.remotes.push(Remote::new(id, name, text.to_owned(), endpoint, now));
        Ok(())
    }

    /// Forgets every connect to an endpoint; false when there is none.
    fn disconnect(&mut self, text: &str, now: Instant) -> bool {
        let mut found = false;
        let mut at = 0;
        while let Some(remote) = self.remotes.get(at) {
            if !remote.is_named(text) {
                at += 1;
                continue;
            }
            found = true;
            let remote = self.remotes.swap_remove(at);
            self.shared().with(|core| core.remove_endpoint(now, remote.id));
            // The socket ends those that it has taken.
            self.end_unready(|live| live.endpoint == Some(remote.id), Disconnected::Unknown);
        }
        found
    }

    fn poll_remotes(&mut self, cx: &mut Context<'_>, now: Instant) {
        for at in 0..self.remotes.len() {
            loop {
                let options = self.current_options();
                let step = self.remotes[at].poll(cx, now, &options, &self.env);
                let name = Arc::clone(&self.remotes[at].name);
                let event = |kind, value| Event::new(kind, value, Arc::from(""), name);
                match step {
                    Step::Waits => break,
                    Step::Delayed => self.report(event(EventKind::ConnectDelayed, 0)),
                    Step::Failed { error, other } => {
                        let endpoint = &self.remotes[at].name;
                        tracing::debug!(%endpoint, %error, "connect failed");
                        self.report(event(EventKind::Closed, 0));
                        self.end(other, Disconnected::Unknown);
                        self.again(at, now);
                    }
                    Step::Arrived(lane, arrived) => {
                        let endpoint = self.remotes[at].id;
                        let id = self.attend(arrived, lane, Origin::Dialled(endpoint));
                        self.remotes[at].up(lane, id);
                    }
                }
            }
        }
    }

    /// Lets an endpoint be dialled again after its wait (4.3), unless the rest of its link is still
    /// to end.
    fn again(&mut self, at: usize, now: Instant) {
        let options = self.current_options();
        let remote = &mut self.remotes[at];
        let Some(wait) = remote.again(now, &options) else {
            return;
        };
        let value = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let name = Arc::clone(&remote.name);
        self.report(Event::new(EventKind::ConnectRetried, value, Arc::from(""), name));
    }

    // ---- connections ------------------------------------------------------------------------

    /// Starts the actor of a connection.
    fn attend(&mut self, arrived: Arrived, lane: Lane, origin: Origin) -> ConnectionId {
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        let Arrived { stream, local, remote } = arrived;
        let dialled = matches!(origin, Origin::Dialled(_));
        let kind = if dialled { EventKind::Connected } else { EventKind::Accepted };
        let mut event = Event::new(kind, 0, Arc::clone(&local), Arc::clone(&remote));
        event.connection = Some(id);
        event.lane = lane;
        self.report(event);
        let handshake_interval = self.current_options().handshake_interval;
        let core = self.shared().look(|state| state.core.options().clone());
        let endpoint = match &origin {
            Origin::Dialled(endpoint) => Some(*endpoint),
            Origin::Accepted(_) => None,
        };
        let actor = PeerConnection::start(
            ConnectionStart {
                stream,
                options: ConnectionOptions {
                    kind: core.kind,
                    routing_id: core.routing_id,
                    dialled,
                    lane,
                    max_message_size: core.max_message_size,
                },
                id,
                origin,
                local: Arc::clone(&local),
                remote: Arc::clone(&remote),
                handshake_interval,
                receive_hwm: core.receive_hwm,
                shared: Arc::clone(self.shared()),
                total: Arc::clone(&self.env.total),
                says: self.says.clone().expect("the actor has begun"),
            },
            &self.env.actors,
        );
        let live = Live { actor, endpoint, ready: false, local, remote, lane };
        self.connections.insert(id, live);
        id
    }

    /// A connection tells something.
    pub(super) fn connection_says(&mut self, ConnectionSays { connection, says }: ConnectionSays) {
        let Some(live) = self.connections.get_mut(&connection) else {
            return;
        };
        let endpoint = live.endpoint;
        let at = endpoint.and_then(|id| self.remotes.iter().position(|remote| remote.id == id));
        match says {
            ConnectionWord::Hello(peer) => {
                let two = self.options.core.kind.lanes_with(peer) == 2;
                let options = self.current_options();
                if let Some(at) = at {
                    self.remotes[at].knows_lanes(connection, two, &options, &self.env);
                }
            }
            ConnectionWord::Ready => {
                live.ready = true;
                self.listeners.over(connection);
                if let Some(at) = at {
                    self.remotes[at].ready();
                }
            }
            ConnectionWord::Ended { why, handshake, rejection } => {
                let Some(live) = self.connections.remove(&connection) else {
                    return;
                };
                self.listeners.over(connection);
                self.shared().forget(connection);
                if !live.ready {
                    if rejection.is_none() && why != Disconnected::ContextEnd {
                        self.shared().handshake_failed(HandshakeFailure::of(handshake, why));
                    }
                    let failed = match handshake {
                        Some(fault) => Some((EventKind::HandshakeFailedProtocol, fault.value())),
                        None if rejection.is_some() => None,
                        None => Some((EventKind::HandshakeFailedNoDetail, 0)),
                    };
                    let over = (EventKind::Disconnected, why.value());
                    for (kind, value) in failed.into_iter().chain([over]) {
                        let (local, remote) = (Arc::clone(&live.local), Arc::clone(&live.remote));
                        let mut event = Event::new(kind, value, local, remote);
                        event.connection = Some(connection);
                        event.lane = live.lane;
                        self.report(event);
                    }
                }
                if let Some(at) = at {
                    let other = self.remotes[at].ended(connection);
                    self.end(other, Disconnected::Unknown);
                    self.again(at, now());
                }
            }
        }
    }

    /// Ends a connection at once.
    fn end(&self, connection: Option<ConnectionId>, why: Disconnected) {
        if let Some(live) = connection.and_then(|id| self.connections.get(&id)) {
            live.actor.do_send(Disconnect { why });
        }
    }

    /// Ends those connections at once that the socket has not taken yet.
    fn end_unready(&self, which: impl Fn(&Live) -> bool, why: Disconnected) {
        for live in self.connections.values().filter(|live| !live.ready && which(live)) {
            live.actor.do_send(Disconnect { why });
        }
    }

    /// Ends every connection at once.
    fn end_all(&self, why: Disconnected) {
        for live in self.connections.values() {
            live.actor.do_send(Disconnect { why });
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A panic, or the end of the thread: connections do not outlive their socket.
        self.end_all(Disconnected::ContextEnd);
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("kind", &self.options.core.kind)
            .field("connections", &self.connections.len())
            .finish_non_exhaustive()
    }
}

/// The answer to a call that takes an endpoint back.
fn found(found: bool) -> Result<(), ConnectError> {
    let missing = ConnectError::new(ConnectResult::NotFound, Errno::ENOENT);
    found.then_some(()).ok_or(missing)
}

fn wrong(error: &EndpointError) -> ConnectError {
    tracing::debug!(%error, "not connected");
    let result = match error.errno() {
        Errno::EINVAL => ConnectResult::InvalidArgument,
        _ => ConnectResult::NotSupported,
    };
    ConnectError::new(result, error.errno())
}
