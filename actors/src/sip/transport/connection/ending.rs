//! How a connection ends, and when by itself.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use lineway_wire::sip::stream::{StreamError, StreamFault};
use tokio::io::AsyncWrite;

use super::io::Scratch;
use super::{Connection, Stage};
use crate::metrics::SipConnectionEnd;
use crate::sip::back::SendError;

/// How long the peer may take nothing while something is to be written.
const STALL: Duration = Duration::from_secs(30);

/// How long the peer has to end its side after the own one has ended.
const PARTING: Duration = Duration::from_secs(2);

impl Connection {
    /// Nothing that follows can be told apart: an answer where one can be given, and the end.
    pub(super) fn fault(&mut self, error: &StreamError) {
        let why = match error.fault {
            StreamFault::NoLength => SipConnectionEnd::NoLength,
            StreamFault::BadLength => SipConnectionEnd::BadLength,
            StreamFault::TooLarge => SipConnectionEnd::TooLarge,
            StreamFault::NotSip => SipConnectionEnd::NotSip,
        };
        let (remote, node) = (self.link.remote(), self.site.metrics.name());
        tracing::debug!(%node, %remote, %error, "a connection can not be read any further");
        self.input = BytesMut::new();
        self.site.connections.retire(&self.link);
        self.link.finish_with((self.site.fault)(error, &self.received()), why);
    }

    pub(super) fn broke(&mut self, error: &io::Error) {
        tracing::debug!(remote = %self.link.remote(), %error, "connection lost");
        self.over(SipConnectionEnd::Error);
    }

    /// Nothing more is taken to be written; the own side ends, in order.
    pub(super) fn begin_parting(&mut self, why: SipConnectionEnd, now: Instant, peer_ended: bool) {
        self.site.connections.leave(&self.link);
        self.link.is_gone(None);
        self.stage = Stage::Parting { why, until: now + PARTING, shut: false, peer_ended };
    }

    /// Ends the own side and waits for the peer's end. True when another round may move more.
    pub(super) fn part(&mut self, cx: &mut Context<'_>) -> bool {
        let Stage::Parting { why, shut, peer_ended, .. } = &mut self.stage else {
            return false;
        };
        let why = *why;
        let Some(socket) = self.socket.as_mut() else {
            self.over(why);
            return true;
        };
        if !*shut {
            match Pin::new(&mut *socket).poll_shutdown(cx) {
                Poll::Pending => return false,
                Poll::Ready(Ok(())) if !*peer_ended => *shut = true,
                Poll::Ready(_) => {
                    self.over(why);
                    return true;
                }
            }
        }
        match Scratch::read(socket, cx, |_| ()) {
            Poll::Pending => return false,
            Poll::Ready(Ok(0) | Err(_)) => self.over(why),
            Poll::Ready(Ok(_)) => {}
        }
        true
    }

    /// It is over, at once.
    pub(super) fn over(&mut self, why: SipConnectionEnd) {
        let was_up = self.socket.take().is_some();
        self.stage = Stage::Over;
        self.site.connections.leave(&self.link);
        let lost = self.link.is_gone(None) + self.writing.len();
        self.writing.clear();
        if was_up {
            self.site.counters.closed(why);
            let (remote, node) = (self.link.remote(), self.site.metrics.name());
            tracing::debug!(%node, %remote, reason = why.as_str(), lost, "connection closed");
        }
    }

    /// When something has to happen without anybody else.
    fn deadline(&self) -> Option<Instant> {
        let stalled = self.stalled.map(|since| since + STALL);
        match self.stage {
            Stage::Dialling { until, .. } | Stage::Parting { until, .. } => Some(until),
            Stage::Open => {
                let idle = self.site.idle.map(|time| self.active + time);
                idle.into_iter().chain(stalled).min()
            }
            Stage::Owing { until } => Some(stalled.map_or(until, |stalled| stalled.min(until))),
            Stage::Over => None,
        }
    }

    /// Does what is due.
    pub(super) fn mind_the_time(&mut self, now: Instant) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.stage {
            Stage::Dialling { .. } => self.dial_failed(SendError::Timeout),
            Stage::Parting { why, .. } => self.over(why),
            Stage::Open | Stage::Owing { .. } if self.stalled.is_some() => {
                self.over(SipConnectionEnd::Idle);
            }
            Stage::Open => self.begin_parting(SipConnectionEnd::Idle, now, false),
            Stage::Owing { .. } => self.begin_parting(SipConnectionEnd::Peer, now, true),
            Stage::Over => {}
        }
    }

    /// Has the task polled at its deadline. One that moved to later is looked at when it fires.
    pub(super) fn arm(&mut self, now: Instant, cx: &Context<'_>) {
        let timers = &self.site.worker.timers;
        let Some(deadline) = self.deadline() else {
            return;
        };
        match self.timer {
            Some((at, _)) if now < at && at <= deadline => {}
            timer => {
                if let Some((_, key)) = timer {
                    timers.cancel(key);
                }
                self.timer = Some((deadline, timers.set(deadline, cx.waker())));
            }
        }
    }
}
