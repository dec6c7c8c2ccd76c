//! The server's side of one line: from its first byte to the `Init` of the backend.

use std::time::{Duration, Instant};

use super::{MARKER_LEN, Marker, PROBE, PROBE_LIMIT, Step};

/// What is to be done with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: more bytes are needed, or payload.
    Wait,
    /// The probe is right: answer [`REPLY`](super::REPLY) at once (S03). So many of the bytes
    /// belonged to it; what follows them is payload, to be told with the next call.
    Answer(usize),
    /// `Init` towards `next`, with the payload that is there (S04).
    Init,
    /// `Init` towards `next` without payload: the backend may speak first (S04b).
    InitServerFirst,
    /// The probe is wrong: close the line (S02).
    WrongProbe,
    /// The probe did not come in time: close the line (S08).
    ProbeTimeout,
    /// The input ended before there was a payload: close the line (S04b, S06).
    Ended,
}

/// The start of one line at a `ConnectionFisherServer`. Gone once the backend has its `Init`
/// (S07).
#[derive(Clone, Copy, Debug)]
pub struct Probing {
    state: State,
    server_first: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Probe { marker: Marker, until: Instant },
    Payload { since: Instant, until: Option<Instant> },
    Done,
}

impl Probing {
    /// A line that begins at `now`. `server_first` is how long it waits for a payload after the
    /// probe before the backend gets its `Init` without one; `None` = for ever (S04b).
    pub fn new(now: Instant, server_first: Option<Duration>) -> Self {
        let marker = Marker::new(PROBE);
        Self { state: State::Probe { marker, until: now + PROBE_LIMIT }, server_first }
    }

    /// Bytes came from the client. After [`Verdict::Answer`] the rest is to be told again.
    pub fn payload(&mut self, now: Instant, bytes: &[u8]) -> Verdict {
        match &mut self.state {
            _ if bytes.is_empty() => Verdict::Wait,
            State::Probe { marker, .. } => match marker.feed(bytes) {
                Step::More => Verdict::Wait,
                Step::Wrong => self.done(Verdict::WrongProbe),
                Step::Right(used) => {
                    let until = self.server_first.map(|delay| now + delay);
                    self.state = State::Payload { since: now, until };
                    Verdict::Answer(used)
                }
            },
            State::Payload { .. } => self.done(Verdict::Init),
            State::Done => Verdict::Wait,
        }
    }

    /// The client's input ended.
    pub fn input_ended(&mut self) -> Verdict {
        match self.state {
            State::Done => Verdict::Wait,
            _ => self.done(Verdict::Ended),
        }
    }

    /// The time that [`Self::deadline`] names has come.
    ///
    /// `round_trip` is what the transport has measured, where it has: a client has four times as
    /// long for its first payload before its silence means something (S04b).
    pub fn timeout(&mut self, now: Instant, round_trip: Option<Duration>) -> Verdict {
        if self.deadline().is_none_or(|at| now < at) {
            return Verdict::Wait;
        }
        match &mut self.state {
            State::Probe { .. } => self.done(Verdict::ProbeTimeout),
            State::Payload { since, until } => {
                let least = *since + round_trip.unwrap_or_default().saturating_mul(4);
                if now < least {
                    *until = Some(least);
                    return Verdict::Wait;
                }
                self.done(Verdict::InitServerFirst)
            }
            State::Done => Verdict::Wait,
        }
    }

    /// When [`Self::timeout`] has something to say.
    pub const fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Probe { until, .. } => Some(*until),
            State::Payload { until, .. } => *until,
            State::Done => None,
        }
    }

    /// True once the probe was right (S05).
    pub const fn answered(&self) -> bool {
        matches!(self.state, State::Payload { .. })
    }

    /// True when the line has nothing to do with the node any more (S07).
    pub const fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Bytes of the probe that are there; less than the whole while it is waited for.
    pub const fn kept(&self) -> usize {
        match &self.state {
            State::Probe { marker, .. } => marker.kept(),
            _ => MARKER_LEN,
        }
    }

    const fn done(&mut self, verdict: Verdict) -> Verdict {
        self.state = State::Done;
        verdict
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::{Probing, Verdict};

    const SECOND: Duration = Duration::from_secs(1);

    /// What comes of a whole input in pieces: the verdicts other than `Wait`, and the payload.
    fn run(pieces: &[&[u8]]) -> (Vec<Verdict>, Vec<u8>) {
        let now = Instant::now();
        let mut probing = Probing::new(now, Some(SECOND));
        let (mut verdicts, mut payload) = (Vec::new(), Vec::new());
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let verdict = probing.payload(now, rest);
                match verdict {
                    Verdict::Answer(used) => rest = &rest[used..],
                    Verdict::Init => {
                        payload.extend_from_slice(rest);
                        rest = &[];
                    }
                    _ => {
                        if probing.is_done() && verdict == Verdict::Wait {
                            payload.extend_from_slice(rest);
                        }
                        rest = &[];
                    }
                }
                if verdict != Verdict::Wait {
                    verdicts.push(verdict);
                }
            }
        }
        (verdicts, payload)
    }

    #[test]
    fn fisher_s03_s04_the_probe_is_answered_and_payload_behind_it_begins_the_backend() {
        let answer = |used| Verdict::Answer(used);
        assert_eq!(run(&[b"FISH?hi"]), (vec![answer(5), Verdict::Init], b"hi".to_vec()));
        assert_eq!(run(&[b"FI", b"SH?hi"]), (vec![answer(3), Verdict::Init], b"hi".to_vec()));
        assert_eq!(run(&[b"F", b"I", b"S", b"H", b"?"]), (vec![answer(1)], vec![]));
    }

    #[test]
    fn fisher_s02_wrong_bytes_close_and_shorter_input_waits() {
        assert_eq!(run(&[b"FISH."]), (vec![Verdict::WrongProbe], vec![]));
        assert_eq!(run(&[b"FFFF"]), (vec![], vec![]), "looked at when all five are there");
        assert_eq!(run(&[b"FFFFFFF"]).0, [Verdict::WrongProbe]);
    }

    #[test]
    fn fisher_s08_a_probe_that_does_not_come_in_time_closes() {
        let now = Instant::now();
        let mut probing = Probing::new(now, None);
        assert_eq!(probing.payload(now, b"FISH"), Verdict::Wait);
        assert_eq!(probing.timeout(now + Duration::from_millis(4999), None), Verdict::Wait);
        assert_eq!(probing.timeout(now + SECOND * 5, None), Verdict::ProbeTimeout);
        assert!(probing.is_done());
    }

    #[test]
    fn fisher_s04b_a_silent_client_begins_the_backend_after_the_delay_and_0_means_never() {
        let now = Instant::now();
        let begin = || {
            let mut probing = Probing::new(now, Some(SECOND));
            probing.payload(now, b"FISH?");
            probing
        };
        let mut probing = begin();
        assert!(probing.answered());
        assert_eq!(probing.deadline(), Some(now + SECOND));
        let near = Some(Duration::from_millis(20));
        assert_eq!(probing.timeout(now + SECOND, near), Verdict::InitServerFirst);
        let mut far = begin();
        assert_eq!(far.timeout(now + SECOND, Some(Duration::from_millis(400))), Verdict::Wait);
        assert_eq!(far.deadline(), Some(now + Duration::from_millis(1600)));
        assert_eq!(far.timeout(now + SECOND * 2, None), Verdict::InitServerFirst);
        let mut never = Probing::new(now, None);
        never.payload(now, b"FISH?");
        assert_eq!(never.deadline(), None);
    }

    #[test]
    fn fisher_s04b_s06_an_end_before_any_payload_ends_the_line() {
        let now = Instant::now();
        let mut early = Probing::new(now, None);
        assert_eq!(early.input_ended(), Verdict::Ended);
        let mut answered = Probing::new(now, None);
        answered.payload(now, b"FISH?");
        assert_eq!(answered.input_ended(), Verdict::Ended);
        let mut begun = Probing::new(now, None);
        begun.payload(now, b"FISH?");
        begun.payload(now, b"x");
        assert_eq!(begun.input_ended(), Verdict::Wait, "S07: out of the way");
    }

    proptest! {
        #[test]
        fn fisher_s04_any_segmentation_gives_the_same(
            payload in proptest::collection::vec(any::<u8>(), 0..40),
            cuts in proptest::collection::vec(0usize..45, 0..10),
        ) {
            let whole: Vec<u8> = b"FISH?".iter().chain(&payload).copied().collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(whole.len())).collect();
            cuts.extend([0, whole.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &whole[w[0]..w[1]]).collect();
            let (verdicts, out) = run(&pieces);
            prop_assert_eq!(&out, &payload);
            prop_assert_eq!(verdicts.len(), if payload.is_empty() { 1 } else { 2 });
        }
    }
}
