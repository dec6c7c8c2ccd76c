//! Options: items 1 to 5.

use std::time::{Duration, Instant};

use lineway::zmp::monitor::EventKind;
use lineway::zmp::{ConfigError, ConfigResult, Errno, RequestError, RequestResult, Weight};

use crate::kit::{dealer, dealer_with, id, ms, router, router_with, wait};
use crate::raw::{CONTROL, DEALER, ROUTER, weight};

#[test]
fn item_01_a_weight_out_of_range_is_refused_and_the_old_one_stays() {
    const REFUSED: ConfigError = ConfigError::new(ConfigResult::InvalidArgument, Errno::EINVAL);
    let d = dealer("D1");
    assert_eq!(d.options().weight.get(), 100);
    d.set_weight(300).unwrap();
    let mut far = d.peer(ROUTER, "R1");
    // What -1 of an int becomes.
    for wrong in [10_001, u32::MAX] {
        assert_eq!(d.set_weight(wrong), Err(REFUSED));
        assert_eq!(d.options().weight, Weight::new(300).unwrap());
        assert_eq!(Weight::new(wrong), None);
    }
    d.say("after");
    assert_eq!(far.record().single(), b"after");
    // The one that was set, and none of the others.
    let controls: Vec<_> = far.controls.iter().map(|frame| frame.body.clone()).collect();
    assert_eq!(controls, [weight(300)[8..].to_vec()]);
    for right in [0, 10_000] {
        d.set_weight(right).unwrap();
        assert_eq!(far.control(), weight(right)[8..]);
    }
    assert_eq!((ConfigResult::InvalidArgument.number(), Errno::EINVAL.0), (702, 22));
}

#[test]
fn item_02_an_option_is_read_back_whole_as_it_was_set() {
    let r = router_with(&"r".repeat(255), |_| {});
    // Eight bytes for limits, whatever fits into four.
    r.set_send_hwm(0x1_0000_0001).unwrap();
    r.set_receive_hwm(u64::MAX).unwrap();
    r.set_max_message_size(0xffff_ffff).unwrap();
    r.set_weight(7).unwrap();
    r.set_probe(true).unwrap();
    r.set_mandatory(false).unwrap();
    r.set_request_timeout(ms(1234)).unwrap();
    r.set_send_timeout(None).unwrap();
    r.set_receive_timeout(Some(Duration::ZERO)).unwrap();
    r.set_linger(Some(ms(9))).unwrap();
    let options = r.options();
    assert_eq!((options.send_hwm, options.receive_hwm), (0x1_0000_0001, u64::MAX));
    assert_eq!((options.max_message_size, options.weight.get()), (0xffff_ffff, 7));
    assert_eq!((options.probe, options.mandatory), (true, false));
    assert_eq!(options.request_timeout, ms(1234));
    let timing = r.timing();
    assert_eq!((timing.send_timeout, timing.receive_timeout), (None, Some(Duration::ZERO)));
    assert_eq!(timing.linger, Some(ms(9)));
    assert_eq!(r.routing_id().as_bytes(), [b'r'; 255]);
}

#[test]
fn item_03_a_probe_shows_the_link_and_the_routing_id() {
    let d = dealer("D1");
    assert!(!d.options().probe);
    d.set_probe(true).unwrap();
    assert!(d.options().probe);
    let mut far = d.peer(ROUTER, "R1");
    for _ in 0..2 {
        let frame = far.frame();
        assert_eq!((frame.flags, frame.kind, &*frame.body), (0, 0, &[][..]));
        assert!(far.seen.ends_with(&[0x5a, 1, 0, 0, 0, 0, 0, 0]));
        assert_eq!(far.seen[8..13], [1, 5, 2, b'D', b'1']);
        // With every connection, and once.
        d.say("after");
        assert_eq!(far.record().single(), b"after");
        far.leave(&d);
        far.back(&d);
    }
    d.set_probe(false).unwrap();
    far.leave(&d);
    far.back(&d);
    d.say("no probe");
    assert_eq!(far.record().single(), b"no probe");

    // One that accepts does the same, and so does a ROUTER; a library's peer takes it as a record.
    let r = router_with("R2", |options| options.core.probe = true);
    let at = r.bound();
    let mut peer = r.accepts(at, DEALER, "D2");
    assert_eq!(peer.frame().body, b"");
    let d = dealer_with("D3", |options| options.core.probe = true);
    wait(d.connect(&format!("tcp://{at}"))).unwrap();
    assert_eq!(r.hear(), ("D3".to_owned(), Vec::new()));
    assert_eq!(d.hear(), b"");
}

#[test]
fn item_04_a_request_without_a_timeout_has_the_one_of_the_socket() {
    let timed = |timeout: Option<Duration>, own: Option<Duration>| {
        move || {
            let d = dealer("D1");
            assert_eq!(d.options().request_timeout, ms(5000));
            if let Some(timeout) = timeout {
                d.set_request_timeout(timeout).unwrap();
            }
            let mut far = d.peer(ROUTER, "R1");
            let begun = Instant::now();
            let error = wait(d.request("silence", own)).unwrap_err();
            let took = begun.elapsed();
            assert_eq!(far.record().single(), b"silence");
            let RequestError::Failed { result, errno, parts } = error else { panic!("{error}") };
            assert_eq!((result, errno), (RequestResult::TimedOut, Errno::ETIMEDOUT));
            assert_eq!((result.number(), errno.0, parts), (101, 110, None));
            took
        }
    };
    let default = std::thread::spawn(timed(None, None));
    let set = timed(Some(ms(200)), None)();
    assert!((ms(200)..ms(1500)).contains(&set), "{set:?}");
    let own = timed(Some(ms(60_000)), Some(ms(100)))();
    assert!((ms(100)..ms(1400)).contains(&own), "{own:?}");
    let default = default.join().unwrap();
    assert!((ms(5000)..ms(7000)).contains(&default), "{default:?}");
}

#[test]
fn item_05_every_record_is_kept() {
    let refused = ConfigError::new(ConfigResult::NotSupported, Errno::ENOTSUP);
    let (d, r) = (dealer("D1"), router("R1"));
    for socket in [&**d, &**r] {
        assert_eq!(socket.set_conflate(true), Err(refused));
        assert_eq!(socket.set_conflate(false), Ok(()));
        assert!(!socket.conflate());
    }
    assert_eq!((refused.result.number(), refused.errno.0), (703, 95));
    // Two records for one peer are two records.
    let mut far = d.peer(ROUTER, "R2");
    d.say("one");
    d.say("two");
    assert_eq!(far.record().single(), b"one");
    assert_eq!(far.record().single(), b"two");
}

#[test]
fn options_of_a_closed_socket_are_refused() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    wait(d.close()).unwrap();
    let refused = ConfigError::new(ConfigResult::InvalidState, Errno::ESHUTDOWN);
    assert_eq!(d.set_weight(5), Err(refused));
    assert_eq!(d.set_probe(true), Err(refused));
    assert_eq!(wait(d.close()).unwrap_err().errno, Errno::ESHUTDOWN);
    assert_eq!(far.end(), b"");
    assert_eq!(d.event(EventKind::Disconnected).value, 5);
    assert_eq!(d.routing_id(), id("D1"));
    assert!(far.controls.iter().all(|frame| frame.flags == CONTROL));
}
