//! Name servers for tests.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

/// A name server that never answers.
pub struct SilentServer(UdpSocket);

impl SilentServer {
    /// Takes a free port.
    pub fn new() -> Self {
        Self(UdpSocket::bind("127.0.0.1:0").expect("a free port"))
    }

    /// Waits for the first question.
    pub fn asked(&self) {
        self.0.set_read_timeout(Some(super::PATIENCE)).expect("a timeout");
        self.0.recv_from(&mut [0; 512]).expect("a question");
    }

    /// Where it does not answer.
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("an address")
    }
}

/// A name server that has these IPv4 addresses for every name.
pub fn name_server(addresses: &[Ipv4Addr]) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let at = socket.local_addr().expect("an address");
    let addresses = addresses.to_vec();
    std::thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let reply = answer(&question[..length], &addresses);
            socket.send_to(&reply, from).expect("it is sent");
        }
    });
    at
}

/// RFC 1035 4: header, the question as it came, an A record for each address.
fn answer(question: &[u8], addresses: &[Ipv4Addr]) -> Vec<u8> {
    let labels = question[12..].iter().position(|byte| *byte == 0).expect("a name");
    let end = 12 + labels + 1 + 4;
    let kind = &question[end - 4..end - 2];
    let records: &[Ipv4Addr] = if kind == [0, 1] { addresses } else { &[] };
    let count = u16::try_from(records.len()).expect("few").to_be_bytes();
    let mut reply = question[..2].to_vec();
    reply.extend([0x81, 0x80, 0, 1, count[0], count[1], 0, 0, 0, 0]);
    reply.extend(&question[12..end]);
    for address in records {
        // The name of the question, A, IN, a minute.
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        reply.extend(address.octets());
    }
    reply
}
