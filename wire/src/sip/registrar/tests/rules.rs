//! The observable rules 123 to 136.

use super::*;

#[test]
fn sip_r123_the_200_lists_the_bindings_with_expires() {
    let mut bob = Bob::new();
    let list = bob.says("c", 1, &["Contact: <sip:bob@1.1.1.1:5070;x=y?h=1>;expires=100"]);
    assert_eq!(list, "<sip:bob@1.1.1.1:5070;x=y?h=1>;expires=100");
    bob.now += 30;
    let two = ["Contact: <sip:b@2>, \"Bob, Jr.\" <sip:c@3>;q=0.25"];
    assert_eq!(
        bob.says("c", 2, &two),
        "<sip:c@3>;q=0.25;expires=3600, <sip:bob@1.1.1.1:5070;x=y?h=1>;expires=70, \
         <sip:b@2>;expires=3600",
        "q from high to low, unspecified last, equal q oldest first"
    );
}

#[test]
fn sip_r124_a_lookup_gives_the_contact() {
    let mut bob = Bob::new();
    bob.says("c", 1, &["Contact: <sip:bob@1.1.1.1:5070;x=y>"]);
    let found = bob.finds("INVITE", "sip:bob@127.0.0.1").unwrap();
    let target = Target { uri: "sip:bob@1.1.1.1:5070;x=y".into(), ..Target::default() };
    assert_eq!(found, [target]);
    bob.now += 3600;
    assert_eq!(bob.finds("INVITE", "sip:bob@127.0.0.1"), Err(Missed::Unknown), "it is over");
    assert!(!is_registered(&bob.bindings, bob.now) && is_registered(&bob.bindings, START));
}

#[test]
fn sip_r125_expires_0_removes() {
    let mut bob = Bob::new();
    bob.says("c", 1, &["Contact: <sip:b@1>, <sip:b@2>"]);
    assert_eq!(bob.says("c", 2, &["Contact: <sip:b@1>;expires=0"]), "<sip:b@2>;expires=3600");
    assert_eq!(bob.says("c", 3, &["Contact: <sip:b@2>", "Expires: 0"]), "");
    assert_eq!(bob.finds("INVITE", "sip:bob@127.0.0.1"), Err(Missed::Unknown));
    assert_eq!(bob.says("c", 4, &["Contact: <sip:b@9>;expires=0"]), "", "it was not there");
}

#[test]
fn sip_r126_a_star_stands_alone_and_with_expires_0() {
    let star = "400 * used in contact and expires is not zero";
    let beside = "400 * used in contact and more than 1 contact";
    let mut bob = Bob::new();
    bob.says("c", 1, &["Contact: <sip:b@1>, <sip:b@2>"]);
    for (lines, want) in [
        (&["Contact: *"][..], star),
        (&["Contact: *;expires=0"], star),
        (&["Contact: *", "Expires: 10"], star),
        (&["Contact: *", "Expires: x"], star),
        (&["Contact: *", "Contact: *", "Expires: 0"], beside),
        (&["Contact: *, <sip:b@1>", "Expires: 0"], beside),
        (&["Contact: <sip:b@1>", "Contact: *", "Expires: 0"], beside),
    ] {
        assert_eq!(bob.says("c", 9, lines), want, "{lines:?}");
        assert_eq!(bob.bindings.len(), 2, "{lines:?}");
    }
    assert_eq!(bob.says("c", 2, &["Contact: *", "Expires: 0"]), "");
    assert_eq!(bob.bindings, []);
}

#[test]
fn sip_r127_without_a_contact_it_is_a_query() {
    let mut bob = Bob::new();
    assert_eq!(bob.says("c", 1, &[]), "");
    bob.says("c", 2, &["Contact: <sip:b@1>"]);
    bob.now += 1;
    let before = bob.bindings.clone();
    let (saved, lines) = bob.update(&register("c", 1, &["Expires: 0"])).unwrap();
    assert_eq!((saved, lines), (Saved::Listed, vec!["Contact: <sip:b@1>;expires=3599".into()]));
    assert_eq!(bob.bindings, before);
}

#[test]
fn sip_r128_the_parameter_goes_before_the_header_and_that_before_an_hour() {
    for (rules, lines, want) in [
        (RULES, &["Contact: <sip:b@1>"][..], 3600),
        (RULES, &["Contact: <sip:b@1>", "Expires: 200"], 200),
        (RULES, &["Contact: <sip:b@1>;expires=100", "Expires: 200"], 100),
        (RULES, &["Contact: <sip:b@1>;EXPIRES=\"100\"", "Expires: 200"], 100),
        (RULES, &["Contact: <sip:b@1>;expires", "Expires: 200"], 200),
        (RULES, &["Contact: <sip:b@1>;expires=7"], 60),
        (RULES, &["Contact: <sip:b@1>;expires=x", "Expires: 200"], 3600),
        (RULES, &["Contact: <sip:b@1>;expires=-5"], 3600),
        (RULES, &["Contact: <sip:b@1>", "Expires: +7"], 3600),
        (RULES, &["Contact: <sip:b@1>;expires=4294967295"], u32::MAX),
        (RULES, &["Contact: <sip:b@1>;expires=4294967296"], 3600),
        (Rules { max_expires: 500, ..RULES }, &["Contact: <sip:b@1>"], 500),
        (Rules { max_expires: 500, ..RULES }, &["Contact: <sip:b@1>;expires=1"], 60),
        (Rules { min_expires: 0, ..RULES }, &["Contact: <sip:b@1>;expires=1"], 1),
    ] {
        let list = Bob::with(rules).says("c", 1, lines);
        assert_eq!(list, format!("<sip:b@1>;expires={want}"), "{lines:?}");
    }
}

#[test]
fn sip_r129_several_contacts_are_several_targets() {
    let mut bob = Bob::new();
    bob.says("c", 1, &["Contact: <sip:b@1>", "m: <sip:b@2>, sip:b@3;q=0.5"]);
    let found = bob.finds("INVITE", "sip:bob@127.0.0.1").unwrap();
    let targets: Vec<_> = found.iter().map(|target| (&target.uri[..], target.q)).collect();
    let want: [(&[u8], _); 3] = [(b"sip:b@3", Some(500)), (b"sip:b@1", None), (b"sip:b@2", None)];
    assert_eq!(targets, want);
    let uri = Uri::parse(b"sip:bob@x").unwrap();
    let few = lookup(&bob.bindings, &uri, Method::Invite, &bob.own, 2, bob.now).unwrap();
    assert_eq!(few, found[..2], "the best of more than there may be");
}

#[test]
fn sip_r130_q_goes_from_high_to_low_and_unspecified_is_last() {
    let mut bob = Bob::new();
    let contacts = [("a", ""), ("b", ";q=0"), ("c", ";q=1.0"), ("d", ";q=.5"), ("e", ";q=0.50")];
    for (cseq, (user, q)) in (1..).zip(contacts) {
        bob.says("c", cseq, &[&format!("Contact: <sip:{user}@h>{q}")]);
    }
    assert_eq!(bob.rings(), ["sip:c@h", "sip:d@h", "sip:e@h", "sip:b@h", "sip:a@h"]);
    bob.says("c", 9, &["Contact: <sip:d@h>;q=0.5"]);
    assert_eq!(bob.rings()[1], "sip:d@h", "a refresh keeps the place");
}

#[test]
fn sip_r130_a_q_is_0_to_1() {
    for (q, want) in [
        ("1", Some(";q=1")),
        ("1.000", Some(";q=1")),
        ("0", Some(";q=0")),
        ("0.05", Some(";q=0.05")),
        ("0.999", Some(";q=0.999")),
        ("0.1234", Some(";q=0.123")),
        (".7", Some(";q=0.7")),
        ("2", None),
        ("1.001", None),
        ("0.", None),
        ("abc", None),
        ("-1", None),
        ("0,5", None),
    ] {
        let list = Bob::new().says("c", 1, &[&format!("Contact: <sip:b@1>;q=\"{q}\"")]);
        let bad = || "400 Invalid q param in contact".to_owned();
        let want = want.map_or_else(bad, |q| format!("<sip:b@1>{q};expires=3600"));
        assert_eq!(list, want, "{q}");
    }
    assert_eq!(Bob::new().says("c", 1, &["Contact: <sip:b@1>;q"]), "<sip:b@1>;expires=3600");
}

#[test]
fn sip_r131_an_unknown_address_has_no_target() {
    let bob = Bob::new();
    assert_eq!(bob.finds("INVITE", "sip:bob@127.0.0.1"), Err(Missed::Unknown));
}

#[test]
fn sip_r132_a_lower_cseq_of_the_same_call_id_is_400() {
    let behind = "400 Invalid CSeq number";
    let mut bob = Bob::new();
    bob.says("c", 5, &["Contact: <sip:b@1>"]);
    for lines in [
        &["Contact: <sip:b@1>"][..],
        &["Contact: <sip:b@1>;expires=0"],
        &["Contact: <sip:b@2>, <sip:b@1>"],
        &["Contact: *", "Expires: 0"],
    ] {
        assert_eq!(bob.says("c", 4, lines), behind, "{lines:?}");
        assert_eq!(bob.rings(), ["sip:b@1"], "nothing of it is done: {lines:?}");
    }
    assert_eq!(bob.says("d", 1, &["Contact: <sip:b@1>;expires=70"]), "<sip:b@1>;expires=70");
    assert_eq!(bob.says("c", 1, &["Contact: <sip:b@1>;expires=80"]), "<sip:b@1>;expires=80");
    let other = bob.says("c", 1, &["Contact: <sip:b@2>"]);
    assert_eq!(other, "<sip:b@1>;expires=80, <sip:b@2>;expires=3600", "another binding");
}

#[test]
fn sip_r133_a_refusal_says_why() {
    let mut bob = Bob::with(Rules { max_contacts: 2, ..RULES });
    bob.says("c", 1, &["Contact: <sip:b@1>, <sip:b@2>"]);
    let message = register("c", 2, &["Contact: <sip:b@3>"]);
    let refusal = bob.update(&message).unwrap_err();
    assert_eq!((refusal.code, refusal.reason), (503, "Service Unavailable"));
    assert_eq!(error_line(&refusal), "P-Registrar-Error: Too many registered contacts");
    for contact in
        ["<bad", "", "<no-scheme>", "sip:", "\"x <sip:b@1>", "<sip:b@1>;+sip.instance=\"\""]
    {
        let refused = bob.says("c", 3, &[&format!("Contact: {contact}")]);
        assert_eq!(refused, "400 Contact parse error", "{contact}");
    }
    let path = "Path: <sip:";
    assert_eq!(bob.says("c", 3, &["Contact: <sip:b@1>", path]), "400 Path parse error");
    assert_eq!(bob.rings(), ["sip:b@1", "sip:b@2"]);
}

#[test]
fn max_contacts_counts_what_stays() {
    let mut bob = Bob::with(Rules { max_contacts: 1, ..RULES });
    let both = ["Contact: <sip:b@1>, <sip:b@2>"];
    assert_eq!(bob.says("c", 1, &both), "503 Too many registered contacts");
    assert_eq!(bob.bindings, [], "all or nothing");
    bob.says("c", 1, &["Contact: <sip:b@1>"]);
    let moved = bob.says("c", 2, &["Contact: <sip:b@2>, <sip:b@1>;expires=0"]);
    assert_eq!(moved, "<sip:b@2>;expires=3600");
    bob.now += 3600;
    assert_eq!(bob.says("c", 3, &["Contact: <sip:b@3>"]), "<sip:b@3>;expires=3600", "one is over");
    bob.origin.only_one = true;
    assert_eq!(bob.says("d", 1, &["Contact: <sip:b@4>"]), "<sip:b@4>;expires=3600");
    assert_eq!(bob.says("d", 2, &["Contact: <sip:b@4>, <sip:b@5>"]), "<sip:b@5>;expires=3600");
}

#[test]
fn sip_r134_the_same_contact_is_refreshed() {
    let mut bob = Bob::new();
    bob.says("c", 1, &["Contact: <sip:b@1>;q=0.5", "User-Agent: one"]);
    let ruid = bob.bindings[0].ruid;
    bob.now += 10;
    let message = register("c", 2, &["Contact: <sip:b@1>;expires=90", "User-Agent: two"]);
    let (saved, lines) = bob.update(&message).unwrap();
    assert_eq!((saved, &lines[0][..]), (Saved::Updated, "Contact: <sip:b@1>;expires=90"));
    let [binding] = &bob.bindings[..] else { panic!("{:?}", bob.bindings) };
    assert_eq!((binding.ruid, binding.cseq, binding.changed), (ruid, 2, START + 10));
    assert_eq!(binding.user_agent.as_deref(), Some(&b"two"[..]));
    assert_eq!(bob.says("c", 3, &["Contact: <SIP:b@1>"]).matches("sip:").count(), 1, "by its text");
}

#[test]
fn sip_r135_the_case_of_an_address_does_not_matter() {
    for (uri, want) in [
        ("sip:BoB@A.B", Ok("bob")),
        ("sips:bob:pw@x;p=q?h=1", Ok("bob")),
        ("sip:%42o%62%zz%4@x", Ok("bob%zz%4")),
        ("tel:+49-30;ext=1", Ok("+49-30")),
        ("sip:example.com", Err(Refusal::NO_AOR)),
        ("mailto:b@c", Err(Refusal::NO_AOR)),
    ] {
        let read = aor(&Uri::parse(uri.as_bytes()).unwrap());
        assert_eq!(read, want.map(|aor| aor.as_bytes().to_vec()), "{uri}");
    }
    let long = format!("sip:{}@x", "a".repeat(256));
    assert_eq!(aor(&Uri::parse(long.as_bytes()).unwrap()), Err(Refusal::LONG_AOR));
}

#[test]
fn sip_r136_the_same_cseq_at_once_is_a_copy() {
    let mut bob = Bob::new();
    let lines = ["Contact: <sip:b@1>;expires=100"];
    bob.says("c", 1, &lines);
    let before = bob.bindings.clone();
    bob.now += 20;
    assert_eq!(bob.says("c", 1, &lines), "<sip:b@1>;expires=80");
    assert_eq!(bob.says("c", 1, &["Contact: <sip:b@1>;expires=0"]), "<sip:b@1>;expires=80");
    assert_eq!(bob.bindings, before, "nothing changes");
    bob.now += 1;
    assert_eq!(bob.says("c", 1, &lines), "400 Invalid CSeq number");
}
