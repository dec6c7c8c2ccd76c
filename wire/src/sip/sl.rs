//! Replies without state (contract 4), and the tag by which their ACK is known. What such a reply
//! looks like is what every reply that is made here looks like.
//!
//! The To tag of such a reply stands on what the INVITE and the ACK of its refusal have in common:
//! top Via and Call-ID. So the ACK proves by itself that it is one of ours, and ends here.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use md5::{Digest, Md5};

use super::draft::Draft;
use super::forward::top_via;
use super::message::{Message, Method, Name};
use super::own::{ConnectionId, DEFAULT_PORT, Own, SocketId, Transport};

#[cfg(test)]
mod tests;

/// How long after the last reply an ACK may be that of one.
const ACK_TIME: Duration = Duration::from_secs(2);

/// What the fixed part of a tag stands on beside the own address.
const TAG_WORDS: &[u8] = b"Lineway stateless reply";

/// Hexadecimal digits of both parts of a tag, and the mark between them (R107, R109).
pub(super) const TAG_LEN: usize = 32 + 1 + 8;

/// Where a reply of ours goes: the way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back {
    /// The socket that it leaves by.
    pub socket: SocketId,
    /// The transport.
    pub transport: Transport,
    /// Where to: source address, and rport, source or Via port.
    pub to: SocketAddr,
    /// The connection, for TCP.
    pub connection: Option<ConnectionId>,
}

impl Back {
    /// The way back of a request: to its source, at the source's port if rport was asked for or
    /// forced, else at that of the top Via (R8, R9). Over TCP that is for a connection that is
    /// gone, and never the source's port: nobody listens there (RFC 3261 18.2.2).
    pub fn of(draft: &Draft) -> Self {
        let (received, via) = (draft.received, draft.message.via());
        let by_rport =
            received.transport == Transport::Udp && (draft.force_rport || via.rport().is_some());
        let mut to = received.source;
        if !by_rport {
            to.set_port(via.port.unwrap_or(DEFAULT_PORT));
        }
        Self {
            socket: received.socket,
            transport: received.transport,
            to,
            connection: received.connection,
        }
    }
}

/// Replies without state; one for each worker, all with the same tags.
#[derive(Debug)]
pub struct Sl {
    /// The part of a tag that all replies have.
    fixed: [u8; 32],
    last: Option<Instant>,
}

impl Sl {
    /// The tags stand on the first own socket.
    pub fn new(own: &Own) -> Self {
        Self { fixed: fixed(TAG_WORDS, own), last: None }
    }

    /// Writes the reply to a request, and says where it goes; `None` for an ACK, which gets none
    /// (R106), and for a reply. The same request gets the same bytes (R104), and nothing is sent
    /// again (R105).
    pub fn reply(
        &mut self,
        draft: &Draft,
        code: u16,
        reason: &[u8],
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Back> {
        let message = &draft.message;
        if !message.is_request() || message.method() == Method::Ack {
            return None;
        }
        self.last = Some(now);
        write(draft, code, reason, || tag(&self.fixed, b'.', message), &[], out);
        Some(Back::of(draft))
    }

    /// Whether this ACK is that of a reply of ours: it is absorbed (R106). Asked within 2 s after
    /// the last reply; later ones are the script's.
    pub fn absorbs(&self, ack: &Message, now: Instant) -> bool {
        let is_time = self.last.is_some_and(|last| now.duration_since(last) <= ACK_TIME);
        is_time
            && ack.is_request()
            && ack.method() == Method::Ack
            && ack.to().tag().is_some_and(|its| its == tag(&self.fixed, b'.', ack))
    }
}

/// Writes a reply that is made here, with `lines` behind those of the script. `tag` is asked where
/// the reply gets one of ours.
pub(super) fn write(
    draft: &Draft,
    code: u16,
    reason: &[u8],
    tag: impl Fn() -> [u8; TAG_LEN],
    lines: &[Bytes],
    out: &mut Vec<u8>,
) {
    // Writing to a Vec never fails.
    let _ = write!(out, "SIP/2.0 {code} ");
    out.extend(reason.iter().filter(|byte| !matches!(byte, b'\r' | b'\n')));
    out.extend_from_slice(b"\r\n");
    headers(draft, code, tag, out);
    let lines = || draft.reply_lines.iter().chain(lines);
    for line in lines() {
        put(line, out);
    }
    if (300..400).contains(&code) {
        contact(draft, out);
    }
    if code == 420 {
        // RFC 3261 16.3: what was required and is not known.
        for required in draft.message.all(Name::ProxyRequire) {
            out.extend_from_slice(b"Unsupported: ");
            put(required.value, out);
        }
    }
    if !lines().any(|line| is_server(line)) {
        out.extend_from_slice(b"Server: lineway\r\n");
    }
    out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
}

/// The headers of the request that a reply has, in their order: of those that are there once the
/// first, every Via, and Record-Route where a dialog may begin.
fn headers(draft: &Draft, code: u16, tag: impl Fn() -> [u8; TAG_LEN], out: &mut Vec<u8>) {
    let message = &draft.message;
    let top = message.via().line.0;
    let mut seen = [false; 4];
    for header in message.headers() {
        let once = match header.name {
            Name::From => Some(0),
            Name::To => Some(1),
            Name::CallId => Some(2),
            Name::CSeq => Some(3),
            Name::Via => None,
            Name::RecordRoute if (180..300).contains(&code) => None,
            _ => continue,
        };
        if once.is_some_and(|place: usize| std::mem::replace(&mut seen[place], true)) {
            continue;
        }
        if header.name == Name::Via && header.line.start == top {
            top_via(draft, out);
            end_line(out);
        } else {
            put(&message.bytes()[header.line], out);
        }
        if header.name == Name::To && code >= 180 && !message.to().params.has(b"tag") {
            out.truncate(out.len() - 2);
            out.extend_from_slice(b";tag=");
            out.extend_from_slice(&tag());
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// The part that all tags of these sockets have: 32 digits.
pub(super) fn fixed(words: &[u8], own: &Own) -> [u8; 32] {
    let mut md5 = Md5::new();
    md5.update(words);
    if let Some(socket) = own.sockets.first() {
        md5.update(socket.address.to_string());
    }
    let mut fixed = [0; 32];
    let sum: [u8; 16] = md5.finalize().into();
    // Two digits for each of 16 bytes: it fits.
    let _ = sum
        .iter()
        .try_fold(&mut fixed[..], |mut rest, byte| write!(rest, "{byte:02x}").map(|()| rest));
    fixed
}

/// The own To tag for this request (R107, R109).
pub(super) fn tag(fixed: &[u8; 32], mark: u8, message: &Message) -> [u8; TAG_LEN] {
    let via = message.via();
    let mut crc = crc32fast::Hasher::new();
    let port = via.port_text.unwrap_or_default();
    for part in [via.host, port, via.branch().unwrap_or_default(), message.call_id()] {
        crc.update(part);
        // None of them has such a byte, so that no two requests are one text.
        crc.update(b"\n");
    }
    let mut tag = [mark; TAG_LEN];
    tag[..32].copy_from_slice(fixed);
    // Eight digits: it fits.
    let _ = write!(&mut tag[33..], "{:08x}", crc.finalize());
    tag
}

/// The destination set of a redirection (R111): the Request-URI if it was changed, then the further
/// targets, each with its q.
fn contact(draft: &Draft, out: &mut Vec<u8>) {
    let first = draft.uri.iter().map(|uri| (uri, draft.q));
    let targets = first.chain(draft.branches.iter().map(|target| (&target.uri, target.q)));
    let mut between: &[u8] = b"Contact: ";
    for (uri, q) in targets {
        out.extend_from_slice(std::mem::replace(&mut between, b", "));
        out.push(b'<');
        out.extend_from_slice(uri);
        out.push(b'>');
        if let Some(q) = q {
            let _ = write!(out, ";q={}", f32::from(q.min(1_000)) / 1_000.0);
        }
    }
    if between == b", " {
        out.extend_from_slice(b"\r\n");
    }
}

/// A header line with CRLF at its end, whatever was there.
pub(super) fn put(line: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(line);
    end_line(out);
}

fn end_line(out: &mut Vec<u8>) {
    let end = out.iter().rposition(|byte| !byte.is_ascii_whitespace()).map_or(0, |last| last + 1);
    out.truncate(end);
    out.extend_from_slice(b"\r\n");
}

fn is_server(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(b"Server")
}
