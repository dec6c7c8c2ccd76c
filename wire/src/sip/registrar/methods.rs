//! Sets of methods.

use crate::sip::message::{Message, Method, Name};

/// The methods that a phone takes: one bit for each that is known, and one for all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Methods(pub u32);

impl Methods {
    /// Those of a list with commas; names that are not known are all one.
    pub fn of_list(text: &[u8]) -> Self {
        let names = text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let bits = names.filter(|name| !name.is_empty()).map(|name| bit(Method::of(name)));
        Self(bits.fold(0, |all, bit| all | bit))
    }

    /// Those of every Allow; `None` where none names a method.
    pub fn of_message(message: &Message) -> Option<Self> {
        let lists = message.all(Name::Allow).map(|allow| Self::of_list(allow.value).0);
        Some(Self(lists.fold(0, |all, list| all | list))).filter(|all| all.0 != 0)
    }

    /// Whether a request of this method may be sent there. ACK and CANCEL go with their INVITE.
    pub fn allow(self, method: Method<'_>) -> bool {
        let method = match method {
            Method::Ack | Method::Cancel => Method::Invite,
            other => other,
        };
        self.0 & bit(method) != 0
    }
}

/// These numbers are stored in files.
const fn bit(method: Method<'_>) -> u32 {
    1 << match method {
        Method::Invite => 0,
        Method::Ack => 1,
        Method::Bye => 2,
        Method::Cancel => 3,
        Method::Options => 4,
        Method::Register => 5,
        Method::Prack => 6,
        Method::Subscribe => 7,
        Method::Notify => 8,
        Method::Publish => 9,
        Method::Info => 10,
        Method::Refer => 11,
        Method::Message => 12,
        Method::Update => 13,
        Method::Other(_) => 31,
    }
}
