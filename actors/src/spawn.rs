//! Where actors start: the one place, so that each is counted and none takes others with it.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use actix::dev::ContextFut;
use actix::prelude::*;

use crate::metrics::{ActorKind, ActorMetrics, KindMetrics};

/// An actor ended by a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanicReport {
    /// What sort of actor it was.
    pub kind: ActorKind,
    /// What the panic said.
    pub message: String,
}

/// Starts an actor on this thread and gives its address.
///
/// `build` makes the actor; its context already has an address. When one of the actor's handlers
/// or futures panics, that actor ends and no other: it is counted, the panic is logged, what the
/// actor held is dropped, and then `on_panic` is called on the same thread. `Actor::stopping` and
/// `Actor::stopped` are not called on an actor that panicked, nor on one that ends with its
/// runtime; what must happen at its end belongs into its `Drop` or into `on_panic`.
///
/// # Panics
/// Outside of a tokio `LocalSet`; and when `build` panics.
pub fn start<A, B, P>(kind: ActorKind, metrics: &ActorMetrics, build: B, on_panic: P) -> Addr<A>
where
    A: Actor<Context = Context<A>>,
    B: FnOnce(&mut Context<A>) -> A,
    P: FnOnce(PanicReport) + 'static,
{
    let mut context = Context::new();
    let actor = build(&mut context);
    let future = context.into_future(actor);
    let address = future.address();
    // The runtime moves a task about before it runs and when it ends: a pointer, not the actor.
    tokio::task::spawn_local(Box::new(Guarded {
        future: Some(future),
        alive: Alive::new(kind, metrics),
        on_panic: Some(on_panic),
    }));
    address
}

/// One live actor in the metrics.
struct Alive {
    kind: ActorKind,
    metrics: Arc<KindMetrics>,
}

impl Alive {
    fn new(kind: ActorKind, metrics: &ActorMetrics) -> Self {
        let metrics = Arc::clone(metrics.kind(kind));
        metrics.alive.inc();
        Self { kind, metrics }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.metrics.alive.dec();
    }
}

/// The future of one actor, which a panic of the actor does not leave.
struct Guarded<A: Actor<Context = Context<A>>, P> {
    /// `None` when the actor has ended.
    future: Option<ContextFut<A, Context<A>>>,
    alive: Alive,
    on_panic: Option<P>,
}

// Nothing in it is pinned: an actor's future is `Unpin`, and `on_panic` is only moved out.
impl<A: Actor<Context = Context<A>>, P> Unpin for Guarded<A, P> {}

impl<A, P> Guarded<A, P>
where
    A: Actor<Context = Context<A>>,
{
    /// Drops the actor; the message of a panic that this led to.
    fn drop_actor(&mut self) -> Option<String> {
        catch_unwind(AssertUnwindSafe(|| self.future = None)).err().map(message_of)
    }

    /// Counts and logs a panic.
    fn note(&self, message: &str) {
        self.alive.metrics.panics.inc();
        tracing::error!(kind = self.alive.kind.as_str(), message, "an actor panicked");
    }
}

impl<A, P> Future for Guarded<A, P>
where
    A: Actor<Context = Context<A>>,
    P: FnOnce(PanicReport),
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(future) = &mut this.future else {
            return Poll::Ready(());
        };
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut *future).poll(cx)));
        let message = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => this.drop_actor(),
            Err(payload) => {
                // Without this the drop would poll the broken actor once more.
                future.ctx().terminate();
                let message = message_of(payload);
                this.drop_actor();
                Some(message)
            }
        };
        if let Some(message) = message {
            this.note(&message);
            if let Some(on_panic) = this.on_panic.take() {
                on_panic(PanicReport { kind: this.alive.kind, message });
            }
        }
        Poll::Ready(())
    }
}

impl<A, P> Drop for Guarded<A, P>
where
    A: Actor<Context = Context<A>>,
{
    fn drop(&mut self) {
        // The runtime ends, and the drop of a live actor would start or poll it once more.
        if let Some(future) = &mut self.future {
            future.ctx().terminate();
        }
        if let Some(message) = self.drop_actor() {
            self.note(&message);
        }
    }
}

/// What a panic said.
fn message_of(payload: Box<dyn Any + Send>) -> String {
    let message = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a text".to_owned()
    };
    // The payload is any type, and its own drop may panic.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    message
}

#[cfg(test)]
mod tests;
