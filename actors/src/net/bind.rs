//! Listening sockets of a node (T01, T03): one for each worker on one address, and no second copy
//! of the program beside them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::ListenOptions;
use super::options::{apply, keep_alive};

mod udp;

pub use udp::{BoundUdp, bind_udp, bind_udp_beside};

/// An address can not be listened on (T03).
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} over {over}: {}", explain(.cause))]
pub struct BindError {
    /// `TCP` or `UDP`.
    pub over: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// What the system said.
    #[source]
    pub cause: io::Error,
}

fn explain(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::AddrInUse => "the address is in use by another program".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "permission denied; a port below 1024 needs the right CAP_NET_BIND_SERVICE".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "the address is not one of this machine's addresses".to_owned()
        }
        _ => cause.to_string(),
    }
}

/// The listening sockets of one address.
#[derive(Debug)]
pub struct Bound {
    /// The address; with the port that the system chose where 0 was asked for.
    pub address: SocketAddr,
    /// One for each worker.
    pub sockets: Vec<TcpListener>,
    /// What keeps a second copy away, for as long as it lives.
    pub hold: Hold,
}

/// The name of a listening address, held so that no second copy of the program takes it as well.
#[derive(Debug)]
pub struct Hold {
    _name: UnixListener,
}

impl Hold {
    fn take(kind: &str, address: SocketAddr) -> io::Result<Self> {
        let name = UnixAddr::from_abstract_name(format!("lineway/{kind}/{address}"))?;
        Ok(Self { _name: UnixListener::bind_addr(&name)? })
    }
}

/// Binds an address for so many workers.
///
/// `SO_REUSEPORT` would let a second copy of the program bind as well and take half of the
/// traffic, so the address is bound once without it first, and its name is held (T01).
///
/// # Errors
/// The address is taken, not of this machine, or needs a right.
pub fn listen(
    address: SocketAddr,
    options: &ListenOptions,
    workers: usize,
) -> Result<Bound, BindError> {
    let fail = |cause| BindError { over: "TCP", address, cause };
    let alone = open(address, options, false).map_err(fail)?;
    let address = local(&alone).map_err(fail)?;
    let hold = Hold::take("tcp", address).map_err(fail)?;
    drop(alone);
    share(address, options, workers, hold)
}

/// Binds an address beside sockets of this process that overlap with it and are about to close:
/// a reload that moves a node between one address and all of them. Whether another program has
/// it can not be asked then.
///
/// # Errors
/// As [`listen`].
pub fn listen_beside(
    address: SocketAddr,
    options: &ListenOptions,
    workers: usize,
) -> Result<Bound, BindError> {
    let hold =
        Hold::take("tcp", address).map_err(|cause| BindError { over: "TCP", address, cause })?;
    share(address, options, workers, hold)
}

/// Binds an address for one socket that listens alone: nobody shares it, in this process or another.
///
/// # Errors
/// As [`listen`].
pub fn listen_alone(
    address: SocketAddr,
    options: &ListenOptions,
) -> Result<TcpListener, BindError> {
    let fail = |cause| BindError { over: "TCP", address, cause };
    let socket = open(address, options, false).map_err(fail)?;
    socket.listen(backlog(options)).map_err(fail)?;
    Ok(socket.into())
}

fn share(
    address: SocketAddr,
    options: &ListenOptions,
    workers: usize,
    hold: Hold,
) -> Result<Bound, BindError> {
    let fail = |cause| BindError { over: "TCP", address, cause };
    let mut sockets = Vec::with_capacity(workers);
    for _ in 0..workers {
        let socket = open(address, options, true).map_err(fail)?;
        socket.listen(backlog(options)).map_err(fail)?;
        sockets.push(socket.into());
    }
    Ok(Bound { address, sockets, hold })
}

/// Takes over a socket that listens already (socket activation), duplicated to each worker (T01).
///
/// # Errors
/// The socket can not be duplicated, or its name is held by another copy.
pub fn inherit(
    socket: &TcpListener,
    options: &ListenOptions,
    workers: usize,
) -> Result<Bound, BindError> {
    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
    let address =
        socket.local_addr().map_err(|cause| BindError { over: "TCP", address: unknown, cause })?;
    let fail = |cause| BindError { over: "TCP", address, cause };
    socket.set_nonblocking(true).map_err(fail)?;
    reapply(socket, options).map_err(fail)?;
    let sockets = (0..workers).map(|_| socket.try_clone()).collect::<Result<_, _>>();
    let hold = Hold::take("tcp", address).map_err(fail)?;
    Ok(Bound { address, sockets: sockets.map_err(fail)?, hold })
}

/// Gives a listening socket the options of a changed node.
///
/// # Errors
/// An option is not to be had: no such interface, no right.
pub fn reapply(socket: &impl AsFd, options: &ListenOptions) -> io::Result<()> {
    let socket = SockRef::from(socket);
    apply(&socket, &options.socket)?;
    keep_alive(&socket)?;
    socket.listen(backlog(options))
}

fn open(address: SocketAddr, options: &ListenOptions, shared: bool) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    apply(&socket, &options.socket)?;
    keep_alive(&socket)?;
    socket.bind(&address.into())?;
    if !shared {
        // Two sockets with SO_REUSEADDR may share an address until one of them listens.
        socket.listen(1)?;
    }
    Ok(socket)
}

fn local(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| Errno::AFNOSUPPORT.into())
}

fn backlog(options: &ListenOptions) -> i32 {
    i32::try_from(options.backlog).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::{ListenOptions, inherit, listen};
    use crate::settings::{NodeSettings, TcpListenerSettings};
    use crate::testkit::settings::listener;

    fn options() -> ListenOptions {
        let NodeSettings::TcpListener(settings) = listener(SocketAddr::from(([127, 0, 0, 1], 0)))
        else {
            unreachable!("it is a listener")
        };
        ListenOptions::from(&settings as &TcpListenerSettings)
    }

    fn any() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[test]
    fn tcp_t01_port_0_gives_one_port_that_serves_all_workers() {
        let bound = listen(any(), &options(), 3).unwrap();
        assert_ne!(bound.address.port(), 0);
        for socket in &bound.sockets {
            assert_eq!(socket.local_addr().unwrap(), bound.address);
        }
        TcpStream::connect(bound.address).unwrap();
    }

    #[test]
    fn tcp_t01_a_second_copy_does_not_share_the_address() {
        let bound = listen(any(), &options(), 2).unwrap();
        let error = listen(bound.address, &options(), 2).unwrap_err();
        assert_eq!(error.cause.kind(), ErrorKind::AddrInUse);
        drop(bound.sockets);
        let held = listen(bound.address, &options(), 2).unwrap_err();
        assert_eq!(held.cause.kind(), ErrorKind::AddrInUse, "the name is held beyond the sockets");
        drop(bound.hold);
        listen(bound.address, &options(), 2).unwrap();
    }

    #[test]
    fn tcp_t03_a_taken_address_is_named_with_its_cause() {
        let taken = TcpListener::bind(any()).unwrap();
        let address = taken.local_addr().unwrap();
        let error = listen(address, &options(), 1).unwrap_err().to_string();
        assert!(error.contains(&address.to_string()) && error.contains("in use"), "{error}");
    }

    #[test]
    fn tcp_t01_an_inherited_socket_is_duplicated_to_each_worker() {
        let socket = TcpListener::bind(any()).unwrap();
        let bound = inherit(&socket, &options(), 2).unwrap();
        assert_eq!(bound.sockets.len(), 2);
        assert_eq!(bound.address, socket.local_addr().unwrap());
        let _client = TcpStream::connect(bound.address).unwrap();
        assert!(bound.sockets.iter().any(|socket| socket.accept().is_ok()));
    }
}
