//! The end of an input without agreement on half-closes (M31).

use super::end::{End, half, small};
use crate::mux::{ChildEnd, Cids, LAST_CID, Side};

#[test]
fn mux_m31_a_server_without_agreement_closes_at_once_behind_its_data() {
    for limits in [half(), small()] {
        let mut server = End::server(limits);
        server.hears(&["open 1", "data 1 x"]);
        server.told();
        server.pays(1, b"reply");
        server.ends(1);
        assert_eq!(server.told(), ["finish 1 finished"]);
        assert_eq!(server.sent(), ["data 1 reply", "close 1"]);
        assert_eq!((server.got(1), server.parent.len()), (b"x".to_vec(), 0));
    }
}

#[test]
fn mux_m31_a_client_without_agreement_keeps_the_child_for_the_reply() {
    for limits in [half(), small()] {
        let [mut client, _] = End::both(limits);
        client.pays(1, b"request");
        client.ends(1);
        assert_eq!(client.sent(), ["data 1 request"]);
        client.passes(1_999);
        client.hears(&["data 1 re"]);
        client.passes(1_999);
        client.hears(&["data 1 ply"]);
        client.passes(1_999);
        assert_eq!((client.told(), client.got(1)), (vec!["kept 1".into()], b"reply".to_vec()));
        client.passes(1);
        assert_eq!(client.told(), ["kept-no-more 1", "finish 1 half-close-timeout"]);
        assert_eq!(client.sent(), ["close 1"]);
        assert!(client.parent.is_empty());
    }
}

#[test]
fn mux_m31_a_reset_or_the_end_of_the_reply_ends_a_kept_child_at_once() {
    let [mut client, _] = End::both(small());
    client.ends(1);
    client.gone(1, ChildEnd::Reset);
    assert_eq!(client.told(), ["kept 1", "kept-no-more 1"]);
    assert_eq!(client.sent(), ["close 1"]);
    let [mut client, _] = End::both(small());
    client.ends(1);
    client.hears(&["data 1 reply", "close 1"]);
    assert_eq!(client.told(), ["kept 1", "kept-no-more 1", "finish 1 peer-closed"]);
    assert_eq!((client.got(1), client.parent.next_wake()), (b"reply".to_vec(), None));
    let [mut client, _] = End::both(small());
    client.ends(1);
    client.closes(1, ChildEnd::HalfCloseLimit);
    assert_eq!(client.told(), ["kept 1", "kept-no-more 1", "finish 1 half-close-limit"]);
    assert_eq!(client.sent(), ["close 1"]);
}

#[test]
fn mux_m31_a_reply_is_not_overdue_before_its_request_is_out() {
    let mut client = End::new(Side::Client(Cids::new(LAST_CID)), small());
    client.join();
    client.pays(1, b"request");
    client.ends(1);
    client.passes(2_900);
    client.parent.established();
    assert_eq!(client.sent(), ["open 1", "data 1 request"]);
    client.passes(1_999);
    assert_eq!(client.told(), ["kept 1", "est 1"]);
    client.passes(1);
    assert_eq!(client.sent(), ["close 1"]);

    let [mut client, _] = End::both(small());
    client.hears(&["flow-pause 1"]);
    client.pays(1, b"request");
    client.ends(1);
    client.passes(7_000);
    client.hears(&["flow-resume 1"]);
    assert_eq!(client.sent(), ["data 1 request"]);
    client.passes(1_999);
    client.hears(&["data 1 reply"]);
    assert_eq!(client.got(1), b"reply");
}
