//! `t_load_contacts`, `t_next_contacts`.

use super::*;

/// The targets that the next `t_relay` would have, as users of their URIs.
fn targets(context: &Context) -> String {
    let user = |uri: &[u8]| {
        let uri = String::from_utf8_lossy(uri);
        uri.split([':', '@']).nth(1).unwrap().to_owned()
    };
    let others = context.draft.branches.iter().map(|target| user(&target.uri));
    std::iter::once(user(context.draft.uri())).chain(others).collect::<Vec<_>>().join(" ")
}

/// A request whose lookup found phones of several q.
fn looked_up() -> Context {
    context_with(RouteKind::Request, |context| {
        context.draft.uri = Some(Bytes::from("sip:a@10.0.0.1"));
        context.draft.q = Some(500);
        let target = |user: &str, q| Target {
            uri: Bytes::from(format!("sip:{user}@10.0.0.1")),
            dst_uri: Some(Bytes::from(format!("sip:10.1.1.1;u={user}"))),
            q,
            flags: 4,
            ..Target::default()
        };
        context.draft.branches = vec![
            target("b", None),
            target("c", Some(900)),
            target("d", Some(500)),
            target("e", Some(0)),
        ];
    })
}

/// Runs a body, and tells the targets then.
fn step(context: Context, body: &str, want: &str) -> Context {
    let ran = check_with(context, &[(body, "int:1")]);
    assert_eq!(targets(&ran.context), want, "{body}");
    ran.context
}

#[test]
fn sip_r130_groups_of_q_are_tried_from_high_to_low() {
    let context = step(looked_up(), "KSR.tm.t_load_contacts()", "a");
    let context = step(context, "KSR.tm.t_next_contacts()", "c");
    assert_eq!(context.draft.dst_uri.as_deref(), Some(&b"sip:10.1.1.1;u=c"[..]));
    assert_eq!((context.draft.q, context.draft.branch_flags), (Some(900), 4));

    // The groups go with the transaction to its failure route.
    let mut later = failure();
    later.tm.groups = context.tm.groups;
    later.draft.uri = Some(Bytes::from("sip:c@10.0.0.1"));
    later.tm.used = Some((Bytes::from("sip:c@10.0.0.1"), None));
    let later = step(later, "KSR.tm.t_next_contacts()", "a d");
    assert_eq!(later.draft.dst_uri, None);
    assert_eq!(later.tm.used, None);
    let later = step(later, "KSR.tm.t_next_contacts()", "e");
    let later = step(later, "KSR.tm.t_next_contacts()", "b");
    let ran = check_with(later, &[("KSR.tm.t_next_contacts()", "int:-2")]);
    assert_eq!(targets(&ran.context), "b", "nothing changes when none is left");
}

#[test]
fn one_target_is_a_group_of_its_own() {
    let context = step(context(RouteKind::Request), "KSR.tm.t_load_contacts()", "bob");
    let context = step(context, "KSR.tm.t_next_contacts()", "bob");
    check_with(context, &[("KSR.tm.t_next_contacts()", "int:-2")]);
}

#[test]
fn loading_twice_does_no_harm() {
    let context = step(looked_up(), "KSR.tm.t_load_contacts()", "a");
    let context = step(context, "KSR.tm.t_load_contacts()", "a");
    step(context, "KSR.tm.t_next_contacts()", "c");
}

#[test]
fn what_has_been_tried_is_not_loaded_in_a_failure_route() {
    let tried = |branches: &[&str]| {
        context_with(RouteKind::Failure, |context| {
            context.tm.used = Some((Bytes::from("sip:bob@example.com"), None));
            let target = |user: &&str| Target {
                uri: Bytes::from(format!("sip:{user}@10.0.0.1")),
                ..Target::default()
            };
            context.draft.branches = branches.iter().map(target).collect();
        })
    };
    let context = step(tried(&[]), "KSR.tm.t_load_contacts()", "bob");
    check_with(context, &[("KSR.tm.t_next_contacts()", "int:-2")]);
    let context = step(tried(&["f", "g"]), "KSR.tm.t_load_contacts()", "bob");
    let context = step(context, "KSR.tm.t_next_contacts()", "f g");
    check_with(context, &[("KSR.tm.t_next_contacts()", "int:-2")]);
}

#[test]
fn contacts_are_loaded_where_they_can_be_tried() {
    for route in
        [RouteKind::Reply, RouteKind::Branch, RouteKind::BranchReply, RouteKind::BranchFailure]
    {
        check_with(context(route), &[("KSR.tm.t_load_contacts()", "int:-1")]);
    }
}
