//! Whether a target of the dispatcher lives: it is asked with OPTIONS in an interval, and inactive
//! while it does not answer as it should.
//!
//! ```text
//!            a failure (threshold: failures in a row)
//!   active ---------------------------------------------> inactive
//!      ^                                                     |
//!      +-----------------------------------------------------+
//!            an answer (threshold: answers in a row)
//! ```
//!
//! A probe fails where the message can not be sent, where nothing final comes before the next probe
//! or within 64 times T1, and by 408, 5xx other than 501, and 6xx: the target is there and can not
//! take a call. Any other final is an answer: 2xx and 3xx, and 4xx and 501 of one that does not
//! know, or does not like, OPTIONS.

use std::io::Write;
use std::time::{Duration, Instant};

use super::message::{Message, Method};
use super::own::{DEFAULT_PORT, Socket};

#[cfg(test)]
mod tests;

/// How a target is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSettings {
    /// From one probe to the next.
    pub interval: Duration,
    /// The first interval of retransmission; it doubles up to `t2`.
    pub t1: Duration,
    /// The longest interval of retransmission.
    pub t2: Duration,
    /// Failures in a row that make an active target inactive; at least 1.
    pub failures: u32,
    /// Answers in a row that make an inactive target active; at least 1.
    pub answers: u32,
}

impl ProbeSettings {
    /// Probes in this interval, all else by default: one failure and one answer are enough.
    pub const fn every(interval: Duration) -> Self {
        let (t1, t2) = (Duration::from_millis(500), Duration::from_secs(4));
        Self { interval, t1, t2, failures: 1, answers: 1 }
    }

    /// How long an answer is waited for.
    fn patience(&self) -> Duration {
        self.interval.min(self.t1 * 64)
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Send a probe with this number.
    Ask(u32),
    /// Send the same bytes again; over a reliable transport nothing.
    Again(u32),
    /// Nothing: the probe that was out failed for want of an answer.
    Silent,
}

/// What a probe came to: the `result` of what is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbeResult {
    /// It was answered as by one that lives.
    Answered,
    /// It was answered as by one that can not take a call.
    Refused,
    /// Nothing final came.
    Silent,
    /// It could not be sent: no address, or the system or the peer refused.
    Unsent,
}

impl ProbeResult {
    /// Every result, in the order of the metrics.
    pub const ALL: [Self; 4] = [Self::Answered, Self::Refused, Self::Silent, Self::Unsent];

    /// The word used as metric label and log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Silent => "silent",
            Self::Unsent => "unsent",
        }
    }

    /// What a final reply says.
    const fn of(code: u16) -> Self {
        match code {
            501 | 200..=407 | 409..=499 => Self::Answered,
            _ => Self::Refused,
        }
    }
}

/// The probing of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    settings: ProbeSettings,
    active: bool,
    /// Results in a row that speak against what it is taken for.
    row: u32,
    number: u32,
    next: Instant,
    out: Option<Out>,
}

/// The probe that is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Out {
    again: Instant,
    gap: Duration,
    ends: Instant,
}

impl Probe {
    /// A target that counts as active, and is asked for the first time at `first`.
    pub const fn new(settings: ProbeSettings, first: Instant) -> Self {
        Self { settings, active: true, row: 0, number: 0, next: first, out: None }
    }

    /// Other settings, from the next probe on; that is not later than the new interval says.
    pub fn set(&mut self, settings: ProbeSettings, now: Instant) {
        if self.settings != settings {
            self.settings = settings;
            self.next = self.next.min(now + settings.interval);
        }
    }

    /// Whether it counts as active.
    pub const fn is_active(&self) -> bool {
        self.active
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self) -> Instant {
        self.out.map_or(self.next, |out| out.again.min(out.ends))
    }

    /// What is to be done by now; again until there is nothing.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Act> {
        if let Some(out) = &mut self.out {
            if now >= out.ends {
                self.came_to(ProbeResult::Silent);
                return Some(Act::Silent);
            }
            if now < out.again {
                return None;
            }
            out.gap = (out.gap * 2).min(self.settings.t2);
            out.again = now + out.gap;
            return Some(Act::Again(self.number));
        }
        if now < self.next {
            return None;
        }
        // After a long pause of the process one probe is enough.
        self.next = (self.next + self.settings.interval).max(now);
        self.number = self.number.wrapping_add(1);
        let gap = self.settings.t1;
        let ends = now + self.settings.patience();
        self.out = Some(Out { again: now + gap, gap, ends });
        Some(Act::Ask(self.number))
    }

    /// A reply to the probe of this number came. `None` for a provisional one, and for one to an
    /// earlier probe.
    pub fn reply(&mut self, number: u32, code: u16) -> Option<ProbeResult> {
        if number != self.number || self.out.is_none() || code < 200 {
            return None;
        }
        let result = ProbeResult::of(code);
        self.came_to(result);
        Some(result)
    }

    /// The probe of this number could not be sent: whether it was still out.
    pub fn unsent(&mut self, number: u32) -> bool {
        let is_out = number == self.number && self.out.is_some();
        if is_out {
            self.came_to(ProbeResult::Unsent);
        }
        is_out
    }

    /// Somebody else found that it fails: it is inactive until it answers.
    pub const fn mark_failed(&mut self) {
        self.active = false;
        self.row = 0;
    }

    fn came_to(&mut self, result: ProbeResult) {
        self.out = None;
        let speaks_for = result == ProbeResult::Answered;
        if speaks_for == self.active {
            self.row = 0;
            return;
        }
        self.row += 1;
        let enough = if self.active { self.settings.failures } else { self.settings.answers };
        if self.row >= enough {
            self.active = !self.active;
            self.row = 0;
        }
    }
}

/// What the branch of each probe begins with, and of nothing else that is sent from here.
const BRANCH: &[u8] = b"z9hG4bKlwprobe.";

/// Whose probe a message is: who asks, whom, and which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeId {
    /// The same for all probes of a node, and not to be guessed.
    pub asker: u64,
    /// The target.
    pub target: u32,
    /// The number of the probe.
    pub number: u32,
}

impl ProbeId {
    /// The probe that a reply is to; `None` for any other message.
    pub fn of_reply(reply: &Message) -> Option<Self> {
        let via = reply.via();
        let mut parts = via.branch()?.strip_prefix(BRANCH)?.split(|byte| *byte == b'.');
        let mut part = |most: usize| {
            let text = parts.next().filter(|text| text.len() <= most)?;
            u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
        };
        let (asker, target, number) = (part(16)?, part(8)?, part(8)?);
        let is_reply = !reply.is_request() && reply.method().as_bytes() == b"OPTIONS";
        let (target, number) = (u32::try_from(target).ok()?, u32::try_from(number).ok()?);
        is_reply.then_some(Self { asker, target, number })
    }

    /// Writes the OPTIONS that asks the target of a URI, leaving by this socket. The same probe is
    /// the same bytes.
    pub fn write(&self, uri: &[u8], socket: &Socket, out: &mut Vec<u8>) {
        let Self { asker, target, number } = self;
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
        let port = match socket.port {
            DEFAULT_PORT => String::new(),
            port => format!(":{port}"),
        };
        let branch = format!(".{asker:x}.{target:x}.{number:x}");
        let (transport, host) = (socket.transport.as_str().as_bytes(), &socket.host[..]);
        put(&[
            Method::Options.as_bytes(),
            b" ",
            uri,
            b" SIP/2.0\r\nVia: SIP/2.0/",
            transport,
            b" ",
        ]);
        put(&[host, port.as_bytes(), b";rport;branch=", &BRANCH[..BRANCH.len() - 1]]);
        put(&[branch.as_bytes(), b"\r\nMax-Forwards: 70\r\nFrom: <sip:dispatcher@", host]);
        put(&[port.as_bytes(), b">;tag="]);
        // Writing to a Vec never fails.
        let _ = write!(out, "{asker:x}-{number:x}\r\nTo: <");
        out.extend_from_slice(uri);
        let _ = write!(
            out,
            ">\r\nCall-ID: {asker:x}-{target:x}\r\nCSeq: {} OPTIONS\r\nUser-Agent: lineway\r\n\
             Content-Length: 0\r\n\r\n",
            // Below 2^31 (8.1.1.5).
            number & 0x7fff_ffff
        );
    }
}
