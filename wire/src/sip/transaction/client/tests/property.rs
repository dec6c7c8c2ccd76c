//! Whatever happens in whatever order, a branch keeps its promises.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    Reply(u16),
    CancelAnswered(u16),
    Cancel,
    Settle,
    Retime(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..20_000_u64).prop_map(Step::Wait),
        2 => prop_oneof![Just(0), Just(100), 101..200_u16].prop_map(Step::Reply),
        2 => prop_oneof![200..300_u16, 300..700_u16, Just(487), Just(999)].prop_map(Step::Reply),
        1 => (100..600_u16).prop_map(Step::CancelAnswered),
        1 => Just(Step::Cancel),
        1 => Just(Step::Settle),
        1 => (0..40_000_u64).prop_map(Step::Retime),
    ]
}

/// A branch and what it was seen to do.
struct Seen {
    client: Client,
    start: ClientStart,
    now: Instant,
    failures: u32,
    ends: u32,
    /// A final came.
    answered: bool,
    settled: bool,
    cancel_answered: bool,
    cancels: u32,
    /// Nothing is to be sent from there on.
    quiet: Instant,
}

impl Seen {
    fn sent_cancel(&mut self) {
        assert!(self.start.kind == Kind::Invite, "only an INVITE is cancelled");
        assert!(!self.answered || self.cancels > 0, "a CANCEL behind the final");
        assert!(!self.cancel_answered, "a CANCEL that was answered is sent again");
        if self.cancels == 0 {
            self.quiet = self.now + self.client.timing.open().fr;
        }
        self.cancels += 1;
    }

    fn due(&mut self) {
        while let Some(due) = self.client.due(self.now) {
            match due {
                Due::Request => {
                    assert!(!self.start.reliable && !self.settled && self.ends == 0);
                    assert!(!self.answered, "a copy behind the final");
                }
                Due::Cancel => {
                    assert!(!self.start.reliable && self.cancels > 0);
                    assert!(self.now < self.quiet, "a CANCEL without end");
                    self.sent_cancel();
                }
                Due::Timeout { spoke, cancel } => {
                    assert!(!self.answered && !self.settled);
                    assert!(spoke || !cancel);
                    self.ends += 1;
                    if cancel {
                        assert_eq!(self.cancels, 0, "the CANCEL was sent already");
                        self.sent_cancel();
                    }
                }
            }
        }
        for next in self.client.wake().into_iter().chain(self.client.deadline()) {
            assert!(next > self.now, "in the past");
        }
    }

    fn pass(&mut self, to: Instant) {
        loop {
            let next = self.client.wake().into_iter().chain(self.client.deadline()).min();
            let Some(next) = next.filter(|next| *next <= to) else { break };
            self.now = next.max(self.now);
            self.due();
        }
        self.now = to;
        self.due();
    }

    fn reply(&mut self, code: u16) {
        let was_over = self.answered || self.ends > 0;
        let Heard { ack, cancel, pass } = self.client.reply(code, self.now);
        assert_eq!(ack, self.start.kind == Kind::Invite && code >= 300, "the ACK of {code}");
        match pass {
            Pass::Provisional => assert!((101..200).contains(&code) && !was_over),
            Pass::Success => assert!((200..300).contains(&code)),
            Pass::Failure => {
                assert!(code >= 300 && !was_over);
                self.failures += 1;
            }
            Pass::Nothing => {
                let is_2xx = (200..300).contains(&code) && self.start.kind == Kind::Invite;
                assert!(!is_2xx || self.start.options.rfc6026, "a 2xx was lost");
            }
        }
        if cancel {
            assert!(!self.answered, "a CANCEL behind the final");
            self.sent_cancel();
        }
        if code >= 200 {
            self.answered = true;
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Wait(wait) => self.pass(self.now + ms(wait)),
            Step::Reply(code) => self.reply(code),
            Step::CancelAnswered(code) => {
                self.client.cancel_answered(code, self.now);
                self.cancel_answered |= self.cancels > 0 && code >= 200;
            }
            Step::Cancel => match self.client.cancel(self.now) {
                Cancelling::Now => {
                    assert_eq!(self.cancels, 0);
                    self.sent_cancel();
                }
                Cancelling::Gone => {
                    assert!(!self.answered && self.ends == 0);
                    self.ends += 1;
                }
                Cancelling::Later => assert!(!self.answered && self.ends == 0),
                Cancelling::Nothing => {}
            },
            Step::Settle => {
                self.client.settle();
                self.settled = true;
                assert_eq!(self.client.deadline(), None);
            }
            Step::Retime(fr) => {
                let timing = Timing { fr: ms(fr), fr_inv: ms(fr * 4), ..self.client.timing.open() };
                self.client.retime(timing, self.now);
            }
        }
        assert_eq!(self.client.ended().is_some(), self.answered || self.ends > 0);
        assert!(self.failures + self.ends <= 1, "one end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn a_branch_ends_once_and_is_quiet_behind_its_end(
        steps in proptest::collection::vec(step(), 0..30),
        is_invite: bool,
        reliable: bool,
        cancel_b_method in 0..3_u8,
        rfc6026: bool,
        rfc4320: bool,
        age in 0..10_000_u64,
    ) {
        let kind = if is_invite { Kind::Invite } else { Kind::Other };
        let start = with(start(kind), |start| {
            start.reliable = reliable;
            start.options = Options { cancel_b_method, rfc6026, rfc4320, ..OPTIONS };
        });
        let now = start.born + ms(age);
        let mut seen = Seen {
            client: Client::new(start, now),
            start,
            now,
            failures: 0,
            ends: 0,
            answered: false,
            settled: false,
            cancel_answered: false,
            cancels: 0,
            quiet: now,
        };
        for step in steps {
            seen.step(step);
        }
        // Nothing happens any more: what is open ends within the lifetime, its CANCEL within fr.
        let life = if is_invite { TIMING.max_inv } else { TIMING.max_noninv };
        let fr = seen.client.timing.open().fr.max(ms(40_000));
        let end = seen.now.max(start.born + life) + fr;
        seen.pass(end);
        prop_assert_eq!((seen.client.wake(), seen.client.deadline()), (None, None));
        prop_assert!(seen.settled || seen.client.ended().is_some());
    }
}
