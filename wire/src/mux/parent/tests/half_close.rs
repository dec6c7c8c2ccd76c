//! Half-closes by agreement (M30).

use super::end::{End, half, small, texts};
use crate::mux::{ChildEnd, ChildKey};

/// Both sides with an open child 1 and the agreement.
fn agreed() -> [End; 2] {
    let [mut client, server] = End::both(half());
    client.hears(&["flow-resume 1 half"]);
    assert_eq!(client.counts().agreed, 1);
    assert!(client.told().is_empty());
    [client, server]
}

#[test]
fn mux_m30_an_open_that_asks_is_answered_before_any_other_frame_of_its_cid() {
    let mut client = End::client(half());
    client.join();
    assert_eq!(client.sent(), ["open 1 half"]);
    let mut server = End::server(half());
    server.hears(&["open 1 half", "data 1 x"]);
    server.pays(1, b"y");
    server.pauses(1);
    server.hears(&["open 2 half"]);
    let written = texts(&server.writes());
    let answers = ["flow-resume 1 half", "flow-pause 1", "flow-resume 2 half", "data 1 y"];
    assert_eq!(written, answers);
    assert_eq!(server.counts().agreed, 1, "for the whole parent");
}

#[test]
fn mux_m30_only_exactly_1_asks_and_only_if_configured() {
    for pad in [0, 2, 3, 0x81, 0xff] {
        let mut server = End::server(half());
        server.reads(&[0, 0, 0, pad, 0, 0, 0, 1]);
        assert!(server.sent().is_empty(), "{pad}");
        let [mut client, _] = End::both(half());
        client.ends(1);
        client.reads(&[0, 0, 3, pad, 0, 0, 0, 1]);
        assert!(client.sent().is_empty(), "{pad}");
    }
    let mut server = End::server(small());
    server.hears(&["open 1 half"]);
    assert!(server.sent().is_empty());
    let [mut client, _] = End::both(small());
    client.ends(1);
    client.hears(&["flow-resume 1 half"]);
    assert!(client.sent().is_empty());
}

#[test]
fn mux_m30_the_answer_ends_no_pause() {
    let [mut client, _] = End::both(half());
    client.hears(&["flow-pause 1", "flow-resume 1 half"]);
    client.pays(1, b"x");
    assert!(client.sent().is_empty());
    assert_eq!(client.told(), ["pause 1 peer"]);
    client.hears(&["flow-resume 1"]);
    assert_eq!(client.told(), ["resume 1 peer"]);
}

#[test]
fn mux_m30_an_end_that_was_kept_becomes_fin_with_the_answer() {
    let [mut client, _] = End::both(half());
    client.pays(1, b"request");
    client.ends(1);
    assert_eq!(client.sent(), ["data 1 request"]);
    assert_eq!(client.told(), ["kept 1"]);
    client.hears(&["flow-resume 1 half"]);
    assert_eq!(client.sent(), ["fin 1"]);
    assert_eq!((client.told(), client.parent.next_wake()), (vec!["kept-no-more 1".into()], None));
}

#[test]
fn mux_m30_one_answer_agrees_for_the_whole_parent() {
    let [mut client, _] = agreed();
    client.join();
    client.pays(2, b"request");
    client.ends(2);
    assert_eq!(client.sent(), ["open 2 half", "data 2 request", "fin 2"]);
    assert_eq!(client.told(), ["est 2"]);
}

#[test]
fn mux_m30_an_end_that_waits_for_its_open_waits_for_the_answer_of_another_transport() {
    let [mut client, _] = agreed();
    client.join();
    client.ends(2);
    assert_eq!(client.loses_transport(), 1);
    client.parent.again();
    client.look();
    assert_eq!(client.told(), ["finish 1 parent-lost", "kept 2"]);
    client.parent.established();
    assert_eq!(client.sent(), ["open 1 half"]);
    client.hears(&["flow-resume 1 half"]);
    assert_eq!(client.sent(), ["fin 1"]);
    assert_eq!(client.told(), ["est 2", "kept-no-more 2"]);
}

#[test]
fn mux_m30_fin_stands_behind_data_and_waits_while_its_direction_is_paused() {
    for mut end in agreed() {
        end.hears(&["flow-pause 1"]);
        end.pays(1, b"abc");
        end.ends(1);
        end.pauses(1);
        assert_eq!(end.sent(), ["flow-pause 1"], "the other direction goes on");
        end.hears(&["flow-resume 1"]);
        assert_eq!(end.sent(), ["data 1 abc", "fin 1"]);
    }
    for mut end in agreed() {
        end.ends(1);
        end.hears(&["flow-pause 1"]);
        assert!(end.sent().is_empty(), "though nothing waits but the end");
        end.hears(&["flow-resume 1"]);
        assert_eq!(end.sent(), ["fin 1"]);
        end.resumes(1);
        end.pauses(1);
        end.hears(&["data 1 reply"]);
        assert_eq!(end.sent(), ["flow-pause 1"]);
        end.resumes(1);
        assert_eq!((end.sent(), end.got(1)), (vec!["flow-resume 1".into()], b"reply".to_vec()));
    }
}

#[test]
fn mux_m30_what_a_line_sends_behind_its_own_end_is_lost() {
    for mut end in agreed() {
        end.ends(1);
        end.pays(1, b"late");
        assert_eq!(end.sent(), ["fin 1"]);
        end.pays(1, b"later");
        assert!(end.sent().is_empty());
        assert_eq!(end.counts().lost_bytes, 9);
        assert_eq!(end.lines[&ChildKey(1)].out(), (0, 0), "its credit is back");
    }
}

#[test]
fn mux_m30_after_two_fins_the_child_is_over_without_close() {
    for mut end in agreed() {
        end.ends(1);
        assert_eq!(end.sent(), ["fin 1"]);
        end.hears(&["data 1 reply", "fin 1"]);
        assert_eq!(
            (end.told(), end.got(1)),
            (vec!["input-ended 1".into(), "over 1".into()], b"reply".to_vec())
        );
        assert!(end.parent.is_empty());
        end.gone(1, ChildEnd::Finished);
        assert!(end.sent().is_empty());
        assert_eq!(end.counts().ended[ChildEnd::Finished as usize], 1);
    }
    for mut end in agreed() {
        end.hears(&["fin 1"]);
        assert_eq!(end.told(), ["input-ended 1"]);
        end.pays(1, b"reply");
        end.ends(1);
        end.gone(1, ChildEnd::Finished);
        assert_eq!(end.sent(), ["data 1 reply", "fin 1"]);
        assert!(end.parent.is_empty());
    }
}

#[test]
fn mux_m30_after_two_fins_a_paused_child_keeps_its_queue() {
    for lost in [false, true] {
        for mut end in agreed() {
            end.pauses(1);
            end.ends(1);
            end.sent();
            end.hears(&["data 1 reply", "fin 1"]);
            assert!(end.told().is_empty());
            if lost {
                end.loses_transport();
            }
            end.resumes(1);
            assert_eq!(
                (end.told(), end.got(1)),
                (vec!["input-ended 1".into(), "over 1".into()], b"reply".into())
            );
            assert!(end.parent.is_empty());
        }
    }
}

#[test]
fn mux_m30_data_after_fin_and_fin_without_agreement_are_dropped_and_counted() {
    for mut end in agreed() {
        end.counts();
        end.hears(&["fin 1", "data 1 x", "fin 1"]);
        assert_eq!((end.got(1), end.dropped()), (vec![], vec![("after-fin", 2)]));
    }
    for limits in [half(), small()] {
        let mut server = End::server(limits);
        server.hears(&["open 1", "fin 1", "data 1 x"]);
        assert_eq!((server.got(1), server.dropped()), (b"x".to_vec(), vec![("fin-unagreed", 1)]));
        let [mut client, _] = End::both(limits);
        client.counts();
        client.hears(&["fin 1", "data 1 x"]);
        assert_eq!((client.got(1), client.dropped()), (b"x".to_vec(), vec![("fin-unagreed", 1)]));
    }
}

#[test]
fn mux_m30_a_reset_is_always_close() {
    for mut end in agreed() {
        end.ends(1);
        assert_eq!(end.sent(), ["fin 1"]);
        end.gone(1, ChildEnd::Reset);
        assert_eq!(end.sent(), ["close 1"]);
    }
    for mut end in agreed() {
        end.hears(&["fin 1"]);
        end.gone(1, ChildEnd::Reset);
        assert_eq!(end.sent(), ["close 1"]);
    }
    for mut end in agreed() {
        end.hears(&["fin 1"]);
        end.ends(1);
        end.gone(1, ChildEnd::Reset);
        assert_eq!(end.sent(), ["close 1"], "in place of a Fin that was not out");
    }
    for mut end in agreed() {
        end.hears(&["fin 1", "close 1"]);
        assert_eq!(end.told(), ["input-ended 1", "finish 1 peer-closed"]);
    }
}

#[test]
fn mux_m30_case_t05_a_fin_that_can_not_go_out_for_too_long_becomes_close() {
    for mut end in agreed() {
        end.hears(&["fin 1", "flow-pause 1"]);
        end.ends(1);
        end.gone(1, ChildEnd::Finished);
        assert!(end.sent().is_empty());
        end.passes(60_000);
        assert_eq!(end.sent(), ["close 1"]);
        assert!(end.parent.is_empty() && end.parent.next_wake().is_none());
    }
}
