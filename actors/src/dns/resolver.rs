//! The resolver of one worker.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, WeakShared, ready};
use lineway_wire::dial::{Families, Family};
use lineway_wire::sip::locate;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::cache::Cache;
use super::exchange::Exchange;
use super::lookup::{Part, Question};
use super::records::{self, Kind, Records};
use super::system::{Hosts, Servers, SystemFiles, Watched};
use super::{Addresses, Answer, DnsError, Lookup, Names};
use crate::settings::DnsSettings;

/// Questions that are asked at the same time; more wait in order.
const MAX_QUESTIONS: usize = 256;

/// How often the system's files are looked at, when a name is asked for.
const FILES_PERIOD: Duration = Duration::from_secs(1);

/// A stub resolver with a cache, one for each worker; a clone is the same resolver.
///
/// In this order: `localhost` is always this host (RFC 6761 6.3), names of the `hosts` file have
/// what the file says, then the cache, then the servers. With `servers` configured the system's
/// `resolv.conf` is not read, its search list neither.
///
/// A question runs while a lookup that wants it is polled, and ends with the last of them; it
/// needs no task of its own.
#[derive(Clone)]
pub struct Resolver {
    inner: Rc<Inner>,
}

struct Inner {
    timeout: Duration,
    system: RefCell<System>,
    cache: RefCell<Cache>,
    /// Questions on their way.
    asking: RefCell<HashMap<Key, WeakShared<Asked>>>,
    slots: Semaphore,
    /// See [`Exchange::first`].
    first: Cell<usize>,
    loopback: [Addresses; 2],
}

type Key = (Arc<str>, Kind);
type Asked = LocalBoxFuture<'static, Result<Records, DnsError>>;

/// What the files say.
struct System {
    servers: Rc<Servers>,
    hosts: Hosts,
    /// `None` with configured servers.
    resolv_conf: Option<Watched>,
    hosts_file: Watched,
    next_look: Option<Instant>,
}

impl Resolver {
    /// A resolver that asks the configured servers, or those of the system.
    pub fn new(settings: &DnsSettings) -> Self {
        Self::with_files(settings, SystemFiles::default())
    }

    /// A resolver that reads other files than the system's.
    pub fn with_files(settings: &DnsSettings, files: SystemFiles) -> Self {
        let configured = !settings.servers.is_empty();
        let servers =
            if configured { Servers::new(settings.servers.clone()) } else { Servers::parse("") };
        let system = System {
            servers: Rc::new(servers),
            hosts: Hosts::default(),
            resolv_conf: (!configured).then(|| Watched::new(files.resolv_conf)),
            hosts_file: Watched::new(files.hosts),
            next_look: None,
        };
        let v4 = [Ipv4Addr::LOCALHOST.into()].into();
        let v6 = [Ipv6Addr::LOCALHOST.into()].into();
        Self {
            inner: Rc::new(Inner {
                timeout: settings.timeout.duration(),
                system: RefCell::new(system),
                cache: RefCell::default(),
                asking: RefCell::default(),
                slots: Semaphore::new(MAX_QUESTIONS),
                first: Cell::new(0),
                loopback: [v4, v6],
            }),
        }
    }

    /// Questions on their way.
    pub fn questions(&self) -> usize {
        self.inner.asking.borrow().len()
    }

    fn part(&self, name: &Arc<str>, family: Family, now: Instant) -> Part {
        match self.inner.known(name, family.into(), now) {
            Some(result) => Part::Ready(Answer { family, result: result.map(Records::addresses) }),
            None => Part::Asking(family, self.question(name, family.into())),
        }
    }

    /// The question that is on its way, or a fresh one.
    fn question(&self, name: &Arc<str>, kind: Kind) -> Question {
        let key = (Arc::clone(name), kind);
        let running = self.inner.asking.borrow().get(&key).cloned();
        if let Some(question) = running.and_then(|weak| weak.upgrade()) {
            return question;
        }
        let entry = AskingEntry { inner: Rc::clone(&self.inner), key: key.clone() };
        let question =
            async move { entry.inner.ask(&entry.key.0, kind).await }.boxed_local().shared();
        if let Some(weak) = question.downgrade() {
            self.inner.asking.borrow_mut().insert(key, weak);
        }
        question
    }

    /// The service records of a name.
    fn service(&self, name: &Arc<str>, kind: Kind) -> LocalBoxFuture<'static, locate::Answer> {
        let now = Instant::now();
        self.inner.look_at_files(now);
        match self.inner.known(name, kind, now) {
            Some(result) => ready(records::answer(result, kind)).boxed_local(),
            None => self
                .question(name, kind)
                .map(move |result| records::answer(result, kind))
                .boxed_local(),
        }
    }
}

impl Names for Resolver {
    fn lookup(&self, name: &Arc<str>, families: Families) -> Lookup {
        let now = Instant::now();
        self.inner.look_at_files(now);
        let first = self.part(name, families.first, now);
        let second =
            if families.both { self.part(name, families.first.other(), now) } else { Part::Done };
        Lookup::new(first, second)
    }

    fn distrust(&self, name: &str) {
        let now = Instant::now();
        self.inner.cache.borrow_mut().distrust(name, now);
    }

    fn servers(&self, name: &Arc<str>) -> LocalBoxFuture<'static, locate::Answer> {
        self.service(name, Kind::Srv)
    }

    fn services(&self, name: &Arc<str>) -> LocalBoxFuture<'static, locate::Answer> {
        self.service(name, Kind::Naptr)
    }
}

impl Inner {
    /// What needs no server. A name of this host or of the `hosts` file has addresses and nothing
    /// else, whatever service is asked for of it.
    fn known(&self, name: &str, kind: Kind, now: Instant) -> Option<Result<Records, DnsError>> {
        let known = match kind {
            Kind::A => self.addresses(name, Family::V4),
            Kind::Aaaa => self.addresses(name, Family::V6),
            Kind::Srv | Kind::Naptr => self.addresses(host_of(name), Family::V4),
        };
        match known {
            Some(addresses) if matches!(kind, Kind::A | Kind::Aaaa) => {
                Some(Ok(Records::Addresses(addresses)))
            }
            Some(_) => Some(Ok(kind.nothing())),
            None => self.cache.borrow().get(name, kind, now),
        }
    }

    /// The addresses of a name of this host or of the `hosts` file.
    fn addresses(&self, name: &str, family: Family) -> Option<Addresses> {
        if name == "localhost" || name.ends_with(".localhost") {
            return Some(self.loopback[family as usize].clone());
        }
        self.system.borrow().hosts.get(name, family)
    }

    async fn ask(&self, name: &Arc<str>, kind: Kind) -> Result<Records, DnsError> {
        let Ok(_slot) = self.slots.acquire().await else {
            return Err(DnsError::Failed); // never: the semaphore is not closed
        };
        let servers = Rc::clone(&self.system.borrow().servers);
        let exchange = Exchange { servers: &servers, timeout: self.timeout, first: &self.first };
        let (result, ttl) = exchange.resolve(name, kind).await;
        let now = Instant::now();
        let mut cache = self.cache.borrow_mut();
        if result == Err(DnsError::NotFound) {
            for absent in Kind::ALL {
                cache.put(name, absent, result.clone(), ttl, now);
            }
        } else {
            cache.put(name, kind, result.clone(), ttl, now);
        }
        result
    }

    /// Reads what changed. Other name servers may know other things, so that nothing is kept.
    fn look_at_files(&self, now: Instant) {
        let mut system = self.system.borrow_mut();
        if system.next_look.is_some_and(|next| now < next) {
            return;
        }
        system.next_look = Some(now + FILES_PERIOD);
        if let Some(text) = system.hosts_file.changed() {
            system.hosts = Hosts::parse(&text);
        }
        let text = system.resolv_conf.as_mut().and_then(Watched::changed);
        if let Some(text) = text {
            system.servers = Rc::new(Servers::parse(&text));
            self.first.set(0);
            self.cache.borrow_mut().clear();
        }
    }
}

/// The host that a service name such as `_sip._udp.pbx` is of.
fn host_of(mut name: &str) -> &str {
    while let Some((_, rest)) = name.split_once('.').filter(|_| name.starts_with('_')) {
        name = rest;
    }
    name
}

/// A question's place among those on their way; it is free again when the question ends.
struct AskingEntry {
    inner: Rc<Inner>,
    key: Key,
}

impl Drop for AskingEntry {
    fn drop(&mut self) {
        self.inner.asking.borrow_mut().remove(&self.key);
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("questions", &self.questions()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use lineway_wire::units::Millis;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tcp_t10_a_changed_resolv_conf_is_read_and_what_the_old_servers_said_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let resolv_conf = folder.path().join("resolv.conf");
        let files =
            SystemFiles { resolv_conf: resolv_conf.clone(), hosts: folder.path().join("hosts") };
        std::fs::write(&resolv_conf, "nameserver 192.0.2.1").unwrap();
        let settings = DnsSettings { servers: vec![], timeout: Millis::new(1_000) };
        let names = Resolver::with_files(&settings, files);
        let inner = &names.inner;
        let first = |inner: &Inner| inner.system.borrow().servers.addresses[0].to_string();
        inner.look_at_files(Instant::now());
        assert_eq!(first(inner), "192.0.2.1:53");

        let name = "dest.test".into();
        let (minute, now) = (Duration::from_secs(60), Instant::now());
        let mut cache = inner.cache.borrow_mut();
        cache.put(&name, Kind::A, Ok(Kind::A.nothing()), minute, now);
        drop(cache);
        std::fs::write(&resolv_conf, "nameserver 192.0.2.22").unwrap();
        inner.look_at_files(now);
        assert_eq!(first(inner), "192.0.2.1:53", "looked at too often");
        inner.look_at_files(now + FILES_PERIOD);
        assert_eq!(first(inner), "192.0.2.22:53");
        assert_eq!(inner.known(&name, Kind::A, now), None);
    }

    #[test]
    fn tcp_t10_configured_servers_are_the_only_ones() {
        let settings = DnsSettings {
            servers: vec![([192, 0, 2, 9], 5_353).into()],
            timeout: Millis::new(1_000),
        };
        let names = Resolver::new(&settings);
        let system = names.inner.system.borrow();
        assert!(system.resolv_conf.is_none());
        assert_eq!(*system.servers, Servers::new(settings.servers));
    }
}
