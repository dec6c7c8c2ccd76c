//! Parts of records as arguments, as text for people and as JSON for scripts.

use std::fmt::Write as _;
use std::io::Read as _;

use anyhow::Context as _;
use bytes::Bytes;
use lineway_actors::wire::zmp::Record;
use serde_json::{Value, json};

/// The record of the arguments; `-` is standard input, once.
pub(super) fn record(arguments: &[String]) -> anyhow::Result<Record> {
    let mut parts = Vec::with_capacity(arguments.len());
    let mut read = false;
    for argument in arguments {
        if argument == "-" {
            anyhow::ensure!(!read, "standard input can be only one of the parts");
            read = true;
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).context("standard input")?;
            parts.push(Bytes::from(bytes));
        } else {
            parts.push(Bytes::copy_from_slice(argument.as_bytes()));
        }
    }
    Record::from_parts(parts).context("a record has at least one part")
}

/// A part for a person: text as it is, other bytes and control characters escaped.
pub(super) fn text(part: &[u8]) -> String {
    match std::str::from_utf8(part) {
        Ok(text) if !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') => {
            text.to_owned()
        }
        _ => part.escape_ascii().to_string(),
    }
}

/// A part for a script: a string, or `{"hex": ...}` where it is no UTF-8.
pub(super) fn value(part: &[u8]) -> Value {
    match std::str::from_utf8(part) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": hex(part) }),
    }
}

/// All parts for a script.
pub(super) fn values(record: Option<&Record>) -> Value {
    record.map_or(&[][..], Record::parts).iter().map(|part| value(part)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{record, text, value};

    #[test]
    fn parts_are_shown_as_what_they_are() {
        assert_eq!(text("grüße\tan alle\n".as_bytes()), "grüße\tan alle\n");
        assert_eq!(text(b"\x1b[31m"), "\\x1b[31m");
        assert_eq!(text(&[0xff, b'a']), "\\xffa");
        assert_eq!(value(b"a"), json!("a"));
        assert_eq!(value(&[0xff, 0]), json!({ "hex": "ff00" }));
    }

    #[test]
    fn standard_input_is_one_part_at_most() {
        let arguments = |all: &[&str]| all.iter().map(|&a| a.to_owned()).collect::<Vec<_>>();
        let parts = record(&arguments(&["a", ""])).unwrap();
        assert_eq!(parts.parts(), [&b"a"[..], b""]);
        assert!(record(&[]).is_err());
    }
}
