//! The peers of a load: echo, sink, source.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Bytes of the one buffer that all connections of a thread read into.
const SCRATCH: usize = 256 << 10;
/// Pause of the accept loop when no descriptor is left.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(10);

/// What the peer does with its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// Sends back what it gets
    Echo,
    /// Reads and forgets
    Sink,
    /// Sends as fast as it is read, until the other side closes
    Source,
}

/// A listening peer; it ends when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Server {
    /// Listens on `address` and serves each connection as `peer` says, on `threads` threads that share the listener.
    ///
    /// # Errors
    /// The address is wrong or taken, or a thread can not start.
    pub fn start(address: &str, peer: Peer, threads: u16) -> io::Result<Self> {
        let listener = StdListener::bind(address)?;
        listener.set_nonblocking(true)?;
        // The backlog of the standard library is 128, and a burst of connects overflows it.
        rustix::net::listen(&listener, 4096)?;
        let (stop, stopped) = watch::channel(false);
        let mut server = Self { address: listener.local_addr()?, stop, threads: Vec::new() };
        for _ in 0..threads {
            let listener = listener.try_clone()?;
            let mut stopped = stopped.clone();
            let runtime = super::client::runtime()?;
            let serve = move || {
                let local = tokio::task::LocalSet::new();
                local.block_on(&runtime, async {
                    tokio::select! {
                        _ = stopped.changed() => {}
                        () = accept(listener, peer) => {}
                    }
                });
            };
            let thread = thread::Builder::new().name("load-peer".into()).spawn(serve)?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Returns at SIGINT or SIGTERM.
pub(super) fn wait_for_signal() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    super::client::runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            result = tokio::signal::ctrl_c() => result,
            _ = terminate.recv() => Ok(()),
        }
    })
}

async fn accept(listener: StdListener, peer: Peer) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("can not listen: {error}");
            return;
        }
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::task::spawn_local(async move {
                    let _ = stream.set_nodelay(true);
                    // How a connection ends is what the load looks at.
                    let _ = match peer {
                        Peer::Echo => drain(stream, true).await,
                        Peer::Sink => drain(stream, false).await,
                        Peer::Source => source(stream).await,
                    };
                });
            }
            Err(_) => tokio::time::sleep(NO_DESCRIPTOR_PAUSE).await,
        }
    }
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; SCRATCH]);
}

/// Reads until the other side closes, and sends back what it read if `echo`. An idle connection holds no buffer.
async fn drain(mut stream: TcpStream, echo: bool) -> io::Result<()> {
    let mut rest = Vec::new();
    loop {
        stream.readable().await?;
        // One busy connection leaves room for the others of its thread.
        tokio::task::coop::consume_budget().await;
        let step: io::Result<usize> = BUFFER.with_borrow_mut(|buffer| {
            let read = stream.try_read(buffer)?;
            if echo && read > 0 {
                let written = match stream.try_write(&buffer[..read]) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
                    result => result?,
                };
                rest.extend_from_slice(&buffer[written..read]);
            }
            Ok(read)
        });
        match step {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
            Err(e) => return Err(e),
        }
        if !rest.is_empty() {
            stream.write_all(&rest).await?;
            rest.clear();
        }
    }
}

/// Sends until the other side closes.
async fn source(stream: TcpStream) -> io::Result<()> {
    let (mut read, mut write) = stream.into_split();
    let send = async {
        let payload = vec![0; SCRATCH];
        loop {
            write.write_all(&payload).await?;
        }
    };
    let mut ignored = tokio::io::sink();
    tokio::select! {
        result = send => result,
        result = tokio::io::copy(&mut read, &mut ignored) => result.map(drop),
    }
}
