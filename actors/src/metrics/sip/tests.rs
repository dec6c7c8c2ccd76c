use std::sync::Arc;
use std::time::Duration;

use lineway_wire::sip::message::Method;
use lineway_wire::sip::transaction::Kind;

use super::*;
use crate::metrics::Metrics;

/// The samples of a router that are not 0, without their node.
fn counted(page: &str) -> Vec<String> {
    page.lines()
        .filter(|line| line.starts_with("lineway_sip_") && !line.ends_with(" 0"))
        .map(|line| {
            [r#",node="r""#, r#"node="r","#, r#"node="r""#]
                .iter()
                .fold(line.to_owned(), |line, node| line.replace(node, ""))
        })
        .collect()
}

#[test]
fn case_m07_a_forked_call_counts_each_thing_once() {
    let metrics = Metrics::new("1");
    let node = metrics.node(&Arc::from("r"), "SipRouter");
    let router = node.sip_router().unwrap();
    let tm = &router.transactions;
    assert_eq!(counted(&metrics.text()), [""; 0]);

    tm.opened(Method::Invite, Kind::Invite);
    tm.opened(Method::Bye, Kind::Other);
    for _ in 0..3 {
        tm.branch_opened();
    }
    tm.sent_again(SipAgain::Request);
    tm.copy();
    tm.branch_closed(SipBranchEnd::Answered);
    tm.set_up(Duration::from_millis(700));
    tm.branch_cancelled(SipCancel::from(lineway_wire::sip::transaction::CancelWhy::Answered));
    tm.branch_closed(SipBranchEnd::Cancelled);
    tm.ack(SipAck::Made);
    assert_eq!((tm.live(), tm.live_branches()), ([1, 1], 1));
    tm.timeout(SipTimeout::Fr);
    tm.branch_closed(SipBranchEnd::Timeout);
    tm.closed(Kind::Invite, SipClosed::Answered, 3);
    tm.closed(Kind::Other, SipClosed::Failed, 1);
    tm.cancel(SipCancelFound::Unmatched);
    tm.refused(SipRefused::Limit);
    assert_eq!((tm.live(), tm.live_branches()), ([0, 0], 0));
    let mut page = counted(&metrics.text());
    page.retain(|line| !line.contains("_bucket"));
    assert_eq!(
        page,
        [
            r"lineway_sip_branches_cancelled_total{reason='answered'} 1",
            r"lineway_sip_branches_closed_total{result='answered'} 1",
            r"lineway_sip_branches_closed_total{result='cancelled'} 1",
            r"lineway_sip_branches_closed_total{result='timeout'} 1",
            r"lineway_sip_branches_opened_total{} 3",
            r"lineway_sip_cancels_received_total{result='unmatched'} 1",
            r"lineway_sip_copies_absorbed_total{} 1",
            r"lineway_sip_failure_acks_total{what='made'} 1",
            r"lineway_sip_forks_total{reason='answered'} 1",
            r"lineway_sip_retransmissions_total{what='request'} 1",
            r"lineway_sip_setup_seconds_sum{} 0.7",
            r"lineway_sip_setup_seconds_count{} 1",
            r"lineway_sip_timeouts_total{kind='fr'} 1",
            r"lineway_sip_transactions_closed_total{reason='answered'} 1",
            r"lineway_sip_transactions_closed_total{reason='failed'} 1",
            r"lineway_sip_transactions_opened_total{method='BYE'} 1",
            r"lineway_sip_transactions_opened_total{method='INVITE'} 1",
            r"lineway_sip_transactions_refused_total{reason='max-transactions'} 1",
        ]
        .map(|line| line.replace('\'', "\""))
    );
}

#[test]
fn case_m07_registrar_dispatcher_script_and_authentication_count_their_own() {
    let metrics = Metrics::new("1");
    let node = metrics.node(&Arc::from("r"), "SipRouter");
    let router = node.sip_router().unwrap();
    router.registrar.registered(SipRegistration::Registered, 2);
    router.registrar.registered(SipRegistration::Removed, 1);
    router.registrar.bindings(1);
    router.registrar.looked_up(SipLookup::Missing);
    router.dispatcher.targets(SipTargetState::Inactive, 2);
    router.dispatcher.targets(SipTargetState::Inactive, 1);
    router.dispatcher.probed(SipProbe::Failed);
    router.auth.checked(SipAuth::Stale);
    router.auth.challenged();
    router.script.ran(SipRoute::Failure, Duration::from_millis(250));
    assert_eq!(router.registrar.live(), 1);
    assert_eq!(router.script.of(SipRoute::Failure), (1, 0.25));
    assert_eq!(
        counted(&metrics.text()),
        [
            r"lineway_sip_auth_total{result='stale-nonce'} 1",
            r"lineway_sip_bindings{} 1",
            r"lineway_sip_challenges_total{} 1",
            r"lineway_sip_dispatcher_probes_total{result='failed'} 1",
            r"lineway_sip_dispatcher_targets{state='inactive'} 1",
            r"lineway_sip_lookups_total{result='not-found'} 1",
            r"lineway_sip_registrations_total{result='registered'} 2",
            r"lineway_sip_registrations_total{result='removed'} 1",
            r"lineway_sip_script_runs_total{route='failure'} 1",
            r"lineway_sip_script_seconds_total{route='failure'} 0.25",
        ]
        .map(|line| line.replace('\'', "\""))
    );
}

#[test]
fn every_closed_set_has_its_places_in_order() {
    fn in_order<T: Copy>(all: &[T], place: impl Fn(T) -> usize) {
        assert!(all.iter().enumerate().all(|(at, word)| place(*word) == at));
    }
    in_order(&SipClosed::ALL, |word| word as usize);
    in_order(&SipBranchEnd::ALL, |word| word as usize);
    in_order(&SipTimeout::ALL, |word| word as usize);
    in_order(&SipCancel::ALL, |word| word as usize);
    in_order(&SipRoute::ALL, |word| word as usize);
    in_order(&SipAuth::ALL, |word| word as usize);
}
