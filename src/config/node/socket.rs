//! Settings of `DealerSocket` and `RouterSocket`.

use std::collections::HashSet;

use lineway_actors::settings::{
    DealerSocketSettings, MessageSettings, NodeSettings, RouterSocketSettings,
};
use lineway_wire::units::{ByteCount, Millis};
use lineway_wire::zmp::RoutingId;
use lineway_wire::zmp::core::{DuplicatePolicy, Weight};
use lineway_wire::zmp::endpoint::{Endpoint, EndpointError};

use super::Table;
use super::tcp::host_of;
use crate::config::reader::Value;
use crate::config::service::MOST_QUEUE;

pub(crate) const BIND: &str = "bind";
pub(crate) const DATA_ENVELOPE: &str = "data-envelope";
const CONNECT: &str = "connect";
const RECONNECT: &str = "reconnect-interval-ms";

const ENDPOINTS: &str =
    "array of endpoints such as \"tcp://127.0.0.1:5555\", \"ipc:///run/name\", \"inproc://name\"";
const ENDPOINT: &str = "endpoint such as \"tcp://127.0.0.1:5555\"";
const ROUTING_ID: &str = "string of 1 to 255 bytes, or \"hex:\" with pairs of hexadecimal digits";

/// Settings of a `DealerSocket`.
pub(super) fn dealer(table: &mut Table<'_>) -> Option<NodeSettings> {
    let common = both(table)?;
    Some(NodeSettings::DealerSocket(DealerSocketSettings { common }))
}

/// Settings of a `RouterSocket`.
pub(super) fn router(table: &mut Table<'_>) -> Option<NodeSettings> {
    let default = RouterSocketSettings::default();
    let common = both(table);
    let mandatory = table.boolean("mandatory", default.mandatory);
    let duplicates = table.get("rid-duplicate-policy").and_then(|value| {
        value
            .choice(&[("reject", DuplicatePolicy::Reject), ("handover", DuplicatePolicy::Handover)])
    });
    let data_envelope = table.boolean(DATA_ENVELOPE, default.data_envelope);
    Some(NodeSettings::RouterSocket(RouterSocketSettings {
        common: common?,
        mandatory,
        duplicates: duplicates.unwrap_or(default.duplicates),
        data_envelope,
    }))
}

/// What both types have.
fn both(table: &mut Table<'_>) -> Option<MessageSettings> {
    let default = MessageSettings::default();
    let bind = endpoints(table, BIND, bound);
    let connect = endpoints(table, CONNECT, connected);
    if !table.has(BIND) && !table.has(CONNECT) {
        let help = format!("or {CONNECT} = [...], or both");
        table.missing(BIND, ENDPOINTS, Some(help));
    }
    if let (Some([]), Some([])) = (bind.as_deref(), connect.as_deref())
        && let Some(value) = table.get(BIND).or_else(|| table.get(CONNECT))
    {
        value.wrong_but(ENDPOINTS, Some("without an endpoint nobody is reached".to_owned()));
    }
    let routing_id = table.get("routing-id").and_then(|value| routing_id(&value));
    let probe = table.boolean("probe", default.probe);
    let weight = table.number("weight", 0..=i64::from(Weight::MOST.get()));
    let weight = weight.and_then(|weight| Weight::new(u32::try_from(weight).ok()?));
    let request_timeout = millis(table, "request-timeout-ms", default.request_timeout, 0);
    let send_hwm = bytes(table, "send-hwm-bytes", default.send_hwm);
    let receive_hwm = bytes(table, "receive-hwm-bytes", default.receive_hwm);
    let max_message_size = max_message_size(table).unwrap_or(default.max_message_size);
    let handshake_interval = millis(table, "handshake-interval-ms", default.handshake_interval, 1);
    let reconnect_interval = millis(table, RECONNECT, default.reconnect_interval, 1);
    let reconnect_interval_max = reconnect_max(table, reconnect_interval);
    let linger = millis(table, "linger-ms", default.linger, 0);
    let send_timeout = table.get("send-timeout-ms");
    let send_timeout = send_timeout.map_or(default.send_timeout, |value| {
        if value.as_integer() == Some(-1) { None } else { value.millis_or("-1 = for ever") }
    });
    let peers = |table: &mut Table<'_>, name, default| {
        count(table, name, MessageSettings::MOST_PEERS).unwrap_or(default)
    };
    let max_peers = peers(table, "max-peers", default.max_peers);
    let max_handshakes = peers(table, "max-handshakes", default.max_handshakes);
    let outstanding = count(table, "max-outstanding", MessageSettings::MOST_OUTSTANDING);
    let tcp_keepalive = millis(table, "tcp-keepalive-ms", default.tcp_keepalive, 0);
    let tcp_user_timeout = millis(table, "tcp-user-timeout-ms", default.tcp_user_timeout, 0);
    Some(MessageSettings {
        bind: bind?,
        connect: connect?,
        routing_id,
        probe,
        weight: weight.unwrap_or(default.weight),
        request_timeout,
        send_hwm,
        receive_hwm,
        max_message_size,
        handshake_interval,
        reconnect_interval,
        reconnect_interval_max,
        linger,
        send_timeout,
        max_peers,
        max_handshakes,
        max_outstanding: outstanding.unwrap_or(default.max_outstanding),
        tcp_keepalive,
        tcp_user_timeout,
    })
}

/// An array of endpoints, none of them twice; empty where it is left out. `None` when a problem was
/// noted.
fn endpoints(
    table: &mut Table<'_>,
    name: &'static str,
    right: fn(&Value<'_>, Endpoint) -> Option<Endpoint>,
) -> Option<Vec<Endpoint>> {
    let Some(value) = table.get(name) else {
        return Some(Vec::new());
    };
    if let Some(text) = value.text() {
        let help = text.parse::<Endpoint>().is_ok().then(|| format!("write {name} = [{text:?}]"));
        value.wrong_but(ENDPOINTS, help);
        return None;
    }
    let mut endpoints: Vec<Endpoint> = Vec::new();
    let mut seen = HashSet::new();
    let mut all_right = true;
    for element in value.elements(ENDPOINTS)? {
        let Some(endpoint) = endpoint(&element).and_then(|endpoint| right(&element, endpoint))
        else {
            all_right = false;
            continue;
        };
        // Two that the system chooses are two.
        if seen.insert(endpoint.to_string()) || is_chosen(&endpoint) {
            endpoints.push(endpoint);
        } else {
            element.clash(format!("found {}, which is written twice", element.found()));
            all_right = false;
        }
    }
    all_right.then_some(endpoints)
}

fn endpoint(value: &Value<'_>) -> Option<Endpoint> {
    let Some(text) = value.text() else {
        value.wrong(ENDPOINT);
        return None;
    };
    let help = match text.parse::<Endpoint>() {
        Ok(Endpoint::Tcp { ref host, .. }) if &**host != "*" && host_of(host).is_none() => {
            "the host is neither a name nor an address".to_owned()
        }
        Ok(endpoint) => return Some(endpoint),
        Err(EndpointError::Invalid { why, .. }) => why.to_owned(),
        Err(error) => error.to_string(),
    };
    value.wrong_but(ENDPOINT, Some(help));
    None
}

/// The system chooses its port or path.
pub(crate) const fn is_chosen(endpoint: &Endpoint) -> bool {
    matches!(endpoint, Endpoint::Tcp { port: None, .. } | Endpoint::Ipc(None))
}

/// An endpoint that can be bound.
fn bound(value: &Value<'_>, endpoint: Endpoint) -> Option<Endpoint> {
    if matches!(endpoint, Endpoint::Tcp { port: None, .. }) && !value.options().allow_port_zero {
        let help = "for a port that the system chooses, --allow-port-zero".to_owned();
        value.wrong_but("endpoint with a port (1 to 65535)", Some(help));
        return None;
    }
    Some(endpoint)
}

/// An endpoint that can be connected to.
fn connected(value: &Value<'_>, endpoint: Endpoint) -> Option<Endpoint> {
    if !endpoint.is_complete() {
        value.wrong("endpoint of one peer, such as \"tcp://127.0.0.1:5555\"");
        return None;
    }
    Some(endpoint)
}

fn routing_id(value: &Value<'_>) -> Option<RoutingId> {
    value.parsed(ROUTING_ID, |text| text.parse().ok())
}

fn millis(table: &mut Table<'_>, name: &'static str, default: Millis, least: i64) -> Millis {
    table.get(name).and_then(|value| value.millis(least)).unwrap_or(default)
}

fn bytes(table: &mut Table<'_>, name: &'static str, default: ByteCount) -> ByteCount {
    table.get(name).and_then(|value| value.bytes_of(0..=MOST_QUEUE)).unwrap_or(default)
}

fn max_message_size(table: &mut Table<'_>) -> Option<ByteCount> {
    let value = table.get("max-message-size")?;
    let size = value.bytes_of(0..=i64::from(MessageSettings::MOST_MESSAGE_SIZE))?;
    if size == ByteCount::new(0) {
        value.warn("records of any size are taken, and one peer may fill the memory with one");
    }
    Some(size)
}

/// `reconnect-interval-max-ms`: 0, or not below the interval.
fn reconnect_max(table: &mut Table<'_>, interval: Millis) -> Millis {
    const OFF: Millis = Millis::new(0);
    let Some(value) = table.get("reconnect-interval-max-ms") else {
        return OFF;
    };
    let most = value.millis(0).unwrap_or(OFF);
    if most != OFF && most < interval {
        let default = if table.has(RECONNECT) { "" } else { ", its default" };
        value.wrong(&format!(
            "milliseconds, not below {RECONNECT} ({}{default}); or 0 = it does not grow",
            interval.get()
        ));
    }
    most
}

fn count(table: &mut Table<'_>, name: &'static str, most: u32) -> Option<usize> {
    table.number(name, 1..=i64::from(most)).and_then(|count| usize::try_from(count).ok())
}

#[cfg(test)]
mod tests;
