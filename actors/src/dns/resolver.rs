//! The stub resolver of one worker.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, Shared, WeakShared};
use tokio::sync::Semaphore;

use super::ask::ask;
use super::cache::Cache;
use super::files::{Hosts, ResolvConf, Watched};
use super::message::Reply;
use super::{Addresses, DnsError, Family, Lookup, Names, Wanted};
use crate::settings::DnsSettings;
use crate::worker::timers::now;

/// Questions under way at the same time; more wait in order.
const AT_ONCE: usize = 256;

/// Rounds over all servers before a name is given up.
const ROUNDS: usize = 2;

/// Aliases that are followed from answer to answer.
const MOST_ALIASES: usize = 8;

type Answered = Result<Addresses, DnsError>;
type Asking = LocalBoxFuture<'static, Answered>;
type Key = (Arc<str>, Family);

/// Resolves names by the machine's files and name servers (T10).
///
/// Names that are asked for at the same time share one question. It ends with the last lookup that
/// wants it, so that a line that is gone costs nothing more.
#[derive(Clone)]
pub struct Resolver {
    inner: Rc<Inner>,
}

struct Inner {
    servers: Vec<SocketAddr>,
    timeout: Duration,
    conf: RefCell<Watched<ResolvConf>>,
    hosts: RefCell<Watched<Hosts>>,
    cache: RefCell<Cache>,
    asked: RefCell<HashMap<Key, WeakShared<Asking>>>,
    places: Semaphore,
}

impl Resolver {
    /// A resolver with nothing kept.
    pub fn new(settings: &DnsSettings) -> Self {
        Self {
            inner: Rc::new(Inner {
                servers: settings.servers.clone(),
                timeout: settings.timeout.duration(),
                conf: RefCell::new(Watched::new("/etc/resolv.conf", ResolvConf::parse)),
                hosts: RefCell::new(Watched::new("/etc/hosts", Hosts::parse)),
                cache: RefCell::default(),
                asked: RefCell::default(),
                places: Semaphore::new(AT_ONCE),
            }),
        }
    }

    fn family(&self, lookup: Lookup, preferred: bool, key: Key) -> Lookup {
        if let Some(answer) = self.inner.local(&key.0, key.1) {
            return lookup.known(preferred, answer);
        }
        if let Some(answer) = self.inner.cache.borrow().get(&key, now()) {
            return lookup.known(preferred, answer);
        }
        lookup.asked(preferred, self.question(key).boxed_local())
    }

    /// The question that is under way, or one that begins when it is first polled.
    fn question(&self, key: Key) -> Shared<Asking> {
        let mut asked = self.inner.asked.borrow_mut();
        if let Some(shared) = asked.get(&key).and_then(WeakShared::upgrade) {
            return shared;
        }
        asked.retain(|_, question| question.upgrade().is_some());
        let (inner, own) = (Rc::clone(&self.inner), key.clone());
        let question = async move { inner.resolve(own).await }.boxed_local().shared();
        if let Some(weak) = question.downgrade() {
            asked.insert(key, weak);
        }
        question
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("servers", &self.inner.servers).finish_non_exhaustive()
    }
}

impl Names for Resolver {
    fn lookup(&self, name: &Arc<str>, wanted: Wanted) -> Lookup {
        wanted.families().fold(Lookup::new(), |lookup, (preferred, family)| {
            self.family(lookup, preferred, (Arc::clone(name), family))
        })
    }

    fn distrust(&self, name: &str) {
        self.inner.cache.borrow_mut().forget(name);
    }
}

impl Inner {
    /// What needs no name server: loopback names (RFC 6761 6.3) and `/etc/hosts`.
    fn local(&self, name: &str, family: Family) -> Option<Answered> {
        if name == "localhost" || name.ends_with(".localhost") {
            let ip = match family {
                Family::V4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
                Family::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
            };
            return Some(Ok([ip].into_iter().collect()));
        }
        let found = self.hosts.borrow_mut().get().find(name, family)?;
        Some(if found.is_empty() { Err(DnsError::NotFound) } else { Ok(found) })
    }

    async fn resolve(self: Rc<Self>, key: Key) -> Answered {
        let Ok(_place) = self.places.acquire().await else {
            return Err(DnsError::TooMany);
        };
        let (name, family) = &key;
        let mut result = (Err(DnsError::NotFound), Duration::ZERO);
        for candidate in self.candidates(name) {
            result = self.follow(candidate, *family).await;
            if result.0 != Err(DnsError::NotFound) {
                break;
            }
        }
        let (answer, ttl) = result;
        self.cache.borrow_mut().put(key, answer.clone(), ttl, now());
        answer
    }

    /// The full names that a name may stand for: one without a dot is looked for in the search
    /// domains first.
    fn candidates(&self, name: &str) -> Vec<String> {
        let mut conf = self.conf.borrow_mut();
        let search = if name.contains('.') { &[] } else { conf.get().search.as_slice() };
        let mut all: Vec<_> = search.iter().map(|domain| format!("{name}.{domain}")).collect();
        all.push(name.to_owned());
        all
    }

    /// Asks for a name, and for the names that it is an alias of.
    async fn follow(&self, mut name: String, family: Family) -> (Answered, Duration) {
        let mut ttl = Duration::MAX;
        for _ in 0..MOST_ALIASES {
            match self.ask_all(&name, family).await {
                Reply::Found(addresses, good) => return (Ok(addresses), ttl.min(good)),
                Reply::NotFound(good) => return (Err(DnsError::NotFound), ttl.min(good)),
                Reply::Alias(other, good) => {
                    ttl = ttl.min(good);
                    name = other;
                }
                Reply::Truncated | Reply::Failed => break,
            }
        }
        (Err(DnsError::Failed), Duration::ZERO)
    }

    /// Asks the servers in turn until one has an answer.
    async fn ask_all(&self, name: &str, family: Family) -> Reply {
        let servers = self.servers();
        for _ in 0..ROUNDS {
            for server in &servers {
                let reply = ask(*server, name, family, self.timeout).await;
                if reply != Reply::Failed {
                    return reply;
                }
            }
        }
        Reply::Failed
    }

    fn servers(&self) -> Vec<SocketAddr> {
        if !self.servers.is_empty() {
            return self.servers.clone();
        }
        let servers = self.conf.borrow_mut().get().servers.clone();
        if servers.is_empty() { vec![(Ipv4Addr::LOCALHOST, 53).into()] } else { servers }
    }
}

#[cfg(test)]
mod tests;
