use super::{
    Bytes, DEALER_SOCKET, ECHO_SERVER, FISHER_CLIENT, FISHER_SERVER, Fault, Link, MUX_CLIENT,
    MUX_SERVER, Next, ROUTER_SOCKET, Shape, TCP_CONNECTOR, TCP_LISTENER, TESTER_CLIENT,
    TESTER_SERVER, Traffic, check,
};

const MIDDLE: Shape = Shape::inside("Middle", Bytes::Any);
const SIP_END: Shape =
    Shape { name: "SipEnd", takes: &[Traffic::Sip], gives: None, bytes: Bytes::Own, alone: false };

fn link<'a>(name: &'a str, shape: &'a Shape, next: &'a str) -> Link<'a> {
    let next = if next.is_empty() { Next::Nobody } else { Next::To(next) };
    Link { name: Some(name), shape: Some(shape), next }
}

fn faults(links: &[Link<'_>]) -> Vec<Fault> {
    check(links)
}

#[test]
fn a_chain_may_be_entered_by_several_listeners() {
    let links = [
        link("a", &TCP_LISTENER, "mid"),
        link("b", &TESTER_CLIENT, "mid"),
        link("mid", &MIDDLE, "out"),
        link("out", &TCP_CONNECTOR, ""),
    ];
    assert_eq!(faults(&links), []);
}

#[test]
fn case_t14_an_end_can_not_be_in_the_middle() {
    let links = [
        link("in", &TCP_LISTENER, "mid"),
        link("mid", &TCP_CONNECTOR, "out"),
        link("out", &ECHO_SERVER, ""),
    ];
    assert_eq!(faults(&links), [Fault::NextOfEnd { node: 1 }]);
}

#[test]
fn case_t14_a_start_can_not_follow() {
    let links = [
        link("in", &TCP_LISTENER, "other"),
        link("other", &TESTER_CLIENT, "out"),
        link("out", &ECHO_SERVER, ""),
    ];
    assert_eq!(faults(&links), [Fault::NextIsStart { node: 0, next: 1 }]);
}

#[test]
fn case_t14_a_loop_is_told_once_where_it_closes() {
    let links = [
        link("in", &TCP_LISTENER, "a"),
        link("a", &MIDDLE, "b"),
        link("b", &MIDDLE, "c"),
        link("c", &MIDDLE, "a"),
    ];
    assert_eq!(faults(&links), [Fault::Loop { node: 3, nodes: vec![1, 2, 3] }]);
    let itself = [link("in", &TCP_LISTENER, "in")];
    assert_eq!(faults(&itself), [Fault::Loop { node: 0, nodes: vec![0] }]);
}

#[test]
fn two_loops_are_two_faults() {
    let links = [
        link("a", &MIDDLE, "b"),
        link("b", &MIDDLE, "a"),
        link("c", &MIDDLE, "c"),
        link("d", &TCP_LISTENER, "a"),
    ];
    assert_eq!(
        faults(&links),
        [Fault::Loop { node: 1, nodes: vec![0, 1] }, Fault::Loop { node: 2, nodes: vec![2] }]
    );
}

#[test]
fn a_node_that_no_chain_leads_to_is_a_fault() {
    let links = [
        link("in", &TCP_LISTENER, "out"),
        link("out", &ECHO_SERVER, ""),
        link("lost", &MIDDLE, "far"),
        link("far", &ECHO_SERVER, ""),
    ];
    assert_eq!(faults(&links), [Fault::Unreached { node: 2 }]);
}

#[test]
fn a_misspelt_next_makes_no_node_unreached() {
    let links = [link("in", &TCP_LISTENER, "uot"), link("out", &ECHO_SERVER, "")];
    assert_eq!(faults(&links), [Fault::UnknownNext { node: 0, near: Some(1) }]);
    let links = [link("in", &TCP_LISTENER, "nope"), link("out", &ECHO_SERVER, "")];
    assert_eq!(faults(&links), [Fault::UnknownNext { node: 0, near: None }]);
    let links = [link("in", &TCP_LISTENER, ""), link("out", &ECHO_SERVER, "")];
    assert_eq!(faults(&links), [Fault::MissingNext { node: 0 }]);
}

#[test]
fn kinds_of_traffic_must_fit() {
    let links = [link("in", &TCP_LISTENER, "sip"), link("sip", &SIP_END, "")];
    assert_eq!(faults(&links), [Fault::Misfit { node: 0, next: 1 }]);
}

#[test]
fn nodes_of_an_unknown_type_bring_no_further_faults() {
    let links = [
        Link { name: Some("in"), shape: None, next: Next::To("out") },
        link("out", &ECHO_SERVER, ""),
        Link { name: None, shape: None, next: Next::Unreadable },
        link("lost", &ECHO_SERVER, ""),
    ];
    assert_eq!(faults(&links), []);
}

#[test]
fn a_long_chain_is_checked_without_recursion() {
    let names: Vec<String> = (0..20_000).map(|n| format!("n{n}")).collect();
    let mut links: Vec<_> =
        names.windows(2).map(|pair| link(&pair[0], &MIDDLE, &pair[1])).collect();
    links[0].shape = Some(&TCP_LISTENER);
    links.truncate(500);
    links.push(link(&names[500], &ECHO_SERVER, ""));
    assert_eq!(faults(&links), []);
}

/// One chain of these nodes, in order.
fn chain(shapes: &[&'static Shape]) -> Vec<Fault> {
    let names: Vec<String> = (0..=shapes.len()).map(|n| format!("n{n}")).collect();
    let next = |n: usize| if n + 1 < shapes.len() { names[n + 1].as_str() } else { "" };
    let links: Vec<_> =
        shapes.iter().enumerate().map(|(n, shape)| link(&names[n], shape, next(n))).collect();
    faults(&links)
}

const IN: &Shape = &TCP_LISTENER;
const OUT: &Shape = &TCP_CONNECTOR;
const ECHO: &Shape = &ECHO_SERVER;
const TESTER: &Shape = &TESTER_CLIENT;
const TESTED: &Shape = &TESTER_SERVER;
const MUX: &Shape = &MUX_CLIENT;
const DEMUX: &Shape = &MUX_SERVER;
const RACE: &Shape = &FISHER_CLIENT;
const PROOF: &Shape = &FISHER_SERVER;

#[test]
fn mux_frames_go_to_a_mux_server_or_out_of_the_process() {
    for right in [
        &[IN, MUX, OUT][..],
        &[IN, DEMUX, OUT],
        &[IN, DEMUX, ECHO],
        &[TESTER, MUX, DEMUX, TESTED],
        &[IN, MUX, &MIDDLE, DEMUX, ECHO],
        // A fisher pair around the mux, inside it, and on one host of two.
        &[TESTER, RACE, MUX, DEMUX, PROOF, TESTED],
        &[IN, MUX, RACE, PROOF, DEMUX, ECHO],
        &[IN, MUX, RACE, OUT],
        &[IN, PROOF, DEMUX, OUT],
        &[IN, RACE, MUX, OUT],
        &[IN, DEMUX, PROOF, OUT],
        // A relay, and a mux inside another one.
        &[IN, DEMUX, MUX, OUT],
        &[IN, MUX, MUX, DEMUX, DEMUX, ECHO],
        &[IN, DEMUX, DEMUX, ECHO],
    ] {
        assert_eq!(chain(right), [], "{right:?}");
    }
}

#[test]
fn mux_frames_that_arrive_at_another_node_are_a_fault() {
    for (wrong, from, next) in [
        (&[IN, MUX, ECHO][..], 1, 2),
        (&[TESTER, MUX, TESTED], 1, 2),
        (&[IN, MUX, RACE, ECHO], 1, 3),
        (&[IN, MUX, RACE, PROOF, ECHO], 1, 4),
        (&[IN, MUX, PROOF, DEMUX, ECHO], 1, 2),
        (&[IN, RACE, MUX, PROOF, DEMUX, ECHO], 2, 3),
        // The inner of two ends is there, the outer one is not.
        (&[IN, MUX, MUX, DEMUX, ECHO], 1, 4),
        (&[IN, MUX, MUX, ECHO], 2, 3),
        (&[IN, DEMUX, MUX, ECHO], 2, 3),
    ] {
        let fault = Fault::WrongBytes { node: next - 1, next, from };
        assert_eq!(chain(wrong), [fault], "{wrong:?}");
    }
}

#[test]
fn mux_a_server_without_frames_is_a_fault() {
    for (wrong, from, next) in [
        (&[TESTER, DEMUX, TESTED][..], 0, 1),
        (&[TESTER, MUX, DEMUX, DEMUX, TESTED], 0, 3),
        (&[TESTER, PROOF, DEMUX, TESTED], 0, 2),
        (&[IN, RACE, DEMUX, OUT], 1, 2),
        (&[IN, MUX, RACE, DEMUX, OUT], 2, 3),
        (&[IN, MUX, RACE, DEMUX, PROOF, ECHO], 2, 3),
    ] {
        let fault = Fault::WrongBytes { node: next - 1, next, from };
        assert_eq!(chain(wrong), [fault], "{wrong:?}");
    }
}

#[test]
fn mux_every_way_into_a_server_is_looked_at() {
    let links = [
        link("outside", &TCP_LISTENER, "demux"),
        link("in", &TCP_LISTENER, "mux"),
        link("mux", &MUX_CLIENT, "demux"),
        link("tester", &TESTER_CLIENT, "demux"),
        link("demux", &MUX_SERVER, "echo"),
        link("echo", &ECHO_SERVER, ""),
    ];
    assert_eq!(faults(&links), [Fault::WrongBytes { node: 3, next: 4, from: 3 }]);
}

#[test]
fn mux_two_that_meet_before_the_wrong_end_are_one_fault() {
    let links = [
        link("a", &TCP_LISTENER, "mux-a"),
        link("mux-a", &MUX_CLIENT, "mid"),
        link("b", &TCP_LISTENER, "mux-b"),
        link("mux-b", &MUX_CLIENT, "mid"),
        link("mid", &MIDDLE, "echo"),
        link("echo", &ECHO_SERVER, ""),
    ];
    assert_eq!(faults(&links), [Fault::WrongBytes { node: 4, next: 5, from: 1 }]);
}

#[test]
fn mux_a_link_that_is_wrong_itself_brings_no_further_faults() {
    let links = [
        link("in", &TCP_LISTENER, "mux"),
        link("mux", &MUX_CLIENT, "proof"),
        link("proof", &FISHER_SERVER, "mux"),
    ];
    let told = [
        Fault::Loop { node: 2, nodes: vec![1, 2] },
        Fault::WrongBytes { node: 1, next: 2, from: 1 },
    ];
    assert_eq!(faults(&links), told);
    let round = [link("in", &TCP_LISTENER, "mux"), link("mux", &MUX_CLIENT, "mux")];
    assert_eq!(faults(&round), [Fault::Loop { node: 1, nodes: vec![1] }]);
    let unknown = [
        link("in", &TCP_LISTENER, "mux"),
        link("mux", &MUX_CLIENT, "what"),
        Link { name: Some("what"), shape: None, next: Next::To("echo") },
        link("echo", &ECHO_SERVER, ""),
    ];
    assert_eq!(faults(&unknown), []);
    assert_eq!(chain(&[IN, MUX, OUT, ECHO]), [Fault::NextOfEnd { node: 2 }]);
    assert_eq!(chain(&[IN, MUX, IN, ECHO]), [Fault::NextIsStart { node: 1, next: 2 }]);
}

#[test]
fn case_t14_a_mux_stands_between_two_nodes() {
    for shape in [MUX, DEMUX] {
        let links = [link("in", IN, "mid"), link("mid", shape, "")];
        assert_eq!(faults(&links), [Fault::MissingNext { node: 1 }]);
        let links = [link("mid", shape, "out"), link("out", OUT, "")];
        assert_eq!(faults(&links), [Fault::Unreached { node: 0 }]);
    }
}

#[test]
fn socket_b6_a_router_is_followed_by_a_dealer_or_an_echo() {
    for end in [&DEALER_SOCKET, ECHO] {
        assert_eq!(chain(&[&ROUTER_SOCKET, end]), []);
    }
    for end in [OUT, TESTED] {
        assert_eq!(chain(&[&ROUTER_SOCKET, end]), [Fault::Misfit { node: 0, next: 1 }]);
    }
    assert_eq!(chain(&[&ROUTER_SOCKET, RACE, PROOF, ECHO]), [Fault::Misfit { node: 0, next: 1 }]);
    assert_eq!(chain(&[&ROUTER_SOCKET]), [Fault::MissingNext { node: 0 }]);
    assert_eq!(chain(&[&DEALER_SOCKET]), [Fault::Unreached { node: 0 }]);
    for before in [IN, TESTER] {
        assert_eq!(chain(&[before, &DEALER_SOCKET]), [Fault::Misfit { node: 0, next: 1 }]);
    }
    assert_eq!(chain(&[&ROUTER_SOCKET, &DEALER_SOCKET, ECHO]), [Fault::NextOfEnd { node: 1 }]);
}

#[test]
fn socket_b6_one_echo_takes_lines_and_records() {
    let links = [
        link("lines", &TCP_LISTENER, "echo"),
        link("records", &ROUTER_SOCKET, "echo"),
        link("echo", &ECHO_SERVER, ""),
    ];
    assert_eq!(faults(&links), []);
}

#[test]
fn socket_b6_a_dealer_works_for_one_router() {
    let links = [
        link("a", &ROUTER_SOCKET, "workers"),
        link("b", &ROUTER_SOCKET, "workers"),
        link("lines", &TCP_LISTENER, "workers"),
        link("workers", &DEALER_SOCKET, ""),
    ];
    let told =
        [Fault::SecondBefore { node: 1, next: 3, first: 0 }, Fault::Misfit { node: 2, next: 3 }];
    assert_eq!(faults(&links), told);
}
