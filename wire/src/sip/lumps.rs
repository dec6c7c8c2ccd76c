//! The edit list of a message (contract 3): where bytes go and where bytes come, put to work in one
//! walk.

use std::ops::Range;

use bytes::Bytes;

use super::message::Message;
use super::own::Socket;

/// One edit of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LumpId(pub u32);

/// A text that is known only when the sending socket is (late marker).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Marker {
    /// Host of the receiving socket.
    ReceivedHost,
    /// Port of the receiving socket.
    ReceivedPort,
    /// Transport word of the receiving socket.
    ReceivedProto,
    /// `host[:port][;transport=x]` of the receiving socket.
    ReceivedAll,
    /// Host of the sending socket.
    SendingHost,
    /// Port of the sending socket.
    SendingPort,
    /// Transport word of the sending socket.
    SendingProto,
    /// `host[:port][;transport=x]` of the sending socket.
    SendingAll,
}

/// What is inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Insert {
    /// Bytes.
    Bytes(Bytes),
    /// A late marker.
    Marker(Marker),
    /// The rest of the chain only if the receiving socket differs from the sending one.
    IfSocketsDiffer,
}

/// The two sockets that late markers speak of.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// Where the message came in.
    pub received: &'a Socket,
    /// Where it goes out.
    pub sending: &'a Socket,
}

/// The edit list: headers and body. Cloning is cheap enough for each branch.
#[derive(Clone, Debug, Default)]
pub struct Lumps {
    _todo: (),
}

impl Lumps {
    /// True without an edit.
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }
    /// Deletes a range of the message as it came; what is deleted already is left alone.
    pub fn delete(&mut self, _at: Range<usize>) -> LumpId {
        unimplemented!()
    }
    /// A place to put text at, behind earlier ones of the same offset.
    pub fn anchor(&mut self, _at: usize) -> LumpId {
        unimplemented!()
    }
    /// Puts a text in front of the chain before a lump: the last one comes first.
    pub fn before(&mut self, _lump: LumpId, _chain: impl IntoIterator<Item = Insert>) {
        unimplemented!()
    }
    /// Puts a text directly behind a lump: the last one comes first.
    pub fn after(&mut self, _lump: LumpId, _chain: impl IntoIterator<Item = Insert>) {
        unimplemented!()
    }
    /// Whether all of a range is deleted: the header that stands there is gone.
    pub fn is_deleted(&self, _at: Range<usize>) -> bool {
        unimplemented!()
    }
    /// Whether the body is changed: Content-Length follows (R100).
    pub fn body_changed(&self, _message: &Message) -> bool {
        unimplemented!()
    }
    /// Writes everything from offset `from` of the message on, edits applied, behind `out`. What is
    /// in front of it (the start line) is the caller's.
    pub fn apply(&self, _message: &Message, _from: usize, _ends: Ends<'_>, _out: &mut Vec<u8>) {
        unimplemented!()
    }
}
