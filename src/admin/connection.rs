//! One connection of the admin interface, from accept to close, and the times it may take.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::guard::Arrival;
use super::reserve::Lent;
use super::routes::{self, Site};

/// How long the head of a request may take, from accept or from its first byte.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// How long a connection may wait for its next request.
const WAITING_TIME: Duration = Duration::from_secs(15);
/// How long an answer may make no progress.
const STALL_TIME: Duration = Duration::from_secs(15);
/// How long and how much is read after an answer that ended the connection. To close with bytes
/// unread is a reset, which can take the answer away from a client that is still sending.
const LINGER_TIME: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 4 * 1024 * 1024;
/// The longest head of a request.
const MAX_HEAD: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Accepted, and no request came yet.
    Fresh,
    /// Between two requests.
    Waiting,
    /// Some bytes of a request came.
    Reading,
    /// A request is being answered.
    Answering,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// End after the request that is being answered.
    Finish,
    /// End at once.
    Evict,
}

/// What others know of a connection, and may ask of it.
pub(super) struct Slot {
    phase: Cell<Phase>,
    /// When the phase began, or made progress.
    since: Cell<Instant>,
    order: Cell<Option<Order>>,
    waker: Cell<Option<Waker>>,
    lent: bool,
}

impl Slot {
    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(Instant::now());
    }

    fn progress(&self, read: bool) {
        match self.phase.get() {
            Phase::Waiting if read => self.enter(Phase::Reading),
            Phase::Waiting | Phase::Answering => self.since.set(Instant::now()),
            // Slow bytes do not make the time for a head longer.
            Phase::Fresh | Phase::Reading => {}
        }
    }

    /// The answer is over, as far as it is up to us.
    pub(super) fn answered(&self) {
        self.enter(Phase::Waiting);
    }

    fn deadline(&self) -> Instant {
        let time = match self.phase.get() {
            Phase::Fresh | Phase::Reading => HEAD_TIME,
            Phase::Waiting => WAITING_TIME,
            Phase::Answering => STALL_TIME,
        };
        self.since.get() + time
    }

    fn give(&self, order: Order) {
        self.order.set(Some(order));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Polls for what was ordered; whoever asks is woken by the next order.
    fn order(&self, cx: &Context<'_>) -> Option<Order> {
        self.waker.set(Some(cx.waker().clone()));
        self.order.get()
    }
}

/// The open connections.
#[derive(Clone, Default)]
pub(super) struct Table {
    slots: Rc<RefCell<BTreeMap<u64, Rc<Slot>>>>,
    next: Rc<Cell<u64>>,
}

impl Table {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.borrow().len()
    }

    /// Enters a connection; `lent` if its descriptor is one of the reserve.
    pub(super) fn enter(&self, lent: bool) -> Entry {
        let number = self.next.get();
        self.next.set(number + 1);
        let slot = Rc::new(Slot {
            phase: Cell::new(Phase::Fresh),
            since: Cell::new(Instant::now()),
            order: Cell::new(None),
            waker: Cell::new(None),
            lent,
        });
        self.slots.borrow_mut().insert(number, Rc::clone(&slot));
        Entry { table: self.clone(), number, slot }
    }

    /// Ends the connection that does nothing for the longest time; if all are being answered, the
    /// one that makes no progress for the longest time. With `lent` only those on the reserve.
    pub(super) fn evict(&self, lent: bool) {
        let slots = self.slots.borrow();
        let candidates =
            slots.values().filter(|slot| slot.order.get().is_none() && (!lent || slot.lent));
        let oldest =
            candidates.min_by_key(|slot| (slot.phase.get() == Phase::Answering, slot.since.get()));
        if let Some(slot) = oldest {
            slot.give(Order::Evict);
        }
    }

    /// Lets every connection end: those that are being answered, after it.
    pub(super) fn finish(&self) {
        for slot in self.slots.borrow().values() {
            slot.give(Order::Finish);
        }
    }
}

/// A connection's place in the table, which it leaves when this is dropped.
pub(super) struct Entry {
    table: Table,
    number: u64,
    slot: Rc<Slot>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.table.slots.borrow_mut().remove(&self.number);
    }
}

/// Serves a connection to its end.
pub(super) async fn serve(
    stream: TcpStream,
    arrival: Arrival,
    site: Rc<Site>,
    entry: Entry,
    lent: Option<Lent>,
) {
    let slot = &entry.slot;
    let service = service_fn(|request| {
        slot.enter(Phase::Answering);
        let (site, slot) = (Rc::clone(&site), Rc::clone(slot));
        async move {
            let response = routes::answer(request, &site, arrival).await;
            Ok::<_, std::convert::Infallible>(response.map(|answer| answer.on(slot)))
        }
    });
    let io = TokioIo::new(Io { stream, slot: Rc::clone(slot) });
    let mut http = http1::Builder::new()
        .half_close(true)
        .keep_alive(lent.is_none())
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(io, service);
    let mut sleep = pin!(sleep_until(slot.deadline()));
    let whole = poll_fn(|cx| {
        match slot.order(cx) {
            Some(Order::Evict) => return Poll::Ready(false),
            Some(Order::Finish) if slot.phase.get() != Phase::Answering => {
                return Poll::Ready(false);
            }
            Some(Order::Finish) => Pin::new(&mut http).graceful_shutdown(),
            None => {}
        }
        if let Poll::Ready(result) = Pin::new(&mut http).poll(cx) {
            if let Err(error) = result {
                tracing::debug!(%error, "admin connection failed");
            }
            return Poll::Ready(true);
        }
        let deadline = slot.deadline();
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        sleep.as_mut().poll(cx).map(|()| false)
    })
    .await;
    let mut stream = http.into_parts().io.into_inner().stream;
    if whole {
        slot.enter(Phase::Waiting);
        let mut linger = pin!(timeout(LINGER_TIME, linger(&mut stream)));
        poll_fn(|cx| match slot.order(cx) {
            Some(_) => Poll::Ready(()),
            None => linger.as_mut().poll(cx).map(drop),
        })
        .await;
    }
    if let Some(lent) = lent {
        lent.bring_back(stream);
    }
}

/// Reads what a client still sends, up to a limit.
async fn linger(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    let mut left = LINGER_BYTES;
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        left = left.saturating_sub(read);
        if left == 0 {
            return;
        }
    }
}

/// The socket, which notes in the slot that bytes moved.
struct Io {
    stream: TcpStream,
    slot: Rc<Slot>,
}

impl Io {
    fn wrote(&self, result: io::Result<usize>) -> Poll<io::Result<usize>> {
        if let Ok(1..) = result {
            self.slot.progress(false);
        }
        Poll::Ready(result)
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.slot.progress(true);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices));
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
