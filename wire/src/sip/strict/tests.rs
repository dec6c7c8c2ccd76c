use std::time::Instant;

use super::*;
use crate::sip::kit::{self, Text};
use crate::sip::sl::Sl;

/// The status and the header lines of the answer.
fn refused(request: &Text) -> Option<(u16, Vec<Bytes>)> {
    check(&request.draft(), &kit::own()).map(|(failure, lines)| (failure.code, lines))
}

#[test]
fn sip_rfc3261_16_3_another_scheme_is_416() {
    for uri in ["http://example.com", "urn:service:sos", "mailto:bob@example.com", "SIPX:bob@a"] {
        assert_eq!(refused(&kit::invite().uri(uri)), Some((416, vec![])), "{uri}");
        assert_eq!(refused(&kit::request("MESSAGE").uri(uri)), Some((416, vec![])), "{uri}");
    }
    for uri in ["sip:bob@example.com", "SIPS:bob@example.com", "tel:+15551234", "nonsense", "sip:"]
    {
        assert_eq!(refused(&kit::invite().uri(uri)), None, "{uri}");
    }
}

#[test]
fn sip_rfc3261_16_3_proxy_require_is_420_with_what_is_not_supported() {
    let request = kit::invite().line("Proxy-Require: privacy, foo").line("proxy-require: bar");
    let (failure, lines) = check(&request.draft(), &kit::own()).unwrap();
    assert_eq!((failure.code, failure.reason, lines.len()), (420, "Bad Extension", 0));
    let mut out = Vec::new();
    let draft = request.draft();
    let reason = failure.reason.as_bytes();
    Sl::new(&kit::own()).reply(&draft, failure.code, reason, Instant::now(), &mut out).unwrap();
    let reply = String::from_utf8(out).unwrap();
    let unsupported = kit::lines(&reply, "Unsupported");
    assert_eq!(unsupported, ["Unsupported: privacy, foo", "Unsupported: bar"]);
    assert_eq!(refused(&kit::invite().line("Require: foo")), None, "it is for the callee");
}

#[test]
fn sip_rfc3261_8_2_1_a_method_that_this_host_does_not_serve_is_405() {
    for uri in ["sip:127.0.0.1", "sip:127.0.0.2:5060;transport=tcp", "sips:127.0.0.1"] {
        for method in ["INVITE", "MESSAGE", "SUBSCRIBE", "WHATEVER"] {
            let (code, lines) = refused(&kit::request(method).uri(uri)).unwrap();
            assert_eq!(code, 405, "{method} {uri}");
            assert_eq!(lines, [&b"Allow: OPTIONS, REGISTER, CANCEL, ACK\r\n"[..]]);
        }
        for method in ["OPTIONS", "REGISTER"] {
            assert_eq!(refused(&kit::request(method).uri(uri)), None, "{method} {uri}");
        }
    }
    for uri in ["sip:bob@127.0.0.1", "sip:127.0.0.1:5099", "sip:example.com", "tel:5551234"] {
        assert_eq!(refused(&kit::request("MESSAGE").uri(uri)), None, "{uri}");
    }
}

#[test]
fn sip_r118_what_a_strict_router_sends_is_for_somebody_behind_this_host() {
    let bye = kit::request("BYE").uri("sip:127.0.0.1;lr").set("To", "<sip:bob@127.0.0.1>;tag=b");
    assert_eq!(refused(&bye.line("Route: <sip:bob@127.0.0.1:15062>")), None);
}

#[test]
fn sip_r158_an_ack_is_never_answered_and_a_cancel_goes_the_way_of_its_invite() {
    for method in ["ACK", "CANCEL"] {
        for uri in ["http://example.com", "sip:127.0.0.1"] {
            let request = kit::request(method).uri(uri).line("Proxy-Require: foo");
            assert_eq!(refused(&request), None, "{method} {uri}");
        }
    }
    let reply = kit::reply(200, "OK").line("Proxy-Require: foo");
    assert_eq!(refused(&reply), None);
}
