//! Bindings that are saved, found, swept and counted.

mod files;

use lineway_wire::sip::message::{Limits, Message};
use lineway_wire::sip::registrar::Saved;

use super::*;

const RULES: Rules = Rules { min_expires: 60, max_expires: 0, max_contacts: 0 };
const MOST: usize = 1000;
const TABLE: &[u8] = b"location";

/// A REGISTER of a user.
fn register(user: &str, cseq: u32, contact: &str) -> Register {
    let text = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKr\r\n\
         From: <sip:{user}@example.com>;tag=f\r\nTo: <sip:{user}@example.com>\r\n\
         Call-ID: {user}\r\nCSeq: {cseq} REGISTER\r\n{contact}\r\n\r\n"
    );
    let message = Message::parse(text.into(), &Limits::default()).unwrap();
    Register::read(&message, &RULES).unwrap()
}

fn origin() -> Origin {
    let socket = Some("127.0.0.1:5060".parse().unwrap());
    Origin {
        received: Some("sip:10.0.0.1:5080".into()),
        socket: socket.map(|address| (lineway_wire::sip::own::Transport::Udp, address)),
        flags: 2,
        only_one: false,
        ruid: 0,
    }
}

/// Binds a user's phone for so many seconds.
fn bind(locations: &Locations, user: &str, cseq: u32, seconds: u32, now: Instant) -> bool {
    let contact = format!("Contact: <sip:{user}@10.0.0.1>;expires={seconds};q=0.5");
    let register = register(user, cseq, &contact);
    locations.save(TABLE, &register, origin(), &RULES, MOST, now).is_ok()
}

fn is_bound(locations: &Locations, user: &str, now: Instant) -> bool {
    locations.read(TABLE, user.as_bytes(), now, registrar::is_registered)
}

#[test]
fn tables_are_apart_and_addresses_too() {
    let (locations, now) = (Locations::default(), Instant::now());
    assert!(bind(&locations, "bob", 1, 600, now));
    assert!(is_bound(&locations, "bob", now));
    assert!(!is_bound(&locations, "bo", now));
    for (table, aor) in [(&b"other"[..], &b"bob"[..]), (b"locationb", b"ob"), (b"", b"locationbob")]
    {
        assert!(!locations.read(table, aor, now, registrar::is_registered));
    }
    locations.remove(b"other", b"bob");
    assert!(is_bound(&locations, "bob", now));
    locations.remove(TABLE, b"bob");
    assert!(!is_bound(&locations, "bob", now));
    assert_eq!(locations.bindings(), 0);
}

#[test]
fn what_is_over_is_not_found_and_is_swept() {
    let (locations, now) = (Locations::default(), Instant::now());
    bind(&locations, "bob", 1, 60, now);
    bind(&locations, "eve", 1, 120, now);
    let later = now + Duration::from_secs(61);
    locations.sweep(now + Duration::from_secs(58));
    assert_eq!(locations.bindings(), 2);
    assert!(!is_bound(&locations, "bob", later) && is_bound(&locations, "eve", later));
    assert_eq!(locations.bindings(), 2, "it is there until it is swept");
    assert_eq!((locations.sweep(later), locations.bindings()), (1, 1));
    bind(&locations, "eve", 2, 600, later);
    locations.sweep(later + Duration::from_secs(120));
    assert_eq!(locations.bindings(), 1, "a refresh counts");
}

#[test]
fn a_sweep_is_a_bounded_piece_of_work() {
    let (memory, mut changed) = (Memory::default(), Vec::new());
    let locations = Locations::default();
    bind(&locations, "bob", 1, 60, Instant::now());
    let binding = locations.read(TABLE, b"bob", Instant::now(), |all, _| all[0].clone());
    for number in 0_u32..20_000 {
        memory.load(memory::key(TABLE, &number.to_be_bytes()), vec![binding.clone()]);
    }
    let first = memory.sweep(u64::MAX - 1, 1000, &mut changed);
    assert!((1000..2000).contains(&first), "{first}");
    let mut all = first;
    for _ in 0..20 {
        all += memory.sweep(u64::MAX - 1, 1000, &mut changed);
    }
    assert_eq!((all, memory.bindings(), changed.len()), (20_000, 0, 20_000));
}

#[test]
fn there_are_no_more_bindings_than_the_setting_allows() {
    let (locations, now) = (Locations::default(), Instant::now());
    let save = |user: &str, cseq, contact: &str| {
        let register = register(user, cseq, &format!("Contact: {contact}"));
        locations.save(TABLE, &register, origin(), &RULES, 2, now).map(|(update, _)| update.saved)
    };
    assert_eq!(save("a", 1, "<sip:a@1>"), Ok(Saved::Inserted));
    assert_eq!(save("b", 1, "<sip:b@1>, <sip:b@2>"), Err(Refusal::FULL));
    assert!(!is_bound(&locations, "b", now), "all or nothing");
    assert_eq!(save("b", 1, "<sip:b@1>"), Ok(Saved::Inserted));
    assert_eq!(save("c", 1, "<sip:c@1>"), Err(Refusal::FULL));
    assert_eq!(save("a", 2, "<sip:a@1>"), Ok(Saved::Updated));
    assert_eq!(save("a", 3, "<sip:a@2>, <sip:a@1>;expires=0"), Ok(Saved::Inserted), "a move");
    assert_eq!(save("a", 4, "<sip:a@2>;expires=0"), Ok(Saved::Removed));
    assert_eq!(save("c", 1, "<sip:c@1>"), Ok(Saved::Inserted));
    assert_eq!(locations.bindings(), 2);
}

#[test]
fn no_two_bindings_have_one_number() {
    let (locations, now) = (Locations::default(), Instant::now());
    for user in ["a", "b", "c"] {
        let register = register(user, 1, "Contact: <sip:x@1>, <sip:x@2>");
        locations.save(TABLE, &register, origin(), &RULES, MOST, now).unwrap();
    }
    let numbers = |user: &str| {
        locations.read(TABLE, user.as_bytes(), now, |bindings, _| {
            bindings.iter().map(|binding| binding.ruid).collect::<Vec<_>>()
        })
    };
    let all: std::collections::BTreeSet<_> =
        ["a", "b", "c"].iter().flat_map(|u| numbers(u)).collect();
    assert_eq!(all.len(), 6);
}

#[test]
fn any_thread_saves_and_the_count_is_right() {
    let (locations, now) = (Locations::default(), Instant::now());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let locations = &locations;
            scope.spawn(move || {
                for number in 0..500 {
                    bind(locations, &format!("u{}", (number * 7 + thread) % 100), number, 600, now);
                    if number % 3 == 0 {
                        locations.remove(TABLE, format!("u{}", number % 100).as_bytes());
                    }
                }
            });
        }
    });
    let users = (0..100).filter(|user| is_bound(&locations, &format!("u{user}"), now));
    assert_eq!(locations.bindings(), users.count());
}

#[test]
fn a_record_is_read_as_it_was_written_and_nothing_else_is() {
    let (locations, now) = (Locations::default(), Instant::now());
    let contact = "Contact: <sip:a@1>;q=0.7;+sip.instance=\"<i>\";reg-id=3, <sip:a@2>\r\n\
                   Path: <sip:p;lr>\r\nUser-Agent: U\r\nAllow: INVITE";
    let register = register("a", 7, contact);
    locations.save(TABLE, &register, origin(), &RULES, MOST, now).unwrap();
    let bare = Origin { received: None, socket: None, ..origin() };
    let second = self::register("a", 8, "Contact: <sip:a@3>");
    locations.save(TABLE, &second, bare, &RULES, MOST, now).unwrap();
    let bindings = locations.read(TABLE, b"a", now, |bindings, _| bindings.to_vec());
    assert_eq!(bindings.len(), 3);
    let written = record::write(&bindings);
    assert_eq!(record::read(&written), Some(bindings));
    for cut in 1..written.len() {
        let read = record::read(&written[..cut]);
        assert!(read.is_none_or(|bindings| bindings.len() < 3), "{cut}");
    }
    assert_eq!(record::read(&[0xff; 100]), None);
}
