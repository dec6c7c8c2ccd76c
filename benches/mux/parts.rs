//! The measurements.

use clap::ValueEnum;

use crate::beside::{
    Backends, Must, Node, Row, Side, connects, haproxy, in_turn, ping_p50, resident_for_each,
    streams,
};
use crate::{Args, busy};

/// Workers of each process. Where all children are to be on one parent, it is one.
const WORKERS: usize = 2;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Throughput of 8 streams and its CPU
    Stream,
    /// Connects each second and their CPU
    Connect,
    /// Round trip of 64 bytes
    Ping,
    /// CPU for each payload with many and with few busy children on one parent
    Busy,
    /// Memory of idle children beside that of `HAProxy`'s lines
    Idle,
}

impl Part {
    pub(crate) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Measures both sides in turn and returns the rows with the medians.
    pub(crate) fn measure(self, args: &Args, backends: &Backends) -> anyhow::Result<Vec<Row>> {
        let seconds = args.sampling.seconds;
        let rounds = args.sampling.rounds;
        let rows = self.rows(args);
        let backend = if self == Self::Stream { backends.sink } else { backends.echo };
        let ours = |workers| Side::ours(args.instead, backend, workers, nodes());
        let beside_plain = |at| match at {
            0 => Side::plain(backend, WORKERS).map(Some),
            _ => ours(WORKERS).map(Some),
        };
        match self {
            Self::Stream => in_turn(rounds, &rows, beside_plain, |side| {
                Ok(streams(side.entry, seconds, || side.cpu_seconds())?.to_vec())
            }),
            Self::Connect => in_turn(rounds, &rows, beside_plain, |side| {
                Ok(connects(side.entry, seconds, || side.cpu_seconds())?.to_vec())
            }),
            Self::Ping => in_turn(rounds, &rows, beside_plain, |side| {
                Ok(vec![ping_p50(side.entry, seconds)?])
            }),
            Self::Busy => {
                let start = |at: usize| Ok(Some((ours(1)?, [args.few, args.children][at])));
                in_turn(rounds, &rows, start, |(side, children)| {
                    Ok(busy::cpu_for_each(side, *children, args.rate, seconds)?.to_vec())
                })
            }
            Self::Idle => {
                let present = haproxy::is_there(&args.haproxy);
                let start = |at| match at {
                    0 if !present => Ok(None),
                    0 => Side::haproxy(&args.haproxy, backend).map(Some),
                    _ => ours(WORKERS).map(Some),
                };
                // A second time would measure what the first has left.
                in_turn(1, &rows, start, |side| {
                    let (_lines, each) =
                        resident_for_each(side.entry, args.lines, &side.processes())?;
                    // HAProxy is one process, whose lines both rows are compared with.
                    Ok(vec![each[0], each[each.len() - 1]])
                })
            }
        }
    }

    fn rows(self, args: &Args) -> Vec<(String, Must)> {
        let idle = |side: &str| {
            let lines = args.lines;
            format!("resident bytes for each of {lines} idle lines: HAProxy, {side}")
        };
        match self {
            Self::Stream => vec![
                ("Gbit/s, 8 streams".into(), Must::RatioAtLeast(0.6)),
                ("CPU s for each GiB, all processes".into(), Must::Nothing),
            ],
            Self::Connect => vec![
                ("connect + 1 byte + close, each second".into(), Must::RatioAtLeast(0.9)),
                ("CPU µs for each of them, all processes".into(), Must::Nothing),
            ],
            Self::Ping => vec![("64-byte ping-pong p50, µs".into(), Must::RatioAtMost(1.5))],
            Self::Busy => {
                let Args { few, children, rate, .. } = args;
                let measure = |pace: &str| {
                    format!("CPU µs for each payload, {pace}: {few} children, {children} children")
                };
                vec![
                    (measure("as fast as they come back"), Must::RatioAtMost(1.2)),
                    (measure(&format!("{rate} echoes/s")), Must::RatioAtMost(1.2)),
                ]
            }
            Self::Idle => vec![
                (idle("MuxClient"), Must::RatioAtMost(1.2)),
                (idle("MuxServer"), Must::RatioAtMost(1.2)),
            ],
        }
    }
}

/// What makes a pair of processes a mux pair: one parent for each worker.
fn nodes() -> [Node; 2] {
    let settings = "mode = \"fixed-connections-count\", per-worker-connections-count = 1";
    [("MuxClient", settings.to_owned()), ("MuxServer", String::new())]
}
