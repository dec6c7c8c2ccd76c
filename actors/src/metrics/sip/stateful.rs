//! What a `SipRouter` counts of transactions, of its script, of the registrar, the dispatcher and
//! authentication.

use std::time::Duration;

use lineway_wire::sip::message::Method;
use lineway_wire::sip::transaction::Kind;
use prometheus::core::Collector;
use prometheus::{
    Counter, CounterVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    IntGauge, IntGaugeVec, Opts, Registry,
};

use super::SipMethod;
use super::words::{
    SipAck, SipAgain, SipAuth, SipBranchEnd, SipCancel, SipCancelFound, SipClosed, SipKind,
    SipLookup, SipProbe, SipRefused, SipRegistration, SipRoute, SipTargetState, SipTimeout,
};
use crate::metrics::register;

/// Seconds from an INVITE to its 2xx.
const SET_UP: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

/// What is counted of transactions.
#[derive(Debug)]
pub struct SipTransactionMetrics {
    open: [IntGauge; SipKind::ALL.len()],
    opened: [IntCounter; SipMethod::ALL.len()],
    closed: [IntCounter; SipClosed::ALL.len()],
    forks: [IntCounter; SipClosed::ALL.len()],
    branches_open: IntGauge,
    branches_opened: IntCounter,
    branches_closed: [IntCounter; SipBranchEnd::ALL.len()],
    again: [IntCounter; SipAgain::ALL.len()],
    copies: IntCounter,
    timeouts: [IntCounter; SipTimeout::ALL.len()],
    cancels: [IntCounter; SipCancelFound::ALL.len()],
    branch_cancels: [IntCounter; SipCancel::ALL.len()],
    acks: [IntCounter; SipAck::ALL.len()],
    refused: [IntCounter; SipRefused::ALL.len()],
    set_up: Histogram,
}

impl SipTransactionMetrics {
    /// A request has got a transaction.
    pub fn opened(&self, method: Method<'_>, kind: Kind) {
        self.opened[SipMethod::from(method) as usize].inc();
        self.open[SipKind::from(kind) as usize].inc();
    }
    /// A transaction is gone from memory; it had so many branches, of all legs together.
    pub fn closed(&self, kind: Kind, why: SipClosed, branches: usize) {
        self.open[SipKind::from(kind) as usize].dec();
        self.closed[why as usize].inc();
        if branches > 1 {
            self.forks[why as usize].inc();
        }
    }
    /// A branch was made.
    pub fn branch_opened(&self) {
        self.branches_opened.inc();
        self.branches_open.inc();
    }
    /// A branch is over: its final is there, or it has none any more. Once for each that was made.
    pub fn branch_closed(&self, how: SipBranchEnd) {
        self.branches_open.dec();
        self.branches_closed[how as usize].inc();
    }
    /// Something was sent again by the clock.
    pub fn sent_again(&self, what: SipAgain) {
        self.again[what as usize].inc();
    }
    /// A copy of a request ended at its transaction (R32, R33).
    pub fn copy(&self) {
        self.copies.inc();
    }
    /// A wait was over.
    pub fn timeout(&self, kind: SipTimeout) {
        self.timeouts[kind as usize].inc();
    }
    /// A CANCEL came in that is no copy.
    pub fn cancel(&self, found: SipCancelFound) {
        self.cancels[found as usize].inc();
    }
    /// A branch is not wanted any more, and was open until then.
    pub fn branch_cancelled(&self, why: SipCancel) {
        self.branch_cancels[why as usize].inc();
    }
    /// An ACK was made, or absorbed.
    pub fn ack(&self, what: SipAck) {
        self.acks[what as usize].inc();
    }
    /// A request got a 503 in place of a transaction.
    pub fn refused(&self, why: SipRefused) {
        self.refused[why as usize].inc();
    }
    /// The first 2xx to an INVITE went up, so long after it came.
    pub fn set_up(&self, after: Duration) {
        self.set_up.observe(after.as_secs_f64());
    }
    /// Transactions that live, INVITEs first.
    pub fn live(&self) -> [u64; SipKind::ALL.len()] {
        self.open.each_ref().map(|gauge| gauge.get().max(0).cast_unsigned())
    }
    /// Branches without a final.
    pub fn live_branches(&self) -> u64 {
        self.branches_open.get().max(0).cast_unsigned()
    }
    /// Transactions that are over, by how they came out.
    pub fn by_outcome(&self) -> impl Iterator<Item = (SipClosed, u64)> + '_ {
        SipClosed::ALL.into_iter().map(|why| (why, self.closed[why as usize].get()))
    }
    /// What was sent again by the clock.
    pub fn resent(&self) -> impl Iterator<Item = (SipAgain, u64)> + '_ {
        SipAgain::ALL.into_iter().map(|what| (what, self.again[what as usize].get()))
    }
    /// Waits that were over.
    pub fn timeouts(&self) -> impl Iterator<Item = (SipTimeout, u64)> + '_ {
        SipTimeout::ALL.into_iter().map(|kind| (kind, self.timeouts[kind as usize].get()))
    }
    /// Requests that got a 503 in place of a transaction.
    pub fn refusals(&self) -> impl Iterator<Item = (SipRefused, u64)> + '_ {
        SipRefused::ALL.into_iter().map(|why| (why, self.refused[why as usize].get()))
    }
}

/// What is counted of the script's invocations.
#[derive(Debug)]
pub struct SipScriptMetrics {
    runs: [IntCounter; SipRoute::ALL.len()],
    seconds: [Counter; SipRoute::ALL.len()],
}

impl SipScriptMetrics {
    /// An invocation is over. `ran`: the time that the script ran; what it waited is not in it.
    pub fn ran(&self, route: SipRoute, ran: Duration) {
        self.runs[route as usize].inc();
        self.seconds[route as usize].inc_by(ran.as_secs_f64());
    }
    /// Invocations of a route, and the seconds that they ran.
    pub fn of(&self, route: SipRoute) -> (u64, f64) {
        (self.runs[route as usize].get(), self.seconds[route as usize].get())
    }
}

/// What is counted of the registrar.
#[derive(Debug)]
pub struct SipRegistrarMetrics {
    bindings: IntGauge,
    registrations: [IntCounter; SipRegistration::ALL.len()],
    lookups: [IntCounter; SipLookup::ALL.len()],
}

impl SipRegistrarMetrics {
    /// So many bindings live.
    pub fn bindings(&self, live: u64) {
        self.bindings.set(i64::try_from(live).unwrap_or(i64::MAX));
    }
    /// So many bindings had this happen to them; of a REGISTER that was refused, one.
    pub fn registered(&self, what: SipRegistration, count: u64) {
        self.registrations[what as usize].inc_by(count);
    }
    /// A `lookup` came out so.
    pub fn looked_up(&self, result: SipLookup) {
        self.lookups[result as usize].inc();
    }
    /// Bindings that live.
    pub fn live(&self) -> u64 {
        self.bindings.get().max(0).cast_unsigned()
    }
    /// What became of bindings.
    pub fn registrations(&self) -> impl Iterator<Item = (SipRegistration, u64)> + '_ {
        let count = |what: SipRegistration| self.registrations[what as usize].get();
        SipRegistration::ALL.into_iter().map(move |what| (what, count(what)))
    }
}

/// What is counted of the dispatcher.
#[derive(Debug)]
pub struct SipDispatcherMetrics {
    targets: [IntGauge; SipTargetState::ALL.len()],
    probes: [IntCounter; SipProbe::ALL.len()],
}

impl SipDispatcherMetrics {
    /// So many targets of all sets are in this state.
    pub fn targets(&self, state: SipTargetState, count: usize) {
        self.targets[state as usize].set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    /// An OPTIONS to a target came out so.
    pub fn probed(&self, result: SipProbe) {
        self.probes[result as usize].inc();
    }
    /// Targets by their state.
    pub fn by_state(&self) -> impl Iterator<Item = (SipTargetState, u64)> + '_ {
        let count = |state: SipTargetState| self.targets[state as usize].get();
        SipTargetState::ALL
            .into_iter()
            .map(move |state| (state, count(state).max(0).cast_unsigned()))
    }
}

/// What is counted of authentication.
#[derive(Debug)]
pub struct SipAuthMetrics {
    results: [IntCounter; SipAuth::ALL.len()],
    challenges: IntCounter,
}

impl SipAuthMetrics {
    /// An authentication came out so.
    pub fn checked(&self, result: SipAuth) {
        self.results[result as usize].inc();
    }
    /// A challenge left.
    pub fn challenged(&self) {
        self.challenges.inc();
    }
    /// How authentications came out.
    pub fn results(&self) -> impl Iterator<Item = (SipAuth, u64)> + '_ {
        SipAuth::ALL.into_iter().map(|result| (result, self.results[result as usize].get()))
    }
}

/// One family with a label beside `node`, and the words of that.
struct Family<T> {
    family: T,
    words: Vec<&'static str>,
}

/// What the families of this module have in common.
trait OfNodes {
    type Handle;
    fn handle(&self, labels: &[&str]) -> Self::Handle;
    fn forget(&self, labels: &[&str]);
}

macro_rules! of_nodes {
    ($($family:ty => $handle:ty),+) => { $(
        impl OfNodes for $family {
            type Handle = $handle;
            fn handle(&self, labels: &[&str]) -> $handle {
                self.with_label_values(labels)
            }
            fn forget(&self, labels: &[&str]) {
                // A node that never had it is no matter.
                let _ = self.remove_label_values(labels);
            }
        }
    )+ };
}
of_nodes!(IntCounterVec => IntCounter, CounterVec => Counter, IntGaugeVec => IntGauge, HistogramVec => Histogram);

impl<T: OfNodes> Family<T> {
    /// The handles of a node, for each word one.
    fn each<const N: usize>(&self, node: &str) -> [T::Handle; N] {
        std::array::from_fn(|place| self.family.handle(&[node, self.words[place]]))
    }
    /// The handle of a node, where there is no other label.
    fn one(&self, node: &str) -> T::Handle {
        self.family.handle(&[node])
    }
    fn remove(&self, node: &str) {
        if self.words.is_empty() {
            self.family.forget(&[node]);
        }
        for word in &self.words {
            self.family.forget(&[node, word]);
        }
    }
}

/// The families of all this.
pub(super) struct StatefulFamilies {
    open: Family<IntGaugeVec>,
    opened: Family<IntCounterVec>,
    closed: Family<IntCounterVec>,
    forks: Family<IntCounterVec>,
    branches_open: Family<IntGaugeVec>,
    branches_opened: Family<IntCounterVec>,
    branches_closed: Family<IntCounterVec>,
    again: Family<IntCounterVec>,
    copies: Family<IntCounterVec>,
    timeouts: Family<IntCounterVec>,
    cancels: Family<IntCounterVec>,
    branch_cancels: Family<IntCounterVec>,
    acks: Family<IntCounterVec>,
    refused: Family<IntCounterVec>,
    set_up: Family<HistogramVec>,
    runs: Family<IntCounterVec>,
    seconds: Family<CounterVec>,
    bindings: Family<IntGaugeVec>,
    registrations: Family<IntCounterVec>,
    lookups: Family<IntCounterVec>,
    targets: Family<IntGaugeVec>,
    probes: Family<IntCounterVec>,
    auth: Family<IntCounterVec>,
    challenges: Family<IntCounterVec>,
}

/// Registers a family; with a label, also the words of that.
fn family<T: Collector + Clone + 'static>(
    registry: &Registry,
    make: impl Fn(&[&str]) -> Result<T, prometheus::Error>,
    label: Option<(&'static str, Vec<&'static str>)>,
) -> Family<T> {
    let (label, words) = label.map_or((None, Vec::new()), |(label, words)| (Some(label), words));
    let labels: Vec<_> = std::iter::once("node").chain(label).collect();
    Family { family: register(registry, make(&labels)), words }
}

/// The label of a closed set, with its words.
macro_rules! by {
    ($label:literal, $set:ident) => {
        Some(($label, $set::ALL.map($set::as_str).to_vec()))
    };
}

impl StatefulFamilies {
    pub(super) fn new(registry: &Registry) -> Self {
        let opts = |name: &str, help: &str| Opts::new(format!("lineway_sip_{name}"), help);
        let counter = |name, help, label| {
            family(registry, |labels| IntCounterVec::new(opts(name, help), labels), label)
        };
        let gauge = |name, help, label| {
            family(registry, |labels| IntGaugeVec::new(opts(name, help), labels), label)
        };
        let set_up = HistogramOpts::new(
            "lineway_sip_setup_seconds",
            "Time from an INVITE to the first 2xx that went up.",
        );
        let set_up = set_up.buckets(SET_UP.to_vec());
        let seconds =
            opts("script_seconds_total", "Time that the script ran, without what it waited.");
        Self {
            open: gauge(
                "transactions_open",
                "Transactions in memory, also those that only take late messages in.",
                by!("kind", SipKind),
            ),
            opened: counter(
                "transactions_opened_total",
                "Requests that got a transaction.",
                by!("method", SipMethod),
            ),
            closed: counter(
                "transactions_closed_total",
                "Transactions that are gone from memory, by how they came out.",
                by!("reason", SipClosed),
            ),
            forks: counter(
                "forks_total",
                "Those of them that had more than one branch, by how they came out.",
                by!("reason", SipClosed),
            ),
            branches_open: gauge("branches_open", "Branches that wait for their final.", None),
            branches_opened: counter("branches_opened_total", "Branches that were made.", None),
            branches_closed: counter(
                "branches_closed_total",
                "Branches that are over, by how they ended.",
                by!("result", SipBranchEnd),
            ),
            again: counter(
                "retransmissions_total",
                "Messages that were sent again as nothing came back in time.",
                by!("what", SipAgain),
            ),
            copies: counter(
                "copies_absorbed_total",
                "Requests that came again and ended at their transaction.",
                None,
            ),
            timeouts: counter(
                "timeouts_total",
                "Waits of transactions that were over, by which.",
                by!("kind", SipTimeout),
            ),
            cancels: counter(
                "cancels_received_total",
                "CANCELs of callers, by whether there was an INVITE of theirs.",
                by!("result", SipCancelFound),
            ),
            branch_cancels: counter(
                "branches_cancelled_total",
                "Branches that were not wanted any more, by why.",
                by!("reason", SipCancel),
            ),
            acks: counter(
                "failure_acks_total",
                "ACKs of failures: made for a branch, and those of callers, which end here.",
                by!("what", SipAck),
            ),
            refused: counter(
                "transactions_refused_total",
                "Requests that got a 503 in place of a transaction, by why.",
                by!("reason", SipRefused),
            ),
            set_up: family(registry, |labels| HistogramVec::new(set_up.clone(), labels), None),
            runs: counter(
                "script_runs_total",
                "Invocations of the script that are over, by route.",
                by!("route", SipRoute),
            ),
            seconds: family(
                registry,
                |labels| CounterVec::new(seconds.clone(), labels),
                by!("route", SipRoute),
            ),
            bindings: gauge("bindings", "Registrations that live.", None),
            registrations: counter(
                "registrations_total",
                "What became of registrations, and REGISTERs that were refused.",
                by!("result", SipRegistration),
            ),
            lookups: counter(
                "lookups_total",
                "Lookups of users, by how they came out.",
                by!("result", SipLookup),
            ),
            targets: gauge(
                "dispatcher_targets",
                "Targets of the dispatcher, by their state.",
                by!("state", SipTargetState),
            ),
            probes: counter(
                "dispatcher_probes_total",
                "OPTIONS to targets of the dispatcher, by how they came out.",
                by!("result", SipProbe),
            ),
            auth: counter(
                "auth_total",
                "Authentications, by how they came out.",
                by!("result", SipAuth),
            ),
            challenges: counter("challenges_total", "Challenges that left.", None),
        }
    }

    pub(super) fn transactions(&self, node: &str) -> SipTransactionMetrics {
        SipTransactionMetrics {
            open: self.open.each(node),
            opened: self.opened.each(node),
            closed: self.closed.each(node),
            forks: self.forks.each(node),
            branches_open: self.branches_open.one(node),
            branches_opened: self.branches_opened.one(node),
            branches_closed: self.branches_closed.each(node),
            again: self.again.each(node),
            copies: self.copies.one(node),
            timeouts: self.timeouts.each(node),
            cancels: self.cancels.each(node),
            branch_cancels: self.branch_cancels.each(node),
            acks: self.acks.each(node),
            refused: self.refused.each(node),
            set_up: self.set_up.one(node),
        }
    }

    pub(super) fn script(&self, node: &str) -> SipScriptMetrics {
        SipScriptMetrics { runs: self.runs.each(node), seconds: self.seconds.each(node) }
    }

    pub(super) fn registrar(&self, node: &str) -> SipRegistrarMetrics {
        SipRegistrarMetrics {
            bindings: self.bindings.one(node),
            registrations: self.registrations.each(node),
            lookups: self.lookups.each(node),
        }
    }

    pub(super) fn dispatcher(&self, node: &str) -> SipDispatcherMetrics {
        SipDispatcherMetrics { targets: self.targets.each(node), probes: self.probes.each(node) }
    }

    pub(super) fn auth(&self, node: &str) -> SipAuthMetrics {
        SipAuthMetrics { results: self.auth.each(node), challenges: self.challenges.one(node) }
    }

    /// Takes every series of a node away.
    pub(super) fn remove(&self, node: &str) {
        for gauge in [&self.open, &self.branches_open, &self.bindings, &self.targets] {
            gauge.remove(node);
        }
        for counter in [
            &self.opened,
            &self.closed,
            &self.forks,
            &self.branches_opened,
            &self.branches_closed,
            &self.again,
            &self.copies,
            &self.timeouts,
            &self.cancels,
            &self.branch_cancels,
            &self.acks,
            &self.refused,
            &self.runs,
            &self.registrations,
            &self.lookups,
            &self.probes,
            &self.auth,
            &self.challenges,
        ] {
            counter.remove(node);
        }
        self.seconds.remove(node);
        self.set_up.remove(node);
    }
}
