//! The handle of a ROUTER (section 3).

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lineway_wire::zmp::core::{self, CompletionId, Submit};
use lineway_wire::zmp::outcome::{ConfigError, ConfigResult, ConnectError, Errno, RecvError};
use lineway_wire::zmp::{Record, RoutingId, SocketKind};

use super::error::{RecvIntoError, RequestError, SendError};
use super::handle::{Socket, into_parts};
use super::shared::State;
use super::wait::{On, now};
use super::{ReplyToken, SocketEnv, SocketOptions, Total, Unstarted};

/// A socket that names the peer of each record, and answers questions.
///
/// As for a [`Dealer`](super::Dealer): a clone is the same socket, any thread may call, futures may
/// be dropped.
#[derive(Clone, Debug)]
pub struct Router {
    socket: Socket,
}

/// A record that a ROUTER received (R-V1).
#[derive(Debug)]
pub struct Received {
    /// Who sent it.
    pub from: RoutingId,
    /// The record.
    pub record: Record,
    /// It is a request: the reply that is owed.
    pub reply: Option<ReplyToken>,
}

impl Deref for Router {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        &self.socket
    }
}

impl Router {
    /// A ROUTER whose actor is still to be started, on whichever thread it is to live.
    pub fn new(mut options: SocketOptions, total: Arc<Total>) -> (Self, Unstarted) {
        options.core.kind = SocketKind::Router;
        let (socket, unstarted) = Unstarted::new(options, total);
        (Self { socket }, unstarted)
    }

    /// A ROUTER that lives on this thread.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub fn start(options: SocketOptions, env: &SocketEnv) -> Self {
        let (router, unstarted) = Self::new(options, Arc::clone(&env.total));
        unstarted.start(env);
        router
    }

    /// Connects to an endpoint whose peer has this name here, whatever it calls itself (R-O2).
    ///
    /// # Errors
    /// As [`Socket::connect`].
    pub async fn connect_with_id(
        &self,
        endpoint: &str,
        routing_id: RoutingId,
    ) -> Result<(), ConnectError> {
        self.socket.connect_as(endpoint, Some(routing_id)).await
    }

    /// Sends a record to this peer; waits for its admission within `send_timeout`, across
    /// reconnects of the same id (NONE, R-S1).
    ///
    /// # Errors
    /// It was not taken, and comes back: no room in time (BACKPRESSURED), no such peer
    /// (`NOT_CONNECTED` with EHOSTUNREACH; without `mandatory` the record is dropped instead,
    /// R-O1), too large (EMSGSIZE), closed (TERMINATED).
    pub async fn send(&self, to: &RoutingId, record: impl Into<Record>) -> Result<(), SendError> {
        self.socket.submit(Some(to), record.into(), Submit::Send).await.map(drop)
    }

    /// Sends a record if this peer takes it at once (DONTWAIT, R-S2).
    ///
    /// # Errors
    /// It was not taken, and comes back. Without room (BACKPRESSURED) there is a wait token with
    /// it: a completion with `context` follows, or see [`Socket::writable`].
    pub fn try_send(
        &self,
        to: &RoutingId,
        record: impl Into<Record>,
        context: u64,
    ) -> Result<(), SendError> {
        self.socket.try_submit(Some(to), record.into(), Submit::Send, context).map(drop)
    }

    /// Asks another ROUTER; waits for admission within `send_timeout`, and for the reply within
    /// `timeout` (`None`: `request_timeout`). A call that is dropped gives up its reply.
    ///
    /// # Errors
    /// It was not sent (to a DEALER: `NOT_ADMITTED` with EPROTOTYPE, R-Q1), or ended without a
    /// reply.
    pub async fn request(
        &self,
        to: &RoutingId,
        record: impl Into<Record>,
        timeout: Option<Duration>,
    ) -> Result<Record, RequestError> {
        self.socket.ask_peer(Some(to), record.into(), timeout).await
    }

    /// Asks another ROUTER if it takes the question at once. Exactly one completion with the id
    /// follows (D-R1, R-Q2).
    ///
    /// # Errors
    /// As [`Self::try_send`] and [`Self::request`].
    pub fn try_request(
        &self,
        to: &RoutingId,
        record: impl Into<Record>,
        timeout: Option<Duration>,
        context: u64,
    ) -> Result<CompletionId, SendError> {
        let submit = Submit::Request { timeout, claim: false };
        let submitted = self.socket.try_submit(Some(to), record.into(), submit, context)?;
        Ok(submitted.expect("a request that was taken has an id"))
    }

    /// The next record, within `receive_timeout` (R-V1).
    ///
    /// # Errors
    /// None came in time (`NO_DATA`), or the socket is closed.
    pub async fn recv(&self) -> Result<Received, RecvError> {
        let got = self.socket.take_in_time(On::Readable, take).await?;
        Ok(self.received(got))
    }

    /// The next record, if one is there.
    ///
    /// # Errors
    /// None is (`NO_DATA`), or the socket is closed.
    pub fn try_recv(&self) -> Result<Received, RecvError> {
        let got = self.socket.take(take)?;
        Ok(self.received(got))
    }

    /// The next record, within `receive_timeout`, its parts in the first of these slots: who sent
    /// it, how many parts there are, and the reply that is owed.
    ///
    /// # Errors
    /// As [`Self::recv`]; and too few slots (`BUFFER_TOO_SMALL`): the record stays (D-V3).
    pub async fn recv_into(
        &self,
        parts: &mut [Bytes],
    ) -> Result<(RoutingId, usize, Option<ReplyToken>), RecvIntoError> {
        let take = |state: &mut State| {
            into_parts(state, parts, |state| {
                take(state).map(|got| (got.record, (got.from, got.reply)))
            })
        };
        let (count, (from, reply)) = self.socket.take_in_time(On::Readable, take).await??;
        Ok((from, count, reply.map(|id| ReplyToken::new(&self.socket.shared, id))))
    }

    /// Closes the link of this id; its tokens and the replies owed to it end (R-S3, R-P3).
    ///
    /// # Errors
    /// There is no such id (`NOT_FOUND` with ENOENT), or the socket is closed.
    pub fn disconnect_rid(&self, id: &RoutingId) -> Result<(), ConfigError> {
        let known = self.socket.configure(|state| state.core.disconnect_rid(now(), id))?;
        let unknown = ConfigError::new(ConfigResult::NotFound, Errno::ENOENT);
        known.then_some(()).ok_or(unknown)
    }

    /// A record for an id without a route is an error, and not dropped (R-O1).
    ///
    /// # Errors
    /// The socket is closed.
    pub fn set_mandatory(&self, mandatory: bool) -> Result<(), ConfigError> {
        self.socket.configure(|state| {
            state.core.set_options(|options| options.mandatory = mandatory);
        })
    }

    fn received(&self, got: Taken) -> Received {
        let reply = got.reply.map(|id| ReplyToken::new(&self.socket.shared, id));
        Received { from: got.from, record: got.record, reply }
    }
}

/// What was taken under the lock; a token is made of it outside.
struct Taken {
    from: RoutingId,
    record: Record,
    reply: Option<core::ReplyId>,
}

fn take(state: &mut State) -> Option<Taken> {
    let core::Received { from, record, reply } = state.core.recv()?;
    Some(Taken { from: from.expect("a ROUTER knows who sent a record"), record, reply })
}
