//! What the machine says of names: `hosts` and `resolv.conf`, read again when they change.

use std::fs;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::SystemTime;

use super::{Addresses, Family};

/// More of a file is not read.
const LONGEST: u64 = 1 << 20;

/// A file whose content is parsed again when it changes.
#[derive(Debug)]
pub(super) struct Watched<T> {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
    parse: fn(&str) -> T,
    value: T,
}

impl<T> Watched<T> {
    pub(super) fn new(path: impl Into<PathBuf>, parse: fn(&str) -> T) -> Self {
        Self { path: path.into(), seen: None, parse, value: parse("") }
    }

    /// What the file says; nothing where there is none.
    pub(super) fn get(&mut self) -> &T {
        let about = fs::metadata(&self.path).ok();
        let seen = about.and_then(|about| Some((about.modified().ok()?, about.len())));
        if seen != self.seen {
            let mut text = Vec::new();
            if let Ok(file) = fs::File::open(&self.path) {
                // A file cut short by an error is as good as one that ends there.
                let _ = file.take(LONGEST).read_to_end(&mut text);
            }
            self.value = (self.parse)(&String::from_utf8_lossy(&text));
            self.seen = seen;
        }
        &self.value
    }
}

/// The lines of a file without comments, as words.
fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines()
        .map(|line| line.split(['#', ';']).next().unwrap_or_default())
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| !words.is_empty())
}

/// `/etc/hosts`: addresses with their names.
#[derive(Debug, Default)]
pub(super) struct Hosts(Vec<(IpAddr, Vec<String>)>);

impl Hosts {
    pub(super) fn parse(text: &str) -> Self {
        let entry = |words: Vec<&str>| {
            let names = words[1..].iter().map(|name| plain(name)).collect();
            words[0].parse().ok().map(|ip| (ip, names))
        };
        Self(lines(text).filter_map(entry).collect())
    }

    /// Whether the name is in the file, and its addresses of this family.
    pub(super) fn find(&self, name: &str, family: Family) -> Option<Addresses> {
        let mut named =
            self.0.iter().filter(|(_, names)| names.iter().any(|n| n == name)).peekable();
        named.peek()?;
        Some(named.map(|(ip, _)| *ip).filter(|ip| family.has(*ip)).collect())
    }
}

/// `/etc/resolv.conf`: name servers and search domains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResolvConf {
    /// The servers, in order.
    pub(super) servers: Vec<SocketAddr>,
    /// Domains that names without a dot are looked for in.
    pub(super) search: Vec<String>,
}

impl ResolvConf {
    pub(super) fn parse(text: &str) -> Self {
        let mut conf = Self::default();
        for words in lines(text) {
            match words[0] {
                "nameserver" => {
                    let server = words.get(1).and_then(|word| server_ip(word));
                    conf.servers.extend(server.map(|ip| SocketAddr::new(ip, 53)));
                }
                "search" | "domain" => conf.search = words[1..].iter().map(|d| plain(d)).collect(),
                _ => {}
            }
        }
        conf.servers.truncate(8);
        conf.search.truncate(8);
        conf
    }
}

/// An address, which may carry a zone (`fe80::1%eth0`) that is of no use here.
fn server_ip(word: &str) -> Option<IpAddr> {
    word.split('%').next()?.parse().ok()
}

fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use super::{Hosts, ResolvConf, Watched};
    use crate::dns::Family;

    #[test]
    fn hosts_give_the_addresses_of_a_family() {
        let hosts = Hosts::parse(
            "127.0.0.1 localhost\n# no\n192.0.2.7 Db.Example db # the db\n2001:db8::7 db\nwrong x\n",
        );
        let v4 = hosts.find("db", Family::V4).unwrap();
        assert_eq!(v4.as_slice(), [IpAddr::from([192, 0, 2, 7])]);
        assert_eq!(hosts.find("db", Family::V6).unwrap().len(), 1);
        assert_eq!(hosts.find("db.example", Family::V6).unwrap().len(), 0, "known, of v4 alone");
        assert!(hosts.find("other", Family::V4).is_none());
    }

    #[test]
    fn resolv_conf_gives_servers_and_search_domains() {
        let conf = ResolvConf::parse(
            "nameserver 192.0.2.53\nnameserver ::1\n;x\nsearch A.example. b.example\nnameserver\n",
        );
        let want = [SocketAddr::from(([192, 0, 2, 53], 53)), "[::1]:53".parse().unwrap()];
        assert_eq!(conf.servers, want);
        assert_eq!(conf.search, ["a.example", "b.example"]);
        assert_eq!(ResolvConf::parse("\u{0}nameserver x\n"), ResolvConf::default());
    }

    #[test]
    fn a_file_is_read_again_when_it_changes() {
        let path = std::env::temp_dir().join(format!("lineway-hosts-{}", std::process::id()));
        let mut watched = Watched::new(&path, Hosts::parse);
        assert!(watched.get().find("a", Family::V4).is_none());
        std::fs::write(&path, "192.0.2.1 a\n").unwrap();
        assert!(watched.get().find("a", Family::V4).is_some());
        std::fs::write(&path, "192.0.2.1 long-name-b\n").unwrap();
        assert!(watched.get().find("a", Family::V4).is_none());
        std::fs::remove_file(&path).unwrap();
        assert!(watched.get().find("long-name-b", Family::V4).is_none());
    }
}
