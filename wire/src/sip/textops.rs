//! Edits of headers and body by name and pattern: what scripts know as `hdr`, `textops` and
//! `textopsx`. All give what the script function returns: 1, or -1 where there was nothing to do or
//! nothing that may be done.
//!
//! Reads see the message as it came. Edits see what earlier edits made of it, lines that were added
//! apart (contract 3). No edit leaves headers that are none: a text that would end the headers, or
//! break a line in two, is refused (S-15).

use std::ops::Range;

use bytes::Bytes;
use regex::bytes::Regex;

use super::draft::Draft;
use super::lumps::{Lumps, Patch, content_length};
use super::message::{ContentLength, Header, Limits, Message, Name};
use super::own::Transport;

mod expression;
mod lines;
mod party;
pub mod pattern;

#[cfg(test)]
mod tests;

pub use expression::Expression;
pub use party::{Change, Party, change};
pub use pattern::{Flags, PatternError, Patterns};

/// Bytes of the lines that all replies of one request get at most.
const MAX_REPLY_BYTES: usize = 16_384;

const DONE: i64 = 1;
const NOTHING: i64 = -1;

const fn told(done: bool) -> i64 {
    if done { DONE } else { NOTHING }
}

/// `hdr.append(text)`: behind all headers, in the order of the calls. A line end is added where it
/// is missing. A Content-Length in any added text stands for the one that the message gets: it
/// states the length of the body, and there is one of it.
pub fn append(draft: &mut Draft, text: &[u8]) -> i64 {
    let end = draft.message.headers_end();
    insert_at(draft, end, text)
}

/// `hdr.append_after(text, name)`: behind the first header of that name, else behind all.
pub fn append_after(draft: &mut Draft, text: &[u8], name: &[u8]) -> i64 {
    if !lines::is_name(name) {
        return NOTHING;
    }
    let first = draft.message.named(name).next();
    let at = first.map_or(draft.message.headers_end(), |header| header.line.end);
    insert_at(draft, at, text)
}

/// `hdr.insert(text)`: in front of all headers, in the order of the calls.
pub fn insert(draft: &mut Draft, text: &[u8]) -> i64 {
    let at = head(&draft.message);
    insert_at(draft, at, text)
}

/// `hdr.insert_before(text, name)`: in front of the first header of that name, else of all.
pub fn insert_before(draft: &mut Draft, text: &[u8], name: &[u8]) -> i64 {
    if !lines::is_name(name) {
        return NOTHING;
    }
    let first = draft.message.named(name).next();
    let at = first.map_or(head(&draft.message), |header| header.line.start);
    insert_at(draft, at, text)
}

/// `hdr.remove(name)`, `textops.remove_hf(name)`: every header of that name, compact or long, with
/// what earlier edits made of it.
pub fn remove(draft: &mut Draft, name: &[u8]) -> i64 {
    let Draft { message, lumps, .. } = draft;
    told(remove_all(lumps, message.named(name)))
}

/// `textops.remove_hf_re(pattern)`: every header whose name, as it is written, matches.
pub fn remove_matching(draft: &mut Draft, name: &Regex) -> i64 {
    let Draft { message, lumps, .. } = draft;
    let headers = message.headers().filter(|header| name.is_match(header.written));
    told(remove_all(lumps, headers))
}

/// `hdr.is_present(name)`, `textops.is_present_hf(name)`: in the message as it came.
pub fn is_present(draft: &Draft, name: &[u8]) -> i64 {
    told(draft.message.named(name).next().is_some())
}

/// `hdr.get(name)`: the value of the first header of that name as it came, folds and all.
pub fn get<'a>(draft: &'a Draft, name: &[u8]) -> Option<&'a [u8]> {
    draft.message.named(name).next().map(|header| header.value)
}

/// `hdr.append_to_reply(text)`: lines for replies that are made here (R103).
pub fn append_to_reply(draft: &mut Draft, text: &[u8]) -> i64 {
    let room = draft.reply_lines.iter().map(Bytes::len).sum::<usize>() + text.len();
    match lines::whole(text) {
        Some(lines) if !lines.is_empty() && room <= MAX_REPLY_BYTES => {
            draft.reply_lines.push(lines);
            DONE
        }
        _ => NOTHING,
    }
}

/// `textops.has_body()`: a body came, and Content-Length says so.
pub fn has_body(draft: &Draft) -> i64 {
    let stated = draft.message.content_length();
    let is_stated = matches!(stated, ContentLength::Bytes(length) if length > 0);
    told(is_stated && !draft.message.body().is_empty())
}

/// `textops.set_body(text, type)`: in place of the whole body, with its Content-Type; Content-Length
/// is there afterwards (R100).
pub fn set_body(draft: &mut Draft, text: &[u8], content_type: &[u8]) -> i64 {
    let Draft { message, lumps, .. } = draft;
    let content_type = content_type.trim_ascii();
    let line = [b"Content-Type: ", content_type, b"\r\n"].concat();
    let is_good = !text.is_empty() && !content_type.is_empty() && lines::is_one(&line);
    if !is_good || !lumps.has_room(3, text.len() + line.len()) {
        return NOTHING;
    }
    let body = message.body_at()..message.bytes().len();
    let text = Bytes::copy_from_slice(text);
    if body.is_empty() {
        lumps.new_text(body.start, text);
    } else {
        // Nothing of the body is cut beyond its ends.
        lumps.replace(body, text);
    }
    let there = |header: &Header<'_>| !lumps.is_deleted(header.line.clone());
    let mut types: Vec<_> = message.all(Name::ContentType).filter(there).collect();
    let same = |header: &Header<'_>| {
        lumps.text(message.bytes(), header.value_at.clone()).eq_ignore_ascii_case(content_type)
    };
    let keeps = types.first().is_some_and(same);
    types.drain(..usize::from(keeps));
    remove_all(lumps, types.into_iter());
    lumps.new_body(message.headers_end(), (!keeps).then(|| line.into()));
    DONE
}

/// `textops.replace_body(pattern, text)`: the first match in the body becomes that text as it is.
pub fn replace_body(draft: &mut Draft, pattern: &Regex, text: &[u8]) -> i64 {
    let Draft { message, lumps, .. } = draft;
    let view = lumps.view(message.bytes(), message.body_at()..message.bytes().len());
    match pattern.find(&view.text) {
        Some(found) => told(lumps.splice(&view, &[(found.range(), text.to_vec())])),
        None => NOTHING,
    }
}

/// `textops.subst_body(expression)`: the first match in the body, or with `g` all.
pub fn subst_body(draft: &mut Draft, expression: &Expression) -> i64 {
    let Draft { message, lumps, .. } = draft;
    told(subst_in_body(message, lumps, expression))
}

/// `textops.subst(expression)`: the first match in the header lines or else the body, or with `g`
/// all; the start line is not touched. No match goes over the end of a header. A line that nothing
/// is left of is gone.
pub fn subst(draft: &mut Draft, expression: &Expression) -> i64 {
    let Draft { message, lumps, .. } = draft;
    let mut done = false;
    for header in message.headers() {
        done |= subst_line(message, lumps, header.line, |line| 0..line.len(), expression);
        if done && !expression.all {
            return DONE;
        }
    }
    told(subst_in_body(message, lumps, expression) || done)
}

/// `textops.subst_hf(name, expression, flags)`: in the values of the headers of that name; the first
/// letter of the flags is `f` for the first header, `l` for the last, any other or none for all.
pub fn subst_hf(draft: &mut Draft, name: &[u8], expression: &Expression, flags: &[u8]) -> i64 {
    let Draft { message, lumps, .. } = draft;
    let there = |header: &Header<'_>| !lumps.is_deleted(header.line.clone());
    let mut lines: Vec<Range<usize>> =
        message.named(name).filter(there).map(|header| header.line).collect();
    match flags.first() {
        Some(b'f') => lines.truncate(1),
        Some(b'l') => drop(lines.drain(..lines.len().saturating_sub(1))),
        _ => {}
    }
    let mut done = false;
    for line in lines {
        done |= subst_line(message, lumps, line, lines::value, expression);
    }
    told(done)
}

/// `textopsx.msg_apply_changes()`: what the edits made of the message becomes the message, for reads
/// too. Record-Route, which waits for the socket that it leaves by, stays an edit. -1 if that is no
/// message, or one above the limits: everything is as before then.
pub fn apply_changes(draft: &mut Draft, limits: &Limits) -> i64 {
    let Draft { message, lumps, uri, .. } = &*draft;
    let length = content_length(message, lumps, Transport::Udp);
    let uri = uri.as_ref().map(|uri| Patch { at: message.uri_at(), text: uri });
    let mut patches: Vec<_> = uri.into_iter().chain(length.patches()).collect();
    patches.sort_by_key(|patch| patch.at.start);
    let mut out = Vec::with_capacity(message.bytes().len() + 128);
    let late = lumps.settle(message.bytes(), &patches, &mut out);
    match Message::parse(out.into(), limits) {
        Ok(message) => {
            draft.replace(message);
            draft.lumps = late;
            DONE
        }
        Err(_) => NOTHING,
    }
}

/// Where the first header stands.
fn head(message: &Message) -> usize {
    message.headers().next().map_or(message.headers_end(), |header| header.line.start)
}

fn insert_at(draft: &mut Draft, at: usize, text: &[u8]) -> i64 {
    let Some(lines) = lines::whole(text) else { return NOTHING };
    if !draft.lumps.has_room(1, lines.len()) {
        return NOTHING;
    }
    let (lines, states_length) = lines::without_length(lines);
    if states_length {
        draft.lumps.state_length();
    }
    if !lines.is_empty() {
        draft.lumps.insert(at, lines);
    }
    DONE
}

fn remove_all<'a>(lumps: &mut Lumps, headers: impl Iterator<Item = Header<'a>>) -> bool {
    let mut done = false;
    for header in headers {
        if !lumps.is_deleted(header.line.clone()) && lumps.has_room(1, 0) {
            lumps.remove(header.line);
            done = true;
        }
    }
    done
}

fn subst_in_body(message: &Message, lumps: &mut Lumps, expression: &Expression) -> bool {
    let view = lumps.view(message.bytes(), message.body_at()..message.bytes().len());
    let edits = edits(&view.text, 0..view.text.len(), expression);
    !edits.is_empty() && lumps.splice(&view, &edits)
}

/// Runs an expression on a part of a line, if the line is there and stays a line.
fn subst_line(
    message: &Message,
    lumps: &mut Lumps,
    line: Range<usize>,
    part: impl Fn(&[u8]) -> Range<usize>,
    expression: &Expression,
) -> bool {
    if lumps.is_deleted(line.clone()) {
        return false;
    }
    let view = lumps.view(message.bytes(), line.clone());
    let edits = edits(&view.text, part(&view.text), expression);
    if edits.is_empty() {
        return false;
    }
    let text = replaced(&view.text, &edits);
    if text.trim_ascii().is_empty() {
        let has_room = lumps.has_room(1, 0);
        if has_room {
            lumps.remove(line);
        }
        return has_room;
    }
    lines::is_line(&view.text, &text) && lumps.splice(&view, &edits)
}

/// What an expression does to a part of a text. Empty matches count for nothing.
fn edits(text: &[u8], part: Range<usize>, expression: &Expression) -> Vec<(Range<usize>, Vec<u8>)> {
    let mut edits = Vec::new();
    let mut room = Lumps::MAX_BYTES;
    let from = part.start;
    for groups in expression.regex.captures_iter(&text[part]) {
        let Some(found) = groups.get(0).filter(|found| !found.is_empty()) else { continue };
        let replacement = expression.replacement(&groups);
        if replacement.len() > room || edits.len() == Lumps::MAX_EDITS {
            return Vec::new();
        }
        room -= replacement.len();
        edits.push((from + found.start()..from + found.end(), replacement));
        if !expression.all {
            break;
        }
    }
    edits
}

fn replaced(text: &[u8], edits: &[(Range<usize>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for (at, replacement) in edits {
        out.extend_from_slice(&text[from..at.start]);
        out.extend_from_slice(replacement);
        from = at.end;
    }
    out.extend_from_slice(&text[from..]);
    out
}
