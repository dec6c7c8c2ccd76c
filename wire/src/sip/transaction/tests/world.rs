//! All of them together, until nobody has anything to do.

use std::time::{Duration, Instant};

use super::net::{End, Net, Weather};
use super::peers::{Caller, Phone, Plan};
use super::proxy::Proxy;
use super::{OPTIONS, TIMING};
use crate::sip::kit;
use crate::sip::transaction::{Kind, Options};

/// What is to be played.
#[derive(Clone, Debug)]
pub(super) struct Play {
    pub(super) kind: Kind,
    pub(super) options: Options,
    /// Legs of phones.
    pub(super) legs: Vec<Vec<Plan>>,
    pub(super) hangs_up: Option<Duration>,
    pub(super) hasty: bool,
    pub(super) weather: Weather,
}

impl Play {
    /// An INVITE to these legs in fine weather.
    pub(super) fn call(legs: &[&[Plan]]) -> Self {
        Self {
            kind: Kind::Invite,
            options: OPTIONS,
            legs: legs.iter().map(|leg| leg.to_vec()).collect(),
            hangs_up: None,
            hasty: false,
            weather: Weather::FINE,
        }
    }

    pub(super) fn hangs_up(mut self, after: Duration) -> Self {
        self.hangs_up = Some(after);
        self
    }

    /// These datagrams are lost, by their place in the order of sending.
    pub(super) fn lose(mut self, numbers: &[u64]) -> Self {
        self.weather.lose = numbers.to_vec();
        self
    }
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) begin: Instant,
    pub(super) net: Net,
    pub(super) caller: Caller,
    pub(super) proxy: Proxy,
    pub(super) phones: Vec<Phone>,
}

impl World {
    /// Plays to the end.
    pub(super) fn play(play: Play) -> Self {
        let begin = Instant::now();
        let mut net = Net::new(play.weather, begin);
        let mut phones = Vec::new();
        let mut legs = Vec::new();
        for leg in play.legs {
            let first = phones.len();
            phones.extend(leg.into_iter().zip(first..).map(|(plan, at)| Phone::new(at, plan)));
            legs.push((first..phones.len()).collect());
        }
        let method = if play.kind == Kind::Invite { "INVITE" } else { "MESSAGE" };
        let caller = Caller::begin(method, play.hangs_up, play.hasty, &mut net);
        let proxy = Proxy::new(play.kind, play.options, legs);
        let mut world = Self { begin, net, caller, proxy, phones };
        while world.step() {}
        world.check_end();
        world
    }

    fn step(&mut self) -> bool {
        let phones = self.phones.iter().filter_map(Phone::wake);
        let wakes = [self.net.next(), self.caller.wake(), self.proxy.wake()];
        let Some(next) = wakes.into_iter().flatten().chain(phones).min() else {
            return false;
        };
        assert!(next - self.begin < Duration::from_secs(600), "it has no end");
        let net = &mut self.net;
        net.now = net.now.max(next);
        self.caller.due(net);
        self.proxy.due(net);
        self.phones.iter_mut().for_each(|phone| phone.due(net));
        while let Some((to, bytes)) = net.arrived() {
            let message = kit::parse(bytes);
            match to {
                End::Caller => self.caller.receive(&message, net),
                End::Proxy => self.proxy.receive(message, net),
                End::Phone(at) => self.phones[at].receive(&message, net),
            }
        }
        true
    }

    /// Nothing is left of any transaction.
    fn check_end(&self) {
        assert!(self.proxy.table.is_empty(), "{} are left", self.proxy.table.len());
        let phones = self.phones.len() as u32;
        let most = TIMING.max_inv + (TIMING.fr_inv + TIMING.fr) * phones + TIMING.t1 * 64 * 2;
        assert!(self.net.now - self.begin < most, "{:?}", self.net.now - self.begin);
    }
}
