//! A table that plays the name servers, for tests and simulated networks.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Addresses, DnsError, Family, Lookup, Names, Wanted};

/// Names with fixed addresses, which may be changed at any time.
#[derive(Debug, Default)]
pub struct StaticNames {
    table: RefCell<HashMap<Arc<str>, Vec<IpAddr>>>,
}

impl StaticNames {
    /// A table without names: every lookup says that the name does not exist.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a name these addresses, in the place of those that it had.
    pub fn set(&self, name: &str, addresses: &[IpAddr]) {
        self.table.borrow_mut().insert(name.into(), addresses.to_vec());
    }
}

impl Names for StaticNames {
    fn lookup(&self, name: &Arc<str>, wanted: Wanted) -> Lookup {
        let table = self.table.borrow();
        let of = |family: Family| {
            let all = table.get(name).ok_or(DnsError::NotFound)?;
            let found: Addresses = all.iter().copied().filter(|ip| family.has(*ip)).collect();
            if found.is_empty() { Err(DnsError::NotFound) } else { Ok(found) }
        };
        wanted
            .families()
            .fold(Lookup::new(), |lookup, (preferred, family)| lookup.known(preferred, of(family)))
    }

    fn distrust(&self, _: &str) {}
}
