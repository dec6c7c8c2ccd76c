//! Servers and clients around the program.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use socket2::{Domain, Socket, Type};

use super::{PATIENCE, until};

/// A connection whose reads and writes do not hang a test.
#[track_caller]
pub fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("it listens");
    careful(stream)
}

/// Its reads and writes do not hang a test, and nothing waits to be sent.
#[track_caller]
pub fn careful(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_nodelay(true).expect("no delay");
    stream
}

/// Sends a text and expects the same back.
#[track_caller]
pub fn echoed(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).expect("it takes it");
    assert_eq!(read(stream, text.len()), text.as_bytes());
}

/// Reads this many bytes.
#[track_caller]
pub fn read(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).expect("the bytes come");
    bytes
}

/// Reads to an orderly end.
#[track_caller]
pub fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an orderly end");
    bytes
}

/// Waits for the end, orderly or not; nothing else may come.
#[track_caller]
pub fn ended(stream: &mut TcpStream) {
    match stream.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("{other:?}, expected the end"),
    }
}

/// Ends a connection with a reset.
#[track_caller]
pub fn reset(stream: TcpStream) {
    let lingers_not = Some(std::time::Duration::ZERO);
    socket2::SockRef::from(&stream).set_linger(lingers_not).expect("an option");
}

/// Half-closes the own direction.
#[track_caller]
pub fn finish(stream: &TcpStream) {
    stream.shutdown(Shutdown::Write).expect("it is open");
}

/// A server that serves each connection in a thread, for as long as the test runs.
#[track_caller]
pub fn serve(each: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let each = each.clone();
            std::thread::spawn(move || each(careful(stream)));
        }
    });
    address
}

/// A server for one connection, whose result the test joins.
#[track_caller]
pub fn serve_once<T: Send + 'static>(
    once: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (SocketAddr, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        once(careful(stream))
    });
    (address, server)
}

/// A server that sends back what it gets.
pub fn echo() -> SocketAddr {
    serve(|mut stream| {
        let mut from = stream.try_clone().expect("a descriptor");
        // The client may end as it likes.
        let _ = std::io::copy(&mut from, &mut stream);
    })
}

/// A server whose connections the test takes one by one.
pub struct Far {
    listener: TcpListener,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Far {
    /// Listens on a free port.
    #[track_caller]
    pub fn new() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("a free port"))
    }

    fn on(listener: TcpListener) -> Self {
        listener.set_nonblocking(true).expect("an option");
        let address = listener.local_addr().expect("an address");
        Self { listener, address }
    }

    /// A connection that waits, if there is one.
    #[track_caller]
    pub fn waiting(&self) -> Option<TcpStream> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("an option");
                Some(careful(stream))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// The next connection.
    #[track_caller]
    pub fn accept(&self) -> TcpStream {
        let mut stream = None;
        until("a connection", || {
            stream = self.waiting();
            stream.is_some()
        });
        stream.expect("it is there")
    }
}

/// Sends bytes that are taken.
#[track_caller]
pub fn send(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) {
    stream.write_all(bytes.as_ref()).expect("it takes them");
}

/// A connection from this local address.
#[track_caller]
pub fn connect_from(ip: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let from = SocketAddr::from((ip, 0));
    socket.bind(&from.into()).expect("an address of this machine");
    socket.connect(&to.into()).expect("it listens");
    careful(socket.into())
}

/// Ports of 127.0.0.1 that are bound but not listened on: no other test gets them, a client is
/// refused, and a server that sets `SO_REUSEADDR` can listen there.
pub struct Reserved(Vec<Socket>);

impl Reserved {
    /// Takes one free port.
    pub fn port() -> Self {
        Self(vec![bound(0).expect("a free port")])
    }

    /// Takes free ports that follow each other. They come from below the range that the system
    /// takes ports of clients from: there every other one may be in use.
    pub fn ports(count: u16) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        for _ in 0..1000 {
            let turn = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id());
            let start = u16::try_from(20_000 + turn % 1000 * 10).expect("a port");
            let sockets = (0..count).map(|n| bound(start + n));
            if let Some(sockets) = sockets.collect() {
                return Self(sockets);
            }
        }
        panic!("no free ports");
    }

    /// Listens at the first.
    #[track_caller]
    pub fn listen(mut self) -> Far {
        let socket = self.0.swap_remove(0);
        socket.listen(128).expect("the port is its own");
        Far::on(socket.into())
    }

    /// The address of the first.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port_of(&self.0[0])))
    }
}

fn port_of(socket: &Socket) -> u16 {
    let address = socket.local_addr().expect("an address");
    address.as_socket().expect("an IP address").port()
}

fn bound(port: u16) -> Option<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    socket.bind(&address.into()).ok()?;
    // Only afterwards: two such sockets could have one port.
    socket.set_reuse_address(true).expect("an option");
    Some(socket)
}

/// A listening socket with a full backlog: it answers no further connection.
pub struct Silent {
    listener: Socket,
    waiting: Vec<Socket>,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Silent {
    /// Listens on this address, port 0 for a free one, and fills the backlog.
    pub fn new(at: SocketAddr) -> Self {
        let domain = Domain::for_address(at);
        let listener = Socket::new(domain, Type::STREAM, None).expect("a socket");
        listener.bind(&at.into()).expect("a free port");
        listener.listen(0).expect("it listens");
        let address = listener.local_addr().expect("an address");
        let address = address.as_socket().expect("an IP address");
        let mut waiting = Vec::new();
        // The first that is not connected soon is the first that finds no room.
        loop {
            let socket = Socket::new(domain, Type::STREAM, None).expect("a socket");
            let soon = std::time::Duration::from_millis(200);
            let connected = socket.connect_timeout(&address.into(), soon);
            if connected.is_err() {
                break;
            }
            waiting.push(socket);
            assert!(waiting.len() < 16, "the backlog does not fill up");
        }
        Self { listener, waiting, address }
    }

    /// Makes room: the listening socket, whose first connections are those of the backlog, without
    /// a byte.
    pub fn answers(self) -> TcpListener {
        self.listener.listen(128).expect("it listens");
        // Of accept, too.
        self.listener.set_read_timeout(Some(PATIENCE)).expect("an option");
        drop(self.waiting);
        self.listener.into()
    }
}
