use super::*;

/// User, password, host, port and parameters.
type Told<'a> = (Option<&'a str>, Option<&'a str>, &'a str, Option<u16>, &'a str);

fn told(text: &str) -> Result<Told<'_>, UriError> {
    let text_of = |bytes| std::str::from_utf8(bytes).unwrap();
    let uri = Uri::parse(text.as_bytes())?;
    assert_eq!(text_of(uri.text), text);
    let (user, password) = (uri.user.map(text_of), uri.password.map(text_of));
    Ok((user, password, text_of(uri.host), uri.port, text_of(uri.params.0)))
}

#[test]
fn uris_of_all_shapes() {
    assert_eq!(told("sip:h"), Ok((None, None, "h", None, "")));
    assert_eq!(told("SIP:u@h:5061"), Ok((Some("u"), None, "h", Some(5061), "")));
    assert_eq!(told("sips:u:p@h;a=b;lr?x=y"), Ok((Some("u"), Some("p"), "h", None, "a=b;lr")));
    assert_eq!(told("sip:[2001:db8::1]:80;lr"), Ok((None, None, "[2001:db8::1]", Some(80), "lr")));
    assert_eq!(told("sip:u@h?a=b;c"), Ok((Some("u"), None, "h", None, "")));
    // Semicolons, question marks and escapes in a user (RFC 4475 3.1.1.9 and 3.1.1.3).
    let user = "user;par=u%40example.net";
    assert_eq!(told(&format!("sip:{user}@h")), Ok((Some(user), None, "h", None, "")));
    assert_eq!(told("sip:a?b@h"), Ok((Some("a?b"), None, "h", None, "")));
    assert_eq!(told("tel:+1-201-555;ext=1"), Ok((Some("+1-201-555"), None, "", None, "ext=1")));
    assert_eq!(told("soap.beep://192.0.2.103:3002"), Ok((None, None, "", None, "")));
    let query = Uri::parse(b"sip:h;lr?to=x&y").unwrap();
    assert_eq!((query.headers, query.params.has(b"LR")), (Some(&b"to=x&y"[..]), true));
}

#[test]
fn texts_that_are_no_uri() {
    for text in [
        "",
        "*",
        "sip",
        "sip:",
        ":h",
        "1sip:h",
        "s p:h",
        "sip:@h",
        "sip::p@h",
        "sip:u@",
        "sip:u@:1",
        "sip:h:",
        "sip:h:x",
        "sip:h:65536",
        "sip:[::1",
        "sip:[]",
        "sip:2001:db8::1",
        "sip:h h",
        "sip:u@h@i",
        "<sip:h>",
        "sip:h>",
        "sip:\"u\"@h",
        "sip:u\0@h",
        "sip:h\r\n",
        "tel:",
        "tel:;x",
        "sip:h/x",
    ] {
        assert_eq!(told(text), Err(UriError), "{text:?}");
    }
}

#[test]
fn parameters_with_their_values() {
    let params = Params(b" a = 1 ;;b; c=\"x;\\\"y\" ;d=; A=2;e=\"");
    let all: Vec<_> = params
        .iter()
        .map(|(name, value)| (name, value.map(|value| std::str::from_utf8(value).unwrap())))
        .collect();
    assert_eq!(
        all,
        [
            (&b"a"[..], Some("1")),
            (b"b", None),
            (b"c", Some("x;\\\"y")),
            (b"d", Some("")),
            (b"A", Some("2")),
            (b"e", Some("\"")),
        ]
    );
    assert_eq!(params.get(b"A"), Some(Some(&b"1"[..])), "the first counts");
    assert_eq!(params.get(b"B"), Some(None));
    assert!(!params.has(b"x") && !Params(b"").has(b""));
}

#[test]
fn case_s23_hosts_that_are_addresses() {
    let ip = |text: &str| host_ip(text.as_bytes()).map(|ip| ip.to_string());
    assert_eq!(ip("127.0.0.1").as_deref(), Some("127.0.0.1"));
    assert_eq!(ip("[2001:DB8:0:0::1]").as_deref(), Some("2001:db8::1"));
    assert_eq!(ip("::1").as_deref(), Some("::1"));
    for name in ["", "h", "[127.0.0.1]", "[h]", "127.1", "[::1", "[fe80::1%25lo]", "\u{e9}"] {
        assert_eq!(ip(name), None, "{name}");
    }
}

#[test]
fn a_telephone_number_has_parameters_of_its_own() {
    let parts = |text: &'static str| {
        let uri = Uri::parse(text.as_bytes()).unwrap();
        let text = |part: &'static [u8]| std::str::from_utf8(part).unwrap();
        (uri.number().map(text), text(uri.number_params()))
    };
    assert_eq!(parts("sip:+1;npdi;rn=2@h;user=phone"), (Some("+1"), ";npdi;rn=2"));
    assert_eq!(parts("sip:+1;npdi:pw@h;User=Phone"), (Some("+1"), ";npdi"));
    assert_eq!(parts("sip:+1@h;user=phone"), (Some("+1"), ""));
    assert_eq!(parts("sip:a;b@h;user=ip"), (Some("a;b"), ""));
    assert_eq!(parts("sip:a;b@h"), (Some("a;b"), ""));
    assert_eq!(parts("sip:h;user=phone"), (None, ""));
    assert_eq!(parts("tel:+1;ext=2"), (Some("+1"), ""));
}
