//! What a socket listens on, and the handshakes of those that came (B-7).

use std::collections::BTreeSet;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;
use lineway_wire::zmp::Lane;
use lineway_wire::zmp::core::{ConnectionId, Disconnected, Origin};
use lineway_wire::zmp::endpoint::{Endpoint, EndpointError};
use lineway_wire::zmp::monitor::{Event, EventKind};
use lineway_wire::zmp::outcome::{BindError, BindResult, Errno};
use tokio::sync::oneshot;

use super::Engine;
use crate::metrics::AcceptError;
use crate::socket::transport::Listening;

/// Connections accepted in one turn; then the others have theirs.
const BUDGET: usize = 64;

/// How long accepting rests when the system has no room for another connection.
const REST: Duration = Duration::from_millis(100);

/// Who asked for a bind.
pub(super) type Answer = oneshot::Sender<Result<Arc<str>, BindError>>;

/// What a socket listens on.
pub(super) struct Listeners {
    binding: Vec<Binding>,
    bound: Vec<Bound>,
    /// Accepted connections in their handshake, the oldest first.
    handshakes: BTreeSet<ConnectionId>,
    max_handshakes: usize,
}

/// A bind that takes its time: a name is looked up.
struct Binding {
    given: String,
    bound: LocalBoxFuture<'static, Result<Listening, BindError>>,
    answer: Answer,
}

struct Bound {
    /// As it was asked for.
    given: Option<String>,
    listening: Listening,
    rests_until: Option<Instant>,
}

impl Listeners {
    pub(super) const fn new(max_handshakes: usize) -> Self {
        Self { binding: Vec::new(), bound: Vec::new(), handshakes: BTreeSet::new(), max_handshakes }
    }

    /// A handshake is over, well or not.
    pub(super) fn over(&mut self, connection: ConnectionId) {
        self.handshakes.remove(&connection);
    }

    /// When there is something to do though nobody comes.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.bound.iter().filter_map(|bound| bound.rests_until).min()
    }

    /// Room for one more handshake: where there is none, the oldest gives way, so that those that
    /// connect and say nothing do not keep others away.
    fn admit(&mut self, connection: ConnectionId) -> Option<ConnectionId> {
        let full = self.handshakes.len() >= self.max_handshakes.max(1);
        let oldest = if full { self.handshakes.pop_first() } else { None };
        self.handshakes.insert(connection);
        oldest
    }
}

impl Engine {
    /// `bind`; with a listener that is bound already, it is taken over.
    pub(super) fn bind(&mut self, given: String, listener: Option<TcpListener>, answer: Answer) {
        let options = self.current_options();
        let parsed = given.parse::<Endpoint>().map_err(|error| invalid(&error));
        let env = self.env.clone();
        let bound: LocalBoxFuture<'static, _> = match (parsed, listener) {
            (Err(error), _) => Box::pin(std::future::ready(Err(error))),
            (Ok(Endpoint::Tcp { .. }), Some(listener)) => {
                let adopted = Listening::adopt(listener, &options);
                Box::pin(std::future::ready(adopted.map_err(|error| internal(&error))))
            }
            (Ok(_), Some(_)) => {
                let wrong = BindError::new(BindResult::InvalidArgument, Errno::EINVAL);
                Box::pin(std::future::ready(Err(wrong)))
            }
            (Ok(endpoint), None) => {
                Box::pin(async move { Listening::bind(&endpoint, &options, &env).await })
            }
        };
        self.listeners.binding.push(Binding { given, bound, answer });
    }

    /// Accepts from this from now on.
    pub(in super::super) fn listen(&mut self, listening: Listening, given: Option<String>) {
        let name = Arc::clone(listening.name());
        tracing::debug!(endpoint = %name, "listening");
        self.shared().step(|state| {
            state.last_endpoint = Some(Arc::clone(&name));
            state.core.bound(Arc::clone(&name));
            state.core.report(Event::new(EventKind::Listening, 0, name, Arc::from("")));
        });
        self.listeners.bound.push(Bound { given, listening, rests_until: None });
    }

    /// False when it is not bound.
    pub(super) fn unbind(&mut self, text: &str) -> bool {
        let named = |bound: &Bound| {
            bound.given.as_deref() == Some(text) || &**bound.listening.name() == text
        };
        let Some(at) = self.listeners.bound.iter().position(named) else {
            return false;
        };
        let bound = self.listeners.bound.swap_remove(at);
        self.closed(bound);
        true
    }

    /// Every one is closed; who waits for a bind learns that the socket is.
    pub(super) fn close_listeners(&mut self) {
        self.listeners.binding.clear();
        for bound in std::mem::take(&mut self.listeners.bound) {
            self.closed(bound);
        }
    }

    fn closed(&self, bound: Bound) {
        let name = Arc::clone(bound.listening.name());
        drop(bound);
        self.shared().step(|state| {
            state.core.unbound(&name);
            state.core.report(Event::new(EventKind::Closed, 0, name, Arc::from("")));
        });
    }

    pub(super) fn poll_listeners(&mut self, cx: &mut Context<'_>, now: Instant) {
        self.poll_binding(cx);
        let mut budget = BUDGET;
        for at in 0..self.listeners.bound.len() {
            loop {
                let bound = &mut self.listeners.bound[at];
                if bound.rests_until.is_some_and(|until| until > now) {
                    break;
                }
                bound.rests_until = None;
                let Poll::Ready(accepted) = bound.listening.poll_accept(cx) else {
                    break;
                };
                match accepted {
                    Ok(arrived) => {
                        let origin = Origin::Accepted(Arc::clone(bound.listening.name()));
                        let id = self.attend(arrived, Lane::Application, origin);
                        let oldest = self.listeners.admit(id);
                        self.end(oldest, Disconnected::Handshake);
                    }
                    Err(error) => self.accept_failed(at, &error, now),
                }
                budget -= 1;
                if budget == 0 {
                    cx.waker().wake_by_ref();
                    return;
                }
            }
        }
    }

    fn accept_failed(&mut self, at: usize, error: &io::Error, now: Instant) {
        let bound = &mut self.listeners.bound[at];
        let kind = AcceptError::of(error);
        if kind.is_exhaustion() || kind == AcceptError::Other {
            bound.rests_until = Some(now + REST);
        }
        let name = Arc::clone(bound.listening.name());
        tracing::debug!(endpoint = %name, %error, "accepting failed");
        let errno = error.raw_os_error().unwrap_or(Errno::EIO.0);
        let value = u64::from(errno.unsigned_abs());
        self.report(Event::new(EventKind::AcceptFailed, value, name, Arc::from("")));
    }

    fn poll_binding(&mut self, cx: &mut Context<'_>) {
        let mut at = 0;
        while let Some(binding) = self.listeners.binding.get_mut(at) {
            let Poll::Ready(bound) = binding.bound.as_mut().poll(cx) else {
                at += 1;
                continue;
            };
            let Binding { given, answer, .. } = self.listeners.binding.swap_remove(at);
            let result = match bound {
                Ok(listening) => {
                    let name = Arc::clone(listening.name());
                    self.listen(listening, Some(given));
                    Ok(name)
                }
                Err(error) => {
                    let value = u64::from(error.errno.0.unsigned_abs());
                    let (local, remote) = (Arc::from(given), Arc::from(""));
                    self.report(Event::new(EventKind::BindFailed, value, local, remote));
                    Err(error)
                }
            };
            // Whoever gave up waiting can still unbind it.
            let _ = answer.send(result);
        }
    }
}

fn invalid(error: &EndpointError) -> BindError {
    tracing::debug!(%error, "not bound");
    match error.errno() {
        Errno::EINVAL => BindError::new(BindResult::InvalidArgument, Errno::EINVAL),
        errno => BindError::new(BindResult::NotSupported, errno),
    }
}

fn internal(error: &io::Error) -> BindError {
    let errno = error.raw_os_error().map_or(Errno::EIO, Errno);
    BindError::new(BindResult::InternalError, errno)
}
