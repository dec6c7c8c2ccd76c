//! A network of datagrams, and what whoever sends them again needs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{TIMING, ms};

/// Who sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Caller,
    Proxy,
    Phone(usize),
}

/// What becomes of datagrams.
#[derive(Clone, Debug)]
pub(super) struct Weather {
    /// Of a hundred.
    pub(super) lost: u64,
    /// Of a hundred.
    pub(super) copied: u64,
    /// Milliseconds at least and at most: what was sent later may come first.
    pub(super) delay: (u64, u64),
    /// These are lost, counted from 0 in the order of sending.
    pub(super) lose: Vec<u64>,
    pub(super) seed: u64,
}

impl Weather {
    /// Nothing is lost, all takes ten milliseconds.
    pub(super) const FINE: Self =
        Self { lost: 0, copied: 0, delay: (10, 10), lose: Vec::new(), seed: 0 };
}

type Flight = Reverse<(Instant, u64, End, Bytes)>;

#[derive(Debug)]
pub(super) struct Net {
    weather: Weather,
    pub(super) now: Instant,
    sent: u64,
    flights: BinaryHeap<Flight>,
}

impl Net {
    pub(super) fn new(weather: Weather, now: Instant) -> Self {
        Self { weather, now, sent: 0, flights: BinaryHeap::new() }
    }

    /// `SplitMix64`: of one seed always the same.
    fn random(&mut self, below: u64) -> u64 {
        self.weather.seed = self.weather.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.weather.seed;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31) % below
    }

    pub(super) fn send(&mut self, to: End, bytes: Bytes) {
        let copies = 1 + u64::from(self.random(100) < self.weather.copied);
        for _ in 0..copies {
            let number = self.sent;
            self.sent += 1;
            let is_lost = self.random(100) < self.weather.lost;
            let (least, most) = self.weather.delay;
            let arrives = self.now + ms(least + self.random(most - least + 1));
            if !is_lost && !self.weather.lose.contains(&number) {
                self.flights.push(Reverse((arrives, number, to, bytes.clone())));
            }
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.flights.peek().map(|Reverse((arrives, ..))| *arrives)
    }

    /// What arrives by the time it is.
    pub(super) fn arrived(&mut self) -> Option<(End, Bytes)> {
        self.next().filter(|arrives| *arrives <= self.now)?;
        self.flights.pop().map(|Reverse((_, _, to, bytes))| (to, bytes))
    }
}

/// A message that is sent again at T1, doubling, as user agents do (17.1.1.2, 13.3.1.4).
#[derive(Clone, Debug)]
pub(super) struct Again {
    bytes: Bytes,
    next: Instant,
    interval: Duration,
    until: Instant,
}

impl Again {
    /// Sends it for the first time.
    pub(super) fn begin(bytes: Bytes, net: &mut Net) -> Self {
        net.send(End::Proxy, bytes.clone());
        let interval = TIMING.t1;
        Self { bytes, next: net.now + interval, interval, until: net.now + TIMING.t1 * 64 }
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        (self.next < self.until).then_some(self.next)
    }

    pub(super) fn due(&mut self, net: &mut Net) {
        while self.wake().is_some_and(|wake| wake <= net.now) {
            net.send(End::Proxy, self.bytes.clone());
            self.interval = (self.interval * 2).min(TIMING.t2);
            self.next += self.interval;
        }
    }
}
