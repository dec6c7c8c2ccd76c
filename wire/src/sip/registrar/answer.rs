//! What a REGISTER is answered.

use std::io::Write;

use bytes::Bytes;

use super::{Binding, Refusal, Register};

/// The header lines of the 200 to a REGISTER, without line ends: every live binding (R123), from
/// the highest q down, unspecified last, oldest first; and the Path for a phone that wants it.
pub fn lines(register: &Register, bindings: &[Binding], now: u64) -> Vec<Bytes> {
    let mut live: Vec<_> = bindings.iter().filter(|binding| binding.is_live(now)).collect();
    live.sort_by_key(|binding| binding.rank());
    let mut lines = Vec::new();
    if !live.is_empty() {
        let mut line = b"Contact: ".to_vec();
        for (place, binding) in live.into_iter().enumerate() {
            if place > 0 {
                line.extend_from_slice(b", ");
            }
            contact(binding, register.gruu.as_deref(), now, &mut line);
        }
        lines.push(line.into());
    }
    if let Some(path) = register.path.as_ref().filter(|_| register.shows_path) {
        lines.push([b"Path: ", path.as_ref()].concat().into());
    }
    lines
}

/// The header line of a refusal (R133).
pub fn error_line(refusal: &Refusal) -> Bytes {
    format!("P-Registrar-Error: {}", refusal.error).into()
}

fn contact(binding: &Binding, gruu: Option<&[u8]>, now: u64, line: &mut Vec<u8>) {
    line.push(b'<');
    line.extend_from_slice(&binding.uri);
    line.push(b'>');
    // Writing to a Vec never fails.
    if let Some(q) = binding.q {
        let _ = write!(line, ";q={}", f32::from(q.min(1000)) / 1000.0);
    }
    let _ = write!(line, ";expires={}", binding.expires.saturating_sub(now));
    let mut quoted = |name: &str, parts: &[&[u8]]| {
        let _ = write!(line, ";{name}=\"");
        line.extend_from_slice(&parts.concat());
        line.push(b'"');
    };
    if let Some(received) = &binding.received {
        quoted("received", &[received]);
    }
    if let Some(instance) = &binding.instance {
        if let Some(uri) = gruu {
            quoted("pub-gruu", &[uri, b";gr=", bare(instance)]);
        }
        quoted("+sip.instance", &[instance]);
        if let Some(reg_id) = binding.reg_id {
            let _ = write!(line, ";reg-id={reg_id}");
        }
    }
}

/// An instance without its angle brackets, as a GRUU has it (RFC 5627 5.1).
pub(super) fn bare(instance: &[u8]) -> &[u8] {
    let inside = instance.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">"));
    inside.unwrap_or(instance)
}
