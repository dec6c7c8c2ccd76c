//! The parsers of both sides of a fisher (C08, C09; S01 to S04b, S06, S08).

use std::time::{Duration, Instant};

use lineway_wire::fisher::{
    Answer, BODY_BYTES, Candidate, Loss, MARKER_LEN, PROBE, PROBE_LIMIT, Probing, REPLY, Verdict,
};

use super::input::Input;

/// Where a line stands at the server, told from all bytes that have come.
#[derive(Clone, Copy, PartialEq)]
enum Stand {
    Probe,
    Answered(Instant),
    Over,
}

/// One line at a server.
///
/// The input: `server-first-delay-ms` and the round trip, a byte each in units of 100 ms, 0 for
/// none; the steps, counted by a byte; the bytes of the client. A step below 0x40 is so many bytes
/// that come, one below 0x80 is so many times 100 ms that pass, any other one the end of the input.
pub(crate) fn probe(data: &[u8]) {
    let mut input = Input::new(data);
    let tenths = |byte: u8| Duration::from_millis(u64::from(byte) * 100);
    let some = |byte: u8| (byte > 0).then(|| tenths(byte));
    let (delay, round_trip) = (some(input.byte()), some(input.byte()));
    let steps = input.counted();
    let stream = input.rest();

    let mut now = Instant::now();
    let begun = now;
    let mut probing = Probing::new(now, delay);
    let mut stand = Stand::Probe;
    let (mut came, mut payload, mut over) = (0, Vec::new(), false);
    for step in steps {
        match step {
            0..0x40 => {
                let to = (came + usize::from(*step)).min(stream.len());
                let piece = &stream[came..to];
                let given = bytes(&mut probing, now, piece, &mut payload);
                let mut expected = Vec::new();
                if stand == Stand::Probe && to >= MARKER_LEN {
                    if stream[..MARKER_LEN] == PROBE {
                        expected.push(Verdict::Answer(MARKER_LEN - came));
                        stand = Stand::Answered(now);
                    } else {
                        expected.push(Verdict::WrongProbe);
                        (stand, over) = (Stand::Over, true);
                    }
                }
                if matches!(stand, Stand::Answered(_)) && to > MARKER_LEN {
                    expected.push(Verdict::Init);
                    stand = Stand::Over;
                }
                assert_eq!(given, expected, "{piece:?} at {came} of {stream:?}");
                came = to;
            }
            0x40..0x80 => {
                now += tenths(step - 0x40);
                let silent = |since| {
                    delay.map(|delay| since + delay.max(round_trip.unwrap_or_default() * 4))
                };
                let expected = match stand {
                    Stand::Probe if now >= begun + PROBE_LIMIT => {
                        (stand, over) = (Stand::Over, true);
                        Verdict::ProbeTimeout
                    }
                    Stand::Answered(since) if silent(since).is_some_and(|at| now >= at) => {
                        stand = Stand::Over;
                        Verdict::InitServerFirst
                    }
                    _ => Verdict::Wait,
                };
                assert_eq!(probing.timeout(now, round_trip), expected);
                assert!(probing.deadline().is_none_or(|at| at > now), "nobody would wake it");
            }
            _ => {
                let expected = if stand == Stand::Over { Verdict::Wait } else { Verdict::Ended };
                assert_eq!(probing.input_ended(), expected);
                (stand, over) = (Stand::Over, true);
            }
        }
        assert_eq!(probing.is_done(), stand == Stand::Over, "S07");
        assert_eq!(probing.answered(), matches!(stand, Stand::Answered(_)), "S05");
        assert!(stand != Stand::Probe || probing.kept() == came, "what has come is kept");
        assert!(stand != Stand::Probe || probing.deadline().is_some(), "S08");
        if over {
            return;
        }
    }
    assert_eq!(payload, stream[came.min(MARKER_LEN)..came], "S04: all of it, in order");
}

/// Tells a line what has come, as its stage does; gives what it said but for `Wait`.
fn bytes(probing: &mut Probing, now: Instant, piece: &[u8], payload: &mut Vec<u8>) -> Vec<Verdict> {
    let (mut rest, mut said) = (piece, Vec::new());
    while !rest.is_empty() {
        // Out of the way: it would not be asked any more.
        if probing.is_done() {
            payload.extend_from_slice(rest);
            break;
        }
        let verdict = probing.payload(now, rest);
        match verdict {
            Verdict::Answer(used) => rest = &rest[used..],
            Verdict::Init => payload.extend_from_slice(std::mem::take(&mut rest)),
            _ => rest = &[],
        }
        if verdict != Verdict::Wait {
            said.push(verdict);
        }
    }
    said
}

/// What one candidate sends before the choice: in pieces it means the same as whole.
///
/// The input: so many times 64 KiB that are there behind the bytes given, one byte; the lengths of
/// the pieces, counted by a byte; the bytes of the server.
pub(crate) fn reply(data: &[u8]) {
    let mut input = Input::new(data);
    let behind = usize::from(input.byte()) << 16;
    let cuts = input.counted();
    let stream = input.rest();

    let whole = Candidate::new().bytes(stream, behind);
    let expected = match stream.get(..MARKER_LEN) {
        None => Answer::More,
        Some(marker) if marker != REPLY => Answer::Lost(Loss::BadReply),
        Some(_) if stream.len() - MARKER_LEN + behind > BODY_BYTES => Answer::Lost(Loss::Overflow),
        Some(_) => Answer::Proved(MARKER_LEN),
    };
    assert_eq!(whole, expected, "{behind} behind {stream:?}");

    // All of it is there, in several buffers; or it comes bit by bit, and the rest is not known.
    assert_eq!(pieces(cuts, stream, Some(behind)), whole);
    let bit_by_bit = match whole {
        Answer::Lost(Loss::Overflow) => Answer::Proved(MARKER_LEN),
        other => other,
    };
    assert_eq!(pieces(cuts, stream, None), bit_by_bit);
}

/// The answer to pieces of these lengths and a last one, with the bytes that were used in all.
fn pieces(cuts: &[u8], stream: &[u8], behind: Option<usize>) -> Answer {
    let mut candidate = Candidate::new();
    let mut input = Input::new(stream);
    let mut used = 0;
    let lengths = cuts.iter().map(|cut| usize::from(*cut)).chain([stream.len()]);
    for length in lengths {
        let piece = input.take(length);
        let at = used + piece.len();
        let more = behind.map_or(0, |behind| stream.len() - at + behind);
        match candidate.bytes(piece, more) {
            Answer::More => {
                used = at;
                assert_eq!(candidate.kept(), used, "what has come is kept");
                assert!(used < MARKER_LEN, "C08: 4 at most");
            }
            Answer::Proved(of_it) => return Answer::Proved(used + of_it),
            lost @ Answer::Lost(_) => return lost,
        }
    }
    Answer::More
}
