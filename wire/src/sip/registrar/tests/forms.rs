//! Instances, methods, Path, received: what a binding has beside its Contact.

use super::*;

const X: &str = "+sip.instance=\"<urn:uuid:X>\"";

#[test]
fn an_instance_is_one_binding_whatever_its_contact() {
    let mut bob = Bob::new();
    let list = bob.says("c", 1, &[&format!("Contact: <sip:b@1>;{X}")]);
    assert_eq!(list, "<sip:b@1>;expires=3600;+sip.instance=\"<urn:uuid:X>\"");
    bob.says("d", 1, &[&format!("Contact: <sip:b@2>;{X}")]);
    assert_eq!(bob.rings(), ["sip:b@2"]);
    bob.says("d", 2, &[&format!("Contact: <sip:b@3>;{X};reg-id=1, <sip:b@4>;{X};reg-id=2")]);
    assert_eq!(bob.bindings.len(), 3, "ways to it are bindings of their own");
    bob.says("d", 3, &[&format!("Contact: <sip:b@5>;{X};reg-id=2")]);
    assert_eq!(bob.bindings[2].uri, "sip:b@5");
    let list = bob.says("d", 4, &["Contact: <sip:b@3>;expires=70"]);
    assert!(
        list.contains("<sip:b@3>;expires=70;+sip.instance=\"<urn:uuid:X>\";reg-id=1"),
        "{list}"
    );
    bob.says("d", 5, &["Contact: <sip:b@5>;expires=0, <sip:b@9>;reg-id=7"]);
    assert_eq!(bob.bindings.len(), 3);
    assert_eq!(bob.bindings[2].reg_id, None, "it means nothing without an instance");
}

#[test]
fn an_instance_takes_over_the_binding_of_its_uri() {
    let mut bob = Bob::new();
    bob.says("c", 1, &["Contact: <sip:b@1>"]);
    bob.says("c", 2, &[&format!("Contact: <sip:b@1>;{X}")]);
    assert_eq!(bob.rings(), ["sip:b@1"]);
    bob.says("c", 3, &["Contact: <sip:b@2>"]);
    let (_, lines) = bob.update(&register("c", 4, &[&format!("Contact: <sip:b@2>;{X}")])).unwrap();
    assert_eq!(lines, ["Contact: <sip:b@2>;expires=3600;+sip.instance=\"<urn:uuid:X>\""]);
}

#[test]
fn of_several_ways_to_an_instance_the_last_is_taken() {
    let mut bob = Bob::new();
    let way = |id: u32| format!("Contact: <sip:b@{id}>;{X};reg-id={id}");
    for id in 1..=3 {
        bob.says("c", id, &[&way(id)]);
        bob.now += 30;
    }
    assert_eq!(bob.rings(), ["sip:b@3"]);
    bob.says("c", 4, &[&way(1)]);
    assert_eq!(bob.rings(), ["sip:b@1"]);
    assert_eq!(bob.says("c", 5, &[]).matches("sip:b@").count(), 3, "but all are listed");
}

#[test]
fn a_gruu_leads_to_its_instance() {
    let mut bob = Bob::new();
    let contact = format!("Contact: <sip:b@1>;{X}, <sip:b@2>");
    let list = bob.says("c", 1, &[&contact, "Supported: path, GRUU"]);
    assert_eq!(
        list,
        "<sip:b@1>;expires=3600;pub-gruu=\"sip:bob@127.0.0.1;gr=urn:uuid:X\";\
         +sip.instance=\"<urn:uuid:X>\", <sip:b@2>;expires=3600"
    );
    let found = bob.finds("INVITE", "sip:bob@127.0.0.1;gr=urn:uuid:x").unwrap();
    assert_eq!((found.len(), &found[0].uri[..]), (1, &b"sip:b@1"[..]));
    for other in ["sip:bob@127.0.0.1;gr=urn:uuid:Y", "sip:bob@127.0.0.1;gr"] {
        assert_eq!(bob.finds("INVITE", other), Err(Missed::Unknown), "{other}");
    }
    assert_eq!(bob.rings().len(), 2);
}

#[test]
fn a_method_that_no_phone_takes_is_not_sent_to_any() {
    let mut bob = Bob::new();
    bob.says("c", 1, &["Contact: <sip:b@1>", "Allow: INVITE, BYE", "Allow: PRACK"]);
    let finds = |bob: &Bob, method: &str| bob.finds(method, "sip:bob@x").map(|found| found.len());
    for method in ["INVITE", "ACK", "CANCEL", "BYE", "PRACK"] {
        assert_eq!(finds(&bob, method), Ok(1), "{method}");
    }
    for method in ["OPTIONS", "NEWMETHOD", "invite"] {
        assert_eq!(finds(&bob, method), Err(Missed::Method), "{method}");
    }
    bob.says("c", 2, &["Contact: <sip:b@2>;methods=\"OPTIONS, NEWMETHOD\"", "Allow: INVITE"]);
    assert_eq!(finds(&bob, "OPTIONS"), Ok(1));
    assert_eq!(finds(&bob, "OTHERMETHOD"), Ok(1), "those that are not known are one");
    bob.says("c", 3, &["Contact: <sip:b@3>", "Allow:"]);
    assert_eq!(finds(&bob, "MESSAGE"), Ok(1), "it did not say");
}

#[test]
fn a_path_is_the_way_to_the_phone() {
    let mut bob = Bob::new();
    let contact = "Contact: <sip:b@10.0.0.1>";
    let paths = ["Path: <sip:9.9.9.9;lr>;a=b,\r\n sip:8.8.8.8", "Path: \"x\" <sip:7.7.7.7;lr>"];
    bob.origin.received = Some("sip:3.3.3.3:5080".into());
    let message = register("c", 1, &[contact, paths[0], paths[1], "k: path"]);
    let (_, lines) = bob.update(&message).unwrap();
    assert_eq!(lines[0], "Contact: <sip:b@10.0.0.1>;expires=3600;received=\"sip:3.3.3.3:5080\"");
    let path = "<sip:9.9.9.9;lr>;a=b, <sip:8.8.8.8>, <sip:7.7.7.7;lr>";
    assert_eq!(lines[1..], [format!("Path: {path}")]);
    let found = bob.finds("INVITE", "sip:bob@x").unwrap();
    assert_eq!(found[0].path.as_deref(), Some(path.as_bytes()));
    assert_eq!(found[0].dst_uri.as_deref(), Some(&b"sip:9.9.9.9;lr"[..]));
    let (_, lines) = bob.update(&register("c", 2, &[contact, paths[0]])).unwrap();
    assert_eq!(lines.len(), 1, "it is for those who ask");
}

#[test]
fn a_binding_goes_by_where_it_came_from() {
    let mut bob = Bob::new();
    bob.origin = Origin {
        received: Some("sip:3.3.3.3:5080;transport=tcp".into()),
        socket: Some((Transport::Tcp, "127.0.0.2:5060".parse().unwrap())),
        flags: 6,
        ..bob.origin
    };
    bob.says("c", 1, &["Contact: <sip:b@10.0.0.1>"]);
    let want = Target {
        uri: "sip:b@10.0.0.1".into(),
        dst_uri: Some("sip:3.3.3.3:5080;transport=tcp".into()),
        socket: Some(SocketId(3)),
        flags: 6,
        ..Target::default()
    };
    assert_eq!(bob.finds("INVITE", "sip:bob@x"), Ok(vec![want]));
    bob.own = kit::owning(&["udp:127.0.0.2:5060"]);
    assert_eq!(bob.finds("INVITE", "sip:bob@x").unwrap()[0].socket, None, "it is not there");
    bob.origin.received = None;
    bob.says("c", 2, &["Contact: <sip:b@10.0.0.1>"]);
    assert_eq!(bob.bindings[0].received, None, "each refresh says it anew");
}
