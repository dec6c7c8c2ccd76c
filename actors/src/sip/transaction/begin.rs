//! What a transaction begins with.

use std::rc::Rc;

use bytes::Bytes;
use lineway_wire::sip::draft::{Draft, Target};

use super::home::Home;
use super::legs::RelayWay;
use crate::sip::router::core::Generation;
use crate::sip::script::kemi::Vars;
use crate::sip::script::tm::{Armed, TimingChange};

/// What a transaction begins with.
pub(in crate::sip) struct Begin {
    pub(in crate::sip) home: Rc<Home>,
    pub(in crate::sip) generation: Rc<Generation>,
    /// The request as the script has left it so far.
    pub(in crate::sip) draft: Draft,
    pub(in crate::sip) vars: Vars,
    pub(in crate::sip) armed: Armed,
    pub(in crate::sip) timing: TimingChange,
    pub(in crate::sip) groups: Vec<Vec<Target>>,
    pub(in crate::sip) first: First,
}

/// What it does first.
pub(in crate::sip) enum First {
    /// `t_relay()`, to an explicit destination or not.
    Relay(RelayWay),
    /// `t_newtran()`.
    Wait,
    /// It answers.
    Reply(u16, Bytes),
}
