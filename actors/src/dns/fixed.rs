//! Names from a map.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::FutureExt;
use lineway_wire::dial::{Families, Family};

use super::lookup::Part;
use super::{Answer, DnsError, Lookup, Names};

/// Names from a map, for whole systems of actors without a name server.
#[derive(Debug, Default)]
pub struct StaticNames {
    /// `None` = no answer ever comes.
    names: RefCell<HashMap<Arc<str>, Option<Vec<IpAddr>>>>,
    distrusted: RefCell<Vec<Arc<str>>>,
}

impl StaticNames {
    /// No name at all: every lookup says that its name does not exist.
    pub fn new() -> Self {
        Self::default()
    }

    /// From here on `name` has these addresses.
    pub fn set(&self, name: &str, addresses: &[IpAddr]) {
        let mut names = self.names.borrow_mut();
        names.insert(name.into(), Some(addresses.to_vec()));
    }

    /// From here on lookups of `name` stay without an answer.
    pub fn hang(&self, name: &str) {
        self.names.borrow_mut().insert(name.into(), None);
    }

    /// The names that were distrusted, in order.
    pub fn distrusted(&self) -> Vec<Arc<str>> {
        self.distrusted.borrow().clone()
    }

    fn part(&self, name: &str, family: Family) -> Part {
        let result = match self.names.borrow().get(name) {
            None => Err(DnsError::NotFound),
            Some(None) => {
                let never = std::future::pending().boxed_local();
                return Part::Asking(family, never.shared());
            }
            Some(Some(all)) => {
                Ok(all.iter().copied().filter(|address| Family::of(address) == family).collect())
            }
        };
        Part::Ready(Answer { family, result })
    }
}

impl Names for StaticNames {
    fn lookup(&self, name: &Arc<str>, families: Families) -> Lookup {
        let second = families.first.other();
        Lookup::new(
            self.part(name, families.first),
            if families.both { self.part(name, second) } else { Part::Done },
        )
    }

    fn distrust(&self, name: &str) {
        self.distrusted.borrow_mut().push(name.into());
    }
}
