//! Each function by itself, and one behind the other.

use super::*;

/// The edits of the case, by their letters.
fn edit(draft: &mut Draft, letter: char) {
    match letter {
        'a' => {
            let was_there = is_there(draft, "User-Agent");
            assert_eq!(remove_matching(draft, &pattern("^User-A")), told(was_there));
            assert_eq!(remove(draft, b"User-Agent"), -1);
        }
        'b' => {
            assert_eq!(remove(draft, b"To"), 1);
            assert_eq!(append_after(draft, b"To: <sip:x@127.0.0.1>\r\n", b"From"), 1);
        }
        'c' => {
            let host = expression("/@[^>]*/@127.0.0.1:15060/");
            assert_eq!(subst_hf(draft, b"Contact", &host, b"a"), 1);
            assert_eq!(remove(draft, b"Contact"), 1);
            assert_eq!(append(draft, b"Contact: <sip:p@127.0.0.1:5060>\r\n"), 1);
        }
        _ => {
            assert_eq!(append_after(draft, b"X-New: 1\r\n", b"CSeq"), 1);
            assert_eq!(
                told(remove(draft, b"User-Agent") == 1 || !is_there(draft, "User-Agent")),
                1
            );
        }
    }
}

fn is_there(draft: &Draft, name: &str) -> bool {
    !kit::lines(&out(draft), name).is_empty()
}

#[test]
fn case_s15_edits_one_at_a_time() {
    let user_agent = "-User-Agent: PBX";
    for (letter, wanted) in [
        ('a', vec![user_agent]),
        ('b', vec!["-To: <sip:bob@127.0.0.1>", "+To: <sip:x@127.0.0.1>"]),
        ('c', vec!["-Contact: <sip:alice@10.0.0.9:5060>", "+Contact: <sip:p@127.0.0.1:5060>"]),
        ('d', vec![user_agent, "+X-New: 1"]),
    ] {
        let mut draft = options().draft();
        edit(&mut draft, letter);
        assert_eq!(changes(&draft), wanted, "{letter}");
        kit::parse(out(&draft));
    }
}

#[test]
fn case_s15_edits_together() {
    for order in ["abcd", "dcba", "bdac", "cadb"] {
        let mut draft = options().draft();
        for letter in order.chars() {
            edit(&mut draft, letter);
        }
        let wanted = Text::of(
            "OPTIONS sip:bob@127.0.0.1:15071 SIP/2.0
Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKl1
Max-Forwards: 70
From: <sip:alice@127.0.0.1>;tag=a1
To: <sip:x@127.0.0.1>
Call-ID: l1@127.0.0.1
CSeq: 1 OPTIONS
X-New: 1
Date: Mon, 25 Nov 2013 17:47:25 GMT
Content-Length: 0
Contact: <sip:p@127.0.0.1:5060>",
        );
        assert_eq!(out(&draft), wanted.text(), "{order}");
        let forwarded = kit::forwarded(&draft, &kit::own(), 0);
        let own_via = kit::lines(&forwarded, "Via")[0];
        assert_eq!(forwarded.replacen(&format!("{own_via}\r\n"), "", 1), wanted.text(), "{order}");
    }
}

#[test]
fn sip_r099_lines_are_appended_and_inserted_in_the_order_of_the_calls() {
    let mut draft = message().draft();
    assert_eq!(append(&mut draft, b"E1: x\r\n"), 1);
    assert_eq!(insert(&mut draft, b"F1: x\r\n"), 1);
    assert_eq!(append_after(&mut draft, b"A1: x\r\n", b"x-a"), 1);
    assert_eq!(insert_before(&mut draft, b"B1: x\r\n", b"Contact"), 1);
    assert_eq!(append(&mut draft, b"E2: x"), 1);
    assert_eq!(insert(&mut draft, b"F2: x\r\nF3: y\r\n z"), 1);
    assert_eq!(append_after(&mut draft, b"A2: x\r\n", b"X-A"), 1);
    assert_eq!(insert_before(&mut draft, b"F4: x\r\n", b"Nope"), 1);
    assert_eq!(append_after(&mut draft, b"E3: x\r\n", b"Nope"), 1);
    let wanted = message()
        .top("F4: x")
        .top("F3: y\r\n z")
        .top("F2: x")
        .top("F1: x")
        .behind("X-A", "A2: x")
        .behind("X-A", "A1: x")
        .behind("Subject", "B1: x")
        .line("E1: x")
        .line("E2: x")
        .line("E3: x");
    assert_eq!(out(&draft), wanted.text());
}

#[test]
fn sip_r099_a_removed_header_is_gone_and_is_still_read() {
    let mut draft = message().draft();
    assert_eq!(remove(&mut draft, b"x-a"), 1);
    assert_eq!(remove(&mut draft, b"X-A"), -1);
    assert_eq!(remove(&mut draft, b"Contact"), 1);
    assert_eq!(remove(&mut draft, b"Nope"), -1);
    assert_eq!(subst_hf(&mut draft, b"X-A", &expression("/o/0/g"), b"a"), -1);
    assert_eq!(is_present(&draft, b"X-A"), 1);
    assert_eq!(get(&draft, b"contact"), Some(&b"<sip:alice@10.0.0.9:5060>"[..]));
    assert_eq!(is_present(&draft, b"Nope"), -1);
    let wanted = ["-X-A: one", "-X-A: two alice", "-X-A: three", "-m: <sip:alice@10.0.0.9:5060>"];
    assert_eq!(changes(&draft), wanted);
}

#[test]
fn names_are_matched_as_they_are_written() {
    let mut draft = message().draft();
    assert_eq!(remove_matching(&mut draft, &pattern("^Contact")), -1);
    assert_eq!(remove_matching(&mut draft, &pattern("^M$")), 1);
    assert_eq!(remove_matching(&mut draft, &pattern("^x-")), 1);
    assert_eq!(remove_matching(&mut draft, &pattern("^x-")), -1);
}

#[test]
fn sip_r099_subst_hf_takes_all_the_first_or_the_last() {
    let one = |flags: &[u8], text: &str| {
        let mut draft = message().draft();
        let done = subst_hf(&mut draft, b"X-A", &expression(text), flags);
        (done, changes(&draft).join(" "))
    };
    assert_eq!(one(b"f", "/o/0/g"), (1, "-X-A: one +X-A: 0ne".into()));
    assert_eq!(one(b"l", "/e/3/g"), (1, "-X-A: three +X-A: thr33".into()));
    assert_eq!(one(b"l", "/e/3/"), (1, "-X-A: three +X-A: thr3e".into()));
    assert_eq!(one(b"f", "/three/3/"), (-1, String::new()));
    let all = "-X-A: one -X-A: two alice +X-A: 0ne +X-A: tw0 alice";
    for flags in [&b"a"[..], b"", b"z"] {
        assert_eq!(one(flags, "/o/0/"), (1, all.into()));
    }
    assert_eq!(one(b"a", "/$/x/"), (-1, String::new()), "an empty match counts for nothing");
}

#[test]
fn a_later_subst_sees_what_an_earlier_one_made() {
    let mut draft = message().draft();
    let steps = [("/PBX/one PBX two/", 1), ("/PBX/x/", 1), ("/e x t/-/", 1), ("/PBX/y/", -1)];
    for (text, wanted) in steps {
        assert_eq!(subst_hf(&mut draft, b"User-Agent", &expression(text), b"a"), wanted, "{text}");
    }
    assert_eq!(changes(&draft), ["-User-Agent: PBX", "+User-Agent: on-wo"]);
    assert_eq!(subst(&mut draft, &expression("/^User-Agent: on(.*)/Agent: \\1/")), 1);
    assert_eq!(changes(&draft), ["-User-Agent: PBX", "+Agent: -wo"]);
    assert_eq!(remove(&mut draft, b"User-Agent"), 1);
    assert_eq!(changes(&draft), ["-User-Agent: PBX"]);
}

#[test]
fn pieces_of_earlier_texts_stay_around_a_match() {
    let mut draft = message().draft();
    for (text, all) in [
        ("/t/TT/g", "hello alice"),
        ("/^/x/", "empty"),
        ("/T a/t-a/", "one piece and the message"),
        ("/wo/WO/", "the message"),
        ("/TWOt/2/", "two pieces"),
        ("/^.*$/(\\0)/", "everything"),
    ] {
        let done = subst_hf(&mut draft, b"X-A", &expression(text), b"a");
        assert_eq!(
            done == 1,
            !text.contains("T a") && text != "/^/x/" && !text.contains("TWOt"),
            "{all}"
        );
    }
    let lines = kit::lines(&out(&draft), "X-A").join(" ");
    assert_eq!(lines, "X-A: (one) X-A: (TTWO alice) X-A: (TThree)");
}

#[test]
fn sip_r099_subst_is_for_lines_and_the_body() {
    let one = |text: &str| {
        let mut draft = message().draft();
        let done = subst(&mut draft, &expression(text));
        kit::parse(out(&draft));
        (done, changes(&draft).join(" "))
    };
    let from = "-From: <sip:alice@127.0.0.1>;tag=a1 ";
    assert_eq!(one("/alice/carol/"), (1, format!("{from}+From: <sip:carol@127.0.0.1>;tag=a1")));
    assert_eq!(one("#ALICE#c/\\0#i").1, format!("{from}+From: <sip:c/alice@127.0.0.1>;tag=a1"));
    assert_eq!(one("/15071/9/g"), (-1, String::new()), "the start line is not touched");
    let (done, all) = one("/alice/carol/g");
    assert_eq!(done, 1);
    assert!(all.contains("+X-A: two carol") && all.contains("+ carol folded"), "{all}");
    assert!(all.ends_with("+hello carol"), "{all}");
    assert_eq!(one("/^User-Agent:(.*)$/UA:[\\1]/").1, "-User-Agent: PBX +UA:[ PBX]");
    assert_eq!(one("/^User-Agent:.*\r\n//").1, "-User-Agent: PBX");
    assert_eq!(one("/^User-Agent:.*//").1, "-User-Agent: PBX", "no empty line is left");
    assert_eq!(one("/PBX/Z\\r\\nX-New: 1/").1, "-User-Agent: PBX +User-Agent: Z +X-New: 1");
    assert_eq!(one("/zzz/z/g").0, -1);
    assert_eq!(
        one("/<sip:(al)(ice)@([0-9.]+)>/<sip:\\2\\1@\\3;x=\\9>/").1,
        format!("{from}+From: <sip:iceal@127.0.0.1;x=>;tag=a1")
    );
}

#[test]
fn case_s15_what_would_break_a_line_is_refused() {
    let mut draft = message().draft();
    for text in [
        "/PBX/x\\r\\n\\r\\ny/",
        "/PBX/x\\ny/",
        "/PBX/x\\ry/",
        "/^User-Agent/ x/",
        "/PBX\r\n/x/",
        "/^User-Agent://",
    ] {
        assert_eq!(subst(&mut draft, &expression(text)), -1, "{text}");
    }
    for text in
        ["/PBX/x\\r\\n\\r\\ny/", "/PBX/x\\ny/", "/PBX/x\\ry/", "/PBX/x\\r/", "/PBX/x\\r\\n/"]
    {
        assert_eq!(subst_hf(&mut draft, b"User-Agent", &expression(text), b"a"), -1, "{text}");
    }
    for text in [
        "X: 1\r\n\r\nbody",
        "garbage",
        "X: 1\r\ngarbage",
        "X Y: 1",
        ": 1",
        "X: 1\rY: 2",
        "X: \n\n y",
    ] {
        assert_eq!(append(&mut draft, text.as_bytes()), -1, "{text:?}");
        assert_eq!(append_to_reply(&mut draft, text.as_bytes()), -1, "{text:?}");
    }
    assert_eq!(append_after(&mut draft, b"X: 1", b""), -1);
    assert_eq!(insert_before(&mut draft, b"X: 1", b"a b"), -1);
    assert_eq!(set_body(&mut draft, b"x", b"text/plain\r\nX: 1"), -1);
    assert_eq!(changes(&draft), Vec::<String>::new());
    assert!(draft.lumps.is_empty() && draft.reply_lines.is_empty());
    assert_eq!(append(&mut draft, b"  X: 1\n"), 1);
    assert_eq!(append(&mut draft, b""), 1);
    assert_eq!(changes(&draft), ["+X: 1"]);
}

#[test]
fn case_s15_edits_in_any_order_leave_no_piece_behind() {
    // A replacement and a removal, in both orders, by name and by pattern.
    let replace = |draft: &mut Draft| subst_hf(draft, b"User-Agent", &expression("/.*/x/"), b"a");
    let rename = |draft: &mut Draft| subst(draft, &expression("/^User-Agent: P/Agent: /"));
    let by_name = |draft: &mut Draft| remove(draft, b"User-Agent");
    let by_pattern = |draft: &mut Draft| remove_matching(draft, &pattern("agent"));
    let edits: [&dyn Fn(&mut Draft) -> i64; 4] = [&replace, &rename, &by_name, &by_pattern];
    for first in 0..4 {
        for second in 0..4 {
            for third in 0..4 {
                let mut draft = message().draft();
                let order = [first, second, third];
                for step in order {
                    edits[step](&mut draft);
                }
                let is_removed = order.iter().any(|step| *step >= 2);
                assert_eq!(changes(&draft) == ["-User-Agent: PBX"], is_removed, "{order:?}");
                kit::parse(out(&draft));
            }
        }
    }
}

#[test]
fn expressions_that_are_none_are_refused() {
    for text in ["", "/a", "/a/b", "/a/b/x", "\\a\\b\\", "/((/b/g", "nonsense"] {
        let error = Expression::parse(text.as_bytes(), &mut Patterns::new());
        assert!(error.is_err(), "{text}");
    }
}

#[test]
fn pseudo_variables_come_in_as_they_are() {
    let mut expression = expression("/(P)BX/<$ci \\1 \\$x \\\\y>/");
    expression.expand(|text| {
        let text = String::from_utf8(text.to_vec()).expect("text");
        text.replace("$ci", "\\1$x").into_bytes()
    });
    let mut draft = message().draft();
    assert_eq!(subst(&mut draft, &expression), 1);
    assert_eq!(changes(&draft), ["-User-Agent: PBX", "+User-Agent: <\\1$x P $x \\y>"]);
}

#[test]
fn sip_r103_lines_for_replies_are_kept_in_order() {
    let mut draft = options().draft();
    assert_eq!(append_to_reply(&mut draft, b"A: 1\r\n"), 1);
    assert_eq!(append_to_reply(&mut draft, b"B: 2"), 1);
    assert_eq!(append_to_reply(&mut draft, b""), -1);
    assert_eq!(draft.reply_lines, ["A: 1\r\n", "B: 2\r\n"]);
    assert_eq!(changes(&draft), Vec::<String>::new(), "the request is as it was");
    let long = [b"C: ".as_slice(), &[b'x'; 10_000]].concat();
    assert_eq!(append_to_reply(&mut draft, &long), 1);
    assert_eq!(append_to_reply(&mut draft, &long), -1);
}
