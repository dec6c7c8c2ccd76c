//! Scripts seen from outside (section 9): errors, limits, waiting, state that workers share.

use std::fs;
use std::net::Ipv4Addr;

use crate::common::dns::{NameServer, Says};
use crate::common::text;
use crate::kit::{Scene, Setup, TO_BOB, plan};
use crate::raw::{Udp, reply, request};

#[test]
fn sip_s9_a_script_error_is_500_with_file_and_line_and_harms_nothing_else() {
    let bad = [
        "local nothing = nil\nlocal x = nothing.field",
        "error({})",
        "KSR.hdr.append()",
        "KSR.hdr.append(1, 2, 3)",
        "KSR.nothing.at_all()",
        "local function down() return down() + 1 end\ndown()",
        "string.rep('x', 1 << 40)",
        "KSR.tm.t_on_failure('nowhere')",
        "KSR.pv.get('no variable')",
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "coroutine.wrap(function() while true do end end)()",
        "local t = {} while true do t[#t + 1] = string.rep('x', 1 << 20) end",
        "local s = string.rep('a', 1 << 15) s:find(string.rep('a*', 60) .. 'b')",
        "setmetatable({}, { __close = function() error('x') end })\nerror(nil)",
    ];
    let mut lua = String::from("local n = tonumber(KSR.hdr.get('X-N'))\n");
    for (n, bad) in bad.iter().enumerate() {
        lua.extend(["if n == ", &n.to_string(), " then\n", bad, "\nend\n"]);
    }
    let router = ", script-memory-bytes = 16777216".to_owned();
    let scene = Scene::with(Setup { router, ..Setup::default() }, &format!("{lua}{TO_BOB}"));
    for (n, bad) in bad.iter().enumerate() {
        let call = format!("call{n}");
        let before = scene.proxy.service.log.len();
        let sent =
            scene.request("INVITE", &call).replace("Contact", &format!("X-N: {n}\r\nContact"));
        let answer = scene.ask(sent);
        assert_eq!(answer.status(), 500, "{bad}: {answer:?}");
        assert!(!answer.text().contains("routes.lua"), "the caller is not told why: {answer:?}");
        let event = scene
            .proxy
            .service
            .log
            .wait_after(before, bad, |event| event.to_string().contains("routes.lua:"));
        assert!(["ERROR", "WARN"].contains(&text(&event, "level")), "{event}");
        // The next of the same call, and of others, is served.
        scene.proxy.sends_first(&scene.alice, &scene.bob, &call);
        let came =
            scene.pass(scene.request("INVITE", "other").replace("Contact", "X-N: 99\r\nContact"));
        assert_eq!(came.one("Call-ID"), "other");
    }
    let errors =
        scene.proxy.service.metric("lineway_sip_script_errors_total", &[("node", "routes")]);
    assert_eq!(errors as usize, bad.len());
}

#[test]
fn sip_s9_an_error_of_the_reply_route_lets_the_reply_pass_unedited() {
    let bob = Udp::new();
    let lua = plan(bob.at(), TO_BOB)
        + "function ksr_reply_route()
            KSR.hdr.append(\"X-Half: 1\\r\\n\")
            if KSR.kx.get_status() == 180 then error(\"no\") end
            if KSR.kx.get_status() == 183 then KSR.x.drop() end
            if KSR.kx.get_status() == 181 then KSR.drop() end
        end";
    let proxy = Setup::default().script(&lua);
    let scene = Scene { proxy, alice: Udp::new(), bob };
    let came = scene.pass(scene.request("INVITE", "c1"));
    let ringing = scene.answer(&came, "180 Ringing");
    assert!(ringing.status() == 180 && ringing.all("X-Half").is_empty(), "{ringing:?}");
    for dropped in ["183 Session Progress", "181 Forwarded"] {
        scene.bob.send(scene.proxy.udp(), reply(&came, dropped, ""));
        let ok = scene.answer(&came, "200 OK");
        assert_eq!(
            (ok.status(), ok.one("X-Half").as_str()),
            (200, "1"),
            "the dropped one did not come"
        );
    }
}

#[test]
fn sip_s9_exit_and_drop_pass_through_pcall() {
    let scene = Scene::new(&format!(
        "local how = KSR.hdr.get(\"X-How\")
        pcall(function()
            if how == \"exit\" then KSR.x.exit() end
            if how == \"drop\" then coroutine.wrap(function() KSR.x.drop() end)() end
        end)
        {TO_BOB}"
    ));
    for how in ["exit", "drop"] {
        scene.send(
            scene.request("INVITE", "c1").replace("Contact", &format!("X-How: {how}\r\nContact")),
        );
        scene.proxy.sends_first(&scene.alice, &scene.bob, "c1");
        scene.proxy.answers_first(&scene.alice, "c1");
    }
    let errors =
        scene.proxy.service.metric("lineway_sip_script_errors_total", &[("node", "routes")]);
    assert_eq!(errors.to_bits(), 0.0_f64.to_bits());
}

#[test]
fn sip_s9_a_call_that_waits_for_a_name_keeps_its_order_and_no_other_waits() {
    let dns = NameServer::start(Says::Nothing);
    let bob = Udp::new();
    let setup = Setup {
        workers: 1,
        router: ", resolve-timeout-ms = 20000".to_owned(),
        tables: format!("[dns]\nservers = [\"{}\"]\n", dns.address()),
        ..Setup::default()
    };
    let proxy = setup.script(&plan(
        bob.at(),
        "local done = KSR.forward()\nif done < 0 then KSR.sl.sl_reply_error() end",
    ));
    let alice = Udp::new();
    let slow = format!("sip:bob@slow.example:{}", bob.at().port());
    let fast = format!("sip:bob@{}", bob.at());
    alice.send(proxy.udp(), request("INVITE", &slow, &alice.via("one"), "slow"));
    crate::common::until("it asks", || dns.is_waited_for());
    // The same call: waits behind it, though its own way is known.
    alice.send(proxy.udp(), request("INFO", &fast, &alice.via("two"), "slow"));
    // Others do not.
    for n in 0..20 {
        let call = format!("fast{n}");
        alice.send(proxy.udp(), request("INVITE", &fast, &alice.via(&call), &call));
        assert_eq!(bob.receive().one("Call-ID"), call);
    }
    dns.say(Says::Addresses(60, vec![Ipv4Addr::LOCALHOST.into()]));
    let order: Vec<_> = (0..2).map(|_| bob.receive().one("CSeq")).collect();
    assert_eq!(order, ["1 INVITE", "1 INFO"]);
}

#[test]
fn sip_s9_a_name_that_does_not_resolve_is_told_to_the_script() {
    let dns = NameServer::start(Says::Absent);
    let bob = Udp::new();
    let tables = format!("[dns]\nservers = [\"{}\"]\n", dns.address());
    let lua = "local done = KSR.forward()\nKSR.hdr.append_to_reply(\"X-Done: \" .. done .. \"\\r\\n\")\nKSR.sl.sl_reply_error()";
    let proxy = Setup { tables, ..Setup::default() }.script(&plan(bob.at(), lua));
    let alice = Udp::new();
    alice.send(proxy.udp(), request("INVITE", "sip:bob@none.example", &alice.via("c1"), "c1"));
    let answer = alice.receive();
    assert_eq!((answer.status(), answer.one("X-Done").as_str()), (478, "-1"));
}

#[test]
fn sip_s9_a_table_is_shared_by_all_workers_and_globals_are_not() {
    let lua = "local seen = (KSR.htable.sht_get(\"count\", \"all\") or 0) + 1
        KSR.htable.sht_seti(\"count\", \"all\", seen)
        ROUNDS = (ROUNDS or 0) + 1
        KSR.hdr.append_to_reply(\"X-Seen: \" .. seen .. \"\\r\\nX-Own: \" .. ROUNDS .. \"\\r\\n\")
        KSR.sl.sl_send_reply(200, \"OK\")";
    let scene = Scene::with(Setup { workers: 3, ..Setup::default() }, lua);
    let mut own = 0;
    for n in 1..=40 {
        let answer = scene.ask(scene.request("OPTIONS", &format!("call{n}")));
        let number = |name: &str| {
            answer
                .text()
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse::<u32>().ok())
        };
        assert_eq!(number("X-Seen"), Some(n));
        own = own.max(number("X-Own").expect("a number"));
    }
    assert!(own < 40, "the calls went to several workers");
}

#[test]
fn sip_s9_each_message_has_variables_of_its_own() {
    let lua = format!(
        "local before = KSR.pv.getw(\"$var(x)\")
        KSR.pv.sets(\"$var(x)\", KSR.kx.get_callid())
        KSR.hdr.append(\"X-Vars: \" .. before .. \",\" .. KSR.pv.get(\"$var(x)\") .. \"\\r\\n\")
        {TO_BOB}"
    );
    let scene = Scene::new(&lua);
    for call in ["c1", "c2", "c1"] {
        let vars = scene.pass(scene.request("INVITE", call)).one("X-Vars");
        let (before, after) = vars.split_once(',').expect("two");
        assert_eq!(after, call);
        assert!(!["c1", "c2"].contains(&before), "what an earlier message had: {before}");
    }
}

/// A dial plan as an operator has it: users by number, a blocked range, a gateway, an announcement.
const OPERATOR: &str = r#"
local users = { ["100"] = BOB_AT, ["101"] = BOB_AT }

local function gateway()
    KSR.pv.sets("$rU", "0049" .. KSR.kx.gete_ruser():sub(2))
    KSR.hdr.remove("P-Asserted-Identity")
    KSR.hdr.append("P-Asserted-Identity: <sip:" .. KSR.kx.gete_fuser() .. "@example.com>\r\n")
    KSR.setdsturi("sip:" .. BOB_AT)
    return KSR.forward()
end

function ksr_request_route()
    if KSR.maxfwd.process_maxfwd(10) < 0 then
        KSR.sl.send_reply(483, "Too Many Hops")
        return 1
    end
    if KSR.sanity.sanity_check(17895, 7) < 0 then KSR.x.exit() end
    if KSR.siputils.has_totag() > 0 then
        if KSR.rr.loose_route() < 0 then
            if not KSR.is_ACK() then KSR.sl.send_reply(404, "Not here") end
            KSR.x.exit()
        end
        return KSR.forward()
    end
    if KSR.is_method_in("IS") then KSR.rr.record_route() end
    local user = KSR.kx.gete_ruser()
    if users[user] then
        KSR.seturi("sip:" .. user .. "@" .. users[user])
        KSR.forward()
    elseif user:match("^0900") then
        KSR.sl.send_reply(603, "Declined")
    elseif user:match("^0%d+$") then
        if gateway() < 0 then KSR.sl.sl_reply_error() end
    else
        KSR.hdr.append_to_reply("Warning: 399 proxy \"no such user\"\r\n")
        KSR.sl.send_reply(404, "Not Found")
    end
end

function ksr_reply_route()
    KSR.hdr.remove("Server")
    if KSR.kx.get_status() >= 300 then
        KSR.info("refused with " .. KSR.kx.get_status() .. " for " .. KSR.pv.getw("$fu") .. "\n")
    end
end
"#;

#[test]
fn sip_s9_an_operator_s_dial_plan() {
    let bob = Udp::new();
    let proxy = Setup::default().script(&OPERATOR.replace("BOB_AT", &format!("\"{}\"", bob.at())));
    let scene = Scene { proxy, alice: Udp::new(), bob };
    let to = |user: &str| {
        scene
            .request("INVITE", user)
            .replace("sip:bob@127.0.0.1:", &format!("sip:{user}@127.0.0.1:"))
    };
    let came = scene.pass(to("100"));
    assert_eq!(came.first(), format!("INVITE sip:100@{} SIP/2.0", scene.bob.at()));
    assert_eq!(came.all("Record-Route").len(), 1);
    let ok = scene.back(reply(&came, "200 OK", "Server: phone\r\n"));
    assert!(ok.status() == 200 && ok.all("Server").is_empty(), "{ok:?}");
    let came = scene.pass(to("0301234"));
    assert_eq!(came.first(), format!("INVITE sip:0049301234@{} SIP/2.0", scene.proxy.udp()));
    assert_eq!(came.one("P-Asserted-Identity"), "<sip:alice@example.com>");
    assert_eq!(scene.answer(&came, "486 Busy Here").status(), 486);
    scene.proxy.service.log.wait("the log line", |event| {
        text(event, "message").contains("refused with 486 for sip:alice@127.0.0.1")
    });
    assert_eq!(scene.ask(to("09001234")).status(), 603);
    let unknown = scene.ask(to("nobody"));
    assert_eq!(
        (unknown.status(), unknown.one("Warning").as_str()),
        (404, "399 proxy \"no such user\"")
    );
    scene.proxy.service.log.wait("ready", |event| text(event, "message") == "ready");
}

#[test]
fn sip_s9_a_script_of_several_files() {
    let bob = Udp::new();
    let folder = tempfile::tempdir().expect("a folder");
    let module = "local plan = {}\nfunction plan.target() return TARGET end\nreturn plan\n";
    fs::write(
        folder.path().join("targets.lua"),
        module.replace("TARGET", &format!("\"sip:bob@{}\"", bob.at())),
    )
    .expect("written");
    let path = folder.path().join("other.lua");
    fs::write(
        &path,
        "local targets = require(\"targets\")\nfunction ksr_request_route()\n\
         KSR.seturi(targets.target())\nKSR.forward()\nend\n",
    )
    .expect("written");
    let proxy = Setup::default().script_at(&path);
    let scene = Scene { proxy, alice: Udp::new(), bob };
    assert_eq!(scene.pass(scene.request("INVITE", "c1")).one("Call-ID"), "c1");
}
