//! The order in which servers and addresses are tried: the same for the same records and seed.

use std::net::IpAddr;

use super::Srv;

/// Servers by priority, those of one priority drawn by weight (RFC 2782).
pub(super) fn servers(mut servers: Vec<Srv>, most: usize, seed: &mut u64) -> Vec<Srv> {
    // Records of weight 0 come first, as RFC 2782 wants them before the draw.
    servers.sort_by(|a, b| key(a).cmp(&key(b)));
    servers.dedup();
    servers.truncate(most);
    let mut ordered = Vec::with_capacity(servers.len());
    while let Some(first) = servers.first() {
        let priority = first.priority;
        let group = servers.iter().take_while(|server| server.priority == priority);
        let total: u64 = group.map(|server| u64::from(server.weight)).sum();
        let mut drawn = next(seed) % (total + 1);
        let chosen = servers.iter().position(|server| {
            let weight = u64::from(server.weight);
            let chosen = drawn <= weight;
            drawn = drawn.saturating_sub(weight);
            chosen
        });
        ordered.push(servers.remove(chosen.unwrap_or(0)));
    }
    ordered
}

fn key(server: &Srv) -> (u16, u16, &[u8], u16) {
    (server.priority, server.weight, &server.target, server.port)
}

/// Addresses from one that the seed draws on.
pub(super) fn addresses(mut addresses: Vec<IpAddr>, seed: &mut u64) -> Vec<IpAddr> {
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.len() > 1 {
        let first = (next(seed) % addresses.len() as u64) as usize;
        addresses.rotate_left(first);
    }
    addresses
}

/// The next number of a seed (splitmix64).
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
