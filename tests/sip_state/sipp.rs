//! Whole calls that `SIPp` plays through scripts with transactions. None may fail. Those through the
//! built-in script are in `tests/sip/sipp.rs`, which runs here too.

use std::net::{Ipv4Addr, SocketAddr};

use crate::common::until;
use crate::kit::{Proxy, Setup};
use crate::player::{Player, free_port, has_sipp, is_taken};
use crate::stage::script;

const CANCELLED: &str = "sip_state/callee_cancelled";

/// One call after the other.
struct Play {
    caller: &'static str,
    callees: &'static [&'static str],
    /// How many a second.
    rate: u32,
    count: u32,
    /// How many of the callees have every call.
    called: usize,
    router: &'static str,
    lua: &'static str,
}

impl Default for Play {
    fn default() -> Self {
        let lua = "function call() KSR.rr.record_route() fork(A) end";
        Self { caller: "", callees: &[], rate: 100, count: 300, called: 3, router: "", lua }
    }
}

/// Nobody's: the script says where to.
const FAR: &str = "far.example";

impl Play {
    /// All calls succeed.
    #[track_caller]
    fn runs(self) -> Option<Proxy> {
        if !has_sipp() {
            return None;
        }
        let Self { caller, callees, rate, count, called, router, lua } = self;
        let ports: Vec<_> = callees.iter().map(|_| free_port()).collect();
        let at: Vec<_> =
            ports.iter().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, *port))).collect();
        let router = format!(", retr-timer1-ms = 3000{router}");
        let setup = Setup { router, ..Setup::default() };
        let proxy = setup.script(&script(&at, lua));
        let mut answering = vec![];
        for (scenario, port) in callees.iter().zip(&ports) {
            answering.push(Player::start(scenario, *port, count, &[]));
            until("a callee listens", || is_taken(false, *port));
        }
        let (rate, to) = (rate.to_string(), proxy.udp().to_string());
        let calling = ["-r", &rate, "-l", "3000", "-key", "far", FAR, &to];
        Player::start(caller, free_port(), count, &calling).succeeds();
        for player in answering.into_iter().take(called) {
            player.succeeds();
        }
        let log = proxy.service.log.whole();
        assert!(!log.contains("\"ERROR\"") && !log.contains("\"WARN\""), "{log}");
        Some(proxy)
    }
}

/// The final of all INVITEs, seen from the caller, by the class of its code.
#[track_caller]
fn assert_forks(proxy: &Proxy, outcome: &str, count: u32) {
    let forks = [("node", "routes"), ("reason", outcome)];
    proxy.service.until_metric("lineway_sip_forks_total", &forks, f64::from(count));
}

#[test]
fn sip_sipp_200_calls_a_second() {
    let seconds = if std::env::var_os("LINEWAY_TEST_BIG").is_some() { 60 } else { 10 };
    let play = Play {
        caller: "sip/caller",
        callees: &["sip/callee"],
        rate: 200,
        count: 200 * seconds,
        ..Play::default()
    };
    play.runs();
}

#[test]
fn sip_sipp_a_three_way_fork() {
    let play = Play {
        caller: "sip/caller",
        callees: &["sip/callee", CANCELLED, CANCELLED],
        router: ", wt-timer-ms = 500",
        lua: "function call() KSR.rr.record_route() fork(A, B, C) end",
        ..Play::default()
    };
    if let Some(proxy) = play.runs() {
        assert_forks(&proxy, "answered", 300);
    }
}

#[test]
fn sip_sipp_all_fail() {
    let play = Play {
        caller: "sip_state/caller_refused:480",
        callees: &[
            "sip_state/callee_refuses:486",
            "sip_state/callee_refuses:503",
            "sip_state/callee_refuses:480",
        ],
        router: ", wt-timer-ms = 500",
        lua: "function call() fork(A, B, C) end",
        ..Play::default()
    };
    if let Some(proxy) = play.runs() {
        assert_forks(&proxy, "failed", 300);
    }
}

#[test]
fn sip_sipp_failover() {
    let play = Play {
        caller: "sip/caller",
        callees: &["sip_state/callee_refuses:503", "sip/callee"],
        lua: "function call()
                KSR.rr.record_route()
                KSR.tm.t_on_failure(\"failed\")
                fork(A)
            end
            function failed()
                if KSR.tm.t_check_status(\"503\") > 0 then KSR.seturi(B) KSR.tm.t_relay() end
            end",
        ..Play::default()
    };
    play.runs();
}

#[test]
fn sip_sipp_no_answer() {
    let play = Play {
        caller: "sip_state/caller_refused:408",
        callees: &[CANCELLED],
        router: ", fr-inv-timer-ms = 600",
        ..Play::default()
    };
    if let Some(proxy) = play.runs() {
        let timeouts = [("node", "routes"), ("kind", "fr-inv")];
        let timeouts = proxy.service.metric("lineway_sip_timeouts_total", &timeouts);
        assert_eq!(timeouts as u32, 300);
    }
}

#[test]
fn sip_sipp_cancel_while_it_rings() {
    let play =
        Play { caller: "sip_state/caller_cancels", callees: &[CANCELLED], ..Play::default() };
    play.runs();
}

#[test]
fn sip_sipp_cancel_before_it_rings() {
    let play = Play {
        caller: "sip_state/caller_cancels_early",
        callees: &["sip_state/callee_cancelled_early"],
        ..Play::default()
    };
    play.runs();
}

#[test]
fn sip_sipp_a_late_200() {
    let play = Play {
        caller: "sip_state/caller_of_two",
        callees: &["sip_state/callee_answers_first", "sip_state/callee_answers_late"],
        lua: "function call() fork(A, B) end",
        ..Play::default()
    };
    play.runs();
}

#[test]
fn sip_sipp_invited_again_and_hung_up_on_both_ways() {
    let play = Play {
        caller: "sip_state/caller_invited_again",
        callees: &["sip_state/callee_invites_again"],
        ..Play::default()
    };
    play.runs();
}

#[test]
fn sip_sipp_register_and_call() {
    if !has_sipp() {
        return;
    }
    let lua = "function call()
        if KSR.is_REGISTER() then
            KSR.registrar.save(\"location\", 0)
        elseif KSR.registrar.lookup(\"location\") < 0 then
            KSR.sl.send_reply(404, \"Not Found\")
        else
            KSR.rr.record_route()
            KSR.tm.t_relay()
        end
    end";
    let router = ", retr-timer1-ms = 3000".to_owned();
    let proxy = Setup { router, ..Setup::default() }.script(&script(&[], lua));
    let (port, to, count) = (free_port(), proxy.udp().to_string(), 300);
    let answering = Player::start("sip/callee", port, count, &[]);
    until("the callee listens", || is_taken(false, port));
    let registering = ["-r", "200", "-key", "port", &port.to_string(), &to];
    Player::start("sip_state/registers", free_port(), count, &registering).succeeds();
    let node = [("node", "routes")];
    proxy.service.until_metric("lineway_sip_bindings", &node, f64::from(count));
    let calling = ["-r", "100", "-key", "far", FAR, &to];
    Player::start("sip_state/caller_by_name", free_port(), count, &calling).succeeds();
    answering.succeeds();
}
