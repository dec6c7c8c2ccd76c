//! Accepting the connections of the admin interface.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::Context;
use super::connection::{self, Table};
use super::guard::Arrival;
use super::reserve::{Lent, Reserve};
use super::routes::Site;

/// The most connections at a time.
const MAX_CONNECTIONS: usize = 64;
/// Connections that are served although the process has no descriptor left.
const RESERVED_CONNECTIONS: usize = 4;
/// Descriptors that writing the metrics may need: the process's own figures are read from `/proc`.
const RESERVED_FOR_METRICS: usize = 4;
/// How long accepting rests after an error, doubled while it goes on.
const REST: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_secs(1);
/// At most one log line about errors of accept in this time.
const LOG_EVERY: Duration = Duration::from_secs(30);
/// How long answers may take to end after the shutdown was asked for.
const SHUTDOWN_TIME: Duration = Duration::from_secs(1);

/// A bound admin interface.
pub struct Server {
    listener: StdListener,
    address: SocketAddr,
    connections: Reserve,
    metrics: Reserve,
}

impl Server {
    /// Takes the address, and the descriptors that keep it answering when there are none left.
    ///
    /// # Errors
    /// The address is taken, is not of this machine, needs a right; or there are no descriptors.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = StdListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let connections = Reserve::new(RESERVED_CONNECTIONS)?;
        let metrics = Reserve::new(RESERVED_FOR_METRICS)?;
        Ok(Self { listener, address, connections, metrics })
    }

    /// The address that it listens on; for port 0 with the port that the system chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` is done, and then at most a second longer.
    ///
    /// Runs in a tokio `LocalSet`.
    ///
    /// # Errors
    /// The socket could not be given to the runtime.
    pub async fn serve(
        &self,
        context: Context,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let listener = TcpListener::from_std(self.listener.try_clone()?)?;
        let mut accepting = Accepting {
            address: self.address,
            site: Rc::new(Site { context, spare: self.metrics.clone() }),
            table: Table::default(),
            tasks: JoinSet::new(),
            reserve: self.connections.clone(),
            rest: Rest::default(),
        };
        let mut shutdown = pin!(shutdown);
        let mut refill = interval(Duration::from_millis(250));
        refill.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let short = self.connections.is_short() || self.metrics.is_short();
            let resting = accepting.rest.until;
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(done) = accepting.tasks.join_next() => log_panic(done),
                _ = refill.tick(), if short => {
                    self.connections.refill();
                    self.metrics.refill();
                }
                () = sleep_until(resting.unwrap_or_else(Instant::now)), if resting.is_some() => {
                    accepting.rest.until = None;
                }
                accepted = listener.accept(), if resting.is_none() => match accepted {
                    Ok((stream, _)) => {
                        accepting.rest.over();
                        accepting.make_room().await;
                        accepting.start(stream, None);
                    }
                    Err(error) => accepting.failed(&listener, &error),
                },
            }
        }
        drop(listener);
        accepting.table.finish();
        let all = async { while accepting.tasks.join_next().await.is_some() {} };
        // Whoever takes longer is dropped with the set of tasks.
        let _ = timeout(SHUTDOWN_TIME, all).await;
        Ok(())
    }
}

struct Accepting {
    address: SocketAddr,
    site: Rc<Site>,
    table: Table,
    tasks: JoinSet<()>,
    reserve: Reserve,
    rest: Rest,
}

impl Accepting {
    /// Ends connections until there is room for one more.
    async fn make_room(&mut self) {
        while self.table.len() >= MAX_CONNECTIONS {
            self.table.evict(false);
            yield_now().await;
        }
    }

    fn start(&mut self, stream: TcpStream, lent: Option<Lent>) {
        let Ok(local) = stream.local_addr() else {
            return;
        };
        // An answer is written at once and whole; a socket that refuses is only slower.
        let _ = stream.set_nodelay(true);
        let arrival = Arrival { listening: self.address, local: local.ip() };
        let entry = self.table.enter(lent.is_some());
        let site = Rc::clone(&self.site);
        self.tasks.spawn_local(connection::serve(stream, arrival, site, entry, lent));
    }

    /// A connection could not be accepted: with a descriptor of the reserve it may go (M-11).
    fn failed(&mut self, listener: &TcpListener, error: &io::Error) {
        (self.site.context.accept_error)(error);
        self.rest.log(error);
        let errno = Errno::from_io_error(error);
        if matches!(errno, Some(Errno::MFILE | Errno::NFILE)) {
            match self.reserve.lend() {
                Some(lent) => {
                    if let Some(Ok((stream, _))) = listener.accept().now_or_never() {
                        self.rest.over();
                        self.start(stream, Some(lent));
                        return;
                    }
                }
                None => self.table.evict(true),
            }
        }
        self.rest.begin();
    }
}

/// When accepting rests, so that an error that stays costs nothing.
#[derive(Default)]
struct Rest {
    until: Option<Instant>,
    last: Duration,
    logged: Option<Instant>,
}

impl Rest {
    fn begin(&mut self) {
        self.last = (self.last * 2).clamp(REST, LONGEST_REST);
        self.until = Some(Instant::now() + self.last);
    }

    fn over(&mut self) {
        self.last = Duration::ZERO;
    }

    fn log(&mut self, error: &io::Error) {
        let now = Instant::now();
        if self.logged.is_none_or(|logged| now - logged >= LOG_EVERY) {
            self.logged = Some(now);
            tracing::warn!(%error, "the admin interface could not accept a connection");
        }
    }
}

fn log_panic(done: Result<(), tokio::task::JoinError>) {
    if let Err(error) = done
        && error.is_panic()
    {
        tracing::error!(%error, "an admin connection panicked");
    }
}
