//! The addresses of From and To: what `$fu`, `$fn` and their kind set.

use std::ops::Range;

use super::{lines, replaced};
use crate::sip::draft::Draft;
use crate::sip::message::{Name, NameAddr};
use crate::sip::rewrite::{self, Part, is_clean};

/// One of the two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// The one of From.
    From,
    /// The one of To.
    To,
}

/// What takes the place of a part of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A URI, without angle brackets.
    Uri(&'a [u8]),
    /// A part of the URI.
    Part(Part<'a>),
    /// A display name as it is to be written, with its quotes; an empty one takes the name out.
    Display(&'a [u8]),
}

/// Changes the address of From or To as earlier edits left it (contract 3); tag and other parameters
/// stay as they are. False, and nothing is done, where the header was removed, or where the text
/// would not be that part of an address and nothing else.
pub fn change(draft: &mut Draft, party: Party, change: Change<'_>) -> bool {
    let Draft { message, lumps, .. } = draft;
    let name = if party == Party::To { Name::To } else { Name::From };
    let Some(line) = message.first(name).map(|header| header.line) else { return false };
    if lumps.is_deleted(line.clone()) {
        return false;
    }
    let view = lumps.view(message.bytes(), line);
    let value = lines::value(&view.text);
    let Ok(old) = NameAddr::parse(&view.text[value.clone()]) else { return false };
    let uri_at = value.start + old.uri_at.start..value.start + old.uri_at.end;
    let (uri, display) = match change {
        Change::Uri(uri) if is_clean(uri) => (uri.to_vec(), old.display),
        Change::Uri(_) => return false,
        Change::Part(part) => match rewrite::rewrite(old.uri, part) {
            Some(uri) => (uri, old.display),
            None => return false,
        },
        Change::Display(display) if display.iter().any(u8::is_ascii_control) => return false,
        Change::Display(display) => (old.uri.to_vec(), display.trim_ascii()),
    };
    let edits = edits(&view.text, value.start, &old, &uri_at, &uri, display);
    let text = replaced(&view.text, &edits);
    let Ok(new) = NameAddr::parse(&text[lines::value(&text)]) else { return false };
    // What was put in must come out again as that and nothing else.
    let same = (new.uri, new.display, new.params.0) == (&uri[..], display, old.params.0);
    same && lines::is_line(&view.text, &text) && lumps.splice(&view, &edits)
}

/// The edits of a line whose address begins at `start`. What does not change is not touched.
fn edits(
    line: &[u8],
    start: usize,
    old: &NameAddr<'_>,
    uri_at: &Range<usize>,
    uri: &[u8],
    display: &[u8],
) -> Vec<(Range<usize>, Vec<u8>)> {
    let is_bare = start == uri_at.start;
    // Without brackets a parameter of the URI would be one of the header.
    let needs = !display.is_empty() || uri.iter().any(|byte| matches!(byte, b';' | b'?' | b','));
    let [open, close] = if is_bare && needs { ["<", ">"] } else { ["", ""] }.map(str::as_bytes);
    let mut edits = Vec::with_capacity(2);
    if display != old.display {
        let mut end = start + old.display.len();
        let mut text = display.to_vec();
        if display.is_empty() {
            end += line[end..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        } else if old.display.is_empty() {
            text.push(b' ');
        }
        edits.push((start..end, text));
    }
    if uri != old.uri || !open.is_empty() {
        edits.push((uri_at.clone(), [open, uri, close].concat()));
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sip::kit;
    use crate::sip::own::Transport;
    use crate::sip::textops::tests::out_by;

    fn changed(from: &str, changes: &[Change<'_>]) -> (Vec<bool>, String) {
        let mut draft = kit::invite().set("From", from).draft();
        let done = changes.iter().map(|what| change(&mut draft, Party::From, *what)).collect();
        let sent = out_by(&draft, Transport::Udp);
        let line = sent.lines().find(|line| line.starts_with("From:")).unwrap_or_default();
        (done, line.to_owned())
    }

    #[test]
    fn an_address_changes_and_its_parameters_stay() {
        let with_name = "\"Al\"  <sip:alice:pw@a.test:5070;x=y>;tag=a1";
        for (from, what, after) in [
            (with_name, Change::Uri(b"sip:n@b.test"), "\"Al\"  <sip:n@b.test>;tag=a1"),
            (with_name, Change::Display(b"B"), "B  <sip:alice:pw@a.test:5070;x=y>;tag=a1"),
            (with_name, Change::Display(b""), "<sip:alice:pw@a.test:5070;x=y>;tag=a1"),
            (
                with_name,
                Change::Part(Part::User(Some(b"anonymous"))),
                "\"Al\"  <sip:anonymous:pw@a.test:5070;x=y>;tag=a1",
            ),
            (
                with_name,
                Change::Part(Part::Host(b"b.test")),
                "\"Al\"  <sip:alice:pw@b.test:5070;x=y>;tag=a1",
            ),
            ("<sip:a@b>;tag=1", Change::Display(b"\"A, B\""), "\"A, B\" <sip:a@b>;tag=1"),
            ("sip:a@b;tag=1", Change::Display(b"A"), "A <sip:a@b>;tag=1"),
            ("sip:a@b;tag=1", Change::Uri(b"sip:c@d"), "sip:c@d;tag=1"),
            ("sip:a@b;tag=1", Change::Uri(b"sip:c@d;x"), "<sip:c@d;x>;tag=1"),
            ("sip:a@b;tag=1", Change::Part(Part::User(None)), "sip:b;tag=1"),
        ] {
            assert_eq!(changed(from, &[what]), (vec![true], format!("From: {after}")), "{what:?}");
        }
    }

    #[test]
    fn sip_r099_a_later_change_sees_the_earlier_one() {
        let changes = [
            Change::Uri(b"sip:x@y"),
            Change::Display(b"\"N\""),
            Change::Part(Part::User(Some(b"u"))),
            Change::Part(Part::Host(b"d")),
            Change::Display(b"\"M\""),
        ];
        let (done, line) = changed("<sip:a@b>;tag=1", &changes);
        assert_eq!((done, line.as_str()), (vec![true; 5], "From: \"M\" <sip:u@d>;tag=1"));
        let mut draft = kit::invite().draft();
        draft.lumps.remove(draft.message.first(Name::To).unwrap().line);
        assert!(!change(&mut draft, Party::To, Change::Display(b"A")));
    }

    #[test]
    fn what_would_be_more_than_its_part_changes_nothing() {
        let from = "\"Al\" <sip:a@b>;tag=1";
        for what in [
            Change::Uri(b""),
            Change::Uri(b"sip:x@y>;tag=2"),
            Change::Uri(b"sip:x y"),
            Change::Part(Part::User(Some(b"a@b"))),
            Change::Part(Part::Host(b"")),
            Change::Display(b"\"open"),
            Change::Display(b"a<b"),
            Change::Display(b"a;b"),
            Change::Display(b"A\r\nX: y"),
            Change::Display(b"A\n B"),
        ] {
            assert_eq!(changed(from, &[what]), (vec![false], format!("From: {from}")), "{what:?}");
        }
    }
}
