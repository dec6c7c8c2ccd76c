//! What choosing the peer of one record costs a DEALER: `cargo bench --bench zmp_select`; see
//! `docs/performance.md`.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use lineway_wire::zmp::core::Weight;
use lineway_wire::zmp::scheduler::Scheduler;

/// Peers of a row; the growth of a row is against the first one of its weights.
const PEERS: [u32; 4] = [2, 16, 128, 1_000];
/// Distinct weights, where there are as many peers.
const WEIGHTS: [u32; 3] = [1, 4, 16];
/// Records of one sample.
const RECORDS: u32 = 200_000;
/// Samples of each row, taken in turn; the least disturbed one counts.
const ROUNDS: usize = 7;

struct Row {
    weights: u32,
    peers: u32,
    scheduler: Scheduler<u32>,
    nanoseconds: f64,
}

impl Row {
    fn new(weights: u32, peers: u32) -> Self {
        let endpoint: Arc<str> = "tcp://127.0.0.1:0".into();
        let mut scheduler = Scheduler::default();
        for peer in 0..peers {
            // Ids that look like those a socket makes for itself, in no order.
            let id = u128::from(peer + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
            let id = Bytes::copy_from_slice(&id.to_be_bytes());
            let weight = Weight::new(100 + peer % weights).unwrap_or(Weight::DEFAULT);
            scheduler.insert(peer, id, endpoint.clone(), true, weight);
        }
        Self { weights, peers, scheduler, nanoseconds: f64::INFINITY }
    }

    fn sample(&mut self) {
        let begun = Instant::now();
        for _ in 0..RECORDS {
            black_box(self.scheduler.select(black_box(false), |peer| black_box(peer) < u32::MAX));
        }
        let each = begun.elapsed().as_secs_f64() * 1e9 / f64::from(RECORDS);
        self.nanoseconds = self.nanoseconds.min(each);
    }

    fn groups(&self) -> u32 {
        self.weights.min(self.peers)
    }
}

/// How much more `row` may cost than `first`: each looks at its groups and at `log n` peers.
fn allowance(row: &Row, first: &Row) -> f64 {
    let steps = |row: &Row| f64::from(row.groups()) + f64::from(row.peers).log2();
    steps(row) / steps(first)
}

fn main() -> ExitCode {
    let mut rows: Vec<_> = WEIGHTS
        .iter()
        .flat_map(|&weights| PEERS.iter().map(move |&peers| Row::new(weights, peers)))
        .collect();
    for _ in 0..ROUNDS {
        rows.iter_mut().for_each(Row::sample);
    }
    println!(
        "{:>8} {:>8} {:>10} {:>8} {:>8} {:>10}",
        "weights", "peers", "ns/record", "growth", "allowed", "of allowed"
    );
    let mut kept = true;
    for of_weights in rows.chunks(PEERS.len()) {
        let first = &of_weights[0];
        for row in of_weights {
            let growth = row.nanoseconds / first.nanoseconds;
            let allowed = allowance(row, first);
            kept &= growth <= allowed;
            println!(
                "{:>8} {:>8} {:>10.1} {growth:>8.2} {allowed:>8.2} {:>10.2}",
                row.weights,
                row.peers,
                row.nanoseconds,
                growth / allowed
            );
        }
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
