use super::*;
use crate::sip::kit::{self, Text};

/// The bits, up to 256, by which a request from a public address is one from behind a NAT.
fn bits(text: &Text, source: &str) -> Vec<i64> {
    let draft = text.draft_from(kit::udp_from(source));
    let bits = (0..9).map(|bit| 1 << bit);
    bits.filter(|bit| nat_uac_test(&draft, *bit) == 1).collect()
}

/// A request that is what it says.
fn plain() -> Text {
    kit::invite()
        .set("Via", "SIP/2.0/UDP 198.51.100.7;branch=z9hG4bKn1")
        .set("Contact", "<sip:alice@198.51.100.7>")
}

const SOURCE: &str = "198.51.100.7:5060";

#[test]
fn a_request_that_is_what_it_says_comes_from_no_nat() {
    assert_eq!(bits(&plain(), SOURCE), [0; 0]);
    assert_eq!(nat_uac_test(&plain().draft_from(kit::udp_from(SOURCE)), 511), -1);
    assert_eq!(bits(&plain().without("Contact"), SOURCE), [0; 0]);
    let six = kit::invite()
        .set("Via", "SIP/2.0/UDP [2001:DB8:0::1];branch=z9hG4bKn1")
        .set("Contact", "<sip:alice@[2001:db8::1]>");
    assert_eq!(bits(&six, "[2001:db8::1]:5060"), [0; 0]);
}

#[test]
fn each_bit_is_a_test_of_its_own() {
    let contact = |uri: &str| plain().set("Contact", uri);
    assert_eq!(bits(&contact("<sip:a@10.0.0.1>"), SOURCE), [1]);
    assert_eq!(bits(&contact("<sip:a@198.51.100.7>, <sip:a@192.168.0.1>"), SOURCE), [1]);
    assert_eq!(bits(&contact("<sip:a@198.51.100.7:5061>"), SOURCE), [128]);
    let via = |sent_by: &str| plain().set("Via", &format!("SIP/2.0/UDP {sent_by};branch=z9hG4bK1"));
    assert_eq!(bits(&via("198.51.100.8"), SOURCE), [2]);
    assert_eq!(bits(&via("host.test"), SOURCE), [2]);
    assert_eq!(bits(&via("10.0.0.1"), SOURCE), [2, 4]);
    assert_eq!(bits(&via("198.51.100.7:5070"), SOURCE), [16]);
    assert_eq!(bits(&plain(), "198.51.100.7:5070"), [16, 128], "absent ports are 5060");
    assert_eq!(bits(&plain(), "10.0.0.1:5060"), [2, 32]);
    let draft = via("10.0.0.1").draft_from(kit::udp_from(SOURCE));
    assert_eq!([nat_uac_test(&draft, 19), nat_uac_test(&draft, 17)], [1, -1], "one is enough");
}

#[test]
fn addresses_in_the_sdp_are_looked_at() {
    let sdp = |address: &str, kind: &str| {
        let body = format!("v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\nc=IN IP4 {address}\r\nt=0 0\r\n");
        plain().line(&format!("c: {kind}")).body(body.as_bytes())
    };
    assert_eq!(bits(&sdp("198.51.100.7", "application/sdp"), SOURCE), [0; 0]);
    assert_eq!(bits(&sdp("198.51.100.8", "application/SDP ;x=y"), SOURCE), [256]);
    assert_eq!(bits(&sdp("10.0.0.1", "multipart/mixed;boundary=x"), SOURCE), [8, 256]);
    assert_eq!(bits(&sdp("0.0.0.0", "application/sdp"), SOURCE), [0; 0], "on hold");
    assert_eq!(bits(&sdp("224.2.1.1/127", "application/sdp"), SOURCE), [256]);
    assert_eq!(bits(&sdp("10.0.0.1", "text/plain"), SOURCE), [0; 0]);
    assert_eq!(bits(&sdp("host.test", "application/sdp"), SOURCE), [0; 0]);
    let bare = plain().line("Content-Type: application/sdp").body(b"c=IN IP\nc=IN IP4\n\nc=");
    assert_eq!(bits(&bare, SOURCE), [0; 0]);
}

#[test]
fn private_addresses_are_those_of_rfc_1918_and_6598() {
    for (ip, private) in [
        ("10.0.0.0", true),
        ("10.255.255.255", true),
        ("172.15.0.1", false),
        ("172.16.0.1", true),
        ("172.31.255.255", true),
        ("172.32.0.1", false),
        ("192.168.255.1", true),
        ("100.63.255.255", false),
        ("100.64.0.0", true),
        ("100.127.255.255", true),
        ("100.128.0.0", false),
        ("192.0.0.1", true),
        ("192.0.0.8", false),
        ("127.0.0.1", false),
        ("169.254.0.1", false),
        ("fd00::1", false),
    ] {
        assert_eq!(is_private(ip.parse().unwrap()), private, "{ip}");
    }
}

/// What a function gives, and the Contact that leaves.
fn contact(text: &Text, change: fn(&mut Draft) -> i64) -> (i64, String) {
    let mut draft = text.draft_from(kit::tcp_from("198.51.100.7:4000", 1));
    let given = change(&mut draft);
    let out = kit::forwarded(&draft, &kit::own(), 0);
    let contact = kit::lines(&out, "Contact").join(" | ");
    (given, contact)
}

#[test]
fn a_contact_gets_the_address_of_the_source_and_keeps_everything_else() {
    for (before, after) in [
        ("<sip:a@10.0.0.1>", "<sip:a@198.51.100.7:4000>"),
        ("sip:a@10.0.0.1;expires=5", "sip:a@198.51.100.7:4000;expires=5"),
        (
            "\"A, <B>\" <sip:a:p@10.0.0.1:99;transport=tcp;ob>;expires=5",
            "\"A, <B>\" <sip:a:p@198.51.100.7:4000;transport=tcp;ob>;expires=5",
        ),
        ("<sips:[fd00::1]:5?x=y>", "<sips:198.51.100.7:4000?x=y>"),
        (
            "<sip:a@10.0.0.1>,<tel:+1>, <sip:b@10.0.0.2:1>",
            "<sip:a@198.51.100.7:4000>,<tel:+1>, <sip:b@198.51.100.7:4000>",
        ),
    ] {
        let text = kit::request("REGISTER").set("Contact", before);
        assert_eq!(contact(&text, fix_nated_contact), (1, format!("Contact: {after}")));
    }
}

#[test]
fn a_contact_without_a_host_stays_as_it_is() {
    for uri in ["*", "<tel:+123>", "<nonsense>"] {
        let text = kit::request("REGISTER").set("Contact", uri);
        for change in [fix_nated_contact, set_contact_alias, add_contact_alias] {
            assert_eq!(contact(&text, change), (-1, format!("Contact: {uri}")));
        }
    }
    assert_eq!(contact(&kit::invite().without("Contact"), fix_nated_contact).0, -1);
}

#[test]
fn an_alias_is_a_parameter_of_the_uri() {
    for (before, set, add) in [
        ("<sip:a@10.0.0.1>", "<sip:a@10.0.0.1{}>", "<sip:a@10.0.0.1{}>"),
        (
            "sip:10.0.0.1:9;expires=5",
            "<sip:10.0.0.1:9{}>;expires=5",
            "<sip:10.0.0.1:9{}>;expires=5",
        ),
        (
            "A <sip:a@10.0.0.1;ob?x=y>;q=1",
            "A <sip:a@10.0.0.1;ob{}?x=y>;q=1",
            "A <sip:a@10.0.0.1{};ob?x=y>;q=1",
        ),
        // The first one leads back.
        (
            "<sip:a@10.0.0.1;x;alias=192.0.2.4~1~1>",
            "<sip:a@10.0.0.1{};x;alias=192.0.2.4~1~1>",
            "<sip:a@10.0.0.1{};x;alias=192.0.2.4~1~1>",
        ),
    ] {
        let text = kit::invite().set("Contact", before);
        let line =
            |after: &str| format!("Contact: {after}").replace("{}", ";alias=198.51.100.7~4000~2");
        assert_eq!(contact(&text, set_contact_alias), (1, line(set)));
        assert_eq!(contact(&text, add_contact_alias), (1, line(add)));
    }
}

#[test]
fn a_contact_is_changed_once() {
    for second in [fix_nated_contact, set_contact_alias] {
        let mut draft = kit::invite().draft();
        assert_eq!([fix_nated_contact(&mut draft), second(&mut draft)], [1, -1]);
        let mut draft = kit::invite().draft();
        assert_eq!([set_contact_alias(&mut draft), second(&mut draft)], [1, -1]);
        let mut draft = kit::invite().draft();
        draft.lumps.remove(draft.message.first(Name::Contact).unwrap().line);
        assert_eq!(second(&mut draft), -1);
    }
}

fn ruri(uri: &str) -> (i64, String, Option<String>) {
    let mut draft = kit::request("BYE").uri(uri).draft();
    let given = handle_ruri_alias(&mut draft);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (given, text(draft.uri()), draft.dst_uri.as_deref().map(text))
}

#[test]
fn an_alias_that_comes_back_is_where_the_request_goes() {
    for (before, after, dst) in [
        ("sip:b@10.0.0.1;alias=192.0.2.4~5070~1", "sip:b@10.0.0.1", "sip:192.0.2.4:5070"),
        (
            "sip:b@10.0.0.1:9;z;alias=[2001:db8::1]~5070~2;x=y?h=v",
            "sip:b@10.0.0.1:9;z;x=y?h=v",
            "sip:[2001:db8::1]:5070;transport=tcp",
        ),
        (
            "sip:b@10.0.0.1;alias=192.0.2.4~1~3;alias=192.0.2.5~2~1",
            "sip:b@10.0.0.1;alias=192.0.2.5~2~1",
            "sip:192.0.2.4:1;transport=tls",
        ),
    ] {
        assert_eq!(ruri(before), (1, after.to_owned(), Some(dst.to_owned())));
    }
}

#[test]
fn a_request_uri_without_an_alias_of_use_stays_as_it_is() {
    for (uri, given) in [
        ("sip:b@10.0.0.1", 2),
        ("sip:b@10.0.0.1;alias", 2),
        ("sip:b@10.0.0.1;alias=foo", 2),
        ("sip:b@10.0.0.1;alias=192.0.2.4~1", 2),
        ("sip:b@10.0.0.1;alias=host.test~5070~1", -1),
        ("sip:b@10.0.0.1;alias=192.0.2.4~5070~9", -1),
        ("sip:b@10.0.0.1;alias=192.0.2.4~99999~1", -1),
        ("sip:b@10.0.0.1;alias=192.0.2.4~0~1", -1),
        ("sip:b@10.0.0.1;alias=~~", -1),
        ("tel:+1;alias=192.0.2.4~1~1", 2),
        ("nonsense", -1),
    ] {
        let (found, after, dst) = ruri(uri);
        assert_eq!((found, after.as_str(), dst), (given, uri, None), "{uri}");
    }
}

#[test]
fn an_alias_that_was_set_leads_back_to_the_source() {
    for source in ["198.51.100.7:4000", "[2001:db8::1]:4000"] {
        let mut draft = kit::invite().draft_from(kit::udp_from(source));
        assert_eq!(set_contact_alias(&mut draft), 1);
        let out = kit::forwarded(&draft, &kit::own(), 0);
        let contact = kit::value(&out, "Contact").trim_matches(['<', '>']);
        let (given, uri, dst) = ruri(contact);
        assert_eq!((given, dst), (1, Some(format!("sip:{source}"))));
        assert_eq!(uri, "sip:alice@127.0.0.1:15060");
    }
}
