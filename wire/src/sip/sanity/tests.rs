use super::*;
use crate::sip::kit::{self, Text};

const USUAL: (i64, i64) = (17_895, 7);

fn code(text: &Text, (message, uris): (i64, i64)) -> Option<u16> {
    check(&text.draft(), message, uris).map(|failure| failure.code)
}

/// The check finds the fault by this bit, and by no other of all.
fn found_by(text: &Text, bit: i64, uris: i64) {
    assert_eq!(code(text, (bit, uris)), Some(400), "{}", text.text());
    let others = 0x7fff & !bit;
    assert_eq!(code(text, (others, uris)), None, "{}", text.text());
}

#[test]
fn a_sound_request_passes_every_check() {
    let invite = kit::invite();
    for bits in [USUAL, (0x7fff, 15), (i64::MAX, i64::MAX), (-1, -1), (0, 0)] {
        assert_eq!(code(&invite, bits), None);
    }
    let register = kit::request("REGISTER").set("Contact", "*").line("Expires: 0");
    assert_eq!(code(&register, (0x7fff, 15)), None);
    let urgent = kit::invite().uri("urn:service:sos").set("Contact", "<sip:[::1]:15060>, <tel:+1>");
    assert_eq!(code(&urgent, (0x7fff, 15)), None);
    let unknown = kit::request("WHATEVER").body(b"0123").without("Contact");
    assert_eq!(code(&unknown, USUAL), None);
    assert_eq!(code(&kit::reply(200, "OK"), USUAL), None);
}

#[test]
fn a_request_uri_of_no_known_scheme_is_refused() {
    for uri in ["http://127.0.0.1", "nobodyKnowsThisScheme:totallyopaquecontent"] {
        found_by(&kit::invite().uri(uri), bit::SCHEME, 7);
    }
    assert_eq!(code(&kit::invite().uri("<sip:bob@127.0.0.1>"), USUAL), Some(400));
    assert_eq!(code(&kit::invite().uri("SIP:bob@127.0.0.1"), USUAL), None);
    assert_eq!(code(&kit::invite().uri("tel:+123"), USUAL), None);
}

#[test]
fn case_s28_headers_that_must_be_unique_are_refused_twice() {
    for line in [
        "To: <sip:b@127.0.0.1>;tag=",
        "t: <sip:b@127.0.0.1>",
        "From: <sip:c@127.0.0.1>;tag=9",
        "i: other",
        "CSeq: 1 INVITE",
    ] {
        found_by(&kit::invite().line(line), bit::REQUIRED, 7);
    }
    assert_eq!(code(&kit::invite().line("Max-Forwards: 9"), USUAL), None, "the first counts");
}

#[test]
fn case_s28_a_cseq_of_another_method_or_beyond_32_bits_is_refused() {
    found_by(&kit::invite().set("CSeq", "1 BYE"), bit::CSEQ_METHOD, 7);
    found_by(&kit::invite().set("CSeq", "1 invite"), bit::CSEQ_METHOD, 7);
    found_by(&kit::invite().set("CSeq", "4294967296 INVITE"), bit::CSEQ_VALUE, 7);
    found_by(&kit::invite().set("CSeq", "36893488147419103232 INVITE"), bit::CSEQ_VALUE, 7);
    assert_eq!(code(&kit::invite().set("CSeq", "4294967295 INVITE"), USUAL), None);
}

#[test]
fn case_s19_a_content_length_that_is_not_what_came_is_refused() {
    let hello = || kit::request("MESSAGE").body(b"hello");
    for length in [
        "2000000000",
        "4294967301",
        "99999999999999999999",
        "-1",
        "5x",
        "",
        "3",
        "9",
        "0",
        "+5",
        "5 5",
    ] {
        found_by(&hello().set("Content-Length", length), bit::LENGTH, 7);
    }
    found_by(&hello().line("Content-Length: 6"), bit::LENGTH, 7);
    for fine in [
        hello(),
        hello().line("l: 5"),
        hello().without("Content-Length"),
        hello().set("Content-Length", "0005"),
    ] {
        assert_eq!(code(&fine, USUAL), None, "{}", fine.text());
    }
}

#[test]
fn an_expires_that_is_no_number_is_refused() {
    for value in ["abc", "4294967296", "-1", "", "1.5", "+1"] {
        found_by(&kit::invite().line(&format!("Expires: {value}")), bit::EXPIRES, 7);
    }
    assert_eq!(code(&kit::invite().line("Expires: 4294967295"), USUAL), None);
}

#[test]
fn case_s28_uris_that_can_not_be_read_are_refused_as_the_second_number_says() {
    for (text, uris) in [
        (kit::invite().uri("sip:a@127.0.0.1:99999"), uri_bit::REQUEST),
        (kit::invite().uri("sip:a\0b@127.0.0.1"), uri_bit::REQUEST),
        (kit::invite().set("From", "<nonsense>;tag=1"), uri_bit::FROM),
        (kit::invite().set("From", "<sip:a\0b@127.0.0.1>;tag=1"), uri_bit::FROM),
        (kit::invite().set("To", "<sip:>"), uri_bit::TO),
        (kit::invite().set("Contact", "<nonsense>"), uri_bit::CONTACT),
        (kit::invite().set("Contact", "<sip:a@127.0.0.1>, <sip:b@"), uri_bit::CONTACT),
    ] {
        found_by(&text, bit::URIS, uris);
        assert_eq!(code(&text, (bit::URIS, 15)), Some(400));
        assert_eq!(code(&text, (bit::URIS, 15 & !uris)), None);
    }
}

#[test]
fn case_s28_a_via_below_the_top_that_can_not_be_read_is_refused() {
    for line in [
        "Via: nonsense",
        "Via: SIP/2.0/UDP",
        "Via: SIP/2.0/UDP a;branch=z9hG4bK1,",
        "Via: SIP/2.0/UDP a;branch=z9hG4bK1, SIP/2.0/UDP",
        "Via: SIP/2.0/UDP :;branch=",
    ] {
        found_by(&kit::invite().behind("Via", line), bit::VIA, 7);
    }
    let many = format!("Via: SIP/2.0/TCP a;x=\",\" {}", ", SIP/2.0/UDP b".repeat(99));
    assert_eq!(code(&kit::invite().behind("Via", &many), USUAL), None);
    assert_eq!(code(&kit::invite().ends("\n"), USUAL), None, "R146");
}

#[test]
fn what_a_proxy_is_required_to_know_is_a_420() {
    let text = kit::invite().line("Proxy-Require: foo");
    assert_eq!(code(&text, (bit::PROXY_REQUIRE, 0)), Some(420));
    assert_eq!(code(&text, USUAL), None);
}

#[test]
fn more_than_one_tag_is_refused() {
    found_by(&kit::invite().set("From", "<sip:a@127.0.0.1>;tag=1;TAG=2"), bit::TAGS, 7);
    found_by(&kit::invite().set("To", "<sip:a@127.0.0.1>;tag=1;x;tag=1"), bit::TAGS, 7);
}

#[test]
fn credentials_without_all_that_a_digest_needs_are_refused() {
    let auth = |value: &str| kit::invite().line(&format!("Proxy-Authorization: {value}"));
    let full = r#"Digest username="a\",b", realm="r",nonce=n ,uri="sip:x",response="00",qop=auth"#;
    assert_eq!(code(&auth(full), (0x7fff, 7)), None);
    for value in [
        full.replace("nonce=n", "x=n"),
        full.replace(r#""r""#, r#""""#),
        full.replace(r#""00""#, ""),
        r#"Digest username="a,realm=b,nonce=c,uri=d,response=e""#.to_owned(),
        "Digest".to_owned(),
    ] {
        assert_eq!(code(&auth(&value), (bit::DIGEST, 0)), Some(400), "{value}");
        assert_eq!(code(&auth(&value), (bit::AUTHORIZATION, 0)), Some(400), "{value}");
        assert_eq!(code(&auth(&value), USUAL), None);
    }
    assert_eq!(code(&auth("Bearer abc"), (bit::DIGEST, 0)), Some(400));
    assert_eq!(code(&auth("Bearer abc"), (bit::AUTHORIZATION, 0)), None);
}

#[test]
fn case_s28_the_largest_message_is_checked_at_once() {
    let vias = format!("Via: SIP/2.0/UDP a{}", ",SIP/2.0/UDP b".repeat(1_100));
    let text = (0..3).fold(kit::invite(), |text, _| text.behind("Via", &vias));
    let draft = text.draft();
    let start = std::time::Instant::now();
    assert_eq!(check(&draft, -1, -1), None);
    assert!(start.elapsed().as_millis() < 1_000, "{:?}", start.elapsed());
}
