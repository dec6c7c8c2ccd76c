//! What the tests of SIP share: messages built line by line, own sockets, drafts, and what becomes
//! of them on the wire.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::net::SocketAddr;

use bytes::Bytes;

use super::draft::Draft;
use super::message::{Limits, Message};
use super::own::{ConnectionId, Own, Received, Socket, SocketId, Transport};
use super::{forward, reply};

/// Where the caller of the cases sends from.
pub(crate) const CALLER: &str = "127.0.0.1:15060";

/// A message as lines of text.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    start: String,
    lines: Vec<String>,
    body: Vec<u8>,
    end: &'static str,
}

/// The INVITE that most cases begin with.
pub(crate) fn invite() -> Text {
    Text::of(
        "INVITE sip:bob@127.0.0.1:5060 SIP/2.0
Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1
Max-Forwards: 70
From: <sip:alice@127.0.0.1>;tag=a1
To: <sip:bob@127.0.0.1>
Call-ID: c1@127.0.0.1
CSeq: 1 INVITE
Contact: <sip:alice@127.0.0.1:15060>
Content-Length: 0",
    )
}

/// The same with another method.
pub(crate) fn request(method: &str) -> Text {
    invite().method(method)
}

/// A reply to that INVITE as it comes from A: own Via on top of the caller's.
pub(crate) fn reply(code: u16, reason: &str) -> Text {
    Text::of(&format!(
        "SIP/2.0 {code} {reason}
Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKown
Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1
From: <sip:alice@127.0.0.1>;tag=a1
To: <sip:bob@127.0.0.1>;tag=ta
Call-ID: c1@127.0.0.1
CSeq: 1 INVITE
Content-Length: 0"
    ))
}

impl Text {
    /// From a start line and header lines; lines that begin with white space are folds.
    pub(crate) fn of(text: &str) -> Self {
        let mut lines: Vec<String> = Vec::new();
        for line in text.lines() {
            match lines.last_mut() {
                Some(last) if line.starts_with([' ', '\t']) => {
                    last.push_str("\r\n");
                    last.push_str(line);
                }
                _ => lines.push(line.to_owned()),
            }
        }
        let start = lines.remove(0);
        Self { start, lines, body: Vec::new(), end: "\r\n" }
    }
    /// With this start line.
    pub(crate) fn start(mut self, start: &str) -> Self {
        start.clone_into(&mut self.start);
        self
    }
    /// With this Request-URI.
    pub(crate) fn uri(mut self, uri: &str) -> Self {
        let method = self.start.split(' ').next().unwrap_or_default();
        self.start = format!("{method} {uri} SIP/2.0");
        self
    }
    /// With this method in the start line and in `CSeq`.
    pub(crate) fn method(mut self, method: &str) -> Self {
        let rest = self.start.split_once(' ').map_or("", |(_, rest)| rest);
        self.start = format!("{method} {rest}");
        let cseq = self.value("CSeq").to_owned();
        let number = cseq.split_whitespace().next().unwrap_or("1");
        self.set("CSeq", &format!("{number} {method}"))
    }
    /// The value of the first header of this name; empty without one.
    pub(crate) fn value(&self, name: &str) -> &str {
        let line = self.lines.iter().find(|line| is(line, name));
        line.map_or("", |line| line[name.len() + 1..].trim())
    }
    /// The first header of this name has this value; it comes last if there is none.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        let line = format!("{name}: {value}");
        match self.lines.iter_mut().find(|line| is(line, name)) {
            Some(old) => *old = line,
            None => self.lines.push(line),
        }
        self
    }
    /// Without the headers of this name.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.lines.retain(|line| !is(line, name));
        self
    }
    /// With this line as the last header.
    pub(crate) fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }
    /// With this line as the first header.
    pub(crate) fn top(mut self, line: &str) -> Self {
        self.lines.insert(0, line.to_owned());
        self
    }
    /// With this line behind the first header of a name.
    pub(crate) fn behind(mut self, name: &str, line: &str) -> Self {
        let at = self.lines.iter().position(|line| is(line, name)).expect("the header is there");
        self.lines.insert(at + 1, line.to_owned());
        self
    }
    /// With this body, and its length if Content-Length is there.
    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        if self.value("Content-Length").is_empty() {
            return self;
        }
        self.set("Content-Length", &body.len().to_string())
    }
    /// With this line end in place of CRLF.
    pub(crate) fn ends(mut self, end: &'static str) -> Self {
        self.end = end;
        self
    }
    /// As it travels.
    pub(crate) fn bytes(&self) -> Bytes {
        let mut text = self.start.clone();
        for line in &self.lines {
            text.push_str("\r\n");
            text.push_str(line);
        }
        text.push_str("\r\n\r\n");
        let mut bytes = text.replace("\r\n", self.end).into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes.into()
    }
    /// As it travels, as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("text")
    }
    /// Parsed.
    pub(crate) fn message(&self) -> Message {
        parse(self.bytes())
    }
    /// As it came from the caller by the first own socket over UDP.
    pub(crate) fn draft(&self) -> Draft {
        self.draft_from(udp_from(CALLER))
    }
    /// As it came from there.
    pub(crate) fn draft_from(&self, received: Received) -> Draft {
        Draft::new(self.message(), received)
    }
}

/// A header line has this name.
fn is(line: &str, name: &str) -> bool {
    line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        && line[name.len()..].trim_start().starts_with(':')
}

/// Parses what has to parse.
pub(crate) fn parse(bytes: impl Into<Bytes>) -> Message {
    let bytes = bytes.into();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Message::parse(bytes, &Limits::default()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Own sockets such as `udp:127.0.0.1:5060`, in this order, without aliases.
pub(crate) fn owning(sockets: &[&str]) -> Own {
    let socket = |(at, text): (usize, &&str)| {
        let (transport, address) = text.split_once(':').expect("transport:address");
        let address: SocketAddr = address.parse().expect("an address");
        let host = match address {
            SocketAddr::V4(v4) => v4.ip().to_string(),
            SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
        };
        Socket {
            id: SocketId(u16::try_from(at).expect("few sockets")),
            transport: Transport::of(transport.as_bytes()).expect("a transport"),
            address,
            host: host.into(),
            port: address.port(),
        }
    };
    Own { sockets: sockets.iter().enumerate().map(socket).collect(), aliases: Vec::new() }
}

/// The proxy of the cases: UDP 0 and TCP 1 on 127.0.0.1:5060, UDP 2 and TCP 3 on 127.0.0.2:5060.
pub(crate) fn own() -> Own {
    owning(&[
        "udp:127.0.0.1:5060",
        "tcp:127.0.0.1:5060",
        "udp:127.0.0.2:5060",
        "tcp:127.0.0.2:5060",
    ])
}

/// What came over UDP by the first socket.
pub(crate) fn udp_from(source: &str) -> Received {
    Received {
        source: source.parse().expect("an address"),
        socket: SocketId(0),
        transport: Transport::Udp,
        connection: None,
    }
}

/// What came over TCP by the second socket, on this connection.
pub(crate) fn tcp_from(source: &str, connection: u32) -> Received {
    Received {
        source: source.parse().expect("an address"),
        socket: SocketId(1),
        transport: Transport::Tcp,
        connection: Some(ConnectionId(connection)),
    }
}

/// The request as it leaves by this socket, branch 0.
pub(crate) fn forwarded(draft: &Draft, own: &Own, socket: u16) -> String {
    let mut out = Vec::new();
    forward::request(draft, own, &own.sockets[usize::from(socket)], 0, &mut out);
    String::from_utf8(out).expect("text")
}

/// The reply as it leaves by this socket.
pub(crate) fn returned(draft: &Draft, own: &Own, socket: u16) -> String {
    let mut out = Vec::new();
    reply::write(draft, own, &own.sockets[usize::from(socket)], &mut out);
    String::from_utf8(out).expect("text")
}

/// The header lines of this name in order, with their folds, without line ends.
pub(crate) fn lines<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    let mut found = Vec::new();
    let mut at = 0;
    while at < head.len() {
        let mut end = at;
        loop {
            end = head[end..].find("\r\n").map_or(head.len(), |next| end + next);
            if !head[end..].starts_with("\r\n ") && !head[end..].starts_with("\r\n\t") {
                break;
            }
            end += 2;
        }
        let line = &head[at..end];
        if is(line, name) {
            found.push(line);
        }
        at = end + 2;
    }
    found
}

/// The value of the first header of this name.
pub(crate) fn value<'a>(text: &'a str, name: &str) -> &'a str {
    let line = lines(text, name).first().copied().unwrap_or_else(|| panic!("no {name}: {text}"));
    line.split_once(':').expect("a colon").1.trim()
}
