//! The server side with an owner that does at once what it is told, and notes it.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{CancelWhy, Do, Says, Transaction, TransactionStart};
use crate::sip::transaction::{Kind, Options, Timing};

mod caller;
mod choice;
mod legs;

const TIMING: Timing = Timing {
    fr: Duration::from_secs(3),
    fr_inv: Duration::from_secs(5),
    t1: Duration::from_millis(500),
    t2: Duration::from_secs(4),
    wt: Duration::from_secs(5),
    max_inv: Duration::from_secs(180),
    max_noninv: Duration::from_secs(32),
};

const OPTIONS: Options = Options {
    relay_503: false,
    prefer_real_replies: false,
    cancel_b_method: 1,
    rfc6026: false,
    rfc4320: false,
};

const INVITE: TransactionStart = TransactionStart {
    kind: Kind::Invite,
    reliable: false,
    timing: TIMING,
    options: OPTIONS,
    cancelled: false,
};

const OTHER: TransactionStart = TransactionStart { kind: Kind::Other, ..INVITE };

const fn with(start: TransactionStart, options: Options) -> TransactionStart {
    TransactionStart { options, ..start }
}

/// A transaction and its owner. A reply is the branch's name for it.
struct Call {
    tm: Transaction<String>,
    begin: Instant,
    now: Instant,
    /// A failure route is armed: the owner waits for what it says.
    route: bool,
    log: Vec<String>,
}

impl Call {
    /// With so many branches in a leg that is whole.
    fn of(start: TransactionStart, branches: u16) -> Self {
        let mut call = Self::new(start);
        call.leg(branches);
        call
    }

    /// Without branches.
    fn new(start: TransactionStart) -> Self {
        let now = Instant::now();
        let tm = Transaction::new(start, now);
        let mut call = Self { tm, begin: now, now, route: false, log: Vec::new() };
        call.work();
        call
    }

    fn leg(&mut self, branches: u16) {
        for _ in 0..branches {
            let next = self.tm.next_index();
            assert_eq!(self.tm.add(), Some(next));
        }
        self.tm.seal();
        self.work();
    }

    fn says(&mut self, branch: u16, code: u16) -> &mut Self {
        let reply = format!("{code} of {branch}");
        let says = match code {
            100..=199 => Says::Provisional(code, reply),
            200..=299 => Says::Success(code, reply),
            _ => Says::Failure(code, reply),
        };
        self.hears(branch, says)
    }

    fn times_out(&mut self, branch: u16) -> &mut Self {
        self.hears(branch, Says::Timeout { spoke: false })
    }

    fn hears(&mut self, branch: u16, says: Says<String>) -> &mut Self {
        self.tm.hear(branch, says, self.now);
        self.work();
        self
    }

    fn cancel(&mut self) -> bool {
        let did = self.tm.cancel(self.now);
        self.work();
        did
    }

    fn ack(&mut self) -> bool {
        self.tm.ack(self.now)
    }

    /// The script replies (`t_reply`).
    fn replies(&mut self, code: u16) {
        assert!(self.tm.may_reply(code));
        self.tm.replied(code, format!("{code} of the script").into(), true, self.now);
        self.work();
    }

    fn decline(&mut self) {
        self.tm.decline(self.now);
        self.work();
    }

    fn again(&mut self) -> Option<String> {
        self.tm.again().map(|bytes| text(&bytes))
    }

    fn work(&mut self) {
        while let Some(todo) = self.tm.poll() {
            let (line, up) = match todo {
                Do::Relay { branch, code, reply } => {
                    assert_eq!(reply, format!("{code} of {branch}"));
                    (reply.clone(), Some((code, reply, false)))
                }
                Do::Local { code, reason } => {
                    let line = format!("{code} {reason}");
                    (line.clone(), Some((code, line, true)))
                }
                Do::Challenge { code, replies } => {
                    let line = format!("{code} with {}", replies.join(", "));
                    (line.clone(), Some((code, line, true)))
                }
                Do::Cancel { branch, why } => (format!("cancel {branch} {why:?}"), None),
                Do::Settle => ("settle".to_owned(), None),
                Do::Failed { branch, code } => (format!("failed {branch} {code}"), None),
                Do::Over => ("over".to_owned(), None),
            };
            let failed = line.starts_with("failed");
            self.log.push(line);
            if let Some((code, line, local)) = up {
                assert!(self.tm.may_reply(code), "what it is told to send may go up");
                self.tm.replied(code, line.into(), local, self.now);
            }
            if failed && !self.route {
                self.tm.decline(self.now);
            }
        }
    }

    /// Time passes; what is sent again on the way, with its milliseconds since the beginning.
    fn after(&mut self, wait: Duration) -> Vec<(u128, String)> {
        let end = self.now + wait;
        let mut sent = Vec::new();
        while let Some(wake) = self.tm.wake().filter(|wake| *wake <= end) {
            self.now = self.now.max(wake);
            while let Some(bytes) = self.tm.due(self.now) {
                sent.push(((self.now - self.begin).as_millis(), text(&bytes)));
            }
            self.work();
        }
        self.now = end;
        sent
    }

    /// What was done since the last look.
    fn did(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    /// Without what every transaction does.
    fn went_up(&mut self) -> Vec<String> {
        let is_up = |line: &String| line.as_bytes()[0].is_ascii_digit();
        self.did().into_iter().filter(is_up).collect()
    }

    fn is_over(&self) -> bool {
        self.tm.wake().is_none()
    }
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn cancel(branch: u16, why: CancelWhy) -> String {
    format!("cancel {branch} {why:?}")
}
