//! Targets that requests are dispatched to (`KSR.dispatcher`): sets of URIs from the configuration,
//! the choice among them, and which of them live.
//!
//! A target is one for all sets, workers and generations of the configuration that have its URI, so
//! a reload keeps what is known of it. With `dispatcher-ping-ms` the [pinger] asks each
//! with OPTIONS; replies come in on any worker.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lineway_wire::sip::hop::{Hop, HopHost};
use lineway_wire::sip::message::Message;
use lineway_wire::sip::own::{DEFAULT_PORT, Received, Transport};
use lineway_wire::sip::probe::{Act, Probe, ProbeId, ProbeResult, ProbeSettings};
use tokio::sync::watch;

use crate::metrics::{SipProbe, SipRouterMetrics, SipTargetState};
use crate::settings::SipRouterSettings;

mod choose;
pub mod pinger;
#[cfg(test)]
mod tests;

pub use choose::{Algorithm, Selection};

/// How long a target that was marked as failed is left out where nobody asks it.
pub const LEFT_OUT: Duration = Duration::from_secs(60);

/// What all workers of a node know of its targets. Any thread, short locks.
#[derive(Debug)]
pub struct Dispatcher {
    start: Instant,
    /// Who asks, in the branches of the probes.
    asker: u64,
    known: Mutex<Known>,
    /// The sets that are in force.
    current: watch::Sender<Arc<Sets>>,
    results: [AtomicU64; ProbeResult::ALL.len()],
    metrics: OnceLock<Arc<SipRouterMetrics>>,
}

/// What is there once for each URI and each set.
#[derive(Debug, Default)]
struct Known {
    targets: HashMap<Arc<str>, Weak<Target>>,
    by_key: HashMap<u32, Weak<Target>>,
    turns: HashMap<u32, Arc<AtomicU64>>,
    keys: u32,
}

impl Default for Dispatcher {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            asker: RandomState::new().hash_one(0),
            known: Mutex::default(),
            current: watch::channel(Arc::default()).0,
            results: Default::default(),
            metrics: OnceLock::new(),
        }
    }
}

impl Dispatcher {
    /// Counts here as well.
    pub(super) fn count_by(&self, metrics: &Arc<SipRouterMetrics>) {
        self.metrics.get_or_init(|| Arc::clone(metrics));
    }

    /// The sets of these settings, with the targets that are known already.
    pub fn sets(&self, settings: &SipRouterSettings) -> Arc<Sets> {
        let ping = settings.stateful.dispatcher_ping.limit();
        let mut known = lock(&self.known);
        known.targets.retain(|_, target| target.strong_count() > 0);
        known.by_key.retain(|_, target| target.strong_count() > 0);
        let sets = settings.dispatcher.iter().map(|(number, targets)| {
            let turn = Arc::clone(known.turns.entry(*number).or_default());
            let members = targets.iter().map(|target| Member {
                target: self.target(&mut known, &target.uri),
                weight: target.weight,
                priority: target.priority,
            });
            (*number, Set { members: members.collect(), turn })
        });
        let resolve = settings.resolve_timeout.duration();
        Arc::new(Sets { by_number: sets.collect(), ping, resolve })
    }

    fn target(&self, known: &mut Known, uri: &Arc<str>) -> Arc<Target> {
        if let Some(target) = known.targets.get(uri).and_then(Weak::upgrade) {
            return target;
        }
        known.keys = known.keys.wrapping_add(1);
        let key = known.keys;
        let target = Arc::new(Target {
            uri: Bytes::copy_from_slice(uri.as_bytes()),
            key,
            start: self.start,
            out_until: AtomicU64::new(0),
            state: Mutex::new(State { probe: None, addresses: written(uri).into_iter().collect() }),
        });
        known.targets.insert(Arc::clone(uri), Arc::downgrade(&target));
        known.by_key.insert(key, Arc::downgrade(&target));
        target
    }

    /// Puts sets in force: it is they that are asked and counted from here on.
    pub fn adopt(&self, sets: &Arc<Sets>) {
        self.current.send_if_modified(|current| {
            let changes = **current != **sets;
            if changes {
                *current = Arc::clone(sets);
            }
            changes
        });
        self.count_targets(Instant::now());
    }

    /// The sets that are in force.
    pub fn current(&self) -> Arc<Sets> {
        Arc::clone(&self.current.borrow())
    }

    /// For each set the targets that are active, and those that are not.
    pub fn counts(&self, now: Instant) -> Vec<(u32, usize, usize)> {
        let count = |(number, set): (&u32, &Set)| {
            let active = set.members.iter().filter(|member| member.target.is_active(now)).count();
            (*number, active, set.members.len() - active)
        };
        self.current().by_number.iter().map(count).collect()
    }

    /// The probes that came to this result.
    pub fn results(&self, result: ProbeResult) -> u64 {
        self.results[result as usize].load(Ordering::Relaxed)
    }

    /// Takes a reply that is to a probe; false for any other message.
    pub fn heard(&self, reply: &Message, now: Instant) -> bool {
        let Some(id) = ProbeId::of_reply(reply).filter(|id| id.asker == self.asker) else {
            return false;
        };
        let target = lock(&self.known).by_key.get(&id.target).and_then(Weak::upgrade);
        if let Some(target) = target {
            let result = target.change(now, |probe| probe.reply(id.number, reply.status()));
            self.count(result.flatten(), now);
        }
        true
    }

    /// A request to a target failed.
    pub fn mark_failed(&self, target: &Target, now: Instant) {
        target.mark_failed(now);
        self.count_targets(now);
    }

    /// What a target's probing wants by now.
    fn due(&self, target: &Target, now: Instant) -> Option<Act> {
        let act = target.change(now, |probe| probe.handle_timeout(now)).flatten();
        if act == Some(Act::Silent) {
            self.count(Some(ProbeResult::Silent), now);
        }
        act
    }

    /// A probe of a target could not be sent.
    fn unsent(&self, target: &Target, number: u32, now: Instant) {
        let was_out = target.change(now, |probe| probe.unsent(number)) == Some(true);
        self.count(was_out.then_some(ProbeResult::Unsent), now);
    }

    fn count(&self, result: Option<ProbeResult>, now: Instant) {
        let Some(result) = result else { return };
        self.results[result as usize].fetch_add(1, Ordering::Relaxed);
        if let Some(metrics) = self.metrics.get() {
            let is_well = result == ProbeResult::Answered;
            metrics.dispatcher.probed(if is_well { SipProbe::Answered } else { SipProbe::Failed });
        }
        self.count_targets(now);
    }

    fn count_targets(&self, now: Instant) {
        let Some(metrics) = self.metrics.get() else { return };
        let add = |sum: (usize, usize), set: (u32, usize, usize)| (sum.0 + set.1, sum.1 + set.2);
        let (active, inactive) = self.counts(now).into_iter().fold((0, 0), add);
        metrics.dispatcher.targets(SipTargetState::Active, active);
        metrics.dispatcher.targets(SipTargetState::Inactive, inactive);
    }
}

/// The sets of one configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sets {
    by_number: BTreeMap<u32, Set>,
    /// `dispatcher-ping-ms`; `None` = nobody is asked.
    ping: Option<Duration>,
    /// `resolve-timeout-ms`.
    resolve: Duration,
}

impl Sets {
    /// Chooses a target of a set, and notes those that are next. `None` for a set that is not there
    /// or has no active target.
    pub fn select(&self, set: i64, by: Algorithm, now: Instant) -> Option<Selection> {
        let set = self.by_number.get(&u32::try_from(set).ok()?)?;
        set.select(by, now)
    }

    /// Whether a message comes from a target of a set, or with -1 of any set: from its address, and
    /// over UDP from its port too. Who connects does so from any port.
    pub fn has_source(&self, set: i64, received: &Received) -> bool {
        let members = |set: &Set| {
            set.members.iter().any(|member| {
                let port = (received.transport == Transport::Udp).then(|| received.source.port());
                member.target.is_at(received.source.ip(), port)
            })
        };
        match set {
            -1 => self.by_number.values().any(members),
            set => u32::try_from(set)
                .ok()
                .and_then(|set| self.by_number.get(&set))
                .is_some_and(members),
        }
    }

    /// Every target once.
    fn targets(&self) -> Vec<Arc<Target>> {
        let all = self.by_number.values().flat_map(|set| &set.members);
        let by_key: BTreeMap<_, _> =
            all.map(|member| (member.target.key, Arc::clone(&member.target))).collect();
        by_key.into_values().collect()
    }
}

/// One set.
#[derive(Debug)]
struct Set {
    /// In the order of the configuration; never empty.
    members: Vec<Member>,
    /// Counts the choices that go round, of all workers.
    turn: Arc<AtomicU64>,
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.members == other.members
    }
}

impl Eq for Set {}

/// A target as a set has it.
#[derive(Clone, Debug)]
struct Member {
    target: Arc<Target>,
    weight: u32,
    priority: i32,
}

impl PartialEq for Member {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.target, &other.target)
            && (self.weight, self.priority) == (other.weight, other.priority)
    }
}

/// One target.
#[derive(Debug)]
pub struct Target {
    /// Where requests go: `$du`.
    uri: Bytes,
    /// Its number in the branches of probes.
    key: u32,
    start: Instant,
    /// Until when it is left out, in milliseconds from `start`; 0 = it is active.
    out_until: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    probe: Option<Probe>,
    /// Where its name leads, as it was found last.
    addresses: Vec<SocketAddr>,
}

impl Target {
    /// Where requests go.
    pub const fn uri(&self) -> &Bytes {
        &self.uri
    }

    /// Whether it is chosen.
    pub fn is_active(&self, now: Instant) -> bool {
        let until = self.out_until.load(Ordering::Relaxed);
        until == 0 || until <= self.millis(now)
    }

    /// A request to it failed: it is left out until it answers a probe, or where it is not asked
    /// for [`LEFT_OUT`].
    fn mark_failed(&self, now: Instant) {
        let probed = self.change(now, Probe::mark_failed).is_some();
        if !probed {
            self.out_until.store(self.millis(now + LEFT_OUT), Ordering::Relaxed);
        }
    }

    /// Changes its probing, if it has one, and takes over what that says of it.
    fn change<T>(&self, now: Instant, change: impl FnOnce(&mut Probe) -> T) -> Option<T> {
        let mut state = lock(&self.state);
        let probe = state.probe.as_mut()?;
        let result = change(probe);
        let until = if probe.is_active() { 0 } else { u64::MAX };
        let before = self.out_until.swap(until, Ordering::Relaxed);
        drop(state);
        let was_active = before == 0 || before <= self.millis(now);
        if was_active != (until == 0) {
            let target = String::from_utf8_lossy(&self.uri);
            if was_active {
                tracing::warn!(%target, "a dispatcher target is inactive");
            } else {
                tracing::info!(%target, "a dispatcher target is active");
            }
        }
        Some(result)
    }

    /// Begins, changes or ends its probing.
    fn set_probe(&self, every: Option<Duration>, first: Instant, now: Instant) {
        let mut state = lock(&self.state);
        match (every.map(ProbeSettings::every), &mut state.probe) {
            (None, probe) => {
                *probe = None;
                drop(state);
                // Who is not asked any more would never come back.
                let until = self.millis(now + LEFT_OUT);
                self.out_until.fetch_min(until, Ordering::Relaxed);
            }
            (Some(settings), Some(probe)) => probe.set(settings, now),
            (Some(settings), probe @ None) => {
                let mut begun = Probe::new(settings, first);
                if !self.is_active(now) {
                    begun.mark_failed();
                    self.out_until.store(u64::MAX, Ordering::Relaxed);
                }
                *probe = Some(begun);
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        lock(&self.state).probe.as_ref().map(Probe::poll_timeout)
    }

    /// Notes where its name leads.
    fn is_found_at(&self, addresses: Vec<SocketAddr>) {
        lock(&self.state).addresses = addresses;
    }

    fn is_at(&self, ip: IpAddr, port: Option<u16>) -> bool {
        let ip = ip.to_canonical();
        lock(&self.state).addresses.iter().any(|address| {
            address.ip().to_canonical() == ip && port.is_none_or(|port| port == address.port())
        })
    }

    fn millis(&self, now: Instant) -> u64 {
        // 0 stands for active.
        let passed = now.saturating_duration_since(self.start).as_millis();
        u64::try_from(passed).unwrap_or(u64::MAX).saturating_add(1)
    }
}

/// The address that a URI has, where it is no name.
fn written(uri: &str) -> Option<SocketAddr> {
    match Hop::of(uri.as_bytes()).ok()? {
        Hop { host: HopHost::Ip(ip), port, .. } => {
            Some(SocketAddr::new(ip, port.unwrap_or(DEFAULT_PORT)))
        }
        Hop { host: HopHost::Name(_), .. } => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
