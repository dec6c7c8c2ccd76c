//! What is named but not there yet: calling it is a script error that says what it needs. A script
//! that has such calls loads, and may ask `if KSR.tm then`. Relays of media are there and answer
//! that none is configured.

use std::sync::Once;

use super::{INT, INT_STR, INT2, Module, STR, STR_INT, STR2, STR2_INT};
use crate::sip::script::function::{Function, Given};

const AUTH: Module = Module("auth");
const AUTH_DB: Module = Module("auth_db");
const DISPATCHER: Module = Module("dispatcher");
const TM: Module = Module("tm");
const TMX: Module = Module("tmx");
const RTPENGINE: Module = Module("rtpengine");
const RTPPROXY: Module = Module("rtpproxy");

const AUTHENTICATION: &str = "authentication";
const DISPATCHING: &str = "a dispatcher";
const TRANSACTIONS: &str = "transactions";

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
    TM.missing("t_any_replied", &[], TRANSACTIONS),
    TM.missing("t_any_timeout", &[], TRANSACTIONS),
    TM.missing("t_branch_replied", &[], TRANSACTIONS),
    TM.missing("t_branch_timeout", &[], TRANSACTIONS),
    TM.missing("t_check_status", STR, TRANSACTIONS),
    TM.missing("t_check_trans", &[], TRANSACTIONS),
    TM.missing("t_drop_replies", STR, TRANSACTIONS),
    TM.missing("t_drop_replies_all", &[], TRANSACTIONS),
    TM.missing("t_grep_status", INT, TRANSACTIONS),
    TM.missing("t_is_canceled", &[], TRANSACTIONS),
    TM.missing("t_is_expired", &[], TRANSACTIONS),
    TM.missing("t_is_set", STR, TRANSACTIONS),
    TM.missing("t_load_contacts", &[], TRANSACTIONS),
    TM.missing("t_lookup_cancel", &[], TRANSACTIONS),
    TM.missing("t_lookup_request", &[], TRANSACTIONS),
    TM.missing("t_newtran", &[], TRANSACTIONS),
    TM.missing("t_next_contacts", &[], TRANSACTIONS),
    TM.missing("t_on_branch", STR, TRANSACTIONS),
    TM.missing("t_on_branch_failure", STR, TRANSACTIONS),
    TM.missing("t_on_failure", STR, TRANSACTIONS),
    TM.missing("t_on_reply", STR, TRANSACTIONS),
    TM.missing("t_relay", &[], TRANSACTIONS),
    TM.missing("t_relay_to_proto_addr", STR2_INT, TRANSACTIONS),
    TM.missing("t_release", &[], TRANSACTIONS),
    TM.missing("t_reply", INT_STR, TRANSACTIONS),
    TM.missing("t_reset_fr", &[], TRANSACTIONS),
    TM.missing("t_reset_retr", &[], TRANSACTIONS),
    TM.missing("t_set_fr", INT2, TRANSACTIONS),
    TM.missing("t_set_fr_inv", INT, TRANSACTIONS),
    TM.missing("t_set_max_lifetime", INT2, TRANSACTIONS),
    TM.missing("t_set_retr", INT2, TRANSACTIONS),
    TMX.missing("t_cancel_branches", STR, TRANSACTIONS),
    TMX.missing("t_is_branch_route", &[], TRANSACTIONS),
    TMX.missing("t_is_failure_route", &[], TRANSACTIONS),
    TMX.missing("t_is_reply_route", &[], TRANSACTIONS),
    TMX.missing("t_is_request_route", &[], TRANSACTIONS),
    TMX.missing("t_precheck_trans", &[], TRANSACTIONS),
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
