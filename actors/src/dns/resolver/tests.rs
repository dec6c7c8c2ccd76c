use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder, Rtype, Ttl};
use domain::rdata::A;
use lineway_wire::units::Millis;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Notify;
use tokio::task::LocalSet;

use super::{Answered, DnsSettings, Family, Names as _, Resolver, Wanted};
use crate::dns::DnsError;
use crate::settings::DomainStrategy;

/// How the stub answers a question.
#[derive(Clone)]
enum Says {
    Address([u8; 4], u32),
    Code(Rcode),
    Nothing,
    Truncated,
    WrongIdFirst([u8; 4]),
    Garbage([u8; 4]),
}

/// A name server on loopback that says what it is told to.
struct Stub {
    address: SocketAddr,
    says: RefCell<HashMap<String, Says>>,
    questions: Cell<usize>,
    asked: Notify,
}

impl Stub {
    async fn start() -> Rc<Self> {
        // One port for both, which others may have for one of them.
        let (tcp, udp) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
                break (tcp, udp);
            }
        };
        let address = udp.local_addr().unwrap();
        let stub = Rc::new(Self {
            address,
            says: RefCell::default(),
            questions: Cell::new(0),
            asked: Notify::new(),
        });
        tokio::task::spawn_local(Rc::clone(&stub).serve_udp(udp));
        tokio::task::spawn_local(Rc::clone(&stub).serve_tcp(tcp));
        stub
    }

    fn say(&self, name: &str, says: Says) {
        self.says.borrow_mut().insert(name.into(), says);
    }

    fn reply(&self, query: &[u8], over_tcp: bool) -> Vec<Vec<u8>> {
        let message = Message::from_octets(query.to_vec()).unwrap();
        let question = message.sole_question().unwrap();
        let name = question.qname().to_string();
        self.questions.set(self.questions.get() + 1);
        self.asked.notify_one();
        let says = self.says.borrow().get(&name).cloned();
        let v4 = question.qtype() == Rtype::A;
        let with = |code, address: Option<([u8; 4], u32)>, cut: bool| {
            let builder = MessageBuilder::new_vec();
            let mut builder = builder.start_answer(&message, code).unwrap();
            builder.header_mut().set_tc(cut);
            if let Some((ip, ttl)) = address.filter(|_| v4) {
                let data = A::new(ip.into());
                builder.push((question.qname(), Ttl::from_secs(ttl), data)).unwrap();
            }
            builder.finish()
        };
        match says {
            Some(Says::Address(ip, ttl)) => vec![with(Rcode::NOERROR, Some((ip, ttl)), false)],
            Some(Says::Code(code)) => vec![with(code, None, false)],
            Some(Says::Truncated) => {
                vec![with(Rcode::NOERROR, Some(([192, 0, 2, 7], 60)), !over_tcp)]
            }
            Some(Says::WrongIdFirst(ip)) => {
                let mut wrong = with(Rcode::NOERROR, Some(([6, 6, 6, 6], 60)), false);
                wrong[0] ^= 0xff;
                vec![wrong, with(Rcode::NOERROR, Some((ip, 60)), false)]
            }
            Some(Says::Garbage(ip)) => {
                vec![vec![0xff; 40], vec![], with(Rcode::NOERROR, Some((ip, 60)), false)]
            }
            Some(Says::Nothing) => vec![],
            None => vec![with(Rcode::NXDOMAIN, None, false)],
        }
    }

    async fn serve_udp(self: Rc<Self>, socket: UdpSocket) {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            for reply in self.reply(&buffer[..length], false) {
                let _ = socket.send_to(&reply, from).await;
            }
        }
    }

    async fn serve_tcp(self: Rc<Self>, listener: TcpListener) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let length = stream.read_u16().await.unwrap();
            let mut query = vec![0; usize::from(length)];
            stream.read_exact(&mut query).await.unwrap();
            for reply in self.reply(&query, true) {
                stream.write_u16(u16::try_from(reply.len()).unwrap()).await.unwrap();
                stream.write_all(&reply).await.unwrap();
            }
        }
    }
}

fn resolver(servers: &[SocketAddr], timeout: u64) -> Resolver {
    let timeout = Millis::new(timeout);
    Resolver::new(&DnsSettings { servers: servers.to_vec(), timeout })
}

async fn first(resolver: &Resolver, name: &str, strategy: DomainStrategy) -> Answered {
    let mut lookup = resolver.lookup(&Arc::from(name), Wanted::of(strategy));
    poll_fn(|cx| lookup.poll_next(cx)).await.expect("an answer for each family").addresses
}

async fn v4(resolver: &Resolver, name: &str) -> Answered {
    first(resolver, name, DomainStrategy::OnlyIpv4).await
}

#[allow(clippy::unnecessary_wraps, reason = "it is compared with what a lookup gives")]
fn ip(bytes: [u8; 4]) -> Answered {
    Ok([IpAddr::from(bytes)].into_iter().collect())
}

/// Runs a test with a stub; real time, since the sockets are real.
fn with_stub<F: Future<Output = ()>>(test: impl FnOnce(Rc<Stub>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async { test(Stub::start().await).await });
}

const LONG: u64 = 5000;

#[test]
fn tcp_t10_an_answer_is_kept_for_its_ttl_and_distrust_asks_again() {
    with_stub(|stub| async move {
        stub.say("a.test", Says::Address([127, 0, 0, 2], 300));
        let resolver = resolver(&[stub.address], LONG);
        assert_eq!(v4(&resolver, "a.test").await, ip([127, 0, 0, 2]));
        stub.say("a.test", Says::Address([127, 0, 0, 3], 300));
        assert_eq!(v4(&resolver, "a.test").await, ip([127, 0, 0, 2]));
        assert_eq!(stub.questions.get(), 1);
        resolver.distrust("a.test");
        assert_eq!(v4(&resolver, "a.test").await, ip([127, 0, 0, 3]));
    });
}

#[test]
fn case_t25_a_ttl_of_zero_is_asked_for_each_connect() {
    with_stub(|stub| async move {
        stub.say("a.test", Says::Address([127, 0, 0, 2], 0));
        let resolver = resolver(&[stub.address], LONG);
        assert_eq!(v4(&resolver, "a.test").await, ip([127, 0, 0, 2]));
        stub.say("a.test", Says::Address([127, 0, 0, 3], 0));
        assert_eq!(v4(&resolver, "a.test").await, ip([127, 0, 0, 3]));
    });
}

#[test]
fn case_t25_a_name_that_does_not_exist_is_known_at_once() {
    with_stub(|stub| async move {
        let resolver = resolver(&[stub.address], LONG);
        let begun = Instant::now();
        assert_eq!(v4(&resolver, "no.test").await, Err(DnsError::NotFound));
        assert!(begun.elapsed() < Duration::from_secs(1));
    });
}

#[test]
fn case_t25_a_silent_server_is_passed_over_for_the_next() {
    with_stub(|stub| async move {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        stub.say("a.test", Says::Address([127, 0, 0, 2], 60));
        let resolver = resolver(&[silent.local_addr().unwrap(), stub.address], 50);
        assert_eq!(v4(&resolver, "a.test").await, ip([127, 0, 0, 2]));
    });
}

#[test]
fn case_t25_servers_that_fail_or_are_silent_fail_the_name_after_two_rounds() {
    with_stub(|stub| async move {
        stub.say("a.test", Says::Code(Rcode::SERVFAIL));
        stub.say("b.test", Says::Nothing);
        let resolver = resolver(&[stub.address], 50);
        assert_eq!(v4(&resolver, "a.test").await, Err(DnsError::Failed));
        assert_eq!(stub.questions.get(), 2);
        assert_eq!(v4(&resolver, "b.test").await, Err(DnsError::Failed));
    });
}

#[test]
fn case_t25_a_slow_name_delays_no_other() {
    with_stub(|stub| async move {
        stub.say("slow.test", Says::Nothing);
        stub.say("a.test", Says::Address([127, 0, 0, 2], 60));
        let resolver = resolver(&[stub.address], LONG);
        let other = resolver.clone();
        let slow = tokio::task::spawn_local(async move { v4(&other, "slow.test").await });
        stub.asked.notified().await;
        assert_eq!(v4(&resolver, "a.test").await, ip([127, 0, 0, 2]));
        assert!(!slow.is_finished());
        slow.abort();
    });
}

#[test]
fn tcp_t10_an_answer_that_does_not_fit_is_fetched_over_tcp() {
    with_stub(|stub| async move {
        stub.say("a.test", Says::Truncated);
        let resolver = resolver(&[stub.address], LONG);
        assert_eq!(v4(&resolver, "a.test").await, ip([192, 0, 2, 7]));
        assert_eq!(stub.questions.get(), 2);
    });
}

#[test]
fn tcp_t10_forged_and_broken_answers_are_not_listened_to() {
    with_stub(|stub| async move {
        stub.say("a.test", Says::WrongIdFirst([127, 0, 0, 2]));
        stub.say("b.test", Says::Garbage([127, 0, 0, 3]));
        let resolver = resolver(&[stub.address], LONG);
        assert_eq!(v4(&resolver, "a.test").await, ip([127, 0, 0, 2]));
        assert_eq!(v4(&resolver, "b.test").await, ip([127, 0, 0, 3]));
    });
}

#[test]
fn tcp_t10_lookups_of_one_name_share_one_question() {
    with_stub(|stub| async move {
        stub.say("a.test", Says::Address([127, 0, 0, 2], 60));
        let resolver = resolver(&[stub.address], LONG);
        let all = (0..50).map(|_| v4(&resolver, "a.test"));
        for answer in futures_util::future::join_all(all).await {
            assert_eq!(answer, ip([127, 0, 0, 2]));
        }
        assert_eq!(stub.questions.get(), 1);
    });
}

#[test]
fn tcp_t10_a_question_ends_with_the_last_lookup_that_wants_it() {
    with_stub(|stub| async move {
        stub.say("a.test", Says::Nothing);
        let resolver = resolver(&[stub.address], LONG);
        let wanted = Wanted::of(DomainStrategy::OnlyIpv4);
        let mut lookup = resolver.lookup(&Arc::from("a.test"), wanted);
        tokio::select! {
            _ = poll_fn(|cx| lookup.poll_next(cx)) => panic!("nobody answers"),
            () = stub.asked.notified() => {}
        }
        assert_eq!(resolver.inner.places.available_permits(), super::AT_ONCE - 1);
        drop(lookup);
        assert_eq!(resolver.inner.places.available_permits(), super::AT_ONCE);
    });
}

#[test]
fn case_t25_only_a_denial_for_the_preferred_family_leaves_the_other() {
    with_stub(|stub| async move {
        stub.say("a.test", Says::Address([127, 0, 0, 2], 60));
        let resolver = resolver(&[stub.address], LONG);
        let wanted = Wanted::of(DomainStrategy::PreferIpv6);
        let mut lookup = resolver.lookup(&Arc::from("a.test"), wanted);
        let mut answers = HashMap::new();
        while let Some(answer) = poll_fn(|cx| lookup.poll_next(cx)).await {
            answers.insert(answer.preferred, answer.addresses);
        }
        assert_eq!(answers[&true], Err(DnsError::NotFound));
        assert_eq!(answers[&false], ip([127, 0, 0, 2]));
    });
}

#[test]
fn localhost_is_loopback_whatever_the_servers_say() {
    with_stub(|stub| async move {
        let resolver = resolver(&[stub.address], LONG);
        assert_eq!(v4(&resolver, "localhost").await, ip([127, 0, 0, 1]));
        assert_eq!(v4(&resolver, "db.localhost").await, ip([127, 0, 0, 1]));
        let v6 = first(&resolver, "localhost", DomainStrategy::OnlyIpv6).await;
        assert_eq!(v6.unwrap().as_slice(), [IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])]);
        assert_eq!(stub.questions.get(), 0);
        assert!(Family::V4.has(IpAddr::from([127, 0, 0, 1])));
    });
}
