//! What the system says about names: `resolv.conf` and `hosts`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;
use std::time::SystemTime;

use lineway_wire::dial::Family;
use tracing::{debug, warn};

use super::Addresses;

/// The port of name servers.
const PORT: u16 = 53;
/// Name servers that are used of a `resolv.conf`, as in the C library.
const MAX_SERVERS: usize = 3;
/// Domains of a search list.
const MAX_SEARCH: usize = 6;
/// The most of a file that is read; block lists in `hosts` have megabytes.
const MAX_FILE: u64 = 32 << 20;

/// Where the system's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemFiles {
    /// Name servers and search list.
    pub resolv_conf: PathBuf,
    /// Names that need no server.
    pub hosts: PathBuf,
}

impl Default for SystemFiles {
    fn default() -> Self {
        Self { resolv_conf: "/etc/resolv.conf".into(), hosts: "/etc/hosts".into() }
    }
}

/// Whom to ask, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Servers {
    /// Never empty.
    pub(super) addresses: Vec<SocketAddr>,
    /// Domains that a short name is tried in, in order.
    pub(super) search: Vec<String>,
    /// A name with fewer dots is short.
    pub(super) ndots: usize,
    /// How often every server is asked, at least once.
    pub(super) rounds: usize,
}

impl Servers {
    /// These servers and no search list.
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Self {
        Self { addresses, search: Vec::new(), ndots: 1, rounds: 2 }
    }

    /// Reads a `resolv.conf`. What it does not know is ignored, as resolv.conf(5) wants; without a
    /// server it is the one of this host.
    pub(super) fn parse(text: &str) -> Self {
        let mut servers = Self::new(Vec::new());
        for line in text.lines() {
            let mut words = line.split(['#', ';']).next().unwrap_or("").split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let address = words.next().and_then(server);
                    servers.addresses.extend(address);
                }
                Some("search" | "domain") => {
                    servers.search = words
                        .map(|domain| domain.trim_matches('.').to_ascii_lowercase())
                        .filter(|domain| !domain.is_empty())
                        .take(MAX_SEARCH)
                        .collect();
                }
                Some("options") => words.for_each(|option| servers.option(option)),
                _ => {}
            }
        }
        servers.addresses.truncate(MAX_SERVERS);
        if servers.addresses.is_empty() {
            servers.addresses.push(([127, 0, 0, 1], PORT).into());
        }
        servers
    }

    fn option(&mut self, option: &str) {
        let (name, value) = option.split_once(':').unwrap_or((option, ""));
        let Ok(value) = value.parse::<usize>() else {
            return;
        };
        match name {
            "ndots" => self.ndots = value.min(15),
            "attempts" => self.rounds = value.clamp(1, 5),
            _ => {}
        }
    }

    /// The full names to try for `name`, in order: a short name in each domain of the search list
    /// and then as it is, any other only as it is.
    pub(super) fn candidates<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        let dots = name.bytes().filter(|byte| *byte == b'.').count();
        let search = if dots < self.ndots { &self.search[..] } else { &[] };
        search.iter().map(move |domain| format!("{name}.{domain}")).chain([name.to_owned()])
    }
}

/// A server's address; a scope must be a number.
fn server(word: &str) -> Option<SocketAddr> {
    if let Ok(ip) = word.parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, PORT));
    }
    let (ip, scope) = word.split_once('%')?;
    let ip = ip.parse::<Ipv6Addr>().ok()?;
    Some(SocketAddrV6::new(ip, PORT, 0, scope.parse().ok()?).into())
}

/// The names of a `hosts` file.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    names: HashMap<Box<str>, [Addresses; 2]>,
}

impl Hosts {
    /// Reads a `hosts` file; lines that are none are ignored.
    pub(super) fn parse(text: &str) -> Self {
        let mut names: HashMap<Box<str>, [Vec<IpAddr>; 2]> = HashMap::new();
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or("").split_whitespace();
            let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) else {
                continue;
            };
            for name in words {
                let name = name.trim_end_matches('.').to_ascii_lowercase();
                let families = names.entry(name.into()).or_default();
                families[Family::of(&address) as usize].push(address);
            }
        }
        let names = names.into_iter();
        Self {
            names: names.map(|(name, families)| (name, families.map(Addresses::from))).collect(),
        }
    }

    /// The addresses of a name that the file has; none of one family means that the name has none.
    pub(super) fn get(&self, name: &str, family: Family) -> Option<Addresses> {
        Some(self.names.get(name)?[family as usize].clone())
    }
}

/// A file that is read again when it changes.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    /// Time and size of what was read; `None` = there was no file.
    stamp: Option<(SystemTime, u64)>,
}

impl Watched {
    /// A file that was not read yet.
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path, stamp: None }
    }

    /// The text, if it is another one than the last time. A file that can not be read leaves
    /// what was known.
    pub(super) fn changed(&mut self) -> Option<String> {
        let stamp =
            std::fs::metadata(&self.path).and_then(|meta| Ok((meta.modified()?, meta.len()))).ok();
        if stamp == self.stamp {
            return None;
        }
        self.stamp = stamp;
        stamp?;
        match self.read() {
            Ok(text) => {
                debug!(path = %self.path.display(), "read");
                Some(text)
            }
            Err(error) => {
                warn!(path = %self.path.display(), %error, "not read; what was known stays");
                None
            }
        }
    }

    fn read(&self) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(&self.path)?.take(MAX_FILE).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_t10_resolv_conf_is_read_as_the_c_library_does() {
        let servers = Servers::parse(
            "# made by hand\nnameserver 192.0.2.1 ; first\nnameserver fe80::1%3\nnameserver no\n\
             nameserver 2001:db8::1\nnameserver 192.0.2.4\ndomain left.test\n\
             search Example.TEST. other.test\noptions ndots:2 attempts:9 rotate timeout:x\n",
        );
        let addresses: Vec<_> = servers.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["192.0.2.1:53", "[fe80::1%3]:53", "[2001:db8::1]:53"]);
        assert_eq!(servers.search, ["example.test", "other.test"]);
        assert_eq!((servers.ndots, servers.rounds), (2, 5));
        let short: Vec<_> = servers.candidates("db.prod").collect();
        assert_eq!(short, ["db.prod.example.test", "db.prod.other.test", "db.prod"]);
        let full: Vec<_> = servers.candidates("a.b.c").collect();
        assert_eq!(full, ["a.b.c"]);
    }

    #[test]
    fn tcp_t10_an_empty_resolv_conf_means_the_server_of_this_host() {
        let servers = Servers::parse("");
        assert_eq!(servers.addresses, ["127.0.0.1:53".parse().unwrap()]);
        assert_eq!((servers.ndots, servers.rounds), (1, 2));
    }

    #[test]
    fn tcp_t10_hosts_names_have_all_their_addresses_and_no_other() {
        let hosts = Hosts::parse(
            "192.0.2.1 Dest.test dest # main\n192.0.2.2\tdest.test.\nno dest.test\n\
             # 192.0.2.3 dest.test\n2001:db8::1 six.test\n",
        );
        let of = |name, family| hosts.get(name, family).map(|list| list.to_vec());
        let two: Vec<IpAddr> = vec![[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
        assert_eq!(of("dest.test", Family::V4), Some(two));
        assert_eq!(of("dest.test", Family::V6), Some(vec![]));
        assert_eq!(of("six.test", Family::V4), Some(vec![]));
        assert_eq!(of("other.test", Family::V4), None);
    }
}
