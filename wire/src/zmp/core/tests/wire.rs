//! Two sockets and the wire between them.

use super::*;

/// A connection of both sockets: what one gives out, the other one receives.
pub(super) struct Pair {
    pub(super) left: Core,
    pub(super) right: Core,
    pub(super) now: Instant,
    lanes: Vec<(ConnectionId, ConnectionId)>,
}

impl Pair {
    /// The left one dials.
    pub(super) fn new(left: SocketKind, right: SocketKind) -> Self {
        let left = CoreOptions::new(left, rid("L"));
        let right = CoreOptions::new(right, rid("R"));
        Self::with(left, right)
    }

    pub(super) fn with(left: CoreOptions, right: CoreOptions) -> Self {
        let lanes = left.kind.lanes_with(right.kind);
        let (mut pair, now) = (Vec::new(), Instant::now());
        let (kinds, ids) =
            ((left.kind, right.kind), (left.routing_id.clone(), right.routing_id.clone()));
        let (mut left, mut right) = (Core::new(left), Core::new(right));
        let endpoint = left.add_endpoint("tcp://right".into(), None);
        for number in 0..lanes {
            let lane = if number == 0 { Lane::Application } else { Lane::Completion };
            let attaching = |peer: SocketKind, id: &RoutingId, origin| Attaching {
                connection: ConnectionId(u64::from(number) + 1),
                peer,
                routing_id: id.to_bytes(),
                peer_max_message_size: 0,
                lane,
                origin,
                local: "local".into(),
                remote: "remote".into(),
            };
            left.attach(now, attaching(kinds.1, &ids.1, Origin::Dialled(endpoint)))
                .expect("attached");
            right
                .attach(now, attaching(kinds.0, &ids.0, Origin::Accepted("tcp://right".into())))
                .expect("attached");
            let connection = ConnectionId(u64::from(number) + 1);
            pair.push((connection, connection));
        }
        Self { left, right, now, lanes: pair }
    }

    /// Carries everything both ways until nothing moves.
    pub(super) fn run(&mut self) {
        loop {
            let mut moved = false;
            for &(left, right) in &self.lanes {
                moved |= carry(self.now, (&mut self.left, left), (&mut self.right, right));
                moved |= carry(self.now, (&mut self.right, right), (&mut self.left, left));
            }
            if !moved {
                return;
            }
        }
    }
}

/// One turn of the sender and one of the receiver. True when something was carried.
fn carry(now: Instant, from: (&mut Core, ConnectionId), to: (&mut Core, ConnectionId)) -> bool {
    let mut turn = Turn { room: 1 << 16, ..Turn::default() };
    from.0.turn(now, from.1, &mut turn).expect("no fault of the peer");
    let written = turn.outgoing.iter().map(charge).sum();
    let received: Vec<_> = turn.outgoing.drain(..).map(arriving).collect();
    let moved = !received.is_empty();
    let mut other = Turn { received, ..Turn::default() };
    to.0.turn(now, to.1, &mut other).expect("no fault of the peer");
    let mut turn = Turn { written, ..Turn::default() };
    from.0.turn(now, from.1, &mut turn).expect("no fault of the peer");
    moved
}

fn arriving(outgoing: Outgoing) -> Inbound {
    match outgoing {
        Outgoing::Record(kind, record) => Inbound::Record(kind, record),
        Outgoing::Weight(weight) => Inbound::Weight(weight),
        Outgoing::FlowState { state, epoch } => Inbound::FlowState { state, epoch },
    }
}
