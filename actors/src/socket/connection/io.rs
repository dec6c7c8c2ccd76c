//! Reads and writes of a connection, and the memory that all connections of a thread share for
//! them.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, BytesMut};
use lineway_wire::zmp::core::Turn;
use lineway_wire::zmp::encode::Writer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use super::{End, PeerConnection, State};
use crate::socket::Stream;

/// What one read takes at most, in bytes.
const READ: usize = 64 << 10;

/// From here on the rest of a part is read to where it stays, in bytes.
const DIRECT: usize = 16 << 10;

/// What a read takes behind a large part, in bytes: one more of that kind is then read to where it
/// stays but for this beginning, and one of 64 KiB in two reads.
const BEHIND_LARGE: usize = (24 << 10) + BEYOND;

/// More than the headers of a part, in bytes.
const BEYOND: usize = 256;

/// Slices of one gathered write.
const GATHERED: usize = 64;

/// Writers that are kept for the next connection that has something to write.
const WRITERS: usize = 8;

/// What a connection needs only while it has its turn, so that ten thousand silent ones need none
/// of it.
pub(super) struct Scratch {
    buffer: Box<[u8]>,
    pub(super) turn: Turn,
    /// What this turn has brought the socket.
    pub(super) handled: usize,
    writers: Vec<Writer>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        buffer: vec![0; READ].into_boxed_slice(),
        turn: Turn::default(),
        handled: 0,
        writers: Vec::new(),
    });
}

impl Scratch {
    /// Has the thread's scratch for one turn.
    pub(super) fn with<R>(turn: impl FnOnce(&mut Self) -> R) -> R {
        SCRATCH.with_borrow_mut(|scratch| {
            // A panic may have left something.
            scratch.turn.received.clear();
            scratch.turn.outgoing.clear();
            turn(scratch)
        })
    }

    /// Gives a connection a writer for this turn.
    pub(super) fn lend(&mut self, writer: &mut Option<Writer>) {
        if writer.is_none() {
            *writer = self.writers.pop();
        }
    }

    /// Takes the writer back if nothing is in it.
    pub(super) fn take_back(&mut self, writer: &mut Option<Writer>) {
        if writer.as_ref().is_some_and(Writer::is_empty) {
            let writer = writer.take();
            if self.writers.len() < WRITERS {
                self.writers.extend(writer);
            }
        }
    }

    /// Reads and forgets; 0 is the end of input.
    pub(super) fn throw_away(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(&mut self.buffer);
        ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl PeerConnection {
    /// Reads once, if the connection may. True when there may be more.
    pub(super) fn read(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) -> bool {
        if !self.may_read(cx) {
            return false;
        }
        let read = self.poll_read(cx, scratch);
        if read.is_ready() || !self.reader.is_finishing() {
            self.times.look = None;
        }
        match read {
            Poll::Ready(Ok(0)) => {
                let end = self.wire.end(&self.input).map_or_else(End::Fault, |()| End::Ended);
                self.end = Some(end);
                false
            }
            Poll::Ready(Ok(_)) => true,
            Poll::Ready(Err(error)) => {
                self.broke(&error);
                self.end = Some(End::Broken);
                false
            }
            Poll::Pending => {
                if self.reader.is_finishing() {
                    self.times.look_soon();
                }
                false
            }
        }
    }

    fn may_read(&mut self, cx: &Context<'_>) -> bool {
        match self.state {
            State::Shaking => self.end.is_none(),
            State::Open if self.end.is_none() => {
                let held = self.open + self.input.len() as u64;
                let outstanding = (self.given - self.taken.min(self.given)) + held;
                let may = !self.blocked && self.reader.may_read(outstanding, cx.waker());
                if !may {
                    // Nobody reads, so nobody would see a reset.
                    self.times.look_soon();
                }
                may
            }
            _ => false,
        }
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut Scratch,
    ) -> Poll<io::Result<usize>> {
        let wanted = self.wire.wanted();
        if wanted >= DIRECT || self.input.len() >= DIRECT {
            self.behind_large = true;
            // No byte more than the part: what follows would keep its memory.
            self.input.reserve(wanted);
            let mut rest = (&mut self.input).limit(wanted);
            return poll_read_buf(Pin::new(&mut self.stream), cx, &mut rest);
        }
        // Beyond its share it reads its own record, and no byte more.
        if self.behind_large && self.input.is_empty() && !self.reader.is_finishing() {
            return self.read_behind_large(cx);
        }
        let most = if self.reader.is_finishing() { wanted.max(1) } else { READ };
        let mut buffer = ReadBuf::new(&mut scratch.buffer[..most]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        let read = buffer.filled();
        if !read.is_empty() {
            let mut input = BytesMut::with_capacity(self.input.len() + read.len());
            input.extend_from_slice(&self.input);
            input.extend_from_slice(read);
            self.input = input;
        }
        Poll::Ready(Ok(read.len()))
    }

    /// Reads the beginning of a large part to where the rest of it has room.
    fn read_behind_large(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut input = BytesMut::with_capacity(READ + BEYOND);
        let mut first = (&mut input).limit(BEHIND_LARGE);
        let read = ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut first))?;
        self.behind_large = false;
        // Less than that is no large part that is on its way, and keeps no more than it needs.
        self.input = if read == BEHIND_LARGE { input } else { BytesMut::from(&input[..]) };
        Poll::Ready(Ok(read))
    }

    /// Writes until nothing is left or nothing is taken. True when something was written.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(writer) = &mut self.writer else {
            return false;
        };
        let mut wrote = false;
        while !writer.is_empty() {
            match poll_write(&mut self.stream, cx, writer) {
                Poll::Ready(Ok(bytes)) => {
                    self.written += writer.advance(bytes);
                    wrote = true;
                }
                Poll::Ready(Err(error)) => {
                    self.broke(&error);
                    return true;
                }
                Poll::Pending => break,
            }
        }
        wrote
    }

    /// The transport broke: nothing more can be written.
    pub(super) fn broke(&mut self, error: &io::Error) {
        tracing::debug!(connection = self.id.0, remote = %self.remote, %error, "connection lost");
        self.lost += self.writer.take().map_or(0, |writer| writer.records()) as u64;
        self.deaf = true;
    }
}

fn poll_write(
    stream: &mut Stream,
    cx: &mut Context<'_>,
    writer: &Writer,
) -> Poll<io::Result<usize>> {
    let mut slices = [IoSlice::new(&[]); GATHERED];
    let filled = writer.slices(&mut slices);
    let stream = Pin::new(stream);
    let written = match &slices[..filled] {
        [slice] => ready!(stream.poll_write(cx, slice))?,
        slices => ready!(stream.poll_write_vectored(cx, slices))?,
    };
    if written == 0 {
        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
    }
    Poll::Ready(Ok(written))
}

impl Stream {
    /// Ends the own side, in order.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self).poll_shutdown(cx)
    }
}
