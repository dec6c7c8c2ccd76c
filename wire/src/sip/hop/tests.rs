use super::*;
use crate::sip::kit;

fn hop(uri: &str) -> Result<(String, Option<u16>, Option<Transport>), u16> {
    let hop = Hop::of(uri.as_bytes()).map_err(|failure| failure.code)?;
    let host = match hop.host {
        HopHost::Ip(ip) => format!("ip {ip}"),
        HopHost::Name(name) => format!("name {}", String::from_utf8_lossy(&name)),
    };
    Ok((host, hop.port, hop.transport))
}

#[test]
fn the_order_is_explicit_then_du_then_request_uri() {
    let mut draft = kit::invite().draft();
    let host = |draft: &Draft, explicit| next_hop(draft, explicit).expect("a hop").port;
    assert_eq!(host(&draft, None), Some(5060));
    draft.uri = Some("sip:bob@127.0.0.1:1".into());
    assert_eq!(host(&draft, None), Some(1));
    draft.dst_uri = Some("sip:127.0.0.1:2".into());
    assert_eq!(host(&draft, None), Some(2));
    assert_eq!(host(&draft, Some(b"sip:127.0.0.1:3")), Some(3));
    assert_eq!(draft.uri(), b"sip:bob@127.0.0.1:1", "the choice leaves the Request-URI alone");
}

#[test]
fn host_port_and_transport_of_the_uri() {
    let udp = Some(Transport::Udp);
    let tcp = Some(Transport::Tcp);
    assert_eq!(hop("sip:bob@10.0.0.1"), Ok(("ip 10.0.0.1".into(), None, None)));
    assert_eq!(hop("SIP:10.0.0.1:5070;transport=TCP"), Ok(("ip 10.0.0.1".into(), Some(5070), tcp)));
    assert_eq!(hop("sip:[::1]:5070;transport=udp"), Ok(("ip ::1".into(), Some(5070), udp)));
    assert_eq!(hop("sip:bob@Example.COM."), Ok(("name example.com".into(), None, None)));
    assert_eq!(
        hop("sip:bob@example.com:5070;maddr=10.0.0.9;lr"),
        Ok(("ip 10.0.0.9".into(), Some(5070), None))
    );
    assert_eq!(hop("sip:b@x;maddr=Relay.example"), Ok(("name relay.example".into(), None, None)));
}

#[test]
fn what_leads_nowhere() {
    for carried_by_none in [
        "sips:bob@10.0.0.1",
        "sip:bob@10.0.0.1;transport=tls",
        "sip:bob@10.0.0.1;transport=ws",
        "sip:bob@10.0.0.1;transport=sctp",
        "tel:+1234567",
    ] {
        assert_eq!(hop(carried_by_none), Err(478), "{carried_by_none}");
    }
    for bad in
        ["", "bob", "sip:", "sip:bob@", "sip:bob@10.0.0.1:99999", "sip:b@x;maddr=", "sip:x:0"]
    {
        assert_eq!(hop(bad), Err(479), "{bad}");
    }
    assert_eq!(hop(&format!("sip:{}", "a".repeat(254))), Err(479));
}
