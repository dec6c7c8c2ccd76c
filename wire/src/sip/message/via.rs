//! Via.

use std::ops::Range;

use super::Params;

/// One Via value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via<'a> {
    /// The whole value as written, without white space around it.
    pub text: &'a [u8],
    /// The transport as written, such as `UDP`.
    pub transport: &'a [u8],
    /// The host of the sent-by as written, IPv6 with its brackets.
    pub host: &'a [u8],
    /// The port as written, where there is one (for the branch's hash).
    pub port_text: Option<&'a [u8]>,
    /// The port, where there is one.
    pub port: Option<u16>,
    /// Its parameters.
    pub params: Params<'a>,
    /// Where the value stands in the message.
    pub at: (usize, usize),
    /// Where the sent-by ends in the message: `received` is put there.
    pub sent_by_end: usize,
    /// The header line that it stands on.
    pub line: (usize, usize),
    /// It shares that line with other values.
    pub shares_line: bool,
}

impl<'a> Via<'a> {
    /// The branch parameter.
    pub fn branch(&self) -> Option<&'a [u8]> {
        self.params.get(b"branch").flatten()
    }
    /// The received parameter as written.
    pub fn received(&self) -> Option<&'a [u8]> {
        self.params.get(b"received").flatten()
    }
    /// `Some(None)`: an rport that is to be filled.
    pub fn rport(&self) -> Option<Option<&'a [u8]>> {
        self.params.get(b"rport")
    }
    /// Where a parameter stands in the message, from its semicolon to its end.
    pub fn param_at(&self, _name: &[u8]) -> Option<Range<usize>> {
        unimplemented!()
    }
}

/// The Via values of a message in order.
#[derive(Clone, Debug)]
pub struct Vias<'a> {
    _message: &'a super::Message,
}

impl<'a> Iterator for Vias<'a> {
    type Item = Via<'a>;
    fn next(&mut self) -> Option<Via<'a>> {
        unimplemented!()
    }
}
