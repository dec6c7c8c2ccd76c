//! Relays of media, `rtpengine` and `rtpproxy`: they are there and answer that none is configured.

use std::sync::Once;

use super::{Module, STR};
use crate::sip::script::function::{Function, Given};

const RTPENGINE: Module = Module("rtpengine");
const RTPPROXY: Module = Module("rtpproxy");

/// These functions.
pub(super) static FUNCTIONS: &[Function] = &[
    RTPENGINE.int("rtpengine_manage", STR, |_, _| Ok(no_rtpengine())),
    RTPENGINE.int("rtpengine_manage0", &[], |_, _| Ok(no_rtpengine())),
    RTPENGINE.int("rtpengine_offer", STR, |_, _| Ok(no_rtpengine())),
    RTPENGINE.int("rtpengine_offer0", &[], |_, _| Ok(no_rtpengine())),
    RTPENGINE.int("rtpengine_answer", STR, |_, _| Ok(no_rtpengine())),
    RTPENGINE.int("rtpengine_answer0", &[], |_, _| Ok(no_rtpengine())),
    RTPENGINE.int("rtpengine_delete", STR, |_, _| Ok(no_rtpengine())),
    RTPENGINE.int("rtpengine_delete0", &[], |_, _| Ok(no_rtpengine())),
    RTPPROXY.int("rtpproxy_manage", STR, |_, _| Ok(no_rtpproxy())),
    RTPPROXY.int("rtpproxy_manage0", &[], |_, _| Ok(no_rtpproxy())),
    RTPPROXY.int("rtpproxy_offer", STR, |_, _| Ok(no_rtpproxy())),
    RTPPROXY.int("rtpproxy_offer0", &[], |_, _| Ok(no_rtpproxy())),
    RTPPROXY.int("rtpproxy_answer", STR, |_, _| Ok(no_rtpproxy())),
    RTPPROXY.int("rtpproxy_answer0", &[], |_, _| Ok(no_rtpproxy())),
    RTPPROXY.int("rtpproxy_destroy", STR, |_, _| Ok(no_rtpproxy())),
    RTPPROXY.int("rtpproxy_destroy0", &[], |_, _| Ok(no_rtpproxy())),
];

fn no_rtpengine() -> Given<'static> {
    static SAID: Once = Once::new();
    SAID.call_once(|| tracing::warn!("the script asks rtpengine, which is not configured"));
    Given::Int(-1)
}

fn no_rtpproxy() -> Given<'static> {
    static SAID: Once = Once::new();
    SAID.call_once(|| tracing::warn!("the script asks rtpproxy, which is not configured"));
    Given::Int(-1)
}
