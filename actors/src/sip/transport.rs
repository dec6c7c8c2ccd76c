//! The sockets of a `SipListener` on one worker.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;

use super::back::{SendError, Way};

/// What came of sending.
pub enum Sent {
    /// It left, or waits in a bounded queue of a live connection.
    Done,
    /// It did not.
    Failed(SendError),
    /// A connection is opened first.
    Later(LocalBoxFuture<'static, Result<(), SendError>>),
}

/// The sockets of one node on one worker, for sending; receiving is the `SipTransport` actors'.
pub struct Transports {
    _private: (),
}

impl Transports {
    /// Sends one message. Datagrams leave by this worker's own socket of the address.
    pub fn send(self: &Rc<Self>, _way: &Way, _bytes: Bytes) -> Sent {
        unimplemented!()
    }
}
