//! The two ends of a line: where bytes come from and go to.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use lineway_wire::line::FinishReason;
use tokio::io::AsyncWrite;
use tokio_util::io::poll_read_buf;

use super::dialing::Dialing;
use super::echo::Echo;
use super::pool::Pool;
use super::tester::{TesterClient, TesterServer};
use crate::fisher::{Fishing, Race};
use crate::mux::{Mux, Stream};
use crate::net::Socket;
use lineway_wire::queue::{ByteQueue, GATHERED};

/// One end of a line.
pub enum End {
    /// A connection.
    Socket(Socket),
    /// A connection that is being made.
    Dialing(Box<Dialing>),
    /// Sends back what it gets.
    Echo(Box<Echo>),
    /// Sends the tester's request and checks the response.
    TesterClient(Box<TesterClient>),
    /// Checks the tester's request and sends the response.
    TesterServer(Box<TesterServer>),
    /// Not begun: a stage says when (`Init`).
    Waiting,
    /// The near end of a candidate.
    Fishing(Box<Fishing>),
    /// The far end of a main line whose candidates race.
    Race(Box<Race>),
    /// A child's place on a parent.
    Stream(Box<Stream>),
    /// The end of a parent where its children stand.
    Mux(Box<Mux>),
}

/// Why an end gives or takes no more.
#[derive(Debug)]
pub enum EndError {
    /// The transport broke, a reset for instance.
    Broken(io::Error),
    /// The end itself ends the line.
    Finish(FinishReason),
}

impl From<io::Error> for EndError {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl End {
    /// True when the end stands: its transport is up, if it has one.
    pub const fn is_up(&self) -> bool {
        match self {
            Self::Dialing(_) | Self::Waiting | Self::Race(_) => false,
            Self::Stream(stream) => stream.is_up(),
            _ => true,
        }
    }

    /// True when the end takes bytes. A parent takes those of a child before its Open is out.
    pub const fn takes(&self) -> bool {
        self.is_up() || matches!(self, Self::Stream(_))
    }

    /// True where bytes wait behind the end as well, within bounds of its own.
    pub const fn has_queue(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Bytes that the end took and its transport has not.
    pub fn unsent(&self) -> usize {
        match self {
            Self::Stream(stream) => stream.unsent(),
            _ => 0,
        }
    }

    /// What an end does before bytes move.
    pub fn begin_turn(&mut self, cx: &Context<'_>, now: Instant) {
        if let Self::Mux(mux) = self {
            mux.begin_turn(cx, now);
        }
    }

    /// When the end wants a turn though nothing wakes it.
    pub fn next_wake(&self) -> Option<Instant> {
        match self {
            Self::Dialing(dialing) => Some(dialing.next_wake()),
            Self::Race(race) => race.next_wake(),
            Self::Mux(mux) => mux.next_wake(),
            _ => None,
        }
    }

    /// True while what comes from the other end is not to be read, whatever the marks say (M24).
    pub const fn stops_reading(&self) -> bool {
        match self {
            Self::Mux(mux) => mux.stops_reading(),
            _ => false,
        }
    }

    /// What the end gives is taken no more at the moment, or it is again (M21, M23).
    pub fn pause(&mut self, paused: bool) {
        if let Self::Stream(stream) = self {
            stream.pause(paused);
        }
    }

    /// The other end of the line broke.
    pub fn other_end_broke(&mut self) {
        match self {
            Self::Stream(stream) => stream.other_end_broke(),
            Self::Mux(mux) => mux.other_end_broke(),
            _ => {}
        }
    }

    /// The far side is up (`Est`).
    pub fn established(&mut self) {
        match self {
            Self::TesterClient(tester) => tester.established(),
            Self::Fishing(fishing) => fishing.established(),
            Self::Mux(mux) => mux.established(),
            _ => {}
        }
    }

    /// Reads once into the end of `queue`. `Ready(0)` is the end of input.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut ByteQueue,
        pool: &Pool,
    ) -> Poll<Result<usize, EndError>> {
        match self {
            Self::Socket(socket) => {
                let buffer = queue.tail(pool);
                let read = match socket {
                    Socket::Tcp(socket) => poll_read_buf(Pin::new(socket), cx, buffer),
                    Socket::Other(socket) => poll_read_buf(Pin::new(socket), cx, buffer),
                };
                queue.filled(if let Poll::Ready(Ok(n)) = read { n } else { 0 }, pool);
                read.map_err(EndError::Broken)
            }
            Self::Echo(echo) => echo.poll_read(cx, queue).map(Ok),
            Self::TesterClient(tester) => tester.poll_read(cx, queue, pool).map(Ok),
            Self::TesterServer(tester) => tester.poll_read(cx, queue, pool).map(Ok),
            Self::Fishing(fishing) => fishing.poll_read(queue, pool).map(Ok),
            Self::Stream(stream) => stream.poll_read(queue).map(Ok),
            Self::Mux(mux) => mux.poll_read(queue).map(Ok),
            Self::Dialing(_) | Self::Waiting | Self::Race(_) => Poll::Pending,
        }
    }

    /// Writes once from the front of `queue`, gathered. Gives how many bytes left.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut ByteQueue,
        pool: &Pool,
    ) -> Poll<Result<usize, EndError>> {
        match self {
            Self::Socket(socket) => {
                let written = ready!(write_some(Pin::new(socket), cx, queue))?;
                queue.advance(written, pool);
                Poll::Ready(Ok(written))
            }
            Self::Echo(echo) => echo.poll_write(cx, queue).map(Ok),
            Self::TesterClient(tester) => Poll::Ready(tester.write(queue, pool)),
            Self::TesterServer(tester) => Poll::Ready(tester.write(queue, pool)),
            Self::Fishing(fishing) => fishing.poll_write(queue, pool),
            Self::Stream(stream) => stream.poll_write(cx, queue),
            Self::Mux(mux) => mux.poll_write(queue).map(Ok),
            Self::Dialing(_) | Self::Waiting | Self::Race(_) => Poll::Pending,
        }
    }

    /// Passes an end of input on (L07).
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Echo(echo) => {
                echo.end();
                Poll::Ready(Ok(()))
            }
            Self::TesterServer(tester) => {
                tester.end();
                Poll::Ready(Ok(()))
            }
            Self::TesterClient(tester) => {
                tester.end();
                Poll::Ready(Ok(()))
            }
            Self::Fishing(fishing) => fishing.poll_end().map(Ok),
            Self::Stream(stream) => {
                stream.end();
                Poll::Ready(Ok(()))
            }
            Self::Mux(mux) => {
                mux.end();
                Poll::Ready(Ok(()))
            }
            Self::Dialing(_) | Self::Waiting | Self::Race(_) => Poll::Pending,
        }
    }

    /// The connection of a parent has options of its own (M26, T06). Without them it works, and
    /// notices less.
    pub fn become_parent(&self) {
        if let Self::Socket(socket) = self
            && let Err(error) = socket.becomes_parent()
        {
            tracing::debug!(%error, "a parent's socket has not all of its options");
        }
    }

    /// True for the end of a parent, which ends as a whole: a mux can not carry half of one.
    pub const fn is_mux(&self) -> bool {
        matches!(self, Self::Mux(_))
    }

    /// True for the end of a parent that takes nothing yet: its actor does not know it.
    pub const fn is_homeless_mux(&self) -> bool {
        matches!(self, Self::Mux(mux) if mux.is_homeless())
    }

    /// Says at once that nothing follows. A connection that is dropped with unread bytes sends a
    /// reset alone, and its peer would not know that it ended in order.
    pub fn end_now(&mut self) {
        if self.is_socket() {
            let _ = self.poll_end(&mut Context::from_waker(Waker::noop()));
        }
    }

    /// An error that the transport has seen though nobody reads or writes.
    pub fn take_error(&self) -> Option<io::Error> {
        match self {
            Self::Socket(socket) => socket.take_error(),
            _ => None,
        }
    }

    /// What the transport has measured as the time to its peer and back.
    pub fn round_trip(&self) -> Option<Duration> {
        match self {
            Self::Socket(socket) => socket.round_trip(),
            _ => None,
        }
    }

    /// True where closing passes an end of input on by itself: the kernel's TCP.
    pub const fn ends_by_close(&self) -> bool {
        matches!(self, Self::Socket(Socket::Tcp(_)))
    }

    /// True for a connection, whose peer may reset it unseen while nobody reads.
    pub const fn is_socket(&self) -> bool {
        matches!(self, Self::Socket(_))
    }
}

fn write_some(
    socket: Pin<&mut Socket>,
    cx: &mut Context<'_>,
    queue: &ByteQueue,
) -> Poll<io::Result<usize>> {
    let written = if queue.is_single() {
        ready!(socket.poll_write(cx, queue.head()))?
    } else {
        let mut slices = [io::IoSlice::new(&[]); GATHERED];
        let filled = queue.slices(&mut slices);
        ready!(socket.poll_write_vectored(cx, &slices[..filled]))?
    };
    if written == 0 && !queue.is_empty() {
        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
    }
    Poll::Ready(Ok(written))
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Socket(_) => "Socket",
            Self::Dialing(_) => "Dialing",
            Self::Echo(_) => "Echo",
            Self::TesterClient(_) => "TesterClient",
            Self::TesterServer(_) => "TesterServer",
            Self::Waiting => "Waiting",
            Self::Fishing(_) => "Fishing",
            Self::Race(_) => "Race",
            Self::Stream(_) => "Stream",
            Self::Mux(_) => "Mux",
        })
    }
}
