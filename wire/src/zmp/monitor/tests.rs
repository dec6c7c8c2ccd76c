use super::{ALL_EVENTS, Event, EventKind, EventQueue, HandshakeFault};
use crate::zmp::core::Disconnected;

fn event(kind: EventKind, value: u64) -> Event {
    Event::new(kind, value, "".into(), "".into())
}

#[test]
fn monitor_4_6_the_bits_are_those_of_the_contract() {
    let bits = [
        ("CONNECTED", 0),
        ("CONNECT_DELAYED", 1),
        ("CONNECT_RETRIED", 2),
        ("LISTENING", 3),
        ("BIND_FAILED", 4),
        ("ACCEPTED", 5),
        ("ACCEPT_FAILED", 6),
        ("CLOSED", 7),
        ("CLOSE_FAILED", 8),
        ("DISCONNECTED", 9),
        ("MONITOR_STOPPED", 10),
        ("HANDSHAKE_FAILED_NO_DETAIL", 11),
        ("CONNECTION_READY", 12),
        ("HANDSHAKE_FAILED_PROTOCOL", 13),
        ("HANDSHAKE_FAILED_AUTH", 14),
        ("PEER_WEIGHT_CHANGED", 15),
        ("SEND_FLOW_PAUSED", 16),
        ("SEND_FLOW_RESUMED", 17),
        ("FLOW_STATE_STALE", 18),
    ];
    let ours: Vec<_> = EventKind::ALL.iter().map(|kind| (kind.as_str(), kind.bit())).collect();
    assert_eq!(ours, bits.map(|(name, bit)| (name, 1 << bit)));
    assert_eq!(EventKind::ALL.iter().fold(0, |mask, kind| mask | kind.bit()), ALL_EVENTS);
    assert_eq!(ALL_EVENTS, 0x7FFFF);
}

#[test]
fn monitor_4_6_values_and_flags() {
    assert_eq!(HandshakeFault::Hello.value(), 0x1000_0013);
    assert_eq!(HandshakeFault::Ready.value(), 0x1000_0016);
    let why = [
        Disconnected::Unknown,
        Disconnected::Handshake,
        Disconnected::Transport,
        Disconnected::ContextEnd,
    ];
    assert_eq!(why.map(Disconnected::value), [0, 3, 4, 5]);
    assert_eq!([super::READY_EDGE, super::SEND_FLOW_WRITABLE, super::STALE_EPOCH], [1, 2, 8]);
}

#[test]
fn monitor_4_6_a_full_queue_drops_the_new_event() {
    let mut queue = EventQueue::new(ALL_EVENTS, 2);
    assert!(queue.push(event(EventKind::Accepted, 1)), "the first one wakes");
    assert!(!queue.push(event(EventKind::Accepted, 2)));
    assert!(!queue.push(event(EventKind::Accepted, 3)));
    assert_eq!((queue.len(), queue.dropped()), (2, 1));
    assert_eq!(queue.pop().map(|event| event.value), Some(1));
    assert!(!queue.push(event(EventKind::Accepted, 4)), "one waits already");
    let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|event| event.value).collect();
    assert_eq!(rest, [2, 4]);
    assert!(queue.push(event(EventKind::Accepted, 5)));
}

#[test]
fn monitor_4_6_the_mask_keeps_other_kinds_out() {
    let mut queue = EventQueue::new(EventKind::Connected.bit() | 1 << 31, 8);
    assert!(!queue.push(event(EventKind::Accepted, 1)));
    assert!(queue.push(event(EventKind::Connected, 2)));
    queue.set(EventKind::Accepted.bit(), 8);
    assert!(!queue.wants(EventKind::Connected));
    assert!(!queue.push(event(EventKind::Connected, 3)));
    queue.push(event(EventKind::Accepted, 4));
    let values: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|event| event.value).collect();
    assert_eq!(values, [2, 4], "what waited stays");
    assert_eq!(queue.dropped(), 0, "an event that nobody wants is not lost");
}

#[test]
fn monitor_without_a_mask_takes_nothing() {
    let mut queue = EventQueue::default();
    for &kind in EventKind::ALL {
        assert!(!queue.wants(kind));
        assert!(!queue.push(event(kind, 0)));
    }
    assert!(queue.is_empty());
}
