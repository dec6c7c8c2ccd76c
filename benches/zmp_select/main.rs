//! What choosing the peer of one record costs a DEALER: `cargo bench --bench zmp_select`; see
//! `docs/performance.md`.

use std::hint::black_box;
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
const RECORDS: u32 = 50_000;
/// Samples of each row, taken in turn; the least disturbed one counts.
const ROUNDS: usize = 21;

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
}

/// How much more than with two peers a record may cost: the logarithm of their number.
fn allowance(peers: u32) -> f64 {
    f64::from(peers).log2()
}

fn main() {
    let mut rows: Vec<_> = WEIGHTS
        .iter()
        .flat_map(|&weights| PEERS.iter().map(move |&peers| Row::new(weights, peers)))
        .collect();
    for _ in 0..ROUNDS {
        rows.iter_mut().for_each(Row::sample);
    }
    println!("| weights | peers | ns a record | growth | at most | by that | reached |");
    println!("|---:|---:|---:|---:|---:|---:|---|");
    for of_weights in rows.chunks(PEERS.len()) {
        for row in of_weights {
            let growth = row.nanoseconds / of_weights[0].nanoseconds;
            let allowed = allowance(row.peers);
            println!(
                "| {} | {} | {:.0} | {growth:.2} | {allowed:.2} | {:.2} | {} |",
                row.weights,
                row.peers,
                row.nanoseconds,
                growth / allowed,
                if growth <= allowed { "yes" } else { "NO" }
            );
        }
    }
}
