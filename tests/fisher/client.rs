//! The client against a far side that the test plays.

use std::time::{Duration, Instant};

use crate::common::peers::{Reserved, connect, ended, finish, read, read_all};
use crate::common::until;
use crate::far::{Far, REPLY, send};
use crate::{client_to, lost, nothing_left, selected};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn fisher_c15_a_silent_candidate_is_closed_when_another_one_proves_itself() {
    for winner in 0..2 {
        let far = Far::new();
        let service = client_to(far.address, 2);
        let mut client = connect(service.at("in"));
        send(&mut client, "early");
        let [mut first, mut second] = far.candidates();
        let (winner, silent) =
            if winner == 0 { (&mut first, &mut second) } else { (&mut second, &mut first) };
        send(winner, REPLY);
        assert_eq!(read(winner, 5), b"early");
        assert_eq!(read_all(silent), b"", "the application's bytes are for the winner");
        send(winner, "reply");
        assert_eq!(read(&mut client, 5), b"reply");
        send(&mut client, "later");
        assert_eq!(read(winner, 5), b"later");
        lost(&service, "outrun", 1);
        selected(&service, "won", 1);
        drop((first, second));
        assert_eq!(read_all(&mut client), b"");
        drop(client);
        nothing_left(&service);
        service.until_metric("lineway_fisher_candidates_total", &[("node", "race")], 2.0);
        assert!(far.waiting().is_none(), "two candidates and no more");
    }
}

#[test]
fn case_t20_a_candidate_that_answers_wrong_is_dropped_and_counted() {
    let far = Far::new();
    let service = client_to(far.address, 3);
    let mut client = connect(service.at("in"));
    send(&mut client, "hello");
    let [mut wrong, mut pieces, mut right] = far.candidates();
    send(&mut wrong, [0x46, 0x49, 0x53, 0x48, 0x20]);
    assert_eq!(read_all(&mut wrong), b"");
    lost(&service, "bad-reply", 1);
    // C08: looked at when all five are there.
    send(&mut pieces, "XXXX");
    send(&mut right, "FIS");
    send(&mut pieces, "X");
    assert_eq!(read_all(&mut pieces), b"");
    lost(&service, "bad-reply", 2);
    let listed = || service.json("/api/lines")["total"].as_u64();
    until("the main line and one candidate are left", || listed() == Some(2));
    send(&mut right, "H!");
    assert_eq!(read(&mut right, 5), b"hello");
    selected(&service, "won", 1);
    lost(&service, "outrun", 0);
}

#[test]
fn fisher_c15_an_answer_after_the_choice_is_nobodys() {
    let far = Far::new();
    let service = client_to(far.address, 2);
    let mut client = connect(service.at("in"));
    let [mut winner, mut late] = far.candidates();
    send(&mut winner, "FISH!w");
    assert_eq!(read(&mut client, 1), b"w");
    assert_eq!(read_all(&mut late), b"");
    send(&mut late, "FISH!late");
    send(&mut winner, "inner");
    finish(&winner);
    assert_eq!(read_all(&mut client), b"inner");
    send(&mut client, "still");
    drop(client);
    assert_eq!(read_all(&mut winner), b"still");
    drop(winner);
    nothing_left(&service);
}

#[test]
fn case_t19_of_several_winners_one_is_kept_and_the_others_leak_nothing() {
    let far = Far::new();
    let service = client_to(far.address, 3);
    let mut baseline = 0;
    for round in 0..1000_u32 {
        let mut client = connect(service.at("in"));
        let payload = format!("payload of round {round}");
        send(&mut client, &payload);
        let mut three = far.candidates::<3>();
        for (candidate, answer) in three.iter_mut().zip(["FISH!A", "FISH!B", "FISH!C"]) {
            send(candidate, answer);
        }
        let begun = Instant::now();
        let got = read(&mut client, 1)[0];
        let winner = usize::from(got.checked_sub(b'A').expect("A, B or C"));
        for (at, candidate) in three.iter_mut().enumerate() {
            if at == winner {
                assert_eq!(read(candidate, payload.len()), payload.as_bytes());
            } else {
                assert_eq!(read_all(candidate), b"", "round {round}");
                assert!(begun.elapsed() < SECOND, "round {round}: {:?}", begun.elapsed());
            }
        }
        finish(&client);
        assert_eq!(read_all(&mut three[winner]), b"", "no byte twice");
        drop(three);
        assert_eq!(read_all(&mut client), b"", "exactly one answer");
        if round == 9 {
            nothing_left(&service);
            baseline = service.descriptors();
        }
    }
    nothing_left(&service);
    until("descriptors are those of before", || service.descriptors() <= baseline);
    lost(&service, "outrun", 2000);
    selected(&service, "won", 1000);
}

#[test]
fn fisher_c12_a_server_that_closes_at_once_ends_the_client_at_once() {
    for orderly in [true, false] {
        let far = Far::new();
        let service = client_to(far.address, 2);
        let mut client = connect(service.at("in"));
        let begun = Instant::now();
        if orderly {
            drop(far.candidates::<2>());
        } else {
            // The probe is unread: a reset.
            drop([far.accept(), far.accept()]);
        }
        ended(&mut client);
        assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
        lost(&service, "closed", 2);
        selected(&service, "failed", 1);
        nothing_left(&service);
    }
}

#[test]
fn fisher_c12_the_others_go_on_when_a_candidate_closes() {
    let far = Far::new();
    let service = client_to(far.address, 2);
    let mut client = connect(service.at("in"));
    let [closes, mut stays] = far.candidates();
    drop(closes);
    lost(&service, "closed", 1);
    send(&mut stays, "FISH!stays");
    assert_eq!(read(&mut client, 5), b"stays");
}

#[test]
fn fisher_c12_the_client_ends_at_once_when_all_are_refused() {
    let nobody = Reserved::port();
    let service = client_to(nobody.address(), 2);
    for round in 1..=20 {
        let mut client = connect(service.at("in"));
        let begun = Instant::now();
        ended(&mut client);
        assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
        selected(&service, "failed", round);
        lost(&service, "closed", 2 * round);
    }
    service.until_metric("lineway_dials_total", &[("result", "refused")], 40.0);
    nothing_left(&service);
}

#[test]
fn fisher_c13_the_client_ends_after_five_seconds_when_all_are_silent() {
    let far = Far::new();
    let service = client_to(far.address, 2);
    let begun = Instant::now();
    let mut client = connect(service.at("in"));
    send(&mut client, "anybody?");
    let mut both = far.candidates::<2>();
    service.until_metric("lineway_deadlines_pending", &[("kind", "selection")], 1.0);
    service.until_metric("lineway_fisher_queued_bytes", &[("node", "race")], 8.0);
    ended(&mut client);
    let took = begun.elapsed();
    assert!((5 * SECOND..6 * SECOND + SECOND / 2).contains(&took), "{took:?}");
    for candidate in &mut both {
        assert_eq!(read_all(candidate), b"", "C05: what waited is for no candidate");
    }
    lost(&service, "timeout", 2);
    selected(&service, "timeout", 1);
    service.until_metric("lineway_fisher_queued_bytes", &[("node", "race")], 0.0);
    nothing_left(&service);
}

#[test]
fn fisher_c16_bytes_that_came_with_the_reply_come_first() {
    let body: Vec<u8> = (0..1_u32 << 20).map(|at| (at % 251) as u8).collect();
    let far = Far::new();
    let service = client_to(far.address, 2);
    let mut client = connect(service.at("in"));
    let [mut winner, mut loser] = far.candidates();
    let sent = [REPLY, &body, b"later"].concat();
    let writer = std::thread::spawn(move || {
        send(&mut winner, &sent[..3]);
        send(&mut winner, &sent[3..]);
        finish(&winner);
        read_all(&mut winner)
    });
    assert_eq!(read_all(&mut loser), b"");
    assert!(read_all(&mut client) == [&body[..], b"later"].concat(), "in order, and all");
    send(&mut client, "thanks");
    finish(&client);
    assert_eq!(writer.join().unwrap(), b"thanks");
    nothing_left(&service);
}

#[test]
fn fisher_c14_a_client_that_leaves_closes_all_candidates() {
    let far = Far::new();
    let service = client_to(far.address, 2);
    let client = connect(service.at("in"));
    let mut both = far.candidates::<2>();
    drop(client);
    for candidate in &mut both {
        assert_eq!(read_all(candidate), b"");
    }
    lost(&service, "cancelled", 2);
    selected(&service, "cancelled", 1);
    nothing_left(&service);
}
