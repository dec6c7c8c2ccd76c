use super::*;

fn options(call: &str, body: &str) -> String {
    format!(
        "OPTIONS sip:bob@127.0.0.1:5060 SIP/2.0\r\n\
         Via: SIP/2.0/TCP 127.0.0.1:15060;branch=z9hG4bK{call}\r\n\
         From: <sip:alice@127.0.0.1>;tag=a1\r\n\
         To: <sip:bob@127.0.0.1>\r\n\
         Call-ID: {call}\r\n\
         CSeq: 1 OPTIONS\r\n\
         l: {}\r\n\r\n{body}",
        body.len()
    )
}

/// All that a stream gives that comes in these pieces, and how it ends.
fn frames<'a>(
    limits: Limits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Framed>, Result<usize, StreamError>) {
    let (mut framer, mut input, mut given) = (Framer::new(limits), BytesMut::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match framer.next(&mut input) {
                Ok(Framed::NeedsMore) => break,
                Ok(framed) => given.push(framed),
                Err(error) => {
                    let again = StreamError { fault: error.fault, headers: None };
                    assert_eq!(framer.next(&mut input), Err(again));
                    return (given, Err(error));
                }
            }
        }
    }
    (given, Ok(input.len()))
}

fn whole(stream: &[u8]) -> (Vec<Framed>, Result<usize, StreamError>) {
    frames(Limits::default(), [stream])
}

fn message(text: &str) -> Framed {
    Framed::Message(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn sip_r140_case_s17_several_messages_in_one_segment() {
    let (first, second, third) = (options("m1", "hello"), options("m2", ""), options("m3", ""));
    let stream = format!("{first}{second}{third}");
    let cut = first.len() + second.len() + 20;
    let (one, two) = stream.as_bytes().split_at(cut);
    let given = frames(Limits::default(), [one, two]);
    assert_eq!(given, (vec![message(&first), message(&second), message(&third)], Ok(0)));
    assert_eq!(frames(Limits::default(), [one]).1, Ok(20), "the rest waits");
}

#[test]
fn sip_r140_case_s18_any_segmentation_is_the_same() {
    let body = "a\r\n\r\nINVITE sip:x SIP/2.0\r\n\r\n";
    let (first, second) = (options("m1", body), options("m2", ""));
    let folded = options("m3", "hello").replace("l: 5", "Content-Length\t:\r\n 5");
    // (d): stray line ends in between are passed over.
    let stream = format!("{first}\n\r\n{second}\r\n{folded}\r\n\r\n{second}");
    let stream = stream.as_bytes();
    let expected =
        vec![message(&first), message(&second), message(&folded), Framed::Ping, message(&second)];
    assert_eq!(whole(stream), (expected.clone(), Ok(0)));
    assert_eq!(frames(Limits::default(), stream.chunks(1)), (expected.clone(), Ok(0)));
    for cut in 0..=stream.len() {
        let (one, two) = stream.split_at(cut);
        assert_eq!(frames(Limits::default(), [one, two]), (expected.clone(), Ok(0)), "{cut}");
    }
}

#[test]
fn sip_r141_case_s20_a_double_line_end_is_a_ping() {
    let text = options("m1", "");
    assert_eq!(whole(b"\r\n\r\n"), (vec![Framed::Ping], Ok(0)));
    assert_eq!(whole(b"\r\n"), (vec![], Ok(0)));
    assert_eq!(whole(b"\r\n\r\n\r\n"), (vec![Framed::Ping], Ok(0)));
    assert_eq!(whole(b"\r\n\r\n\r\n\r\n"), (vec![Framed::Ping; 2], Ok(0)));
    assert_eq!(whole(b"\r\r\n\r\n"), (vec![Framed::Ping], Ok(0)));
    assert_eq!(whole(b"\n\n\n\n"), (vec![], Ok(0)), "only CR LF CR LF is one");
    let one_by_one = b"\r\n\r\n".chunks(1);
    assert_eq!(frames(Limits::default(), one_by_one), (vec![Framed::Ping], Ok(0)));
    let ping = format!("\r\n\r\n{text}");
    assert_eq!(whole(ping.as_bytes()), (vec![Framed::Ping, message(&text)], Ok(0)));
    let single = format!("\r\n{text}\r\n\r\n");
    assert_eq!(whole(single.as_bytes()), (vec![message(&text), Framed::Ping], Ok(0)));
}

#[test]
fn sip_r146_bare_line_feeds_frame_as_well() {
    let text = options("m1", "").replace("\r\n", "\n");
    assert_eq!(whole(text.as_bytes()), (vec![message(&text)], Ok(0)));
}

#[test]
fn case_s27_a_line_of_blanks_ends_no_headers() {
    let text = options("m1", "hello").replace("CSeq:", "Subject: one\r\n \r\nCSeq:");
    assert_eq!(whole(text.as_bytes()), (vec![message(&text)], Ok(0)));
}

#[test]
fn case_s19_lengths_that_frame_nothing() {
    let good = options("m1", "hello");
    let huge = [
        ("l: 2000000000", StreamFault::TooLarge),
        // Must not act as 5.
        ("l: 4294967301", StreamFault::TooLarge),
        ("l: 18446744073709551615", StreamFault::TooLarge),
    ];
    let bad = [
        "l: 99999999999999999999",
        "l: -1",
        "l: +5",
        "l: 5x",
        "l:",
        "l: 5 5",
        "l: 5, 6",
        "l: 5\r\nContent-Length: 6",
        "l: 5\r\nContent-Length: x",
    ];
    let cases = huge.into_iter().chain(bad.map(|line| (line, StreamFault::BadLength)));
    for (line, fault) in cases.chain([("X: 5", StreamFault::NoLength)]) {
        let text = good.replace("l: 5", line);
        let head = text.strip_suffix("hello").unwrap();
        let headers = Some(Bytes::copy_from_slice(head.as_bytes()));
        let expected = (vec![], Err(StreamError { fault, headers }));
        assert_eq!(whole(text.as_bytes()), expected, "{line}");
        assert_eq!(frames(Limits::default(), text.as_bytes().chunks(1)), expected, "{line}");
    }
    let twice = good.replace("l: 5", "l: 5\r\nContent-Length: 5");
    assert_eq!(whole(twice.as_bytes()), (vec![message(&twice)], Ok(0)));
    let wide = good.replace("l: 5", "l: 0000000000000000000000000005");
    assert_eq!(whole(wide.as_bytes()), (vec![message(&wide)], Ok(0)));
}

#[test]
fn sip_r142_the_limit_is_met_exactly() {
    let text = options("m1", &"x".repeat(3000));
    let limits = |message_bytes| Limits { message_bytes, ..Limits::default() };
    let pieces = || text.as_bytes().chunks(7);
    assert_eq!(frames(limits(text.len()), pieces()), (vec![message(&text)], Ok(0)));
    let (given, end) = frames(limits(text.len() - 1), pieces());
    let error = end.unwrap_err();
    assert_eq!((given, error.fault), (vec![], StreamFault::TooLarge));
    assert!(error.headers.is_some_and(|headers| headers.ends_with(b"\r\n\r\n")));
}

#[test]
fn case_s28n_headers_without_an_end_are_too_large() {
    let limits = Limits { message_bytes: 2000, header_bytes: 500, headers: 10 };
    let endless = options("m1", "").replace("l: 0\r\n\r\n", &"x".repeat(3000));
    let (given, end) = frames(limits, endless.as_bytes().chunks(100));
    let error = StreamError { fault: StreamFault::TooLarge, headers: None };
    assert_eq!((given, end), (vec![], Err(error.clone())));
    let line = vec![b'a'; 501];
    assert_eq!(frames(limits, line.chunks(100)), (vec![], Err(error)));
    let ended = options("m1", "").replace("l: 0", &format!("X: {}\r\nl: 0", "x".repeat(3000)));
    let (_, end) = frames(limits, [ended.as_bytes()]);
    assert_eq!(end.unwrap_err().fault, StreamFault::TooLarge);
}

#[test]
fn sip_r144_other_protocols_are_told_at_once() {
    let error = StreamError { fault: StreamFault::NotSip, headers: None };
    for stream in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"\x16\x03\x01",
        b"SIP/2.0 abc\r\n",
        b"INVITE sip:x SIP/3.0\r\n",
        b"\0",
        b" INVITE sip:x SIP/2.0\r\n",
        b"INVITE\r\n",
    ] {
        assert_eq!(whole(stream), (vec![], Err(error.clone())), "{stream:?}");
    }
}
