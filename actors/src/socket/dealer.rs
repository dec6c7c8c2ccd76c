//! The handle of a DEALER (section 2).

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lineway_wire::zmp::core::{CompletionId, Submit};
use lineway_wire::zmp::outcome::RecvError;
use lineway_wire::zmp::{Record, SocketKind};

use super::error::{RecvIntoError, RequestError, SendError};
use super::handle::{Socket, into_parts};
use super::wait::On;
use super::{SocketEnv, SocketOptions, Total, Unstarted};

/// A socket that sends each record to a peer that it chooses by weight, and asks questions of
/// ROUTERs.
///
/// A clone is the same socket. Every method may be called on any thread; the futures need no
/// particular runtime. Futures may be dropped at any time: a record was then sent whole or not at
/// all, and nothing that was received is lost.
#[derive(Clone, Debug)]
pub struct Dealer {
    socket: Socket,
}

impl Deref for Dealer {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        &self.socket
    }
}

impl Dealer {
    /// A DEALER whose actor is still to be started, on whichever thread it is to live.
    pub fn new(mut options: SocketOptions, total: Arc<Total>) -> (Self, Unstarted) {
        options.core.kind = SocketKind::Dealer;
        let (socket, unstarted) = Unstarted::new(options, total);
        (Self { socket }, unstarted)
    }

    /// A DEALER that lives on this thread.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub fn start(options: SocketOptions, env: &SocketEnv) -> Self {
        let (dealer, unstarted) = Self::new(options, Arc::clone(&env.total));
        unstarted.start(env);
        dealer
    }

    /// Sends a record to the peer whose turn it is; waits for its admission within `send_timeout`
    /// (NONE, D-N1).
    ///
    /// # Errors
    /// It was not taken, and comes back: no room in time (BACKPRESSURED), every peer has weight 0
    /// (`NOT_ADMITTED`), the peer that it waited for was removed (`NOT_FOUND`), too large for any
    /// peer (EMSGSIZE), closed (TERMINATED).
    pub async fn send(&self, record: impl Into<Record>) -> Result<(), SendError> {
        self.socket.submit(None, record.into(), Submit::Send).await.map(drop)
    }

    /// Sends a record if a peer takes it at once (DONTWAIT, D-D1).
    ///
    /// # Errors
    /// It was not taken, and comes back. Without room (BACKPRESSURED) there is a wait token with
    /// it: a completion with `context` follows, or see [`Socket::writable`].
    pub fn try_send(&self, record: impl Into<Record>, context: u64) -> Result<(), SendError> {
        self.socket.try_submit(None, record.into(), Submit::Send, context).map(drop)
    }

    /// Asks a ROUTER; waits for admission within `send_timeout`, and for the reply within `timeout`
    /// (`None`: `request_timeout`). A call that is dropped gives up its reply.
    ///
    /// # Errors
    /// It was not sent, or ended without a reply.
    pub async fn request(
        &self,
        record: impl Into<Record>,
        timeout: Option<Duration>,
    ) -> Result<Record, RequestError> {
        self.socket.ask_peer(None, record.into(), timeout).await
    }

    /// Asks a ROUTER if one takes the question at once. Exactly one completion with the id follows
    /// (D-R1).
    ///
    /// # Errors
    /// As [`Self::try_send`].
    pub fn try_request(
        &self,
        record: impl Into<Record>,
        timeout: Option<Duration>,
        context: u64,
    ) -> Result<CompletionId, SendError> {
        let submit = Submit::Request { timeout, claim: false };
        let submitted = self.socket.try_submit(None, record.into(), submit, context)?;
        Ok(submitted.expect("a request that was taken has an id"))
    }

    /// The next record, within `receive_timeout` (D-V1, D-V4).
    ///
    /// # Errors
    /// None came in time (`NO_DATA`), or the socket is closed.
    pub async fn recv(&self) -> Result<Record, RecvError> {
        let take = |state: &mut super::shared::State| state.core.recv().map(|got| got.record);
        self.socket.take_in_time(On::Readable, take).await
    }

    /// The next record, if one is there.
    ///
    /// # Errors
    /// None is (`NO_DATA`), or the socket is closed.
    pub fn try_recv(&self) -> Result<Record, RecvError> {
        self.socket.take(|state| state.core.recv().map(|got| got.record))
    }

    /// The next record, within `receive_timeout`, its parts in the first of these slots; how many
    /// there are.
    ///
    /// # Errors
    /// As [`Self::recv`]; and too few slots (`BUFFER_TOO_SMALL`): the record stays (D-V3).
    pub async fn recv_into(&self, parts: &mut [Bytes]) -> Result<usize, RecvIntoError> {
        let take = |state: &mut super::shared::State| {
            into_parts(state, parts, |state| state.core.recv().map(|got| (got.record, ())))
        };
        self.socket.take_in_time(On::Readable, take).await?.map(|(count, ())| count)
    }
}
