//! Whatever sequence of registrations comes.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::*;

/// URI, expires, instance, reg-id, q in tenths.
type Contact = (u8, u32, Option<u8>, Option<u8>, Option<u16>);

#[derive(Clone, Debug)]
struct Step {
    call: u8,
    cseq: u32,
    later: u64,
    only_one: bool,
    contacts: Vec<Contact>,
    star: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let contact = (
        0..5_u8,
        prop_oneof![Just(0), 60..200_u32],
        prop::option::of(0..2_u8),
        prop::option::of(0..2_u8),
        prop::option::of(0..=10_u16),
    );
    let contacts = prop::collection::vec(contact, 0..4);
    (0..2_u8, 0..40_u32, 0..40_u64, prop::bool::weighted(0.1), contacts, prop::bool::weighted(0.1))
        .prop_map(|(call, cseq, later, only_one, contacts, star)| Step {
            call,
            cseq,
            later,
            only_one,
            contacts,
            star,
        })
}

fn lines_of(step: &Step) -> Vec<String> {
    if step.star {
        return vec!["Contact: *".into(), "Expires: 0".into()];
    }
    let contacts = step.contacts.iter().map(|(uri, expires, instance, reg_id, q)| {
        let param = |name: &str, value: Option<String>| {
            value.map(|value| format!(";{name}={value}")).unwrap_or_default()
        };
        let instance = instance.map(|instance| format!("\"<{instance}>\""));
        [
            format!("Contact: <sip:b@{uri}>;expires={expires}"),
            param("+sip.instance", instance),
            param("reg-id", reg_id.map(|id| id.to_string())),
            param("q", q.map(|q| (f32::from(q) / 10.0).to_string())),
        ]
        .concat()
    });
    contacts.collect()
}

proptest! {
    #[test]
    fn bindings_stay_in_their_bounds_and_the_200_lists_what_a_lookup_finds(
        steps in prop::collection::vec(step(), 1..30),
        most in 0..5_u32,
    ) {
        let mut bob = Bob::with(Rules { max_contacts: most, ..RULES });
        for step in &steps {
            bob.now += step.later;
            bob.origin.only_one = step.only_one;
            let lines = lines_of(step);
            let texts: Vec<_> = lines.iter().map(String::as_str).collect();
            let before = bob.bindings.clone();
            let message = register(&step.call.to_string(), step.cseq, &texts);
            let listed = match bob.update(&message) {
                Ok((_, lines)) => lines,
                Err(refusal) => {
                    prop_assert_eq!(&before, &bob.bindings, "{}", refusal);
                    continue;
                }
            };
            prop_assert!(bob.bindings.iter().all(|binding| binding.is_live(bob.now)));
            prop_assert!(most == 0 || bob.bindings.len() <= most as usize);

            let phones: Vec<_> = bob
                .bindings
                .iter()
                .filter(|binding| binding.instance.is_some())
                .map(|binding| (&binding.instance, binding.reg_id))
                .collect();
            prop_assert_eq!(phones.iter().collect::<HashSet<_>>().len(), phones.len());
            for unnamed in bob.bindings.iter().filter(|binding| binding.instance.is_none()) {
                let same = bob.bindings.iter().filter(|other| other.uri == unnamed.uri);
                prop_assert_eq!(same.count(), 1);
            }
            let ruids: BTreeSet<_> = bob.bindings.iter().map(|binding| binding.ruid).collect();
            prop_assert_eq!(ruids.len(), bob.bindings.len());

            // What is listed in the order of the lookup, but for further ways to one instance.
            let listed = listed.first().map(|line| line["Contact: ".len()..].to_owned());
            let listed: Vec<_> =
                listed.iter().flat_map(|list| list.split(", ")).map(uri_of).collect();
            prop_assert_eq!(listed.len(), bob.bindings.len());
            let found: BTreeSet<_> = bob.rings().into_iter().collect();
            let all: BTreeSet<_> = listed.iter().cloned().collect();
            prop_assert!(found.is_subset(&all));
            let instances: BTreeSet<_> =
                bob.bindings.iter().filter_map(|binding| binding.instance.as_ref()).collect();
            let unnamed = bob.bindings.len() - phones.len();
            prop_assert_eq!(bob.rings().len(), (unnamed + instances.len()).min(12));
            if instances.len() == phones.len() {
                prop_assert_eq!(bob.rings(), listed);
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(contact in "[ -~]{0,60}", path in "[ -~]{0,40}") {
        let lines = [format!("Contact: {contact}"), format!("Path: {path}"), "k: gruu".into()];
        let mut bob = Bob::new();
        bob.says("c", 1, &lines.each_ref().map(String::as_str));
        bob.finds("INVITE", "sip:bob@x").ok();
    }
}

fn uri_of(contact: &str) -> String {
    contact[1..].split('>').next().unwrap().to_owned()
}
