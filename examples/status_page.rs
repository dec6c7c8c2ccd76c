//! The admin interface with made-up lines, to look at the status page without any traffic:
//! `cargo run --example status_page [ADDRESS [LINES]]`. With `unready` as third argument the
//! service is not ready; with `empty` it has no lines.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::FutureExt;
use futures_util::future::ready;
use lineway::admin::{CloseOutcome, Context, NotReady, Server};
use lineway_actors::metrics::{
    Metrics, SipAgain, SipDrop, SipRegistration, SipTargetState, SipTimeout,
};
use lineway_actors::registry::{
    AskTransactions, BranchView, LineId, LineState, LineView, Registry, SipView, TransactionView,
};
use lineway_actors::settings::{
    FisherClientSettings, Host, NodeSettings, Plan, SipAddress, SipListenerSettings, Target,
    TesterSettings,
};
use lineway_actors::sip::back::SendError;
use lineway_actors::sip::script::ScriptFault;
use lineway_actors::testkit::settings::{self, node};
use lineway_actors::wire::line::{Direction, LineKind, PauseReason, PauseReasons};
use lineway_actors::wire::sip::message::Method;
use lineway_actors::wire::sip::own::Transport;
use lineway_actors::wire::sip::transaction::Kind;
use lineway_actors::wire::units::Port;

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let address: SocketAddr =
        args.next().unwrap_or_else(|| "127.0.0.1:9600".into()).parse().expect("an address");
    let lines = args.next().map_or(12, |n| n.parse().expect("a number of lines"));
    let unready = args.next().is_some_and(|word| word == "unready");
    let server = Server::bind(address)?;
    println!("http://{}/", server.local_addr());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new()
        .block_on(&runtime, server.serve(context(lines, unready), std::future::pending()))
}

fn context(lines: u64, unready: bool) -> Context {
    let registry = Registry::new();
    let plan = Arc::new(plan());
    registry.sip().insert(sip_chain());
    for number in 1..=lines {
        let line = line(number, &plan);
        let candidates = match &*line.node {
            "entry" => candidates(number, line.id),
            _ => Vec::new(),
        };
        registry.insert(Arc::new(line));
        for candidate in candidates {
            registry.insert(Arc::new(candidate));
        }
    }
    let closing = registry.clone();
    Context {
        version: env!("CARGO_PKG_VERSION"),
        started: Instant::now().checked_sub(Duration::from_secs(93_784)).expect("an older clock"),
        registry,
        plan: Arc::new(move || Arc::clone(&plan)),
        metrics: Arc::new(|_| "# EOF\n".to_owned()),
        live: Arc::new(|| Ok(())),
        ready: Arc::new(move || {
            let not_ready = |node: Option<&str>, reason: &str| NotReady {
                node: node.map(Into::into),
                reason: reason.to_owned(),
            };
            if unready {
                Err(vec![
                    not_ready(None, "draining"),
                    not_ready(Some("backend"), "none of its 3 addresses takes connections"),
                ])
            } else {
                Ok(())
            }
        }),
        close: Arc::new(move |id| {
            let found = closing.remove(id);
            async move { if found { CloseOutcome::Accepted } else { CloseOutcome::Unknown } }
                .boxed()
        }),
        accept_error: Arc::new(|_| {}),
    }
}

fn line(number: u64, plan: &Plan) -> LineView {
    let entries: Vec<_> =
        plan.nodes.iter().filter(|n| matches!(n.settings, NodeSettings::TcpListener(_))).collect();
    let node = Arc::clone(&entries[number as usize % entries.len()].name);
    let id = LineId { worker: (number % 2) as u16, number };
    let peer: SocketAddr = match number % 4 {
        3 => format!(
            "[2001:db8:85a3:8d3:1319:8a2e:370:{:x}]:{}",
            number % 0xffff,
            40_000 + number % 20_000
        ),
        _ => format!("192.0.2.{}:{}", number % 254 + 1, 40_000 + number % 20_000),
    }
    .parse()
    .expect("an address");
    let mut line = LineView::new(id, LineKind::Main, node, None, Some(peer));
    let age = Duration::from_secs(number * number * 37 % 200_000);
    line.opened = line.opened.checked_sub(age).unwrap_or(line.opened);
    line.opened_at = SystemTime::now() - age;
    let states = [
        LineState::Open,
        LineState::Open,
        LineState::HalfClosed,
        LineState::Opening,
        LineState::Closing,
    ];
    line.set_state(states[number as usize % states.len()]);
    line.set_bytes(Direction::Upstream, (number % 500).pow(3) * 997);
    line.set_bytes(Direction::Downstream, (number % 500).pow(5) * 1_013);
    if number % 5 == 1 {
        line.set_queued(Direction::Downstream, 524_288);
        let mut reasons = PauseReasons::NONE;
        reasons.pause(PauseReason::Queue);
        if number % 10 == 1 {
            reasons.pause(PauseReason::Transport);
        }
        line.set_paused(Direction::Downstream, reasons);
    }
    line
}

/// What a fisher made for a line: two that race, or the one that was chosen.
fn candidates(number: u64, maker: LineId) -> Vec<LineView> {
    let racing = number.is_multiple_of(2);
    let candidate = |nth: u64| {
        // They are made later than lines that came at the same time.
        let id = LineId { number: 1_000_000 + number * 2 + nth, ..maker };
        let line = LineView::new(id, LineKind::Child, "fisher".into(), Some(maker), None);
        line.set_state(if racing { LineState::Opening } else { LineState::Open });
        line.set_bytes(Direction::Upstream, 5);
        line
    };
    (0..if racing { 2 } else { 1 }).map(candidate).collect()
}

fn sip_addresses() -> Vec<SipAddress> {
    let address = ([127, 0, 0, 1], 5060).into();
    [Transport::Udp, Transport::Tcp].map(|transport| SipAddress { transport, address }).into()
}

/// A SIP chain that has carried calls, and is hit by a few mistakes.
fn sip_chain() -> SipView {
    let metrics = Metrics::new("example");
    let (listener, router) = (
        metrics.node(&"sip".into(), "SipListener"),
        metrics.node(&"sip-routes".into(), "SipRouter"),
    );
    let carried = Arc::clone(listener.sip_listener().expect("it is a listener"));
    let routed = Arc::clone(router.sip_router().expect("it is a router"));
    carried.received(Transport::Udp, 48_211);
    carried.received(Transport::Tcp, 1_309);
    carried.sent(Transport::Udp, 47_020);
    carried.sent(Transport::Tcp, 1_250);
    carried.open.set(17);
    carried.keepalives.inc_by(420);
    carried.overload.inc_by(3);
    for (method, count) in [(Method::Invite, 8_120), (Method::Ack, 8_051), (Method::Bye, 7_990)] {
        for _ in 0..count {
            routed.request(method);
            routed.forwarded(method);
        }
    }
    for _ in 0..812 {
        routed.request(Method::Options);
        routed.reply_sent(200);
    }
    for (code, count) in [(180, 8_001), (200, 15_770), (486, 133), (503, 9)] {
        for _ in 0..count {
            routed.reply(code);
            routed.reply_forwarded(code);
        }
    }
    (0..21).for_each(|_| routed.reply_sent(404));
    (0..12).for_each(|_| routed.dropped(SipDrop::Via));
    (0..40).for_each(|_| routed.dropped(SipDrop::NotSip));
    (0..4).for_each(|_| routed.send_error(SendError::Refused));
    (0..2).for_each(|_| routed.script_error(ScriptFault::Runtime));
    let kinds = [Kind::Invite, Kind::Invite, Kind::Invite, Kind::Invite, Kind::Other, Kind::Other];
    for kind in kinds {
        routed.transactions.opened(Method::Invite, kind);
    }
    (0..4).for_each(|_| routed.transactions.branch_opened());
    (0..31).for_each(|_| routed.transactions.sent_again(SipAgain::Request));
    (0..2).for_each(|_| routed.transactions.timeout(SipTimeout::Fr));
    routed.registrar.bindings(1_204);
    routed.registrar.registered(SipRegistration::Refreshed, 80_012);
    routed.dispatcher.targets(SipTargetState::Active, 3);
    routed.dispatcher.targets(SipTargetState::Inactive, 1);
    // The next answer has more, so that rates are shown.
    let later = Arc::clone(&routed);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(100));
            later.request(Method::Invite);
            later.forwarded(Method::Invite);
            later.reply(200);
            later.reply_forwarded(200);
        }
    });
    SipView {
        listener: "sip".into(),
        router: "sip-routes".into(),
        listen: sip_addresses(),
        carried,
        routed,
        transactions: AskTransactions::new(|most| ready(calls().take(most).collect()).boxed()),
    }
}

/// Transactions in every state.
fn calls() -> impl Iterator<Item = TransactionView> {
    let branch = |(uri, status): &(&str, u16)| BranchView { uri: (*uri).into(), status: *status };
    let call = move |number: u64, method: &str, status, branches: &[(&str, u16)]| TransactionView {
        id: (number as u16 % 2, number),
        method: method.into(),
        uri: "sip:bob@example.com".into(),
        call_id: format!("{number}-8f2b6c1e@192.0.2.77").into(),
        caller: ([192, 0, 2, 77], 5060).into(),
        age: Duration::from_millis(number * 1_700),
        open: status < 200,
        cancelled: number == 3,
        status,
        branches: branches.iter().map(branch).collect(),
    };
    let (desk, mobile, soft) =
        ("sip:bob@192.0.2.10:5060", "sip:bob@192.0.2.11:5060", "sip:bob@198.51.100.7:61002;ob");
    [
        call(1, "INVITE", 180, &[(desk, 180), (mobile, 183), (soft, 0)]),
        call(2, "INVITE", 200, &[(desk, 200), (mobile, 487)]),
        call(3, "INVITE", 180, &[(desk, 180)]),
        call(4, "INVITE", 486, &[(desk, 486), (mobile, 408), (soft, 503)]),
        call(5, "BYE", 200, &[(desk, 200)]),
        call(6, "REGISTER", 200, &[]),
    ]
    .into_iter()
}

fn plan() -> Plan {
    let listener = |ports: std::ops::RangeInclusive<i64>| {
        let mut node = settings::listener(([127, 0, 0, 1], 0).into());
        if let NodeSettings::TcpListener(listener) = &mut node {
            listener.ports = ports.map(|port| Port::new(port).expect("a port")).collect();
        }
        node
    };
    let host = |name: &str| Host::Name(name.into());
    let mut connector = settings::connector_to(host("db-1.internal.example"), 5432);
    if let NodeSettings::TcpConnector(connector) = &mut connector {
        let second = Target { host: host("db-2.internal.example"), ..connector.targets[0].clone() };
        connector.targets.push(second);
    }
    let tester = TesterSettings { lines: 4, ..settings::tester() };
    let fisher =
        NodeSettings::ConnectionFisherClient(FisherClientSettings { simultaneous_tries: 2 });
    let hostile = "in\"<script>alert('x')</script>\nof a rather long name";
    let mut plan = settings::plan(vec![
        node("entry", listener(7000..=7000), Some("fisher")),
        node("fisher", fisher, Some("backend")),
        node("backend", connector, None),
        node(hostile, listener(7100..=7199), Some("echo")),
        node("\u{648}\u{631}\u{648}\u{62f}\u{6cc}", listener(7001..=7001), Some("echo")),
        node("echo", NodeSettings::EchoServer, None),
        node("tester", NodeSettings::TesterClient(tester.clone()), Some("checked")),
        node("checked", NodeSettings::TesterServer(tester), None),
        node(
            "sip",
            NodeSettings::SipListener(SipListenerSettings::new(sip_addresses())),
            Some("sip-routes"),
        ),
        node("sip-routes", NodeSettings::SipRouter(Arc::default()), None),
    ]);
    plan.service.workers = 2;
    plan
}
