//! A message at work: what came, and everything that a script has changed of it so far.

use bytes::Bytes;

use super::lumps::{LumpId, Lumps};
use super::message::{Limits, Malformed, Message, Start};
use super::own::{Received, SocketId};

/// A further target of a request (`append_branch`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The Request-URI.
    pub uri: Bytes,
    /// Where it is sent, if not to that.
    pub dst_uri: Option<Bytes>,
    /// q in thousandths; `None` = unspecified.
    pub q: Option<u16>,
    /// The branch's flags.
    pub flags: u32,
    /// The socket that it leaves by.
    pub socket: Option<SocketId>,
    /// The Path that goes in as Route.
    pub path: Option<Bytes>,
}

/// What the last failed operation would be answered with (`sl_reply_error`, contract 2.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The status.
    pub code: u16,
    /// The reason phrase without its `/SL` or `/TM`.
    pub reason: &'static str,
}

/// A message at work. Reads see the message as it came; edits act on it as earlier edits left it
/// (contract 3).
#[derive(Clone, Debug)]
pub struct Draft {
    /// What came; after `msg_apply_changes` what the edits made of it.
    pub message: Message,
    /// Where it came from.
    pub received: Received,
    /// The Request-URI that came, where `msg_apply_changes` has put another one into the message:
    /// the branch stands on it (contract 1.4).
    pub received_uri: Option<Bytes>,
    /// The Request-URI that takes the place of the received one.
    pub uri: Option<Bytes>,
    /// `$du`: where it goes, if not to the Request-URI.
    pub dst_uri: Option<Bytes>,
    /// q of the Request-URI in thousandths, as a lookup found it; `None` = unspecified.
    pub q: Option<u16>,
    /// The status and reason phrase that take the place of a reply's (`sl_forward_reply`).
    pub status: Option<(u16, Bytes)>,
    /// A Path vector that goes in as Route (1.3.5).
    pub path: Option<Bytes>,
    /// `force_rport()`: rport is filled though it was not asked for.
    pub force_rport: bool,
    /// `add_local_rport()`: the own Via asks for rport.
    pub local_rport: bool,
    /// `set_reply_close()`: the connection is closed behind the reply.
    pub reply_close: bool,
    /// `set_reply_no_connect()`: no new connection is opened for the reply.
    pub reply_no_connect: bool,
    /// The socket that it has to leave by.
    pub force_socket: Option<SocketId>,
    /// `setflag`, 0 to 31.
    pub flags: u32,
    /// `setbflag` of the first branch, 0 to 31.
    pub branch_flags: u32,
    /// Edits of headers and body.
    pub lumps: Lumps,
    /// Whole header lines for replies that are made here (`append_to_reply`).
    pub reply_lines: Vec<Bytes>,
    /// Further targets.
    pub branches: Vec<Target>,
    /// `add_rr_param`: goes into the next Record-Route.
    pub rr_params: Vec<u8>,
    /// The parameters of the own Route that was removed (`check_route_param`, `is_direction`).
    pub route_params: Option<Bytes>,
    /// Record-Route was added.
    pub record_routed: bool,
    /// Those lines among the edits, for a later `add_rr_param`; `true`: with the tag of From.
    pub rr_lines: Option<(LumpId, bool)>,
    /// Max-Forwards was added.
    pub maxfwd_added: bool,
    /// The mark by which a loop is known: it goes into the own Via (RFC 5393).
    pub loop_mark: Option<u64>,
    /// What went wrong last.
    pub failure: Option<Failure>,
}

/// A draft that waits, in little room: its message is read again when it is worked on.
#[derive(Clone, Debug)]
pub struct Parked(Box<Draft>);

impl Parked {
    /// Parks a draft, but for the further targets: those have been tried.
    pub fn new(mut draft: Draft) -> Self {
        draft.message = draft.message.closed();
        draft.branches = Vec::new();
        Self(Box::new(draft))
    }

    /// Other flags (`setflag`).
    pub fn set_flags(&mut self, flags: u32) {
        self.0.flags = flags;
    }

    /// A copy to work on.
    ///
    /// # Errors
    /// The message can not be read: it could when it was parked.
    pub fn draft(&self) -> Result<Draft, Malformed> {
        let mut draft = (*self.0).clone();
        let bytes = self.0.message.bytes().clone();
        draft.message = Message::parse(bytes, &Limits::NONE)?;
        Ok(draft)
    }
}

impl Draft {
    /// A message as it came.
    pub fn new(message: Message, received: Received) -> Self {
        Self {
            message,
            received,
            received_uri: None,
            uri: None,
            dst_uri: None,
            q: None,
            status: None,
            path: None,
            force_rport: false,
            local_rport: false,
            reply_close: false,
            reply_no_connect: false,
            force_socket: None,
            flags: 0,
            branch_flags: 0,
            lumps: Lumps::default(),
            reply_lines: Vec::new(),
            branches: Vec::new(),
            rr_params: Vec::new(),
            route_params: None,
            record_routed: false,
            rr_lines: None,
            maxfwd_added: false,
            loop_mark: None,
            failure: None,
        }
    }
    /// The Request-URI as it is to go out; empty for a reply.
    pub fn uri(&self) -> &[u8] {
        match (&self.uri, self.message.start()) {
            (Some(uri), _) => uri,
            (None, Start::Request { uri, .. }) => uri,
            (None, Start::Reply { .. }) => b"",
        }
    }
    /// The Request-URI that came in, whatever edits made of it; empty for a reply.
    pub fn received_uri(&self) -> &[u8] {
        match (&self.received_uri, self.message.start()) {
            (Some(uri), _) => uri,
            (None, Start::Request { uri, .. }) => uri,
            (None, Start::Reply { .. }) => b"",
        }
    }
    /// `msg_apply_changes()`: what the edits and the Request-URI made of the message takes its
    /// place; they are done with.
    pub fn replace(&mut self, message: Message) {
        if self.received_uri.is_none() && self.message.is_request() {
            self.received_uri = Some(self.message.bytes().slice(self.message.uri_at()));
        }
        self.message = message;
        self.uri = None;
        self.lumps = Lumps::default();
        self.rr_lines = None;
        self.maxfwd_added = false;
    }
}
