use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use actix::prelude::*;
use rustix::io::Errno;

use super::{LineLimit, Listener, Sources};
use crate::line::Chain;
use crate::messages::Retire;
use crate::metrics::Refused;
use crate::settings::{NodeSettings, TcpListenerSettings};
use crate::testkit::{Journal, Kit, run, settings};

const SECOND: Duration = Duration::from_secs(1);

fn sources(white: &[&str], black: &[&str]) -> Sources {
    let nets = |list: &[&str]| list.iter().map(|net| net.parse().unwrap()).collect();
    Sources { white: nets(white), black: nets(black) }
}

#[test]
fn tcp_lists_know_networks_and_v4_mapped_sources() {
    let lists = sources(&["10.0.0.0/8", "2001:db8::/32"], &["10.9.0.0/16"]);
    let refuse = |ip: &str| lists.refuse(ip.parse().unwrap());
    assert_eq!(refuse("10.1.2.3"), None);
    assert_eq!(refuse("::ffff:10.1.2.3"), None);
    assert_eq!(refuse("10.9.0.1"), Some(Refused::Blacklist));
    assert_eq!(refuse("::ffff:10.9.0.1"), Some(Refused::Blacklist));
    assert_eq!(refuse("192.0.2.1"), Some(Refused::NotWhitelisted));
    assert_eq!(refuse("2001:db8::1"), None);
    assert_eq!(sources(&[], &[]).refuse("192.0.2.1".parse().unwrap()), None);
}

#[test]
fn tcp_max_lines_counts_live_lines_alone() {
    let limit = LineLimit::default();
    let first = limit.take(Some(1));
    assert!(first.is_some() && limit.take(Some(1)).is_none());
    drop(first);
    assert!(limit.take(Some(1)).is_some());
}

/// A chain to an `EchoServer` behind a listener with these settings.
fn chain(kit: &Kit, change: impl FnOnce(&mut TcpListenerSettings)) -> Rc<Chain> {
    let entry = settings::listener(([192, 0, 2, 9], 7000).into());
    let NodeSettings::TcpListener(mut entry) = entry else { unreachable!("it is a listener") };
    change(&mut entry);
    kit.chain(vec![
        settings::node("in", NodeSettings::TcpListener(entry), Some("out")),
        settings::node("out", NodeSettings::EchoServer, None),
    ])
}

fn from(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

fn errors(kit: &Kit, reason: &str) -> f64 {
    kit.metric(&format!(r#"lineway_accept_errors_total{{node="in",reason="{reason}"}}"#))
}

/// Whether the node `in` is ready.
fn ready(kit: &Kit) -> bool {
    let now = crate::worker::timers::now();
    let not_ready = kit.board.health.ready(now).err().unwrap_or_default();
    !not_ready.iter().any(|n| n.node.as_deref() == Some("in"))
}

#[test]
fn tcp_t02_out_of_descriptors_accepting_rests_and_comes_back_by_itself() {
    run(async |kit| {
        let journal = Journal::new();
        let _guard = journal.install();
        let (_listener, arrivals) = kit.listen(&chain(&kit, |_| ()), LineLimit::default());
        kit.quiet().await;
        assert!(ready(&kit));
        arrivals.fail(Errno::MFILE);
        let client = arrivals.connect();
        kit.pass(SECOND * 10).await;
        let asked = arrivals.asked();
        assert!((50..=90).contains(&asked), "it spins or sleeps: {asked}");
        assert!(errors(&kit, "emfile") >= 10.0);
        assert_eq!(journal.count("accepting rests"), 1, "one line for an outage");
        assert!(!ready(&kit));
        arrivals.recover();
        kit.pass(SECOND).await;
        client.offer(b"hello");
        kit.quiet().await;
        assert_eq!(client.take(), b"hello");
        assert!(ready(&kit));
        assert_eq!(journal.count("accepting again"), 1);
        // An outage soon after is the same one for whoever reads the log.
        arrivals.fail(Errno::NFILE);
        arrivals.connect();
        kit.pass(SECOND).await;
        assert_eq!(journal.count("accepting rests"), 1);
        arrivals.recover();
        kit.pass(SECOND * 30).await;
        arrivals.fail(Errno::NFILE);
        arrivals.connect();
        kit.pass(SECOND).await;
        assert_eq!(journal.count("accepting rests"), 2);
        assert!(errors(&kit, "enfile") >= 2.0);
    });
}

#[test]
fn tcp_t02_a_listener_that_can_accept_again_is_ready_though_no_client_comes() {
    run(async |kit| {
        let (_listener, arrivals) = kit.listen(&chain(&kit, |_| ()), LineLimit::default());
        kit.quiet().await;
        arrivals.fail(Errno::MFILE);
        kit.pass(SECOND).await;
        arrivals.fail_once(Errno::CONNABORTED);
        kit.pass(SECOND).await;
        assert!(!ready(&kit));
        arrivals.recover();
        kit.pass(SECOND).await;
        assert!(ready(&kit), "traffic is sent away for ever");
    });
}

#[test]
fn tcp_t02_lines_that_end_give_their_descriptors_to_those_who_wait() {
    run(async |kit| {
        let all = kit.board.descriptors.free();
        let taken = kit.board.descriptors.take(u16::try_from(all - 3).unwrap());
        let (_listener, arrivals) = kit.listen(&chain(&kit, |_| ()), LineLimit::default());
        let (first, second) = (arrivals.connect(), arrivals.connect());
        kit.pass(SECOND).await;
        assert_eq!(kit.worker.line_count(), 1);
        assert_eq!(arrivals.waiting(), 1, "the second one waits in the queue");
        first.end();
        kit.pass(SECOND).await;
        second.offer(b"hello");
        kit.quiet().await;
        assert_eq!(second.take(), b"hello");
        second.end();
        kit.quiet().await;
        drop(taken);
        kit.assert_empty().await;
    });
}

#[test]
fn tcp_t02_a_client_that_is_gone_before_it_was_accepted_is_no_outage() {
    run(async |kit| {
        let (_listener, arrivals) = kit.listen(&chain(&kit, |_| ()), LineLimit::default());
        arrivals.fail_once(Errno::CONNABORTED);
        arrivals.fail_once(Errno::PROTO);
        let client = arrivals.connect();
        client.offer(b"hello");
        kit.pass(SECOND).await;
        assert_eq!(client.take(), b"hello");
        assert!((errors(&kit, "aborted") - 1.0).abs() < 0.5);
        assert!((errors(&kit, "other") - 1.0).abs() < 0.5);
        assert!(ready(&kit));
    });
}

#[test]
fn tcp_t02_an_error_that_does_not_go_away_does_not_spin() {
    run(async |kit| {
        let (_listener, arrivals) = kit.listen(&chain(&kit, |_| ()), LineLimit::default());
        kit.quiet().await;
        arrivals.fail(Errno::INVAL);
        // A paused clock stands still for as long as somebody spins.
        kit.pass(SECOND * 10).await;
        assert!(arrivals.asked() < 300, "{} tries", arrivals.asked());
        arrivals.recover();
        let client = arrivals.connect();
        client.offer(b"hello");
        kit.pass(SECOND).await;
        assert_eq!(client.take(), b"hello");
    });
}

#[test]
fn tcp_sources_that_are_not_welcome_are_closed_and_counted() {
    run(async |kit| {
        let chain = chain(&kit, |entry| {
            entry.whitelist = vec!["10.0.0.0/8".parse().unwrap()];
            entry.blacklist = vec!["10.9.0.0/16".parse().unwrap()];
        });
        let (_listener, arrivals) = kit.listen(&chain, LineLimit::default());
        let black = arrivals.connect_from(from("[::ffff:10.9.1.1]:1"));
        let stranger = arrivals.connect_from(from("192.0.2.7:1"));
        let friend = arrivals.connect_from(from("10.1.1.1:1"));
        friend.offer(b"hello");
        kit.reported().await;
        assert!(black.is_dropped() && stranger.is_dropped());
        assert_eq!((black.written(), stranger.written()), (0, 0));
        assert_eq!(friend.take(), b"hello");
        let line = kit.board.registry.snapshot().remove(0);
        assert_eq!(line.peer, Some(from("10.1.1.1:1")));
        for reason in ["blacklist", "not-whitelisted"] {
            let series = format!(r#"lineway_accept_refused_total{{node="in",reason="{reason}"}}"#);
            assert!((kit.metric(&series) - 1.0).abs() < 0.5, "{reason}");
        }
        friend.end();
        kit.assert_empty().await;
    });
}

#[test]
fn tcp_max_lines_leaves_more_in_the_queue_until_one_ends() {
    run(async |kit| {
        let chain = chain(&kit, |entry| {
            entry.max_lines = Some(2);
            entry.initial_idle_timeout = lineway_wire::units::Millis::new(0);
        });
        let limit = LineLimit::default();
        let (_one, arrivals) = kit.listen(&chain, limit.clone());
        // The limit holds over every socket of the node.
        let (_two, others) = kit.listen(&chain, limit);
        let first = arrivals.connect();
        kit.quiet().await;
        let second = others.connect();
        kit.quiet().await;
        let (third, fourth) = (arrivals.connect(), others.connect());
        kit.pass(SECOND * 30).await;
        assert_eq!(kit.worker.line_count(), 2);
        assert_eq!((arrivals.waiting(), others.waiting()), (1, 1));
        first.end();
        second.end();
        kit.pass(SECOND).await;
        for client in [&third, &fourth] {
            client.offer(b"hello");
            client.end();
        }
        kit.assert_empty().await;
        assert_eq!((third.take(), fourth.take()), (b"hello".into(), b"hello".into()));
    });
}

#[test]
fn tcp_a_flood_of_connections_lets_lines_run_and_every_one_is_accepted() {
    run(async |kit| {
        let (_listener, arrivals) = kit.listen(&chain(&kit, |_| ()), LineLimit::default());
        let early = arrivals.connect();
        kit.quiet().await;
        let clients: Vec<_> = (0..300).map(|_| arrivals.connect()).collect();
        early.offer(b"me too");
        let mut turns = 0;
        while early.held() == 0 {
            tokio::task::yield_now().await;
            turns += 1;
            assert!(turns < 20, "the line starves");
        }
        kit.quiet().await;
        assert_eq!(kit.worker.line_count(), 301);
        assert!(kit.metric(r#"lineway_budget_exhausted_total{worker="0"}"#) >= 1.0);
        early.end();
        clients.iter().for_each(crate::testkit::Peer::end);
        kit.assert_empty().await;
    });
}

#[test]
fn tcp_t01_a_retired_listener_accepts_what_waits_before_it_closes() {
    run(async |kit| {
        for accept_waiting in [true, false] {
            let (listener, arrivals) = kit.listen(&chain(&kit, |_| ()), LineLimit::default());
            kit.quiet().await;
            let client = arrivals.connect();
            client.offer(b"hello");
            listener.do_send(Retire { accept_waiting });
            drop(listener);
            kit.quiet().await;
            assert!(arrivals.is_dropped(), "the socket is closed");
            assert_eq!(client.take() == b"hello", accept_waiting);
            client.end();
            kit.assert_empty().await;
        }
    });
}

/// Counts.
#[derive(Message)]
#[rtype(result = "u32")]
struct Probe(Arc<AtomicU32>);

impl Handler<Probe> for Listener {
    type Result = u32;

    fn handle(&mut self, probe: Probe, _: &mut Self::Context) -> u32 {
        probe.0.fetch_add(1, Relaxed) + 1
    }
}

#[test]
fn case_m12_a_listener_whose_mailbox_was_full_hears_again() {
    run(async |kit| {
        let (listener, _arrivals) = kit.listen(&chain(&kit, |_| ()), LineLimit::default());
        kit.quiet().await;
        let heard: Arc<AtomicU32> = Arc::default();
        // Nobody runs while this runs: the handler is blocked.
        let burst = (0..160).map(|_| listener.try_send(Probe(Arc::clone(&heard))));
        let taken = burst.flatten().count();
        assert!(taken < 160, "it was never full");
        kit.pass(SECOND).await;
        assert_eq!(heard.load(Relaxed) as usize, taken, "what was taken was handled");
        for more in 1..=50 {
            let answer = listener.send(Probe(Arc::clone(&heard))).await;
            assert_eq!(answer, Ok(u32::try_from(taken + more).unwrap()));
        }
    });
}
