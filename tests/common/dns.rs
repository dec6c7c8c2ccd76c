//! Name servers for tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// A name server that never answers.
pub struct SilentServer(UdpSocket);

impl SilentServer {
    /// Takes a free port.
    pub fn new() -> Self {
        Self(UdpSocket::bind("127.0.0.1:0").expect("a free port"))
    }

    /// Waits for the first question.
    pub fn asked(&self) {
        self.0.set_read_timeout(Some(super::PATIENCE)).expect("a timeout");
        self.0.recv_from(&mut [0; 512]).expect("a question");
    }

    /// Where it does not answer.
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("an address")
    }
}

/// What a name server says to every question.
#[derive(Clone, Debug)]
pub enum Says {
    /// These addresses, with this TTL in seconds.
    Addresses(u32, Vec<IpAddr>),
    /// NXDOMAIN.
    Absent,
    /// Nothing, until it says something else.
    Nothing,
}

/// A name server that says what a test wants. It goes on until the process ends.
pub struct NameServer {
    socket: UdpSocket,
    state: Mutex<State>,
}

struct State {
    says: Says,
    waiting: Vec<(Vec<u8>, SocketAddr)>,
    answered: Option<Instant>,
}

impl NameServer {
    /// Takes a free port.
    pub fn start(says: Says) -> Arc<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let state = Mutex::new(State { says, waiting: Vec::new(), answered: None });
        let server = Arc::new(Self { socket, state });
        let serving = Arc::clone(&server);
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = serving.socket.recv_from(&mut question) {
                let mut state = serving.state();
                state.waiting.push((question[..length].to_vec(), from));
                serving.answer_all(&mut state);
            }
        });
        server
    }

    /// Says something else from the next question on, and to those that wait.
    pub fn say(&self, says: Says) {
        let mut state = self.state();
        state.says = says;
        self.answer_all(&mut state);
    }

    /// Whether a question waits for an answer.
    pub fn is_waited_for(&self) -> bool {
        !self.state().waiting.is_empty()
    }

    /// When it answered last.
    pub fn answered(&self) -> Instant {
        self.state().answered.expect("an answer")
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("an address")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    fn answer_all(&self, state: &mut State) {
        let (code, ttl, addresses) = match &state.says {
            Says::Addresses(ttl, addresses) => (0, *ttl, addresses.as_slice()),
            Says::Absent => (3, 0, [].as_slice()),
            Says::Nothing => return,
        };
        for (question, from) in state.waiting.drain(..) {
            // Who asked may have given up.
            let _ = self.socket.send_to(&answer(&question, code, ttl, addresses), from);
            state.answered = Some(Instant::now());
        }
    }
}

/// A name server that has these IPv4 addresses for every name, for a minute.
pub fn name_server(addresses: &[Ipv4Addr]) -> SocketAddr {
    let addresses = addresses.iter().copied().map(IpAddr::V4).collect();
    NameServer::start(Says::Addresses(60, addresses)).address()
}

/// RFC 1035 4, RFC 3596 2: header, the question as it came, a record for each address of its type.
fn answer(question: &[u8], code: u8, ttl: u32, addresses: &[IpAddr]) -> Vec<u8> {
    let labels = question[12..].iter().position(|byte| *byte == 0).expect("a name");
    let end = 12 + labels + 1 + 4;
    let kind = question[end - 3];
    let bytes = |address: &IpAddr| match address {
        IpAddr::V4(ip) => (1, ip.octets().to_vec()),
        IpAddr::V6(ip) => (28, ip.octets().to_vec()),
    };
    let mut records: Vec<_> = addresses.iter().map(bytes).collect();
    records.retain(|(of, _)| *of == kind);
    let count = u8::try_from(records.len()).expect("few");
    let mut reply = question[..2].to_vec();
    reply.extend([0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0]);
    reply.extend(&question[12..end]);
    for (of, bytes) in records {
        // The name of the question, its type, IN.
        reply.extend([0xc0, 12, 0, of, 0, 1]);
        reply.extend(ttl.to_be_bytes());
        reply.extend([0, u8::try_from(bytes.len()).expect("an address")]);
        reply.extend(bytes);
    }
    reply
}
