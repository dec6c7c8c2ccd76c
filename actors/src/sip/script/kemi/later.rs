//! What is named but not there yet: calling it is a script error that says what it needs. A script
//! that has such calls loads, and may ask `if KSR.registrar then`. Relays of media are there and answer
//! that none is configured.

use std::sync::Once;

use super::{INT, INT2, Module, STR, STR_INT, STR2, STR2_INT};
use crate::sip::script::function::{Function, Given};

const AUTH: Module = Module("auth");
const AUTH_DB: Module = Module("auth_db");
const DISPATCHER: Module = Module("dispatcher");
const RTPENGINE: Module = Module("rtpengine");
const RTPPROXY: Module = Module("rtpproxy");

const AUTHENTICATION: &str = "authentication";
const DISPATCHING: &str = "a dispatcher";

/// These functions.
pub(super) static FUNCTIONS: &[Function] = &[
    AUTH.missing("auth_challenge", STR_INT, AUTHENTICATION),
    AUTH.missing("consume_credentials", &[], AUTHENTICATION),
    AUTH.missing("proxy_challenge", STR_INT, AUTHENTICATION),
    AUTH.missing("www_challenge", STR_INT, AUTHENTICATION),
    AUTH_DB.missing("auth_check", STR2_INT, AUTHENTICATION),
    DISPATCHER.missing("ds_is_from_list", INT, DISPATCHING),
    DISPATCHER.missing("ds_mark_dst", &[], DISPATCHING),
    DISPATCHER.missing("ds_next_dst", &[], DISPATCHING),
    DISPATCHER.missing("ds_select_dst", INT2, DISPATCHING),
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
