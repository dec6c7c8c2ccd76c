use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::sip::message::{Limits, Message, Name};

const REALM: &str = "example.org";

fn parse(value: &str) -> Credentials<'_> {
    Credentials::parse(value.as_bytes()).unwrap()
}

fn ha1(algorithm: Algorithm, user: &str, realm: &str, password: &str) -> Hash {
    Hash::ha1(algorithm, user.as_bytes(), realm.as_bytes(), password.as_bytes())
}

/// The credentials of RFC 7616 3.9.1.
fn mufasa(algorithm: &str, response: &str) -> String {
    format!(
        "Digest username=\"Mufasa\",\r\n realm=\"http-auth@example.org\",\r\n \
         uri=\"/dir/index.html\",\r\n algorithm={algorithm},\r\n \
         nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\",\r\n nc=00000001,\r\n \
         cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\",\r\n qop=auth,\r\n \
         response=\"{response}\",\r\n opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
    )
}

#[test]
fn rfc7616_391_md5_and_sha_256() {
    let responses = [
        (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
        (Algorithm::Sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ];
    for (algorithm, response) in responses {
        let text = mufasa(algorithm.as_str(), response);
        let credentials = parse(&text);
        assert_eq!(credentials.algorithm(), algorithm);
        assert_eq!(credentials.count, 1);
        let ha1 = ha1(algorithm, "Mufasa", "http-auth@example.org", "Circle of Life");
        assert!(credentials.prove(&ha1, b"GET", b""));
        assert!(!credentials.prove(&ha1, b"PUT", b""));
    }
}

#[test]
fn rfc7616_392_sha_512_256_as_its_erratum_4897_has_it() {
    let text = "Digest username=\"J\u{e4}s\u{f8}n Doe\", realm=\"api@example.org\", \
        uri=\"/doe.json\", algorithm=SHA-512-256, \
        nonce=\"5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK\", nc=00000001, \
        cnonce=\"NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v\", qop=auth, \
        response=\"3798d4131c277846293534c3edc11bd8a5e4cdcbff78b05db9d95eeb1cec68a5\"";
    let user = "J\u{e4}s\u{f8}n Doe";
    let ha1 = ha1(Algorithm::Sha512_256, user, "api@example.org", "Secret, or not?");
    assert!(parse(text).prove(&ha1, b"GET", b""));
}

#[test]
fn a_hashed_user_is_refused() {
    let text = mufasa("MD5", "8ca523f5e9506fed4657c9700eebdbec");
    let read = |hashed| {
        let text = format!("{text}, userhash={hashed}");
        Credentials::parse(text.as_bytes()).map(|_| ())
    };
    assert_eq!(read("true"), Err(CredentialsError::Unsupported));
    assert_eq!(read("false"), Ok(()));
}

#[test]
fn rfc2617_35_with_a_qop_and_without() {
    let common = "Digest username=\"Mufasa\", realm=\"testrealm@host.com\", \
        nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", uri=\"/dir/index.html\"";
    let ha1 = ha1(Algorithm::Md5, "Mufasa", "testrealm@host.com", "Circle Of Life");
    let text = format!(
        "{common}, qop=auth, nc=00000001, cnonce=\"0a4f113b\", \
         response=\"6629fae49393a05397450978507c4ef1\", opaque=\"5ccc069c403ebaf9f0171e9517f40e41\""
    );
    assert!(parse(&text).prove(&ha1, b"GET", b""));
    // The same without a qop, H(H(A1):nonce:H(A2)).
    let text = format!("{common}, response=\"670fd8c2df070c60b045671b8b24ff02\"");
    let credentials = parse(&text);
    assert!(credentials.prove(&ha1, b"GET", b""));
    assert_eq!((credentials.qop, credentials.count), (None, 0));
}

#[test]
fn auth_int_covers_the_body() {
    let answer = Answer {
        user: "alice",
        realm: REALM,
        nonce: "n",
        algorithm: Algorithm::Sha256,
        qop: Some(Qop::AuthInt),
        count: 17,
        cnonce: "c",
        uri: "sip:bob@example.org",
    };
    let text = answer.credentials("secret", "INVITE", b"v=0\r\n");
    let ha1 = ha1(Algorithm::Sha256, "alice", REALM, "secret");
    let credentials = parse(&text);
    assert_eq!(credentials.count, 17);
    assert!(credentials.prove(&ha1, b"INVITE", b"v=0\r\n"));
    assert!(!credentials.prove(&ha1, b"INVITE", b"v=1\r\n"));
}

#[test]
fn credentials_are_read_in_any_order_and_spelling() {
    let text = "dIgEsT  response = \"8CA523F5E9506FED4657C9700EEBDBEC\" , NC=00000001,,\
        uri=\"/dir/index.html\",cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\",QOP=\"auth\",\
        x-new=\"a,b\\\"=c\",realm=\"http-auth@example.org\",\
        nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\",username=\"Mufasa\",";
    let ha1 = ha1(Algorithm::Md5, "Mufasa", "http-auth@example.org", "Circle of Life");
    assert!(parse(text).prove(&ha1, b"GET", b""));
}

#[test]
fn escapes_and_folds_of_quoted_texts_are_taken_out() {
    let text = "Digest username=\"a\\\"b\\\\\", realm=\"one\r\n two\", nonce=n, uri=\"sip:a\", \
        response=\"8ca523f5e9506fed4657c9700eebdbec\"";
    let credentials = parse(text);
    assert_eq!(&*credentials.username, b"a\"b\\");
    assert_eq!(&*credentials.realm, b"one two");
}

#[test]
fn broken_credentials_are_none() {
    use CredentialsError::{Malformed, Scheme, Unsupported};
    let right = mufasa("MD5", "8ca523f5e9506fed4657c9700eebdbec");
    let with = |from: &str, to: &str| {
        let text = right.replace(from, to);
        assert_ne!(text, right, "{from}");
        Credentials::parse(text.as_bytes()).unwrap_err()
    };
    assert_eq!(with("Digest", "Basic"), Scheme);
    assert_eq!(with("Digest", ""), Scheme);
    assert_eq!(with("algorithm=MD5", "algorithm=MD5-sess"), Unsupported);
    assert_eq!(with("algorithm=MD5", "algorithm=SHA-1"), Unsupported);
    assert_eq!(with("qop=auth", "qop=auth-conf"), Unsupported);
    assert_eq!(with("algorithm=MD5", "algorithm=SHA-256"), Malformed, "a response too short");
    assert_eq!(with("8ca523", "8ca52g"), Malformed);
    assert_eq!(with("nc=00000001", "nc=1"), Malformed);
    assert_eq!(with("nc=00000001", "nc=+0000001"), Malformed);
    assert_eq!(with("nc=00000001,", ""), Malformed);
    assert_eq!(with("username", "user"), Malformed);
    assert_eq!(with("opaque=", "realm="), Malformed, "two realms");
    assert_eq!(with("qop=auth,", "qop=auth;"), Malformed);
    assert_eq!(with("qop=auth,", "qop,"), Malformed);
    assert_eq!(with("tdS\"", "tdS"), Malformed, "an open quote");
    assert_eq!(with("tdS\"", "tdS\\\""), Malformed, "an open quote behind an escape");
    let many = format!("{right}{}", ",x=1".repeat(64));
    assert_eq!(Credentials::parse(many.as_bytes()), Err(Malformed));
}

fn request(headers: &str) -> Message {
    let text = format!(
        "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bK1\r\n\
         From: <sip:a@example.org>;tag=1\r\nTo: <sip:a@example.org>\r\nCall-ID: 1\r\n\
         CSeq: 1 REGISTER\r\n{headers}\r\n"
    );
    Message::parse(Bytes::from(text), &Limits::default()).unwrap()
}

#[test]
fn of_several_headers_the_one_for_the_realm_is_found() {
    let text = |realm| {
        format!(
            "Digest username=\"u-{realm}\", realm=\"{realm}\", nonce=n, uri=\"sip:a\", \
             response=\"8ca523f5e9506fed4657c9700eebdbec\""
        )
    };
    let (a, b) = (text("a"), text("b"));
    let message = request(&format!(
        "Authorization: Basic dTpw\r\nAuthorization: Digest\r\nAuthorization: {a}\r\n\
         Authorization: {b}\r\nProxy-Authorization: {a}\r\n"
    ));
    let of = |name, realm: Option<&[u8]>| {
        find(&message, name, realm).map(|(_, found)| found.username.into_owned())
    };
    assert_eq!(of(Name::Authorization, Some(b"b")), Ok(b"u-b".to_vec()));
    assert_eq!(of(Name::Authorization, None), Ok(b"u-a".to_vec()));
    assert_eq!(of(Name::ProxyAuthorization, Some(b"b")), Err(None));
    let broken = Err(Some(CredentialsError::Malformed));
    assert_eq!(of(Name::Authorization, Some(b"A")), broken, "a realm has a case");
}

#[test]
fn a_challenge_has_a_line_for_each_algorithm_the_strongest_first() {
    let challenge = Challenge {
        proxy: true,
        realm: b"example.org",
        nonce: b"abc",
        auth: true,
        auth_int: false,
        stale: false,
    };
    let lines = |challenge: Challenge<'_>, algorithms| {
        let lines = challenge.lines(algorithms).map(|line| String::from_utf8(line).unwrap());
        lines.collect::<Vec<_>>()
    };
    let begin = "Proxy-Authenticate: Digest realm=\"example.org\", nonce=\"abc\"";
    let want = ["SHA-512-256", "SHA-256", "MD5"]
        .map(|word| format!("{begin}, qop=\"auth\", algorithm={word}\r\n"));
    assert_eq!(lines(challenge, Algorithms::ALL), want);
    let challenge = Challenge { proxy: false, auth_int: true, stale: true, ..challenge };
    let want = "WWW-Authenticate: Digest realm=\"example.org\", nonce=\"abc\", \
                qop=\"auth,auth-int\", stale=true, algorithm=MD5\r\n";
    assert_eq!(lines(challenge, Algorithms::NONE.with(Algorithm::Md5)), [want]);
    assert!(
        !is_realm(b"") && !is_realm(b"a\"b") && !is_realm(b"a\r\nb") && !is_realm(&[b'a'; 256])
    );
    assert!(is_realm("\u{fc}ber example".as_bytes()));
}

#[test]
fn algorithms_are_a_set() {
    let md5 = Algorithms::NONE.with(Algorithm::Md5);
    let both = md5.with(Algorithm::Sha256);
    assert!(both.has(Algorithm::Md5) && !both.has(Algorithm::Sha512_256));
    assert_eq!(both.and(md5), md5);
    assert_eq!(md5.or(both), both);
    assert!(Algorithms::NONE.is_empty() && !md5.is_empty());
    assert_eq!(Algorithms::ALL.iter().collect::<Vec<_>>(), Algorithm::ALL);
}

#[test]
fn secrets_are_not_printed() {
    let hash = ha1(Algorithm::Md5, "alice", REALM, "secret");
    let digits = String::from_utf8(hash.hex().to_vec()).unwrap();
    assert!(!format!("{hash:?}").contains(&digits[..8]));
    let nonces = Nonces::new(&[7; 32], Instant::now(), Nonces::LIFETIME);
    assert_eq!(format!("{nonces:?}"), "Nonces { lifetime: 300s, .. }");
}

#[test]
fn a_nonce_is_good_for_its_time_and_its_realm() {
    let start = Instant::now();
    let nonces = Nonces::new(&[7; 32], start, Nonces::LIFETIME);
    let made = start + Duration::from_secs(10);
    let nonce = nonces.make(b"a", 5, made);
    let at = |seconds| nonces.check(&nonce, b"a", made + Duration::from_secs(seconds));
    assert_eq!((at(0), at(300), at(301)), (Ok(5), Ok(5), Err(NonceFault::Old)));
    let foreign = Err(NonceFault::Foreign);
    assert_eq!(nonces.check(&nonce, b"b", made), foreign, "another realm");
    let other = Nonces::new(&[8; 32], start, Nonces::LIFETIME);
    assert_eq!(other.check(&nonce, b"a", made), foreign, "another secret");
    assert_eq!(nonces.check(&nonce, b"a", start), Ok(5), "a worker's clock that is behind");
    for place in 0..NONCE_LEN {
        let mut changed = nonce;
        changed[place] = if changed[place] == b'0' { b'1' } else { b'0' };
        assert_eq!(nonces.check(&changed, b"a", made), foreign, "{place}");
    }
    assert_eq!(nonces.check(&nonce.to_ascii_uppercase(), b"a", made), foreign);
    assert_eq!(nonces.check(&nonce[1..], b"a", made), foreign);
    assert_ne!(nonces.make(b"a", 6, made), nonce);
}

#[test]
fn a_use_is_known_for_the_life_of_a_nonce() {
    let start = Instant::now();
    let life = Duration::from_secs(300);
    let mut replays = Replays::new(100, life, start);
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(replays.note(1, 1, 50, at(200)), Use::First);
    assert_eq!(replays.note(1, 1, 50, at(201)), Use::Again, "a copy of the request");
    assert_eq!(replays.note(1, 1, 51, at(202)), Use::Reused, "another request");
    assert_eq!(replays.note(1, 2, 51, at(203)), Use::First, "the next count");
    assert_eq!(replays.note(2, 1, 51, at(203)), Use::First, "another nonce");
    assert_eq!(replays.note(1, 1, 51, at(499)), Use::Reused);
    assert_eq!(replays.note(1, 1, 50, at(499)), Use::Again);
    assert_eq!(replays.note(1, 1, 51, at(1_200)), Use::First, "long over");
}

#[test]
fn uses_are_bounded() {
    let start = Instant::now();
    let mut replays = Replays::new(8, Duration::from_secs(300), start);
    for nonce in 0..4 {
        assert_eq!(replays.note(nonce, 1, 1, start), Use::First);
    }
    assert_eq!(replays.note(4, 1, 1, start), Use::Unwatched);
    assert_eq!(replays.note(0, 1, 2, start), Use::Reused, "what is watched stays so");
    let later = start + Duration::from_secs(300);
    assert_eq!(replays.note(4, 1, 1, later), Use::First);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut value = b"Digest ".to_vec();
        value.extend(&bytes);
        let _ = Credentials::parse(&value);
        let _ = Credentials::parse(&bytes);
    }

    #[test]
    fn what_looks_like_credentials_is_read_or_refused(text in
        "Digest (username|realm|nonce|uri|response|qop|nc|cnonce|algorithm|,|=|\"|\\\\| |\r\n |a|0){0,40}"
    ) {
        let _ = Credentials::parse(text.as_bytes());
    }

    #[test]
    fn what_one_side_writes_the_other_verifies(
        user in "[^\r\n\t\\x00]{0,20}",
        realm in "[ -~]{1,20}",
        cnonce in "[a-zA-Z0-9/+\"\\\\]{0,20}",
        password in ".{0,20}",
        algorithm in proptest::sample::select(&Algorithm::ALL[..]),
        qop in proptest::sample::select(&[None, Some(Qop::Auth), Some(Qop::AuthInt)][..]),
        count in any::<u32>(),
        body in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let nonces = Nonces::new(&[7; 32], Instant::now(), Nonces::LIFETIME);
        let now = Instant::now();
        let nonce = nonces.make(realm.as_bytes(), 9, now);
        let nonce = std::str::from_utf8(&nonce).unwrap();
        let uri = "sip:bob@example.org;user=phone";
        let answer =
            Answer { user: &user, realm: &realm, nonce, algorithm, qop, count, cnonce: &cnonce, uri };
        let text = answer.credentials(&password, "INVITE", &body);
        let credentials = Credentials::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(&*credentials.username, user.as_bytes());
        prop_assert_eq!(&*credentials.realm, realm.as_bytes());
        prop_assert_eq!(&*credentials.uri, uri.as_bytes());
        prop_assert_eq!(nonces.check(&credentials.nonce, &credentials.realm, now), Ok(9));
        prop_assert!(credentials.prove(&ha1(algorithm, &user, &realm, &password), b"INVITE", &body));
        let other = format!("{password}x");
        prop_assert!(!credentials.prove(&ha1(algorithm, &user, &realm, &other), b"INVITE", &body));
    }
}
