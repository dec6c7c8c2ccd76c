//! The bindings of an address as a file has them: one after the other, numbers with their most
//! significant byte first, each text behind its length.

use std::net::SocketAddr;

use bytes::{Buf, BufMut, Bytes, TryGetError};
use lineway_wire::sip::own::Transport;
use lineway_wire::sip::registrar::{Binding, Methods};

/// Writes them.
pub(super) fn write(bindings: &[Binding]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bindings.len() * 256);
    for binding in bindings {
        out.put_u64(binding.expires);
        out.put_u64(binding.changed);
        out.put_u64(binding.ruid);
        out.put_u32(binding.cseq);
        out.put_u32(binding.flags);
        number(&mut out, binding.q.map(u32::from));
        number(&mut out, binding.methods.map(|methods| methods.0));
        number(&mut out, binding.reg_id);
        text(&mut out, Some(&binding.uri));
        text(&mut out, Some(&binding.call_id));
        for part in [&binding.received, &binding.path, &binding.user_agent, &binding.instance] {
            text(&mut out, part.as_ref());
        }
        let socket = binding
            .socket
            .map(|(transport, address)| Bytes::from(format!("{}:{address}", transport.word())));
        text(&mut out, socket.as_ref());
    }
    out
}

/// What is no record.
struct Broken;

impl From<TryGetError> for Broken {
    fn from(_: TryGetError) -> Self {
        Self
    }
}

/// Reads what [`write()`] wrote; `None` for anything else.
pub(super) fn read(record: &[u8]) -> Option<Vec<Binding>> {
    // The texts of an address stay together.
    let mut record = Bytes::copy_from_slice(record);
    let mut bindings = Vec::new();
    while record.has_remaining() {
        bindings.push(binding(&mut record).ok()?);
    }
    Some(bindings)
}

fn binding(record: &mut Bytes) -> Result<Binding, Broken> {
    let (expires, changed, ruid) =
        (record.try_get_u64()?, record.try_get_u64()?, record.try_get_u64()?);
    let (cseq, flags) = (record.try_get_u32()?, record.try_get_u32()?);
    let q = match read_number(record)? {
        Some(q) => Some(u16::try_from(q).ok().filter(|q| *q <= 1000).ok_or(Broken)?),
        None => None,
    };
    let methods = read_number(record)?.map(Methods);
    let reg_id = read_number(record)?;
    let uri = read_text(record)?.ok_or(Broken)?;
    let call_id = read_text(record)?.ok_or(Broken)?;
    let received = read_text(record)?;
    let path = read_text(record)?;
    let user_agent = read_text(record)?;
    let instance = read_text(record)?;
    let socket = match read_text(record)? {
        Some(socket) => Some(read_socket(&socket).ok_or(Broken)?),
        None => None,
    };
    Ok(Binding {
        uri,
        q,
        expires,
        changed,
        call_id,
        cseq,
        received,
        path,
        socket,
        user_agent,
        methods,
        instance,
        reg_id,
        ruid,
        flags,
    })
}

fn number(out: &mut Vec<u8>, number: Option<u32>) {
    out.put_u8(u8::from(number.is_some()));
    out.put_u32(number.unwrap_or(0));
}

fn read_number(record: &mut Bytes) -> Result<Option<u32>, Broken> {
    let (is_there, number) = (record.try_get_u8()?, record.try_get_u32()?);
    Ok((is_there == 1).then_some(number))
}

/// A text behind its length and 1; 0 for none. None is longer than a message.
fn text(out: &mut Vec<u8>, text: Option<&Bytes>) {
    out.put_u32(text.map_or(0, |text| text.len() as u32 + 1));
    out.put_slice(text.map_or(&[], |text| text));
}

fn read_text(record: &mut Bytes) -> Result<Option<Bytes>, Broken> {
    let Some(length) = record.try_get_u32()?.checked_sub(1) else { return Ok(None) };
    let length = usize::try_from(length).ok().filter(|length| *length <= record.remaining());
    Ok(Some(record.split_to(length.ok_or(Broken)?)))
}

fn read_socket(text: &[u8]) -> Option<(Transport, SocketAddr)> {
    let (word, address) = std::str::from_utf8(text).ok()?.split_once(':')?;
    Some((Transport::of(word.as_bytes())?, address.parse().ok()?))
}
