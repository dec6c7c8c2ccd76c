//! What lives on the main thread beside the supervisor: the admin interface, as an actor that is
//! started again after a panic.

use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use actix::prelude::*;
use futures_util::FutureExt as _;
use lineway_actors::messages::{
    ActorName, Attach, CidLeaseBatch, Died, ExpiredBatch, Snapshot, StartAgain, WatchAgain,
};
use lineway_actors::metrics::ActorKind;
use lineway_actors::service::Service;
use lineway_actors::spawn;
use lineway_actors::supervisor::MAIN_THREAD;
use lineway_actors::worker::Board;

use super::ShownPlan;
use crate::admin::{self, CloseOutcome, Format, NotReady};

/// Starts the admin interface, and what starts it again.
pub(super) fn start(server: Rc<admin::Server>, context: admin::Context, board: &Board) {
    let main = MainThread { server, context, board: board.clone() };
    main.start_admin();
    let actors = board.metrics.actors();
    let addr = spawn::start(ActorKind::Worker, actors, |_| main, |_| {});
    board.supervisor.attach(Attach {
        worker: MAIN_THREAD,
        expired: addr.clone().recipient(),
        leases: addr.clone().recipient(),
        again: addr.clone().recipient(),
        restart: addr.recipient(),
    });
}

/// What the admin interface shows, from the running service.
pub(super) fn admin_context(board: &Board, service: &Service, shown: &ShownPlan) -> admin::Context {
    let metrics = board.metrics.clone();
    let (live, ready) = (board.health.clone(), board.health.clone());
    let (shown, finisher) = (Arc::clone(shown), service.finisher());
    admin::Context {
        version: env!("CARGO_PKG_VERSION"),
        started: Instant::now(),
        registry: board.registry.clone(),
        plan: Arc::new(move || Arc::clone(&shown.read().unwrap_or_else(PoisonError::into_inner))),
        metrics: Arc::new(move |format| match format {
            Format::Text => metrics.text(),
            Format::OpenMetrics => metrics.open_metrics(),
        }),
        live: Arc::new(move || {
            let still = live.live(Instant::now());
            still.map_err(|all| all.iter().map(ToString::to_string).collect())
        }),
        ready: Arc::new(move || {
            let not_ready = ready.ready(Instant::now());
            not_ready.map_err(|all| {
                all.into_iter()
                    .map(|not| NotReady { node: not.node, reason: not.reason.into_owned() })
                    .collect()
            })
        }),
        close: Arc::new(move |id| {
            let found = finisher.finish_line(id);
            async move { if found.await { CloseOutcome::Accepted } else { CloseOutcome::Unknown } }
                .boxed()
        }),
        accept_error: Arc::new(|_| {}),
    }
}

struct MainThread {
    server: Rc<admin::Server>,
    context: admin::Context,
    board: Board,
}

impl MainThread {
    fn start_admin(&self) {
        let (server, context) = (Rc::clone(&self.server), self.context.clone());
        let supervisor = self.board.supervisor.clone();
        let actor = ActorName { worker: MAIN_THREAD, kind: ActorKind::Admin, node: None, place: 0 };
        spawn::start(
            ActorKind::Admin,
            self.board.metrics.actors(),
            |_| Admin { server, context },
            move |_| supervisor.died(Died { actor }),
        );
    }
}

impl Actor for MainThread {
    type Context = Context<Self>;
}

impl Handler<StartAgain> for MainThread {
    type Result = ();

    fn handle(&mut self, again: StartAgain, _: &mut Self::Context) {
        if again.actor.kind == ActorKind::Admin {
            self.start_admin();
        }
    }
}

// No line lives on the main thread.

impl Handler<ExpiredBatch> for MainThread {
    type Result = ();

    fn handle(&mut self, _: ExpiredBatch, _: &mut Self::Context) {}
}

impl Handler<CidLeaseBatch> for MainThread {
    type Result = ();

    fn handle(&mut self, _: CidLeaseBatch, _: &mut Self::Context) {}
}

impl Handler<WatchAgain> for MainThread {
    type Result = ();

    fn handle(&mut self, _: WatchAgain, _: &mut Self::Context) {
        let (lines, deadlines, leases) = (Vec::new(), Vec::new(), Vec::new());
        let nothing = Snapshot { worker: MAIN_THREAD, lines, deadlines, leases };
        self.board.supervisor.snapshot(nothing);
    }
}

/// The actor of the admin interface.
struct Admin {
    server: Rc<admin::Server>,
    context: admin::Context,
}

impl Actor for Admin {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let (server, context) = (Rc::clone(&self.server), self.context.clone());
        let serve = async move { server.serve(context, std::future::pending()).await };
        ctx.spawn(serve.into_actor(self).map(|served, _, ctx| {
            if let Err(error) = served {
                tracing::error!(%error, "the admin interface does not answer");
            }
            ctx.stop();
        }));
    }
}
