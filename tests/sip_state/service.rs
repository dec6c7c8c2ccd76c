//! Transactions and the service around them: reload, restart, drain, memory.

use std::fs;
use std::path::Path;

use crate::common::{Signal, text, until};
use crate::kit::{Setup, fresh};
use crate::raw::{Sip, Udp, request};
use crate::stage::{CALM, Stage, Timers, ack, script};

/// A stage whose script is in a file that can be written again.
fn on_disk(path: &Path, phones: usize, lua: &str) -> Stage {
    let phones: Vec<_> = (0..phones).map(|_| Udp::new()).collect();
    let at: Vec<_> = phones.iter().map(Udp::at).collect();
    fs::write(path, script(&at, lua)).expect("it is written");
    let setup = Setup { router: CALM.to_owned(), ..Setup::one_worker() };
    Stage { proxy: setup.script_at(path), alice: Udp::new(), phones }
}

impl Stage {
    /// Another script in the same file, taken over.
    #[track_caller]
    fn rewrites(&self, path: &Path, lua: &str) {
        let at: Vec<_> = self.phones.iter().map(Udp::at).collect();
        fs::write(path, script(&at, lua)).expect("it is written");
        let before = self.proxy.service.log.len();
        self.proxy.service.signal(Signal::HUP);
        self.proxy.service.log.wait_after(before, "the reload", |event| {
            text(event, "message") == "the configuration was taken over"
        });
    }
}

/// A failure goes to this one.
fn failing_over(to: &str) -> String {
    format!(
        "function call()
            KSR.tm.t_on_failure(\"failed\")
            KSR.tm.t_on_reply(\"replied\")
            fork(A)
        end
        function failed() KSR.seturi({to}) KSR.tm.t_relay() end
        function replied() KSR.hdr.append(\"X-Generation: {to}\\r\\n\") end"
    )
}

#[test]
fn sip_s9_a_running_call_keeps_its_routes_across_a_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("routes.lua");
    let stage = on_disk(&path, 3, &failing_over("B"));
    stage.call("old");
    let old = stage.gets(0, "INVITE");
    stage.rewrites(&path, &failing_over("C"));
    stage.call("new");
    let new = stage.gets(0, "INVITE");
    for (came, to, generation) in [(&old, 1, "B"), (&new, 2, "C")] {
        assert_eq!(stage.passes(0, came, "180 Ringing").one("X-Generation"), generation);
        stage.refuses(0, came, "486 Busy Here");
        let next = stage.gets(to, "INVITE");
        // What is armed stays armed for it.
        let ok = stage.passes(to, &next, "200 OK");
        assert_eq!(ok.one("X-Generation"), generation);
    }
    // And one whose new script has no such function at all.
    stage.call("third");
    let third = stage.gets(0, "INVITE");
    stage.rewrites(&path, "function call() KSR.tm.t_reply(480, \"Closed\") end");
    stage.refuses(0, &third, "486 Busy Here");
    let next = stage.gets(2, "INVITE");
    stage.passes(2, &next, "200 OK");
    stage.send(stage.request("INVITE", "fourth"));
    stage.hears("480 Closed");
    assert_eq!(stage.script_errors().to_bits(), 0.0_f64.to_bits());
}

#[test]
fn sip_s9_at_most_four_scripts_wait_for_their_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("routes.lua");
    let stage = on_disk(&path, 2, &failing_over("B"));
    let mut calls = vec![];
    for n in 0..3 {
        stage.call(&format!("c{n}"));
        calls.push(stage.gets(0, "INVITE"));
        stage.rewrites(&path, &(failing_over("B") + &format!("\nN = {n}")));
    }
    // With the one of now there are four; one more has to wait for a call to end.
    stage.call("c3");
    calls.push(stage.gets(0, "INVITE"));
    let at: Vec<_> = stage.phones.iter().map(Udp::at).collect();
    fs::write(&path, script(&at, "function call() KSR.tm.t_reply(480, \"Last\") end"))
        .expect("written");
    stage.proxy.service.signal(Signal::HUP);
    stage.proxy.service.until_metric("lineway_reloads_total", &[("result", "rejected")], 1.0);
    // All of them go on.
    for came in &calls {
        stage.refuses(0, came, "486 Busy Here");
        stage.gets(1, "INVITE");
    }
}

const REGISTRAR: &str = "function call()
    if KSR.is_REGISTER() then
        KSR.registrar.save(\"location\", 0)
    elseif KSR.registrar.lookup(\"location\") < 0 then
        KSR.sl.send_reply(404, \"Not Found\")
    else
        KSR.tm.t_relay()
    end
end";

fn stored(file: &Path) -> String {
    format!("{CALM}, location = \"redb:{}\"", file.display())
}

fn registers(stage: &Stage, user: &str, lines: &str) -> Sip {
    let uri = format!("sip:{}", stage.proxy.udp());
    let text = request("REGISTER", &uri, &stage.alice.via(&fresh("reg")), &fresh("r"))
        .replace("<sip:bob@", &format!("<sip:{user}@"))
        .replace("Contact: <sip:alice@127.0.0.1:15060>\r\n", lines);
    stage.send(text);
    let ok = stage.alice.receive();
    assert_eq!(ok.status(), 200, "{ok:?}");
    ok
}

#[test]
fn sip_s5_bindings_in_redb_survive_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("location.redb");
    let phone = Udp::new();
    let contact = format!("Contact: <sip:p@{}>;q=0.5;expires=600\r\n", phone.at());
    let mut stage = Stage::with(0, &stored(&file), REGISTRAR);
    registers(&stage, "bob", &contact);
    registers(&stage, "carol", "Contact: <sip:c@192.0.2.1>\r\n");
    registers(&stage, "carol", "Contact: *\r\nExpires: 0\r\n");
    stage.proxy.service.signal(Signal::TERM);
    let status = stage.proxy.service.wait(crate::common::PATIENCE);
    assert!(status.success(), "{status}");
    let stage = Stage::with(0, &stored(&file), REGISTRAR);
    let bound = registers(&stage, "bob", "").one("Contact");
    assert!(bound.starts_with(&format!("<sip:p@{}>;q=0.5", phone.at())), "{bound}");
    assert!(registers(&stage, "carol", "").all("Contact").is_empty());
    stage.call("c1");
    assert_eq!(phone.hear().first(), format!("INVITE sip:p@{} SIP/2.0", phone.at()));
}

#[test]
fn sip_s5_a_crash_loses_at_most_the_last_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("location.redb");
    let mut stage = Stage::with(0, &stored(&file), REGISTRAR);
    for n in 0..50 {
        registers(&stage, &format!("user{n}"), &format!("Contact: <sip:p{n}@192.0.2.1>\r\n"));
    }
    // What it promises: no event tells when it was written.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    stage.proxy.service.signal(Signal::KILL);
    stage.proxy.service.wait(crate::common::PATIENCE);
    let stage = Stage::with(0, &stored(&file), REGISTRAR);
    for n in 0..50 {
        let bound = registers(&stage, &format!("user{n}"), "").one("Contact");
        assert!(bound.starts_with(&format!("<sip:p{n}@192.0.2.1>")), "{bound}");
    }
}

#[test]
fn sip_s9_a_drain_refuses_new_calls_and_lets_the_running_ones_end() {
    let setup = Setup {
        router: CALM.to_owned(),
        tables: "drain-timeout-ms = 20000\n".to_owned(),
        ..Setup::one_worker()
    };
    let lua = "function call() KSR.rr.record_route() fork(A) end";
    let mut stage = Stage::setup(setup, 1, lua);
    stage.call("c1");
    let came = stage.gets(0, "INVITE");
    stage.passes(0, &came, "180 Ringing");
    let before = stage.proxy.service.log.len();
    stage.proxy.service.signal(Signal::TERM);
    stage.proxy.service.log.wait_after(before, "the drain", |event| {
        event.to_string().contains("drain") || text(event, "message").contains("SIGTERM")
    });
    // A new one is refused, when the drain has come to the router.
    let mut refused = None;
    until("new calls are refused", || {
        let call = fresh("new");
        let invite = stage.request("INVITE", &call);
        stage.send(&invite);
        let answer = stage.alice.receive_any_status(&[100, 503]);
        if answer.status() == 503 {
            stage.send(ack(&invite, &answer));
            refused = Some(answer);
        } else {
            stage.gets(0, "INVITE");
        }
        refused.is_some()
    });
    let refused = refused.expect("it came");
    assert!(refused.one("Retry-After").parse::<u32>().is_ok_and(|after| after > 0), "{refused:?}");
    // The one that rings is answered, talks and ends.
    let ok = stage.passes(0, &came, "200 OK");
    let uri = format!("sip:a@{}", stage.phones[0].at());
    for method in ["ACK", "INVITE", "BYE"] {
        let route = format!("Route: {}\r\nMax-Forwards", ok.one("Record-Route"));
        let sent = request(method, &uri, &stage.alice.via(method), "c1")
            .replace("To: <sip:bob@127.0.0.1>", &format!("To: {}", ok.one("To")))
            .replace("CSeq: 1 BYE", "CSeq: 3 BYE")
            .replace("CSeq: 1 INVITE", "CSeq: 2 INVITE")
            .replace("Max-Forwards", &route);
        stage.send(&sent);
        let came = stage.gets(0, method);
        if method != "ACK" {
            stage.says(0, &came, "200 OK");
            assert_eq!(stage.alice.receive().status(), 200);
        }
    }
    let status = stage.proxy.service.wait(std::time::Duration::from_secs(30));
    assert!(status.success(), "{status}");
}

impl Udp {
    /// The next message, a reply of one of these.
    #[track_caller]
    fn receive_any_status(&self, wanted: &[u16]) -> Sip {
        let came = self.hear();
        assert!(wanted.contains(&came.status()), "{came:?}");
        came
    }
}

const CALLS: usize = 2000;

/// So many calls that ring at three phones.
fn ring(stage: &Stage, round: usize) -> Vec<(String, Vec<Sip>)> {
    let one = |n: usize| {
        let invite = stage.call(&format!("r{round}c{n}"));
        let came = stage.all_get("INVITE");
        for (phone, sip) in came.iter().enumerate() {
            stage.passes(phone, sip, "180 Ringing");
        }
        (invite, came)
    };
    (0..CALLS).map(one).collect()
}

/// All of them are refused everywhere.
fn refuse(stage: &Stage, calls: &[(String, Vec<Sip>)]) {
    for (invite, came) in calls {
        for (phone, sip) in came.iter().enumerate() {
            stage.refuses(phone, sip, "486 Busy Here");
        }
        let busy = stage.hears("486");
        stage.acks(invite, &busy);
    }
}

#[test]
fn sip_s2_15_an_invite_in_flight_with_three_branches_holds_less_than_8_kib() {
    let timers = Timers { wt: 500, ..Timers::FAR };
    let stage = Stage::timed(3, timers, crate::stage::TO_ABC);
    // What is made once.
    stage.call("warm");
    let came = stage.all_get("INVITE");
    refuse(&stage, &[(stage.request("INVITE", "warm"), came)]);
    stage.until_gone();
    let before = stage.proxy.service.rss();
    let calls = ring(&stage, 0);
    let branches = stage.proxy.service.metric("lineway_sip_branches_open", &[]);
    assert_eq!(branches as usize, 3 * CALLS);
    let first = stage.proxy.service.rss().saturating_sub(before);
    assert!(first < (CALLS << 13) as u64, "{} bytes for each", first / CALLS as u64);
    eprintln!("{} bytes for each", first / CALLS as u64);
    refuse(&stage, &calls);
    stage.until_gone();
    // It was given back: as many again need nothing more.
    let calls = ring(&stage, 1);
    let second = stage.proxy.service.rss().saturating_sub(before);
    assert!(second < first + first / 10, "{first} bytes, then {second}");
    refuse(&stage, &calls);
    stage.until_gone();
}
