//! The body and its length, `msg_apply_changes`, bounds, and any edits at random.

use proptest::prelude::*;

use super::*;
use crate::sip::lumps::{Insert, Marker};

#[test]
fn sip_r100_content_length_follows_an_edited_body() {
    let mut draft = message().draft();
    assert_eq!(subst_body(&mut draft, &expression("/l/LL/g")), 1);
    let wanted = ["-Content-Length: 11", "-hello alice", "+Content-Length: 14", "+heLLLLo aLLice"];
    assert_eq!(changes(&draft), wanted);
    assert_eq!(subst_body(&mut draft, &expression("/LLLL/l/")), 1);
    assert_eq!(replace_body(&mut draft, &pattern("HELO"), b"\\0"), 1);
    assert_eq!(subst_body(&mut draft, &expression("/tag/x/")), -1);
    assert_eq!(replace_body(&mut draft, &pattern("tag"), b"x"), -1);
    assert_eq!(changes(&draft)[2..], ["+Content-Length: 9", "+\\0 aLLice"]);
}

#[test]
fn sip_r100_compact_names_and_repeated_lengths() {
    let text = message().without("Content-Length").line("l: 11");
    let mut draft = text.draft();
    assert_eq!(subst_body(&mut draft, &expression("/hello/hi/")), 1);
    assert_eq!(changes(&draft), ["-l: 11", "-hello alice", "+l: 8", "+hi alice"]);
    let mut draft = text.line("Content-Length:   11").draft();
    assert_eq!(subst_body(&mut draft, &expression("/hello/hi/")), 1);
    let wanted = ["-l: 11", "-Content-Length:   11", "-hello alice", "+l: 8", "+hi alice"];
    assert_eq!(changes(&draft), wanted);
}

#[test]
fn sip_r018_a_missing_content_length_stays_missing_over_udp() {
    let mut draft = message().without("Content-Length").draft();
    assert_eq!(subst_body(&mut draft, &expression("/hello/hi/")), 1);
    assert_eq!(changes(&draft), ["-hello alice", "+hi alice"]);
    let wrong = message().set("Content-Length", "3").draft();
    assert_eq!(changes(&wrong), Vec::<String>::new());
}

#[test]
fn sip_r159_content_length_is_added_and_corrected_towards_tcp() {
    let missing = message().without("Content-Length").draft();
    assert_eq!(changes_by(&missing, Transport::Tcp), ["+Content-Length: 11"]);
    let wrong = message().set("Content-Length", "3").draft();
    let wanted = ["-Content-Length: 3", "+Content-Length: 11"];
    assert_eq!(changes_by(&wrong, Transport::Tcp), wanted);
    let right = message().draft();
    assert_eq!(changes_by(&right, Transport::Tcp), Vec::<String>::new());
    let mut removed = message().draft();
    assert_eq!(remove(&mut removed, b"Content-Length"), 1);
    assert_eq!(changes_by(&removed, Transport::Tcp), Vec::<String>::new(), "the same line, added");
    assert_eq!(changes(&removed), ["-Content-Length: 11"]);
    let mut edited = message().draft();
    assert_eq!(subst_hf(&mut edited, b"Content-Length", &expression("/1/7/g"), b"a"), 1);
    assert_eq!(changes(&edited), ["-Content-Length: 11", "+Content-Length: 77"]);
    assert_eq!(changes_by(&edited, Transport::Tcp), Vec::<String>::new());
}

#[test]
fn sip_r160_a_reply_towards_tcp_gets_its_content_length() {
    let reply = kit::reply(200, "OK").without("Content-Length").draft();
    assert_eq!(changes_by(&reply, Transport::Tcp), ["+Content-Length: 0"]);
    assert_eq!(changes(&reply), Vec::<String>::new());
}

#[test]
fn the_length_is_never_stated_twice() {
    let mut draft = message().draft();
    assert_eq!(append(&mut draft, b"Content-Length: 5\r\n"), 1);
    assert_eq!(changes(&draft), Vec::<String>::new());
    assert_eq!(remove(&mut draft, b"Content-Length"), 1);
    assert_eq!(insert(&mut draft, b"X: 1\r\nl: 5\r\n 5\r\nY: 2\r\n"), 1);
    for transport in [Transport::Udp, Transport::Tcp] {
        let out = out_by(&draft, transport);
        assert_eq!(kit::lines(&out, "Content-Length"), ["Content-Length: 11"]);
        assert_eq!(kit::lines(&out, "X").len() + kit::lines(&out, "Y").len(), 2);
        assert!(kit::lines(&out, "l").is_empty());
    }
}

#[test]
fn sip_r100_a_new_body_brings_type_and_length() {
    let mut draft = message().draft();
    assert_eq!(set_body(&mut draft, b"new body", b"text/html"), 1);
    let out_first = out(&draft);
    assert_eq!(kit::lines(&out_first, "Content-Type"), ["Content-Type: text/html"]);
    assert_eq!(kit::value(&out_first, "Content-Length"), "8");
    assert!(out_first.ends_with("\r\n\r\nnew body"));
    assert_eq!(set_body(&mut draft, b"second", b"a/b"), 1);
    let out_second = out(&draft);
    assert_eq!(kit::lines(&out_second, "Content-Type"), ["Content-Type: a/b"]);
    assert!(out_second.ends_with("\r\n\r\nsecond"));
    assert_eq!(subst_body(&mut draft, &expression("/second/third one/")), 1);
    assert_eq!(kit::value(&out(&draft), "Content-Length"), "9");
    assert_eq!(set_body(&mut draft, b"", b"a/b"), -1);
    assert_eq!(set_body(&mut draft, b"x", b""), -1);
    kit::parse(out(&draft));

    let mut same = message().draft();
    assert_eq!(set_body(&mut same, b"xyz", b"text/plain"), 1);
    assert_eq!(
        changes(&same),
        ["-Content-Length: 11", "-hello alice", "+Content-Length: 3", "+xyz"]
    );

    let mut bare = options().without("Content-Length").draft();
    assert_eq!((has_body(&bare), has_body(&same)), (-1, 1));
    assert_eq!(set_body(&mut bare, b"xyz", b"a/b"), 1);
    let wanted =
        options().without("Content-Length").line("Content-Type: a/b").line("Content-Length: 3");
    assert_eq!(out(&bare), wanted.body(b"xyz").text());
    // Another one takes its place, though there is nothing else that both stand for.
    assert_eq!(set_body(&mut bare, b"four", b"a/b"), 1);
    let out_again = out(&bare);
    assert!(out_again.ends_with("\r\n\r\nfour"), "{out_again}");
    assert_eq!(kit::value(&out_again, "Content-Length"), "4");
    // An empty body gets one, and then another.
    let mut empty = options().draft();
    assert_eq!(set_body(&mut empty, b"new", b"a/b"), 1);
    assert_eq!(set_body(&mut empty, b"newer", b"a/c"), 1);
    let out_empty = out(&empty);
    assert_eq!(kit::value(&out_empty, "Content-Length"), "5");
    assert!(out_empty.ends_with("\r\n\r\nnewer"), "{out_empty}");
}

#[test]
fn a_body_without_its_length_is_none_to_scripts() {
    assert_eq!(has_body(&message().draft()), 1);
    assert_eq!(has_body(&message().without("Content-Length").draft()), -1);
    assert_eq!(has_body(&options().draft()), -1);
}

#[test]
fn changes_become_the_message_that_is_read() {
    let mut draft = message().draft();
    append(&mut draft, b"N: new\r\n");
    remove(&mut draft, b"X-A");
    subst_body(&mut draft, &expression("/hello/hi/"));
    draft.uri = Some("sip:other@127.0.0.1".into());
    let top = head(&draft.message);
    let lump = draft.lumps.anchor(top);
    let route = |text: &'static str| Insert::Bytes(Bytes::from_static(text.as_bytes()));
    draft.lumps.before(
        lump,
        [route("Record-Route: <sip:"), Insert::Marker(Marker::SendingAll), route(">\r\n")],
    );
    assert_eq!(is_present(&draft, b"N"), -1);
    let before = out(&draft);
    assert_eq!(apply_changes(&mut draft, &Limits::default()), 1);
    assert_eq!(is_present(&draft, b"N"), 1);
    assert_eq!(get(&draft, b"N"), Some(&b"new"[..]));
    assert_eq!(is_present(&draft, b"X-A"), -1);
    assert_eq!(draft.message.body(), b"hi alice");
    assert_eq!(draft.message.content_length(), ContentLength::Bytes(8));
    assert_eq!(draft.uri(), b"sip:other@127.0.0.1");
    assert_eq!(draft.received_uri(), b"sip:bob@127.0.0.1:15071");
    assert_eq!(out(&draft), before.replace("bob@127.0.0.1:15071", "other@127.0.0.1"));
    assert!(out(&draft).contains("Record-Route: <sip:127.0.0.1>\r\n"));
}

#[test]
fn what_is_no_message_afterwards_is_left_alone() {
    let mut draft = message().draft();
    assert_eq!(remove(&mut draft, b"From"), 1);
    assert_eq!(apply_changes(&mut draft, &Limits::default()), -1);
    assert_eq!(is_present(&draft, b"From"), 1);
    assert!(!draft.lumps.is_empty());
    let mut draft = message().draft();
    assert_eq!(append(&mut draft, b"A: 1"), 1);
    let limits = Limits { message_bytes: draft.message.bytes().len(), ..Limits::default() };
    assert_eq!(apply_changes(&mut draft, &limits), -1);
}

#[test]
fn edits_are_bounded_in_number_and_bytes() {
    let mut draft = message().draft();
    let line = [b"X-Long: ".as_slice(), &[b'x'; 1000]].concat();
    let lines = (0..10_000).filter(|_| append(&mut draft, &line) == 1).count();
    assert_eq!(lines, Lumps::MAX_BYTES / (line.len() + 2));
    let mut draft = message().draft();
    let lines = (0..20_000).filter(|_| insert_before(&mut draft, b"X: 1", b"X-A") == 1).count();
    assert_eq!(lines, Lumps::MAX_EDITS);
    assert_eq!(kit::lines(&out(&draft), "X").len(), lines);
    let mut draft = message().draft();
    let mut more = 0;
    while subst_body(&mut draft, &expression("/.*/\\0\\0/")) == 1 {
        more += 1;
    }
    assert!(more > 10, "{more} times");
    assert!(out(&draft).len() < Lumps::MAX_BYTES + 1000);
}

#[test]
fn thousands_of_edits_of_one_body_are_done_at_once() {
    let mut draft = message().body(&b"ab".repeat(4_000)).draft();
    for text in ["/a/b/g", "/bb/a/g", "/a/cc/g", "/c/d/g"] {
        assert_eq!(subst_body(&mut draft, &expression(text)), 1, "{text}");
    }
    assert!(out(&draft).ends_with(&"d".repeat(8_000)));
    assert_eq!(kit::value(&out(&draft), "Content-Length"), "8000");
}

/// An edit at random.
#[derive(Clone, Debug)]
enum Edit {
    Append(String),
    Insert(String),
    After(String, String),
    Before(String, String),
    Remove(String),
    RemoveMatching(String),
    Subst(String),
    SubstHf(String, String, &'static str),
    SubstBody(String),
    ReplaceBody(String, String),
    SetBody(String),
    Apply,
}

fn edit() -> impl Strategy<Value = Edit> {
    // Never what every message has to have.
    let names = ["User-Agent", "X-A", "Subject", "Contact", "m", "Content-Type", "Date", "Nope"];
    let name = || proptest::sample::select(names.map(str::to_owned).to_vec());
    // Some are lines, some are not.
    let line = "Y-[A-Z]{1,3}(: [a-z]{0,3}(\r\n( [a-z]|Y: [a-z]|))?)?(\r\n)?";
    let patterns = [
        "PBX", "a", "one", "e", "^X", "^[US]", "o.*", "[^o]*", "\r\n", "$", "^.*$", "ol", ": |.",
        "X?",
    ];
    let replacements = ["", "x", "\\0\\0", "y\\r\\nZ: 1", "\\r\\n", "\\n", "\\r", " ", ":"];
    let replacement = move || proptest::sample::select(replacements.to_vec());
    let expression = move || {
        (proptest::sample::select(patterns.to_vec()), replacement(), "g?i?s?")
            .prop_map(|(pattern, text, flags)| format!("/{pattern}/{text}/{flags}"))
    };
    let line_expression = (replacement(), "g?").prop_map(|(text, flags)| {
        // Lines that every message has to have stay out of this.
        format!("/X-A|PBX|alice folded|hello|^Subj.*/{text}/{flags}")
    });
    prop_oneof![
        line.prop_map(Edit::Append),
        line.prop_map(Edit::Insert),
        (line, name()).prop_map(|(line, name)| Edit::After(line, name)),
        (line, name()).prop_map(|(line, name)| Edit::Before(line, name)),
        name().prop_map(Edit::Remove),
        proptest::sample::select(vec!["^X", "^M$", "agent", "zz"])
            .prop_map(|text| Edit::RemoveMatching(text.to_owned())),
        line_expression.prop_map(Edit::Subst),
        (name(), expression(), proptest::sample::select(vec!["a", "f", "l"]))
            .prop_map(|(name, text, flags)| Edit::SubstHf(name, text, flags)),
        expression().prop_map(Edit::SubstBody),
        (proptest::sample::select(vec!["l+", "a", ".*"]), "[a-z\r\n]{0,4}")
            .prop_map(|(pattern, text)| Edit::ReplaceBody(pattern.to_owned(), text)),
        "[a-z\r\n]{1,6}".prop_map(Edit::SetBody),
        Just(Edit::Apply),
    ]
}

impl Edit {
    fn run(&self, draft: &mut Draft) -> i64 {
        match self {
            Self::Append(text) => append(draft, text.as_bytes()),
            Self::Insert(text) => insert(draft, text.as_bytes()),
            Self::After(text, name) => append_after(draft, text.as_bytes(), name.as_bytes()),
            Self::Before(text, name) => insert_before(draft, text.as_bytes(), name.as_bytes()),
            Self::Remove(name) => remove(draft, name.as_bytes()),
            Self::RemoveMatching(text) => remove_matching(draft, &pattern(text)),
            Self::Subst(text) => subst(draft, &expression(text)),
            Self::SubstHf(name, text, flags) => {
                subst_hf(draft, name.as_bytes(), &expression(text), flags.as_bytes())
            }
            Self::SubstBody(text) => subst_body(draft, &expression(text)),
            Self::ReplaceBody(text, with) => replace_body(draft, &pattern(text), with.as_bytes()),
            Self::SetBody(text) => set_body(draft, text.as_bytes(), b"a/b"),
            Self::Apply => apply_changes(draft, &Limits::default()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn case_s15_any_edits_leave_a_message(edits in proptest::collection::vec(edit(), 1..12)) {
        let mut draft = message().draft();
        for edit in &edits {
            let before = out(&draft);
            if edit.run(&mut draft) == -1 {
                prop_assert_eq!(before, out(&draft), "refused, but not without effect: {:?}", edit);
            }
        }
        for transport in [Transport::Udp, Transport::Tcp] {
            let out = out_by(&draft, transport);
            let parsed = kit::parse(out.clone());
            // The body is what Content-Length says.
            let length = parsed.body().len() as u64;
            prop_assert!(matches!(parsed.content_length(), ContentLength::Missing)
                || parsed.content_length() == ContentLength::Bytes(length), "{}", out);
            // What no edit can have touched is there byte for byte, in order.
            let lines = [
                "MESSAGE sip:bob@127.0.0.1:15071 SIP/2.0\r\n",
                "Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKl2\r\n",
                "Max-Forwards: 70\r\n",
                "From: <sip:alice@127.0.0.1>;tag=a1\r\n",
                "To: <sip:bob@127.0.0.1>\r\n",
                "Call-ID: l2@127.0.0.1\r\n",
                "CSeq: 1 MESSAGE\r\n",
            ];
            let mut rest = out.as_str();
            for line in lines {
                let at = rest.find(line);
                prop_assert!(at.is_some(), "{} is not in {}", line, out);
                rest = &rest[at.unwrap_or_default() + line.len()..];
            }
        }
    }

    /// The list against the same edits of a plain text.
    #[test]
    fn a_view_is_what_earlier_edits_made(
        steps in proptest::collection::vec(proptest::collection::vec((0_usize..6, 1_usize..5, "[A-C]{0,3}"), 1..4), 1..8),
    ) {
        let source = b"0123456789abcdefghij";
        let mut model = source.to_vec();
        let mut lumps = Lumps::default();
        for step in steps {
            let view = lumps.view(source, 0..source.len());
            prop_assert_eq!(view.text.as_ref(), &model[..]);
            let mut edits = Vec::new();
            let mut at = 0;
            for (gap, length, text) in step {
                let (from, to) = (at + gap, at + gap + length);
                if to > model.len() {
                    break;
                }
                edits.push((from..to, text.into_bytes()));
                at = to;
            }
            prop_assert!(lumps.splice(&view, &edits));
            model = replaced(&model, &edits);
        }
        let text = lumps.text(source, 0..source.len());
        prop_assert_eq!(text.as_ref(), &model[..]);
    }
}
