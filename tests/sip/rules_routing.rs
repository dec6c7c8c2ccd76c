//! Rules 112 to 119, 121 and 122: Record-Route and Route, strict routers, loops.

use std::net::SocketAddr;

use crate::kit::{PAST_TO_BOB, Scene, Setup, fresh};
use crate::raw::{Sip, Udp, reply, request};

/// Follows the route of a dialog, records one for a call's begin.
const DIALOGS: &str = "if KSR.siputils.has_totag() > 0 then
    local followed = KSR.rr.loose_route()
    KSR.hdr.append(\"X-Followed: \" .. followed .. \"\\r\\n\")
    SEND()
    return
end
KSR.rr.record_route()
KSR.seturi(BOB)
SEND()";

/// A request within a dialog, with these header lines in front of Max-Forwards.
fn within(scene: &Scene, method: &str, uri: &str, lines: &str) -> String {
    request(method, uri, &scene.alice.via(&fresh("d")), "c1")
        .replace("To: <sip:bob@127.0.0.1>", "To: <sip:bob@127.0.0.1>;tag=tb")
        .replace("Max-Forwards", &format!("{lines}Max-Forwards"))
}

fn own(at: SocketAddr) -> String {
    format!("<sip:{at};lr>")
}

fn bob(scene: &Scene) -> String {
    format!("sip:bob@{}", scene.bob.at())
}

#[test]
fn sip_r112_record_route_has_the_own_address_and_lr_and_is_the_first_line() {
    let scene = Scene::new(DIALOGS);
    let came = scene.pass(scene.request("INVITE", "c1"));
    assert_eq!(came.lines()[1], format!("Record-Route: {}", own(scene.proxy.udp())));
    assert_eq!(came.all("Record-Route").len(), 1);
}

#[test]
fn sip_r112_a_received_record_route_stays_below() {
    let scene = Scene::new(DIALOGS);
    let there =
        "Record-Route: <sip:192.0.2.1;lr>,<sip:192.0.2.2;lr>\r\nrecord-route:<sip:c;lr>\r\n";
    let sent =
        scene.request("INVITE", "c1").replace("Max-Forwards", &format!("{there}Max-Forwards"));
    let came = scene.pass(sent);
    assert_eq!(
        came.all("Record-Route"),
        [own(scene.proxy.udp()), "<sip:192.0.2.1;lr>,<sip:192.0.2.2;lr>".into()]
    );
    assert!(came.text().contains(there));
}

#[test]
fn sip_r113_record_route_comes_back_in_the_reply() {
    let scene = Scene::new(DIALOGS);
    let came = scene.pass(scene.request("INVITE", "c1"));
    for status in ["180 Ringing", "200 OK"] {
        let back = scene.answer(&came, status);
        assert_eq!(back.all("Record-Route"), came.all("Record-Route"));
    }
}

#[test]
fn sip_r114_its_shape_and_place() {
    let tagged = Setup { router: ", append-fromtag = true".to_owned(), ..Setup::default() };
    let scene = Scene::with(tagged, DIALOGS);
    let came = scene.pass(scene.request("INVITE", "c1"));
    let at = scene.proxy.udp();
    assert_eq!(came.lines()[1], format!("Record-Route: <sip:{at};lr;ftag=a1>"));
    assert!(came.lines()[2].starts_with(&scene.own_via()), "above the own Via: {came:?}");
    // With a parameter of the script's, which the route of the dialog brings back.
    let lua = "KSR.rr.add_rr_param(\";nat=yes\")
        if KSR.siputils.has_totag() > 0 then
            KSR.rr.loose_route()
            KSR.hdr.append(\"X-Nat: \" .. KSR.rr.check_route_param(\"nat=yes\") .. \"\\r\\n\")
        else
            KSR.rr.record_route()
        end
        KSR.setdsturi(BOB)
        SEND()";
    let scene = Scene::new(lua);
    let record = scene.pass(scene.request("INVITE", "c1")).one("Record-Route");
    assert!(record.contains(";lr;nat=yes"), "{record}");
    let came = scene.pass(within(&scene, "BYE", &bob(&scene), &format!("Route: {record}\r\n")));
    assert_eq!(came.one("X-Nat"), "1");
    let came = scene.pass(within(
        &scene,
        "BYE",
        &bob(&scene),
        &format!("Route: {}\r\n", own(scene.proxy.udp())),
    ));
    assert_eq!(came.one("X-Nat"), "-1");
}

#[test]
fn sip_r115_bye_works_both_ways_through_the_route_set() {
    let scene = Scene::new(DIALOGS);
    let came = scene.pass(scene.request("INVITE", "c1"));
    let ok = scene.answer(&came, "200 OK");
    let route = format!("Route: {}\r\n", ok.one("Record-Route"));
    let ack = scene.pass(within(&scene, "ACK", &bob(&scene), &route));
    let bye = scene.pass(within(&scene, "BYE", &bob(&scene), &route));
    for came in [&ack, &bye] {
        assert!(came.first().contains(&format!(" {} ", bob(&scene))), "{came:?}");
        assert!(came.all("Route").is_empty(), "{came:?}");
        assert_eq!(came.one("X-Followed"), "1");
    }
    assert_eq!(scene.answer(&bye, "200 OK").status(), 200);
    // The callee hangs up.
    let to_alice = format!("sip:alice@{}", scene.alice.at());
    let bye = format!(
        "BYE {to_alice} SIP/2.0\r\nVia: {}\r\nFrom: <sip:bob@127.0.0.1>;tag=tb\r\n\
         To: <sip:alice@127.0.0.1>;tag=a1\r\nCall-ID: c1\r\nCSeq: 9 BYE\r\n{route}Content-Length: 0\r\n\r\n",
        scene.bob.via("b1"),
    );
    let came = scene.back(&bye);
    assert_eq!(came.first(), format!("BYE {to_alice} SIP/2.0"));
    assert!(came.all("Route").is_empty(), "{came:?}");
    let ok = reply(&came, "200 OK", "");
    scene.alice.send(scene.proxy.udp(), ok);
    assert_eq!(scene.bob.receive().status(), 200);
}

#[test]
fn sip_r116_the_own_route_is_removed_and_the_next_is_the_hop_and_stays() {
    let scene = Scene::new(DIALOGS);
    let first = own(scene.proxy.udp());
    let next = format!("<sip:{};lr>", scene.bob.at());
    let further = "<sip:192.0.2.9;lr>";
    // One line for all, one for each, and mixed; names and spaces as they may be.
    for lines in [
        format!("Route: {first}, {next}, {further}\r\n"),
        format!("Route: {first},{next},{further}\r\n"),
        format!("Route: {first}\r\nRoute: {next}\r\nRoute: {further}\r\n"),
        format!("ROUTE:  {first} ,\r\n {next}\r\nroute: {further}\r\n"),
        format!("Route: {first}\r\nSubject: x\r\nRoute: {next}, {further}\r\n"),
        format!("Route: {}\r\nRoute: {next},{further}\r\n", first.replace(";lr", ";lr=on")),
    ] {
        let came = scene.pass(within(&scene, "INFO", "sip:far@192.0.2.77", &lines));
        assert_eq!(came.first(), "INFO sip:far@192.0.2.77 SIP/2.0", "{lines}");
        let text = came.text();
        assert!(!text.contains(&scene.proxy.udp().to_string().replace("127", "sip:127")), "{text}");
        assert!(text.contains(&next) && text.contains(further), "{text}");
        assert!(text.find(&next) < text.find(further), "{text}");
        assert_eq!(came.one("X-Followed"), "1");
    }
}

#[test]
fn sip_r116_a_route_of_somebody_else_is_followed_and_stays() {
    let scene = Scene::new(DIALOGS);
    let next = format!("<sip:{};lr>", scene.bob.at());
    let came =
        scene.pass(within(&scene, "INFO", "sip:far@192.0.2.77", &format!("Route: {next}\r\n")));
    assert_eq!(
        (came.first().as_str(), came.one("Route")),
        ("INFO sip:far@192.0.2.77 SIP/2.0", next)
    );
}

#[test]
fn sip_r116_the_built_in_script_takes_the_route_out_of_initial_requests() {
    let scene = Scene::built_in();
    for route in [own(scene.proxy.udp()), "<sip:192.0.2.1;lr>".to_owned()] {
        let sent = scene
            .direct("INVITE", &fresh("c"))
            .replace("Max-Forwards", &format!("Route: {route}\r\nMax-Forwards"));
        let came = scene.pass(sent);
        assert!(came.all("Route").is_empty(), "{came:?}");
    }
}

#[test]
fn sip_r117_a_strict_next_hop_is_swapped_with_the_request_uri() {
    let scene = Scene::new(DIALOGS);
    let strict = format!("sip:strict@{}", scene.bob.at());
    let first = own(scene.proxy.udp());
    for (lines, behind) in [
        (format!("Route: {first}, <{strict}>\r\n"), vec![]),
        (
            format!("Route: {first}\r\nRoute: <{strict}>\r\nRoute: <sip:192.0.2.9;lr>\r\n"),
            vec!["<sip:192.0.2.9;lr>"],
        ),
        (format!("Route: {first}, <{strict}>, <sip:192.0.2.9>\r\n"), vec!["<sip:192.0.2.9>"]),
    ] {
        let came = scene.pass(within(&scene, "INFO", "sip:far@192.0.2.77;x=1", &lines));
        assert_eq!(came.first(), format!("INFO {strict} SIP/2.0"), "{lines}");
        let routes = came.all("Route").join(", ");
        let routes: Vec<_> = routes.split(',').map(str::trim).collect();
        assert_eq!(routes, [behind, vec!["<sip:far@192.0.2.77;x=1>"]].concat(), "{came:?}");
    }
}

#[test]
fn sip_r118_behind_a_strict_previous_hop_the_last_route_is_the_request_uri() {
    let scene = Scene::new(DIALOGS);
    let at = scene.proxy.udp();
    let target = format!("sip:bob@{};x=1", scene.bob.at());
    for uri in [format!("sip:{at};lr"), format!("sip:{at}")] {
        let came = scene.pass(within(&scene, "INFO", &uri, &format!("Route: <{target}>\r\n")));
        assert_eq!(came.first(), format!("INFO {target} SIP/2.0"));
        assert!(came.all("Route").is_empty(), "{came:?}");
    }
    // With another hop between: it is the next one, and stays.
    let next = format!("<sip:{};lr>", scene.bob.at());
    for lines in [
        format!("Route: {next}, <sip:far@192.0.2.77>\r\n"),
        format!("Route: {next}\r\nRoute: <sip:far@192.0.2.77>\r\n"),
    ] {
        let came = scene.pass(within(&scene, "INFO", &format!("sip:{at};lr"), &lines));
        assert_eq!(came.first(), "INFO sip:far@192.0.2.77 SIP/2.0", "{lines}");
        assert_eq!(came.one("Route"), next, "{came:?}");
    }
}

#[test]
fn sip_r119_in_a_dialog_without_route_for_this_host_is_404() {
    let scene = Scene::built_in();
    let uri = format!("sip:bob@{}", scene.proxy.udp());
    for method in ["BYE", "INFO", "INVITE", "UPDATE"] {
        let refused = scene.ask(within(&scene, method, &uri, ""));
        assert_eq!(refused.status(), 404, "{method}");
    }
    // Nothing answers an ACK, and there is nowhere to send it to.
    scene.send(within(&scene, "ACK", &uri, ""));
    assert_eq!(
        scene.ask(within(&scene, "BYE", &uri, "").replace("CSeq: 1", "CSeq: 2")).one("CSeq"),
        "2 BYE"
    );
}

/// Sends everything back to itself.
const ROUND: &str = "if KSR.maxfwd.process_maxfwd(70) < 0 then
    KSR.sl.sl_send_reply(483, \"Too Many Hops\")
    return
end
KSR.setdsturi(\"sip:\" .. KSR.pv.gete(\"$Ri\") .. \":\" .. KSR.pv.gete(\"$Rp\"))
SEND()";

#[test]
fn sip_r121_a_loop_ends_with_482_or_483() {
    let scene = Scene::new(ROUND);
    for method in ["INVITE", "OPTIONS"] {
        let ended = scene.ask(scene.request(method, "c1"));
        assert!([482, 483].contains(&ended.status()), "{ended:?}");
        assert_eq!(ended.all("Via"), [scene.alice.via("c1")]);
    }
}

#[test]
fn sip_r122_a_loop_ends_by_max_forwards() {
    let scene = Scene::new(ROUND);
    for hops in [0, 1, 7, 70] {
        let forwarded = || {
            let invites = [("node", "routes"), ("method", "INVITE")];
            scene.proxy.service.metric("lineway_sip_requests_forwarded_total", &invites)
        };
        let before = forwarded();
        let call = fresh("c");
        let sent = scene.request("INVITE", &call).replace("ds: 70", &format!("ds: {hops}"));
        assert_eq!(scene.ask(sent).status(), 483);
        let after = forwarded();
        assert_eq!((after - before) as u32, hops);
    }
}

#[test]
fn sip_r122_two_proxies_that_send_to_each_other_end_it_too() {
    let one = Setup::default().script(HOPS_BY_URI);
    let two = Setup::default().script(HOPS_BY_URI);
    let (alice, one, two) = (Udp::new(), one, two);
    // Each takes the other for the one that is meant, by the user.
    let sent = request("INVITE", &format!("sip:{}@x", two.udp().port()), &alice.via("c1"), "c1")
        .replace("Contact", &format!("X-Back: {}\r\nContact", one.udp().port()));
    alice.send(one.udp(), sent);
    let ended: Sip = alice.receive();
    assert_eq!((ended.status(), ended.all("Via")), (483, vec![alice.via("c1")]));
    for proxy in [&one, &two] {
        assert!(proxy.service.metric("lineway_sip_requests_forwarded_total", &[]) >= 35.0);
    }
}

/// Sends to the port that the Request-URI's user or X-Back says, whichever is another's.
const HOPS_BY_URI: &str = "function ksr_request_route()
    if KSR.maxfwd.process_maxfwd(70) < 0 then
        KSR.sl.sl_send_reply(483, \"Too Many Hops\")
        return
    end
    local port = KSR.kx.gete_ruser()
    if port == tostring(KSR.pv.get(\"$Rp\")) then
        port = KSR.hdr.get(\"X-Back\")
    end
    KSR.setdsturi(\"sip:127.0.0.1:\" .. port)
    KSR.forward()
end";

#[test]
fn sip_s6_2_a_preloaded_route_of_ours_alone_is_told_to_the_script() {
    let lua = format!(
        "KSR.hdr.append(\"X-Followed: \" .. KSR.rr.loose_route() .. \"\\r\\n\")\n{PAST_TO_BOB}"
    );
    let scene = Scene::new(&lua);
    let with = |route: &str| {
        scene
            .request("INVITE", &fresh("c"))
            .replace("Max-Forwards", &format!("{route}Max-Forwards"))
    };
    let route = format!("Route: {}\r\n", own(scene.proxy.udp()));
    assert_eq!(scene.pass(with(&route)).one("X-Followed"), "-3");
    assert_eq!(scene.pass(with("")).one("X-Followed"), "-1");
}

#[test]
fn sip_s6_2_an_alias_is_own() {
    let listener = ", alias = [\"sip.example.com\", \"udp:192.0.2.5:5070\"]".to_owned();
    let scene = Scene::with(Setup { listener, ..Setup::default() }, DIALOGS);
    for route in
        ["<sip:sip.example.com;lr>", "<sip:SIP.Example.COM:5060;lr>", "<sip:192.0.2.5:5070;lr>"]
    {
        let came = scene.pass(within(&scene, "BYE", &bob(&scene), &format!("Route: {route}\r\n")));
        assert!(came.all("Route").is_empty(), "{came:?}");
    }
}
