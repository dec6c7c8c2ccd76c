//! Address lists (`KSR.permissions`): groups of networks from the configuration.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

/// Whether an address is in one of the networks of a group. An IPv4 address that a socket for both
/// families shows as IPv6 counts as IPv4.
pub fn allows(groups: &BTreeMap<u32, Vec<IpNet>>, group: i64, address: IpAddr) -> bool {
    let networks = u32::try_from(group).ok().and_then(|group| groups.get(&group));
    let address = address.to_canonical();
    networks.is_some_and(|networks| networks.iter().any(|network| network.contains(&address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_allowed_in_the_group_that_has_its_network() {
        let networks = ["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32"];
        let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
        let groups = BTreeMap::from([(1, networks), (2, Vec::new())]);
        let allowed = |group, address: &str| allows(&groups, group, address.parse().unwrap());
        for address in ["10.255.0.1", "192.0.2.7", "2001:db8::5", "::ffff:10.0.0.1"] {
            assert!(allowed(1, address), "{address}");
        }
        for address in ["11.0.0.1", "192.0.2.8", "2001:db9::5"] {
            assert!(!allowed(1, address), "{address}");
        }
        for group in [2, 3, -1, i64::MAX] {
            assert!(!allowed(group, "10.0.0.1"), "{group}");
        }
    }
}
