//! Settings of `TcpListener` and `TcpConnector`.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use lineway_actors::settings::{
    DomainStrategy, Host, NodeSettings, SocketSettings, Target, TcpConnectorSettings,
    TcpListenerSettings,
};
use lineway_wire::units::{ByteCount, Port};

use super::Table;
use crate::config::reader::Value;

pub(crate) const PORT: &str = "port";
pub(crate) const PORT_RANGE: &str = "port-range";
const ADDRESS: &str = "address";
const ADDRESSES: &str = "addresses";
const HIGH_WATER: &str = "write-high-water";

/// What the port of a listener may be; users know it in these words.
const PORTS: &str = "number, array of numbers";
const ONE_PORT: &str = "number (1 to 65535)";
const HOST: &str = "string, an IP address or a host name";

/// Settings of a `TcpListener`.
pub(super) fn listener(table: &mut Table<'_>) -> Option<NodeSettings> {
    let address = table.required(ADDRESS, "IP address").and_then(|value| value.ip());
    let ports = listening_ports(table);
    let socket = socket(table);
    let initial_idle_timeout = table.millis("initial-idle-timeout-ms", 5000, 0);
    let active_idle_timeout = table.millis("active-idle-timeout-ms", 300_000, 0);
    let whitelist = networks(table, "whitelist");
    let blacklist = networks(table, "blacklist");
    let backlog = table.number("backlog", 1..=65_535).unwrap_or(4096);
    let max_lines =
        table.get("max-lines").and_then(|value| value.integer(1..=i64::MAX, "number (1 or more)"));
    Some(NodeSettings::TcpListener(TcpListenerSettings {
        address: address?,
        ports: ports?,
        socket,
        initial_idle_timeout,
        active_idle_timeout,
        whitelist,
        blacklist,
        backlog: u32::try_from(backlog).ok()?,
        max_lines: max_lines.map(i64::unsigned_abs),
    }))
}

/// Settings of a `TcpConnector`.
pub(super) fn connector(table: &mut Table<'_>) -> Option<NodeSettings> {
    let targets = targets(table);
    let socket = socket(table);
    let fastopen = table.boolean("fastopen", false);
    let connect_timeout = table.millis("connect-timeout-ms", 10_000, 1);
    let source = table.get("source-ip");
    let source_ip = source.as_ref().and_then(Value::ip);
    let idle_timeout = table.millis("idle-timeout-ms", 300_000, 0);
    let domain_strategy = table.get("domain-strategy").and_then(|value| {
        value.choice(&[
            ("prefer-ipv4", DomainStrategy::PreferIpv4),
            ("prefer-ipv6", DomainStrategy::PreferIpv6),
            ("only-ipv4", DomainStrategy::OnlyIpv4),
            ("only-ipv6", DomainStrategy::OnlyIpv6),
        ])
    });
    let targets = targets?;
    if let (Some(value), Some(source)) = (&source, source_ip) {
        let other = |target: &&Target| matches!(target.host, Host::Ip(ip) if ip.is_ipv4() != source.is_ipv4());
        if let Some(Target { host: Host::Ip(ip), .. }) = targets.iter().find(other) {
            value.clash(format!("found {source}, from which {ip} can not be reached"));
        }
    }
    Some(NodeSettings::TcpConnector(TcpConnectorSettings {
        targets,
        socket,
        fastopen,
        connect_timeout,
        source_ip,
        idle_timeout,
        domain_strategy: domain_strategy.unwrap_or_default(),
    }))
}

/// What listener and connector have in common.
fn socket(table: &mut Table<'_>) -> SocketSettings {
    const HIGH: ByteCount = ByteCount::new(512 << 10);
    const LOW: ByteCount = ByteCount::new(256 << 10);
    let nodelay = table.boolean("nodelay", true);
    let high = table.bytes(HIGH_WATER);
    let low = table.bytes("write-low-water");
    let write_high_water = high.as_ref().map_or(HIGH, |(bytes, _)| *bytes);
    let write_low_water = match &low {
        // A small high-water mark brings the other one down with it.
        None => LOW.min(ByteCount::new(write_high_water.get().div_ceil(2))),
        Some((bytes, value)) => {
            if *bytes > write_high_water {
                table.above(value, HIGH_WATER, write_high_water);
            }
            *bytes
        }
    };
    let linger = table.millis("linger-ms", 60_000, 0);
    let fwmark = table.number("fwmark", 0..=i64::from(u32::MAX));
    let interface = table.get("interface").and_then(|value| {
        value.parsed("string of 1 to 15 bytes, the name of a network interface", |name| {
            let right = (1..=15).contains(&name.len())
                && !name.contains(['/', '\0'])
                && !name.contains(char::is_whitespace);
            right.then(|| Arc::from(name))
        })
    });
    SocketSettings {
        nodelay,
        write_high_water,
        write_low_water,
        linger,
        fwmark: fwmark.and_then(|mark| u32::try_from(mark).ok()),
        interface,
    }
}

/// `port` or `port-range` of a listener.
fn listening_ports(table: &mut Table<'_>) -> Option<Vec<Port>> {
    let port = table.get(PORT);
    let range = table.get(PORT_RANGE);
    match (port, range) {
        (None, None) => {
            table.missing(PORT, PORTS, None);
            None
        }
        (Some(port), None) => ports(&port),
        (None, Some(range)) => port_range(&range),
        (Some(port), Some(range)) => {
            let mut problem = range.problem(format!("not together with `{PORT}`"));
            problem.help = Some("keep one of the two".to_owned());
            problem.also = Some((port.span.clone(), "`port`"));
            range.note(problem);
            let _ = (ports(&port), port_range(&range));
            None
        }
    }
}

fn ports(value: &Value<'_>) -> Option<Vec<Port>> {
    if value.is_array() {
        let elements = value.elements(PORTS)?;
        if elements.is_empty() {
            value.wrong(PORTS);
            return None;
        }
        let mut seen = HashSet::new();
        let mut ports = Vec::with_capacity(elements.len());
        let mut right = true;
        for element in elements {
            let port = port(&element);
            right &= port.is_some();
            let Some(port) = port else { continue };
            if !seen.insert(port) {
                element.clash(format!("port {port} is written twice"));
                right = false;
            }
            ports.push(port);
        }
        return right.then_some(ports);
    }
    port(value).map(|port| vec![port])
}

/// One port of a listener.
fn port(value: &Value<'_>) -> Option<Port> {
    let number = value.as_integer();
    if number == Some(0) && value.options().allow_port_zero {
        return Some(Port::ANY);
    }
    let port = number.and_then(Port::new);
    if port.is_none() {
        let quoted = value.text().and_then(|text| text.trim().parse().ok());
        let help = match number {
            None => quoted.and_then(Port::new).map(|port| format!("write {port} without quotes")),
            Some(0) => Some("for a port that the system chooses, --allow-port-zero".to_owned()),
            Some(_) => Some("a port is 1 to 65535".to_owned()),
        };
        value.wrong_but(PORTS, help);
    }
    port
}

fn port_range(value: &Value<'_>) -> Option<Vec<Port>> {
    const EXPECTED: &str = "[first, last], two ports in order";
    let elements = value.elements(EXPECTED)?;
    let [first, last] = elements.as_slice() else {
        value.wrong(EXPECTED);
        return None;
    };
    let ends = [first, last].map(|end| end.integer(1..=65_535, ONE_PORT));
    let (first, last) = (ends[0]?, ends[1]?);
    if first > last {
        value.wrong_but(EXPECTED, Some(format!("write [{last}, {first}]")));
        return None;
    }
    (first..=last).map(Port::new).collect()
}

/// `address` and `port`, or `addresses` of a connector.
fn targets(table: &mut Table<'_>) -> Option<Vec<Target>> {
    const EXPECTED: &str = "array of { address = \"...\", port = 443, weight = 1 }";
    let list = table.get(ADDRESSES);
    let Some(list) = list else {
        let host = table.required(ADDRESS, HOST).and_then(|value| host(&value));
        let port = target_port(table);
        return Some(vec![Target { host: host?, port: port?, weight: 1 }]);
    };
    for single in [ADDRESS, PORT] {
        if let Some(value) = table.get(single) {
            let mut problem = value.problem(format!("not together with `{ADDRESSES}`"));
            problem.also = Some((list.span.clone(), "`addresses`"));
            value.note(problem);
        }
    }
    let elements = list.elements(EXPECTED)?;
    if elements.is_empty() {
        list.wrong(EXPECTED);
        return None;
    }
    let target = |element: Value<'_>| {
        let mut table = element.table("{ address = \"...\", port = 443, weight = 1 }")?;
        let host = table.required(ADDRESS, HOST).and_then(|value| host(&value));
        let port = target_port(&mut table);
        let weight = table.number("weight", 1..=65_535).unwrap_or(1);
        table.finish("an address", |_| None);
        Some(Target { host: host?, port: port?, weight: u32::try_from(weight).ok()? })
    };
    // Collected first, so that every element is read even when an earlier one is wrong.
    let targets: Vec<_> = elements.into_iter().map(target).collect();
    targets.into_iter().collect()
}

fn target_port(table: &mut Table<'_>) -> Option<Port> {
    let number = table.required(PORT, ONE_PORT)?.integer(1..=65_535, ONE_PORT);
    number.and_then(Port::new)
}

fn host(value: &Value<'_>) -> Option<Host> {
    let host = value.text().and_then(host_of);
    if host.is_none() {
        let help = value.text().and_then(|text| {
            if let Ok(address) = text.parse::<SocketAddr>() {
                return Some(format!(
                    "write {:?} and the port as `{PORT}`",
                    address.ip().to_string()
                ));
            }
            if let Some((name, port)) = text.rsplit_once(':')
                && port.parse::<u16>().is_ok()
                && host_of(name).is_some()
            {
                return Some(format!("write {name:?} and the port as `{PORT}`"));
            }
            let inner = text.strip_prefix('[')?.strip_suffix(']')?;
            inner.parse::<IpAddr>().is_ok().then(|| format!("write {inner:?}"))
        });
        let ascii = value.text().is_none_or(str::is_ascii);
        let help = help.or_else(|| (!ascii).then(|| "write the name in its xn-- form".to_owned()));
        value.wrong_but(HOST, help);
    }
    host
}

pub(super) fn host_of(text: &str) -> Option<Host> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(Host::Ip(ip.to_canonical()));
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // No top-level domain is a number: a name that ends in one is a misspelt IP address.
    let last = name.rsplit('.').next().unwrap_or_default();
    let number = last.bytes().all(|b| b.is_ascii_digit());
    let right = name.len() <= 253 && name.split('.').all(label) && !number;
    right.then(|| Host::Name(Arc::from(name.to_ascii_lowercase())))
}

fn networks(table: &mut Table<'_>, name: &'static str) -> Vec<IpNet> {
    const EXPECTED: &str = "array of IP addresses and networks such as \"10.0.0.0/8\"";
    let elements = table.get(name).and_then(|value| value.elements(EXPECTED));
    let network = |value: Value<'_>| value.parsed("IP address or network, \"10.0.0.0/8\"", network);
    elements.into_iter().flatten().filter_map(network).collect()
}

/// An address or a network; bits of the host are cut off, v4-mapped ones become IPv4.
pub(super) fn network(text: &str) -> Option<IpNet> {
    let net: IpNet = match text.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().into(),
        Err(_) => text.parse().ok()?,
    };
    if let IpNet::V6(v6) = net
        && let Some(v4) = v6.addr().to_ipv4_mapped()
        && let Some(length) = v6.prefix_len().checked_sub(96)
    {
        return Ipv4Net::new(v4, length).ok().map(|v4| IpNet::V4(v4.trunc()));
    }
    Some(net.trunc())
}

#[cfg(test)]
mod tests {
    use super::{host_of, network};
    use lineway_actors::settings::Host;

    #[test]
    fn host_names_lose_case_and_final_dot() {
        for (text, name) in [
            ("Example.ORG.", "example.org"),
            ("_sip._tcp.example.org", "_sip._tcp.example.org"),
            ("localhost", "localhost"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(host_of(text), Some(Host::Name(name.into())), "{text}");
        }
        let mapped = host_of("::ffff:10.0.0.1");
        assert_eq!(mapped, Some(Host::Ip([10, 0, 0, 1].into())));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        let long = format!("{}.org", "a".repeat(64));
        let whole = vec!["a".repeat(50); 6].join(".");
        for text in [
            "",
            ".",
            "a..b",
            "a b",
            "-a.org",
            "a-.org",
            "256.1.1.1",
            "10.1",
            "1",
            "a:80",
            "[::1]",
            "bücher.example",
            "a/b",
            &long,
            &whole,
        ] {
            assert_eq!(host_of(text), None, "{text}");
        }
    }

    #[test]
    fn networks_lose_host_bits_and_v4_mapping() {
        for (text, net) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("::ffff:10.1.2.3", "10.1.2.3/32"),
            ("::ffff:10.1.2.3/104", "10.0.0.0/8"),
            ("::ffff:0:0/95", "::fffe:0:0/95"),
            ("2001:db8::1/32", "2001:db8::/32"),
        ] {
            assert_eq!(network(text).map(|net| net.to_string()).as_deref(), Some(net), "{text}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "example.org", "10.0.0.0/"] {
            assert_eq!(network(text), None, "{text}");
        }
    }
}
