use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::base::iana::Rcode;
use lineway_wire::dial::{DialError, Families, Family};
use lineway_wire::units::Millis;
use proptest::prelude::*;
use tokio::net::UdpSocket;

use self::stub::{Asked, Rec, Stub};
use super::exchange::Exchange;
use super::message::{self, OwnedName, Reply};
use super::records::{Kind, Records};
use super::system::Servers;
use super::{Answer, DnsError, Names, Resolver, StaticNames, SystemFiles};
use crate::settings::{DnsSettings, DomainStrategy};

mod services;
mod stub;

const BOTH: Families = Families { first: Family::V4, both: true };
const ONLY_V4: Families = Families { first: Family::V4, both: false };

/// Long enough for any answer of this host, so that a test which needs it to pass fails.
const PATIENT: u64 = 60_000;

fn v4(last: u8) -> IpAddr {
    [127, 0, 0, last].into()
}

fn v6() -> IpAddr {
    "2001:db8::1".parse().unwrap()
}

fn no_files() -> SystemFiles {
    SystemFiles {
        resolv_conf: "/nonexistent/resolv.conf".into(),
        hosts: "/nonexistent/hosts".into(),
    }
}

fn resolver(servers: &[SocketAddr], timeout: u64) -> Resolver {
    let settings = DnsSettings { servers: servers.to_vec(), timeout: Millis::new(timeout) };
    Resolver::with_files(&settings, no_files())
}

type Plain = Result<Vec<IpAddr>, DnsError>;

fn plain(answer: Answer) -> Plain {
    answer.result.map(|list| list.to_vec())
}

/// The IPv4 addresses of a name.
async fn ask(names: &impl Names, name: &str) -> Plain {
    let mut lookup = names.lookup(&name.into(), ONLY_V4);
    let answer = lookup.next().await.unwrap();
    assert_eq!(answer.family, Family::V4);
    assert_eq!(lookup.next().await, None);
    plain(answer)
}

/// Lets time pass without waiting for it.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn case_t25_an_answer_is_used_for_its_ttl_and_then_asked_for_again() {
    let last = Arc::new(AtomicUsize::new(2));
    let now = Arc::clone(&last);
    let stub =
        Stub::start(move |asked| asked.address(1, v4(now.load(Ordering::Relaxed) as u8))).await;
    let names = resolver(&[stub.address], PATIENT);
    assert_eq!(ask(&names, "dest.test").await, Ok(vec![v4(2)]));
    last.store(3, Ordering::Relaxed);
    assert_eq!(ask(&names, "dest.test").await, Ok(vec![v4(2)]));
    assert_eq!(stub.asked().len(), 1, "asked for what was known");
    pass(Duration::from_secs(1)).await;
    assert_eq!(ask(&names, "dest.test").await, Ok(vec![v4(3)]));
}

#[tokio::test]
async fn case_t25_a_distrusted_name_is_asked_for_before_its_ttl_is_over() {
    let stub = Stub::start(|asked| asked.address(3_600, v4(2))).await;
    let names = resolver(&[stub.address], PATIENT);
    ask(&names, "dest.test").await.unwrap();
    names.distrust("dest.test");
    ask(&names, "dest.test").await.unwrap();
    assert_eq!(stub.asked().len(), 1, "a fresh answer is as good as another");
    pass(Duration::from_secs(1)).await;
    names.distrust("dest.test");
    ask(&names, "dest.test").await.unwrap();
    assert_eq!(stub.asked().len(), 2);
}

#[tokio::test]
async fn case_t25_nxdomain_ends_the_lookup_at_once_for_both_families() {
    let stub = Stub::start(|asked| match asked.kind {
        Kind::A => vec![asked.answer(Rcode::NXDOMAIN, &[Rec::Soa(900, 2)])],
        _ => vec![],
    })
    .await;
    let names = resolver(&[stub.address], PATIENT);
    let name = "absent.test".into();
    for _ in 0..2 {
        let mut lookup = names.lookup(&name, BOTH);
        for family in [Family::V4, Family::V6] {
            let answer = lookup.next().await.unwrap();
            assert_eq!(answer.family, family);
            assert_eq!(plain(answer), Err(DnsError::NotFound));
        }
        assert_eq!(lookup.next().await, None);
        drop(lookup);
        assert_eq!(names.questions(), 0);
    }
    assert_eq!(stub.asked().len(), 2, "the second lookup knew");
    pass(Duration::from_secs(2)).await;
    assert_eq!(ask(&names, "absent.test").await, Err(DnsError::NotFound));
    assert_eq!(stub.asked().len(), 3, "the SOA said 2 s");
}

#[tokio::test]
async fn case_t25_only_aaaa_with_prefer_ipv4() {
    let stub = Stub::start(|asked| asked.address(60, v6())).await;
    let names = resolver(&[stub.address], PATIENT);
    let strategy = Families::from(DomainStrategy::PreferIpv4);
    let mut lookup = names.lookup(&"six.test".into(), strategy);
    let mut answers = [lookup.next().await, lookup.next().await].map(Option::unwrap);
    answers.sort_by_key(|answer| answer.family as u8);
    assert_eq!(answers.map(plain), [Ok(vec![]), Ok(vec![v6()])]);
}

#[tokio::test]
async fn case_t25_a_server_without_an_answer_delays_only_who_asks_it_for_that() {
    let stub = Stub::start(|asked| match asked.name.as_str() {
        "slow.test" => vec![],
        _ => asked.address(60, v4(2)),
    })
    .await;
    let names = resolver(&[stub.address], PATIENT);
    let mut slow = names.lookup(&"slow.test".into(), ONLY_V4);
    tokio::select! {
        biased;
        answer = slow.next() => panic!("an answer from nowhere: {answer:?}"),
        quick = ask(&names, "quick.test") => assert_eq!(quick, Ok(vec![v4(2)])),
    }
    // From here on time jumps to the next timer.
    tokio::time::pause();
    let asked = tokio::time::Instant::now();
    let answer = slow.next().await.unwrap();
    assert_eq!(plain(answer), Err(DnsError::Failed));
    let took = asked.elapsed().as_millis() as u64;
    let off = took.abs_diff(2 * PATIENT);
    assert!(off < PATIENT / 2, "two tries: {took} ms");
}

#[tokio::test]
async fn case_t25_a_late_answer_to_the_first_question_is_heard_after_the_second_was_asked() {
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let names = resolver(&[server.local_addr().unwrap()], 50);
    let answers = async {
        let mut buffer = [0; 512];
        let (len, first) = server.recv_from(&mut buffer).await.unwrap();
        let asked = Asked::read(&buffer[..len], false);
        server.recv_from(&mut buffer).await.unwrap();
        server.send_to(&asked.address(60, v4(2))[0], first).await.unwrap();
    };
    let mut lookup = names.lookup(&"late.test".into(), ONLY_V4);
    let (answer, ()) = tokio::join!(lookup.next(), answers);
    assert_eq!(plain(answer.unwrap()), Ok(vec![v4(2)]));
}

#[tokio::test]
async fn tcp_t10_the_next_server_is_asked_and_stays_the_first() {
    let broken = Stub::start(|asked| asked.code(Rcode::SERVFAIL)).await;
    let garbled = Stub::start(|asked| {
        let mut bytes = asked.address(60, v4(9)).remove(0);
        bytes.truncate(bytes.len() - 3);
        vec![bytes]
    })
    .await;
    let good = Stub::start(|asked| asked.address(60, v4(2))).await;
    let servers = [broken.address, garbled.address, good.address];
    let names = resolver(&servers, PATIENT);
    assert_eq!(ask(&names, "one.test").await, Ok(vec![v4(2)]));
    assert_eq!(ask(&names, "two.test").await, Ok(vec![v4(2)]));
    let counts = [broken, garbled, good].map(|stub| stub.asked().len());
    assert_eq!(counts, [1, 1, 2]);
}

#[tokio::test]
async fn tcp_t10_failures_are_kept_for_a_second() {
    let stub = Stub::start(|asked| asked.code(Rcode::REFUSED)).await;
    let names = resolver(&[stub.address], PATIENT);
    for _ in 0..3 {
        assert_eq!(ask(&names, "dest.test").await, Err(DnsError::Failed));
    }
    assert_eq!(stub.asked().len(), 2, "two rounds, once");
    pass(Duration::from_secs(1)).await;
    ask(&names, "dest.test").await.unwrap_err();
    assert_eq!(stub.asked().len(), 4);
}

#[tokio::test]
async fn tcp_t10_a_truncated_answer_is_asked_for_over_tcp() {
    let stub = Stub::start(|asked| {
        let mut answer = asked.address(60, v4(2));
        if !asked.tcp {
            answer[0][2] |= 2; // TC
        }
        answer
    })
    .await;
    let names = resolver(&[stub.address], PATIENT);
    assert_eq!(ask(&names, "big.test").await, Ok(vec![v4(2)]));
    let ways: Vec<_> = stub.asked().iter().map(|asked| asked.tcp).collect();
    assert_eq!(ways, [false, true]);
}

#[tokio::test]
async fn tcp_t10_a_server_without_edns_is_asked_without_it() {
    let stub = Stub::start(|asked| {
        if asked.edns {
            // Nothing but the header, as old servers do.
            let mut bytes = asked.code(Rcode::FORMERR).remove(0);
            bytes.truncate(12);
            bytes[5] = 0;
            return vec![bytes];
        }
        asked.address(60, v4(2))
    })
    .await;
    let names = resolver(&[stub.address], PATIENT);
    assert_eq!(ask(&names, "old.test").await, Ok(vec![v4(2)]));
}

#[tokio::test]
async fn tcp_t10_answers_that_are_not_to_the_question_are_ignored() {
    let stub = Stub::start(|asked| {
        let evil = v4(66);
        let mut wrong_id = asked.address(60, evil).remove(0);
        wrong_id[1] ^= 1;
        let mut no_answer = asked.address(60, evil).remove(0);
        no_answer[2] &= !0x80; // a question of its own
        let mut wrong_name = asked.address(60, evil).remove(0);
        wrong_name[13] ^= 1;
        let mut all = vec![wrong_id, no_answer, wrong_name, vec![], vec![0xff; 700]];
        all.extend(asked.address(60, v4(2)));
        all
    })
    .await;
    let names = resolver(&[stub.address], PATIENT);
    assert_eq!(ask(&names, "dest.test").await, Ok(vec![v4(2)]));
}

#[tokio::test]
async fn tcp_t10_records_of_other_names_are_no_answer() {
    let stub = Stub::start(|asked| {
        let records =
            [Rec::Address("other.test", 60, v4(66)), Rec::Address("DEST.test", 60, v4(2))];
        vec![asked.answer(Rcode::NOERROR, &records)]
    })
    .await;
    let names = resolver(&[stub.address], PATIENT);
    assert_eq!(ask(&names, "dest.test").await, Ok(vec![v4(2)]));
}

#[tokio::test]
async fn tcp_t10_a_flood_of_strays_ends_the_try() {
    let flood = Stub::start(|_| vec![vec![0; 20]; 200]).await;
    let good = Stub::start(|asked| asked.address(60, v4(2))).await;
    let names = resolver(&[flood.address, good.address], 1_000);
    assert_eq!(ask(&names, "dest.test").await, Ok(vec![v4(2)]));
}

#[tokio::test]
async fn tcp_t10_aliases_are_followed_within_an_answer_and_beyond_it() {
    let stub = Stub::start(|asked| {
        let records = match asked.name.as_str() {
            "www.test" => {
                vec![Rec::Alias("b.test", 600, "c.test"), Rec::Alias("www.test", 5, "b.test")]
            }
            _ => vec![Rec::Address("c.test", 600, v4(2))],
        };
        vec![asked.answer(Rcode::NOERROR, &records)]
    })
    .await;
    let names = resolver(&[stub.address], PATIENT);
    assert_eq!(ask(&names, "www.test").await, Ok(vec![v4(2)]));
    let asked: Vec<_> = stub.asked().into_iter().map(|asked| asked.name).collect();
    assert_eq!(asked, ["www.test", "c.test"]);
    pass(Duration::from_secs(5)).await;
    ask(&names, "www.test").await.unwrap();
    assert_eq!(stub.asked().len(), 4, "the least TTL of the chain counts");
}

#[tokio::test]
async fn tcp_t10_a_loop_of_aliases_ends() {
    let within = Stub::start(|asked| {
        let records = [Rec::Alias("a.test", 60, "b.test"), Rec::Alias("b.test", 60, "a.test")];
        vec![asked.answer(Rcode::NOERROR, &records)]
    })
    .await;
    let beyond = Stub::start(|asked| {
        let target = if asked.name == "a.test" { "b.test" } else { "a.test" };
        vec![asked.answer(Rcode::NOERROR, &[Rec::Alias(&asked.name, 60, target)])]
    })
    .await;
    for stub in [within, beyond] {
        let names = resolver(&[stub.address], PATIENT);
        assert_eq!(ask(&names, "a.test").await, Err(DnsError::Failed));
        assert!(stub.asked().len() <= message::MAX_ALIASES + 1);
    }
}

#[tokio::test]
async fn tcp_t10_an_answer_too_long_for_udp_has_no_more_than_64_addresses() {
    let stub = Stub::start(|asked| {
        let records: Vec<_> =
            (0..=200).map(|last| Rec::Address(&asked.name, 60, v4(last))).collect();
        vec![asked.answer(Rcode::NOERROR, &records)]
    })
    .await;
    let names = resolver(&[stub.address], PATIENT);
    assert_eq!(ask(&names, "many.test").await.unwrap().len(), 64);
    assert!(stub.asked()[1].tcp);
}

#[tokio::test]
async fn tcp_t10_lookups_of_one_name_share_its_questions() {
    let stub = Stub::start(|asked| asked.address(0, v4(2))).await;
    let names = resolver(&[stub.address], PATIENT);
    let name = "dest.test".into();
    let mut lookups: Vec<_> = (0..50).map(|_| names.lookup(&name, ONLY_V4)).collect();
    assert_eq!(names.questions(), 1);
    let answers = lookups.iter_mut().map(super::Lookup::next);
    for answer in futures_util::future::join_all(answers).await {
        assert_eq!(plain(answer.unwrap()), Ok(vec![v4(2)]));
    }
    assert_eq!(stub.asked().len(), 1);
    assert_eq!(names.questions(), 0);
    ask(&names, "dest.test").await.unwrap();
    assert_eq!(stub.asked().len(), 2, "a TTL of 0 is for one use");
}

#[tokio::test]
async fn tcp_t10_the_last_lookup_that_is_dropped_ends_the_question() {
    let stub = Stub::start(|_| vec![]).await;
    let names = resolver(&[stub.address], PATIENT);
    let name = "dest.test".into();
    let (mut first, second) = (names.lookup(&name, BOTH), names.lookup(&name, BOTH));
    tokio::select! {
        biased;
        answer = first.next() => panic!("an answer from nowhere: {answer:?}"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(names.questions(), 2);
    drop(first);
    assert_eq!(names.questions(), 2, "the second one still wants it");
    drop(second);
    assert_eq!(names.questions(), 0);
}

#[tokio::test]
async fn tcp_t10_questions_beyond_the_limit_wait_and_are_answered() {
    let stub = Stub::start(|asked| asked.address(60, v4(2))).await;
    let names = resolver(&[stub.address], PATIENT);
    let lookups = (0..400).map(|n| {
        let names = names.clone();
        async move { ask(&names, &format!("n{n}.test")).await }
    });
    for answer in futures_util::future::join_all(lookups).await {
        assert_eq!(answer, Ok(vec![v4(2)]));
    }
}

#[tokio::test]
async fn tcp_t10_a_name_that_can_not_be_written_does_not_exist() {
    let stub = Stub::start(|asked| asked.address(60, v4(2))).await;
    let names = resolver(&[stub.address], PATIENT);
    let label = "x".repeat(64);
    let long = vec!["label"; 50].join(".");
    for name in [&label, &long, "a..b", "", "\\"] {
        assert_eq!(ask(&names, name).await, Err(DnsError::NotFound), "{name:?}");
    }
    assert!(stub.asked().is_empty());
}

#[tokio::test]
async fn tcp_t10_localhost_is_this_host_whatever_a_server_says() {
    let stub = Stub::start(|asked| asked.address(60, v4(66))).await;
    let names = resolver(&[stub.address], PATIENT);
    for name in ["localhost", "db.localhost"] {
        let mut lookup = names.lookup(&name.into(), BOTH);
        assert_eq!(plain(lookup.next().await.unwrap()), Ok(vec![v4(1)]));
        let six = plain(lookup.next().await.unwrap());
        assert_eq!(six, Ok(vec!["::1".parse().unwrap()]));
    }
    assert!(stub.asked().is_empty());
}

#[tokio::test]
async fn tcp_t10_short_names_are_tried_in_the_search_list() {
    let stub = Stub::start(|asked| match asked.name.as_str() {
        "db.two.test" => asked.address(60, v4(2)),
        "void.one.test" => asked.code(Rcode::NOERROR),
        _ => asked.code(Rcode::NXDOMAIN),
    })
    .await;
    let mut servers = Servers::parse("search one.test two.test");
    servers.addresses = vec![stub.address];
    let first = Cell::new(0);
    let exchange =
        Exchange { servers: &servers, timeout: Duration::from_millis(PATIENT), first: &first };
    let result =
        |known: super::exchange::Known| known.0.map(|records| records.addresses().to_vec());
    let db = exchange.resolve("db", Kind::A).await;
    assert_eq!(result(db), Ok(vec![v4(2)]));
    let void = exchange.resolve("void", Kind::A).await;
    assert_eq!(result(void), Ok(vec![]), "one of its full names exists");
    let none = exchange.resolve("none", Kind::A).await;
    assert_eq!(result(none), Err(DnsError::NotFound));
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn tcp_t10_the_hosts_file_is_honoured_and_read_again_when_it_changes() {
    let stub = Stub::start(|asked| asked.address(60, v4(66))).await;
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    write(&hosts, "127.0.0.2 dest.test\n");
    let settings = DnsSettings { servers: vec![stub.address], timeout: Millis::new(PATIENT) };
    let files = SystemFiles { hosts: hosts.clone(), ..no_files() };
    let names = Resolver::with_files(&settings, files);
    assert_eq!(ask(&names, "dest.test").await, Ok(vec![v4(2)]));
    write(&hosts, "127.0.0.33 dest.test\n");
    pass(Duration::from_secs(1)).await;
    assert_eq!(ask(&names, "dest.test").await, Ok(vec![v4(33)]));
    std::fs::remove_file(&hosts).unwrap();
    pass(Duration::from_secs(1)).await;
    assert_eq!(ask(&names, "dest.test").await, Ok(vec![v4(33)]));
    assert!(stub.asked().is_empty(), "a lost file leaves what was known");
}

#[tokio::test]
async fn static_names_answer_from_the_map() {
    let names = StaticNames::new();
    names.set("dest.test", &[v4(2), v6()]);
    names.hang("slow.test");
    assert_eq!(ask(&names, "dest.test").await, Ok(vec![v4(2)]));
    assert_eq!(ask(&names, "none.test").await, Err(DnsError::NotFound));
    let mut slow = names.lookup(&"slow.test".into(), BOTH);
    tokio::select! {
        biased;
        answer = slow.next() => panic!("an answer from nowhere: {answer:?}"),
        () = tokio::task::yield_now() => {}
    }
    names.distrust("dest.test");
    assert_eq!(names.distrusted(), ["dest.test".into()]);
}

#[test]
fn tcp_t12_dns_errors_are_dial_errors() {
    assert_eq!(DialError::from(DnsError::NotFound), DialError::NameNotFound);
    assert_eq!(DialError::from(DnsError::Failed), DialError::NameFailed);
}

fn dest() -> OwnedName {
    OwnedName::vec_from_str("dest.test").unwrap()
}

fn any_kind() -> impl Strategy<Value = Kind> {
    proptest::sample::select(&Kind::ALL[..])
}

proptest! {
    #[test]
    fn tcp_t10_any_bytes_as_an_answer_are_read_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        kind in any_kind(),
    ) {
        let question = message::question(&dest(), kind, true).unwrap();
        let _ = message::read(&question, &bytes, kind);
        // With the right id, flags and question in front the records are looked at.
        let mut answer = question.as_slice().to_vec();
        answer[2] |= 0x80;
        answer[7] = 9;
        answer[9] = 9;
        answer.truncate(27);
        answer.extend(bytes);
        prop_assert!(message::read(&question, &answer, kind).is_some());
    }

    #[test]
    fn tcp_t10_a_changed_answer_is_read_without_a_panic_and_within_the_limits(
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..12),
        cut in proptest::option::of(any::<usize>()),
        kind in any_kind(),
    ) {
        let question = message::question(&dest(), kind, true).unwrap();
        let asked = Asked { name: "dest.test".into(), kind, tcp: false, edns: true, message: question.clone() };
        let mut bytes = asked.answer(Rcode::NOERROR, &[
            Rec::Alias("dest.test", 60, "a.dest.test"),
            Rec::Alias("a.dest.test", 60, "b.test"),
            Rec::Address("b.test", 60, v4(2)),
            Rec::Address("b.test", 60, v6()),
            Rec::Srv("b.test", 60, (1, 2, 5060, "c.test")),
            Rec::Naptr("b.test", 60, (1, 2, "s", "SIP+D2U", "_sip._udp.b.test")),
            Rec::Soa(60, 60),
        ]);
        for (place, value) in changes {
            let place = place % bytes.len();
            bytes[place] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut % bytes.len());
        }
        if let Some(Reply::Found(records, ttl)) = message::read(&question, &bytes, kind) {
            prop_assert!(!records.is_empty());
            match (records, kind) {
                (Records::Addresses(list), Kind::A) => {
                    prop_assert!(list.iter().all(IpAddr::is_ipv4));
                }
                (Records::Addresses(list), Kind::Aaaa) => {
                    prop_assert!(list.iter().all(IpAddr::is_ipv6));
                }
                (Records::Srv(_), Kind::Srv) | (Records::Naptr(_), Kind::Naptr) => {}
                (other, _) => prop_assert!(false, "asked for {kind:?}: {other:?}"),
            }
            prop_assert!(ttl <= Duration::from_secs(i32::MAX as u64));
        }
    }
}
