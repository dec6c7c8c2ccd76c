use super::*;
use crate::sip::kit::{self, Text};

fn hop(text: &Text) -> Result<ReplyHop, ReplyDrop> {
    next_hop(&text.draft_from(kit::udp_from("127.0.0.1:15071")))
}

/// The reply whose second Via is this one, and where it goes.
fn back(via: &str) -> Result<String, ReplyDrop> {
    let text = kit::reply(200, "OK").without("Via").top(&format!("Via: {via}"));
    let hop = hop(&text.top("Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKown"))?;
    Ok(match hop.to {
        ReplyTo::Address(to) => format!("{} {to}", hop.transport.word()),
        ReplyTo::Name(name, port) => {
            format!("{} {} {port:?}", hop.transport.word(), String::from_utf8_lossy(&name))
        }
    })
}

fn returned(text: &Text, socket: u16) -> String {
    kit::returned(&text.draft_from(kit::udp_from("127.0.0.1:15071")), &kit::own(), socket)
}

#[test]
fn sip_r025_the_line_of_the_top_via_goes_and_nothing_else() {
    let text = kit::reply(180, "Ringing").line("X-Odd :  1").body(b"\r\nz");
    let came = text.text();
    let top = "Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKown\r\n";
    assert_eq!(returned(&text, 0), came.replace(top, ""));
}

#[test]
fn sip_r025_of_values_that_share_a_line_only_the_first_goes() {
    let text = kit::reply(200, "OK")
        .without("Via")
        .top("v:  SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKown ,\r\n SIP/2.0/UDP a, SIP/2.0/UDP b");
    let sent = returned(&text, 0);
    assert!(sent.contains("OK\r\nv:  SIP/2.0/UDP a, SIP/2.0/UDP b\r\nFrom"), "{sent}");
}

#[test]
fn sip_r026_without_a_second_via_it_is_dropped() {
    let text =
        kit::reply(200, "OK").without("Via").top("Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKo");
    assert_eq!(hop(&text), Err(ReplyDrop::NoVia));
}

#[test]
fn a_second_via_that_is_of_no_use() {
    for bad in [
        "SIP/2.0/UDP",
        "SIP/2.0/TLS 10.0.0.1",
        "SIP/2.0/SCTP 10.0.0.1",
        "SIP/2.0/UDP 10.0.0.1:0",
        "SIP/2.0/UDP [fe80::1%25lo]",
    ] {
        assert_eq!(back(bad), Err(ReplyDrop::BadVia), "{bad}");
    }
    let shared =
        kit::reply(200, "OK").without("Via").top("Via: SIP/2.0/UDP 127.0.0.1, SIP/2.0/UDP");
    assert_eq!(hop(&shared), Err(ReplyDrop::BadVia));
}

#[test]
fn sip_r027_r028_a_top_via_of_others_is_as_good_as_ours() {
    let text = kit::reply(200, "OK").set("Via", "SIP/2.0/UDP 10.1.2.3:9;branch=z9hG4bKother");
    let hop = hop(&text).expect("a hop");
    assert_eq!(hop.to, ReplyTo::Address("127.0.0.1:15060".parse().expect("an address")));
    assert_eq!(kit::lines(&returned(&text, 0), "Via").len(), 1);
}

#[test]
fn sip_r023_a_100_goes_like_any_other() {
    let text = kit::reply(100, "Trying");
    assert!(hop(&text).is_ok());
    assert!(returned(&text, 0).starts_with("SIP/2.0 100 Trying\r\n"));
}

#[test]
fn sip_r008_to_the_source_address_and_port_where_rport_was_asked() {
    let to = back("SIP/2.0/UDP 10.99.99.99:5078;received=127.0.0.1;rport=15060;branch=z9hG4bK1");
    assert_eq!(to, Ok("udp 127.0.0.1:15060".into()));
}

#[test]
fn sip_r009_else_to_the_source_address_and_the_port_of_the_via() {
    assert_eq!(
        back("SIP/2.0/UDP 10.99.99.99:5078;received=127.0.0.1"),
        Ok("udp 127.0.0.1:5078".into())
    );
    assert_eq!(back("SIP/2.0/UDP 127.0.0.1:15099"), Ok("udp 127.0.0.1:15099".into()));
    assert_eq!(back("SIP/2.0/UDP 10.0.0.1"), Ok("udp 10.0.0.1:5060".into()));
    assert_eq!(back("SIP/2.0/TCP 10.0.0.1"), Ok("tcp 10.0.0.1:5060".into()));
    assert_eq!(back("SIP/2.0/UDP 10.0.0.1:7;rport"), Ok("udp 10.0.0.1:7".into()));
    assert_eq!(back("SIP/2.0/UDP 10.0.0.1:7;rport=0"), Ok("udp 10.0.0.1:7".into()));
    assert_eq!(back("SIP/2.0/UDP 10.0.0.1:7;rport=x"), Ok("udp 10.0.0.1:7".into()));
}

#[test]
fn a_name_without_received_is_resolved() {
    assert_eq!(back("SIP/2.0/UDP PC.example:7"), Ok("udp pc.example Some(7)".into()));
    assert_eq!(back("SIP/2.0/TCP pc.example"), Ok("tcp pc.example None".into()));
    assert_eq!(back("SIP/2.0/UDP pc.example;received=10.0.0.1"), Ok("udp 10.0.0.1:5060".into()));
}

#[test]
fn case_s23_received_with_brackets_leads_to_that_address() {
    assert_eq!(back("SIP/2.0/UDP [2001:db8::1];received=[::1]"), Ok("udp [::1]:5060".into()));
    assert_eq!(back("SIP/2.0/UDP x;received=::1;rport=9"), Ok("udp [::1]:9".into()));
    assert_eq!(back("SIP/2.0/UDP [2001:db8::1]:7"), Ok("udp [2001:db8::1]:7".into()));
}

#[test]
fn sip_r139_the_removed_via_names_the_connection() {
    let connection = |own: &str, second: &str| {
        let text = kit::reply(200, "OK").without("Via").top(&format!("Via: SIP/2.0/{second}"));
        hop(&text.top(&format!("Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKo{own}")))
            .expect("a hop")
            .connection
    };
    assert_eq!(connection(";i=a1", "TCP 10.0.0.1"), Some(ConnectionId(0x1a)));
    assert_eq!(connection(";i=a1", "UDP 10.0.0.1"), None, "UDP has none");
    assert_eq!(connection("", "TCP 10.0.0.1"), None);
    assert_eq!(connection(";i=xyz", "TCP 10.0.0.1"), None);
    assert_eq!(connection(";i", "TCP 10.0.0.1"), None);
}

#[test]
fn sip_r160_content_length_is_added_towards_tcp() {
    let text = kit::reply(200, "OK").without("Content-Length").body(b"hello");
    assert_eq!(kit::value(&returned(&text, 1), "Content-Length"), "5");
    assert!(!returned(&text, 0).contains("Content-Length"));
}

#[test]
fn another_status_takes_the_place_of_the_line() {
    let mut draft = kit::reply(503, "Service Unavailable").draft();
    draft.status = Some((500, "Server Error".into()));
    let sent = kit::returned(&draft, &kit::own(), 0);
    assert!(
        sent.starts_with("SIP/2.0 500 Server Error\r\nVia: SIP/2.0/UDP 127.0.0.1:15060"),
        "{sent}"
    );
}
