//! What a DEALER and a ROUTER have in common for their application.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lineway_wire::zmp::core::{
    Completion, CompletionId, CoreOptions, DuplicatePolicy, FlowState, Outcome, Readiness, Weight,
};
use lineway_wire::zmp::outcome::{
    BindError, BindResult, CloseError, CloseResult, ConfigError, ConfigResult, ConnectError,
    ConnectResult, Errno, RecvError, SubmitError, SubmitResult,
};
use lineway_wire::zmp::status::{Counters, PeerStatus, Status};
use lineway_wire::zmp::{Charge, RoutingId, SocketKind};
use tokio::sync::{mpsc, oneshot};

use super::error::{CLOSED, NO_DATA, RecvIntoError, TERMINATED};
use super::shared::State;
use super::submit::Claim;
use super::wait::{Ended, On, Waiting, now};
use super::{Monitor, Poller, Shared, Timing};

/// What a handle asks of the actor of its socket.
#[derive(Debug)]
pub(super) enum Command {
    /// `bind`; with a listener that is bound already, it is taken over.
    Bind(String, Option<TcpListener>, oneshot::Sender<Result<Arc<str>, BindError>>),
    /// `unbind`.
    Unbind(String, oneshot::Sender<Result<(), ConnectError>>),
    /// `connect`; with the routing id that the peer gets (R-O2).
    Connect(String, Option<RoutingId>, oneshot::Sender<Result<(), ConnectError>>),
    /// `disconnect`.
    Disconnect(String, oneshot::Sender<Result<(), ConnectError>>),
    /// `close`; answered when the last connection is over.
    Close(oneshot::Sender<()>),
}

/// The part of a DEALER or ROUTER that both have. A clone is the same socket; when the last one is
/// dropped the socket closes, and what is queued is still written while `linger` lasts.
#[derive(Clone, Debug)]
pub struct Socket {
    pub(super) shared: Arc<Shared>,
    commands: mpsc::UnboundedSender<Command>,
}

impl Socket {
    pub(super) const fn new(shared: Arc<Shared>, commands: mpsc::UnboundedSender<Command>) -> Self {
        Self { shared, commands }
    }

    /// The socket itself, for actors that work on it.
    pub const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    // ---- endpoints --------------------------------------------------------------------------

    /// Listens at an endpoint: `tcp://host:port` (`*` as host: every address; `*` or 0 as port: one
    /// that the system chooses), `ipc://path`, `inproc://name`. A socket may bind many. Gives the
    /// real endpoint.
    ///
    /// # Errors
    /// The endpoint is wrong (EINVAL), taken (EADDRINUSE), or of a transport that is not there
    /// (EPROTONOSUPPORT).
    pub async fn bind(&self, endpoint: &str) -> Result<Arc<str>, BindError> {
        self.ask(|answer| Command::Bind(endpoint.to_owned(), None, answer))
            .await
            .unwrap_or(Err(BindError::new(BindResult::InvalidHandle, Errno::ESHUTDOWN)))
    }

    /// Listens with a socket of the system that is bound already, under the name of this endpoint.
    /// Gives the real endpoint.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn adopt(
        &self,
        endpoint: &str,
        listener: TcpListener,
    ) -> Result<Arc<str>, BindError> {
        self.ask(|answer| Command::Bind(endpoint.to_owned(), Some(listener), answer))
            .await
            .unwrap_or(Err(BindError::new(BindResult::InvalidHandle, Errno::ESHUTDOWN)))
    }

    /// Listens no more at an endpoint, named as it was bound or as it really is. Connections that
    /// came through it live on.
    ///
    /// # Errors
    /// It is not bound (ENOENT).
    pub async fn unbind(&self, endpoint: &str) -> Result<(), ConnectError> {
        self.ask(|answer| Command::Unbind(endpoint.to_owned(), answer))
            .await
            .unwrap_or(Err(CONNECT_CLOSED))
    }

    /// Connects to an endpoint, and again whenever the connection is lost. Gives at once: the peer
    /// need not be there yet.
    ///
    /// # Errors
    /// The endpoint is wrong (EINVAL), or of a transport that is not there (EPROTONOSUPPORT).
    pub async fn connect(&self, endpoint: &str) -> Result<(), ConnectError> {
        self.connect_as(endpoint, None).await
    }

    pub(super) async fn connect_as(
        &self,
        endpoint: &str,
        routing_id: Option<RoutingId>,
    ) -> Result<(), ConnectError> {
        self.ask(|answer| Command::Connect(endpoint.to_owned(), routing_id, answer))
            .await
            .unwrap_or(Err(CONNECT_CLOSED))
    }

    /// Takes a connect back: its links close, and requests on them end `NOT_FOUND` (D-R4).
    ///
    /// # Errors
    /// It was not connected (ENOENT).
    pub async fn disconnect(&self, endpoint: &str) -> Result<(), ConnectError> {
        self.ask(|answer| Command::Disconnect(endpoint.to_owned(), answer))
            .await
            .unwrap_or(Err(CONNECT_CLOSED))
    }

    /// Closes the socket: nothing more is taken, every call that waits ends with ESHUTDOWN, and
    /// what is queued is written while `linger` lasts. Gives when the last connection is over.
    ///
    /// # Errors
    /// It is closed already (ESHUTDOWN).
    pub async fn close(&self) -> Result<(), CloseError> {
        const CLOSED: CloseError = CloseError::new(CloseResult::Shutdown, Errno::ESHUTDOWN);
        if self.is_closed() {
            return Err(CLOSED);
        }
        self.ask(Command::Close).await.ok_or(CLOSED)
    }

    /// True once the socket takes nothing more.
    pub fn is_closed(&self) -> bool {
        self.shared.look(|state| state.closed)
    }

    /// The real endpoint of the last bind or connect (`LAST_ENDPOINT`).
    pub fn last_endpoint(&self) -> Option<Arc<str>> {
        self.shared.look(|state| state.last_endpoint.clone())
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).ok()?;
        answered.await.ok()
    }

    // ---- completions ------------------------------------------------------------------------

    /// The next completion of the queue, within `receive_timeout` (D-R8).
    ///
    /// # Errors
    /// There is none in time (`NO_DATA`), or the socket is closed.
    pub async fn next_completion(&self) -> Result<Completion, RecvError> {
        self.take_in_time(On::Completions, |state| state.core.next_completion()).await
    }

    /// The next completion of the queue, if one is there.
    ///
    /// # Errors
    /// There is none (`NO_DATA`), or the socket is closed.
    pub fn try_completion(&self) -> Result<Completion, RecvError> {
        self.take(|state| state.core.next_completion())
    }

    /// Waits until a refused record is worth another try (D-W3). The record of the token does not
    /// come through the completion queue then; a wait that is dropped gives it up.
    ///
    /// # Errors
    /// The target was removed (`NOT_FOUND` with ENOENT, D-W6), there is no such token (the same),
    /// or the socket is closed (TERMINATED).
    pub async fn writable(&self, token: CompletionId) -> Result<(), SubmitError> {
        let known = self.shared.step(|state| state.core.claim_token(token));
        let gone = SubmitError::new(SubmitResult::NotFound, Errno::ENOENT);
        if !known {
            return Err(if self.is_closed() { TERMINATED } else { gone });
        }
        match Claim::new(&self.shared, token).completion().await {
            Some(Completion { outcome: Outcome::Writable, .. }) => Ok(()),
            Some(_) => Err(gone),
            None => Err(TERMINATED),
        }
    }

    // ---- readiness --------------------------------------------------------------------------

    /// Levels of readiness as they are (2.8).
    pub fn readiness(&self) -> Readiness {
        self.shared.look(|state| state.core.readiness())
    }

    /// Begins to watch levels of readiness (2.8); only one at a time may watch completions (D-P5).
    ///
    /// # Errors
    /// Somebody watches completions already (`INVALID_STATE` with EBUSY).
    pub fn poller(&self, interest: Readiness) -> Result<Poller, ConfigError> {
        Poller::new(&self.shared, interest)
    }

    // ---- what it tells of itself ------------------------------------------------------------

    /// Watches the events of this mask (4.6); one at a time may watch.
    ///
    /// # Errors
    /// Somebody watches already (BUSY with EBUSY).
    pub fn monitor(&self, mask: u32) -> Result<Monitor, ConfigError> {
        Monitor::new(&self.shared, mask)
    }

    /// The socket at this moment (4.7).
    pub fn status(&self) -> Status {
        self.shared.look(|state| state.core.status())
    }

    /// Its peers at this moment.
    pub fn peers(&self) -> Vec<PeerStatus> {
        self.shared.look(|state| state.core.peers())
    }

    /// What it has counted.
    pub fn counters(&self) -> Counters {
        self.shared.look(|state| *state.core.counters())
    }

    // ---- flow state and options -------------------------------------------------------------

    /// Asks every peer to pause, or to go on (D-F1, D-F2). It does not wait for the peers.
    ///
    /// # Errors
    /// The socket is closed (`INVALID_STATE` with ESHUTDOWN, D-F3).
    pub fn set_receive_flow_state(&self, to: FlowState) -> Result<(), ConfigError> {
        self.configure(|state| state.core.set_receive_flow_state(now(), to))
    }

    /// Sets the weight by which peers choose this socket (D-G1): 0 to 10,000.
    ///
    /// # Errors
    /// It is larger (EINVAL): the old one stays (D-O1). Or the socket is closed.
    pub fn set_weight(&self, weight: u32) -> Result<(), ConfigError> {
        let weight = Weight::new(weight).ok_or(INVALID)?;
        self.configure(|state| state.core.set_weight(weight))
    }

    /// Sends one empty record to each peer that connects from now on (D-O3).
    ///
    /// # Errors
    /// The socket is closed.
    pub fn set_probe(&self, probe: bool) -> Result<(), ConfigError> {
        self.set_option(|options| options.probe = probe)
    }

    /// The timeout of requests that have none of their own (D-R2).
    ///
    /// # Errors
    /// The socket is closed.
    pub fn set_request_timeout(&self, timeout: Duration) -> Result<(), ConfigError> {
        self.set_option(|options| options.request_timeout = timeout)
    }

    /// `SNDHWM` of every link in bytes; 0 = no limit (4.2).
    ///
    /// # Errors
    /// The socket is closed.
    pub fn set_send_hwm(&self, bytes: Charge) -> Result<(), ConfigError> {
        self.set_option(|options| options.send_hwm = bytes)
    }

    /// `RCVHWM` of connections that are made from now on, in bytes; 0 = no limit (4.2).
    ///
    /// # Errors
    /// The socket is closed.
    pub fn set_receive_hwm(&self, bytes: Charge) -> Result<(), ConfigError> {
        self.set_option(|options| options.receive_hwm = bytes)
    }

    /// `MAXMSGSIZE` in bytes; 0 = no limit. Connections that are there keep theirs for what they
    /// receive.
    ///
    /// # Errors
    /// The socket is closed.
    pub fn set_max_message_size(&self, bytes: u64) -> Result<(), ConfigError> {
        self.set_option(|options| options.max_message_size = bytes)
    }

    /// `RID_DUPLICATE_POLICY` (R-D1).
    ///
    /// # Errors
    /// The socket is closed.
    pub fn set_duplicate_policy(&self, policy: DuplicatePolicy) -> Result<(), ConfigError> {
        self.set_option(|options| options.duplicates = policy)
    }

    /// `CONFLATE`: these sockets keep every record.
    ///
    /// # Errors
    /// It is switched on (`NOT_SUPPORTED` with ENOTSUP, D-O4).
    pub const fn set_conflate(&self, conflate: bool) -> Result<(), ConfigError> {
        if conflate {
            Err(ConfigError::new(ConfigResult::NotSupported, Errno::ENOTSUP))
        } else {
            Ok(())
        }
    }

    /// `CONFLATE`, which is never on (D-O4).
    pub const fn conflate(&self) -> bool {
        false
    }

    /// Changes times; each call takes them as they are when it begins.
    ///
    /// # Errors
    /// The socket is closed.
    pub fn set_timing(&self, set: impl FnOnce(&mut Timing)) -> Result<(), ConfigError> {
        self.configure(|state| set(&mut state.timing))
    }

    /// `SNDTIMEO`: how long a send waits; `None` = for ever.
    ///
    /// # Errors
    /// The socket is closed.
    pub fn set_send_timeout(&self, timeout: Option<Duration>) -> Result<(), ConfigError> {
        self.set_timing(|timing| timing.send_timeout = timeout)
    }

    /// `RCVTIMEO`: how long a receive waits; `None` = for ever.
    ///
    /// # Errors
    /// The socket is closed.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) -> Result<(), ConfigError> {
        self.set_timing(|timing| timing.receive_timeout = timeout)
    }

    /// `LINGER`: how long a close waits for what is queued; `None` = for ever.
    ///
    /// # Errors
    /// The socket is closed.
    pub fn set_linger(&self, linger: Option<Duration>) -> Result<(), ConfigError> {
        self.set_timing(|timing| timing.linger = linger)
    }

    /// The options of the socket as they are.
    pub fn options(&self) -> CoreOptions {
        self.shared.look(|state| state.core.options().clone())
    }

    /// The times of the socket as they are.
    pub fn timing(&self) -> Timing {
        self.shared.look(|state| state.timing)
    }

    /// DEALER or ROUTER.
    pub fn kind(&self) -> SocketKind {
        self.shared.look(|state| state.core.options().kind)
    }

    /// The socket's own routing id.
    pub fn routing_id(&self) -> RoutingId {
        self.shared.look(|state| state.core.options().routing_id.clone())
    }

    fn set_option(&self, set: impl FnOnce(&mut CoreOptions)) -> Result<(), ConfigError> {
        self.configure(|state| state.core.set_options(set))
    }

    pub(super) fn configure<R>(&self, set: impl FnOnce(&mut State) -> R) -> Result<R, ConfigError> {
        self.shared.step(|state| {
            if state.closed {
                return Err(ConfigError::new(ConfigResult::InvalidState, Errno::ESHUTDOWN));
            }
            Ok(set(state))
        })
    }

    // ---- taking -----------------------------------------------------------------------------

    /// Takes what is there.
    pub(super) fn take<T>(
        &self,
        take: impl FnOnce(&mut State) -> Option<T>,
    ) -> Result<T, RecvError> {
        self.shared.step(|state| take(state).ok_or(if state.closed { CLOSED } else { NO_DATA }))
    }

    /// Takes what comes within `receive_timeout`, which is looked up once (D-V4).
    pub(super) async fn take_in_time<T>(
        &self,
        on: On,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, RecvError> {
        let mut waiting = Waiting::new(&self.shared, on, |timing| timing.receive_timeout);
        std::future::poll_fn(|cx| waiting.poll(cx, &mut take)).await.map_err(|ended| match ended {
            Ended::Over => NO_DATA,
            Ended::Closed => CLOSED,
        })
    }
}

/// Moves the next record into these parts, if they are enough (D-V3, D-A4).
pub(super) fn into_parts<T>(
    state: &mut State,
    parts: &mut [Bytes],
    take: impl FnOnce(&mut State) -> Option<(lineway_wire::zmp::Record, T)>,
) -> Option<Result<(usize, T), RecvIntoError>> {
    let needed = state.core.next_parts()?;
    if needed > parts.len() {
        return Some(Err(RecvIntoError::too_small(needed)));
    }
    let (record, more) = take(state)?;
    let record = record.into_parts();
    let count = record.len();
    for (slot, part) in parts.iter_mut().zip(record) {
        *slot = part;
    }
    Some(Ok((count, more)))
}

const CONNECT_CLOSED: ConnectError =
    ConnectError::new(ConnectResult::InvalidHandle, Errno::ESHUTDOWN);

const INVALID: ConfigError = ConfigError::new(ConfigResult::InvalidArgument, Errno::EINVAL);
