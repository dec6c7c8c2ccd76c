//! The request of a transaction, in no more room than what is still to be done with it needs.

use bytes::Bytes;
use lineway_wire::sip::draft::{Draft, Parked};
use lineway_wire::sip::message::{Limits, Message};
use lineway_wire::sip::own::Received;

/// The request of a transaction.
pub(super) enum Request {
    /// As the request route has left it.
    Whole(Box<Draft>),
    /// The same, while nothing is done with it.
    Parked(Parked),
    /// What replies are made of.
    Bare(Box<Bare>),
}

/// What of a request replies are made of.
pub(super) struct Bare {
    bytes: Bytes,
    received: Received,
    force_rport: bool,
}

impl Bare {
    pub(super) fn new(draft: &Draft) -> Self {
        let (bytes, received) = (draft.message.bytes().clone(), draft.received);
        Self { bytes, received, force_rport: draft.force_rport }
    }
}

impl Request {
    /// A copy to work on.
    pub(super) fn draft(&self) -> Draft {
        match self {
            Self::Whole(draft) => (**draft).clone(),
            Self::Parked(parked) => parked.draft().expect("it was read before"),
            Self::Bare(bare) => {
                let message = Message::parse(bare.bytes.clone(), &Limits::NONE);
                let mut draft = Draft::new(message.expect("it was read before"), bare.received);
                draft.force_rport = bare.force_rport;
                draft
            }
        }
    }

    /// Its flags, as a route has left them (`setflag`).
    pub(super) fn set_flags(&mut self, flags: u32) {
        match self {
            Self::Whole(draft) => draft.flags = flags,
            Self::Parked(parked) => parked.set_flags(flags),
            Self::Bare(_) => {}
        }
    }
}
