//! Levels of readiness: items 37 to 39.

use lineway::zmp::{ConfigError, ConfigResult, Errno, Outcome, Readiness};

use crate::kit::{BLOCKED, NOTHING, dealer, level, refusal, wait};
use crate::raw::ROUTER;

const NONE: Readiness = Readiness { input: false, output: false, completion: false };
const INPUT: Readiness = Readiness { input: true, ..NONE };
const OUTPUT: Readiness = Readiness { output: true, ..NONE };
const COMPLETION: Readiness = Readiness { completion: true, ..NONE };

#[test]
fn item_37_data_is_input_and_completions_are_completions() {
    let d = dealer("D1");
    assert_eq!(d.readiness(), NONE);
    let mut far = d.peer(ROUTER, "R1");
    assert_eq!(d.readiness(), OUTPUT);
    let mut input = d.poller(INPUT).unwrap();
    let mut completion = d.poller(COMPLETION).unwrap();
    // One at a time (D-P5), and the others as many as there are.
    let busy = ConfigError::new(ConfigResult::InvalidState, Errno::EBUSY);
    assert_eq!(d.poller(COMPLETION).unwrap_err(), busy);
    let _second = d.poller(INPUT).unwrap();

    d.try_request("question", None, 1).unwrap();
    let asked = far.record();
    far.reply(asked.sequence.unwrap(), &[b"answer"]);
    assert_eq!(level(&mut completion), COMPLETION);
    assert_eq!(d.readiness(), Readiness { completion: true, ..OUTPUT });
    assert_eq!(d.try_recv(), Err(NOTHING));
    // A level stays until it is taken.
    assert_eq!(level(&mut completion), COMPLETION);
    d.try_completion().unwrap();
    assert_eq!(d.readiness(), OUTPUT);

    far.data(&[b"one"]);
    far.data(&[b"two"]);
    assert_eq!(level(&mut input), INPUT);
    d.hear();
    d.hear();
    assert_eq!(d.readiness(), OUTPUT);
    drop(completion);
    assert!(d.poller(COMPLETION).is_ok());

    // Woken by whatever thread it is (D-P4).
    let waits = std::thread::spawn(move || level(&mut input));
    far.data(&[b"three"]);
    assert_eq!(waits.join().unwrap(), INPUT);
    far.leave(&d);
    assert_eq!(d.readiness(), INPUT);
}

#[test]
fn item_38_output_promises_nothing() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    far.pauses(&d, 1);
    assert_eq!(d.readiness(), NONE);
    let first = d.try_send("data", 1).unwrap_err();
    let mut output = d.poller(OUTPUT).unwrap();
    far.resumes(&d, 2);
    assert_eq!(level(&mut output), OUTPUT);
    // Paused once more before anybody tried again.
    far.pauses(&d, 3);
    assert_eq!(level(&mut output), OUTPUT);
    let second = d.try_send(first.into_record(), 2).unwrap_err();
    assert_eq!(refusal(&second), BLOCKED);
    assert_eq!(wait(d.next_completion()).unwrap().context, 1);
    d.barrier(&mut far);
    d.has_nothing();
    far.resumes(&d, 4);
    let writable = wait(d.next_completion()).unwrap();
    assert_eq!((Some(writable.id), writable.context), (second.token(), 2));
    d.try_send(second.into_record(), 3).unwrap();
    assert_eq!(far.record().single(), b"data");
}

#[test]
fn item_39_a_wake_that_was_not_read_holds_output_and_completion() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    far.pauses(&d, 1);
    for context in [1, 2] {
        d.try_send("data", context).unwrap_err();
    }
    far.resumes(&d, 2);
    far.pauses(&d, 3);
    let both = Readiness { completion: true, ..OUTPUT };
    for context in [1, 2] {
        assert_eq!(d.readiness(), both);
        let writable = d.try_completion().unwrap();
        assert_eq!((writable.outcome, writable.context), (Outcome::Writable, context));
    }
    assert_eq!(d.try_completion(), Err(NOTHING));
    assert_eq!(d.readiness(), NONE);

    // `writable` takes its own: it is not in the queue.
    let token = d.try_send("data", 3).unwrap_err().token().unwrap();
    let waits = crate::kit::begin({
        let dealer = d.socket.clone();
        async move { dealer.writable(token).await }
    });
    far.resumes(&d, 4);
    assert_eq!(waits.join().unwrap(), Ok(()));
    assert_eq!(d.try_completion(), Err(NOTHING));
    assert_eq!(d.readiness(), OUTPUT);
    assert_eq!(wait(d.writable(token)).unwrap_err().errno, Errno::ENOENT);
}
