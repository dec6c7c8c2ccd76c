//! RFC 3263: from the URI of a hop to addresses, in the order in which they are tried.
//!
//! A hop with an address needs no DNS. A name with a port has addresses; one without a port has
//! SRV records of its transport, or without a transport NAPTR records, which lead to SRV records;
//! a name that has none of them is a host at port 5060, by UDP unless a transport was chosen.
//!
//! Every choice that DNS leaves open is made by a seed and after sorting, so that each copy of a
//! request goes the same way (RFC 3263 4.3, 4.4), whatever order a server gave its records in.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use smallvec::SmallVec;

use super::draft::Failure;
use super::hop::{Hop, HopHost};
use super::own::{DEFAULT_PORT, Own, Transport};
use crate::dial::{Families, Family};

mod order;
#[cfg(test)]
mod tests;

pub use super::hop::UNRESOLVABLE;

/// SRV records of one answer that are used; of those behind them nobody could tell.
const MAX_SERVERS: usize = 32;
/// NAPTR records of one answer that are used.
const MAX_SERVICES: usize = 8;
/// Addresses of one host that are used.
const MAX_ADDRESSES: usize = 16;
/// Questions of one search behind the first ones.
const MAX_ASKS: u8 = 16;
/// Bytes of a name (RFC 1035 2.3.4, written out).
const MAX_NAME: usize = 253;

/// One question to DNS. Names are in lower case and without a final dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// NAPTR of a domain.
    Naptr(Bytes),
    /// SRV such as `_sip._udp.example.com`.
    Srv(Bytes),
    /// Addresses of a name, of these families.
    Address(Bytes, Families),
}

/// One NAPTR record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of RFC 3403 4.1")]
pub struct Naptr {
    pub order: u16,
    pub preference: u16,
    pub flags: Bytes,
    pub services: Bytes,
    pub replacement: Bytes,
}

/// One SRV record; a target of no bytes is the root: the service is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of RFC 2782")]
pub struct Srv {
    pub priority: u16,
    pub weight: u16,
    pub port: u16,
    pub target: Bytes,
}

/// The answer to a question; an empty list = the name has no such record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Question::Naptr`].
    Naptr(Vec<Naptr>),
    /// To [`Question::Srv`].
    Srv(Vec<Srv>),
    /// To [`Question::Address`].
    Addresses(Vec<IpAddr>),
    /// No server gave a usable answer.
    Failed,
}

/// How names are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocateOptions {
    /// NAPTR is asked for a name without port and transport.
    pub naptr: bool,
    /// What can be sent to by UDP; `None` without a socket.
    pub udp: Option<Families>,
    /// The same by TCP.
    pub tcp: Option<Families>,
}

impl LocateOptions {
    /// What these sockets can send to, IPv4 first.
    pub fn of(own: &Own, naptr: bool) -> Self {
        let families = |transport| {
            let has = |ipv4| {
                let fits = |socket: &super::own::Socket| {
                    socket.transport == transport && socket.address.is_ipv4() == ipv4
                };
                own.sockets.iter().any(fits)
            };
            match (has(true), has(false)) {
                (true, both) => Some(Families { first: Family::V4, both }),
                (false, true) => Some(Families { first: Family::V6, both: false }),
                (false, false) => None,
            }
        };
        Self { naptr, udp: families(Transport::Udp), tcp: families(Transport::Tcp) }
    }

    const fn families(self, transport: Transport) -> Option<Families> {
        match transport {
            Transport::Udp => self.udp,
            Transport::Tcp => self.tcp,
        }
    }

    /// The transports that are carried, the one first that an unsaid one is.
    fn transports(self) -> impl Iterator<Item = Transport> {
        let carried = [self.udp.map(|_| Transport::Udp), self.tcp.map(|_| Transport::Tcp)];
        carried.into_iter().flatten()
    }
}

/// Where a request can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// By which transport.
    pub transport: Transport,
    /// To which address.
    pub address: SocketAddr,
}

/// What a search wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// An answer to this; several may be asked for at once.
    Ask(Vec<Question>),
    /// Here it can be sent, in the order in which it is tried, never empty. When all of them
    /// failed, [`Locate::more`] may know others.
    Found(Vec<Destination>),
}

/// A search for the addresses of one hop.
///
/// ```text
///   name ──▶ Services ──▶ (Servers ──▶) Hosts ──▶ found ──more──▶ Hosts ...
///   name with a port ──────────────────▶ Hosts
///   address ─────────────────────────────────────▶ found
/// ```
#[derive(Clone, Debug)]
pub struct Locate {
    options: LocateOptions,
    /// The name that is looked for.
    domain: Bytes,
    /// Feeds every choice that DNS leaves open.
    seed: u64,
    asked: Asked,
    /// SRV answers that came before they were wanted.
    known: SmallVec<[(Bytes, Vec<Srv>); 2]>,
    todo: VecDeque<Todo>,
    found: SmallVec<[Destination; 4]>,
    asks_left: u8,
}

/// What the last questions were.
#[derive(Clone, Debug)]
enum Asked {
    /// None that is open.
    Nothing,
    /// NAPTR of the domain and SRV of every transport.
    Services,
    /// SRV of this name.
    Servers(Transport, Bytes),
    /// Addresses of a host.
    Host(Transport, u16),
}

/// What may lead to destinations, in order.
#[derive(Clone, Debug)]
enum Todo {
    /// The servers of a service; without any the domain itself is it.
    Service(Transport, Bytes),
    /// The addresses of a host.
    Host(Transport, Bytes, u16),
}

impl Locate {
    /// Begins; a hop with an address is found at once. The same `seed` makes the same choices: one
    /// of the Call-ID keeps a whole call together.
    ///
    /// # Errors
    /// 478: nothing can be sent there.
    pub fn new(hop: Hop, options: LocateOptions, seed: u64) -> Result<(Self, Progress), Failure> {
        let mut this = Self {
            options,
            domain: Bytes::new(),
            seed,
            asked: Asked::Nothing,
            known: SmallVec::new(),
            todo: VecDeque::new(),
            found: SmallVec::new(),
            asks_left: MAX_ASKS,
        };
        let transport = hop.transport.unwrap_or(Transport::Udp);
        let port = hop.port.unwrap_or(DEFAULT_PORT);
        let progress = match hop.host {
            HopHost::Ip(ip) => {
                this.found(transport, &[ip], port).map(Progress::Found).ok_or(UNRESOLVABLE)
            }
            HopHost::Name(name) if !is_name(&name) => Err(UNRESOLVABLE),
            HopHost::Name(name) => {
                this.domain = name.clone();
                match (hop.port, hop.transport) {
                    (None, None) if options.naptr => Ok(this.ask_services()),
                    (None, _) => {
                        this.todo.push_back(Todo::Service(transport, service(transport, &name)));
                        this.advance()
                    }
                    (Some(port), _) => {
                        this.todo.push_back(Todo::Host(transport, name, port));
                        this.advance()
                    }
                }
            }
        };
        Ok((this, progress?))
    }

    /// Takes the answers to all that was asked, in that order.
    ///
    /// # Errors
    /// 478: it does not lead to an address.
    pub fn answer(&mut self, answers: Vec<Answer>) -> Result<Progress, Failure> {
        let mut answers = answers.into_iter();
        match std::mem::replace(&mut self.asked, Asked::Nothing) {
            Asked::Nothing => {}
            Asked::Services => {
                let services = naptr(answers.next());
                for transport in self.options.transports() {
                    self.known.push((service(transport, &self.domain), srv(answers.next())));
                }
                self.choose_services(services);
            }
            Asked::Servers(transport, name) => {
                self.known.push((name.clone(), srv(answers.next())));
                self.todo.push_front(Todo::Service(transport, name));
            }
            Asked::Host(transport, port) => {
                if let Some(Answer::Addresses(list)) = answers.next()
                    && let Some(found) = self.found(transport, &list, port)
                {
                    return Ok(Progress::Found(found));
                }
            }
        }
        self.advance()
    }

    /// Goes on when what was found is of no use: further servers of the hop (RFC 3263 4.3).
    ///
    /// # Errors
    /// 478: there are no others.
    pub fn more(&mut self) -> Result<Progress, Failure> {
        self.advance()
    }

    /// Asks for all that decides the transport at once: one round instead of two.
    fn ask_services(&mut self) -> Progress {
        self.asked = Asked::Services;
        let servers = self.options.transports().map(|t| Question::Srv(service(t, &self.domain)));
        Progress::Ask([Question::Naptr(self.domain.clone())].into_iter().chain(servers).collect())
    }

    /// RFC 3263 4.1: what NAPTR says of transports that are carried, else the transports that have
    /// SRV records, else UDP.
    fn choose_services(&mut self, mut services: Vec<Naptr>) {
        services.retain(|naptr| self.offers(naptr).is_some() && is_name(&naptr.replacement));
        services.sort_by(|a, b| key(a).cmp(&key(b)));
        services.truncate(MAX_SERVICES);
        for naptr in services {
            let Some(transport) = self.offers(&naptr) else { continue };
            self.todo.push_back(if naptr.flags.eq_ignore_ascii_case(b"s") {
                Todo::Service(transport, naptr.replacement)
            } else {
                Todo::Host(transport, naptr.replacement, DEFAULT_PORT)
            });
        }
        if self.todo.is_empty() {
            for transport in self.options.transports() {
                let name = service(transport, &self.domain);
                if self.known.iter().any(|(known, list)| *known == name && !list.is_empty()) {
                    self.todo.push_back(Todo::Service(transport, name));
                }
            }
        }
        if self.todo.is_empty() {
            self.todo.push_back(Todo::Host(Transport::Udp, self.domain.clone(), DEFAULT_PORT));
        }
    }

    /// The carried transport that a NAPTR record offers SIP by.
    fn offers(&self, naptr: &Naptr) -> Option<Transport> {
        let transport = match &naptr.services[..] {
            word if word.eq_ignore_ascii_case(b"SIP+D2U") => Transport::Udp,
            word if word.eq_ignore_ascii_case(b"SIP+D2T") => Transport::Tcp,
            _ => return None,
        };
        let leads =
            naptr.flags.eq_ignore_ascii_case(b"s") || naptr.flags.eq_ignore_ascii_case(b"a");
        (leads && self.options.families(transport).is_some()).then_some(transport)
    }

    /// Goes through what is to be done until there is a question or a destination.
    fn advance(&mut self) -> Result<Progress, Failure> {
        while let Some(todo) = self.todo.pop_front() {
            match todo {
                Todo::Service(transport, name) => {
                    let known = self.known.iter().position(|(known, _)| *known == name);
                    if let Some(place) = known {
                        let servers = self.known[place].1.clone();
                        self.expand(transport, servers);
                    } else if !is_name(&name) {
                        self.expand(transport, Vec::new());
                    } else if self.may_ask(transport) {
                        self.asked = Asked::Servers(transport, name.clone());
                        return Ok(Progress::Ask(vec![Question::Srv(name)]));
                    }
                }
                Todo::Host(transport, name, port) => {
                    if let Some(ip) = written_address(&name) {
                        if let Some(found) = self.found(transport, &[ip], port) {
                            return Ok(Progress::Found(found));
                        }
                    } else if let Some(families) = self.options.families(transport)
                        && self.may_ask(transport)
                    {
                        self.asked = Asked::Host(transport, port);
                        return Ok(Progress::Ask(vec![Question::Address(name, families)]));
                    }
                }
            }
        }
        Err(UNRESOLVABLE)
    }

    fn may_ask(&mut self, transport: Transport) -> bool {
        let may = self.asks_left > 0 && self.options.families(transport).is_some();
        self.asks_left -= u8::from(may);
        may
    }

    /// The servers of a service take its place; without an SRV record the domain is it (4.2).
    fn expand(&mut self, transport: Transport, servers: Vec<Srv>) {
        if servers.is_empty() {
            self.todo.push_front(Todo::Host(transport, self.domain.clone(), DEFAULT_PORT));
            return;
        }
        let servers = order::servers(servers, MAX_SERVERS, &mut self.seed);
        for server in servers.into_iter().rev() {
            // The root as target: "the service is decidedly not available" (RFC 2782).
            if is_name(&server.target) {
                self.todo.push_front(Todo::Host(transport, server.target, server.port));
            }
        }
    }

    /// The destinations of a host that can be sent to and were not found before.
    fn found(
        &mut self,
        transport: Transport,
        addresses: &[IpAddr],
        port: u16,
    ) -> Option<Vec<Destination>> {
        let families = self.options.families(transport).filter(|_| port != 0)?;
        let mut list = Vec::new();
        for family in [families.first, families.first.other()] {
            if !families.contains(family) {
                continue;
            }
            let of_family = addresses.iter().copied().filter(|ip| Family::of(ip) == family);
            for ip in order::addresses(of_family.collect(), &mut self.seed) {
                let destination = Destination { transport, address: SocketAddr::new(ip, port) };
                if list.len() < MAX_ADDRESSES && !self.found.contains(&destination) {
                    self.found.push(destination);
                    list.push(destination);
                }
            }
        }
        (!list.is_empty()).then_some(list)
    }
}

/// Order first, preference second (RFC 3403 4.1); what is equal in both has one order too.
fn key(naptr: &Naptr) -> (u16, u16, &[u8], &[u8]) {
    (naptr.order, naptr.preference, &naptr.services, &naptr.replacement)
}

/// A server that does not answer is one that has no such record: the address is still asked for,
/// and many servers know addresses only.
fn naptr(answer: Option<Answer>) -> Vec<Naptr> {
    if let Some(Answer::Naptr(list)) = answer { list } else { Vec::new() }
}

fn srv(answer: Option<Answer>) -> Vec<Srv> {
    if let Some(Answer::Srv(list)) = answer { list } else { Vec::new() }
}

/// The SRV name of a transport (RFC 3263 4.1).
fn service(transport: Transport, domain: &[u8]) -> Bytes {
    [b"_sip._", transport.word().as_bytes(), b".", domain].concat().into()
}

/// The address of people who wrote one where DNS wants a name.
fn written_address(name: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// Whether a text can be asked for: labels of letters, digits, hyphens and underscores.
fn is_name(name: &[u8]) -> bool {
    let is_label = |label: &[u8]| {
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.iter().all(fits)
    };
    name.len() <= MAX_NAME && name.split(|byte| *byte == b'.').all(is_label)
}
