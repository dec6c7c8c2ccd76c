//! S-15: edits of headers never make a message that is none.

use crate::kit::{Scene, Setup, fresh, plan};
use crate::raw::{Sip, Udp};

const A: &str = "KSR.textops.remove_hf_re(\"^User-A\")\nKSR.hdr.remove(\"User-Agent\")\n";
const B: &str =
    "KSR.hdr.remove(\"To\")\nKSR.hdr.append_after(\"To: <sip:x@127.0.0.1>\\r\\n\", \"From\")\n";
const C: &str =
    "KSR.textops.subst_hf(\"Contact\", \"/10\\\\.0\\\\.0\\\\.9:5060/127.0.0.1:15060/\", \"a\")
KSR.hdr.remove(\"Contact\")
KSR.hdr.append(\"Contact: <sip:p@127.0.0.1:5060>\\r\\n\")\n";
const D: &str =
    "KSR.hdr.append_after(\"X-New: 1\\r\\n\", \"CSeq\")\nKSR.hdr.remove(\"User-Agent\")\n";

fn options(alice: &Udp, bob: &Udp) -> String {
    format!(
        "OPTIONS sip:bob@{} SIP/2.0\r\nVia: {}\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@127.0.0.1>;tag=a1\r\nTo: <sip:bob@127.0.0.1>\r\nCall-ID: l1@127.0.0.1\r\n\
         CSeq: 1 OPTIONS\r\nUser-Agent: PBX\r\nDate: Mon, 25 Nov 2013 17:47:25 GMT\r\n\
         Contact: <sip:alice@10.0.0.9:5060>\r\nContent-Length: 0\r\n\r\n",
        bob.at(),
        alice.via("l1"),
    )
}

/// What Bob gets, without the own Via, and what was sent.
fn edited(edits: &str) -> (String, String) {
    let scene = Scene::new(&format!("KSR.maxfwd.process_maxfwd(70)\n{edits}SEND()"));
    let sent = options(&scene.alice, &scene.bob);
    let came = scene.pass(&sent);
    let at =
        came.lines().iter().position(|line| line.starts_with(&scene.own_via())).expect("a Via");
    (String::from_utf8(came.without_line(at)).expect("text"), sent.replace("ds: 70", "ds: 69"))
}

#[test]
fn case_s15_edits_one_at_a_time() {
    let (came, sent) = edited("");
    assert_eq!(came, sent);
    let (came, sent) = edited(A);
    assert_eq!(came, sent.replace("User-Agent: PBX\r\n", ""));
    let (came, sent) = edited(B);
    assert_eq!(came, sent.replace("To: <sip:bob@", "To: <sip:x@"));
    let (came, sent) = edited(C);
    let without = sent.replace("Contact: <sip:alice@10.0.0.9:5060>\r\n", "");
    let last = "Content-Length: 0\r\nContact: <sip:p@127.0.0.1:5060>\r\n";
    assert_eq!(came, without.replace("Content-Length: 0\r\n", last));
    let (came, sent) = edited(D);
    assert_eq!(came, sent.replace("User-Agent: PBX\r\n", "X-New: 1\r\n"));
}

#[test]
fn case_s15_edits_together() {
    // In any order of the four.
    for edits in [[A, B, C, D], [D, C, B, A], [B, D, A, C], [C, A, D, B]] {
        let (came, sent) = edited(&edits.concat());
        let wanted = sent
            .replace("To: <sip:bob@", "To: <sip:x@")
            .replace("User-Agent: PBX\r\n", "X-New: 1\r\n")
            .replace("Contact: <sip:alice@10.0.0.9:5060>\r\n", "")
            .replace(
                "Content-Length: 0\r\n",
                "Content-Length: 0\r\nContact: <sip:p@127.0.0.1:5060>\r\n",
            );
        assert_eq!(came, wanted);
    }
}

#[test]
fn case_s15_a_replaced_value_goes_with_its_line() {
    let (came, sent) = edited(
        "KSR.textops.subst_hf(\"Date\", \"/Mon/Tue/\", \"a\")\nKSR.textops.subst_hf(\"Date\", \"/Tue/Wed/\", \"a\")\n\
         KSR.hdr.remove(\"Date\")\n",
    );
    assert_eq!(came, sent.replace("Date: Mon, 25 Nov 2013 17:47:25 GMT\r\n", ""));
    // The second edit sees the first.
    let (came, sent) = edited(
        "KSR.textops.subst_hf(\"Date\", \"/Mon/Tue/\", \"a\")\nKSR.textops.subst_hf(\"Date\", \"/Tue/Wed/\", \"a\")\n",
    );
    assert_eq!(came, sent.replace("Mon,", "Wed,"));
    // What is removed is gone for all that follows.
    let (came, sent) = edited(
        "KSR.hdr.remove(\"Date\")\nlocal again = KSR.hdr.remove(\"Date\")\n\
         local subst = KSR.textops.subst_hf(\"Date\", \"/Mon/Tue/\", \"a\")\n\
         KSR.hdr.append(\"X-Results: \" .. again .. subst .. \"\\r\\n\")\n",
    );
    let wanted = sent.replace("Date: Mon, 25 Nov 2013 17:47:25 GMT\r\n", "");
    assert_eq!(came, wanted.replace("\r\n\r\n", "\r\nX-Results: -1-1\r\n\r\n"));
}

#[test]
fn case_s15_a_line_that_was_added_is_never_touched_by_what_follows() {
    let (came, sent) = edited(
        "KSR.hdr.append(\"Date: mine\\r\\n\")\nKSR.hdr.remove(\"Date\")\n\
         KSR.hdr.append_after(\"X-A: 1\\r\\n\", \"Date\")\n",
    );
    assert!(came.contains("\r\nDate: mine\r\n"), "{came}");
    assert!(!came.contains("Date: Mon"), "{came}");
    assert_eq!(came.lines().count(), sent.lines().count() + usize::from(came.contains("X-A: 1")));
}

#[test]
fn case_s15_lines_without_an_end_and_with_too_much_do_no_harm() {
    // What is no header line is refused or becomes one: never two, never half a message.
    for line in [
        "X-No-End: 1",
        "X-End: 1\\n",
        "X-Two: 1\\r\\n\\r\\n",
        "X-Two: 1\\r\\nX-More: 2\\r\\n",
        "nothing",
        "",
    ] {
        let (came, sent) = edited(&format!("pcall(KSR.hdr.append, \"{line}\")\n"));
        let came = Sip(came.into_bytes());
        let (before, added) = (sent.trim_end().lines().count(), came.lines().len());
        assert!((before..=before + 2).contains(&added), "{line:?}: {came:?}");
        assert!(came.body().is_empty(), "{line:?}: {came:?}");
        let named = |line: &String| line.contains(':') && !line.starts_with(':');
        assert!(came.lines()[1..].iter().all(named), "{line:?}: {came:?}");
        let kept = |line: &str| came.lines().contains(&line.to_owned());
        assert!(sent.trim_end().lines().all(kept), "{line:?}: {came:?}");
    }
}

/// Sets of edits, in an order that a seed gives.
#[test]
fn case_s15_any_set_of_edits_gives_a_well_formed_message() {
    let edits = [
        "KSR.textops.remove_hf_re('^User-A')",
        "KSR.hdr.remove('User-Agent')",
        "KSR.hdr.remove('To')",
        "KSR.hdr.append_after('To: <sip:x@127.0.0.1>\\r\\n', 'From')",
        "KSR.textops.subst_hf('Contact', '/10.0.0.9:5060/127.0.0.1:15060/', 'a')",
        "KSR.hdr.remove('Contact')",
        "KSR.hdr.append('Contact: <sip:p@127.0.0.1:5060>\\r\\n')",
        "KSR.hdr.append_after('X-New: 1\\r\\n', 'CSeq')",
        "KSR.hdr.insert_before('X-Old: 1\\r\\n', 'Date')",
        "KSR.hdr.insert('X-Top: 1\\r\\n')",
        "KSR.textops.subst('/Date: .*/Date: never/')",
        "KSR.textops.subst_hf('Date', '/.*//', 'a')",
        "KSR.textops.set_body('hello', 'text/plain')",
        "KSR.rr.record_route()",
        "KSR.force_rport()",
        "KSR.textopsx.msg_apply_changes()",
        "KSR.nathelper.fix_nated_contact()",
    ];
    let bob = Udp::new();
    // The set of each message comes with it.
    let mut lua = "KSR.maxfwd.process_maxfwd(70)\nlocal edits = {\n".to_owned();
    for edit in edits {
        lua.extend(["function() ", edit, " end,\n"]);
    }
    lua += "}\nfor n in KSR.hdr.get('X-Edits'):gmatch('%d+') do edits[tonumber(n)]() end\nSEND()";
    let proxy = Setup::default().script(&plan(bob.at(), &lua));
    let alice = Udp::new();
    let mut seed = 7_u64;
    for _ in 0..300 {
        let mut set = vec![];
        for _ in 0..6 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            set.push((seed >> 33) as usize % edits.len() + 1);
        }
        let line = format!("X-Edits: {set:?}\r\n");
        let sent = options(&alice, &bob)
            .replace("Date", &format!("{line}Date"))
            .replace("bKl1", &format!("bK{}", fresh("l1")));
        alice.send(proxy.udp(), sent);
        let came = bob.receive();
        let lines = came.lines();
        assert_eq!(lines[0], format!("OPTIONS sip:bob@{} SIP/2.0", bob.at()), "{set:?}");
        for line in &lines[1..] {
            let (name, _) = line.split_once(':').unwrap_or_else(|| panic!("{set:?}: {came:?}"));
            assert!(
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'),
                "{set:?}: {came:?}"
            );
        }
        // What no edit is about stays as it was.
        for line in [
            "Call-ID: l1@127.0.0.1",
            "CSeq: 1 OPTIONS",
            "Max-Forwards: 69",
            "From: <sip:alice@127.0.0.1>;tag=a1",
        ] {
            assert!(lines.contains(&line.to_owned()), "{set:?}: {line} in {came:?}");
        }
        assert_eq!(came.one("X-Edits"), format!("{set:?}"));
        let body: &[u8] = if set.contains(&13) { b"hello" } else { b"" };
        assert_eq!(came.body(), body, "{set:?}: {came:?}");
        assert_eq!(came.one("Content-Length"), body.len().to_string(), "{set:?}: {came:?}");
        assert!(
            !proxy.service.log.whole().contains("error"),
            "{set:?}: {}",
            proxy.service.log.whole()
        );
    }
}
