//! The far side of a fisher's client, step by step in the hands of the test.

use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::common::peers::{self, careful};
use crate::common::until;

pub(crate) const PROBE: &[u8] = b"FISH?";
pub(crate) const REPLY: &[u8] = b"FISH!";

/// A server whose connections the test takes one by one.
pub(crate) struct Far {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Far {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("an option");
        let address = listener.local_addr().expect("an address");
        Self { listener, address }
    }

    /// A connection that waits, if there is one.
    #[track_caller]
    pub(crate) fn waiting(&self) -> Option<TcpStream> {
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
    pub(crate) fn accept(&self) -> TcpStream {
        let mut stream = None;
        until("a connection", || {
            stream = self.waiting();
            stream.is_some()
        });
        stream.expect("it is there")
    }

    /// The candidates of one line, each of which has sent its probe (C03).
    #[track_caller]
    pub(crate) fn candidates<const N: usize>(&self) -> [TcpStream; N] {
        let mut all = std::array::from_fn(|_| self.accept());
        for candidate in &mut all {
            assert_eq!(peers::read(candidate, 5), PROBE);
        }
        all
    }
}

/// Sends bytes that are taken.
#[track_caller]
pub(crate) fn send(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) {
    stream.write_all(bytes.as_ref()).expect("it takes them");
}
