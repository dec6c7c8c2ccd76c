//! Bytes of a recorded pair of another implementation: three lines with two candidates each.

use crate::common::peers::{connect, finish, read, read_all};
use crate::far::{Far, send};
use crate::{client_to, nothing_left};

macro_rules! recorded {
    ($($connection:literal)*) => {
        [$((
            include_bytes!(concat!("../golden/fisher_basic.", $connection, ".c2s.bin")),
            include_bytes!(concat!("../golden/fisher_basic.", $connection, ".s2c.bin")),
        )),*]
    };
}

/// What the client sent and what the server sent, for each connection in the order of opening.
pub(crate) const CONNECTIONS: [(&[u8], &[u8]); 6] = recorded!("c0" "c1" "c2" "c3" "c4" "c5");

/// The application's bytes of a connection.
fn behind_the_marker(bytes: &[u8]) -> &[u8] {
    &bytes[5..]
}

#[test]
fn the_client_sends_what_a_recorded_client_sent_byte_for_byte() {
    let far = Far::new();
    let service = client_to(far.address, 2);
    for (line, pair) in CONNECTIONS.chunks_exact(2).enumerate() {
        let [(upstream, downstream), (other_upstream, other_downstream)] = [pair[0], pair[1]];
        let request = behind_the_marker(upstream);
        let reply = behind_the_marker(downstream);
        let mut client = connect(service.at("in"));
        // The second client sends before there is a choice, the first one after it.
        if line == 1 {
            send(&mut client, request);
        }
        let (mut winner, mut loser) = (far.accept(), far.accept());
        assert_eq!(read(&mut winner, 5), &upstream[..5]);
        send(&mut winner, &downstream[..5]);
        assert_eq!(read_all(&mut loser), other_upstream);
        // As in the recording, where this answer comes after the end.
        send(&mut loser, other_downstream);
        drop(loser);
        if line != 1 {
            send(&mut client, request);
        }
        assert_eq!(read(&mut winner, request.len()), request);
        send(&mut winner, reply);
        if line == 1 {
            drop(winner);
            assert_eq!(read_all(&mut client), reply);
        } else {
            finish(&client);
            assert_eq!(read_all(&mut winner), b"");
            drop(winner);
            assert_eq!(read_all(&mut client), reply);
        }
        drop(client);
        nothing_left(&service);
    }
}
