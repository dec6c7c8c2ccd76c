use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::sip::message::Limits;
use crate::sip::own::{SocketId, Transport};

const EVERY: Duration = Duration::from_secs(10);

/// What a probe does until an hour is over, with when; `answer` says what comes at once.
fn acts(
    probe: &mut Probe,
    start: Instant,
    until: u64,
    answer: impl Fn(u32) -> u16,
) -> Vec<(u64, Act)> {
    let (mut acts, end) = (Vec::new(), start + Duration::from_millis(until));
    loop {
        let now = probe.poll_timeout();
        if now > end {
            return acts;
        }
        while let Some(act) = probe.handle_timeout(now) {
            acts.push((now.duration_since(start).as_millis() as u64, act));
            if let Act::Ask(number) | Act::Again(number) = act {
                probe.reply(number, answer(number));
            }
        }
    }
}

fn probe(start: Instant) -> Probe {
    Probe::new(ProbeSettings::every(EVERY), start)
}

#[test]
fn a_target_that_answers_is_asked_once_in_each_interval() {
    let start = Instant::now();
    let mut probe = probe(start);
    let acts = acts(&mut probe, start, 30_000, |_| 200);
    let want = [(0, 1), (10_000, 2), (20_000, 3), (30_000, 4)];
    assert_eq!(acts, want.map(|(at, number)| (at, Act::Ask(number))));
    assert!(probe.is_active());
}

#[test]
fn a_silent_target_is_asked_again_and_is_inactive_from_the_next_probe_on() {
    let start = Instant::now();
    let mut probe = probe(start);
    let acts = acts(&mut probe, start, 10_000, |_| 100);
    let again = [500, 1_500, 3_500, 7_500].map(|at| (at, Act::Again(1)));
    let mut want = vec![(0, Act::Ask(1))];
    want.extend(again);
    want.extend([(10_000, Act::Silent), (10_000, Act::Ask(2))]);
    assert_eq!(acts, want);
    assert!(!probe.is_active());
    assert_eq!(probe.reply(1, 200), None, "an answer to an earlier probe");
    assert!(!probe.is_active());
    assert_eq!(probe.reply(2, 200), Some(ProbeResult::Answered));
    assert!(probe.is_active());
    assert_eq!(probe.reply(2, 200), None, "a copy of it");
}

#[test]
fn nobody_waits_longer_than_64_t1() {
    let start = Instant::now();
    let mut probe = Probe::new(ProbeSettings::every(Duration::from_secs(100)), start);
    let acts = acts(&mut probe, start, 99_999, |_| 180);
    assert_eq!(acts.last(), Some(&(32_000, Act::Silent)));
    assert_eq!(acts.len(), 1 + 10 + 1, "{acts:?}");
}

#[test]
fn a_short_interval_has_no_room_for_repeats() {
    let start = Instant::now();
    let mut probe = Probe::new(ProbeSettings::every(Duration::from_millis(100)), start);
    let acts = acts(&mut probe, start, 200, |_| 100);
    let want = [(0, Act::Ask(1)), (100, Act::Silent), (100, Act::Ask(2)), (200, Act::Silent)];
    assert_eq!(acts[..4], want);
}

#[test]
fn what_a_reply_says() {
    let start = Instant::now();
    for (code, active) in [
        (200, true),
        (202, true),
        (302, true),
        (404, true),
        (405, true),
        (407, true),
        (408, false),
        (483, true),
        (500, false),
        (501, true),
        (503, false),
        (600, false),
        (999, false),
    ] {
        let mut probe = probe(start);
        assert_eq!(probe.handle_timeout(start), Some(Act::Ask(1)));
        let result = if active { ProbeResult::Answered } else { ProbeResult::Refused };
        assert_eq!(probe.reply(1, code), Some(result), "{code}");
        assert_eq!(probe.is_active(), active, "{code}");
    }
}

#[test]
fn what_can_not_be_sent_is_a_failure() {
    let start = Instant::now();
    let mut probe = probe(start);
    probe.handle_timeout(start);
    assert!(!probe.unsent(9));
    assert!(probe.is_active());
    assert!(probe.unsent(1));
    assert!(!probe.is_active());
    assert!(!probe.unsent(1));
    assert_eq!(probe.poll_timeout(), start + EVERY);
}

#[test]
fn thresholds_count_results_in_a_row() {
    let start = Instant::now();
    let settings = ProbeSettings { failures: 2, answers: 3, ..ProbeSettings::every(EVERY) };
    let mut probe = Probe::new(settings, start);
    let mut ask = |code| {
        let now = probe.poll_timeout();
        let Some(Act::Ask(number)) = probe.handle_timeout(now) else { panic!("no probe") };
        probe.reply(number, code);
        probe.is_active()
    };
    assert_eq!([503, 200, 503, 503].map(&mut ask), [true, true, true, false]);
    assert_eq!([200, 200, 503, 200, 200, 200].map(ask), [false, false, false, false, false, true]);
}

#[test]
fn one_that_was_marked_comes_back_with_an_answer() {
    let start = Instant::now();
    let mut probe = probe(start);
    probe.mark_failed();
    assert!(!probe.is_active());
    acts(&mut probe, start, 0, |_| 200);
    assert!(probe.is_active());
}

#[test]
fn other_settings_begin_with_the_next_probe() {
    let start = Instant::now();
    let mut probe = probe(start);
    acts(&mut probe, start, 0, |_| 200);
    probe.set(ProbeSettings::every(Duration::from_secs(2)), start);
    assert_eq!(probe.poll_timeout(), start + Duration::from_secs(2));
    probe.set(ProbeSettings::every(EVERY), start);
    assert_eq!(probe.poll_timeout(), start + Duration::from_secs(2));
}

fn socket() -> Socket {
    Socket {
        id: SocketId(0),
        transport: Transport::Udp,
        address: "192.0.2.1:5080".parse().unwrap(),
        host: Bytes::from_static(b"192.0.2.1"),
        port: 5080,
    }
}

fn written(id: ProbeId) -> String {
    let mut out = Vec::new();
    id.write(b"sip:192.0.2.9;transport=udp", &socket(), &mut out);
    String::from_utf8(out).unwrap()
}

fn reply_to(request: &str, status: &str) -> Message {
    let (_, headers) = request.split_once("\r\n").unwrap();
    let text = format!("SIP/2.0 {status}\r\n{headers}");
    Message::parse(Bytes::from(text), &Limits::default()).unwrap()
}

#[test]
fn a_probe_is_a_request_whose_reply_is_known() {
    let id = ProbeId { asker: 0xab_cdef, target: 7, number: 0x1_0000 };
    let text = written(id);
    assert_eq!(
        text,
        "OPTIONS sip:192.0.2.9;transport=udp SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.1:5080;rport;branch=z9hG4bKlwprobe.abcdef.7.10000\r\n\
         Max-Forwards: 70\r\nFrom: <sip:dispatcher@192.0.2.1:5080>;tag=abcdef-10000\r\n\
         To: <sip:192.0.2.9;transport=udp>\r\nCall-ID: abcdef-7\r\nCSeq: 65536 OPTIONS\r\n\
         User-Agent: lineway\r\nContent-Length: 0\r\n\r\n"
    );
    let request = Message::parse(Bytes::from(text.clone()), &Limits::default()).unwrap();
    assert_eq!(ProbeId::of_reply(&request), None, "the request itself");
    assert_eq!(ProbeId::of_reply(&reply_to(&text, "200 OK")), Some(id));
    assert_eq!(ProbeId::of_reply(&reply_to(&text.replace("lwprobe", "x"), "200 OK")), None);
    for bad in ["zz.7.1", "abcdef.7", "abcdef.123456789.1", "..", "+1.+7.+1 "] {
        let text = text.replace("abcdef.7.10000", bad);
        assert!(ProbeId::of_reply(&reply_to(&text, "200 OK")).is_none_or(|id| id.asker == 1));
    }
}

proptest! {
    #[test]
    fn any_probe_is_found_again(asker: u64, target: u32, number: u32) {
        let id = ProbeId { asker, target, number };
        prop_assert_eq!(ProbeId::of_reply(&reply_to(&written(id), "404 Not Found")), Some(id));
    }

    #[test]
    fn one_probe_is_out_at_a_time_and_each_ends(codes in proptest::collection::vec(0u16..700, 1..30)) {
        let start = Instant::now();
        let mut probe = probe(start);
        let (mut asked, mut ended, mut now) = (0, 0, start);
        for code in codes {
            now = probe.poll_timeout().max(now);
            while let Some(act) = probe.handle_timeout(now) {
                match act {
                    Act::Ask(number) => {
                        prop_assert_eq!(asked, ended, "the last one is over");
                        asked += 1;
                        prop_assert_eq!(number, asked);
                        ended += u32::from(probe.reply(number, code).is_some());
                    }
                    Act::Again(number) => prop_assert_eq!(number, asked),
                    Act::Silent => ended += 1,
                }
            }
            prop_assert!(probe.poll_timeout() > now);
        }
    }
}
