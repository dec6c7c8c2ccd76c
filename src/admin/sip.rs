//! What `/api/nodes` shows of SIP nodes.

use std::collections::BTreeMap;

use lineway_actors::registry::SipView;
use lineway_actors::settings::{SipRouterSettings, built_in_script};
use lineway_actors::wire::sip::own::Transport;
use serde::Serialize;

/// What tells one `SipRouter` from another.
#[derive(Serialize)]
pub(super) struct SipSummary {
    script: String,
    /// Of the built-in script.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    script_time_limit_ms: u64,
    script_memory_bytes: u64,
    resolve_timeout_ms: u64,
    max_branches: u32,
    max_htable_entries: u32,
}

impl SipSummary {
    pub(super) fn of(sip: &SipRouterSettings) -> Self {
        Self {
            script: sip.script.name.to_string(),
            mode: (sip.script == built_in_script()).then_some(sip.mode.as_str()),
            script_time_limit_ms: sip.script_time_limit.get(),
            script_memory_bytes: sip.script_memory.get(),
            resolve_timeout_ms: sip.resolve_timeout.get(),
            max_branches: sip.max_branches,
            max_htable_entries: sip.max_htable_entries,
        }
    }
}

/// What a SIP node has counted since it was first there.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Counted {
    Listener(Carried),
    Router(Box<Routed>),
}

/// What a `SipListener` carries.
#[derive(Serialize)]
pub(super) struct Carried {
    /// With the ports that the system chose.
    listen: Vec<String>,
    connections_open: i64,
    received: ByTransport,
    sent: ByTransport,
    /// Datagrams that were dropped, as too much waited.
    overload: u64,
    keepalives: u64,
}

#[derive(Serialize)]
struct ByTransport {
    udp: u64,
    tcp: u64,
}

/// What a `SipRouter` does with messages. What was never counted is not in the maps.
#[derive(Serialize)]
pub(super) struct Routed {
    requests: BTreeMap<&'static str, Requests>,
    replies: BTreeMap<&'static str, Replies>,
    dropped: BTreeMap<&'static str, u64>,
    send_errors: BTreeMap<&'static str, u64>,
    script_errors: BTreeMap<&'static str, u64>,
    /// Messages whose next hop has no address.
    unresolved: u64,
    /// Invocations of the script that wait for the network.
    suspended: i64,
    /// Messages that wait behind one of their call.
    waiting: i64,
}

/// Requests of one method.
#[derive(Serialize)]
struct Requests {
    received: u64,
    forwarded: u64,
}

/// Replies of one class.
#[derive(Serialize)]
struct Replies {
    received: u64,
    forwarded: u64,
    /// Made here.
    sent: u64,
}

impl Counted {
    pub(super) fn listener(chain: &SipView) -> Self {
        let (udp, tcp) =
            (chain.carried.messages_of(Transport::Udp), chain.carried.messages_of(Transport::Tcp));
        Self::Listener(Carried {
            listen: chain.listen.iter().map(ToString::to_string).collect(),
            connections_open: chain.carried.open.get(),
            received: ByTransport { udp: udp.0, tcp: tcp.0 },
            sent: ByTransport { udp: udp.1, tcp: tcp.1 },
            overload: chain.carried.overload.get(),
            keepalives: chain.carried.keepalives.get(),
        })
    }

    pub(super) fn router(chain: &SipView) -> Self {
        let routed = &chain.routed;
        let requests = routed.by_method().filter(|(_, received, sent)| received + sent > 0);
        let replies = routed.by_class().filter(|(_, counts)| counts.iter().any(|count| *count > 0));
        Self::Router(Box::new(Routed {
            requests: requests
                .map(|(method, received, forwarded)| {
                    (method.as_str(), Requests { received, forwarded })
                })
                .collect(),
            replies: replies
                .map(|(class, [received, forwarded, sent])| {
                    (class.as_str(), Replies { received, forwarded, sent })
                })
                .collect(),
            dropped: counted(routed.drops().map(|(why, count)| (why.as_str(), count))),
            send_errors: counted(routed.send_errors().map(|(why, count)| (why.as_str(), count))),
            script_errors: counted(
                routed.script_errors().map(|(fault, count)| (fault.as_str(), count)),
            ),
            unresolved: routed.unresolved.get(),
            suspended: routed.suspended.get(),
            waiting: routed.waiting.get(),
        }))
    }
}

fn counted(all: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<&'static str, u64> {
    all.filter(|(_, count)| *count > 0).collect()
}
