use super::{
    ECHO_SERVER, Fault, Link, Next, Shape, TCP_CONNECTOR, TCP_LISTENER, TESTER_CLIENT, Traffic,
    check,
};

const MIDDLE: Shape =
    Shape { name: "Middle", takes: Some(Traffic::Bytes), gives: Some(Traffic::Bytes) };
const SIP_END: Shape = Shape { name: "SipEnd", takes: Some(Traffic::Sip), gives: None };

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
