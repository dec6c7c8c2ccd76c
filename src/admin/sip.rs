//! What `/api/nodes` shows of SIP nodes, and `/api/sip` of the transactions that live.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use lineway_actors::metrics::{SipRoute, SipRouterMetrics};
use lineway_actors::registry::{BranchView, Registry, SipView, TransactionView};
use lineway_actors::settings::{SipRouterSettings, built_in_script};
use lineway_actors::wire::sip::own::Transport;
use serde::Serialize;
use tokio::time::timeout;

use super::json::document;

/// Transactions of each chain in an answer unless the query says otherwise.
const DEFAULT_LIMIT: usize = 100;
/// The most transactions of each chain that an answer can have.
const MAX_LIMIT: usize = 10_000;
/// How long the workers may take to say what lives.
const LIST_TIME: Duration = Duration::from_secs(2);

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
    transactions: Transactions,
    /// Registrations that live.
    bindings: u64,
    registrations: BTreeMap<&'static str, u64>,
    /// Targets of the dispatcher by their state.
    targets: BTreeMap<&'static str, u64>,
    authentications: BTreeMap<&'static str, u64>,
    script: BTreeMap<&'static str, Runs>,
}

/// The transactions of a `SipRouter`.
#[derive(Serialize)]
struct Transactions {
    invite: u64,
    non_invite: u64,
    branches: u64,
    /// How those came out that are over.
    closed: BTreeMap<&'static str, u64>,
    /// Messages that were sent again by the clock.
    retransmitted: BTreeMap<&'static str, u64>,
    timeouts: BTreeMap<&'static str, u64>,
    /// Requests that got a 503 in place of one.
    refused: BTreeMap<&'static str, u64>,
}

impl Transactions {
    fn of(routed: &SipRouterMetrics) -> Self {
        let tm = &routed.transactions;
        let [invite, non_invite] = tm.live();
        Self {
            invite,
            non_invite,
            branches: tm.live_branches(),
            closed: counted(tm.by_outcome().map(|(how, count)| (how.as_str(), count))),
            retransmitted: counted(tm.resent().map(|(what, count)| (what.as_str(), count))),
            timeouts: counted(tm.timeouts().map(|(kind, count)| (kind.as_str(), count))),
            refused: counted(tm.refusals().map(|(why, count)| (why.as_str(), count))),
        }
    }
}

/// Invocations of one route.
#[derive(Serialize)]
struct Runs {
    runs: u64,
    seconds: f64,
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
            transactions: Transactions::of(routed),
            bindings: routed.registrar.live(),
            registrations: counted(
                routed.registrar.registrations().map(|(what, count)| (what.as_str(), count)),
            ),
            targets: counted(
                routed.dispatcher.by_state().map(|(state, count)| (state.as_str(), count)),
            ),
            authentications: counted(
                routed.auth.results().map(|(result, count)| (result.as_str(), count)),
            ),
            script: runs(routed),
        }))
    }
}

fn counted(all: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<&'static str, u64> {
    all.filter(|(_, count)| *count > 0).collect()
}

fn runs(routed: &SipRouterMetrics) -> BTreeMap<&'static str, Runs> {
    let routes = SipRoute::ALL.map(|route| (route, routed.script.of(route)));
    let ran = routes.into_iter().filter(|(_, (runs, _))| *runs > 0);
    ran.map(|(route, (runs, seconds))| (route.as_str(), Runs { runs, seconds })).collect()
}

/// Which transactions are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SipQuery {
    /// At most so many of each chain.
    limit: usize,
}

impl SipQuery {
    /// Reads the part of a URI after `?`.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(super) fn parse(query: &str) -> Result<Self, String> {
        let mut this = Self { limit: DEFAULT_LIMIT };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if name != "limit" {
                return Err(format!("{}: expected limit", name.escape_debug()));
            }
            let limit = value.parse().ok().filter(|limit| *limit <= MAX_LIMIT);
            let wrong = || format!("limit: expected a number from 0 to {MAX_LIMIT}");
            this.limit = limit.ok_or_else(wrong)?;
        }
        Ok(this)
    }
}

#[derive(Serialize)]
struct Chains<'a> {
    chains: Vec<Chain<'a>>,
}

#[derive(Serialize)]
struct Chain<'a> {
    listener: &'a str,
    router: &'a str,
    /// All that live.
    transactions_total: u64,
    /// `null` where a worker did not answer in time.
    transactions: Option<Vec<Transaction>>,
}

#[derive(Serialize)]
struct Transaction {
    id: String,
    method: Box<str>,
    uri: Box<str>,
    call_id: Box<str>,
    caller: SocketAddr,
    age_seconds: f64,
    state: &'static str,
    /// What went up last; 0 for nothing.
    status: u16,
    branches: Vec<Branch>,
}

#[derive(Serialize)]
struct Branch {
    uri: Box<str>,
    state: &'static str,
    /// What came back last; 0 for nothing.
    status: u16,
}

impl From<TransactionView> for Transaction {
    fn from(view: TransactionView) -> Self {
        let (worker, number) = view.id;
        let state = match (view.cancelled, view.status) {
            (true, _) => "cancelled",
            (false, status) => state(status),
        };
        let branch =
            |BranchView { uri, status }| Branch { uri, state: self::state(status), status };
        Self {
            id: format!("{worker}-{number}"),
            method: view.method,
            uri: view.uri,
            call_id: view.call_id,
            caller: view.caller,
            age_seconds: view.age.as_secs_f64(),
            state,
            status: view.status,
            branches: view.branches.into_iter().map(branch).collect(),
        }
    }
}

const fn state(status: u16) -> &'static str {
    match status {
        0 => "sent",
        1..=100 => "trying",
        101..200 => "ringing",
        200..300 => "answered",
        408 => "timeout",
        487 => "cancelled",
        _ => "failed",
    }
}

/// The document of `/api/sip`.
pub(super) async fn document_of(registry: &Registry, query: SipQuery) -> Bytes {
    let views = registry.sip().snapshot();
    let chains = views.iter().map(|view| async move {
        let asked = timeout(LIST_TIME, view.transactions.list(query.limit)).await;
        Chain {
            listener: &view.listener,
            router: &view.router,
            transactions_total: view.routed.transactions.live().iter().sum(),
            transactions: asked.ok().map(|all| all.into_iter().map(Transaction::from).collect()),
        }
    });
    document(&Chains { chains: join_all(chains).await })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_a_limit_and_nothing_else() {
        assert_eq!(SipQuery::parse("").unwrap().limit, 100);
        assert_eq!(SipQuery::parse("limit=10000").unwrap().limit, 10_000);
        for (query, name) in [("limit=10001", "limit:"), ("limit=x", "limit:"), ("node=a", "node:")]
        {
            let error = SipQuery::parse(query).unwrap_err();
            assert!(error.starts_with(name), "{query}: {error}");
        }
    }

    #[test]
    fn a_transaction_says_what_it_waits_for() {
        let view = |cancelled, status| TransactionView {
            id: (1, 7),
            method: "INVITE".into(),
            uri: "sip:bob@example.com".into(),
            call_id: "c".into(),
            caller: ([127, 0, 0, 1], 5060).into(),
            age: Duration::from_millis(1500),
            open: true,
            cancelled,
            status,
            branches: [0, 100, 183, 200, 408, 487, 503]
                .map(|status| BranchView { uri: "sip:b".into(), status })
                .into(),
        };
        let shown = Transaction::from(view(false, 180));
        assert_eq!((shown.id.as_str(), shown.state, shown.age_seconds), ("1-7", "ringing", 1.5));
        let branches: Vec<_> = shown.branches.iter().map(|branch| branch.state).collect();
        let states = ["sent", "trying", "ringing", "answered", "timeout", "cancelled", "failed"];
        assert_eq!(branches, states);
        assert_eq!(Transaction::from(view(true, 180)).state, "cancelled");
    }
}
