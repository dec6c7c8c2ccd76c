//! The metrics of SIP nodes: what a `SipListener` carries and what a `SipRouter` does with it.

use std::sync::Arc;

use lineway_wire::sip::message::{Malformed, Method};
use lineway_wire::sip::own::Transport;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};

mod stateful;
#[cfg(test)]
mod tests;
mod words;

pub use stateful::{
    SipAuthMetrics, SipDispatcherMetrics, SipRegistrarMetrics, SipScriptMetrics,
    SipTransactionMetrics,
};
pub use words::{
    SipAck, SipAgain, SipAuth, SipBranchEnd, SipCancel, SipCancelFound, SipClosed, SipKind,
    SipLookup, SipProbe, SipRefused, SipRegistration, SipRoute, SipTargetState, SipTimeout,
};

use stateful::StatefulFamilies;

use super::{node_counter, node_gauge};
use crate::sip::back::SendError;
use crate::sip::script::ScriptFault;

closed_set! {
    /// The method of a request; the `method` label.
    SipMethod {
        /// INVITE.
        Invite = "INVITE",
        /// ACK.
        Ack = "ACK",
        /// BYE.
        Bye = "BYE",
        /// CANCEL.
        Cancel = "CANCEL",
        /// OPTIONS.
        Options = "OPTIONS",
        /// REGISTER.
        Register = "REGISTER",
        /// PRACK.
        Prack = "PRACK",
        /// SUBSCRIBE.
        Subscribe = "SUBSCRIBE",
        /// NOTIFY.
        Notify = "NOTIFY",
        /// PUBLISH.
        Publish = "PUBLISH",
        /// INFO.
        Info = "INFO",
        /// REFER.
        Refer = "REFER",
        /// MESSAGE.
        Message = "MESSAGE",
        /// UPDATE.
        Update = "UPDATE",
        /// Any other.
        Other = "other",
    }
}

impl From<Method<'_>> for SipMethod {
    fn from(method: Method<'_>) -> Self {
        match method {
            Method::Invite => Self::Invite,
            Method::Ack => Self::Ack,
            Method::Bye => Self::Bye,
            Method::Cancel => Self::Cancel,
            Method::Options => Self::Options,
            Method::Register => Self::Register,
            Method::Prack => Self::Prack,
            Method::Subscribe => Self::Subscribe,
            Method::Notify => Self::Notify,
            Method::Publish => Self::Publish,
            Method::Info => Self::Info,
            Method::Refer => Self::Refer,
            Method::Message => Self::Message,
            Method::Update => Self::Update,
            Method::Other(_) => Self::Other,
        }
    }
}

closed_set! {
    /// The class of a reply; the `class` label. What is no class of SIP counts as the highest.
    SipClass {
        /// Provisional.
        Provisional = "1xx",
        /// Success.
        Success = "2xx",
        /// Redirection.
        Redirection = "3xx",
        /// Request failure.
        RequestFailure = "4xx",
        /// Server failure.
        ServerFailure = "5xx",
        /// Global failure.
        GlobalFailure = "6xx",
    }
}

impl SipClass {
    /// The class of a status.
    pub const fn of(code: u16) -> Self {
        match code {
            0..=199 => Self::Provisional,
            200..=299 => Self::Success,
            300..=399 => Self::Redirection,
            400..=499 => Self::RequestFailure,
            500..=599 => Self::ServerFailure,
            _ => Self::GlobalFailure,
        }
    }
}

closed_set! {
    /// Why a message that came in was dropped; the `reason` label.
    SipDrop {
        /// Its first line is not one of SIP/2.0.
        NotSip = "not-sip",
        /// A header line that is none.
        Header = "bad-header",
        /// No usable Via.
        Via = "bad-via",
        /// No usable From.
        From = "bad-from",
        /// No usable To.
        To = "bad-to",
        /// No Call-ID.
        CallId = "no-call-id",
        /// No usable CSeq.
        CSeq = "bad-cseq",
        /// Above a limit.
        TooLarge = "too-large",
        /// A reply whose Content-Length is not that of its datagram (RFC 3261 18.3).
        BadLength = "bad-length",
        /// More waited than may.
        Overload = "overload",
        /// A reply without a second Via (R26).
        NoVia = "no-second-via",
        /// A reply whose second Via leads nowhere.
        NoWay = "no-way-back",
        /// The script dropped a reply.
        Script = "script",
        /// The ACK of a reply that was made here (R106).
        Ack = "absorbed-ack",
    }
}

impl From<Malformed> for SipDrop {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Header => Self::Header,
            Malformed::Via => Self::Via,
            Malformed::From => Self::From,
            Malformed::To => Self::To,
            Malformed::CallId => Self::CallId,
            Malformed::CSeq => Self::CSeq,
            Malformed::TooLarge => Self::TooLarge,
            _ => Self::NotSip,
        }
    }
}

closed_set! {
    /// Why a connection of a `SipListener` ended; the `reason` label.
    SipConnectionEnd {
        /// The peer closed it.
        Peer = "peer",
        /// It failed.
        Error = "error",
        /// Nothing passed for `tcp-idle-timeout-ms`.
        Idle = "idle",
        /// A message on it had no Content-Length.
        NoLength = "no-length",
        /// A message on it had a bad Content-Length.
        BadLength = "bad-length",
        /// A message on it was above the limits.
        TooLarge = "too-large",
        /// What came on it was not SIP.
        NotSip = "not-sip",
        /// The script closed it behind a reply.
        Script = "script",
        /// Its node goes.
        Drain = "drain",
        /// Its actor panicked.
        Panic = "panic",
    }
}

/// What a `SipListener` counts, as handles.
#[derive(Debug)]
pub struct SipListenerMetrics {
    received: [IntCounter; 2],
    sent: [IntCounter; 2],
    /// Datagrams that did not fit into their owner's ring.
    pub overload: IntCounter,
    /// Keepalives: line ends alone, answered or not.
    pub keepalives: IntCounter,
    /// TCP connections that live.
    pub open: IntGauge,
    /// TCP connections that were accepted.
    pub accepted: IntCounter,
    /// TCP connections that were dialled.
    pub dialled: IntCounter,
    closed: [IntCounter; SipConnectionEnd::ALL.len()],
}

impl SipListenerMetrics {
    /// So many messages came in.
    pub fn received(&self, transport: Transport, count: u64) {
        self.received[transport as usize].inc_by(count);
    }
    /// So many messages left.
    pub fn sent(&self, transport: Transport, count: u64) {
        self.sent[transport as usize].inc_by(count);
    }
    /// A connection ended.
    pub fn closed(&self, why: SipConnectionEnd) {
        self.open.dec();
        self.closed[why as usize].inc();
    }
    /// Messages of a transport that came in and that left.
    pub fn messages_of(&self, transport: Transport) -> (u64, u64) {
        (self.received[transport as usize].get(), self.sent[transport as usize].get())
    }
    /// Messages that came in and that left.
    pub fn messages(&self) -> (u64, u64) {
        let sum = |counters: &[IntCounter]| counters.iter().map(IntCounter::get).sum();
        (sum(&self.received), sum(&self.sent))
    }
}

/// What a `SipRouter` counts, as handles.
#[derive(Debug)]
pub struct SipRouterMetrics {
    requests: [IntCounter; SipMethod::ALL.len()],
    forwarded: [IntCounter; SipMethod::ALL.len()],
    replies: [IntCounter; SipClass::ALL.len()],
    replies_forwarded: [IntCounter; SipClass::ALL.len()],
    replies_sent: [IntCounter; SipClass::ALL.len()],
    dropped: [IntCounter; SipDrop::ALL.len()],
    send_errors: [IntCounter; SendError::ALL.len()],
    script_errors: [IntCounter; ScriptFault::ALL.len()],
    /// Requests whose next hop had no address.
    pub unresolved: IntCounter,
    /// Invocations that wait for the network.
    pub suspended: IntGauge,
    /// Messages that wait behind one of their call.
    pub waiting: IntGauge,
    /// What is counted of transactions.
    pub transactions: SipTransactionMetrics,
    /// What is counted of the script's invocations.
    pub script: SipScriptMetrics,
    /// What is counted of the registrar.
    pub registrar: SipRegistrarMetrics,
    /// What is counted of the dispatcher.
    pub dispatcher: SipDispatcherMetrics,
    /// What is counted of authentication.
    pub auth: SipAuthMetrics,
}

impl SipRouterMetrics {
    /// A request came in.
    pub fn request(&self, method: Method<'_>) {
        self.requests[SipMethod::from(method) as usize].inc();
    }
    /// A request went on.
    pub fn forwarded(&self, method: Method<'_>) {
        self.forwarded[SipMethod::from(method) as usize].inc();
    }
    /// A reply came in.
    pub fn reply(&self, code: u16) {
        self.replies[SipClass::of(code) as usize].inc();
    }
    /// A reply went on.
    pub fn reply_forwarded(&self, code: u16) {
        self.replies_forwarded[SipClass::of(code) as usize].inc();
    }
    /// A reply of ours left.
    pub fn reply_sent(&self, code: u16) {
        self.replies_sent[SipClass::of(code) as usize].inc();
    }
    /// A message was dropped.
    pub fn dropped(&self, why: SipDrop) {
        self.dropped[why as usize].inc();
    }
    /// How many were dropped for this reason.
    pub fn dropped_count(&self, why: SipDrop) -> u64 {
        self.dropped[why as usize].get()
    }
    /// A message could not be sent.
    pub fn send_error(&self, why: SendError) {
        self.send_errors[why as usize].inc();
    }
    /// The script failed.
    pub fn script_error(&self, fault: ScriptFault) {
        self.script_errors[fault as usize].inc();
    }
    /// Requests of each method: those that came in and those that went on.
    pub fn by_method(&self) -> impl Iterator<Item = (SipMethod, u64, u64)> + '_ {
        SipMethod::ALL.into_iter().map(|method| {
            let at = method as usize;
            (method, self.requests[at].get(), self.forwarded[at].get())
        })
    }
    /// Replies of each class: those that came in, those that went on, and those made here.
    pub fn by_class(&self) -> impl Iterator<Item = (SipClass, [u64; 3])> + '_ {
        SipClass::ALL.into_iter().map(|class| {
            let families = [&self.replies, &self.replies_forwarded, &self.replies_sent];
            (class, families.map(|family| family[class as usize].get()))
        })
    }
    /// Messages that were dropped, by why.
    pub fn drops(&self) -> impl Iterator<Item = (SipDrop, u64)> + '_ {
        SipDrop::ALL.into_iter().map(|why| (why, self.dropped_count(why)))
    }
    /// Messages that could not be sent, by why.
    pub fn send_errors(&self) -> impl Iterator<Item = (SendError, u64)> + '_ {
        SendError::ALL.into_iter().map(|why| (why, self.send_errors[why as usize].get()))
    }
    /// Invocations of the script that failed, by how.
    pub fn script_errors(&self) -> impl Iterator<Item = (ScriptFault, u64)> + '_ {
        ScriptFault::ALL.into_iter().map(|fault| (fault, self.script_errors[fault as usize].get()))
    }
    /// What the admin pages show.
    pub fn totals(&self) -> SipTotals {
        let sum = |counters: &[IntCounter]| counters.iter().map(IntCounter::get).sum();
        SipTotals {
            requests: sum(&self.requests),
            forwarded: sum(&self.forwarded),
            replies: sum(&self.replies),
            replies_forwarded: sum(&self.replies_forwarded),
            replies_sent: sum(&self.replies_sent),
            dropped: sum(&self.dropped),
            send_errors: sum(&self.send_errors),
            script_errors: sum(&self.script_errors),
            suspended: self.suspended.get().max(0).cast_unsigned(),
        }
    }
}

/// What a `SipRouter` has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SipTotals {
    /// Requests that came in.
    pub requests: u64,
    /// Requests that went on.
    pub forwarded: u64,
    /// Replies that came in.
    pub replies: u64,
    /// Replies that went on.
    pub replies_forwarded: u64,
    /// Replies of ours.
    pub replies_sent: u64,
    /// Messages that were dropped.
    pub dropped: u64,
    /// Messages that could not be sent.
    pub send_errors: u64,
    /// Script errors.
    pub script_errors: u64,
    /// Invocations that wait.
    pub suspended: u64,
}

/// The metrics of a SIP node.
#[derive(Debug)]
pub(super) enum SipMetrics {
    Listener(Arc<SipListenerMetrics>),
    Router(Arc<SipRouterMetrics>),
}

/// Which of the two a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SipSide {
    Listener,
    Router,
}

const TRANSPORTS: [Transport; 2] = [Transport::Udp, Transport::Tcp];
const DIRECTIONS: [&str; 2] = ["accepted", "dialled"];

/// The families of SIP nodes.
pub(super) struct SipFamilies {
    received: IntCounterVec,
    sent: IntCounterVec,
    overload: IntCounterVec,
    keepalives: IntCounterVec,
    open: IntGaugeVec,
    opened: IntCounterVec,
    closed: IntCounterVec,
    requests: IntCounterVec,
    forwarded: IntCounterVec,
    replies: IntCounterVec,
    replies_forwarded: IntCounterVec,
    replies_sent: IntCounterVec,
    dropped: IntCounterVec,
    send_errors: IntCounterVec,
    script_errors: IntCounterVec,
    unresolved: IntCounterVec,
    suspended: IntGaugeVec,
    waiting: IntGaugeVec,
    stateful: StatefulFamilies,
}

impl SipFamilies {
    pub(super) fn new(registry: &Registry) -> Self {
        let counter = |name, help, labels: &[&str]| node_counter(registry, name, help, labels);
        let gauge = |name, help| node_gauge(registry, name, help);
        Self {
            received: counter(
                "lineway_sip_messages_received_total",
                "SIP messages that came in.",
                &["transport"],
            ),
            sent: counter(
                "lineway_sip_messages_sent_total",
                "SIP messages that left.",
                &["transport"],
            ),
            overload: counter(
                "lineway_sip_overload_total",
                "Datagrams that were dropped, as too much waited for the worker of their call.",
                &[],
            ),
            keepalives: counter(
                "lineway_sip_keepalives_total",
                "Keepalives: line ends alone.",
                &[],
            ),
            open: gauge("lineway_sip_connections_open", "TCP connections that carry SIP."),
            opened: counter(
                "lineway_sip_connections_opened_total",
                "TCP connections that were accepted or dialled.",
                &["kind"],
            ),
            closed: counter(
                "lineway_sip_connections_closed_total",
                "TCP connections that ended, by why they did.",
                &["reason"],
            ),
            requests: counter(
                "lineway_sip_requests_received_total",
                "Requests that came in.",
                &["method"],
            ),
            forwarded: counter(
                "lineway_sip_requests_forwarded_total",
                "Requests that went on.",
                &["method"],
            ),
            replies: counter(
                "lineway_sip_replies_received_total",
                "Replies that came in.",
                &["class"],
            ),
            replies_forwarded: counter(
                "lineway_sip_replies_forwarded_total",
                "Replies that went on.",
                &["class"],
            ),
            replies_sent: counter(
                "lineway_sip_replies_sent_total",
                "Replies that were made here.",
                &["class"],
            ),
            dropped: counter(
                "lineway_sip_dropped_total",
                "Messages that were dropped, by why.",
                &["reason"],
            ),
            send_errors: counter(
                "lineway_sip_send_errors_total",
                "Messages that could not be sent, by why.",
                &["reason"],
            ),
            script_errors: counter(
                "lineway_sip_script_errors_total",
                "Invocations of the script that failed, by how.",
                &["reason"],
            ),
            unresolved: counter(
                "lineway_sip_unresolved_total",
                "Messages whose next hop has no address.",
                &[],
            ),
            suspended: gauge(
                "lineway_sip_suspended",
                "Invocations of the script that wait for the network.",
            ),
            waiting: gauge(
                "lineway_sip_waiting_messages",
                "Messages that wait behind an earlier one of their call.",
            ),
            stateful: StatefulFamilies::new(registry),
        }
    }

    /// Makes every series of a node.
    pub(super) fn node(&self, node: &str, side: SipSide) -> SipMetrics {
        let one = |family: &IntCounterVec| family.with_label_values(&[node]);
        match side {
            SipSide::Listener => SipMetrics::Listener(Arc::new(SipListenerMetrics {
                received: TRANSPORTS
                    .map(|transport| self.received.with_label_values(&[node, transport.word()])),
                sent: TRANSPORTS
                    .map(|transport| self.sent.with_label_values(&[node, transport.word()])),
                overload: one(&self.overload),
                keepalives: one(&self.keepalives),
                open: self.open.with_label_values(&[node]),
                accepted: self.opened.with_label_values(&[node, DIRECTIONS[0]]),
                dialled: self.opened.with_label_values(&[node, DIRECTIONS[1]]),
                closed: SipConnectionEnd::ALL
                    .map(|why| self.closed.with_label_values(&[node, why.as_str()])),
            })),
            SipSide::Router => {
                let methods = |family: &IntCounterVec| {
                    SipMethod::ALL.map(|m| family.with_label_values(&[node, m.as_str()]))
                };
                let classes = |family: &IntCounterVec| {
                    SipClass::ALL.map(|class| family.with_label_values(&[node, class.as_str()]))
                };
                SipMetrics::Router(Arc::new(SipRouterMetrics {
                    requests: methods(&self.requests),
                    forwarded: methods(&self.forwarded),
                    replies: classes(&self.replies),
                    replies_forwarded: classes(&self.replies_forwarded),
                    replies_sent: classes(&self.replies_sent),
                    dropped: SipDrop::ALL
                        .map(|why| self.dropped.with_label_values(&[node, why.as_str()])),
                    send_errors: SendError::ALL
                        .map(|why| self.send_errors.with_label_values(&[node, why.as_str()])),
                    script_errors: ScriptFault::ALL
                        .map(|fault| self.script_errors.with_label_values(&[node, fault.as_str()])),
                    unresolved: one(&self.unresolved),
                    suspended: self.suspended.with_label_values(&[node]),
                    waiting: self.waiting.with_label_values(&[node]),
                    transactions: self.stateful.transactions(node),
                    script: self.stateful.script(node),
                    registrar: self.stateful.registrar(node),
                    dispatcher: self.stateful.dispatcher(node),
                    auth: self.stateful.auth(node),
                }))
            }
        }
    }

    /// Takes every series of a node away. Those that it never had are no matter.
    pub(super) fn remove(&self, node: &str) {
        let families: [(&IntCounterVec, Vec<&str>); 12] = [
            (&self.received, TRANSPORTS.map(Transport::word).to_vec()),
            (&self.sent, TRANSPORTS.map(Transport::word).to_vec()),
            (&self.opened, DIRECTIONS.to_vec()),
            (&self.closed, SipConnectionEnd::ALL.map(SipConnectionEnd::as_str).to_vec()),
            (&self.requests, SipMethod::ALL.map(SipMethod::as_str).to_vec()),
            (&self.forwarded, SipMethod::ALL.map(SipMethod::as_str).to_vec()),
            (&self.replies, SipClass::ALL.map(SipClass::as_str).to_vec()),
            (&self.replies_forwarded, SipClass::ALL.map(SipClass::as_str).to_vec()),
            (&self.replies_sent, SipClass::ALL.map(SipClass::as_str).to_vec()),
            (&self.dropped, SipDrop::ALL.map(SipDrop::as_str).to_vec()),
            (&self.send_errors, SendError::ALL.map(SendError::as_str).to_vec()),
            (&self.script_errors, ScriptFault::ALL.map(ScriptFault::as_str).to_vec()),
        ];
        for (family, words) in families {
            for word in words {
                let _ = family.remove_label_values(&[node, word]);
            }
        }
        for family in [&self.overload, &self.keepalives, &self.unresolved] {
            let _ = family.remove_label_values(&[node]);
        }
        for family in [&self.open, &self.suspended, &self.waiting] {
            let _ = family.remove_label_values(&[node]);
        }
        self.stateful.remove(node);
    }
}
