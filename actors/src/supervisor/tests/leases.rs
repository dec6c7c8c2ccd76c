//! Leases of cids (M08, M09).

use std::sync::Arc;

use lineway_wire::line::LineKind;

use super::{Heard, House, closed, id, lease, ms, run};
use crate::messages::{CidLease, LeaseCids, Report};
use crate::registry::LineView;

/// A parent with its first lease.
fn parent(number: u64, mark: u32) -> Arc<LineView> {
    let parent = LineView::new(id(number), LineKind::Parent, Arc::from("mux"), None, None);
    parent.set_cids_leased(mark);
    Arc::new(parent)
}

fn opened(parent: &Arc<LineView>) -> Report {
    Report::Opened(Arc::clone(parent))
}

fn granted(leases: &[(u64, u32, u32)]) -> Heard {
    let lease = |&(number, first, last)| CidLease { parent: id(number), first, last };
    Heard::Leases(leases.iter().map(lease).collect())
}

#[test]
fn mux_m08_each_parent_gets_the_range_behind_its_own_mark() {
    run(async {
        let mut house = House::new();
        let (first, second) = (parent(1, 1024), parent(2, 1024));
        house.send(vec![opened(&first), opened(&second), lease(1, u32::MAX)]);
        assert_eq!(house.hear().await, granted(&[(1, 1025, 2048)]));
        assert_eq!((first.cids_leased(), second.cids_leased()), (2048, 1024));
        house.send(vec![lease(2, u32::MAX), lease(1, u32::MAX)]);
        assert_eq!(house.hear().await, granted(&[(2, 1025, 2048), (1, 2049, 3072)]));
        assert_eq!((first.cids_leased(), second.cids_leased()), (3072, 2048));
        assert_eq!(house.counts().cids_leased.get(), 3072);
        assert_eq!(house.counts().stale.get(), 0);
    });
}

#[test]
fn mux_m08_no_lease_goes_above_the_capacity() {
    run(async {
        let mut house = House::new();
        let parent = parent(1, 1024);
        house.send(vec![opened(&parent), lease(1, 1500)]);
        assert_eq!(house.hear().await, granted(&[(1, 1025, 1500)]));
        house.send(vec![lease(1, 1500)]);
        house.settle().await;
        house.silent(ms(10)).await;
        assert_eq!(parent.cids_leased(), 1500);
        assert_eq!(house.counts().stale.get(), 1);
    });
}

#[test]
fn mux_m09_the_last_number_is_never_leased() {
    run(async {
        let mut house = House::new();
        let parent = parent(1, 4_294_967_000);
        house.send(vec![opened(&parent), lease(1, u32::MAX)]);
        assert_eq!(house.hear().await, granted(&[(1, 4_294_967_001, 4_294_967_294)]));
        house.send(vec![lease(1, u32::MAX)]);
        house.settle().await;
        house.silent(ms(10)).await;
    });
}

#[test]
fn mux_m08_a_restarted_supervisor_grants_nothing_below_the_mark() {
    run(async {
        let mut house = House::new();
        let parent = parent(1, 1024);
        house.send(vec![opened(&parent), lease(1, u32::MAX)]);
        assert_eq!(house.hear().await, granted(&[(1, 1025, 2048)]));
        house.truth.borrow_mut().lines = vec![Arc::clone(&parent)];
        house.explode().await;
        house.send(vec![lease(1, u32::MAX)]);
        assert_eq!(house.hear().await, granted(&[(1, 2049, 3072)]));
        assert_eq!(parent.cids_leased(), 3072);
    });
}

#[test]
fn mux_m08_a_request_that_dies_with_a_supervisor_is_granted_by_the_next() {
    run(async {
        let mut house = House::new();
        let parent = parent(1, 1024);
        house.send(vec![opened(&parent)]);
        house.settle().await;
        house.supervisor.explode();
        house.send(vec![lease(1, 5000)]);
        {
            let mut truth = house.truth.borrow_mut();
            truth.lines = vec![Arc::clone(&parent)];
            truth.leases = vec![LeaseCids { parent: id(1), most: 5000 }];
        }
        assert_eq!(house.hear().await, Heard::WatchAgain);
        assert_eq!(house.hear().await, granted(&[(1, 1025, 2048)]));
        house.silent(ms(10)).await;
    });
}

#[test]
fn mux_m08_a_parent_that_is_gone_gets_nothing() {
    run(async {
        let mut house = House::new();
        let (before, brief) = (parent(1, 1024), parent(2, 1024));
        house.send(vec![opened(&before)]);
        house.settle().await;
        house.send(vec![lease(1, 5000), closed(1)]);
        house.send(vec![opened(&brief), lease(2, 5000), closed(2)]);
        house.settle().await;
        assert_eq!(house.counts().stale.get(), 0, "its end came in the same message");
        house.send(vec![lease(1, 5000)]);
        house.settle().await;
        assert_eq!(house.counts().stale.get(), 1);
        house.silent(ms(10)).await;
        assert_eq!((before.cids_leased(), brief.cids_leased()), (1024, 1024));
    });
}
