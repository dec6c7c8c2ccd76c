//! Names from a map.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, pending, ready};
use lineway_wire::dial::{Families, Family};
use lineway_wire::sip::locate::{self, Naptr, Srv};

use super::lookup::Part;
use super::{Answer, DnsError, Lookup, Names};

/// Names from a map, for whole systems of actors without a name server.
#[derive(Debug, Default)]
pub struct StaticNames {
    /// `None` = no answer ever comes.
    names: RefCell<HashMap<Arc<str>, Option<Known>>>,
    distrusted: RefCell<Vec<Arc<str>>>,
}

/// What a name has.
#[derive(Debug, Default)]
struct Known {
    addresses: Vec<IpAddr>,
    servers: Vec<Srv>,
    services: Vec<Naptr>,
}

impl StaticNames {
    /// No name at all: every lookup says that its name does not exist.
    pub fn new() -> Self {
        Self::default()
    }

    /// From here on `name` has these addresses.
    pub fn set(&self, name: &str, addresses: &[IpAddr]) {
        self.change(name, |known| known.addresses = addresses.to_vec());
    }

    /// From here on `name` has these SRV records.
    pub fn set_servers(&self, name: &str, servers: &[Srv]) {
        self.change(name, |known| known.servers = servers.to_vec());
    }

    /// From here on `name` has these NAPTR records.
    pub fn set_services(&self, name: &str, services: &[Naptr]) {
        self.change(name, |known| known.services = services.to_vec());
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Known)) {
        let mut names = self.names.borrow_mut();
        change(names.entry(name.into()).or_default().get_or_insert_default());
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
                let never = pending().boxed_local();
                return Part::Asking(family, never.shared());
            }
            Some(Some(known)) => {
                let all = known.addresses.iter().copied();
                Ok(all.filter(|address| Family::of(address) == family).collect())
            }
        };
        Part::Ready(Answer { family, result })
    }

    fn service(
        &self,
        name: &str,
        answer: impl FnOnce(Option<&Known>) -> locate::Answer,
    ) -> LocalBoxFuture<'static, locate::Answer> {
        match self.names.borrow().get(name) {
            Some(None) => pending().boxed_local(),
            known => ready(answer(known.and_then(Option::as_ref))).boxed_local(),
        }
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

    fn servers(&self, name: &Arc<str>) -> LocalBoxFuture<'static, locate::Answer> {
        let list = |known: &Known| known.servers.clone();
        self.service(name, |known| locate::Answer::Srv(known.map(list).unwrap_or_default()))
    }

    fn services(&self, name: &Arc<str>) -> LocalBoxFuture<'static, locate::Answer> {
        let list = |known: &Known| known.services.clone();
        self.service(name, |known| locate::Answer::Naptr(known.map(list).unwrap_or_default()))
    }
}
