//! A name server on this host that says what a test wants.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use domain::base::charstr::CharStr;
use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder, Name, Rtype, Serial, Ttl};
use domain::rdata::{A, Aaaa, Cname, Naptr, Soa, Srv};
use lineway_wire::dial::Family;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{AbortHandle, spawn};

use crate::dns::records::Kind;

/// One question that arrived.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) tcp: bool,
    pub(super) edns: bool,
    pub(super) message: Message<Vec<u8>>,
}

/// A record of an answer: owner, TTL, value.
pub(super) enum Rec<'a> {
    Address(&'a str, u32, IpAddr),
    Alias(&'a str, u32, &'a str),
    /// Priority, weight, port, target.
    Srv(&'a str, u32, (u16, u16, u16, &'a str)),
    /// Order, preference, flags, services, replacement.
    Naptr(&'a str, u32, (u16, u16, &'a str, &'a str, &'a str)),
    /// TTL and minimum, in the authority section.
    Soa(u32, u32),
}

impl Asked {
    pub(super) fn read(bytes: &[u8], tcp: bool) -> Self {
        let message = Message::from_octets(bytes.to_vec()).unwrap();
        let question = message.sole_question().unwrap();
        let kind = match question.qtype() {
            Rtype::A => Kind::A,
            Rtype::AAAA => Kind::Aaaa,
            Rtype::SRV => Kind::Srv,
            Rtype::NAPTR => Kind::Naptr,
            other => panic!("asked for {other}"),
        };
        let name = question.qname().to_string();
        let edns = message.opt().is_some();
        Self { name, kind, tcp, edns, message }
    }

    /// The bytes of an answer.
    pub(super) fn answer(&self, rcode: Rcode, records: &[Rec<'_>]) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec().start_answer(&self.message, rcode).unwrap();
        for record in records {
            match *record {
                Rec::Address(owner, ttl, IpAddr::V4(ip)) => {
                    builder.push((name(owner), ttl, A::new(ip))).unwrap();
                }
                Rec::Address(owner, ttl, IpAddr::V6(ip)) => {
                    builder.push((name(owner), ttl, Aaaa::new(ip))).unwrap();
                }
                Rec::Alias(owner, ttl, target) => {
                    let target = Cname::new(name(target));
                    builder.push((name(owner), ttl, target)).unwrap();
                }
                Rec::Srv(owner, ttl, (priority, weight, port, target)) => {
                    let srv = Srv::new(priority, weight, port, name(target));
                    builder.push((name(owner), ttl, srv)).unwrap();
                }
                Rec::Naptr(owner, ttl, (order, preference, flags, services, replacement)) => {
                    let [flags, services, regexp] = [flags, services, ""]
                        .map(|text| CharStr::from_octets(text.as_bytes().to_vec()).unwrap());
                    let to = name(replacement);
                    let naptr = Naptr::new(order, preference, flags, services, regexp, to);
                    builder.push((name(owner), ttl, naptr)).unwrap();
                }
                Rec::Soa(..) => {}
            }
        }
        let mut builder = builder.authority();
        for record in records {
            if let Rec::Soa(ttl, minimum) = *record {
                let hour = Ttl::from_secs(3_600);
                let minimum = Ttl::from_secs(minimum);
                let (m, r) = (name("ns.test"), name("admin.test"));
                let soa = Soa::new(m, r, Serial(1), hour, hour, hour, minimum);
                builder.push((name("test"), ttl, soa)).unwrap();
            }
        }
        builder.finish()
    }

    /// The answer with one address of the family that was asked for, or none.
    pub(super) fn address(&self, ttl: u32, address: IpAddr) -> Vec<Vec<u8>> {
        let mut records = vec![];
        if Kind::from(Family::of(&address)) == self.kind {
            records.push(Rec::Address(&self.name, ttl, address));
        }
        vec![self.answer(Rcode::NOERROR, &records)]
    }

    /// An answer without records.
    pub(super) fn code(&self, rcode: Rcode) -> Vec<Vec<u8>> {
        vec![self.answer(rcode, &[])]
    }
}

fn name(text: &str) -> Name<Vec<u8>> {
    Name::vec_from_str(text).unwrap()
}

type Say = Arc<dyn Fn(&Asked) -> Vec<Vec<u8>> + Send + Sync>;

/// The server; it ends with the value.
pub(super) struct Stub {
    pub(super) address: SocketAddr,
    log: Arc<Mutex<Vec<Asked>>>,
    tasks: [AbortHandle; 2],
}

impl Stub {
    /// A server that answers each question with the datagrams that `say` makes, or over TCP with
    /// the first of them.
    pub(super) async fn start(
        say: impl Fn(&Asked) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let (udp, tcp) = sockets().await;
        let address = udp.local_addr().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let say: Say = Arc::new(say);
        let tasks = [
            spawn(serve_udp(udp, Arc::clone(&say), Arc::clone(&log))).abort_handle(),
            spawn(serve_tcp(tcp, say, Arc::clone(&log))).abort_handle(),
        ];
        Self { address, log, tasks }
    }

    /// What was asked so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// UDP and TCP on one port of the system's choice.
async fn sockets() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
            return (udp, tcp);
        }
    }
}

async fn serve_udp(socket: UdpSocket, say: Say, log: Arc<Mutex<Vec<Asked>>>) {
    let mut buffer = [0; 2_048];
    loop {
        let (len, from) = socket.recv_from(&mut buffer).await.unwrap();
        let asked = Asked::read(&buffer[..len], false);
        log.lock().unwrap().push(asked.clone());
        for datagram in say(&asked) {
            // The one who asked may be gone.
            let _ = socket.send_to(&datagram, from).await;
        }
    }
}

async fn serve_tcp(listener: TcpListener, say: Say, log: Arc<Mutex<Vec<Asked>>>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let asked = read_tcp(&mut stream).await;
        log.lock().unwrap().push(asked.clone());
        for answer in say(&asked) {
            stream.write_u16(answer.len() as u16).await.unwrap();
            stream.write_all(&answer).await.unwrap();
        }
    }
}

async fn read_tcp(stream: &mut TcpStream) -> Asked {
    let len = stream.read_u16().await.unwrap();
    let mut bytes = vec![0; len.into()];
    stream.read_exact(&mut bytes).await.unwrap();
    Asked::read(&bytes, true)
}
