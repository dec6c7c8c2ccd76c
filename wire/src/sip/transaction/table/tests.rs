use std::hash::BuildHasher;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::{Ended, Found, OwnBranch, Table, TransactionId};
use crate::sip::branch;
use crate::sip::draft::Draft;
use crate::sip::kit::{self, Text};
use crate::sip::message::Method;
use crate::sip::own::Transport::{Tcp, Udp};

fn enter(table: &mut Table<&'static str>, text: &Text, item: &'static str) -> TransactionId {
    table.insert(&text.draft(), item)
}

fn invite_of(id: u32) -> Text {
    kit::invite()
        .set("Via", &format!("SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc{id}"))
        .set("Call-ID", &format!("c{id}@127.0.0.1"))
}

fn via(text: &Text, via: &str) -> Text {
    text.clone().set("Via", via)
}

/// A reply to a branch of this request, with this method in its `CSeq`.
fn reply_to(request: &Text, index: u32, method: &str) -> Text {
    let own = branch::of(&request.draft(), index);
    let own = String::from_utf8(own.to_vec()).expect("text");
    kit::reply(200, "OK")
        .set("Via", &format!("SIP/2.0/UDP 127.0.0.1;branch={own}"))
        .set("CSeq", &format!("1 {method}"))
}

#[test]
fn sip_r032_r033_a_copy_is_found_by_branch_sent_by_transport_and_method() {
    for method in ["INVITE", "OPTIONS", "FOO"] {
        let mut table = Table::default();
        let request = kit::request(method);
        let id = enter(&mut table, &request, "it");
        let find = |text: &Text| table.find(&text.message(), Udp);
        assert_eq!(find(&request), Some(id));
        assert_eq!(
            find(&request.clone().set("Call-ID", "other").set("From", "<sip:x@y>;tag=x")),
            Some(id),
            "what else it says is not compared"
        );
        for other in [
            "SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc2",
            "SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKC1",
            "SIP/2.0/UDP 127.0.0.2:15060;branch=z9hG4bKc1",
            "SIP/2.0/UDP 127.0.0.1:15061;branch=z9hG4bKc1",
            "SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKc1",
        ] {
            assert_eq!(find(&via(&request, other)), None, "{other}");
        }
        assert_eq!(table.find(&request.message(), Tcp), None);
        assert_eq!(find(&request.clone().method("INFO")), None);
    }
}

#[test]
fn sip_r032_a_port_that_is_not_written_is_5060() {
    let mut table = Table::default();
    let request = via(&kit::invite(), "SIP/2.0/UDP host;branch=z9hG4bKa");
    let id = enter(&mut table, &request, "it");
    let written = via(&request, "SIP/2.0/UDP host:5060;branch=z9hG4bKa");
    assert_eq!(table.find(&written.message(), Udp), Some(id));
    let other = via(&request, "SIP/2.0/UDP HOST;branch=z9hG4bKa");
    assert_eq!(table.find(&other.message(), Udp), None, "the host by its bytes");
}

#[test]
fn parts_of_a_key_do_not_run_into_each_other() {
    let mut table = Table::default();
    let a = via(&kit::invite(), "SIP/2.0/UDP host.a;branch=z9hG4bKb");
    enter(&mut table, &a, "a");
    let b = via(&kit::invite(), "SIP/2.0/UDP host.;branch=z9hG4bKab");
    assert_eq!(table.find(&b.message(), Udp), None);
}

#[test]
fn sip_r150_two_branches_are_two_transactions() {
    let mut table = Table::default();
    let first = kit::invite();
    let second = via(&first, "SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc2");
    let a = enter(&mut table, &first, "a");
    assert_eq!(table.find(&second.message(), Udp), None);
    let b = enter(&mut table, &second, "b");
    assert_eq!(table.find(&first.message(), Udp), Some(a));
    assert_eq!(table.find(&second.message(), Udp), Some(b));
    let reply = |of: &Text| table.find_reply(&reply_to(of, 0, "INVITE").message());
    assert_eq!(reply(&first), None, "without branches");
    assert_eq!(table.len(), 2);
}

#[test]
fn sip_r151_without_the_cookie_headers_are_compared() {
    for old in [
        "SIP/2.0/UDP 127.0.0.1:15060;branch=1",
        "SIP/2.0/UDP 127.0.0.1:15060",
        "SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bK",
    ] {
        let mut table = Table::default();
        let request = via(&kit::invite(), old);
        let id = enter(&mut table, &request, "it");
        let find = |text: &Text| table.find(&text.message(), Udp);
        assert_eq!(find(&request), Some(id), "{old}");
        assert_eq!(find(&request.clone().set("Contact", "<sip:x@y>")), Some(id));
        for other in [
            request.clone().set("Call-ID", "c2@127.0.0.1"),
            request.clone().set("CSeq", "2 INVITE"),
            request.clone().set("From", "<sip:alice@127.0.0.1>;tag=a2"),
            request.clone().set("To", "<sip:bob@127.0.0.1>;tag=b1"),
            request.clone().uri("sip:eve@127.0.0.1:5060"),
            request.clone().method("OPTIONS"),
            via(&request, "SIP/2.0/UDP 127.0.0.1:15061"),
            kit::invite(),
        ] {
            assert_eq!(find(&other), None, "{}", other.text());
        }
        assert_eq!(table.find(&request.message(), Tcp), None);
    }
}

#[test]
fn sip_r151_by_the_request_uri_that_came_whatever_became_of_it() {
    let mut table = Table::default();
    let request = via(&kit::invite(), "SIP/2.0/UDP 127.0.0.1:15060");
    let mut draft = request.draft();
    draft.uri = Some("sip:bob@10.0.0.1".into());
    draft.replace(request.clone().uri("sip:bob@10.0.0.1").message());
    let id = table.insert(&draft, ());
    assert_eq!(table.find(&request.message(), Udp), Some(id));
}

#[test]
fn sip_r042_the_ack_of_a_failure_has_the_branch_of_its_invite() {
    let mut table = Table::default();
    let invite = kit::invite();
    let id = enter(&mut table, &invite, "it");
    let ack = kit::request("ACK").set("To", "<sip:bob@127.0.0.1>;tag=ta").message();
    assert_eq!(table.find_acked(&ack, Udp), None, "there is no final");
    table.set_ended(id, Ended::Failure);
    assert_eq!(table.find_acked(&ack, Udp), Some(id));
    assert_eq!(table.find_acked(&ack, Tcp), None);
    assert_eq!(table.find(&ack, Udp), None, "it is no copy");
    table.set_ended(id, Ended::No);
    assert_eq!(table.find_acked(&ack, Udp), None, "a 2xx passed behind it");
}

#[test]
fn sip_r151_the_ack_of_a_failure_without_the_cookie_has_another_to() {
    let mut table = Table::default();
    let invite = via(&kit::invite(), "SIP/2.0/UDP 127.0.0.1:15060");
    let id = enter(&mut table, &invite, "it");
    let ack = invite.clone().method("ACK").set("To", "\"Bob\" <sip:bob@127.0.0.1>;tag=ta");
    assert_eq!(table.find_acked(&ack.message(), Udp), None);
    table.set_ended(id, Ended::Failure);
    assert_eq!(table.find_acked(&ack.message(), Udp), Some(id));
    let find = |ack: &Text| table.find_acked(&ack.message(), Udp);
    assert_eq!(find(&ack.clone().set("To", "<sip:eve@127.0.0.1>;tag=ta")), None);
    assert_eq!(find(&ack.clone().set("CSeq", "2 ACK")), None);
    assert_eq!(find(&via(&ack, "SIP/2.0/UDP 127.0.0.1:15061")), None);
    table.remove(id);
    assert_eq!(table.find_acked(&ack.message(), Udp), None);
}

#[test]
fn sip_r108_the_ack_of_a_2xx_made_here_is_found_by_its_dialog() {
    for old in ["SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1", "SIP/2.0/UDP 127.0.0.1:15060"] {
        let mut table = Table::default();
        let invite = via(&kit::invite(), old);
        let id = enter(&mut table, &invite, "it");
        table.set_ended(id, Ended::Success(Box::from(*b"ours")));
        let ack = via(&kit::request("ACK"), "SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKack")
            .uri("sip:127.0.0.1")
            .set("To", "<sip:bob@127.0.0.1>;tag=ours");
        let find = |ack: &Text| table.find_acked(&ack.message(), Udp);
        assert_eq!(find(&ack), Some(id));
        for other in [
            ack.clone().set("To", "<sip:bob@127.0.0.1>;tag=theirs"),
            ack.clone().set("To", "<sip:bob@127.0.0.1>"),
            ack.clone().set("From", "<sip:alice@127.0.0.1>;tag=a2"),
            ack.clone().set("Call-ID", "c2"),
            ack.clone().set("CSeq", "2 ACK"),
        ] {
            assert_eq!(find(&other), None, "{}", other.text());
        }
        table.remove(id);
        assert_eq!(table.find_acked(&ack.message(), Udp), None);
    }
}

#[test]
fn sip_r048_the_ack_of_a_relayed_2xx_belongs_to_nothing() {
    let mut table = Table::default();
    enter(&mut table, &kit::invite(), "it");
    let ack = via(&kit::request("ACK"), "SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKack")
        .set("To", "<sip:bob@127.0.0.1>;tag=ta");
    assert_eq!(table.find_acked(&ack.message(), Udp), None);
}

#[test]
fn sip_r053_invite_and_cancel_of_one_branch_are_two_entries() {
    let mut table = Table::default();
    let (invite, cancel) = (kit::invite(), kit::request("CANCEL"));
    assert_eq!(table.find_cancelled(&cancel.message(), Udp), None, "R60");
    let a = enter(&mut table, &invite, "invite");
    assert_eq!(table.find(&cancel.message(), Udp), None);
    assert_eq!(table.find_cancelled(&cancel.message(), Udp), Some(a));
    assert_eq!(table.find_cancel_of(&invite.message(), Udp), None);
    let b = enter(&mut table, &cancel, "cancel");
    assert_eq!(table.find(&invite.message(), Udp), Some(a));
    assert_eq!(table.find(&cancel.message(), Udp), Some(b), "S-05: a copy of the CANCEL");
    assert_eq!(table.find_cancelled(&cancel.message(), Udp), Some(a));
    assert_eq!(table.find_cancel_of(&invite.message(), Udp), Some(b));
    assert_eq!(table.find_cancelled(&cancel.message(), Tcp), None);
    table.remove(a);
    assert_eq!(table.find_cancelled(&cancel.message(), Udp), None);
    assert_eq!(table.get(b), Some(&"cancel"));
}

#[test]
fn sip_r053_cancel_asks_for_no_method() {
    for old in ["SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1", "SIP/2.0/UDP 127.0.0.1:15060"] {
        let mut table = Table::default();
        let id = enter(&mut table, &via(&kit::request("MESSAGE"), old), "it");
        let cancel = via(&kit::request("CANCEL"), old).message();
        assert_eq!(table.find_cancelled(&cancel, Udp), Some(id));
    }
}

#[test]
fn a_cancel_without_the_cookie_finds_its_invite() {
    let mut table = Table::default();
    let invite = via(&kit::invite(), "SIP/2.0/UDP 127.0.0.1:15060");
    let id = enter(&mut table, &invite, "it");
    let cancel = invite.clone().method("CANCEL");
    assert_eq!(table.find_cancelled(&cancel.message(), Udp), Some(id));
    let other = cancel.clone().set("Call-ID", "other");
    assert_eq!(table.find_cancelled(&other.message(), Udp), None);
}

#[test]
fn replies_are_found_by_the_own_branch_and_the_method() {
    let mut table = Table::default();
    let invite = kit::invite();
    let id = enter(&mut table, &invite, "it");
    table.set_branches(id, 18);
    for index in [0, 1, 17] {
        assert_eq!(
            table.find_reply(&reply_to(&invite, index, "INVITE").message()),
            Some(Found { id, branch: index as u16, of_cancel: false })
        );
        assert_eq!(
            table.find_reply(&reply_to(&invite, index, "CANCEL").message()),
            Some(Found { id, branch: index as u16, of_cancel: true })
        );
    }
    assert_eq!(table.find_reply(&reply_to(&invite, 0, "BYE").message()), None);
    assert_eq!(table.find_reply(&reply_to(&invite_of(2), 0, "INVITE").message()), None);
    table.remove(id);
    assert_eq!(table.find_reply(&reply_to(&invite, 0, "INVITE").message()), None);
}

#[test]
fn sip_r157_a_reply_of_no_branch_belongs_to_nothing() {
    let mut table = Table::default();
    let options = kit::request("OPTIONS");
    let id = enter(&mut table, &options, "it");
    let find = |table: &Table<_>, index| {
        table.find_reply(&reply_to(&options, index, "OPTIONS").message()).map(|found| found.branch)
    };
    assert_eq!(find(&table, 0), None);
    table.set_branches(id, 2);
    assert_eq!(find(&table, 1), Some(1));
    for index in [2, 0xffff, 0x1_0000, 0x1_0001, u32::MAX] {
        assert_eq!(find(&table, index), None, "{index}");
    }
    let cancel = reply_to(&options, 0, "CANCEL").message();
    assert_eq!(table.find_reply(&cancel), None, "nothing but an INVITE is cancelled");
}

#[test]
fn branches_of_others_are_no_replies() {
    let mut table = Table::default();
    let id = enter(&mut table, &kit::invite(), "it");
    table.set_branches(id, 1);
    let own = String::from_utf8(branch::of(&kit::invite().draft(), 0).to_vec()).expect("text");
    let upper = format!("z9hG4bK{}", own["z9hG4bK".len()..].to_uppercase());
    for other in [
        "",
        "z9hG4bK",
        "z9hG4bKown",
        "z9hG4bK..",
        "z9hG4bK...",
        "z9hG4bK1.2.3",
        &own[7..],
        &own[..own.len() - 2],
        &own[..own.len() - 1],
        &format!("{own}.0"),
        &format!("{own}x"),
        &format!("z9hG4bK00000{}", &own[7..]),
        &upper,
    ] {
        let reply = kit::reply(200, "OK")
            .set("Via", &format!("SIP/2.0/UDP 127.0.0.1;branch={other}"))
            .message();
        assert_eq!(table.find_reply(&reply), None, "{other}");
    }
}

#[test]
fn a_cancel_that_was_forwarded_has_replies_of_its_own() {
    let mut table = Table::default();
    let (invite, cancel) = (kit::invite(), kit::request("CANCEL"));
    let b = enter(&mut table, &cancel, "cancel");
    table.set_branches(b, 1);
    let reply = reply_to(&invite, 0, "CANCEL").message();
    assert_eq!(table.find_reply(&reply), Some(Found { id: b, branch: 0, of_cancel: false }));
    let a = enter(&mut table, &invite, "invite");
    table.set_branches(a, 1);
    assert_eq!(table.find_reply(&reply).map(|found| found.id), Some(b));
    table.set_branches(b, 0);
    assert_eq!(table.find_reply(&reply), Some(Found { id: a, branch: 0, of_cancel: true }));
}

#[test]
fn a_request_with_the_own_branch_of_another_takes_none_of_its_replies() {
    let mut table = Table::default();
    let invite = kit::invite();
    let first = enter(&mut table, &invite, "first");
    table.set_branches(first, 1);
    let second = table.insert(&invite.draft_from(kit::tcp_from(kit::CALLER, 1)), "second");
    table.set_branches(second, 1);
    let reply = reply_to(&invite, 0, "INVITE").message();
    assert_eq!(table.find_reply(&reply).map(|found| found.id), Some(first));
    table.remove(second);
    assert_eq!(table.find_reply(&reply).map(|found| found.id), Some(first));
    assert_eq!(table.find(&invite.message(), Udp), Some(first));
}

#[test]
fn an_id_names_one_transaction_and_no_later_one() {
    let mut table = Table::default();
    let first = enter(&mut table, &kit::invite(), "first");
    assert_eq!(table.remove(first), Some("first"));
    assert!(table.is_empty());
    let second = enter(&mut table, &kit::invite(), "second");
    assert_eq!(first.place, second.place, "the place is used again");
    assert_eq!(table.get(first), None);
    assert_eq!(table.remove(first), None);
    table.set_branches(first, 1);
    table.set_ended(first, Ended::Failure);
    assert_eq!(table.find_reply(&reply_to(&kit::invite(), 0, "INVITE").message()), None);
    assert_eq!(table.find_acked(&kit::request("ACK").message(), Udp), None);
    assert_eq!(table.iter().collect::<Vec<_>>(), [(second, &"second")]);
}

#[test]
fn keys_are_compared_where_hashes_collide() {
    // Every entry under the hash of one: what is found is told by the keys alone.
    let mut table = Table::default();
    let ids: Vec<_> = (0..200).map(|id| enter(&mut table, &invite_of(id), "it")).collect();
    let hash = table.hasher.hash_one(&*table.entries[7].key);
    table.requests.clear();
    for id in &ids {
        table.requests.insert_unique(hash, id.place, |_| hash);
    }
    assert_eq!(table.find(&invite_of(7).message(), Udp), Some(ids[7]));
}

#[test]
fn hashes_have_a_secret_key() {
    let hash = |table: &Table<()>| table.hasher.hash_one("z9hG4bKc1");
    assert_ne!(hash(&Table::default()), hash(&Table::default()));
}

#[test]
fn a_hundred_thousand_entries_in_constant_time_and_few_bytes() {
    const MANY: u32 = 100_000;
    // As callers make them: a host of 13 characters, a branch of 32 behind the cookie.
    let numbered = |number: u32| {
        let branch = format!("z9hG4bK{number:032x}");
        via(&kit::invite(), &format!("SIP/2.0/UDP 198.51.100.77:5060;branch={branch}"))
    };
    let first = super::key(&numbered(0).message(), b"", Udp, Method::Invite);
    let mut table = Table::default();
    let mut ids = Vec::new();
    let mut bytes = 0;
    for number in 0..MANY {
        let mut key = first.to_vec();
        let digits = key.len() - 8..;
        key[digits].copy_from_slice(format!("{number:08x}").as_bytes());
        bytes += key.len() + 16;
        let own = OwnBranch { hash: 7, md5: u128::from(number).to_be_bytes() };
        let id = table.enter(key.into(), own, [0; 2], 0_u64);
        table.set_branches(id, 1);
        ids.push(id);
    }
    assert_eq!(table.len(), MANY as usize);
    bytes += size_of::<super::Entry<u64>>() * table.entries.capacity()
        + (size_of::<u32>() + 1) * (table.requests.capacity() + table.replies.capacity()) * 8 / 7;
    let each = bytes / MANY as usize;
    assert!(each <= 250, "{each} bytes an entry");

    for number in (0..MANY).step_by(7_777) {
        let id = ids[number as usize];
        assert_eq!(table.find(&numbered(number).message(), Udp), Some(id));
        let own = format!("SIP/2.0/UDP 127.0.0.1;branch=z9hG4bK7.{number:032x}.0");
        let reply = kit::reply(200, "OK").set("Via", &own).message();
        assert_eq!(table.find_reply(&reply).map(|found| found.id), Some(id));
    }
    assert_eq!(table.find(&numbered(MANY).message(), Udp), None);
    for id in ids {
        assert_eq!(table.remove(id), Some(0));
    }
    assert!(table.is_empty() && table.requests.is_empty() && table.replies.is_empty());
    assert!(table.entries.capacity() <= super::KEPT, "what it had grown to is given back");
}

/// What the property does to a table.
#[derive(Clone, Debug)]
enum Step {
    Enter(u8),
    Remove(u8),
    End(u8, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..12_u8).prop_map(Step::Enter),
        (0..12_u8).prop_map(Step::Remove),
        (0..12_u8, any::<bool>()).prop_map(|(id, failed)| Step::End(id, failed)),
    ];
    proptest::collection::vec(step, 0..60)
}

/// Twelve INVITEs with and without the cookie; for each a reply and an ACK.
static CALLS: LazyLock<Vec<[Draft; 3]>> = LazyLock::new(|| {
    let call = |id: u8| {
        let mut invite = invite_of(id.into());
        if !id.is_multiple_of(2) {
            invite = invite.set("Via", "SIP/2.0/UDP 127.0.0.1:15060");
        }
        let reply = reply_to(&invite, 0, "INVITE");
        [invite.draft(), reply.draft(), invite.method("ACK").draft()]
    };
    (0..12).map(call).collect()
});

proptest! {
    #[test]
    fn a_table_finds_what_is_in_it_and_nothing_else(steps in steps()) {
        let mut table = Table::default();
        let mut model: [Option<(TransactionId, bool)>; 12] = [None; 12];
        for step in steps {
            match step {
                Step::Enter(id) if model[usize::from(id)].is_none() => {
                    let entered = table.insert(&CALLS[usize::from(id)][0], id);
                    table.set_branches(entered, 1);
                    model[usize::from(id)] = Some((entered, false));
                }
                Step::Enter(_) => {}
                Step::Remove(id) => {
                    if let Some((entered, _)) = model[usize::from(id)].take() {
                        prop_assert_eq!(table.remove(entered), Some(id));
                    }
                }
                Step::End(id, failed) => {
                    if let Some((entered, has_failed)) = &mut model[usize::from(id)] {
                        table.set_ended(*entered, if failed { Ended::Failure } else { Ended::No });
                        *has_failed = failed;
                    }
                }
            }
            prop_assert_eq!(table.iter().count(), table.len());
        }
        for ([invite, reply, ack], expected) in CALLS.iter().zip(&model) {
            let entered = expected.map(|(entered, _)| entered);
            prop_assert_eq!(table.find(&invite.message, Udp), entered);
            let reply = table.find_reply(&reply.message);
            prop_assert_eq!(reply.map(|found| found.id), entered);
            let acked = expected.filter(|(_, failed)| *failed).map(|(entered, _)| entered);
            prop_assert_eq!(table.find_acked(&ack.message, Udp), acked);
        }
        prop_assert_eq!(table.len(), model.iter().flatten().count());
        let acks = model.iter().enumerate().filter(|(id, entry)| {
            id % 2 == 1 && entry.is_some_and(|(_, failed)| failed)
        });
        prop_assert_eq!(table.acks.len(), acks.count());
    }
}
