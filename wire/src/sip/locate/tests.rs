use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::sip::own::{Socket, SocketId};

const ONLY_V4: Families = Families { first: Family::V4, both: false };
const BOTH: Families = Families { first: Family::V4, both: true };
const V4: LocateOptions = LocateOptions { naptr: true, udp: Some(ONLY_V4), tcp: Some(ONLY_V4) };

/// What a name server knows, and what it was asked.
#[derive(Default)]
struct Zone {
    naptr: HashMap<&'static str, Vec<Naptr>>,
    srv: HashMap<&'static str, Vec<Srv>>,
    hosts: HashMap<&'static str, Vec<IpAddr>>,
    silent: Vec<&'static str>,
    asked: Vec<String>,
}

impl Zone {
    fn host(mut self, name: &'static str, addresses: &[&str]) -> Self {
        self.hosts.insert(name, addresses.iter().map(|ip| ip.parse().unwrap()).collect());
        self
    }
    fn srv(mut self, name: &'static str, record: (u16, u16, u16, &'static str)) -> Self {
        let (priority, weight, port, target) = record;
        let target = Bytes::from_static(target.as_bytes());
        self.srv.entry(name).or_default().push(Srv { priority, weight, port, target });
        self
    }
    fn naptr(
        mut self,
        name: &'static str,
        record: (u16, u16, &'static str, &'static str, &'static str),
    ) -> Self {
        let (order, preference, flags, services, replacement) = record;
        self.naptr.entry(name).or_default().push(Naptr {
            order,
            preference,
            flags: Bytes::from_static(flags.as_bytes()),
            services: Bytes::from_static(services.as_bytes()),
            replacement: Bytes::from_static(replacement.as_bytes()),
        });
        self
    }
    fn silent(mut self, name: &'static str) -> Self {
        self.silent.push(name);
        self
    }

    fn tell(&mut self, question: &Question) -> Answer {
        let (kind, name) = match question {
            Question::Naptr(name) => ("NAPTR", name),
            Question::Srv(name) => ("SRV", name),
            Question::Address(name, _) => ("A", name),
        };
        let name = std::str::from_utf8(name).unwrap();
        self.asked.push(format!("{kind} {name}"));
        if self.silent.contains(&name) {
            return Answer::Failed;
        }
        match question {
            Question::Naptr(_) => Answer::Naptr(self.naptr.get(name).cloned().unwrap_or_default()),
            Question::Srv(_) => Answer::Srv(self.srv.get(name).cloned().unwrap_or_default()),
            Question::Address(..) => {
                Answer::Addresses(self.hosts.get(name).cloned().unwrap_or_default())
            }
        }
    }

    fn until_found(
        &mut self,
        locate: &mut Locate,
        mut progress: Progress,
    ) -> Result<Vec<Destination>, Failure> {
        loop {
            match progress {
                Progress::Found(list) => return Ok(list),
                Progress::Ask(questions) => {
                    let answers = questions.iter().map(|question| self.tell(question)).collect();
                    progress = locate.answer(answers)?;
                }
            }
        }
    }

    /// Everything that a search comes to, with `more` until there is no more.
    fn all(&mut self, hop: Hop, options: LocateOptions, seed: u64) -> Vec<String> {
        let mut words = Vec::new();
        let Ok((mut locate, progress)) = Locate::new(hop, options, seed) else {
            return words;
        };
        let mut found = self.until_found(&mut locate, progress);
        while let Ok(list) = found {
            assert!(!list.is_empty());
            words.extend(list.iter().map(|to| format!("{} {}", to.transport.word(), to.address)));
            found = match locate.more() {
                Ok(progress) => self.until_found(&mut locate, progress),
                Err(failure) => Err(failure),
            };
        }
        assert_eq!(found, Err(UNRESOLVABLE));
        words
    }
}

fn name(host: &str, port: Option<u16>, transport: Option<Transport>) -> Hop {
    Hop { host: HopHost::Name(Bytes::copy_from_slice(host.as_bytes())), port, transport }
}

fn ip(host: &str, port: Option<u16>, transport: Option<Transport>) -> Hop {
    Hop { host: HopHost::Ip(host.parse().unwrap()), port, transport }
}

#[test]
fn rfc3263_an_address_is_found_at_once_at_5060_and_by_udp_unless_said() {
    let mut zone = Zone::default();
    for (hop, found) in [
        (ip("192.0.2.1", None, None), "udp 192.0.2.1:5060"),
        (ip("192.0.2.1", Some(5070), None), "udp 192.0.2.1:5070"),
        (ip("192.0.2.1", None, Some(Transport::Tcp)), "tcp 192.0.2.1:5060"),
    ] {
        assert_eq!(zone.all(hop, V4, 1), [found]);
    }
    let six = ip("2001:db8::1", None, None);
    assert_eq!(
        zone.all(six.clone(), LocateOptions { udp: Some(BOTH), ..V4 }, 1),
        ["udp [2001:db8::1]:5060"]
    );
    assert_eq!(zone.all(six, V4, 1), [""; 0], "no socket of that family");
    let tcp = ip("192.0.2.1", None, Some(Transport::Tcp));
    assert_eq!(Locate::new(tcp, LocateOptions { tcp: None, ..V4 }, 1).unwrap_err(), UNRESOLVABLE);
    assert_eq!(zone.asked, [""; 0]);
}

#[test]
fn rfc3263_a_name_with_a_port_has_addresses_only() {
    let mut zone = Zone::default()
        .host("pbx.test", &["192.0.2.1"])
        .srv("_sip._udp.pbx.test", (1, 1, 9, "no.test"));
    assert_eq!(zone.all(name("pbx.test", Some(5060), None), V4, 1), ["udp 192.0.2.1:5060"]);
    assert_eq!(
        zone.all(name("pbx.test", Some(5070), Some(Transport::Tcp)), V4, 1),
        ["tcp 192.0.2.1:5070"]
    );
    assert_eq!(zone.asked, ["A pbx.test", "A pbx.test"]);
}

#[test]
fn rfc3263_a_transport_without_a_port_has_its_srv_records() {
    let mut zone = Zone::default()
        .srv("_sip._tcp.pbx.test", (20, 0, 5062, "two.test"))
        .srv("_sip._tcp.pbx.test", (10, 0, 5061, "one.test"))
        .host("one.test", &["192.0.2.1"])
        .host("two.test", &["192.0.2.2"]);
    assert_eq!(
        zone.all(name("pbx.test", None, Some(Transport::Tcp)), V4, 1),
        ["tcp 192.0.2.1:5061", "tcp 192.0.2.2:5062"]
    );
    assert_eq!(zone.asked, ["SRV _sip._tcp.pbx.test", "A one.test", "A two.test"]);
}

#[test]
fn rfc3263_without_srv_the_name_is_a_host_at_5060() {
    let mut zone = Zone::default().host("pbx.test", &["192.0.2.1"]);
    let tcp = name("pbx.test", None, Some(Transport::Tcp));
    assert_eq!(zone.all(tcp, V4, 1), ["tcp 192.0.2.1:5060"]);
    assert_eq!(zone.all(name("pbx.test", None, None), V4, 1), ["udp 192.0.2.1:5060"]);
}

#[test]
fn rfc3263_without_naptr_a_name_is_looked_for_by_udp() {
    let mut zone = Zone::default()
        .naptr("pbx.test", (1, 1, "s", "SIP+D2T", "_sip._tcp.pbx.test"))
        .srv("_sip._udp.pbx.test", (1, 1, 5070, "one.test"))
        .host("one.test", &["192.0.2.1"]);
    let options = LocateOptions { naptr: false, ..V4 };
    assert_eq!(zone.all(name("pbx.test", None, None), options, 1), ["udp 192.0.2.1:5070"]);
    assert_eq!(zone.asked, ["SRV _sip._udp.pbx.test", "A one.test"]);
}

/// The example of RFC 3263 4.1: TLS is not carried, TCP comes before UDP.
#[test]
fn rfc3263_naptr_chooses_the_transport_by_order_and_preference() {
    let zone = || {
        Zone::default()
            .naptr("example.test", (100, 50, "s", "SIP+D2U", "_sip._udp.example.test"))
            .naptr("example.test", (50, 50, "s", "SIPS+D2T", "_sips._tcp.example.test"))
            .naptr("example.test", (90, 50, "S", "sip+d2t", "_sip._tcp.example.test"))
            .naptr("example.test", (10, 50, "u", "E2U+sip", ""))
            .srv("_sip._tcp.example.test", (0, 1, 5060, "server1.example.test"))
            .srv("_sip._udp.example.test", (0, 1, 5061, "server1.example.test"))
            .host("server1.example.test", &["192.0.2.1"])
    };
    let hop = name("example.test", None, None);
    let mut both = zone();
    assert_eq!(both.all(hop.clone(), V4, 1), ["tcp 192.0.2.1:5060", "udp 192.0.2.1:5061"]);
    assert_eq!(
        both.asked[..3],
        ["NAPTR example.test", "SRV _sip._udp.example.test", "SRV _sip._tcp.example.test"],
        "in one round, and not again"
    );
    assert_eq!(both.asked.len(), 5);
    let only_udp = LocateOptions { tcp: None, ..V4 };
    assert_eq!(zone().all(hop, only_udp, 1), ["udp 192.0.2.1:5061"]);
}

#[test]
fn rfc3263_naptr_may_lead_to_another_domain_or_straight_to_a_host() {
    let mut zone = Zone::default()
        .naptr("a.test", (1, 1, "s", "SIP+D2T", "_sip._tcp.b.test"))
        .naptr("a.test", (2, 1, "a", "SIP+D2U", "host.test"))
        .srv("_sip._tcp.b.test", (0, 0, 5070, "one.b.test"))
        .host("one.b.test", &["192.0.2.1"])
        .host("host.test", &["192.0.2.2"]);
    let found = zone.all(name("a.test", None, None), V4, 1);
    assert_eq!(found, ["tcp 192.0.2.1:5070", "udp 192.0.2.2:5060"]);
}

#[test]
fn rfc3263_without_naptr_records_the_transports_that_have_srv_are_used() {
    let hop = name("a.test", None, None);
    let mut tcp = Zone::default()
        .srv("_sip._tcp.a.test", (0, 0, 5070, "one.test"))
        .host("one.test", &["192.0.2.1"])
        .host("a.test", &["192.0.2.9"]);
    assert_eq!(tcp.all(hop.clone(), V4, 1), ["tcp 192.0.2.1:5070"]);
    let mut both = Zone::default()
        .srv("_sip._tcp.a.test", (0, 0, 5070, "one.test"))
        .srv("_sip._udp.a.test", (9, 0, 5080, "one.test"))
        .host("one.test", &["192.0.2.1"]);
    assert_eq!(both.all(hop, V4, 1), ["udp 192.0.2.1:5080", "tcp 192.0.2.1:5070"]);
}

#[test]
fn rfc2782_a_service_that_is_not_there_is_not_looked_for_elsewhere() {
    let mut zone =
        Zone::default().srv("_sip._udp.a.test", (0, 0, 0, "")).host("a.test", &["192.0.2.9"]);
    assert_eq!(zone.all(name("a.test", None, Some(Transport::Udp)), V4, 1), [""; 0]);
    assert_eq!(zone.all(name("a.test", None, None), V4, 1), [""; 0]);
    let tcp = name("a.test", None, Some(Transport::Tcp));
    assert_eq!(zone.all(tcp, V4, 1), ["tcp 192.0.2.9:5060"]);
}

#[test]
fn a_server_that_does_not_answer_is_one_without_such_records() {
    let mut zone = Zone::default()
        .silent("_sip._udp.a.test")
        .silent("one.b.test")
        .srv("_sip._udp.b.test", (1, 1, 5060, "one.b.test"))
        .srv("_sip._udp.b.test", (2, 1, 5060, "two.b.test"))
        .host("a.test", &["192.0.2.1"])
        .host("two.b.test", &["192.0.2.2"]);
    let udp = |host| name(host, None, Some(Transport::Udp));
    assert_eq!(zone.all(udp("a.test"), V4, 1), ["udp 192.0.2.1:5060"]);
    assert_eq!(zone.all(udp("b.test"), V4, 1), ["udp 192.0.2.2:5060"]);
    assert_eq!(zone.all(udp("none.test"), V4, 1), [""; 0]);
}

#[test]
fn later_servers_are_asked_for_only_when_they_are_wanted() {
    let mut zone = Zone::default()
        .srv("_sip._udp.a.test", (1, 0, 5060, "one.test"))
        .srv("_sip._udp.a.test", (2, 0, 5060, "two.test"))
        .host("one.test", &["192.0.2.1"])
        .host("two.test", &["192.0.2.1", "192.0.2.2"]);
    let options = LocateOptions { naptr: false, ..V4 };
    let (mut locate, progress) = Locate::new(name("a.test", None, None), options, 1).unwrap();
    let first = zone.until_found(&mut locate, progress).unwrap();
    assert_eq!(first.len(), 1);
    assert!(!zone.asked.contains(&"A two.test".to_owned()));
    let progress = locate.more().unwrap();
    let second = zone.until_found(&mut locate, progress).unwrap();
    assert_eq!(second[0].address.to_string(), "192.0.2.2:5060", "the other one was tried");
    assert_eq!((second.len(), locate.more()), (1, Err(UNRESOLVABLE)));
}

#[test]
fn both_families_are_found_as_the_sockets_allow() {
    let mut zone = Zone::default().host("a.test", &["2001:db8::1", "192.0.2.1", "192.0.2.1"]);
    let of = |udp| LocateOptions { naptr: false, udp: Some(udp), tcp: None };
    let hop = || name("a.test", Some(5070), None);
    assert_eq!(zone.all(hop(), of(BOTH), 1), ["udp 192.0.2.1:5070", "udp [2001:db8::1]:5070"]);
    assert_eq!(zone.all(hop(), of(ONLY_V4), 1), ["udp 192.0.2.1:5070"]);
    let six = Families { first: Family::V6, both: false };
    assert_eq!(zone.all(hop(), of(six), 1), ["udp [2001:db8::1]:5070"]);
}

#[test]
fn the_options_of_own_sockets_are_their_transports_and_families() {
    let socket = |id, transport, address: &str| Socket {
        id: SocketId(id),
        transport,
        address: address.parse().unwrap(),
        host: Bytes::new(),
        port: 5060,
    };
    let own = Own {
        sockets: vec![
            socket(0, Transport::Udp, "[::1]:5060"),
            socket(1, Transport::Udp, "127.0.0.1:5060"),
            socket(2, Transport::Tcp, "[::1]:5060"),
        ],
        aliases: vec![],
    };
    let six = Families { first: Family::V6, both: false };
    let options = LocateOptions { naptr: true, udp: Some(BOTH), tcp: Some(six) };
    assert_eq!(LocateOptions::of(&own, true), options);
    let nothing = LocateOptions { naptr: false, udp: None, tcp: None };
    assert_eq!(LocateOptions::of(&Own::default(), false), nothing);
}

#[test]
fn rfc3263_every_copy_chooses_alike_whatever_the_order_of_the_records() {
    let zone = |turned: bool| {
        let mut zone = Zone::default().host("x.test", &["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
        for record in [(1, 10, 5061, "x.test"), (1, 10, 5062, "x.test"), (1, 0, 5063, "x.test")] {
            zone = zone.srv("_sip._udp.a.test", record);
        }
        if turned {
            zone.hosts.get_mut("x.test").unwrap().rotate_left(1);
            zone.srv.get_mut("_sip._udp.a.test").unwrap().reverse();
        }
        zone
    };
    let hop = || name("a.test", None, None);
    let firsts: std::collections::HashSet<String> = (0..200)
        .map(|seed| {
            let found = zone(false).all(hop(), V4, seed);
            assert_eq!(found.len(), 9);
            assert_eq!(zone(true).all(hop(), V4, seed), found);
            found[0].clone()
        })
        .collect();
    assert!(firsts.len() > 5, "seeds spread over servers and addresses: {firsts:?}");
}

#[test]
fn rfc2782_servers_of_one_priority_are_drawn_by_weight() {
    let server = |weight, port| Srv { priority: 1, weight, port, target: "x.test".into() };
    let mut first = HashMap::<u16, u32>::new();
    for seed in 0..4_000 {
        let list = vec![server(30, 1), server(60, 2), server(0, 3), server(10, 4)];
        let ordered = order::servers(list, MAX_SERVERS, &mut { seed });
        assert_eq!(ordered.len(), 4);
        *first.entry(ordered[0].port).or_default() += 1;
    }
    let share = |port| f64::from(first[&port]) / 4_000.0;
    assert!((share(1) - 0.30).abs() < 0.05, "{first:?}");
    assert!((share(2) - 0.60).abs() < 0.05, "{first:?}");
    assert!((share(4) - 0.10).abs() < 0.05, "{first:?}");
    assert!(share(3) < 0.05, "{first:?}");
}

#[test]
fn the_work_of_one_search_is_bounded() {
    let names: Vec<&'static str> =
        (0..200).map(|n| &*Box::leak(format!("h{n}.test").into_boxed_str())).collect();
    let mut zone = Zone::default();
    for &host in &names {
        zone = zone.srv("_sip._udp.a.test", (1, 1, 5060, host));
    }
    assert_eq!(zone.all(name("a.test", None, Some(Transport::Udp)), V4, 1), [""; 0]);
    assert_eq!(zone.asked.len(), usize::from(MAX_ASKS));
    let many: Vec<String> = (0..100).map(|n| format!("192.0.2.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut zone = Zone::default().host("a.test", &many);
    assert_eq!(zone.all(name("a.test", Some(1), None), V4, 1).len(), MAX_ADDRESSES);
}

#[test]
fn a_host_that_is_no_name_is_not_asked_for() {
    let long = "a.".repeat(126) + "ab";
    let label = "a".repeat(64);
    for host in ["", ".", "a..b", "a b", "b\u{fc}.test", "a\\b", "a/b", "*", &long, &label] {
        let found = Locate::new(name(host, Some(5060), None), V4, 1);
        assert_eq!(found.unwrap_err(), UNRESOLVABLE, "{host:?}");
    }
    // A name that has no room for the service in front of it is a host.
    let full = "a.".repeat(126) + "a";
    let (_, progress) = Locate::new(name(&full, None, Some(Transport::Udp)), V4, 1).unwrap();
    assert_eq!(progress, Progress::Ask(vec![Question::Address(full.into(), ONLY_V4)]));
    // An address where SRV wants a name.
    let mut zone = Zone::default().srv("_sip._udp.a.test", (1, 1, 5070, "192.0.2.7"));
    assert_eq!(zone.all(name("a.test", None, None), V4, 1), ["udp 192.0.2.7:5070"]);
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let text = prop_oneof![
        Just(Bytes::from_static(b"s")),
        Just(Bytes::from_static(b"a")),
        Just(Bytes::from_static(b"SIP+D2U")),
        Just(Bytes::from_static(b"SIP+D2T")),
        Just(Bytes::from_static(b"a.test")),
        Just(Bytes::from_static(b"b.test")),
        Just(Bytes::from_static(b"_sip._udp.a.test")),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(Bytes::from),
    ];
    let naptr = (any::<u16>(), any::<u16>(), text.clone(), text.clone(), text.clone()).prop_map(
        |(order, preference, flags, services, replacement)| Naptr {
            order,
            preference,
            flags,
            services,
            replacement,
        },
    );
    let srv = (0..3u16, any::<u16>(), any::<u16>(), text)
        .prop_map(|(priority, weight, port, target)| Srv { priority, weight, port, target });
    prop_oneof![
        proptest::collection::vec(naptr, 0..9).prop_map(Answer::Naptr),
        proptest::collection::vec(srv, 0..9).prop_map(Answer::Srv),
        proptest::collection::vec(any::<IpAddr>(), 0..9).prop_map(Answer::Addresses),
        Just(Answer::Failed),
    ]
}

proptest! {
    #[test]
    fn any_answers_end_the_search_without_a_double(
        answers in proptest::collection::vec(any_answer(), 0..24),
        port in proptest::option::of(any::<u16>()),
        transport in prop_oneof![Just(None), Just(Some(Transport::Udp)), Just(Some(Transport::Tcp))],
        seed in any::<u64>(),
    ) {
        let mut answers = answers.into_iter();
        let mut rounds = 0;
        let mut found = Vec::new();
        if let Ok((mut locate, progress)) = Locate::new(name("a.test", port, transport), V4, seed) {
            let mut progress = Ok(progress);
            while let Ok(step) = progress {
                rounds += 1;
                prop_assert!(rounds < 100);
                progress = match step {
                    Progress::Ask(list) => {
                        prop_assert!(!list.is_empty());
                        locate.answer(list.iter().filter_map(|_| answers.next()).collect())
                    }
                    Progress::Found(list) => {
                        prop_assert!(!list.is_empty());
                        found.extend(list);
                        locate.more()
                    }
                };
            }
        }
        for (place, one) in found.iter().enumerate() {
            prop_assert!(one.address.is_ipv4());
            prop_assert!(!found[..place].contains(one));
        }
    }
}
