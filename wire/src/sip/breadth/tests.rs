use super::*;
use crate::sip::kit::{self, Text};

/// The request as it goes on to the same place, as it comes in there from this address; or the
/// status that it is refused with.
fn turn(request: &Text, from: &str) -> Result<String, u16> {
    passed(&mut request.draft_from(kit::udp_from(from)))
}

fn passed(draft: &mut Draft) -> Result<String, u16> {
    match detect(draft, &kit::own()) {
        Some(failure) => Err(failure.code),
        None => Ok(kit::forwarded(draft, &kit::own(), 0)),
    }
}

/// What was sent as it comes in again.
fn back(sent: &str, from: &str) -> Draft {
    Draft::new(kit::parse(sent.to_owned()), kit::udp_from(from))
}

#[test]
fn sip_rfc5393_a_request_that_comes_back_as_it_was_is_a_loop() {
    for method in ["INVITE", "MESSAGE", "SUBSCRIBE"] {
        let first = turn(&kit::request(method), kit::CALLER).unwrap();
        let mut again = back(&first, "127.0.0.1:5060");
        assert_eq!(passed(&mut again), Err(482), "{method}");
        // By way of another proxy, which put its Via on top.
        let other =
            first.replacen("Via:", "Via: SIP/2.0/UDP 10.0.0.9;branch=z9hG4bKother\r\nVia:", 1);
        assert_eq!(passed(&mut back(&other, "127.0.0.1:7")), Err(482), "{method}");
    }
}

#[test]
fn sip_rfc5393_a_way_through_other_proxies_is_a_loop_at_the_second_turn() {
    let first = turn(&kit::invite(), "10.0.0.1:5060").unwrap();
    let second = passed(&mut back(&first, "10.0.0.2:5060")).expect("from another address");
    assert_eq!(passed(&mut back(&second, "10.0.0.2:5061")), Err(482));
}

#[test]
fn sip_rfc5393_a_spiral_passes() {
    let first = turn(&kit::invite(), kit::CALLER).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(first.contains(from), "{from} in {first}");
        first.replacen(from, to, 1)
    };
    for spiral in [
        changed("INVITE sip:bob@127.0.0.1:5060", "INVITE sip:carol@127.0.0.1:5060"),
        changed("To: <sip:bob@127.0.0.1>", "To: <sip:bob@127.0.0.1>;tag=t"),
        changed("tag=a1", "tag=a2"),
        changed("CSeq: 1", "CSeq: 2"),
        changed("Call-ID: c1", "Call-ID: c2"),
        changed("Max-Forwards", "Route: <sip:10.0.0.1;lr>\r\nMax-Forwards"),
        changed("Max-Forwards", "Proxy-Authorization: Digest x\r\nMax-Forwards"),
    ] {
        let again = passed(&mut back(&spiral, kit::CALLER)).unwrap_or_else(|code| {
            panic!("{code}: {spiral}");
        });
        let marks: Vec<_> =
            again.match_indices(";loop=").map(|(at, _)| &again[at..at + 22]).collect();
        assert_eq!(marks.len(), 2, "{again}");
        assert_ne!(marks[0], marks[1], "each turn has its own");
        // But what comes back of the second turn is a loop.
        let mut third = back(&again, kit::CALLER);
        assert_eq!(passed(&mut third), Err(482), "{spiral}");
    }
}

#[test]
fn sip_rfc5393_the_mark_of_another_host_is_nothing_to_us() {
    let first = turn(&kit::invite(), kit::CALLER).unwrap();
    let other = first.replacen("UDP 127.0.0.1;", "UDP 10.0.0.9;", 1);
    assert!(passed(&mut back(&other, kit::CALLER)).is_ok());
}

#[test]
fn sip_rfc5393_an_ack_and_a_cancel_are_not_refused() {
    for method in ["ACK", "CANCEL"] {
        let first = turn(&kit::request(method), kit::CALLER).unwrap();
        assert!(passed(&mut back(&first, kit::CALLER)).is_ok(), "{method}");
    }
    assert_eq!(detect(&mut kit::reply(200, "OK").draft(), &kit::own()), None);
}

#[test]
fn sip_r003_the_branch_keeps_its_shape_beside_the_mark() {
    let plain = kit::forwarded(&kit::invite().draft(), &kit::own(), 0);
    let marked = turn(&kit::invite(), kit::CALLER).unwrap();
    let via = kit::value(&marked, "Via");
    let (before, mark) = via.split_once(";loop=").expect("a mark");
    assert_eq!(before, kit::value(&plain, "Via"));
    assert!(mark.len() == 16 && mark.bytes().all(|digit| digit.is_ascii_hexdigit()), "{mark}");
    assert!(!plain.contains(";loop="), "only where it is asked for");
    let changed = turn(&kit::invite().set("Subject", "x"), kit::CALLER).unwrap();
    assert_eq!(kit::value(&changed, "Via"), via, "a copy has the same mark");
}

#[test]
fn sip_rfc5393_the_mark_stands_on_what_came_whatever_edits_made_of_it() {
    let mut draft = kit::invite().line("Route: <sip:127.0.0.1;lr>").draft();
    assert_eq!(detect(&mut draft, &kit::own()), None);
    let before = draft.loop_mark;
    let message = kit::invite().uri("sip:carol@10.0.0.1").message();
    draft.replace(message);
    assert_eq!(draft.loop_mark, before);
}

fn breadth(value: &str) -> Draft {
    kit::invite().line(&format!("Max-Breadth: {value}")).draft()
}

#[test]
fn sip_rfc5393_max_breadth_is_what_the_request_says_and_not_more_than_is_set() {
    assert_eq!(allowed(&kit::invite().draft(), 60), 60);
    for (value, is) in
        [("7", 7), (" 7 ", 7), ("0", 0), ("61", 60), ("99999999999999", 60), ("x", 60), ("", 60)]
    {
        assert_eq!(allowed(&breadth(value), 60), is, "{value:?}");
    }
    let mut removed = breadth("7");
    let line = removed.message.named(b"max-breadth").next().unwrap().line;
    removed.lumps.remove(line);
    assert_eq!(allowed(&removed, 60), 60);
}

#[test]
fn sip_rfc5393_the_shares_are_all_of_it_and_one_each_at_least() {
    for branches in 1..=32 {
        for allowed in branches..=100 {
            let shares: Vec<_> = shares(allowed, branches).unwrap().collect();
            assert_eq!(shares.len(), branches as usize);
            assert_eq!(shares.iter().sum::<u32>(), allowed);
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert!(*least >= 1 && most - least <= 1, "{shares:?}");
        }
    }
    assert_eq!(shares(60, 1).unwrap().collect::<Vec<_>>(), [60], "a single branch passes it on");
    assert_eq!(shares(5, 0).unwrap().len(), 0);
}

#[test]
fn sip_rfc5393_too_few_for_the_branches_is_440() {
    for (allowed, branches) in [(0, 1), (2, 3)] {
        let failure = shares(allowed, branches).err().unwrap();
        assert_eq!((failure.code, failure.reason), (440, "Max-Breadth Exceeded"));
    }
}

#[test]
fn sip_rfc5393_each_branch_carries_its_share() {
    let sent = |mut draft: Draft, share| {
        write(&mut draft, share);
        let sent = kit::forwarded(&draft, &kit::own(), 0);
        kit::lines(&sent, "Max-Breadth").iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(sent(breadth("60"), 20), ["Max-Breadth: 20"]);
    assert_eq!(sent(breadth("7"), 20), ["Max-Breadth: 20"]);
    assert_eq!(sent(kit::invite().draft(), 20), ["Max-Breadth: 20"]);
    // Branches are made of one draft.
    let draft = breadth("5");
    let each: Vec<_> = shares(allowed(&draft, 60), 2)
        .unwrap()
        .flat_map(|share| sent(draft.clone(), share))
        .collect();
    assert_eq!(each, ["Max-Breadth: 3", "Max-Breadth: 2"]);
}
