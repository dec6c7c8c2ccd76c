use actix::prelude::*;
use lineway_wire::line::FinishReason;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::*;
use crate::messages::{Report, Reports};
use crate::metrics::ActorKind;
use crate::spawn;
use crate::testkit::{Kit, Peer, run};

/// Plays the actor of a parent.
struct Parent(UnboundedSender<CidLease>);

impl Actor for Parent {
    type Context = Context<Self>;
}

impl Handler<CidLease> for Parent {
    type Result = ();

    fn handle(&mut self, lease: CidLease, _: &mut Self::Context) {
        let _ = self.0.send(lease);
    }
}

/// A live line with a mark, and what it hears of leases.
pub(in crate::worker) struct Lessee {
    pub(in crate::worker) view: Arc<LineView>,
    pub(in crate::worker) heard: UnboundedReceiver<CidLease>,
    _client: Peer,
}

impl Lessee {
    pub(in crate::worker) async fn enter(kit: &Kit) -> Self {
        let (id, client) = kit.open(&kit.echo_chain());
        kit.reported().await;
        let view = kit.line(id).unwrap();
        view.set_cids_leased(1024);
        let (tell, heard) = unbounded_channel();
        let actors = kit.board.metrics.actors();
        let parent = spawn::start(ActorKind::MainLine, actors, |_| Parent(tell), |_| {});
        kit.worker.lessee(id, parent.recipient());
        Self { view, heard, _client: client }
    }

    pub(in crate::worker) fn lease(&self, first: u32, last: u32) -> CidLease {
        CidLease { parent: self.view.id, first, last }
    }

    async fn hear(&mut self) -> CidLease {
        self.heard.recv().await.expect("a lease comes")
    }
}

#[test]
fn mux_m08_a_parent_gets_what_it_asks_for() {
    run(async |kit| {
        let (mut one, mut other) = (Lessee::enter(&kit).await, Lessee::enter(&kit).await);
        kit.worker.lease_cids(&one.view, 3000);
        kit.worker.lease_cids(&other.view, 1500);
        assert_eq!(one.hear().await, one.lease(1025, 2048));
        assert_eq!(other.hear().await, other.lease(1025, 1500));
        kit.worker.lease_cids(&one.view, 3000);
        assert_eq!(one.hear().await, one.lease(2049, 3000));
        assert!(kit.worker.lessees.outstanding().is_empty());
    });
}

#[test]
fn mux_m08_a_lease_comes_though_no_supervisor_lived_to_be_asked() {
    run(async |kit| {
        let mut one = Lessee::enter(&kit).await;
        kit.board.supervisor.explode();
        kit.quiet().await;
        kit.worker.lease_cids(&one.view, 3000);
        assert_eq!(one.hear().await, one.lease(1025, 2048));
        kit.reported().await;
        assert!(one.heard.try_recv().is_err(), "it was asked for once");
    });
}

#[test]
fn mux_m08_a_lease_comes_though_the_request_died_with_a_supervisor() {
    run(async |kit| {
        let mut one = Lessee::enter(&kit).await;
        let ask = kit.worker.lessees.ask(&one.view, 3000);
        let reports = Reports { worker: 0, reports: vec![Report::LeaseCids(ask)] };
        kit.board.supervisor.explode();
        kit.board.supervisor.report(reports).expect("it waits behind the panic");
        assert_eq!(one.hear().await, one.lease(1025, 2048));
        kit.reported().await;
        assert!(one.heard.try_recv().is_err());
    });
}

#[test]
fn mux_m08_a_lease_that_comes_a_second_time_answers_no_other_request() {
    run(async |kit| {
        let mut one = Lessee::enter(&kit).await;
        one.view.set_cids_leased(2048);
        let ask = kit.worker.lessees.ask(&one.view, 3000);
        kit.worker.leased(one.lease(1025, 2048));
        assert_eq!(one.hear().await, one.lease(1025, 2048), "the parent refuses it");
        assert_eq!(kit.worker.lessees.outstanding(), [ask]);
    });
}

#[test]
fn mux_m08_a_parent_whose_line_is_gone_is_forgotten() {
    run(async |kit| {
        let mut one = Lessee::enter(&kit).await;
        kit.worker.lessees.ask(&one.view, 3000);
        kit.worker.finish_line(one.view.id, FinishReason::Admin);
        kit.reported().await;
        assert!(kit.worker.lessees.outstanding().is_empty());
        kit.worker.leased(one.lease(1025, 2048));
        assert_eq!(one.heard.recv().await, None, "its recipient is dropped");
        kit.assert_empty().await;
    });
}
