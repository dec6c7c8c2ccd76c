//! One message socket of the service.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use lineway_wire::zmp::endpoint::Endpoint;
use lineway_wire::zmp::outcome::{BindError, BindResult, Errno};

use super::Site;
use crate::health::{NodeHealth, PeersHealth};
use crate::metrics::{ActorKind, Watched};
use crate::net::{ListenOptions, bind};
use crate::registry::{Answers, SocketView};
use crate::service::{StartCause, StartError};
use crate::settings::{MessageSettings, NodePlan, NodeSettings, SocketSettings};
use crate::socket::{Dealer, Router, Socket, Unstarted};
use crate::worker::HostSocket;

/// The handle of a socket.
#[derive(Clone, Debug)]
pub(super) enum Handle {
    Dealer(Dealer),
    Router(Router),
}

impl Handle {
    fn socket(&self) -> &Socket {
        match self {
            Self::Dealer(dealer) => dealer,
            Self::Router(router) => router,
        }
    }
}

/// Something that is bound, for as long as a socket of the service wants it.
pub(super) struct Held {
    key: String,
    /// The TCP socket, where it is one that the service has bound itself.
    listener: Option<TcpListener>,
}

/// A message socket of the service.
pub(super) struct Live {
    site: Rc<Site>,
    plan: NodePlan,
    worker: usize,
    handle: Handle,
    view: Arc<SocketView>,
    held: Vec<Rc<Held>>,
    /// What is to be bound once somebody else has left it, and why it is not yet.
    deferred: Vec<(String, Endpoint, Option<BindError>)>,
    health: Option<(NodeHealth, PeersHealth)>,
    watched: Option<Watched>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.site.left(self.worker);
        self.site.board.registry.sockets().remove(self.view.number);
    }
}

impl Live {
    /// Makes the socket of a node and binds it; it answers nobody yet.
    pub(super) async fn prepare(
        site: &Rc<Site>,
        plan: &NodePlan,
        apart: Option<usize>,
        inherited: &[TcpListener],
    ) -> Result<Self, Vec<StartError>> {
        let total = Arc::clone(&site.board.total);
        let (handle, unstarted) = match &plan.settings {
            NodeSettings::DealerSocket(settings) => {
                let (dealer, unstarted) = Dealer::new(settings.options(), total);
                (Handle::Dealer(dealer), unstarted)
            }
            NodeSettings::RouterSocket(settings) => {
                let (router, unstarted) = Router::new(settings.options(), total);
                (Handle::Router(router), unstarted)
            }
            other => unreachable!("a {} is no message socket", other.type_name()),
        };
        let settings = plan.settings.messages().expect("it is a message socket");
        let worker = site.choose(apart);
        let view = SocketView::new(
            Arc::clone(&plan.name),
            plan.settings.type_name(),
            u16::try_from(worker).unwrap_or(u16::MAX),
            settings.connect.iter().map(ToString::to_string).collect(),
            Arc::clone(handle.socket().shared()),
        );
        let mut live = Self {
            site: Rc::clone(site),
            plan: plan.clone(),
            worker,
            handle,
            view: Arc::new(view),
            held: Vec::new(),
            deferred: Vec::new(),
            health: None,
            watched: None,
        };
        live.host(unstarted).await.map_err(|error| vec![error])?;
        let mut errors = Vec::new();
        for (index, endpoint) in settings.bind.iter().enumerate() {
            if let Err(cause) = live.bind(index, endpoint, inherited).await {
                errors.push(live.error(cause));
            }
        }
        if errors.is_empty() { Ok(live) } else { Err(errors) }
    }

    fn error(&self, cause: StartCause) -> StartError {
        StartError { node: Arc::clone(&self.plan.name), setting: "bind", cause }
    }

    async fn host(&self, unstarted: Unstarted) -> Result<(), StartError> {
        let worker = &self.site.workers[self.worker];
        let hosted = worker.send(HostSocket(unstarted)).await;
        hosted.map_err(|_| self.error(StartCause::Worker(self.worker)))
    }

    /// Binds one endpoint, or puts it off where somebody has it who is about to leave it.
    async fn bind(
        &mut self,
        index: usize,
        endpoint: &Endpoint,
        inherited: &[TcpListener],
    ) -> Result<(), StartCause> {
        // What the system chooses is chosen for this place of this node.
        let chosen = matches!(endpoint, Endpoint::Tcp { port: None, .. } | Endpoint::Ipc(None));
        let key = endpoint.to_string();
        let key = if chosen { format!("{key} {} {index}", self.plan.name) } else { key };
        let held = self.site.held.borrow().get(&key).and_then(std::rc::Weak::upgrade);
        if let Some(held) = held {
            if let Some(listener) = &held.listener {
                let listener = listener.try_clone().map_err(|cause| failed(endpoint, &cause))?;
                self.adopt(endpoint, listener).await?;
                self.held.push(held);
            } else {
                self.deferred.push((key, endpoint.clone(), None));
            }
            return Ok(());
        }
        let Some(address) = address(endpoint) else {
            let bound = self.handle.socket().bind(&endpoint.to_string()).await;
            let bound = bound
                .map_err(|cause| StartCause::Endpoint { endpoint: endpoint.to_string(), cause })?;
            self.is_bound(bound);
            self.hold(key, None);
            return Ok(());
        };
        let same = |socket: &&TcpListener| socket.local_addr().is_ok_and(|at| at == address);
        let listener = match inherited.iter().find(same) {
            Some(socket) => socket.try_clone().map_err(|cause| failed(endpoint, &cause))?,
            None => match bind::listen_alone(address, &listen_options()) {
                Ok(listener) => listener,
                Err(error)
                    if error.cause.kind() == std::io::ErrorKind::AddrInUse
                        && self.site.overlaps(address.port()) =>
                {
                    self.deferred.push((key, endpoint.clone(), None));
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            },
        };
        let own = listener.try_clone().map_err(|cause| failed(endpoint, &cause))?;
        self.adopt(endpoint, own).await?;
        self.hold(key, Some(listener));
        Ok(())
    }

    async fn adopt(&self, endpoint: &Endpoint, listener: TcpListener) -> Result<(), StartCause> {
        let endpoint = endpoint.to_string();
        match self.handle.socket().adopt(&endpoint, listener).await {
            Ok(bound) => {
                self.is_bound(bound);
                Ok(())
            }
            Err(cause) => Err(StartCause::Endpoint { endpoint, cause }),
        }
    }

    fn is_bound(&self, endpoint: Arc<str>) {
        self.view.add_bound(endpoint);
    }

    fn hold(&mut self, key: String, listener: Option<TcpListener>) {
        let held = Rc::new(Held { key: key.clone(), listener });
        let mut all = self.site.held.borrow_mut();
        all.retain(|_, held| held.strong_count() > 0);
        all.insert(key, Rc::downgrade(&held));
        self.held.push(held);
    }

    pub(super) const fn name(&self) -> &Arc<str> {
        &self.plan.name
    }

    pub(super) const fn worker(&self) -> usize {
        self.worker
    }

    pub(super) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The endpoints that it is bound to.
    pub(super) fn bound(&self) -> Vec<Arc<str>> {
        self.view.bound()
    }

    fn settings(&self) -> &MessageSettings {
        self.plan.settings.messages().expect("it is a message socket")
    }

    /// Connects, and shows itself. Nothing for one that was begun before.
    pub(super) async fn begin(&mut self) {
        if self.health.is_some() {
            return;
        }
        let board = &self.site.board;
        self.bound().iter().for_each(|endpoint| self.tell_bound(endpoint));
        board.registry.sockets().insert(Arc::clone(&self.view));
        let metrics = board.metrics.node(&self.plan.name, self.plan.settings.type_name());
        let view = Arc::clone(&self.view);
        self.watched = Some(metrics.watch_socket(move || view.now()));
        let now = tokio::time::Instant::now().into_std();
        self.health = Some((board.health.sole(&self.plan.name), PeersHealth::new(now)));
        for endpoint in &self.settings().connect {
            if let Err(error) = self.handle.socket().connect(&endpoint.to_string()).await {
                tracing::error!(node = %self.plan.name, %endpoint, %error, "not connected");
            }
        }
        self.look(now).await;
    }

    pub(super) fn answered(
        &self,
        status: impl Fn() -> lineway_wire::zmp::broker::Status + Send + Sync + 'static,
    ) {
        self.view.set_answers(Arc::new(status) as Answers);
    }

    /// Binds what could not be bound before, and says whether the socket can serve (M-22).
    pub(super) async fn look(&mut self, now: Instant) {
        for (key, endpoint, _) in std::mem::take(&mut self.deferred) {
            match self.handle.socket().bind(&endpoint.to_string()).await {
                Ok(bound) => {
                    self.tell_bound(&bound);
                    self.is_bound(bound);
                    self.hold(key, None);
                }
                Err(error) => self.deferred.push((key, endpoint, Some(error))),
            }
        }
        let status = self.view.status();
        let needs_peers = match self.handle {
            Handle::Dealer(_) => true,
            Handle::Router(_) => self.settings().bind.is_empty(),
        };
        let closed = self.handle.socket().is_closed();
        let unbound = !self.settings().bind.is_empty() && !status.bound;
        let put_off = self.deferred.first().map(|(_, endpoint, error)| {
            let why = error.map_or("somebody else has it", said);
            format!("can not bind {endpoint}: {why}")
        });
        let Some((health, peers)) = &mut self.health else { return };
        let peers = if needs_peers { peers.look(status.ready, now) } else { Ok(()) };
        match (closed, put_off, unbound, peers) {
            (true, ..) => health.not_ready("it is being started again"),
            (_, Some(put_off), ..) => health.not_ready(put_off),
            (_, _, true, _) => health.not_ready("no endpoint is bound"),
            (_, _, _, Err(why)) => health.not_ready(why),
            (_, _, _, Ok(())) => health.ready(),
        }
    }

    fn tell_bound(&self, endpoint: &str) {
        let address = endpoint.strip_prefix("tcp://").map(tracing::field::display);
        tracing::info!(node = %self.plan.name, address, endpoint, "listening");
    }

    pub(super) fn unwell(&self, why: &'static str) {
        if let Some((health, _)) = &self.health {
            health.not_ready(why);
        }
    }

    /// Another one takes its place, after a panic.
    pub(super) fn restarted(&self) {
        if self.handle.socket().is_closed() {
            let kind = match self.handle {
                Handle::Dealer(_) => ActorKind::DealerSocket,
                Handle::Router(_) => ActorKind::RouterSocket,
            };
            self.site.board.metrics.actors().kind(kind).restarted();
        }
    }

    /// Accepts no peer any more.
    pub(super) async fn unbind(&mut self) {
        self.view.set_closing();
        self.deferred.clear();
        for endpoint in self.view.take_bound() {
            // One that is gone already is unbound.
            let _ = self.handle.socket().unbind(&endpoint).await;
        }
        self.held.clear();
    }

    /// Accepts no peer any more, and closes: what is queued is written while `linger-ms` lasts.
    pub(super) async fn close(mut self) {
        self.unbind().await;
        // An error says that it is closed already.
        let _ = self.handle.socket().close().await;
    }
}

impl Site {
    /// Whether a socket of the service is bound to this port, at one address or all of them.
    fn overlaps(&self, port: u16) -> bool {
        let held = self.held.borrow();
        let ports = held.values().filter_map(std::rc::Weak::upgrade);
        let mut ports = ports.filter_map(|held| held.listener.as_ref()?.local_addr().ok());
        ports.any(|address| address.port() == port)
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.key)
    }
}

/// The address of an endpoint that needs no lookup.
fn address(endpoint: &Endpoint) -> Option<SocketAddr> {
    let Endpoint::Tcp { host, port } = endpoint else { return None };
    let ip: IpAddr = host.parse().ok()?;
    Some(SocketAddr::new(ip.to_canonical(), port.unwrap_or(0)))
}

fn listen_options() -> ListenOptions {
    ListenOptions { socket: SocketSettings::default(), backlog: MessageSettings::BACKLOG }
}

fn failed(endpoint: &Endpoint, cause: &std::io::Error) -> StartCause {
    let errno = Errno(cause.raw_os_error().unwrap_or(Errno::EIO.0));
    let cause = BindError::new(BindResult::InternalError, errno);
    StartCause::Endpoint { endpoint: endpoint.to_string(), cause }
}

/// What an error of a bind says to a person.
pub(in crate::service) const fn said(error: BindError) -> &'static str {
    match (error.result, error.errno) {
        (BindResult::InUse, _) => "it is in use",
        (_, Errno::EACCES) => "permission denied",
        (_, Errno::ENOENT) => "its folder is not there",
        (BindResult::InvalidArgument, _) => {
            "it is not of this machine, or its name does not resolve"
        }
        (BindResult::InvalidHandle, _) => "the socket is closed",
        _ => "the system refused it",
    }
}
