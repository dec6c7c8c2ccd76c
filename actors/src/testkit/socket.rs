//! A scripted socket: the line holds one side, the test the other.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::{Socket, Transport};

/// What both sides of a scripted socket know.
#[derive(Debug, Default)]
struct Script {
    /// Offered by the peer, not read by the line.
    offered: VecDeque<u8>,
    /// The peer offers zeros for ever.
    endless: bool,
    ended: bool,
    /// Written by the line, not taken by the peer.
    held: Vec<u8>,
    /// How many written bytes the peer holds before the line has to wait.
    window: Option<usize>,
    /// The peer throws away what it gets.
    swallows: bool,
    read_most: Option<usize>,
    write_most: Option<usize>,
    written: u64,
    writes: u64,
    read: u64,
    shut_down: bool,
    dropped: bool,
    /// Reads and writes fail with this.
    reset: Option<io::ErrorKind>,
    /// Writes alone fail with this.
    deaf: Option<io::ErrorKind>,
    unseen: Option<io::ErrorKind>,
    panics: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Script {
    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    fn room(&self) -> usize {
        let window = self.window.map_or(usize::MAX, |w| w.saturating_sub(self.held.len()));
        window.min(self.write_most.unwrap_or(usize::MAX))
    }
}

/// The test's side of a scripted socket.
///
/// It is told what to do next and wakes the line where the kernel would. A clone is another handle
/// of the same side.
#[derive(Clone, Debug)]
pub struct Peer {
    script: Rc<RefCell<Script>>,
}

/// A connected pair: the line's socket, and the peer that the test plays. The peer takes whatever
/// is written until its window is set.
pub fn socket() -> (Socket, Peer) {
    let script: Rc<RefCell<Script>> = Rc::default();
    let peer = Peer { script: Rc::clone(&script) };
    (Socket::Other(Box::new(Scripted { script })), peer)
}

impl Peer {
    fn look(&self) -> Ref<'_, Script> {
        self.script.borrow()
    }

    fn change(&self, change: impl FnOnce(&mut Script)) {
        let mut script: RefMut<'_, Script> = self.script.borrow_mut();
        change(&mut script);
        script.wake();
    }

    /// Sends bytes, which the line finds when it reads.
    pub fn offer(&self, bytes: &[u8]) {
        self.change(|script| script.offered.extend(bytes));
    }

    /// Sends zeros without end, until [`Self::end`] or a reset.
    pub fn offer_endless(&self) {
        self.change(|script| script.endless = true);
    }

    /// Ends what it sends (a half-close), behind the bytes that it offered.
    pub fn end(&self) {
        self.change(|script| {
            script.endless = false;
            script.ended = true;
        });
    }

    /// Resets the connection: what was offered and not read is lost, reads and writes fail.
    pub fn reset(&self) {
        self.change(|script| {
            script.endless = false;
            script.offered.clear();
            script.reset = Some(io::ErrorKind::ConnectionReset);
            script.unseen = script.reset;
        });
    }

    /// Reads no more, so that writes fail, and goes on sending.
    pub fn refuse_writes(&self) {
        self.change(|script| script.deaf = Some(io::ErrorKind::BrokenPipe));
    }

    /// Makes the line panic at its next read.
    pub fn explode(&self) {
        self.change(|script| script.panics = true);
    }

    /// Holds at most so many written bytes until they are taken; the line waits then. 0 = it takes
    /// nothing at all.
    pub fn window(&self, bytes: usize) {
        self.change(|script| script.window = Some(bytes));
    }

    /// Holds whatever is written.
    pub fn open_window(&self) {
        self.change(|script| script.window = None);
    }

    /// Throws away what it gets, counted.
    pub fn swallow(&self) {
        self.change(|script| script.swallows = true);
    }

    /// Each read of the line gives at most so many bytes, at least 1.
    pub fn read_at_most(&self, bytes: usize) {
        self.change(|script| script.read_most = Some(bytes.max(1)));
    }

    /// Each write of the line takes at most so many bytes, at least 1.
    pub fn write_at_most(&self, bytes: usize) {
        self.change(|script| script.write_most = Some(bytes.max(1)));
    }

    /// Takes what the line wrote since the last time; its window is open again.
    pub fn take(&self) -> Vec<u8> {
        let mut taken = Vec::new();
        self.change(|script| taken = std::mem::take(&mut script.held));
        taken
    }

    /// Takes at most so many bytes of what the line wrote.
    pub fn take_some(&self, bytes: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        self.change(|script| {
            let n = bytes.min(script.held.len());
            taken = script.held.drain(..n).collect();
        });
        taken
    }

    /// How many bytes the line wrote and the peer has not taken.
    pub fn held(&self) -> usize {
        self.look().held.len()
    }

    /// How many bytes the line wrote in all.
    pub fn written(&self) -> u64 {
        self.look().written
    }

    /// How many writes of the line took something.
    pub fn writes(&self) -> u64 {
        self.look().writes
    }

    /// How many bytes the line read in all.
    pub fn read(&self) -> u64 {
        self.look().read
    }

    /// How many offered bytes the line has not read.
    pub fn offered(&self) -> usize {
        self.look().offered.len()
    }

    /// True once the line passed an end of input on.
    pub fn is_shut_down(&self) -> bool {
        self.look().shut_down
    }

    /// True once the line let go of the socket.
    pub fn is_dropped(&self) -> bool {
        self.look().dropped
    }
}

/// The line's side.
struct Scripted {
    script: Rc<RefCell<Script>>,
}

impl Transport for Scripted {
    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.script.borrow_mut().unseen.take().map(io::Error::from))
    }
}

impl AsyncRead for Scripted {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut script = self.script.borrow_mut();
        if script.panics {
            drop(script);
            panic!("the test kit makes this line panic");
        }
        if let Some(kind) = script.reset {
            return Poll::Ready(Err(kind.into()));
        }
        let most = buf.remaining().min(script.read_most.unwrap_or(usize::MAX));
        let n = if script.endless {
            buf.put_slice(&vec![0; most]);
            most
        } else {
            let n = most.min(script.offered.len());
            let (front, back) = script.offered.as_slices();
            let from_front = n.min(front.len());
            buf.put_slice(&front[..from_front]);
            buf.put_slice(&back[..n - from_front]);
            script.offered.drain(..n);
            n
        };
        script.read += n as u64;
        if n > 0 || script.ended {
            return Poll::Ready(Ok(()));
        }
        script.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut script = self.script.borrow_mut();
        if let Some(kind) = script.reset.or(script.deaf) {
            return Poll::Ready(Err(kind.into()));
        }
        assert!(!script.shut_down, "a write behind the end of input");
        let room = script.room();
        if room == 0 {
            script.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut taken = 0;
        for buf in bufs {
            let n = buf.len().min(room - taken);
            if !script.swallows {
                script.held.extend_from_slice(&buf[..n]);
            }
            taken += n;
        }
        script.written += taken as u64;
        script.writes += 1;
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut script = self.script.borrow_mut();
        if let Some(kind) = script.reset {
            return Poll::Ready(Err(kind.into()));
        }
        assert!(!script.shut_down, "an end of input was passed on twice");
        script.shut_down = true;
        Poll::Ready(Ok(()))
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.script.borrow_mut().dropped = true;
    }
}
