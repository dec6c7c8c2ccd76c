//! Reads and writes of a connection.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use lineway_wire::sip::own::Transport;
use lineway_wire::sip::stream::{Framed, StreamError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Connection, Held, OWING, Stage};
use crate::net::Socket;
use crate::sip::ring::{Arrival, RoomWait};
use crate::sip::transport::link::Standing;

/// What one read takes at most, in bytes.
const READ: usize = 16 << 10;

/// Pieces of one gathered write.
const GATHERED: usize = 64;

/// A message that is less than this part of the buffer that it came in is copied out of it, so that
/// one that waits keeps no more than this many times its size.
const SHARE: usize = 4;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        buffer: vec![0; READ].into_boxed_slice(),
        batches: Vec::new(),
    });
}

/// What a connection needs only while it has its turn.
pub(super) struct Scratch {
    buffer: Box<[u8]>,
    /// What came for each owner.
    batches: Vec<Vec<Arrival>>,
}

impl Scratch {
    /// Reads into the buffer of the thread and has what came looked at; 0 bytes are the end.
    pub(super) fn read(
        socket: &mut Socket,
        cx: &mut Context<'_>,
        look: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(&mut scratch.buffer);
            ready!(Pin::new(socket).poll_read(cx, &mut buffer))?;
            look(buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        })
    }
}

impl Connection {
    /// One gathered write. Says how the link stands, and whether something was written.
    pub(super) fn write(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> io::Result<(Standing, bool)> {
        let written = mem::take(&mut self.written);
        let standing = self.link.take(written, &mut self.writing, GATHERED, cx);
        let Some(socket) = self.socket.as_mut().filter(|_| !self.writing.is_empty()) else {
            return Ok((standing, false));
        };
        let mut slices = [IoSlice::new(&[]); GATHERED];
        let mut filled = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.writing) {
            *slice = IoSlice::new(&piece.bytes);
            filled += 1;
        }
        let polled = match &slices[..filled] {
            [slice] => Pin::new(socket).poll_write(cx, slice),
            slices => Pin::new(socket).poll_write_vectored(cx, slices),
        };
        match polled {
            Poll::Pending => {
                self.stalled.get_or_insert(now);
                Ok((standing, false))
            }
            Poll::Ready(Ok(0)) => Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(Ok(bytes)) => {
                self.stalled = None;
                self.active = now;
                self.written = bytes;
                self.advance(bytes);
                Ok((standing, true))
            }
            Poll::Ready(Err(error)) => Err(error),
        }
    }

    /// So many bytes were written.
    fn advance(&mut self, mut bytes: usize) {
        let mut sent = 0;
        while let Some(piece) = self.writing.front_mut() {
            if bytes < piece.bytes.len() {
                piece.bytes.advance(bytes);
                break;
            }
            bytes -= piece.bytes.len();
            sent += u64::from(piece.is_message);
            self.writing.pop_front();
        }
        if self.writing.is_empty() {
            // An idle connection keeps no memory of a rush.
            self.writing = VecDeque::new();
        }
        self.site.counters.sent(Transport::Tcp, sent);
    }

    /// Reads once and takes out what is whole. True when there may be more.
    pub(super) fn read(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let Some(socket) = self.socket.as_mut() else {
            return false;
        };
        let input = &mut self.input;
        match Scratch::read(socket, cx, |read| input.extend_from_slice(read)) {
            Poll::Pending => return false,
            Poll::Ready(Err(error)) => self.broke(&error),
            Poll::Ready(Ok(0)) => {
                self.input = BytesMut::new();
                // Nobody hears a request on it, but replies to what came may.
                self.site.connections.retire(&self.link);
                self.stage = Stage::Owing { until: now + OWING };
            }
            Poll::Ready(Ok(_)) => {
                if let Err(error) = SCRATCH.with_borrow_mut(|scratch| self.frame(now, scratch)) {
                    self.fault(&error);
                }
            }
        }
        true
    }

    /// Cuts what was read into messages and hands them over.
    fn frame(&mut self, now: Instant, scratch: &mut Scratch) -> Result<(), StreamError> {
        let batches = &mut scratch.batches;
        // A panic may have left something.
        batches.iter_mut().for_each(Vec::clear);
        batches.resize_with(usize::from(self.site.rings.workers()), Vec::new);
        let received = self.received();
        let buffer = self.input.capacity();
        let mut count = 0;
        let result = loop {
            match self.framer.next(&mut self.input) {
                Ok(Framed::Message(bytes)) => {
                    let owner = self.site.owner(&bytes);
                    self.requests += u64::from(is_request(&bytes));
                    count += 1;
                    let small = bytes.len() < buffer / SHARE;
                    let bytes = if small { Bytes::copy_from_slice(&bytes) } else { bytes };
                    batches[usize::from(owner)].push(Arrival { bytes, received, at: now });
                }
                Ok(Framed::Ping) => {
                    self.active = now;
                    self.site.counters.keepalives.inc();
                    self.link.pong();
                }
                Ok(Framed::NeedsMore) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if self.input.is_empty() {
            // An empty buffer would keep the memory of the last one.
            self.input = BytesMut::new();
        } else if self.input.len() < buffer / SHARE {
            self.input = BytesMut::from(&self.input[..]);
        }
        if count > 0 {
            self.active = now;
            self.site.counters.received(Transport::Tcp, count);
        }
        for (owner, batch) in (0..).zip(batches).filter(|(_, batch)| !batch.is_empty()) {
            self.site.rings.of(owner).push(batch);
            if !batch.is_empty() {
                let (batch, wait) = (mem::take(batch), RoomWait::default());
                self.held.push(Held { owner, batch, wait });
            }
        }
        result
    }
}

fn is_request(message: &[u8]) -> bool {
    !message.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"SIP/2.0 "))
}
