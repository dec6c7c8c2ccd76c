//! SRV and NAPTR, and whole searches for the servers of a SIP domain.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::base::iana::Rcode;
use futures_util::future::join_all;
use lineway_wire::dial::{Families, Family};
use lineway_wire::sip::hop::{Hop, HopHost};
use lineway_wire::sip::locate::{
    Answer, Locate, LocateOptions, Naptr, Progress, Question, Srv, UNRESOLVABLE,
};
use lineway_wire::units::Millis;

use super::stub::{Asked, Rec, Stub};
use super::{BOTH, ONLY_V4, PATIENT, no_files, pass, resolver, v4, v6};
use crate::dns::records::Kind;
use crate::dns::{Names, Resolver, StaticNames, SystemFiles};
use crate::settings::DnsSettings;

const OPTIONS: LocateOptions = LocateOptions { naptr: true, udp: Some(BOTH), tcp: Some(BOTH) };

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn srv(name: &str) -> Question {
    Question::Srv(bytes(name))
}

fn server(priority: u16, weight: u16, port: u16, target: &str) -> Srv {
    Srv { priority, weight, port, target: bytes(target) }
}

async fn locate(names: &impl Names, host: &str) -> Vec<String> {
    let hop = Hop { host: HopHost::Name(bytes(host)), port: None, transport: None };
    let (mut locate, mut progress) = Locate::new(hop, OPTIONS, 7).unwrap();
    loop {
        match progress {
            Progress::Ask(questions) => {
                let answers = join_all(questions.iter().map(|question| names.records(question)));
                match locate.answer(answers.await) {
                    Ok(step) => progress = step,
                    Err(failure) => {
                        assert_eq!(failure, UNRESOLVABLE);
                        return vec![];
                    }
                }
            }
            Progress::Found(list) => {
                let words = list.iter().map(|to| format!("{} {}", to.transport.word(), to.address));
                return words.collect();
            }
        }
    }
}

/// A small zone with a server of its own name for each transport.
fn zone(asked: &Asked) -> Vec<Vec<u8>> {
    let name = asked.name.as_str();
    let records: &[Rec<'_>] = match (name, asked.kind) {
        ("pbx.test", Kind::Naptr) => {
            &[Rec::Naptr("pbx.test", 60, (10, 1, "s", "SIP+D2T", "_sip._tcp.Pbx.test"))]
        }
        ("_sip._tcp.pbx.test", Kind::Srv) => {
            &[Rec::Srv("_sip._tcp.pbx.test", 60, (1, 1, 5_070, "One.Test"))]
        }
        ("_sip._udp.pbx.test", Kind::Srv) => {
            &[Rec::Srv("_sip._udp.pbx.test", 60, (1, 1, 5_080, "one.test"))]
        }
        ("one.test", Kind::A) => &[Rec::Address("one.test", 60, IpAddr::V4([127, 0, 0, 9].into()))],
        ("gone.test", Kind::A) => return asked.code(Rcode::SERVFAIL),
        (name, _) if name.ends_with("void.test") => return asked.code(Rcode::NXDOMAIN),
        _ => &[],
    };
    vec![asked.answer(Rcode::NOERROR, records)]
}

#[tokio::test]
async fn rfc3263_a_domain_leads_to_its_servers_and_is_known_from_then_on() {
    let stub = Stub::start(zone).await;
    let names = resolver(&[stub.address], PATIENT);
    assert_eq!(locate(&names, "pbx.test").await, ["tcp 127.0.0.9:5070"]);
    let count = stub.asked().len();
    assert_eq!(count, 5, "NAPTR, two SRV, A and AAAA");
    assert_eq!(locate(&names, "pbx.test").await, ["tcp 127.0.0.9:5070"]);
    assert_eq!(stub.asked().len(), count, "all of it is known");
    pass(Duration::from_secs(60)).await;
    assert_eq!(locate(&names, "pbx.test").await, ["tcp 127.0.0.9:5070"]);
    assert!(stub.asked().len() > count, "for the TTL");
}

#[tokio::test]
async fn rfc3263_a_name_that_does_not_exist_is_asked_for_once() {
    let stub = Stub::start(zone).await;
    let names = resolver(&[stub.address], PATIENT);
    assert_eq!(locate(&names, "void.test").await, [""; 0]);
    let asked: Vec<_> = stub.asked().into_iter().map(|asked| (asked.name, asked.kind)).collect();
    assert_eq!(asked.len(), 3, "NXDOMAIN of any kind is one of all: {asked:?}");
    assert_eq!(locate(&names, "void.test").await, [""; 0]);
    assert_eq!(stub.asked().len(), 3);
}

#[tokio::test]
async fn records_are_read_with_all_their_fields() {
    let stub = Stub::start(|asked| {
        let name = asked.name.as_str();
        let mut records = vec![];
        match asked.kind {
            Kind::Srv if name == "alias.test" => {
                records.push(Rec::Alias("alias.test", 60, "_sip._udp.a.test"));
                records.push(Rec::Srv("_sip._udp.a.test", 60, (1, 2, 3, "A.Test")));
                records.push(Rec::Srv("_sip._udp.other.test", 60, (9, 9, 9, "no.test")));
            }
            Kind::Srv => records.push(Rec::Srv(name, 60, (0, 0, 0, "."))),
            _ => records.push(Rec::Naptr(name, 60, (4, 5, "S", "SIP+D2U", "_sip._udp.B.test"))),
        }
        vec![asked.answer(Rcode::NOERROR, &records)]
    })
    .await;
    let names = resolver(&[stub.address], PATIENT);
    let naptr = Naptr {
        order: 4,
        preference: 5,
        flags: bytes("S"),
        services: bytes("SIP+D2U"),
        replacement: bytes("_sip._udp.b.test"),
    };
    let found = names.records(&Question::Naptr(bytes("b.test"))).await;
    assert_eq!(found, Answer::Naptr(vec![naptr]));
    let found = names.records(&srv("alias.test")).await;
    assert_eq!(found, Answer::Srv(vec![server(1, 2, 3, "a.test")]));
    let found = names.records(&srv("root.test")).await;
    assert_eq!(found, Answer::Srv(vec![server(0, 0, 0, "")]), "the root is no name");
}

#[tokio::test]
async fn an_answer_has_no_more_than_64_servers() {
    let stub = Stub::start(|asked| {
        let servers: Vec<_> =
            (0..=99).map(|n| Rec::Srv(&asked.name, 60, (n, 0, 5_060, "a.test"))).collect();
        vec![asked.answer(Rcode::NOERROR, &servers)]
    })
    .await;
    let names = resolver(&[stub.address], PATIENT);
    let Answer::Srv(list) = names.records(&srv("many.test")).await else { panic!("no servers") };
    assert_eq!(list.len(), 64);
}

#[tokio::test]
async fn searches_for_the_same_servers_share_a_question_that_ends_with_the_last_of_them() {
    let stub = Stub::start(|_| vec![]).await;
    let names = resolver(&[stub.address], PATIENT);
    let (mut first, second) = (names.records(&srv("a.test")), names.records(&srv("a.test")));
    tokio::select! {
        biased;
        answer = &mut first => panic!("an answer from nowhere: {answer:?}"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(names.questions(), 1);
    drop(first);
    assert_eq!(names.questions(), 1, "the second one still wants it");
    drop(second);
    assert_eq!(names.questions(), 0);
}

#[tokio::test]
async fn a_server_that_fails_is_told_apart_from_a_name_without_records() {
    let stub = Stub::start(zone).await;
    let names = resolver(&[stub.address], PATIENT);
    let address = |name, families| Question::Address(bytes(name), families);
    assert_eq!(names.records(&address("gone.test", BOTH)).await, Answer::Failed);
    assert_eq!(names.records(&address("empty.test", BOTH)).await, Answer::Addresses(vec![]));
    assert_eq!(names.records(&srv("x.void.test")).await, Answer::Srv(vec![]));
    let not_text = Question::Address(Bytes::from_static(b"\xff"), BOTH);
    assert_eq!(names.records(&not_text).await, Answer::Failed);
}

#[tokio::test]
async fn a_slow_family_is_waited_for_only_until_the_other_is_of_use() {
    for (slow, found, most) in [(Kind::Aaaa, v4(2), 60), (Kind::A, v6(), 1_100)] {
        let stub = Stub::start(move |asked| match asked.kind {
            kind if kind == slow => vec![],
            Kind::A => asked.address(60, v4(2)),
            _ => asked.address(60, v6()),
        })
        .await;
        let names = resolver(&[stub.address], PATIENT);
        // The answer that comes is kept before time begins to jump.
        let quick = if slow == Kind::A { Family::V6 } else { Family::V4 };
        names.lookup(&"dest.test".into(), Families { first: quick, both: false }).next().await;
        tokio::time::pause();
        let asked = tokio::time::Instant::now();
        let answer = names.records(&Question::Address(bytes("dest.test"), BOTH)).await;
        assert_eq!(answer, Answer::Addresses(vec![found]));
        assert!(asked.elapsed() <= Duration::from_millis(most), "{:?}", asked.elapsed());
        tokio::time::resume();
    }
}

#[tokio::test]
async fn names_of_the_hosts_file_and_of_this_host_have_no_service_records() {
    let stub = Stub::start(|_| vec![]).await;
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.2 pbx.test\n").unwrap();
    let settings = DnsSettings { servers: vec![stub.address], timeout: Millis::new(PATIENT) };
    let names = Resolver::with_files(&settings, SystemFiles { hosts, ..no_files() });
    assert_eq!(locate(&names, "pbx.test").await, ["udp 127.0.0.2:5060"]);
    let found = locate(&names, "localhost").await;
    assert_eq!(found, ["udp 127.0.0.1:5060", "udp [::1]:5060"]);
    assert!(stub.asked().is_empty(), "nobody had to be asked");
}

#[tokio::test]
async fn static_names_have_the_services_they_were_given() {
    let names = StaticNames::new();
    let naptr = |preference, services, replacement| Naptr {
        order: 1,
        preference,
        flags: bytes("s"),
        services: bytes(services),
        replacement: bytes(replacement),
    };
    names.set_services("a.test", &[naptr(1, "SIP+D2U", "_sip._udp.a.test")]);
    names.set_servers("_sip._udp.a.test", &[server(1, 1, 5_070, "one.test")]);
    names.set("one.test", &[v4(2)]);
    assert_eq!(locate(&names, "a.test").await, ["udp 127.0.0.2:5070"]);
    assert_eq!(locate(&names, "one.test").await, ["udp 127.0.0.2:5060"]);
    assert_eq!(locate(&names, "none.test").await, [""; 0]);
    names.hang("slow.test");
    for question in [srv("slow.test"), Question::Address(bytes("slow.test"), ONLY_V4)] {
        let mut slow = names.records(&question);
        tokio::select! {
            biased;
            answer = &mut slow => panic!("an answer from nowhere: {answer:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
}

/// Names that know addresses only.
struct OnlyAddresses(StaticNames);

impl Names for OnlyAddresses {
    fn lookup(&self, name: &Arc<str>, families: Families) -> crate::dns::Lookup {
        self.0.lookup(name, families)
    }
    fn distrust(&self, name: &str) {
        self.0.distrust(name);
    }
}

#[tokio::test]
async fn names_that_know_addresses_only_are_enough() {
    let names = StaticNames::new();
    names.set_servers("_sip._udp.a.test", &[server(1, 1, 5_070, "one.test")]);
    names.set("a.test", &[v4(3)]);
    assert_eq!(locate(&OnlyAddresses(names), "a.test").await, ["udp 127.0.0.3:5060"]);
}
