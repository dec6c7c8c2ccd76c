//! What the network can make us keep.

use super::*;

#[test]
fn what_is_kept_has_limits() {
    let long = |length: usize| "a".repeat(length);
    let contact = |length: usize| format!("Contact: <sip:{}@h>", long(length - 6));
    let mut bob = Bob::new();
    let short = "Contact: <sip:b@1>";
    assert!(bob.says("c", 1, &[&contact(512)]).starts_with("<sip:aaa"));
    assert_eq!(bob.says("c", 2, &[&contact(513)]), "400 Contact/received too long");
    let instance = |length| format!("{short};+sip.instance=\"{}\"", long(length));
    assert!(bob.says("c", 3, &[&instance(255)]).contains("instance"));
    assert_eq!(bob.says("c", 4, &[&instance(256)]), "400 Contact/received too long");
    assert_eq!(bob.says(&long(256), 5, &[short]), "400 Callid too long");
    let path = |length: usize| format!("Path: <sip:{}>", long(length - 6));
    assert!(bob.says("c", 6, &[short, &path(2048)]).contains("sip:b@1"));
    assert_eq!(bob.says("c", 7, &[short, &path(2049)]), "400 Path parse error");
    bob.says("c", 8, &[short, &format!("User-Agent: {}", long(9000))]);
    let agents = bob.bindings.iter().filter_map(|binding| binding.user_agent.as_ref());
    assert_eq!(agents.map(Bytes::len).max(), Some(255), "its beginning is enough");
}

#[test]
fn no_instance_breaks_out_of_its_quotes() {
    for instance in ["a\\\"b", "a\\\\", "a\r\n b"] {
        let line = format!("Contact: <sip:b@1>;+sip.instance=\"{instance}\"");
        assert_eq!(Bob::new().says("c", 1, &[&line]), "400 Contact parse error", "{instance:?}");
    }
}

#[test]
fn a_200_always_fits_into_a_datagram() {
    let mut bob = Bob::new();
    for cseq in 1.. {
        let contact = format!("Contact: <sip:{cseq}@{}>", "h".repeat(400));
        let list = bob.says("c", cseq, &[&contact]);
        if list.starts_with("503 ") {
            break;
        }
        assert!(list.len() <= MOST_LISTED, "{}", list.len());
    }
    assert!((50..80).contains(&bob.bindings.len()), "{}", bob.bindings.len());
    let again = format!("Contact: <sip:1@{}>;expires=90", "h".repeat(400));
    assert!(bob.says("c", 900, &[&again]).starts_with("<sip:1@h"), "a refresh still goes");
    let many = "<a:b>,".repeat(600);
    let refused = Bob::new().says("c", 1, &[&format!("Contact: {many}<a:c>")]);
    assert_eq!(refused, "503 Too many registered contacts");
}

#[test]
fn no_binding_holds_on_to_its_message() {
    let text = "Contact: <sip:b@1>;+sip.instance=\"<x>\"";
    let message = register("c", 1, &[text, "Path: <sip:p>", "User-Agent: u"]);
    let (from, bytes) = (message.bytes().as_ptr() as usize, message.bytes().len());
    let mut bob = Bob::new();
    bob.update(&message).unwrap();
    let Binding { uri, call_id, path, user_agent, instance, .. } = &bob.bindings[0];
    let kept = [Some(uri), Some(call_id), path.as_ref(), user_agent.as_ref(), instance.as_ref()];
    for text in kept {
        let at = text.unwrap().as_ptr() as usize;
        assert!(!(from..from + bytes).contains(&at));
    }
}
