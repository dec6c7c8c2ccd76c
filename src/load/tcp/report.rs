//! What a load saw, for people and as JSON.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde::Serialize;

use super::Mode;
use crate::load::histogram::Histogram;
use crate::load::table::Table;

/// Why an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Nobody listens there.
    Refused,
    /// The peer broke the connection.
    Reset,
    /// The peer closed before all was echoed.
    Closed,
    /// A connect or an echo took longer than it may.
    TimedOut,
    /// Other bytes came back than were sent.
    Mismatch,
    /// No descriptor is left.
    Descriptors,
    /// No local port is left.
    Ports,
    /// No way to the host.
    Unreachable,
    /// Any other failure of the system.
    Io,
}

impl ErrorKind {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::TimedOut => "timed_out",
            Self::Mismatch => "mismatch",
            Self::Descriptors => "descriptors",
            Self::Ports => "ports",
            Self::Unreachable => "unreachable",
            Self::Io => "io",
        }
    }
}

impl From<io::Error> for ErrorKind {
    fn from(error: io::Error) -> Self {
        use rustix::io::Errno;
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => Self::Reset,
            io::ErrorKind::UnexpectedEof => Self::Closed,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::AddrNotAvailable => Self::Ports,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::Unreachable,
            _ => match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::MFILE | Errno::NFILE) => Self::Descriptors,
                _ => Self::Io,
            },
        }
    }
}

/// What one thread, or all of them, counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) operations: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) latency: Histogram,
    pub(super) errors: BTreeMap<ErrorKind, u64>,
}

impl Tally {
    pub(super) fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.sent += other.sent;
        self.received += other.received;
        self.latency.merge(&other.latency);
        for (kind, count) in &other.errors {
            *self.errors.entry(*kind).or_default() += count;
        }
    }

    pub(super) fn failed(&mut self, kind: ErrorKind) {
        *self.errors.entry(kind).or_default() += 1;
    }
}

/// The result of a load; its JSON form is what `--json` prints.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What each connection did.
    pub mode: &'static str,
    /// What was loaded.
    pub target: String,
    /// Connections at the same time.
    pub connections: u32,
    /// From the first connect until the last connection ended.
    pub seconds: f64,
    /// Buffers sent, connects, pings or idle lines that went well.
    pub operations: u64,
    /// Operations each second.
    pub per_second: f64,
    /// Payload bytes sent.
    pub sent_bytes: u64,
    /// Payload bytes that came back.
    pub received_bytes: u64,
    /// 10^9 bits each second sent.
    pub sent_gbit_per_second: f64,
    /// 10^9 bits each second that came back.
    pub received_gbit_per_second: f64,
    /// Microseconds of an operation; nothing for streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Latency>,
    /// Failures by kind.
    pub errors: BTreeMap<ErrorKind, u64>,
}

/// Microseconds that the operations took.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Latency {
    /// Half took at most this.
    pub p50: f64,
    /// Nine of ten took at most this.
    pub p90: f64,
    /// 99 of 100 took at most this.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Latency {
    /// Of these samples; nothing when there is none.
    pub fn of(samples: &Histogram) -> Option<Self> {
        let us = |fraction| samples.percentile(fraction).as_nanos() as f64 / 1e3;
        let latency = || Self { p50: us(0.5), p90: us(0.9), p99: us(0.99), max: us(1.0) };
        (!samples.is_empty()).then(latency)
    }

    /// Each with its name.
    pub fn rows(&self) -> [(&'static str, f64); 4] {
        [("p50", self.p50), ("p90", self.p90), ("p99", self.p99), ("max", self.max)]
    }
}

impl Report {
    pub(super) fn new(mode: Mode, target: &str, n: u32, took: Duration, tally: Tally) -> Self {
        let seconds = took.as_secs_f64().max(1e-9);
        let gbit = |bytes: u64| bytes as f64 * 8.0 / 1e9 / seconds;
        Self {
            mode: mode.name(),
            target: target.to_owned(),
            connections: n,
            seconds,
            operations: tally.operations,
            per_second: tally.operations as f64 / seconds,
            sent_bytes: tally.sent,
            received_bytes: tally.received,
            sent_gbit_per_second: gbit(tally.sent),
            received_gbit_per_second: gbit(tally.received),
            latency_us: Latency::of(&tally.latency),
            errors: tally.errors,
        }
    }

    /// Whether any operation failed.
    pub fn failed(&self) -> bool {
        !self.errors.is_empty()
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = Table::default();
        table.row([self.mode, &self.target]);
        table.row(["connections", &self.connections.to_string()]);
        table.row(["seconds", &format!("{:.3}", self.seconds)]);
        table.row(["operations", &self.operations.to_string()]);
        table.row(["each second", &format!("{:.0}", self.per_second)]);
        if self.mode == Mode::Stream.name() {
            for (name, rate) in [
                ("sent Gbit/s", self.sent_gbit_per_second),
                ("received Gbit/s", self.received_gbit_per_second),
            ] {
                table.row([name, &format!("{rate:.3}")]);
            }
        }
        if let Some(l) = self.latency_us {
            for (name, us) in l.rows() {
                table.row([name, &format!("{us:.1} µs")]);
            }
        }
        for (kind, count) in &self.errors {
            table.row([format!("errors: {}", kind.name()), count.to_string()]);
        }
        table.fmt(f)
    }
}
