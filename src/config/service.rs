//! The tables of the process: `[service]`, `[dns]`, `[log]`, `[admin]`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use lineway_actors::settings::{DnsSettings, ServiceSettings};
use lineway_wire::units::{ByteCount, Millis};
use tracing_subscriber::EnvFilter;

use super::problem::{Problem, visible};
use super::reader::{Place, Reading, Table, Value, did_you_mean};
use super::{AdminSettings, LoadOptions, LogFormat, LogSettings};
use crate::suggest::nearest;

/// A tebibyte: what message sockets may hold at most.
pub(super) const MOST_QUEUE: i64 = 1 << 40;
/// Below this, a few peers would stop all others.
const LEAST_TOTAL_QUEUE: i64 = 1 << 20;

const DNS_PORT: u16 = 53;
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9600);
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
const LEVEL: &str = "off, error, warn, info, debug, trace, or directives such as \
                     \"info,lineway_actors=debug\"";

/// Which log lines are written: a level, or directives in the form of `tracing`'s `EnvFilter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    fn new(text: &str) -> Option<Self> {
        // EnvFilter takes a bare word for a target: a misspelt level would log everything of a
        // target that does not exist.
        let bare = |part: &str| !part.contains(['=', '[']) && !LEVELS.contains(&part.trim());
        if !text.contains('[') && text.split(',').any(bare) {
            return None;
        }
        EnvFilter::try_new(text).ok().map(|_| Self(text.to_owned()))
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The filter.
    pub fn filter(&self) -> EnvFilter {
        EnvFilter::new(&self.0)
    }
}

/// The table in which a setting of the process stands.
pub(super) fn table_of(name: &str) -> Option<&'static str> {
    if asks(name, read_service) {
        Some("service")
    } else if asks(name, read_dns) {
        Some("dns")
    } else if asks(name, read_log) {
        Some("log")
    } else {
        asks(name, read_admin).then_some("admin")
    }
}

/// Whether a reader asks for a setting.
fn asks<T>(name: &str, read: impl for<'a> FnOnce(&mut Table<'a>) -> T) -> bool {
    let options = LoadOptions::default();
    let reading = Reading::new("", &options);
    let mut table = Table::left_out(0..0, Place::default(), &reading);
    read(&mut table);
    table.asked().contains(&name)
}

/// Reads a table of the root with `read`; a table that is left out is empty.
fn section<'a, T>(
    root: &mut Table<'a>,
    name: &'static str,
    read: impl FnOnce(&mut Table<'a>) -> T,
) -> T {
    let value = root.get(name);
    let given = value.and_then(|value| value.table(&format!("table [{name}]")));
    let mut table = given.unwrap_or_else(|| {
        Table::left_out(0..0, Place { node: None, path: name.to_owned() }, root.reading)
    });
    let out = read(&mut table);
    table.finish(&format!("[{name}]"), |key| {
        let other = table_of(key).filter(|other| *other != name)?;
        Some(format!("it belongs to [{other}]"))
    });
    out
}

/// `[service]` and `[dns]`.
pub(super) fn service(root: &mut Table<'_>) -> ServiceSettings {
    let (workers, drain_timeout, total_queue) = section(root, "service", read_service);
    let dns = section(root, "dns", read_dns);
    ServiceSettings { workers, drain_timeout, total_queue, dns }
}

/// `[log]`, with `LINEWAY_LOG` in place of its level.
pub(super) fn log(root: &mut Table<'_>) -> LogSettings {
    let mut log = section(root, "log", read_log);
    if let Some(text) = &root.reading.options.log {
        let text = text.to_string_lossy();
        match LogFilter::new(&text) {
            Some(level) => log.level = level,
            None => root.reading.note(Problem {
                origin: Some("LINEWAY_LOG"),
                what: format!("found string {:?}, expected {LEVEL}", visible(&text)),
                help: nearest(&text, LEVELS).map(did_you_mean),
                ..Problem::default()
            }),
        }
    }
    log
}

/// `[admin]`.
pub(super) fn admin(root: &mut Table<'_>) -> AdminSettings {
    section(root, "admin", read_admin)
}

fn read_service(table: &mut Table<'_>) -> (usize, Millis, ByteCount) {
    let workers = table.number("workers", 0..=1024).unwrap_or(0);
    let drain_timeout = table.millis("drain-timeout-ms", 10_000, 0);
    let total = table.get("total-queue-bytes");
    let total = total.and_then(|value| value.bytes_of(LEAST_TOTAL_QUEUE..=MOST_QUEUE));
    let total = total.unwrap_or(ServiceSettings::TOTAL_QUEUE);
    (usize::try_from(workers).unwrap_or(0), drain_timeout, total)
}

fn read_dns(table: &mut Table<'_>) -> DnsSettings {
    const EXPECTED: &str = "array of name servers, each \"IP\" or \"IP:port\"";
    let servers = table.get("servers").and_then(|value| value.elements(EXPECTED));
    let server = |value: Value<'_>| value.parsed(EXPECTED, name_server);
    DnsSettings {
        servers: servers.into_iter().flatten().filter_map(server).collect(),
        timeout: table.millis("timeout-ms", 2000, 1),
    }
}

fn name_server(text: &str) -> Option<SocketAddr> {
    let ip: Result<IpAddr, _> = text.parse();
    let server = match ip {
        Ok(ip) => SocketAddr::new(ip, DNS_PORT),
        Err(_) => text.parse().ok()?,
    };
    let server = SocketAddr::new(server.ip().to_canonical(), server.port());
    (server.port() != 0).then_some(server)
}

fn read_log(table: &mut Table<'_>) -> LogSettings {
    let level = table.get("level").and_then(|value| {
        let level = value.text().and_then(LogFilter::new);
        if level.is_none() {
            let near = value.text().and_then(|text| nearest(text, LEVELS));
            value.wrong_but(LEVEL, near.map(did_you_mean));
        }
        level
    });
    let format = table
        .get("format")
        .and_then(|value| value.choice(&[("text", LogFormat::Text), ("json", LogFormat::Json)]));
    LogSettings {
        level: level.unwrap_or_else(|| LogFilter("info".to_owned())),
        format: format.unwrap_or_default(),
    }
}

fn read_admin(table: &mut Table<'_>) -> AdminSettings {
    let listen = table.get("listen").and_then(|value| {
        value.parsed("IP address and port such as \"127.0.0.1:9600\"", |text| {
            let address: SocketAddr = text.parse().ok()?;
            Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
        })
    });
    AdminSettings { listen: listen.unwrap_or(ADMIN) }
}

#[cfg(test)]
mod tests {
    use super::LogFilter;

    #[test]
    fn a_misspelt_level_is_no_filter() {
        for right in ["off", "info", "trace", "info,lineway=debug", "warn,[line{id=1}]=trace"] {
            assert!(LogFilter::new(right).is_some(), "{right}");
        }
        for wrong in ["", "inof", "INFO ", "info,trcae", "lineway=inof", "info,,", "lineway"] {
            assert!(LogFilter::new(wrong).is_none(), "{wrong}");
        }
    }
}
