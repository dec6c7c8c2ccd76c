//! Rules 85 to 98: routes of a transaction.

use std::time::Instant;

use crate::common::text;
use crate::raw::reply_as;
use crate::stage::{CALM, Stage, Timers, at_about};

/// To A; a failure goes on with `failed`.
fn failing(failed: &str) -> String {
    format!(
        "function call() KSR.tm.t_on_failure(\"failed\") fork(A) end\nfunction failed()\n{failed}\nend"
    )
}

/// To A, then to B, then to C.
const CHAIN: &str = "function call()
    KSR.tm.t_on_failure(\"to_b\")
    fork(A)
end
function to_b()
    KSR.tm.t_on_failure(\"to_c\")
    KSR.seturi(B)
    KSR.tm.t_relay()
end
function to_c()
    KSR.seturi(C)
    KSR.tm.t_relay()
end";

#[test]
fn sip_r085_a_failure_is_hidden_and_the_second_target_tried() {
    let stage = Stage::new(2, &failing("KSR.seturi(B)\nKSR.tm.t_relay()"));
    stage.call("c1");
    let at_a = stage.gets(0, "INVITE");
    stage.refuses(0, &at_a, "503 Service Unavailable");
    let at_b = stage.gets(1, "INVITE");
    assert_eq!(at_b.first(), format!("INVITE sip:b@{} SIP/2.0", stage.phones[1].at()));
    // No second 100, and nothing of the failure.
    stage.quiet("c1");
    stage.passes(1, &at_b, "180 Ringing");
    stage.passes(1, &at_b, "200 OK");
    stage.quiet("c1");
}

#[test]
fn sip_r085_by_du_alone_and_by_append_branch() {
    for lua in ["KSR.setdsturi(B)", "KSR.corex.append_branch_uri(B)", "KSR.pv.sets(\"$ru\", B)"] {
        let stage = Stage::new(2, &failing(&format!("{lua}\nKSR.tm.t_relay()")));
        stage.call("c1");
        let at_a = stage.gets(0, "INVITE");
        stage.refuses(0, &at_a, "503 Service Unavailable");
        let at_b = stage.gets(1, "INVITE");
        if lua.contains("setdsturi") {
            assert_eq!(at_b.first(), at_a.first());
        }
        stage.quiet_at(0, "c1");
        stage.passes(1, &at_b, "200 OK");
    }
}

#[test]
fn sip_r085_of_other_requests_too() {
    let stage = Stage::new(2, &failing("KSR.seturi(B)\nKSR.tm.t_relay()"));
    stage.send(stage.request("MESSAGE", "m1"));
    let at_a = stage.gets(0, "MESSAGE");
    stage.says(0, &at_a, "503 Service Unavailable");
    let at_b = stage.gets(1, "MESSAGE");
    stage.quiet("m1");
    stage.passes(1, &at_b, "200 OK");
}

#[test]
fn sip_r086_a_further_branch_takes_the_next_index_of_the_same_transaction() {
    let stage = Stage::new(3, CHAIN);
    stage.call("c1");
    let mut branches = vec![];
    for n in 0..3 {
        let came = stage.gets(n, "INVITE");
        branches.push(came.branch());
        if n < 2 {
            stage.refuses(n, &came, "486 Busy Here");
        }
    }
    let parts: Vec<_> = branches.iter().map(|branch| branch.rsplit_once('.').unwrap()).collect();
    assert!(parts.iter().all(|part| part.0 == parts[0].0), "{branches:?}");
    let indexes: Vec<_> = parts.iter().map(|part| part.1).collect();
    assert_eq!(indexes, ["0", "1", "2"]);
    // Edits of the request route are in force; those of the failure route are for the new branch.
    let lua = "function call()
            KSR.hdr.append(\"X-First: 1\\r\\n\")
            KSR.tm.t_on_failure(\"failed\")
            fork(A)
        end
        function failed()
            KSR.hdr.append(\"X-Second: 1\\r\\n\")
            KSR.seturi(B)
            KSR.tm.t_relay()
        end";
    let stage = Stage::new(2, lua);
    stage.call("c1");
    let at_a = stage.gets(0, "INVITE");
    assert_eq!((at_a.all("X-First").len(), at_a.all("X-Second").len()), (1, 0));
    stage.refuses(0, &at_a, "486 Busy Here");
    let at_b = stage.gets(1, "INVITE");
    assert_eq!((at_b.all("X-First").len(), at_b.all("X-Second").len()), (1, 1));
}

#[test]
fn sip_r087_a_timeout_runs_the_failure_route_too() {
    let lua = failing(
        "if KSR.tm.t_branch_timeout() > 0 and KSR.tm.t_branch_replied() < 0
            and KSR.tm.t_any_timeout() > 0 and KSR.tm.t_check_status(\"408\") > 0 then
            KSR.seturi(B)
            KSR.tm.t_relay()
        end",
    );
    let timers = Timers { fr: 600, ..Timers::FAR };
    let stage = Stage::timed(2, timers, &lua);
    let begun = Instant::now();
    stage.call("c1");
    let at_a = stage.gets(0, "INVITE");
    let at_b = stage.gets(1, "INVITE");
    at_about(begun, 600);
    stage.quiet("c1");
    stage.passes(1, &at_b, "200 OK");
    // Late, from the one that was given up: whoever has taken the call.
    stage.passes(0, &at_a, "200 OK");
    // And of one that rings.
    let lua = failing(
        "if KSR.tm.t_branch_timeout() > 0 and KSR.tm.t_branch_replied() > 0 then
            KSR.seturi(B)
            KSR.tm.t_relay()
        end",
    );
    let stage = Stage::timed(2, Timers { fr_inv: 600, ..Timers::FAR }, &lua);
    stage.call("c1");
    let at_a = stage.gets(0, "INVITE");
    stage.passes(0, &at_a, "180 Ringing");
    stage.gets(0, "CANCEL");
    let at_b = stage.gets(1, "INVITE");
    stage.refuses(0, &at_a, "487 Request Terminated");
    stage.passes(1, &at_b, "200 OK");
    stage.quiet("c1");
}

#[test]
fn sip_r088_what_is_not_handled_goes_up() {
    let lua = failing(
        "if KSR.tm.t_check_status(\"50[0-9]\") > 0 then KSR.seturi(B) KSR.tm.t_relay() end",
    );
    let stage = Stage::new(2, &lua);
    stage.call("c1");
    let at_a = stage.gets(0, "INVITE");
    stage.refuses(0, &at_a, "486 Busy Here");
    assert_eq!(stage.hears("486").to_tag().as_deref(), Some("t0"));
    stage.quiet_at(1, "c1");
    // Nor does an error of the script hold it up.
    let stage = Stage::new(1, &failing("error(\"no\")"));
    stage.call("c1");
    let at_a = stage.gets(0, "INVITE");
    stage.refuses(0, &at_a, "486 Busy Here");
    stage.hears("486");
    assert_eq!(stage.script_errors().to_bits(), 1.0_f64.to_bits());
}

#[test]
fn sip_r089_it_runs_once_unless_it_is_armed_again() {
    let count = "KSR.info(\"failure route\")";
    let again = "KSR.tm.t_on_failure(\"failed\")";
    for (arms, targets) in [("", 2), (again, 3)] {
        let lua = failing(&format!(
            "{count}
            local n = KSR.pv.get(\"$avp(n)\") or 0
            KSR.pv.seti(\"$avp(n)\", n + 1)
            if n < 2 then
                KSR.seturi(n == 0 and B or C)
                {arms}
                KSR.tm.t_relay()
            end"
        ));
        let stage = Stage::new(3, &lua);
        stage.call("c1");
        for n in 0..targets {
            let came = stage.gets(n, "INVITE");
            stage.refuses(n, &came, "486 Busy Here");
        }
        assert_eq!(stage.hears("486").to_tag(), Some(format!("t{}", targets - 1)));
        for n in targets..3 {
            stage.quiet_at(n, "c1");
        }
        let runs = || {
            let events = stage.proxy.service.log.events().into_iter();
            events.filter(|event| text(event, "message").contains("failure route")).count()
        };
        let expected = if arms.is_empty() { 1 } else { 3 };
        crate::common::until("its runs are logged", || runs() >= expected);
        assert_eq!(runs(), expected);
    }
}

#[test]
fn sip_r090_t_reply_there_replaces_the_failure() {
    let stage = Stage::new(1, &failing("KSR.tm.t_reply(404, \"Instead\")"));
    let invite = stage.call("c1");
    let at_a = stage.gets(0, "INVITE");
    stage.refuses(0, &at_a, "486 Busy Here");
    let up = stage.hears("404 Instead");
    assert!(up.to_tag().is_some_and(|tag| tag.len() == 41), "{up:?}");
    stage.acks(&invite, &up);
    stage.quiet("c1");
    // With header lines, and by send_reply.
    let lua =
        failing("KSR.hdr.append_to_reply(\"X-Why: 1\\r\\n\")\nKSR.sl.send_reply(480, \"Later\")");
    let stage = Stage::new(1, &lua);
    stage.call("c1");
    let at_a = stage.gets(0, "INVITE");
    stage.refuses(0, &at_a, "486 Busy Here");
    assert_eq!(stage.hears("480 Later").one("X-Why"), "1");
}

#[test]
fn sip_r091_doing_nothing_is_the_best_reply() {
    let lua = "function call() KSR.tm.t_on_failure(\"failed\") fork(A, B, C) end
        function failed()
            local seen = ((KSR.tm.t_grep_status(480) > 0) and \"480\" or \"\")
                .. ((KSR.tm.t_grep_status(404) > 0) and \"404\" or \"\")
            KSR.info(\"seen \" .. seen .. \" of \" .. KSR.pv.gete(\"$T_reply_code\"))
        end";
    let stage = Stage::new(3, lua);
    stage.call("c1");
    let came = stage.all_get("INVITE");
    for (n, status) in [(2, "486 Busy"), (0, "500 Error"), (1, "480 Away")] {
        stage.refuses(n, &came[n], status);
    }
    assert_eq!(stage.hears("480").to_tag().as_deref(), Some("t1"));
    stage
        .proxy
        .service
        .log
        .wait("what it saw", |event| text(event, "message").contains("seen 480 of 480"));
}

#[test]
fn sip_r092_it_does_not_run_on_a_2xx() {
    let lua = "function call() KSR.tm.t_on_failure(\"failed\") fork(A, B) end
        function failed() KSR.info(\"failure route\") end";
    let stage = Stage::new(2, lua);
    stage.call("c1");
    let came = stage.all_get("INVITE");
    stage.refuses(0, &came[0], "486 Busy Here");
    stage.passes(1, &came[1], "200 OK");
    stage.quiet("c1");
    assert!(!stage.proxy.service.log.whole().contains("failure route"));
}

#[test]
fn sip_r093_a_chain_of_three_targets() {
    let stage = Stage::new(3, CHAIN);
    let invite = stage.call("c1");
    for n in 0..2 {
        let came = stage.gets(n, "INVITE");
        stage.refuses(n, &came, "480 Away");
        stage.quiet("c1");
    }
    let came = stage.gets(2, "INVITE");
    stage.passes(2, &came, "180 Ringing");
    stage.passes(2, &came, "200 OK");
    // A copy of the INVITE knows how it ended.
    stage.send(&invite);
    stage.hears("200");
}

#[test]
fn sip_r094_only_the_last_leg_s_reply_counts() {
    let stage = Stage::new(3, CHAIN);
    stage.call("c1");
    for (n, status) in [(0, "401 Unauthorized"), (1, "404 Not Found"), (2, "488 Not Acceptable")] {
        let came = stage.gets(n, "INVITE");
        stage.refuses(n, &came, status);
    }
    assert_eq!(stage.hears("488").to_tag().as_deref(), Some("t2"));
    // Unless the script keeps them.
    let keeps = CHAIN.replace("KSR.seturi", "KSR.tm.t_drop_replies(\"n\") KSR.seturi");
    let stage = Stage::new(3, &keeps);
    stage.call("c1");
    for (n, status) in [(0, "404 Not Found"), (1, "403 Forbidden"), (2, "488 Not Acceptable")] {
        let came = stage.gets(n, "INVITE");
        stage.refuses(n, &came, status);
    }
    assert_eq!(stage.hears("403").to_tag().as_deref(), Some("t1"));
}

#[test]
fn sip_r095_no_fork_again_after_cancel() {
    let lua = failing(
        "KSR.info(\"cancelled \" .. KSR.tm.t_is_canceled())
        KSR.seturi(B)
        KSR.info(\"relay \" .. KSR.tm.t_relay())",
    );
    let stage = Stage::new(2, &lua);
    let invite = stage.call("c1");
    let at_a = stage.gets(0, "INVITE");
    stage.passes(0, &at_a, "180 Ringing");
    stage.cancels(&invite);
    let cancel = stage.gets(0, "CANCEL");
    stage.says(0, &cancel, "200 OK");
    stage.refuses(0, &at_a, "487 Request Terminated");
    let ended = stage.hears("487");
    stage.acks(&invite, &ended);
    stage.quiet("c1");
    stage.quiet_at(1, "c1");
    let log = stage.proxy.service.log.whole();
    assert!(log.contains("cancelled 1") && log.contains("relay -"), "{log}");
}

#[test]
fn sip_r096_edits_of_a_branch_route_stay_in_the_branch() {
    let lua = "function call()
            KSR.hdr.append(\"X-All: 1\\r\\n\")
            KSR.tm.t_on_branch(\"branch\")
            fork(A, B, C)
        end
        function branch()
            local user = KSR.pv.get(\"$rU\")
            KSR.hdr.append(\"X-Of: \" .. user .. KSR.pv.gete(\"$T_branch_idx\") .. \"\\r\\n\")
            if user == \"b\" then
                KSR.hdr.remove(\"Contact\")
                KSR.pv.sets(\"$rU\", \"edited\")
            end
            if user == \"c\" then KSR.textops.set_body(\"only here\", \"text/plain\") end
        end";
    let stage = Stage::new(3, lua);
    stage.call("c1");
    let came = stage.all_get("INVITE");
    for (sip, of) in came.iter().zip(["a0", "b1", "c2"]) {
        assert_eq!((sip.one("X-Of").as_str(), sip.one("X-All").as_str()), (of, "1"));
    }
    assert!(came[1].first().starts_with("INVITE sip:edited@"), "{:?}", came[1]);
    assert!(came[2].first().starts_with("INVITE sip:c@"), "{:?}", came[2]);
    let contacts: Vec<_> = came.iter().map(|sip| sip.all("Contact").len()).collect();
    assert_eq!(contacts, [1, 0, 1]);
    let bodies: Vec<_> = came.iter().map(|sip| sip.body().len()).collect();
    assert_eq!(bodies, [0, 0, 9]);
}

#[test]
fn sip_r097_drop_in_a_branch_route_skips_one_branch_and_its_index_is_used_again() {
    let lua = "function call() KSR.tm.t_on_branch(\"branch\") fork(A, B, C) end
        function branch()
            if KSR.pv.get(\"$rU\") == \"b\" then KSR.x.drop() end
        end";
    let stage = Stage::new(3, lua);
    let invite = stage.call("c1");
    let (at_a, at_c) = (stage.gets(0, "INVITE"), stage.gets(2, "INVITE"));
    stage.quiet_at(1, "c1");
    assert!(at_a.branch().ends_with(".0") && at_c.branch().ends_with(".1"), "{at_c:?}");
    stage.refuses(0, &at_a, "486 Busy Here");
    stage.refuses(2, &at_c, "480 Away");
    let up = stage.hears("480");
    stage.acks(&invite, &up);
    // An error of the script skips the branch too.
    let stage = Stage::new(3, &lua.replace("KSR.x.drop()", "error(\"no\")"));
    stage.call("c2");
    let (_, at_c) = (stage.gets(0, "INVITE"), stage.gets(2, "INVITE"));
    stage.quiet_at(1, "c2");
    assert!(at_c.branch().ends_with(".1"), "{at_c:?}");
    assert_eq!(stage.script_errors().to_bits(), 1.0_f64.to_bits());
}

#[test]
fn sip_r097_where_all_are_dropped_t_relay_fails() {
    let lua = "function call()
            KSR.tm.t_on_branch(\"branch\")
            if fork(A, B) < 0 then KSR.tm.t_reply(480, \"Nobody\") end
        end
        function branch() KSR.x.drop() end";
    let stage = Stage::new(2, lua);
    stage.send(stage.request("INVITE", "c1"));
    assert_eq!(stage.alice.receive().first(), "SIP/2.0 480 Nobody");
    stage.quiet("c1");
    stage.quiet_at(0, "c1");
}

#[test]
fn sip_r098_a_reply_route_edits_replies_and_drops_provisionals() {
    let lua = "function call() KSR.tm.t_on_reply(\"replied\") fork(A) end
        function replied()
            local status = KSR.kx.get_status()
            KSR.hdr.append(\"X-Saw: \" .. status .. \"\\r\\n\")
            KSR.hdr.remove(\"Server\")
            if status == 183 then KSR.x.drop() end
            if status == 182 then error(\"no\") end
            if status >= 200 then KSR.x.drop() end
        end";
    let stage = Stage::new(1, lua);
    for (call, last) in [("c1", "200 OK"), ("c2", "486 Busy Here")] {
        stage.call(call);
        let came = stage.gets(0, "INVITE");
        stage.says(0, &came, "183 Session Progress");
        stage.quiet(call);
        let text = reply_as("t0", &came, "180 Ringing", "Server: phone\r\n");
        stage.phones[0].send(stage.proxy.udp(), text);
        let ringing = stage.hears("180");
        assert_eq!((ringing.one("X-Saw").as_str(), ringing.all("Server").len()), ("180", 0));
        // After an error it passes unedited.
        assert!(stage.passes(0, &came, "182 Queued").all("X-Saw").is_empty());
        // A final can not be dropped.
        stage.says(0, &came, last);
        let up = stage.hears(&last[..3]);
        assert_eq!(up.one("X-Saw"), last[..3]);
    }
    assert_eq!(stage.script_errors().to_bits(), 2.0_f64.to_bits());
}

#[test]
fn sip_r098_the_global_reply_route_runs_first_and_can_drop() {
    let lua = "function call() KSR.tm.t_on_reply(\"replied\") fork(A) end
        function ksr_reply_route()
            KSR.hdr.append(\"X-Global: 1\\r\\n\")
            if KSR.kx.get_status() == 181 then KSR.x.drop() end
        end
        function replied() KSR.hdr.append(\"X-Own: 1\\r\\n\") end";
    let stage = Stage::new(1, lua);
    stage.call("c1");
    let came = stage.gets(0, "INVITE");
    stage.says(0, &came, "181 Forwarded");
    let ringing = stage.passes(0, &came, "180 Ringing");
    let lines = ringing.lines();
    assert!(lines.contains(&"X-Global: 1".to_owned()) && lines.contains(&"X-Own: 1".to_owned()));
}

#[test]
fn sip_s2_12_a_branch_failure_route_runs_for_each_before_the_choice() {
    let lua = "function call()
            KSR.tm.t_on_branch_failure(\"failed\")
            KSR.tm.t_on_failure(\"all_failed\")
            fork(A, B)
        end
        function failed() KSR.info(\"one failed \" .. KSR.pv.gete(\"$T_reply_code\")) end
        function all_failed() KSR.info(\"all failed \" .. KSR.pv.gete(\"$T_reply_code\")) end";
    let stage = Stage::new(2, lua);
    stage.call("c1");
    let came = stage.all_get("INVITE");
    stage.refuses(1, &came[1], "486 Busy Here");
    stage.refuses(0, &came[0], "500 Error");
    stage.hears("486");
    let log = &stage.proxy.service.log;
    log.wait("the last", |event| text(event, "message").contains("all failed"));
    let told: Vec<_> = log
        .events()
        .iter()
        .map(|event| text(event, "message").to_owned())
        .filter(|message| message.contains("failed "))
        .map(|message| message[message.find("failed ").unwrap() - 4..].to_owned())
        .collect();
    assert_eq!(told, ["one failed 486", "one failed 500", "all failed 486"]);
}

#[test]
fn sip_s2_12_t_reply_in_a_reply_route_ends_the_call_for_the_caller() {
    let lua = "function call() KSR.tm.t_on_reply(\"replied\") fork(A, B) end
        function replied()
            if KSR.kx.get_status() == 183 then KSR.tm.t_reply(488, \"Enough\") end
        end";
    let stage = Stage::new(2, lua);
    let invite = stage.call("c1");
    let came = stage.all_get("INVITE");
    stage.passes(1, &came[1], "180 Ringing");
    stage.says(0, &came[0], "183 Session Progress");
    let up = stage.hears("488 Enough");
    stage.acks(&invite, &up);
    for (n, invite) in came.iter().enumerate() {
        stage.gets(n, "CANCEL");
        stage.refuses(n, invite, "487 Request Terminated");
    }
    stage.quiet("c1");
}

#[test]
fn sip_s2_13_serial_forking_by_q() {
    let lua = "function call()
            KSR.seturi(A)
            KSR.corex.append_branch_uri_q(B, \"0.5\")
            KSR.corex.append_branch_uri_q(C, \"0.9\")
            KSR.corex.append_branch_uri_q(D, \"0.5\")
            KSR.tm.t_load_contacts()
            KSR.tm.t_on_failure(\"next\")
            KSR.tm.t_next_contacts()
            KSR.tm.t_relay()
        end
        function next()
            if KSR.tm.t_next_contacts() > 0 then
                KSR.tm.t_on_failure(\"next\")
                KSR.tm.t_relay()
            end
        end";
    let stage = Stage::with(4, CALM, lua);
    stage.call("c1");
    let at_c = stage.gets(2, "INVITE");
    stage.refuses(2, &at_c, "480 Away");
    let (at_b, at_d) = (stage.gets(1, "INVITE"), stage.gets(3, "INVITE"));
    stage.quiet_at(0, "c1");
    stage.refuses(1, &at_b, "480 Away");
    stage.refuses(3, &at_d, "480 Away");
    // Unspecified is the lowest.
    let at_a = stage.gets(0, "INVITE");
    stage.refuses(0, &at_a, "486 Busy Here");
    assert_eq!(stage.hears("486").to_tag().as_deref(), Some("t0"));
}

#[test]
fn sip_s2_14_new_branches_that_can_not_be_sent_are_told_upstream_unless_replies_are_kept() {
    for (drops, goes_up) in [("", "477"), ("KSR.tm.t_drop_replies(\"n\")", "486")] {
        let refused = crate::raw::TcpPhone::new().at();
        let to = format!("KSR.seturi(\"sip:x@{refused};transport=tcp\")");
        let lua = failing(&format!("{drops}\n{to}\nKSR.tm.t_relay()"));
        let stage = Stage::new(1, &lua);
        let invite = stage.call("c1");
        let at_a = stage.gets(0, "INVITE");
        stage.refuses(0, &at_a, "486 Busy Here");
        let up = stage.hears(goes_up);
        stage.acks(&invite, &up);
        stage.quiet("c1");
    }
}
