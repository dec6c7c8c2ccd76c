//! Settings of `SipListener` and `SipRouter`.

mod router;
mod users;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use lineway_actors::settings::{NodeSettings, SipAddress, SipListenerSettings};
use lineway_actors::wire::sip::own::{Alias, Transport};
use lineway_wire::units::ByteCount;

use super::Table;
use super::tcp::host_of;
use crate::config::reader::Value;

pub(super) use router::router;

pub(crate) const LISTEN: &str = "listen";

const ADDRESSES: &str =
    "array of addresses such as \"udp:192.0.2.1:5060\", \"tcp:[2001:db8::1]:5060\"";
const ADDRESS: &str = "address such as \"udp:192.0.2.1:5060\" or \"tcp:[2001:db8::1]:5060\"";
const ALIASES: &str = "array of names such as \"example.com\", \"example.com:5060\"";
const ALIAS: &str = "name such as \"example.com\", \"example.com:5060\" or \"tcp:example.com\"";
const ADVERTISED: &str = "host, or host and port, such as \"sip.example.com:5060\"";

/// Settings of a `SipListener`.
pub(super) fn listener(table: &mut Table<'_>) -> Option<NodeSettings> {
    let listen = addresses(table);
    let default = SipListenerSettings::new(Vec::new());
    let alias = aliases(table);
    let advertise = table.get("advertise").map(|value| advertised(&value));
    let tcp_idle_timeout = table.get("tcp-idle-timeout-ms").and_then(|value| value.millis(0));
    let max_message = table.get("max-message-bytes").and_then(|value| max_message(&value));
    let most = i64::from(SipListenerSettings::MOST_CONNECTIONS);
    let max_connections = table.number("max-connections", 1..=most);
    let max_connections = max_connections.and_then(|count| u32::try_from(count).ok());
    let listen = listen?;
    if advertise.is_none() {
        warn_of_every_address(table, &listen);
    }
    Some(NodeSettings::SipListener(SipListenerSettings {
        listen,
        alias: alias?,
        advertise: match advertise {
            None => None,
            Some(advertise) => Some(advertise?),
        },
        tcp_idle_timeout: tcp_idle_timeout.unwrap_or(default.tcp_idle_timeout),
        max_message: max_message.unwrap_or(default.max_message),
        max_connections: max_connections.unwrap_or(default.max_connections),
    }))
}

/// `listen`. `None` when a problem was noted.
fn addresses(table: &mut Table<'_>) -> Option<Vec<SipAddress>> {
    let value = table.required(LISTEN, ADDRESSES)?;
    if let Some(text) = value.text() {
        let help = address(text).is_ok().then(|| format!("write {LISTEN} = [{text:?}]"));
        value.wrong_but(ADDRESSES, help);
        return None;
    }
    let elements = value.elements(ADDRESSES)?;
    if elements.is_empty() {
        value.wrong(ADDRESSES);
        return None;
    }
    let mut listen = Vec::new();
    let mut seen = HashSet::new();
    let mut all_right = true;
    for element in elements {
        let Some(address) = listened(&element) else {
            all_right = false;
            continue;
        };
        // Two ports that the system chooses are two.
        if seen.insert(address) || address.address.port() == 0 {
            listen.push(address);
        } else {
            element.clash(format!("found {}, which is written twice", element.found()));
            all_right = false;
        }
    }
    if listen.len() > usize::from(u16::MAX) {
        value.clash("found more addresses than a node can have");
        return None;
    }
    all_right.then_some(listen)
}

fn listened(value: &Value<'_>) -> Option<SipAddress> {
    let found = match value.text().map(address) {
        None => {
            value.wrong(ADDRESS);
            return None;
        }
        Some(Err(help)) => {
            value.wrong_but(ADDRESS, help);
            return None;
        }
        Some(Ok(address)) => address,
    };
    if found.address.port() == 0 && !value.options().allow_port_zero {
        let help = "for a port that the system chooses, --allow-port-zero".to_owned();
        value.wrong_but("address with a port (1 to 65535)", Some(help));
        return None;
    }
    Some(found)
}

/// An address with its transport, or how to write it.
fn address(text: &str) -> Result<SipAddress, Option<String>> {
    let Some((word, rest)) = text.split_once(':') else {
        let ip: Option<IpAddr> = text.parse().ok();
        return Err(ip.map(|ip| format!("write \"udp:{}\"", SocketAddr::new(ip, 5060))));
    };
    let transport = match word {
        "udp" => Transport::Udp,
        "tcp" => Transport::Tcp,
        "tls" | "ws" | "wss" => {
            return Err(Some(format!("{word} comes later; udp and tcp are there")));
        }
        "sctp" => return Err(Some("there is no sctp, but udp and tcp".to_owned())),
        word if Transport::of(word.as_bytes()).is_some() => {
            return Err(Some(format!("write {}", word.to_ascii_lowercase())));
        }
        _ => {
            let ip: Option<IpAddr> = text.parse().ok();
            let address = text.parse().ok().or(ip.map(|ip| SocketAddr::new(ip, 5060)));
            return Err(address.map(|address| format!("write \"udp:{address}\"")));
        }
    };
    if let Ok(address) = rest.parse::<SocketAddr>() {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        return Ok(SipAddress { transport, address });
    }
    if let Some((ip, port)) = without_brackets(rest) {
        return Err(Some(format!("write \"{word}:{}\"", SocketAddr::new(ip, port))));
    }
    if let Ok(ip) = rest.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Err(Some(format!("write \"{word}:{}\"", SocketAddr::new(ip, 5060))));
    }
    let named = rest.rsplit_once(':').is_some_and(|(host, _)| host_of(host).is_some());
    Err(named.then(|| "a host name is no address here: write the IP address".to_owned()))
}

/// An IPv6 address and a port that looks like one, where the brackets were left out.
fn without_brackets(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.rsplit_once(':')?;
    let ip: Ipv6Addr = ip.parse().ok()?;
    Some((ip.into(), port.parse().ok().filter(|&port| port >= 1024)?))
}

/// Others would be told an address that nobody can send to.
fn warn_of_every_address(table: &Table<'_>, listen: &[SipAddress]) {
    if let Some(every) = listen.iter().find(|listen| listen.address.ip().is_unspecified()) {
        let ip = every.address.ip();
        table.warn(LISTEN, &format!("others are told {ip} as the way back; set advertise"));
    }
}

/// `alias`; empty where it is left out. `None` when a problem was noted.
fn aliases(table: &mut Table<'_>) -> Option<Vec<Alias>> {
    let Some(value) = table.get("alias") else {
        return Some(Vec::new());
    };
    if let Some(text) = value.text() {
        let help = alias(text).is_some().then(|| format!("write alias = [{text:?}]"));
        value.wrong_but(ALIASES, help);
        return None;
    }
    let elements = value.elements(ALIASES)?;
    let count = elements.len();
    let aliases: Vec<_> =
        elements.iter().filter_map(|element| element.parsed(ALIAS, alias)).collect();
    (aliases.len() == count).then_some(aliases)
}

fn alias(text: &str) -> Option<Alias> {
    let (transport, rest) = match text.split_once(':') {
        Some((word @ ("udp" | "tcp"), rest)) => (Transport::of(word.as_bytes()), rest),
        _ => (None, text),
    };
    let (host, port) = host_and_port(rest)?;
    Some(Alias { host: host.into(), port, transport })
}

fn advertised(value: &Value<'_>) -> Option<(Arc<str>, Option<u16>)> {
    let parsed = value.parsed(ADVERTISED, host_and_port)?;
    Some((Arc::from(parsed.0), parsed.1))
}

/// A host, in lower case and IPv6 in brackets, with its port where one is written.
fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some((bracketed(ip), None));
    }
    let ends_with_port = text.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    let (host, port) = match ends_with_port {
        Some((host, port)) => {
            let digits = port.bytes().all(|byte| byte.is_ascii_digit());
            (host, Some(port.parse().ok().filter(|port| *port != 0 && digits)?))
        }
        None => (text, None),
    };
    if let Some(v6) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return Some((bracketed(IpAddr::V6(v6.parse().ok()?)), port));
    }
    let name = host_of(host)?;
    Some(match name {
        lineway_actors::settings::Host::Ip(ip) => (bracketed(ip), port),
        lineway_actors::settings::Host::Name(name) => (name.to_string(), port),
    })
}

fn bracketed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

fn max_message(value: &Value<'_>) -> Option<ByteCount> {
    let least = i64::from(SipListenerSettings::LEAST_MESSAGE);
    value.bytes_of(least..=i64::from(SipListenerSettings::MOST_MESSAGE))
}

#[cfg(test)]
mod tests;
