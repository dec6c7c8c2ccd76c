//! A caller, callees and a proxy with transactions between them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::common::until;
pub(crate) use crate::kit::CALM;
use crate::kit::{Proxy, Setup, fresh};
use crate::raw::{Sip, TRYING, Udp, reply_as, request};

/// Timers as fast as a test may wait for them.
#[derive(Clone, Copy)]
pub(crate) struct Timers {
    pub(crate) t1: u64,
    pub(crate) t2: u64,
    pub(crate) fr: u64,
    pub(crate) fr_inv: u64,
    pub(crate) wt: u64,
}

impl Timers {
    /// What a test does not set is further away than it runs.
    pub(crate) const FAR: Self =
        Self { t1: 60_000, t2: 60_000, fr: 900_000, fr_inv: 900_000, wt: 60_000 };

    fn settings(self) -> String {
        let Self { t1, t2, fr, fr_inv, wt } = self;
        format!(
            ", retr-timer1-ms = {t1}, retr-timer2-ms = {t2}, fr-timer-ms = {fr}, \
             fr-inv-timer-ms = {fr_inv}, wt-timer-ms = {wt}, max-inv-lifetime-ms = 900000"
        )
    }
}

/// The callees' names in a script, as globals: `A` is the URI of the first.
const NAMES: [&str; 6] = ["A", "B", "C", "D", "E", "F"];

/// A whole script around `lua`, which has `call()` for what begins a call or stands alone, and
/// whatever routes it names. CANCEL, ACK and what is within a dialog go their usual way; what a
/// [`Proxy`] asks by itself is answered or sent on without state.
pub(crate) fn script(phones: &[SocketAddr], lua: &str) -> String {
    let named = NAMES.iter().zip(phones);
    let uris: Vec<_> = named
        .map(|(name, at)| format!("{name} = \"sip:{}@{at}\"\n", name.to_lowercase()))
        .collect();
    let uris = uris.concat();
    uris + "function ksr_request_route()
    local user = KSR.kx.gete_ruser()
    if user == \"probe\" then KSR.sl.sl_send_reply(200, \"Probe\") return end
    if user == \"fence\" then KSR.forward() return end
    if KSR.is_CANCEL() then
        if KSR.tm.t_check_trans() > 0 then KSR.tm.t_relay() end
        return
    end
    if KSR.is_ACK() and KSR.tm.t_check_trans() == 0 then return end
    if KSR.siputils.has_totag() > 0 then
        KSR.rr.loose_route()
        KSR.tm.t_relay()
        return
    end
    call()
end
function fork(...)
    for n, uri in ipairs({...}) do
        if n == 1 then KSR.seturi(uri) else KSR.corex.append_branch_uri(uri) end
    end
    return KSR.tm.t_relay()
end
" + lua + "\n"
}

/// To the first callee.
pub(crate) const TO_A: &str = "function call() fork(A) end";
/// To two and to three at once.
pub(crate) const TO_AB: &str = "function call() fork(A, B) end";
pub(crate) const TO_ABC: &str = "function call() fork(A, B, C) end";

/// A proxy between Alice and the callees.
pub(crate) struct Stage {
    pub(crate) proxy: Proxy,
    pub(crate) alice: Udp,
    pub(crate) phones: Vec<Udp>,
}

impl Stage {
    /// With so many callees and this script, see [`script`]; nothing happens by a timer.
    #[track_caller]
    pub(crate) fn new(phones: usize, lua: &str) -> Self {
        Self::timed(phones, Timers::FAR, lua)
    }

    #[track_caller]
    pub(crate) fn timed(phones: usize, timers: Timers, lua: &str) -> Self {
        Self::with(phones, &timers.settings(), lua)
    }

    /// With these settings of the router, each with a comma in front. One worker handles all
    /// messages in the order in which they came.
    #[track_caller]
    pub(crate) fn with(phones: usize, router: &str, lua: &str) -> Self {
        let setup = Setup { router: router.to_owned(), ..Setup::one_worker() };
        Self::setup(setup, phones, lua)
    }

    #[track_caller]
    pub(crate) fn setup(setup: Setup, phones: usize, lua: &str) -> Self {
        let phones: Vec<_> = (0..phones).map(|_| Udp::new()).collect();
        let at: Vec<_> = phones.iter().map(Udp::at).collect();
        let proxy = setup.script(&script(&at, lua));
        Self { proxy, alice: Udp::new(), phones }
    }

    /// A request of Alice's to Bob at the proxy.
    pub(crate) fn request(&self, method: &str, call: &str) -> String {
        let uri = format!("sip:bob@{}", self.proxy.udp());
        request(method, &uri, &self.alice.via(call), call)
    }

    /// Sends something of Alice's.
    #[track_caller]
    pub(crate) fn send(&self, text: impl AsRef<[u8]>) {
        self.alice.send(self.proxy.udp(), text);
    }

    /// Alice calls: her INVITE, which has had its 100.
    #[track_caller]
    pub(crate) fn call(&self, call: &str) -> String {
        let invite = self.request("INVITE", call);
        self.begin(&invite);
        invite
    }

    /// Sends an INVITE; its 100 comes.
    #[track_caller]
    pub(crate) fn begin(&self, invite: &str) {
        self.send(invite);
        let trying = self.alice.hear();
        assert!(trying.0.starts_with(TRYING.as_bytes()), "{trying:?}");
    }

    /// The next message at a callee, by its number.
    #[track_caller]
    pub(crate) fn at(&self, phone: usize) -> Sip {
        self.phones[phone].hear()
    }

    /// The next message at a callee, which is of this method.
    #[track_caller]
    pub(crate) fn gets(&self, phone: usize, method: &str) -> Sip {
        let came = self.at(phone);
        assert!(came.first().starts_with(&format!("{method} ")), "no {method}: {came:?}");
        came
    }

    /// What all callees get of one request, of this method.
    #[track_caller]
    pub(crate) fn all_get(&self, method: &str) -> Vec<Sip> {
        (0..self.phones.len()).map(|phone| self.gets(phone, method)).collect()
    }

    /// A callee answers; its tag of To is `t` and its number.
    #[track_caller]
    pub(crate) fn says(&self, phone: usize, to: &Sip, status: &str) {
        self.says_more(phone, to, status, "");
    }

    /// The same with further header lines.
    #[track_caller]
    pub(crate) fn says_more(&self, phone: usize, to: &Sip, status: &str, more: &str) {
        let text = reply_as(&format!("t{phone}"), to, status, more);
        self.phones[phone].send(self.proxy.udp(), text);
    }

    /// A callee answers, and Alice gets that.
    #[track_caller]
    pub(crate) fn passes(&self, phone: usize, to: &Sip, status: &str) -> Sip {
        self.says(phone, to, status);
        let came = self.hears(&status[..3]);
        assert_eq!(came.to_tag(), Some(format!("t{phone}")), "another's: {came:?}");
        came
    }

    /// A callee refuses, and has its ACK.
    #[track_caller]
    pub(crate) fn refuses(&self, phone: usize, to: &Sip, status: &str) {
        self.says(phone, to, status);
        let ack = self.gets(phone, "ACK");
        assert_eq!(ack.branch(), to.branch());
    }

    /// The next message at Alice's, a reply that begins with this.
    #[track_caller]
    pub(crate) fn hears(&self, status: &str) -> Sip {
        let came = self.alice.hear();
        assert!(came.first().starts_with(&format!("SIP/2.0 {status}")), "no {status}: {came:?}");
        came
    }

    /// Alice's ACK of a failure.
    #[track_caller]
    pub(crate) fn acks(&self, invite: &str, failure: &Sip) {
        self.send(ack(invite, failure));
    }

    /// Alice cancels; she has the 200 of it.
    #[track_caller]
    pub(crate) fn cancels(&self, invite: &str) -> Sip {
        self.send(cancel(invite));
        let ok = self.hears("200");
        assert_eq!(ok.one("CSeq"), "1 CANCEL");
        ok
    }

    /// Nothing of a call is on its way to Alice.
    #[track_caller]
    pub(crate) fn quiet(&self, call: &str) {
        let uri = format!("sip:probe@{}", self.proxy.udp());
        self.send(request("OPTIONS", &uri, &self.alice.via(&fresh("probe")), call));
        let answer = self.alice.hear();
        assert_eq!(answer.first(), "SIP/2.0 200 Probe", "something else came first: {answer:?}");
    }

    /// Nothing of a call is on its way to a callee.
    #[track_caller]
    pub(crate) fn quiet_at(&self, phone: usize, call: &str) {
        let uri = format!("sip:fence@{}", self.phones[phone].at());
        self.send(request("INFO", &uri, &self.alice.via(&fresh("fence")), call));
        let came = self.at(phone);
        let wanted = format!("INFO {uri} SIP/2.0");
        assert_eq!(came.first(), wanted, "something else came first: {came:?}");
    }

    /// The transactions that are in memory.
    pub(crate) fn transactions(&self) -> f64 {
        self.proxy.service.metric("lineway_sip_transactions_open", &[("node", "routes")])
    }

    /// Waits until every transaction is gone from memory.
    #[track_caller]
    pub(crate) fn until_gone(&self) {
        until("the transactions are gone", || self.transactions().to_bits() == 0);
    }

    /// Errors of the script so far.
    pub(crate) fn script_errors(&self) -> f64 {
        self.proxy.service.metric("lineway_sip_script_errors_total", &[("node", "routes")])
    }
}

/// The ACK of a failure: the INVITE's branch, the reply's To.
pub(crate) fn ack(invite: &str, failure: &Sip) -> String {
    let to = format!("To: {}", failure.one("To"));
    invite
        .replace("INVITE ", "ACK ")
        .replace("1 INVITE", "1 ACK")
        .replace("To: <sip:bob@127.0.0.1>", &to)
}

/// The CANCEL of an INVITE.
pub(crate) fn cancel(invite: &str) -> String {
    invite.replace("INVITE ", "CANCEL ").replace("1 INVITE", "1 CANCEL")
}

/// Far more than anything takes on a busy machine, far less than what it must not be.
pub(crate) const MARGIN: Duration = Duration::from_secs(4);

/// It is not earlier than that after `since`, and not much later.
#[track_caller]
pub(crate) fn at_about(since: Instant, millis: u64) {
    let (took, wanted) = (since.elapsed(), Duration::from_millis(millis));
    assert!(took >= wanted, "{took:?} is before {wanted:?}");
    assert!(took < wanted + MARGIN, "{took:?} is long after {wanted:?}");
}
