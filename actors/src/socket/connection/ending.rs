//! How a connection ends: what is queued leaves, the socket is told, the last words reach the peer.

use std::mem;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::BytesMut;
use lineway_wire::zmp::connection::error_frame;
use lineway_wire::zmp::core::{Closing, Disconnected, Rejection};
use lineway_wire::zmp::encode::Writer;
use lineway_wire::zmp::frame::ErrorCode;
use lineway_wire::zmp::monitor::HandshakeFault;
use tokio::time::Instant;

use super::io::Scratch;
use super::{End, PeerConnection, State};
use crate::messages::ConnectionWord;

/// How long last words may take to reach a peer that does not end its side.
const PARTING: Duration = Duration::from_secs(1);

/// What is thrown away of a peer that goes on sending, in bytes.
const THROWN_AWAY: u64 = 16 << 20;

/// How long what is queued may take to leave when a link is closed and not the whole socket, which
/// has its linger.
const FLUSHING: Duration = Duration::from_secs(10);

impl PeerConnection {
    pub(super) fn close(&mut self, closing: Closing) {
        let why = match closing {
            Closing::Socket => Disconnected::ContextEnd,
            Closing::HandedOver | Closing::OtherLane | Closing::Removed => Disconnected::Unknown,
        };
        self.times.handshake = None;
        // A socket that closes has its linger, and says so when that is over.
        self.times.part = (closing != Closing::Socket).then(|| Instant::now() + FLUSHING);
        self.state = State::Flushing(why);
    }

    /// Writes what the socket still has for the peer.
    pub(super) fn flush(
        &mut self,
        cx: &mut TaskContext<'_>,
        scratch: &mut Scratch,
        why: Disconnected,
        first: bool,
    ) -> bool {
        let wrote = self.write(cx);
        if self.deaf || self.end.is_some() {
            self.over(why, None, None);
            self.state = State::Over;
            return false;
        }
        if first || self.written > 0 || (self.more && !self.has_output()) {
            self.exchange(cx, scratch);
            return true;
        }
        if !self.has_output() && !self.more {
            self.over(why, None, None);
            self.begin_parting();
            return true;
        }
        wrote
    }

    /// Ends as `end` has it; what was received before is with the socket.
    pub(super) fn finish(&mut self, end: End) {
        let shaking = matches!(self.state, State::Shaking | State::Attaching(_)) || self.incomplete;
        let lost = if shaking { Disconnected::Handshake } else { Disconnected::Transport };
        let ended = if shaking { Disconnected::Handshake } else { Disconnected::Unknown };
        match end {
            End::Ended => self.over(ended, None, None),
            End::Accused => self.over(lost, None, None),
            End::Fault(error) => {
                tracing::debug!(connection = self.id.0, remote = %self.remote, %error,
                    "the peer broke the protocol");
                let missing = self.incomplete.then_some(HandshakeFault::Ready);
                let fault = self.wire.handshake().or(missing);
                // Of a peer that is only late nobody can say what is wrong.
                let told = error.code != ErrorCode::HandshakeTimeout;
                self.over(lost, fault.filter(|_| told), None);
                if !self.deaf {
                    self.writer().push_bytes(error_frame(&error));
                }
            }
            End::Broken => {
                self.over(lost, None, None);
                self.state = State::Over;
                return;
            }
        }
        self.begin_parting();
    }

    pub(super) fn begin_parting(&mut self) {
        self.input = BytesMut::new();
        self.reader.holds(0);
        self.times.handshake = None;
        self.times.part = Some(Instant::now() + PARTING);
        self.state = State::Parting { thrown_away: 0, said: false };
    }

    /// Says the last words, ends the own side, and waits for the peer's end.
    pub(super) fn part(&mut self, cx: &mut TaskContext<'_>, scratch: &mut Scratch) -> bool {
        self.write(cx);
        let State::Parting { thrown_away, said } = &mut self.state else {
            return true;
        };
        let has_output = self.writer.as_ref().is_some_and(|writer| !writer.is_empty());
        let mut over = self.deaf;
        if !over && !has_output && !*said {
            match self.stream.poll_end(cx) {
                Poll::Ready(Ok(())) => *said = true,
                Poll::Ready(Err(_)) => over = true,
                Poll::Pending => {}
            }
        }
        let mut read = false;
        if !over {
            match scratch.throw_away(&mut self.stream, cx) {
                Poll::Ready(Ok(bytes)) if bytes > 0 => {
                    *thrown_away += bytes as u64;
                    over = *thrown_away > THROWN_AWAY;
                    read = true;
                }
                // The peer has read all there was to read, or will not.
                Poll::Ready(_) => over = true,
                Poll::Pending => {}
            }
        }
        if over {
            self.state = State::Over;
        }
        read
    }

    /// Tells the socket that it is over, once.
    pub(super) fn over(
        &mut self,
        why: Disconnected,
        handshake: Option<HandshakeFault>,
        rejection: Option<Rejection>,
    ) {
        if mem::replace(&mut self.ended, true) {
            return;
        }
        if self.attached {
            let now = Instant::now().into_std();
            let lost = self.lost + self.writer.as_ref().map_or(0, Writer::records) as u64;
            self.shared.with(|core| {
                core.lost(lost);
                core.detach(now, self.id, why);
            });
            self.shared.forget(self.id);
        }
        self.say(ConnectionWord::Ended { why, handshake, rejection });
    }
}
