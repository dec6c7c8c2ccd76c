//! Datagram sockets of a node: one for each worker on one address.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

use super::{BindError, Hold, local};

/// Wanted buffers of a socket, in bytes: what comes while a worker is busy waits there. The kernel
/// gives what its limits allow.
const BUFFER: usize = 4 << 20;

/// The datagram sockets of one address.
#[derive(Debug)]
pub struct BoundUdp {
    /// The address; with the port that the system chose where 0 was asked for.
    pub address: SocketAddr,
    /// One for each worker, non-blocking. All that comes from one source address comes to the same.
    pub sockets: Vec<UdpSocket>,
    /// What keeps a second copy away, for as long as it lives.
    pub hold: Hold,
}

/// Binds an address for datagrams, for so many workers. An IPv6 address takes no IPv4 traffic.
///
/// As with [`listen`](super::listen), the address is bound once without `SO_REUSEPORT` first, and
/// its name is held, so that no second copy of the program takes half of the traffic.
///
/// # Errors
/// The address is taken, not of this machine, or needs a right.
pub fn bind_udp(address: SocketAddr, workers: usize) -> Result<BoundUdp, BindError> {
    let fail = |cause| BindError { over: "UDP", address, cause };
    let alone = open(address, false).map_err(fail)?;
    let address = local(&alone).map_err(fail)?;
    let hold = Hold::take("udp", address).map_err(fail)?;
    drop(alone);
    share(address, workers, hold)
}

/// Binds an address beside sockets of this process that overlap with it and are about to close: a
/// reload that moves a node between one address and all of them.
///
/// # Errors
/// As [`bind_udp`].
pub fn bind_udp_beside(address: SocketAddr, workers: usize) -> Result<BoundUdp, BindError> {
    let hold =
        Hold::take("udp", address).map_err(|cause| BindError { over: "UDP", address, cause })?;
    share(address, workers, hold)
}

fn share(address: SocketAddr, workers: usize, hold: Hold) -> Result<BoundUdp, BindError> {
    let sockets = (0..workers).map(|_| open(address, true).map(Into::into));
    let sockets = sockets.collect::<io::Result<_>>();
    let sockets = sockets.map_err(|cause| BindError { over: "UDP", address, cause })?;
    Ok(BoundUdp { address, sockets, hold })
}

fn open(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let kind = Type::DGRAM.nonblocking();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::UDP))?;
    socket.set_reuse_port(shared)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Smaller buffers than wanted are no reason not to serve.
    let _ = socket.set_recv_buffer_size(BUFFER);
    let _ = socket.set_send_buffer_size(BUFFER);
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::io::ErrorKind;
    use std::net::{SocketAddr, UdpSocket};

    use super::{bind_udp, bind_udp_beside};

    fn any() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[test]
    fn workers_share_a_datagram_address_and_each_source_has_one_of_them() {
        let bound = bind_udp(any(), 2).unwrap();
        assert_ne!(bound.address.port(), 0);
        let sources: Vec<_> = (0..32).map(|_| UdpSocket::bind(any()).unwrap()).collect();
        for _ in 0..3 {
            for source in &sources {
                source.send_to(b"x", bound.address).unwrap();
            }
        }
        let mut seen = Vec::new();
        for socket in &bound.sockets {
            // Over loopback a datagram is there when `send_to` returns.
            let from: HashSet<_> = std::iter::from_fn(|| socket.recv_from(&mut [0; 8]).ok())
                .map(|(_, from)| from)
                .collect();
            assert!(!from.is_empty());
            seen.push(from);
        }
        assert!(seen[0].is_disjoint(&seen[1]));
        assert_eq!(seen[0].len() + seen[1].len(), sources.len());
    }

    #[test]
    fn a_second_copy_does_not_share_a_datagram_address() {
        let bound = bind_udp(any(), 2).unwrap();
        let error = bind_udp(bound.address, 1).unwrap_err();
        assert_eq!(error.cause.kind(), ErrorKind::AddrInUse);
        let error = bind_udp_beside(bound.address, 1).unwrap_err();
        assert_eq!(error.cause.kind(), ErrorKind::AddrInUse, "its name is held");
        let address = bound.address;
        drop(bound);
        bind_udp(address, 1).unwrap();
    }

    #[test]
    fn tcp_and_udp_have_an_address_each() {
        let udp = bind_udp(any(), 1).unwrap();
        let tcp = super::Hold::take("tcp", udp.address);
        assert!(tcp.is_ok());
    }
}
