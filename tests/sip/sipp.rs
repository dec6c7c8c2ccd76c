//! Whole calls that `SIPp` plays through the built-in script. None may fail.

use crate::common::until;
use crate::kit::{Proxy, Setup};
use crate::player::{Player, free_port, has_sipp, is_taken};

/// One side speaks UDP or TCP.
#[derive(Clone, Copy)]
struct Side {
    scenario: &'static str,
    tcp: bool,
}

const fn udp(scenario: &'static str) -> Side {
    Side { scenario, tcp: false }
}

const fn tcp(scenario: &'static str) -> Side {
    Side { scenario, tcp: true }
}

fn mode(tcp: bool) -> &'static str {
    if tcp { "t1" } else { "u1" }
}

/// So many calls from one to the other, all of which succeed; `lost` is what each side loses, in
/// percent. Without that, and without transactions, nobody sends anything again, so nothing may be
/// lost in between.
#[track_caller]
fn calls(caller: Side, callee: Side, count: u32, lost: Option<u32>) -> Proxy {
    let router = ", retr-timer1-ms = 500".to_owned();
    let proxy = Setup { router, ..Setup::default() }.built_in();
    let (from, to) = (free_port(), free_port());
    let again: &[&str] = if lost.is_some() || crate::STATEFUL { &[] } else { &["-nr"] };
    let answering = [&["-t", mode(callee.tcp)], again].concat();
    let answering = Player::losing(lost, callee.scenario, to, count, &answering);
    until("the callee listens", || is_taken(callee.tcp, to));
    let by = if caller.tcp { proxy.tcp() } else { proxy.udp() }.to_string();
    let far = format!("127.0.0.1:{to};transport={}", if callee.tcp { "tcp" } else { "udp" });
    let mut calling = vec!["-t", mode(caller.tcp), "-r", "100", "-key", "far", &far];
    calling.extend(again);
    calling.push(&by);
    Player::losing(lost, caller.scenario, from, count, &calling).succeeds();
    if lost.is_none() {
        answering.succeeds();
    }
    proxy
}

/// What both sides sent passed.
#[track_caller]
fn assert_counted(proxy: &Proxy, count: u32) {
    for method in ["INVITE", "ACK", "BYE"] {
        let of = [("node", "routes"), ("method", method)];
        let forwarded = proxy.service.metric("lineway_sip_requests_forwarded_total", &of);
        assert!(forwarded >= f64::from(count), "{method}: {forwarded}");
    }
    assert!(!proxy.service.log.whole().contains("\"ERROR\""), "{}", proxy.service.log.whole());
}

#[test]
fn sip_sipp_calls_that_the_caller_ends() {
    if has_sipp() {
        assert_counted(&calls(udp("sip/caller"), udp("sip/callee"), 300, None), 300);
    }
}

#[test]
fn sip_sipp_calls_that_the_callee_ends_by_the_recorded_route() {
    if has_sipp() {
        assert_counted(
            &calls(udp("sip/caller_hung_up_on"), udp("sip/callee_hangs_up"), 300, None),
            300,
        );
    }
}

#[test]
fn sip_sipp_calls_from_tcp_to_udp() {
    if has_sipp() {
        assert_counted(&calls(tcp("sip/caller"), udp("sip/callee"), 300, None), 300);
    }
}

#[test]
fn sip_sipp_calls_from_udp_to_tcp() {
    if has_sipp() {
        assert_counted(&calls(udp("sip/caller"), tcp("sip/callee"), 300, None), 300);
    }
}

#[test]
fn sip_sipp_calls_over_tcp_that_the_callee_ends_by_the_caller_s_connection() {
    if has_sipp() {
        assert_counted(
            &calls(tcp("sip/caller_hung_up_on"), udp("sip/callee_hangs_up"), 200, None),
            200,
        );
    }
}

#[test]
fn sip_sipp_calls_with_lost_datagrams() {
    if has_sipp() {
        assert_counted(&calls(udp("sip/caller"), udp("sip/callee"), 200, Some(15)), 190);
    }
}

#[test]
fn sip_sipp_options() {
    if !has_sipp() {
        return;
    }
    let proxy = Setup::default().built_in();
    for (tcp, at) in [(false, proxy.udp()), (true, proxy.tcp())] {
        let at = at.to_string();
        let asking = ["-t", mode(tcp), "-r", "200", at.as_str()];
        Player::start("sip/options", free_port(), 400, &asking).succeeds();
    }
}
