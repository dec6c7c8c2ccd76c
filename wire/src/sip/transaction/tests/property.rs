//! Calls of any kind in any weather, and a plain account of what their caller may see.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::net::Weather;
use super::peers::Plan;
use super::proxy::Event;
use super::world::{Play, World};
use super::{OPTIONS, ms};
use crate::sip::transaction::{Kind, Options};

fn plan() -> impl Strategy<Value = Plan> {
    let after = || (0..7_000_u64).prop_map(ms);
    let code = prop_oneof![
        3 => Just(200_u16),
        1 => Just(302),
        1 => Just(401),
        1 => Just(407),
        1 => Just(404),
        2 => Just(486),
        1 => Just(408),
        1 => Just(500),
        1 => Just(503),
        1 => Just(603),
    ];
    let rings = prop_oneof![1 => Just(None), 3 => (0..2_000_u64).prop_map(|after| Some(ms(after)))];
    let answers = prop_oneof![1 => Just(None), 4 => (after(), code).prop_map(Some)];
    (rings, answers, prop::bool::weighted(0.2)).prop_map(|(rings, answers, deaf)| Plan {
        rings,
        answers,
        deaf,
    })
}

fn weather() -> impl Strategy<Value = Weather> {
    let bad =
        (0..30_u64, 0..20_u64, 1..800_u64, any::<u64>()).prop_map(|(lost, copied, most, seed)| {
            Weather { lost, copied, delay: (1, most), seed, ..Weather::FINE }
        });
    prop_oneof![1 => Just(Weather::FINE), 3 => bad]
}

fn options() -> impl Strategy<Value = Options> {
    (any::<[bool; 3]>(), 0..3_u8).prop_map(|([relay_503, prefer, rfc4320], cancel_b_method)| {
        Options { relay_503, prefer_real_replies: prefer, cancel_b_method, rfc4320, ..OPTIONS }
    })
}

fn play() -> impl Strategy<Value = Play> {
    let kind = prop_oneof![3 => Just(Kind::Invite), 1 => Just(Kind::Other)];
    let legs = prop::collection::vec(prop::collection::vec(plan(), 1..5), 1..4);
    let hangs_up = prop::option::of((0..8_000_u64).prop_map(ms));
    (kind, options(), legs, hangs_up, any::<bool>(), weather()).prop_map(
        |(kind, options, legs, hangs_up, hasty, weather)| Play {
            kind,
            options,
            legs,
            hangs_up,
            hasty,
            weather,
        },
    )
}

/// The place of a failure in the choice, from best to worst, as a person would put it.
fn place(code: u16, made_here: bool, options: Options) -> (bool, u16, u16) {
    let class = match code {
        600.. => 0,
        300..400 => 1,
        401 | 407 => 2,
        400..500 => 3,
        _ => 4,
    };
    (options.prefer_real_replies && made_here, class, code)
}

/// Goes through what happened to one transaction: what the caller was told has to follow from it.
fn check(events: &[Event], kind: Kind, options: Options, mut legs: usize) {
    // Finals of the leg: status, and whether it was made here.
    let mut leg: Vec<Option<(u16, bool)>> = Vec::new();
    let mut first = 0;
    let mut gave_up = Vec::new();
    let mut cancelled = false;
    let mut decided = false;
    let mut expected = VecDeque::new();
    for event in events {
        match *event {
            Event::Leg(branches) => {
                assert!(!decided && !cancelled && leg.iter().all(Option::is_some), "{events:?}");
                first += leg.len();
                leg = vec![None; usize::from(branches)];
                legs -= 1;
                continue;
            }
            Event::Cancelled => cancelled |= kind == Kind::Invite && !decided,
            // RFC 4320 4.2: nobody waits for it.
            Event::Replied(branch, 200..300)
                if options.rfc4320 && kind == Kind::Other && gave_up.contains(&branch) => {}
            Event::Replied(_, code @ 200..300) => {
                if !decided || kind == Kind::Invite {
                    expected.push_back((code, false));
                }
                decided = true;
            }
            Event::Replied(branch, code @ 300..) => {
                if let Some(at) = usize::from(branch).checked_sub(first) {
                    leg[at].get_or_insert((code, false));
                }
            }
            Event::GaveUp(branch, code) => {
                gave_up.push(branch);
                if let Some(at) = usize::from(branch).checked_sub(first) {
                    leg[at].get_or_insert((code, true));
                }
            }
            Event::Replied(..) => {}
            Event::Up(code @ ..200, local) => {
                assert!(!decided || local, "a provisional behind the final: {events:?}");
                assert_ne!((code, local), (100, false), "R52");
            }
            Event::Up(code, local) => {
                assert_eq!(expected.pop_front(), Some((code, local)), "{events:?}");
            }
        }
        let all: Vec<_> = leg.iter().copied().collect::<Option<_>>().unwrap_or_default();
        if decided || all.is_empty() || (legs > 0 && !cancelled) {
            continue;
        }
        decided = true;
        let best = all.iter().min_by_key(|(code, made)| place(*code, *made, options));
        let (code, made_here) = *best.expect("a final");
        let challenges = all.iter().filter(|(code, _)| matches!(code, 401 | 407)).count();
        match code {
            _ if made_here && cancelled => expected.push_back((487, true)),
            408 if kind == Kind::Other && options.rfc4320 => {}
            503 if !options.relay_503 => expected.push_back((500, true)),
            401 | 407 => expected.push_back((code, challenges > 1)),
            _ => expected.push_back((code, made_here)),
        }
    }
    assert!(expected.is_empty(), "{expected:?} did not go up: {events:?}");
    assert!(decided, "no outcome: {events:?}");
}

proptest! {
    #[test]
    fn every_call_ends_and_its_caller_is_told_once(play in play()) {
        let (kind, options, legs) = (play.kind, play.options, play.legs.len());
        let is_fine = play.weather.lost == 0;
        let world = World::play(play);
        prop_assert!(!world.proxy.over.is_empty() || !is_fine);
        for events in &world.proxy.over {
            check(events, kind, options, legs);
        }
        // What is sent again until it is confirmed gets there where nothing is lost.
        if is_fine && !(options.rfc4320 && kind == Kind::Other) {
            prop_assert!(world.caller.seen.iter().any(|seen| seen.code >= 200));
        }
        if is_fine && kind == Kind::Invite {
            for phone in &world.phones {
                let is_answered = matches!(phone.code, Some(200..300));
                prop_assert!(!is_answered || phone.count("ACK") > 0, "{:?}", phone);
            }
        }
        prop_assert!(world.net.now - world.begin < Duration::from_secs(300));
    }
}
