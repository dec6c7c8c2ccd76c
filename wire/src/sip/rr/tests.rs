use proptest::prelude::*;

use super::*;
use crate::sip::draft::Draft;
use crate::sip::kit::{self, Text};
use crate::sip::message::Limits;
use crate::sip::own::SocketId;
use crate::sip::textops::{self, Flags, Patterns};

/// The header lines of a name as the request leaves by a socket.
fn lines(draft: &Draft, socket: u16, name: &str) -> Vec<String> {
    let sent = kit::forwarded(draft, &kit::own(), socket);
    kit::parse(sent.clone());
    kit::lines(&sent, name).into_iter().map(str::to_owned).collect()
}

fn text(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn has_param(draft: &Draft, pattern: &str) -> i64 {
    let pattern = Patterns::new().get(pattern.as_bytes(), Flags::default()).expect("a pattern");
    check_route_param(draft, &pattern)
}

/// A request within a dialog with these Route headers.
fn bye(routes: &[&str]) -> Text {
    let bye = kit::request("BYE").uri("sip:bob@10.0.0.7").set("To", "<sip:bob@b.example>;tag=ta");
    routes.iter().fold(bye, |bye, route| bye.line(&format!("Route: {route}")))
}

/// What `loose_route` says and does: result, Request-URI, `$du`, Route lines.
fn routed(bye: &Text) -> (i64, String, String, Vec<String>) {
    let mut draft = bye.draft();
    let result = loose_route(&mut draft, &kit::own());
    let routes = lines(&draft, 0, "Route");
    (result, text(Some(draft.uri())), text(draft.dst_uri.as_deref()), routes)
}

fn is(
    result: i64,
    uri: &str,
    dst_uri: &str,
    routes: &[&str],
) -> (i64, String, String, Vec<String>) {
    let routes = routes.iter().map(|route| format!("Route: {route}")).collect();
    (result, uri.to_owned(), dst_uri.to_owned(), routes)
}

#[test]
fn sip_r112_record_route_is_the_first_line() {
    let mut draft = kit::invite().draft();
    assert_eq!(record_route(&mut draft, true), 1);
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert_eq!(sent.lines().nth(1), Some("Record-Route: <sip:127.0.0.1;lr;ftag=a1>"));
    assert_eq!(record_route(&mut draft, true), -1, "once for each request");
    assert_eq!(lines(&draft, 0, "Record-Route").len(), 1);
    assert_eq!(record_route(&mut kit::reply(200, "OK").draft(), true), -1);
}

#[test]
fn sip_r114_shape_and_place_of_record_route() {
    let own = kit::owning(&["udp:127.0.0.1:5070", "tcp:127.0.0.1:5070", "udp:[::1]:5060"]);
    let shape = |socket: u16| {
        let mut received = kit::udp_from(kit::CALLER);
        received.socket = SocketId(socket);
        received.transport = own.sockets[usize::from(socket)].transport;
        let mut draft = kit::invite().top("X-First: 1").draft_from(received);
        record_route(&mut draft, false);
        let sent = kit::forwarded(&draft, &own, socket);
        let names: Vec<_> = sent.lines().skip(1).map(|line| line.split(':').next()).collect();
        assert_eq!(names[..3], [Some("Record-Route"), Some("X-First"), Some("Via")]);
        kit::value(&sent, "Record-Route").to_owned()
    };
    assert_eq!(shape(0), "<sip:127.0.0.1:5070;lr>");
    assert_eq!(shape(1), "<sip:127.0.0.1:5070;transport=tcp;lr>");
    assert_eq!(shape(2), "<sip:[::1];lr>", "S-23: brackets, no default port");
}

#[test]
fn sip_r143_two_lines_where_the_sockets_differ() {
    let mut draft = kit::invite().draft();
    record_route(&mut draft, true);
    assert_eq!(
        lines(&draft, 2, "Record-Route"),
        [
            "Record-Route: <sip:127.0.0.2;r2=on;lr;ftag=a1>",
            "Record-Route: <sip:127.0.0.1;r2=on;lr;ftag=a1>"
        ]
    );
    assert_eq!(
        lines(&draft, 1, "Record-Route"),
        [
            "Record-Route: <sip:127.0.0.1;transport=tcp;r2=on;lr;ftag=a1>",
            "Record-Route: <sip:127.0.0.1;r2=on;lr;ftag=a1>"
        ]
    );
    assert_eq!(lines(&draft, 0, "Record-Route"), ["Record-Route: <sip:127.0.0.1;lr;ftag=a1>"]);
}

#[test]
fn sip_r143_both_lines_come_back_and_go_together() {
    let mut invite = kit::invite().draft();
    record_route(&mut invite, true);
    let routes: Vec<_> =
        lines(&invite, 2, "Record-Route").iter().map(|line| line[14..].to_owned()).collect();
    // The callee keeps the order, the caller turns it round (12.1.1, 12.1.2).
    for (routes, socket) in [
        (vec![routes[0].as_str(), routes[1].as_str()], 0),
        (vec![routes[1].as_str(), routes[0].as_str()], 2),
    ] {
        let mut draft = bye(&routes).draft();
        assert_eq!(loose_route(&mut draft, &kit::own()), 1);
        assert_eq!(lines(&draft, 0, "Route"), Vec::<String>::new());
        assert_eq!(draft.force_socket, Some(SocketId(socket)), "the inner one names the socket");
    }
}

#[test]
fn sip_r113_record_route_comes_back_in_the_reply() {
    let mut invite = kit::invite().draft();
    record_route(&mut invite, true);
    let recorded = lines(&invite, 2, "Record-Route");
    let reply = recorded.iter().rev().fold(kit::reply(200, "OK"), |reply, line| reply.top(line));
    let sent = kit::returned(&reply.draft(), &kit::own(), 0);
    assert_eq!(kit::lines(&sent, "Record-Route"), recorded);
}

#[test]
fn applied_changes_keep_record_route_for_the_socket_it_leaves_by() {
    let mut draft = kit::invite().draft();
    record_route(&mut draft, false);
    assert_eq!(textops::apply_changes(&mut draft, &Limits::default()), 1);
    assert_eq!(add_rr_param(&mut draft, b";late=1"), -1);
    assert_eq!(record_route(&mut draft, false), -1);
    assert_eq!(
        lines(&draft, 2, "Record-Route"),
        ["Record-Route: <sip:127.0.0.2;r2=on;lr>", "Record-Route: <sip:127.0.0.1;r2=on;lr>"]
    );
    assert_eq!(lines(&draft, 0, "Record-Route"), ["Record-Route: <sip:127.0.0.1;lr>"]);
}

#[test]
fn parameters_go_in_before_and_after_the_lines() {
    let mut draft = kit::invite().draft();
    assert_eq!(add_rr_param(&mut draft, b";nat=yes"), 1);
    record_route(&mut draft, true);
    assert_eq!(add_rr_param(&mut draft, b";x=1"), 1);
    assert_eq!(
        lines(&draft, 2, "Record-Route"),
        [
            "Record-Route: <sip:127.0.0.2;r2=on;lr;ftag=a1;nat=yes;x=1>",
            "Record-Route: <sip:127.0.0.1;r2=on;lr;ftag=a1;nat=yes;x=1>"
        ]
    );
}

#[test]
fn what_would_break_the_line_is_no_parameter() {
    let mut draft = kit::invite().draft();
    let long = format!(";{}", "x".repeat(1024));
    for bad in ["", "x=1", ";x\r\nY: 1", ";a>b", ";a b", ";a,b", ";\u{e9}", &long] {
        assert_eq!(add_rr_param(&mut draft, bad.as_bytes()), -1, "{bad:?}");
    }
    record_route(&mut draft, false);
    assert_eq!(lines(&draft, 0, "Record-Route"), ["Record-Route: <sip:127.0.0.1;lr>"]);
    let odd = kit::invite().set("From", "<sip:a@b>;tag=\"a>b\"");
    let mut draft = odd.draft();
    record_route(&mut draft, true);
    assert_eq!(lines(&draft, 0, "Record-Route"), ["Record-Route: <sip:127.0.0.1;lr>"]);
}

#[test]
fn record_route_preset_writes_what_it_is_given() {
    let mut draft = kit::invite().draft();
    assert_eq!(
        record_route_preset(&mut draft, b"1.1.1.1:5060", b"sip.example;transport=tcp", true),
        1
    );
    assert_eq!(
        lines(&draft, 2, "Record-Route"),
        [
            "Record-Route: <sip:1.1.1.1:5060;ftag=a1;lr>",
            "Record-Route: <sip:sip.example;transport=tcp;ftag=a1;lr>"
        ]
    );
    assert_eq!(record_route_preset(&mut draft, b"1.1.1.1", b"", true), -1, "once");
    let mut draft = kit::invite().draft();
    assert_eq!(record_route_preset(&mut draft, b"", b"", true), -1);
    assert_eq!(record_route_preset(&mut draft, b"a>\r\nX: y", b"", true), -1);
    assert_eq!(record_route_preset(&mut draft, b"1.1.1.1", b"", false), 1);
    assert_eq!(lines(&draft, 0, "Record-Route"), ["Record-Route: <sip:1.1.1.1;lr>"]);
}

#[test]
fn without_a_route_there_is_nothing_to_do() {
    assert_eq!(routed(&bye(&[])), is(-1, "sip:bob@10.0.0.7", "-", &[]));
    let mut reply = kit::reply(200, "OK").line("Route: <sip:127.0.0.1;lr>").draft();
    assert_eq!(loose_route(&mut reply, &kit::own()), -1);
}

#[test]
fn a_route_that_can_not_be_read_changes_nothing() {
    let mut draft = bye(&["<sip:127.0.0.1;lr>", "<sip:"]).draft();
    assert_eq!(loose_route(&mut draft, &kit::own()), -1);
    assert!(draft.lumps.is_empty());
}

#[test]
fn sip_r116_the_own_route_goes_and_the_next_one_is_the_next_hop() {
    let (uri, next) = ("sip:bob@10.0.0.7", "sip:p2.example;lr");
    assert_eq!(routed(&bye(&["<sip:127.0.0.1;lr>"])), is(1, uri, "-", &[]));
    let stays = is(1, uri, next, &["<sip:p2.example;lr>", "<sip:p3.example>"]);
    let lines = ["<sip:127.0.0.1:5060;lr>", "<sip:p2.example;lr>", "<sip:p3.example>"];
    assert_eq!(routed(&bye(&lines)), stays, "three header lines");
    assert_eq!(
        routed(&bye(&["<sip:127.0.0.1;lr=on> , \"P 2\" <sip:p2.example;lr>,<sip:p3.example>"])),
        is(1, uri, next, &["\"P 2\" <sip:p2.example;lr>,<sip:p3.example>"]),
        "one header line"
    );
    assert_eq!(
        routed(&bye(&["<sip:127.0.0.1;lr>,<sip:p2.example;lr>", "<sip:p3.example>"])),
        stays
    );
}

#[test]
fn sip_r115_a_route_of_ours_is_known_by_socket_or_alias() {
    let mut own = kit::own();
    own.aliases.push(crate::sip::own::Alias {
        host: "sip.example".into(),
        port: None,
        transport: None,
    });
    let mut draft = bye(&["<sip:SIP.example:7;lr>"]).draft();
    assert_eq!(loose_route(&mut draft, &own), 1);
    assert_eq!(lines(&draft, 0, "Route"), Vec::<String>::new());
    assert_eq!(draft.force_socket, None, "an alias names no socket");
}

#[test]
fn sip_r116_a_route_of_others_is_the_next_hop_and_stays() {
    assert_eq!(
        routed(&bye(&["<sip:p2.example;lr>", "<sip:127.0.0.1;lr>"])),
        is(
            1,
            "sip:bob@10.0.0.7",
            "sip:p2.example;lr",
            &["<sip:p2.example;lr>", "<sip:127.0.0.1;lr>"]
        )
    );
}

#[test]
fn a_preloaded_route_of_which_nothing_is_left_can_be_refused() {
    let first = kit::invite().uri("sip:bob@10.0.0.7");
    assert_eq!(
        routed(&first.clone().line("Route: <sip:127.0.0.1;lr>")),
        is(-3, "sip:bob@10.0.0.7", "-", &[])
    );
    assert_eq!(
        routed(&first.clone().line("Route: <sip:127.0.0.1;lr>,<sip:p2.example;lr>")),
        is(1, "sip:bob@10.0.0.7", "sip:p2.example;lr", &["<sip:p2.example;lr>"])
    );
    let own = first.uri("sip:bob@127.0.0.1").line("Route: <sip:p2.example;lr>");
    assert_eq!(
        routed(&own),
        is(1, "sip:bob@127.0.0.1", "sip:p2.example;lr", &["<sip:p2.example;lr>"]),
        "an own Request-URI says nothing outside of a dialog"
    );
}

#[test]
fn sip_r117_a_strict_next_hop_trades_places_with_the_request_uri() {
    assert_eq!(
        routed(&bye(&["<sip:127.0.0.1;lr>, <sip:p2.example>, <sip:p3.example;lr>"]).line("X: 1")),
        is(1, "sip:p2.example", "-", &["<sip:p3.example;lr>", "<sip:bob@10.0.0.7>"])
    );
    assert_eq!(
        routed(&bye(&["<sip:127.0.0.1;lr>", "<sip:p2.example>"])),
        is(1, "sip:p2.example", "-", &["<sip:bob@10.0.0.7>"])
    );
    assert_eq!(
        routed(&bye(&["<sip:p2.example>", "<sip:p3.example;lr>"])),
        is(1, "sip:p2.example", "-", &["<sip:p3.example;lr>", "<sip:bob@10.0.0.7>"]),
        "not ours, but the same"
    );
    let mut draft = bye(&["<sip:127.0.0.1;lr>", "<sip:p2.example>"]).draft();
    draft.dst_uri = Some("sip:elsewhere".into());
    loose_route(&mut draft, &kit::own());
    assert_eq!(draft.dst_uri, None, "the Request-URI leads");
}

#[test]
fn sip_r118_behind_a_strict_previous_hop_the_last_route_is_the_target() {
    let strict = |routes: &[&str]| bye(routes).uri("sip:127.0.0.1:5060;lr");
    assert_eq!(
        routed(&strict(&["<sip:p2.example;lr>, <sip:bob@10.0.0.7>"])),
        is(1, "sip:bob@10.0.0.7", "sip:p2.example;lr", &["<sip:p2.example;lr>"])
    );
    assert_eq!(
        routed(&strict(&["<sip:p2.example;lr>", "<sip:p3.example;lr>", "<sip:bob@10.0.0.7>"])),
        is(
            1,
            "sip:bob@10.0.0.7",
            "sip:p2.example;lr",
            &["<sip:p2.example;lr>", "<sip:p3.example;lr>"]
        )
    );
    assert_eq!(routed(&strict(&["<sip:bob@10.0.0.7>"])), is(1, "sip:bob@10.0.0.7", "-", &[]));
    assert_eq!(
        routed(&strict(&["<sip:p2.example>,<sip:bob@10.0.0.7>"])),
        is(1, "sip:p2.example", "-", &["<sip:bob@10.0.0.7>"]),
        "the next one is strict too"
    );
}

#[test]
fn sip_r118_the_partner_of_an_own_request_uri_goes_too() {
    let strict = |routes: &[&str]| bye(routes).uri("sip:127.0.0.1;r2=on;lr");
    let mut draft = strict(&["<sip:127.0.0.2;r2=on;lr>", "<sip:bob@10.0.0.7>"]).draft();
    assert_eq!(loose_route(&mut draft, &kit::own()), 1);
    assert_eq!(draft.uri(), b"sip:bob@10.0.0.7");
    assert_eq!(lines(&draft, 2, "Route"), Vec::<String>::new());
    assert_eq!(draft.force_socket, Some(SocketId(2)));
    assert_eq!(
        routed(&strict(&["<sip:127.0.0.2;r2=on;lr>"])),
        is(1, "sip:127.0.0.1;r2=on;lr", "-", &[]),
        "only the partner remained"
    );
}

#[test]
fn case_s11_an_ack_with_two_routes_of_ours() {
    let ack = |first: &str, second: &str| {
        let ack = kit::request("ACK").uri("sip:bob@127.0.0.1:15071");
        ack.set("To", "<sip:bob@127.0.0.1>;tag=ta")
            .behind("Via", &format!("Route: <sip:{second}:5060;r2=on;lr>"))
            .behind("Via", &format!("Route: <sip:{first}:5060;r2=on;lr>"))
    };
    let mut draft = ack("127.0.0.1", "127.0.0.2").draft();
    assert_eq!(loose_route(&mut draft, &kit::own()), 1);
    assert_eq!(draft.force_socket, Some(SocketId(2)), "the socket of the inner one");
    let sent = kit::forwarded(&draft, &kit::own(), 2);
    assert!(sent.starts_with("ACK sip:bob@127.0.0.1:15071 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.2;"));
    assert!(!sent.contains("Route"), "{sent}");
    let mut back = ack("127.0.0.2", "127.0.0.1").draft();
    assert_eq!(loose_route(&mut back, &kit::own()), 1);
    assert_eq!(back.force_socket, Some(SocketId(0)), "the other direction mirrors it");
}

#[test]
fn case_s11_one_socket_on_both_legs_gives_one_route_that_works() {
    let mut received = kit::udp_from(kit::CALLER);
    received.socket = SocketId(2);
    let mut draft = kit::invite().draft_from(received);
    record_route(&mut draft, true);
    let recorded = lines(&draft, 2, "Record-Route");
    assert_eq!(recorded, ["Record-Route: <sip:127.0.0.2;lr;ftag=a1>"]);
    let mut draft = bye(&[&recorded[0][14..]]).draft_from(received);
    assert_eq!(loose_route(&mut draft, &kit::own()), 1);
    assert_eq!(lines(&draft, 2, "Route"), Vec::<String>::new());
    assert_eq!(draft.force_socket, Some(SocketId(2)));
}

#[test]
fn two_own_routes_that_are_no_pair_go_one_at_a_time() {
    assert_eq!(
        routed(&bye(&["<sip:127.0.0.1;lr>", "<sip:127.0.0.2;lr>"])),
        is(1, "sip:bob@10.0.0.7", "sip:127.0.0.2;lr", &["<sip:127.0.0.2;lr>"])
    );
}

#[test]
fn a_second_call_goes_on_where_the_first_one_ended() {
    let mut draft = bye(&["<sip:127.0.0.1;lr>,<sip:127.0.0.2;lr>"]).draft();
    assert_eq!(loose_route(&mut draft, &kit::own()), 1);
    assert_eq!(lines(&draft, 0, "Route"), ["Route: <sip:127.0.0.2;lr>"]);
    assert_eq!(loose_route(&mut draft, &kit::own()), 1);
    assert_eq!(lines(&draft, 0, "Route"), Vec::<String>::new());
    assert_eq!(loose_route(&mut draft, &kit::own()), -1);
}

#[test]
fn what_the_own_route_said() {
    let mut draft = bye(&["<sip:127.0.0.1;lr;ftag=a1;nat=yes?x=y>"]).draft();
    assert_eq!(has_param(&draft, "lr"), -1, "nothing was removed yet");
    assert_eq!(is_direction(&draft, "downstream"), 1, "what an initial request has");
    loose_route(&mut draft, &kit::own());
    assert_eq!(draft.route_params.as_deref(), Some(&b";lr;ftag=a1;nat=yes"[..]));
    assert_eq!(has_param(&draft, "nat=yes$"), 1);
    assert_eq!(has_param(&draft, "nat=no"), -1);
    assert_eq!(is_direction(&draft, "downstream"), 1);
    assert_eq!(is_direction(&draft, "upstream"), -1);
    assert_eq!(is_direction(&draft, "sideways"), -1);
    let mut back = bye(&["<sip:127.0.0.1;lr;ftag=other>"]).draft();
    loose_route(&mut back, &kit::own());
    assert_eq!(is_direction(&back, "Upstream"), 1);
    assert_eq!(is_direction(&back, "downstream"), -1);
    let mut strict = bye(&["<sip:bob@10.0.0.7>"]).uri("sip:127.0.0.1;lr;ftag=other").draft();
    loose_route(&mut strict, &kit::own());
    assert_eq!(is_direction(&strict, "upstream"), 1, "it came in the Request-URI");
    let mut foreign = bye(&["<sip:p2.example;lr;ftag=other>"]).draft();
    loose_route(&mut foreign, &kit::own());
    assert_eq!(foreign.route_params, None);
}

proptest! {
    /// However the values are spread over lines: what leaves parses, and its Routes are those that
    /// were not passed, in order.
    #[test]
    fn values_leave_their_lines_whole(
        values in prop::collection::vec((0..4_usize, any::<bool>(), any::<bool>()), 1..8),
        is_strict: bool,
    ) {
        let hosts = ["127.0.0.1;lr", "127.0.0.2;r2=on;lr", "p.example;lr", "s.example"];
        let mut routes: Vec<String> = Vec::new();
        for (number, &(host, shares, wide)) in values.iter().enumerate() {
            let value = format!("<sip:{};n={number}>", hosts[host]);
            match routes.last_mut() {
                Some(line) if shares => {
                    line.push_str(if wide { " ,\r\n " } else { "," });
                    line.push_str(&value);
                }
                _ => routes.push(value),
            }
        }
        let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
        let text = if is_strict { bye(&routes).uri("sip:127.0.0.1;lr") } else { bye(&routes) };
        let mut draft = text.draft();
        let own = kit::own();
        for _ in 0..=values.len() {
            let before: Vec<String> = left(&draft);
            let uri = text_of(&draft);
            let result = loose_route(&mut draft, &own);
            let after = left(&draft);
            prop_assert_eq!(result == -1, before.is_empty());
            // What is there is what was there, values gone from the front or the end, and the old
            // Request-URI behind them.
            let kept: Vec<_> = after.iter().filter(|value| before.contains(value)).collect();
            let mut rest = before.iter();
            prop_assert!(kept.iter().all(|value| rest.any(|other| other == *value)));
            prop_assert!(after.iter().all(|value| before.contains(value) || *value == uri));
            if after.last() == Some(&uri) {
                // A line that was put in is no stop of this message.
                break;
            }
        }
    }
}

fn text_of(draft: &Draft) -> String {
    text(Some(draft.uri()))
}

/// The Route URIs of what would leave.
fn left(draft: &Draft) -> Vec<String> {
    let sent = kit::parse(kit::forwarded(draft, &kit::own(), 0));
    let addresses = sent.addresses(crate::sip::message::Name::Route);
    addresses.map(|address| text(Some(address.expect("an address").uri))).collect()
}
