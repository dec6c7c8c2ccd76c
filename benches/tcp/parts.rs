//! The measurements.

use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use crate::Args;
use crate::beside::{
    Backends, CONNECTING, Must, Row, SETTLE, connects, in_turn, load, ping_p50, resident_for_each,
    streams,
};
use crate::proxy::{Kind, Proxy};

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Throughput of 8 streams and its CPU
    Stream,
    /// Connects each second and their CPU
    Connect,
    /// Round trip of 64 bytes
    Ping,
    /// Memory and CPU of idle lines
    Idle,
    /// Memory after many lines came and went
    Growth,
    /// Time from start to ready
    Start,
}

/// One side of the comparison; nothing if its program is missing.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) kind: Option<Kind>,
}

impl Part {
    /// Measures both sides, A B A B, and returns the rows with the medians.
    pub(crate) fn measure(
        self,
        args: &Args,
        sides: &[Side; 2],
        backends: &Backends,
    ) -> anyhow::Result<Vec<Row>> {
        let start = |at: usize| match &sides[at].kind {
            Some(kind) => Ok(Some((Proxy::start(kind, backends)?, kind))),
            None => Ok(None),
        };
        in_turn(self.rounds(args), &self.names(args), start, |(proxy, kind)| {
            self.figures(args, proxy, kind, backends)
                .with_context(|| format!("{self:?} of {kind:?}"))
        })
    }

    /// Memory is measured once: a second time would measure what the first has left.
    fn rounds(self, args: &Args) -> usize {
        match self {
            Self::Idle | Self::Growth => 1,
            _ => args.sampling.rounds,
        }
    }

    fn names(self, args: &Args) -> Vec<(String, Must)> {
        match self {
            Self::Stream => vec![
                ("Gbit/s, 8 streams".into(), Must::RatioAtLeast(1.0)),
                ("CPU s for each GiB".into(), Must::RatioAtMost(1.0)),
            ],
            Self::Connect => vec![
                ("connect + 1 byte + close, each second".into(), Must::RatioAtLeast(1.0)),
                ("CPU µs for each of them".into(), Must::Nothing),
            ],
            Self::Ping => vec![("64-byte ping-pong p50, µs".into(), Must::RatioAtMost(1.1))],
            Self::Idle => vec![
                (
                    format!("resident bytes for each of {} idle lines", args.lines),
                    Must::RatioAtMost(2.0),
                ),
                ("CPU % with these lines".into(), Must::AtMost(2.0)),
            ],
            Self::Growth => vec![
                (format!("KiB grown over the first {} lines", args.churn / 2), Must::Nothing),
                ("KiB grown over as many lines more".into(), Must::AtMost(256.0)),
            ],
            Self::Start => vec![("ms from start to ready".into(), Must::AtMost(200.0))],
        }
    }

    fn figures(
        self,
        args: &Args,
        proxy: &Proxy,
        kind: &Kind,
        backends: &Backends,
    ) -> anyhow::Result<Vec<f64>> {
        let process = &proxy.process;
        match self {
            Self::Stream => {
                let cpu = || process.cpu_seconds();
                Ok(streams(proxy.sink, args.sampling.seconds, cpu)?.to_vec())
            }
            Self::Connect => {
                Ok(connects(proxy.echo, args.sampling.seconds, || process.cpu_seconds())?.to_vec())
            }
            Self::Ping => Ok(vec![ping_p50(proxy.echo, args.sampling.seconds)?]),
            Self::Idle => {
                let (_lines, each) = resident_for_each(proxy.echo, args.lines, &[process])?;
                let cpu = process.cpu_seconds()?;
                let hold = Duration::from_secs_f64(args.sampling.seconds.max(1.0) * 2.0);
                std::thread::sleep(hold);
                let cpu = process.cpu_seconds()? - cpu;
                Ok(vec![each[0], cpu / hold.as_secs_f64() * 100.0])
            }
            Self::Growth => {
                let half = (args.churn / 2).to_string();
                let options = ["--mode", "connect", "--connections", CONNECTING, "--count", &half];
                let mut kib = Vec::new();
                let mut before = process.resident_bytes()?;
                for _ in 0..2 {
                    load(proxy.echo, &options)?;
                    std::thread::sleep(SETTLE);
                    let resident = process.resident_bytes()?;
                    kib.push((resident - before) / 1024.0);
                    before = resident;
                }
                Ok(kib)
            }
            Self::Start => Ok(vec![Proxy::start(kind, backends)?.start.as_secs_f64() * 1e3]),
        }
    }
}
