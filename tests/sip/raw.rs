//! Phones: sockets that send and take SIP messages as bytes.

#![allow(dead_code, reason = "each binary uses a part of it")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use crate::common::{PATIENCE, until};

/// How the 100 begins that the proxy makes by itself, which no phone here writes so.
pub(crate) const TRYING: &str = "SIP/2.0 100 trying -- your call is important to us\r\n";

/// A message as it came.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sip(pub(crate) Vec<u8>);

impl std::fmt::Debug for Sip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\n{}", String::from_utf8_lossy(&self.0))
    }
}

impl Sip {
    fn end_of_head(&self) -> usize {
        let end = self.0.windows(4).position(|four| four == b"\r\n\r\n");
        let bare = self.0.windows(2).position(|two| two == b"\n\n");
        let end = end.map(|at| at + 4).or(bare.map(|at| at + 2));
        end.unwrap_or_else(|| panic!("no end of headers: {self:?}"))
    }

    /// The first line and the header lines, without their ends; a folded line is several.
    pub(crate) fn lines(&self) -> Vec<String> {
        let head = String::from_utf8_lossy(&self.0[..self.end_of_head()]).into_owned();
        let lines = head.split_terminator('\n').map(|line| line.trim_end_matches('\r').to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    }

    /// The first line.
    pub(crate) fn first(&self) -> String {
        self.lines().swap_remove(0)
    }

    /// The status of a reply.
    #[track_caller]
    pub(crate) fn status(&self) -> u16 {
        let first = self.first();
        let status = first.strip_prefix("SIP/2.0 ").and_then(|rest| rest.get(..3)?.parse().ok());
        status.unwrap_or_else(|| panic!("no reply: {self:?}"))
    }

    /// The values of the header lines of this name, as it is written.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let of =
            |line: &String| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned());
        self.lines().iter().skip(1).filter_map(of).collect()
    }

    /// The value of the only header line of this name.
    #[track_caller]
    pub(crate) fn one(&self, name: &str) -> String {
        let all = self.all(name);
        assert_eq!(all.len(), 1, "{name} in {self:?}");
        all.into_iter().next().expect("there is one")
    }

    /// The branch of the topmost Via line.
    #[track_caller]
    pub(crate) fn branch(&self) -> String {
        let via = self.all("Via").into_iter().next().expect("a Via");
        parameter(&via, "branch").unwrap_or_else(|| panic!("no branch: {self:?}"))
    }

    /// The tag of To.
    #[track_caller]
    pub(crate) fn to_tag(&self) -> Option<String> {
        parameter(&self.one("To"), "tag")
    }

    /// What is behind the headers.
    pub(crate) fn body(&self) -> &[u8] {
        &self.0[self.end_of_head()..]
    }

    /// The whole text.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.clone()).expect("it is text")
    }

    /// The bytes without the header line at this place; the first header is line 1.
    #[track_caller]
    pub(crate) fn without_line(&self, at: usize) -> Vec<u8> {
        let mut starts = vec![0];
        starts.extend(self.0.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(n, _)| n + 1));
        let mut left = self.0.clone();
        left.drain(starts[at]..starts[at + 1]);
        left
    }
}

/// A parameter of a header's value.
pub(crate) fn parameter(value: &str, name: &str) -> Option<String> {
    let of = |part: &str| part.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
    value.split(';').skip(1).find_map(of)
}

/// A request as the cases begin with it.
pub(crate) fn request(method: &str, uri: &str, via: &str, call: &str) -> String {
    format!(
        "{method} {uri} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@127.0.0.1>;tag=a1\r\nTo: <sip:bob@127.0.0.1>\r\nCall-ID: {call}\r\n\
         CSeq: 1 {method}\r\nContact: <sip:alice@127.0.0.1:15060>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// The same request with a body and its length.
pub(crate) fn with_body(request: &str, body: &str) -> String {
    let length = format!("Content-Length: {}", body.len());
    assert!(request.contains("Content-Length: 0"), "{request}");
    request.replace("Content-Length: 0", &length) + body
}

/// A reply as a phone makes it: what has to be repeated as it came, and a tag of To.
#[track_caller]
pub(crate) fn reply(to: &Sip, status: &str, more: &str) -> String {
    reply_as("tb", to, status, more)
}

/// The same with a tag of the phone's own.
#[track_caller]
pub(crate) fn reply_as(tag: &str, to: &Sip, status: &str, more: &str) -> String {
    let kept = ["via", "v", "from", "f", "to", "t", "call-id", "i", "cseq", "record-route"];
    // Header lines with what they are folded into.
    let mut headers: Vec<String> = vec![];
    for line in &to.lines()[1..] {
        match headers.last_mut() {
            Some(last) if line.starts_with([' ', '\t']) => last.extend(["\r\n", line]),
            _ => headers.push(line.clone()),
        }
    }
    let mut reply = format!("SIP/2.0 {status}\r\n");
    for header in headers {
        let name = header.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_to = name == "to" || name == "t";
        if is_to && !header.contains("tag=") && !status.starts_with("100") {
            reply.extend([&header, ";tag=", tag, "\r\n"]);
        } else if kept.contains(&name.as_str()) {
            reply.extend([&header, "\r\n"]);
        }
    }
    reply + more + "Content-Length: 0\r\n\r\n"
}

/// A phone on a UDP port.
pub(crate) struct Udp(UdpSocket);

impl Udp {
    /// On a free port of 127.0.0.1.
    pub(crate) fn new() -> Self {
        Self::on(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// On a free port of this address.
    pub(crate) fn on(ip: IpAddr) -> Self {
        let socket = UdpSocket::bind((ip, 0)).expect("a free port");
        socket.set_read_timeout(Some(PATIENCE)).expect("an option");
        Self(socket)
    }

    pub(crate) fn at(&self) -> SocketAddr {
        self.0.local_addr().expect("an address")
    }

    /// The Via of its requests.
    pub(crate) fn via(&self, branch: &str) -> String {
        format!("SIP/2.0/UDP {};branch=z9hG4bK{branch}", self.at())
    }

    #[track_caller]
    pub(crate) fn send(&self, to: SocketAddr, message: impl AsRef<[u8]>) {
        self.0.send_to(message.as_ref(), to).expect("it goes out");
    }

    /// The next datagram, and from where.
    #[track_caller]
    pub(crate) fn receive_from(&self) -> (Sip, SocketAddr) {
        let mut buffer = vec![0; 65_536];
        let (length, from) = self.0.recv_from(&mut buffer).expect("a message comes");
        buffer.truncate(length);
        (Sip(buffer), from)
    }

    /// The next datagram, whatever it is.
    #[track_caller]
    pub(crate) fn hear(&self) -> Sip {
        self.receive_from().0
    }

    /// The next datagram but for the 100 that a transaction begins with.
    #[track_caller]
    pub(crate) fn receive(&self) -> Sip {
        loop {
            let came = self.hear();
            if !came.0.starts_with(TRYING.as_bytes()) {
                return came;
            }
        }
    }

    /// Whether a datagram waits.
    pub(crate) fn has_some(&self) -> bool {
        self.0.set_nonblocking(true).expect("an option");
        let some = self.0.peek(&mut [0]).is_ok();
        self.0.set_nonblocking(false).expect("an option");
        some
    }

    /// Nothing comes for so long. Only for what could come by a timer, which nothing else shows.
    #[track_caller]
    pub(crate) fn stays_silent(&self, time: Duration) {
        self.0.set_read_timeout(Some(time)).expect("an option");
        let mut buffer = vec![0; 65_536];
        if let Ok(length) = self.0.recv(&mut buffer) {
            panic!("unexpected: {:?}", Sip(buffer[..length].to_vec()));
        }
        self.0.set_read_timeout(Some(PATIENCE)).expect("an option");
    }
}

/// A phone that others connect to.
pub(crate) struct TcpPhone(TcpListener);

impl TcpPhone {
    pub(crate) fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").expect("a free port"))
    }

    pub(crate) fn at(&self) -> SocketAddr {
        self.0.local_addr().expect("an address")
    }

    /// The next connection.
    #[track_caller]
    pub(crate) fn accept(&self) -> Tcp {
        self.0.set_nonblocking(true).expect("an option");
        let mut stream = None;
        until("a connection", || {
            stream = self.0.accept().ok();
            stream.is_some()
        });
        let (stream, _) = stream.expect("it is there");
        stream.set_nonblocking(false).expect("an option");
        Tcp::of(stream)
    }

    /// No connection waits.
    #[track_caller]
    pub(crate) fn has_none(&self) {
        self.0.set_nonblocking(true).expect("an option");
        let error = self.0.accept().expect_err("another connection");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
}

/// A phone at the end of a TCP connection.
pub(crate) struct Tcp {
    pub(crate) stream: TcpStream,
    got: Vec<u8>,
}

impl Tcp {
    #[track_caller]
    pub(crate) fn connect(to: SocketAddr) -> Self {
        Self::of(TcpStream::connect(to).expect("it listens"))
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("an option");
        stream.set_write_timeout(Some(PATIENCE)).expect("an option");
        stream.set_nodelay(true).expect("an option");
        Self { stream, got: Vec::new() }
    }

    /// Its own end.
    pub(crate) fn at(&self) -> SocketAddr {
        self.stream.local_addr().expect("an address")
    }

    pub(crate) fn via(&self, branch: &str) -> String {
        format!("SIP/2.0/TCP {};branch=z9hG4bK{branch}", self.at())
    }

    #[track_caller]
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("it takes them");
    }

    #[track_caller]
    fn read(&mut self) {
        let mut buffer = vec![0; 65_536];
        let length = self.stream.read(&mut buffer).expect("bytes come");
        assert_ne!(length, 0, "the connection ended behind {:?}", Sip(self.got.clone()));
        self.got.extend_from_slice(&buffer[..length]);
    }

    /// The next bytes, exactly so many.
    #[track_caller]
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.got.len() < count {
            self.read();
        }
        self.got.drain(..count).collect()
    }

    /// The next message but for the 100 that a transaction begins with.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Sip {
        loop {
            let came = self.hear();
            if !came.0.starts_with(TRYING.as_bytes()) {
                return came;
            }
        }
    }

    /// The next message, by its Content-Length.
    #[track_caller]
    pub(crate) fn hear(&mut self) -> Sip {
        let head = loop {
            let end = self.got.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                break Sip(self.got[..end + 4].to_vec());
            }
            self.read();
        };
        let names = ["Content-Length", "L ", "l"];
        let length = names.map(|name| head.all(name)).concat();
        assert_eq!(length.len(), 1, "no length on a stream: {head:?}");
        let length: usize = length[0].parse().expect("a number");
        Sip(self.bytes(head.0.len() + length))
    }

    /// Whether bytes wait.
    pub(crate) fn has_some(&self) -> bool {
        self.stream.set_nonblocking(true).expect("an option");
        let some = self.stream.peek(&mut [0]).is_ok();
        self.stream.set_nonblocking(false).expect("an option");
        some
    }

    /// The other side has closed it, and nothing came before.
    #[track_caller]
    pub(crate) fn ended(&mut self) {
        assert!(self.got.is_empty(), "left: {:?}", Sip(self.got.clone()));
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => {}
            Ok(length) => panic!("more came: {:?}", Sip(buffer[..length].to_vec())),
            // Closed before it had read all.
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
    }
}
