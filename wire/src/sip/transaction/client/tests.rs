//! Branches are played from a text: what happens at which millisecond, and what they do about it.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::*;

mod cancel;
mod property;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The defaults of contract 2.4.
const TIMING: Timing = Timing {
    fr: ms(30_000),
    fr_inv: ms(120_000),
    t1: ms(500),
    t2: ms(4_000),
    wt: ms(5_000),
    max_inv: ms(180_000),
    max_noninv: ms(32_000),
};

const OPTIONS: Options = Options {
    relay_503: false,
    prefer_real_replies: false,
    cancel_b_method: 1,
    rfc6026: false,
    rfc4320: false,
};

/// A branch in a time of its own.
struct Play {
    client: Client,
    begin: Instant,
    now: Instant,
    log: String,
}

impl Play {
    fn new(start: ClientStart) -> Self {
        Self {
            client: Client::new(start, start.born),
            begin: start.born,
            now: start.born,
            log: String::new(),
        }
    }
    fn log(&mut self, text: &str) {
        let between = if self.log.is_empty() { "" } else { "; " };
        let at = (self.now - self.begin).as_millis();
        write!(self.log, "{between}{at} {text}").unwrap();
    }
    /// Lets the time pass, and stops wherever the branch asked for it.
    fn pass(&mut self, to: Instant) {
        loop {
            let next = self.client.wake().into_iter().chain(self.client.deadline()).min();
            let Some(next) = next.filter(|next| *next <= to) else { break };
            assert!(next >= self.now, "in the past: {}", self.log);
            self.now = next;
            let before = self.log.len();
            while let Some(due) = self.client.due(self.now) {
                self.log(match due {
                    Due::Request => "request",
                    Due::Cancel => "CANCEL",
                    Due::Timeout { spoke: false, cancel: false } => "timeout",
                    Due::Timeout { spoke: true, cancel: false } => "timeout behind a provisional",
                    Due::Timeout { cancel: true, .. } => "timeout, CANCEL",
                });
            }
            assert!(self.log.len() > before, "woke for nothing: {}", self.log);
        }
        self.now = to;
    }
    fn step(&mut self, what: &str) {
        let now = self.now;
        match what.split_once(' ') {
            Some(("cancel", code)) => self.client.cancel_answered(code.parse().unwrap(), now),
            Some(("fr", to)) => {
                let fr = ms(to.parse().unwrap());
                self.client.retime(Timing { fr, fr_inv: fr, ..TIMING }, now);
            }
            None if what == "settle" => self.client.settle(),
            None if what == "cancel" => {
                let done = format!("cancelled: {:?}", self.client.cancel(now));
                self.log(&done.to_lowercase());
            }
            None if what == "end" => {}
            _ => {
                let Heard { ack, cancel, pass } = self.client.reply(what.parse().unwrap(), now);
                let pass = match pass {
                    Pass::Nothing => "hidden",
                    Pass::Provisional | Pass::Success | Pass::Failure => "up",
                };
                let ack = if ack { " ACK" } else { "" };
                let cancel = if cancel { " CANCEL" } else { "" };
                self.log(&format!("{what}{ack}{cancel} {pass}"));
            }
        }
    }
}

/// Plays `"1000 180; 2000 cancel; 2100 cancel 200; 9000 end"`: replies, the wish to cancel, replies
/// to the CANCEL, `settle`, other times.
fn play(start: ClientStart, script: &str) -> String {
    let mut play = Play::new(start);
    for step in script.split("; ") {
        let (at, what) = step.split_once(' ').unwrap();
        play.pass(play.begin + ms(at.parse().unwrap()));
        play.step(what);
    }
    play.log
}

fn start(kind: Kind) -> ClientStart {
    let born = Instant::now();
    ClientStart { kind, reliable: false, timing: TIMING, options: OPTIONS, born }
}

fn invite() -> ClientStart {
    start(Kind::Invite)
}

fn other() -> ClientStart {
    start(Kind::Other)
}

fn with(mut start: ClientStart, change: impl Fn(&mut ClientStart)) -> ClientStart {
    change(&mut start);
    start
}

fn over_tcp(start: ClientStart) -> ClientStart {
    with(start, |start| start.reliable = true)
}

/// Each script with what it comes to.
fn check(start: ClientStart, table: &[(&str, &str)]) {
    for (script, expected) in table {
        assert_eq!(play(start, script), *expected, "{script}");
    }
}

/// The copies of a request that nobody answers.
const COPIES: &str = "500 request; 1500 request; 3500 request; 7500 request; 11500 request; \
                      15500 request; 19500 request; 23500 request; 27500 request";

// ---- retransmission and timers of the request ----------------------------------------------------

#[test]
fn sip_r034_r037_copies_at_t1_doubling_up_to_t2() {
    for kind in [Kind::Invite, Kind::Other] {
        assert_eq!(play(start(kind), "29999 end"), COPIES);
    }
    let short = with(invite(), |start| start.timing.t2 = ms(800));
    assert_eq!(play(short, "3000 end"), "500 request; 1300 request; 2100 request; 2900 request");
    let tiny = with(invite(), |start| start.timing.t2 = ms(100));
    assert_eq!(play(tiny, "250 end"), "100 request; 200 request");
}

#[test]
fn sip_r034_nothing_is_sent_again_over_a_transport_that_delivers() {
    for kind in [Kind::Invite, Kind::Other] {
        assert_eq!(play(over_tcp(start(kind)), "99999 end"), "30000 timeout");
    }
}

#[test]
fn sip_r035_r052_a_provisional_ends_the_copies_and_a_100_goes_nowhere() {
    check(
        invite(),
        &[
            ("700 180; 20000 end", "500 request; 700 180 up"),
            ("700 100; 20000 end", "500 request; 700 100 hidden"),
            ("400 100; 500 183; 20000 end", "400 100 hidden; 500 183 up"),
        ],
    );
}

#[test]
fn sip_r051_every_provisional_goes_up_repeats_too() {
    for kind in [Kind::Invite, Kind::Other] {
        let log = play(start(kind), "100 180; 200 180; 300 101; 400 199");
        assert_eq!(log, "100 180 up; 200 180 up; 300 101 up; 400 199 up");
    }
}

#[test]
fn sip_r036_behind_a_provisional_others_are_repeated_at_t2() {
    check(
        other(),
        &[
            ("100 100; 13000 end", "100 100 hidden; 4100 request; 8100 request; 12100 request"),
            // The second one changes nothing, so that a chatty callee does not silence us.
            ("100 183; 4000 183; 5000 end", "100 183 up; 4000 183 up; 4100 request"),
            ("100 183; 200 200; 40000 end", "100 183 up; 200 200 up"),
        ],
    );
}

#[test]
fn sip_r034_a_branch_that_was_not_looked_at_in_time_makes_up_for_nothing() {
    let start = invite();
    let mut client = Client::new(start, start.born);
    let late = start.born + ms(8_000);
    assert_eq!(client.due(late), Some(Due::Request));
    assert_eq!(client.due(late), None);
    assert_eq!(client.wake(), Some(late + ms(1_000)));
}

#[test]
fn sip_r038_silence_is_a_timeout_after_fr_without_cancel() {
    let log = play(invite(), "99999 end");
    assert_eq!(log, format!("{COPIES}; 30000 timeout"));
    let short = with(invite(), |start| start.timing.fr = ms(3_500));
    assert_eq!(play(short, "9999 end"), "500 request; 1500 request; 3500 timeout");
}

#[test]
fn sip_r038_r148_what_comes_behind_the_timeout_stays_down() {
    let start = with(over_tcp(invite()), |start| start.timing.fr = ms(3_000));
    check(
        start,
        &[
            ("3100 486; 3200 486", "3000 timeout; 3100 486 ACK hidden; 3200 486 ACK hidden"),
            // It rings after all: nobody waits for it.
            ("3100 180; 3200 487", "3000 timeout; 3100 180 CANCEL hidden; 3200 487 ACK hidden"),
        ],
    );
}

#[test]
fn sip_r149_others_time_out_after_fr_whatever_they_said_meanwhile() {
    check(
        over_tcp(other()),
        &[
            ("99999 end", "30000 timeout"),
            ("20000 100; 99999 end", "20000 100 hidden; 30000 timeout behind a provisional"),
            (
                "29000 180; 31000 180; 32000 404",
                "29000 180 up; 30000 timeout behind a provisional; 31000 180 hidden; 32000 404 hidden",
            ),
        ],
    );
    let long = with(over_tcp(other()), |start| start.timing.fr = ms(50_000));
    assert_eq!(play(long, "99999 end"), "32000 timeout");
}

#[test]
fn sip_r039_ringing_alone_is_a_timeout_after_fr_inv_with_cancel() {
    check(
        invite(),
        &[(
            "100 180; 120200 cancel 200; 120300 487; 120400 487; 200000 end",
            "100 180 up; 120100 timeout, CANCEL; 120300 487 ACK hidden; 120400 487 ACK hidden",
        )],
    );
}

#[test]
fn sip_r040_each_provisional_begins_fr_inv_anew() {
    let start = with(over_tcp(invite()), |start| start.timing.fr_inv = ms(5_000));
    check(
        start,
        &[
            ("1000 180; 9000 end", "1000 180 up; 6000 timeout, CANCEL"),
            ("1000 180; 5000 180; 9999 end", "1000 180 up; 5000 180 up"),
            (
                "1000 180; 5000 100; 20000 end",
                "1000 180 up; 5000 100 hidden; 10000 timeout, CANCEL",
            ),
        ],
    );
}

#[test]
fn sip_r040_no_branch_outlives_the_lifetime_of_its_transaction() {
    let start = over_tcp(invite());
    let late = start.born + ms(170_000);
    let mut client = Client::new(start, late);
    assert_eq!(client.deadline(), Some(start.born + ms(180_000)));
    client.reply(180, late);
    assert_eq!(client.deadline(), Some(start.born + ms(180_000)));
    let over = start.born + ms(180_000);
    let timeout = Due::Timeout { spoke: false, cancel: false };
    assert_eq!(Client::new(start, over).due(over), Some(timeout), "it begins too late");
    let chatty = "100000 180; 179000 180; 999999 end";
    let log = play(with(over_tcp(invite()), |start| start.timing.fr = ms(150_000)), chatty);
    assert_eq!(log, "100000 180 up; 179000 180 up; 180000 timeout, CANCEL");
}

#[test]
fn other_times_count_from_there() {
    let start = over_tcp(invite());
    check(
        start,
        &[
            ("1000 fr 2000; 9999 end", "3000 timeout"),
            ("1000 180; 1000 fr 2000; 9999 end", "1000 180 up; 3000 timeout, CANCEL"),
            ("1000 486; 1000 fr 2000; 9999 end", "1000 486 ACK up"),
            (
                "1000 180; 1000 cancel; 2000 fr 90000; 99999 end",
                "1000 180 up; 1000 cancelled: now; 31000 timeout behind a provisional",
            ),
            (
                "1000 180; 1000 cancel; 2000 fr 1000; 99999 end",
                "1000 180 up; 1000 cancelled: now; 3000 timeout behind a provisional",
            ),
        ],
    );
}

#[test]
fn times_without_end_or_length_do_no_harm() {
    let long = with(invite(), |start| {
        start.timing = Timing {
            fr: Duration::MAX,
            fr_inv: Duration::MAX,
            t1: Duration::MAX,
            t2: Duration::MAX,
            wt: Duration::MAX,
            max_inv: Duration::MAX,
            max_noninv: Duration::MAX,
        };
    });
    assert_eq!(play(long, "999999 180; 9999999 cancel"), "999999 180 up; 9999999 cancelled: now");
    let short = with(invite(), |start| {
        start.timing = Timing { t1: Duration::ZERO, t2: Duration::ZERO, ..TIMING };
    });
    assert_eq!(play(short, "2 end"), "1 request; 2 request");
}

// ---- finals --------------------------------------------------------------------------------------

#[test]
fn sip_r043_r045_each_failure_of_an_invite_gets_an_ack_and_the_first_goes_up() {
    check(
        invite(),
        &[
            (
                "100 180; 200 486; 700 486; 40000 486",
                "100 180 up; 200 486 ACK up; 700 486 ACK hidden; 40000 486 ACK hidden",
            ),
            ("600 603; 99999 end", "500 request; 600 603 ACK up"),
            ("100 301; 200 699; 300 999", "100 301 ACK up; 200 699 ACK hidden; 300 999 ACK hidden"),
        ],
    );
}

#[test]
fn sip_r043_other_methods_have_no_ack() {
    check(
        other(),
        &[
            ("100 404; 200 404; 300 500; 99999 end", "100 404 up; 200 404 hidden; 300 500 hidden"),
            ("100 200; 200 200; 300 404", "100 200 up; 200 200 hidden; 300 404 hidden"),
            ("100 404; 200 200", "100 404 up; 200 200 hidden"),
        ],
    );
}

#[test]
fn case_s10_another_final_behind_the_first_is_ignored_but_has_its_ack() {
    let log = play(invite(), "100 500; 600 500; 700 486; 800 cancel; 900 180");
    let expected = "100 500 ACK up; 600 500 ACK hidden; 700 486 ACK hidden; \
                    800 cancelled: nothing; 900 180 hidden";
    assert_eq!(log, expected);
}

#[test]
fn sip_r046_r050_r147_every_2xx_of_an_invite_goes_up() {
    check(
        invite(),
        &[
            (
                "100 200; 600 200; 700 202; 4700 200",
                "100 200 up; 600 200 up; 700 202 up; 4700 200 up",
            ),
            ("100 486; 200 200", "100 486 ACK up; 200 200 up"),
            ("100 200; 200 486; 300 200", "100 200 up; 200 486 ACK hidden; 300 200 up"),
            ("100 180; 200 settle; 300 200", "100 180 up; 300 200 up"),
        ],
    );
    let short = with(over_tcp(invite()), |start| start.timing.fr = ms(3_000));
    assert_eq!(play(short, "3100 200; 3200 200"), "3000 timeout; 3100 200 up; 3200 200 up");
}

#[test]
fn sip_r047_nothing_is_repeated_behind_a_2xx() {
    assert_eq!(play(invite(), "600 200; 999999 end"), "500 request; 600 200 up");
}

#[test]
fn sip_r148_no_provisional_goes_up_behind_a_final() {
    for (code, log) in [("200", "100 200 up"), ("486", "100 486 ACK up")] {
        let script = format!("100 {code}; 200 180; 300 100");
        assert_eq!(play(invite(), &script), format!("{log}; 200 180 hidden; 300 100 hidden"));
    }
}

#[test]
fn what_is_no_status_is_nothing() {
    assert_eq!(
        play(invite(), "100 0; 200 99; 600 end"),
        "100 0 hidden; 200 99 hidden; 500 request"
    );
}

#[test]
fn rfc6026_copies_of_a_2xx_pass_for_64_t1() {
    let strict = with(invite(), |start| start.options.rfc6026 = true);
    let script = "100 200; 32099 200; 32100 200";
    assert_eq!(play(strict, script), "100 200 up; 32099 200 up; 32100 200 hidden");
    assert_eq!(play(invite(), script), "100 200 up; 32099 200 up; 32100 200 up");
}

#[test]
fn rfc4320_what_comes_behind_the_timeout_is_useless() {
    let script = "33000 200; 34000 200";
    assert_eq!(play(over_tcp(other()), script), "30000 timeout; 33000 200 up; 34000 200 hidden");
    let strict = with(over_tcp(other()), |start| start.options.rfc4320 = true);
    assert_eq!(play(strict, script), "30000 timeout; 33000 200 hidden; 34000 200 hidden");
    assert_eq!(play(strict, "33 200"), "33 200 up");
}

#[test]
fn a_branch_tells_how_it_stands() {
    let start = invite();
    let now = start.born;
    let told = |client: &Client| (client.spoke(), client.ended(), client.is_cancelled());
    let mut client = Client::new(start, now);
    assert_eq!(told(&client), (false, None, false));
    client.cancel(now);
    assert_eq!(told(&client), (false, None, true));
    client.reply(100, now);
    assert_eq!(told(&client), (true, None, true));
    client.reply(487, now);
    client.reply(486, now);
    assert_eq!(told(&client), (true, Some(487), true));
    client.reply(200, now);
    assert_eq!(told(&client), (true, Some(200), true));

    let mut silent = Client::new(start, now);
    silent.due(now + ms(30_000));
    assert_eq!(told(&silent), (false, Some(408), false));
    silent.reply(486, now + ms(30_000));
    assert_eq!(told(&silent), (true, Some(408), false));
    let start = with(start, |start| start.options.cancel_b_method = 0);
    let mut gone = Client::new(start, now);
    gone.cancel(now);
    assert_eq!(told(&gone), (false, Some(487), true));
}
