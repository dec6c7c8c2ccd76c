//! What holds after every step.

use super::super::links::State;
use super::*;

/// Adds up again what a socket counts as it goes. Charge that the caller holds is `held`.
pub(super) fn check(core: &Core, held: Charge) {
    let links: Vec<_> = core.links.iter().collect();
    let pipes = || links.iter().flat_map(|link| link.pipes.iter().flatten());
    let load = &core.load;
    assert_eq!(load.out, pipes().map(|pipe| pipe.outstanding).sum::<Charge>(), "charge out");
    let inbound = || links.iter().flat_map(|link| link.inbound.iter());
    let waiting: Charge = inbound().map(|(_, record)| record.charge()).sum();
    assert_eq!(load.in_queued, waiting, "charge that waits");
    assert_eq!(load.in_records, inbound().count() as u64, "records that wait");
    let replies = core.requests.held();
    assert_eq!(load.inward, waiting + replies + held, "charge in");
    let active = links.iter().filter(|link| link.state == State::Active).count();
    assert_eq!(core.active, active, "active links");
    let writable = links.iter().filter(|link| link.writable).count();
    assert_eq!(core.writable, writable, "links with room");
    for link in &links {
        let full = link.application().is_none_or(|pipe| pipe.full.is_some());
        let room = link.state == State::Active && !link.flow.is_paused() && !full;
        assert_eq!(link.writable, room && link.weight.get() > 0);
        let dead = link.state == State::Ended;
        let empty = link.inbound.is_empty() && link.pipes.iter().all(Option::is_none);
        assert!(!(dead && empty), "a link that is over is forgotten");
        let shown = link.is_ready() || dead;
        assert_eq!(link.in_turn, shown && !link.inbound.is_empty(), "its place in the turns");
        assert!(!dead || link.requests.is_empty(), "nobody answers what was asked there");
    }
    if core.options.kind == Dealer {
        assert_eq!(core.scheduler.len(), active, "candidates");
    }
    let pending: usize = links.iter().map(|link| link.requests.len()).sum();
    let reserved = pending + core.waits.token_count() + core.requests.waiting();
    assert_eq!(core.requests.reserved, reserved, "reservations");
    assert!(reserved <= core.options.reservations);
}
