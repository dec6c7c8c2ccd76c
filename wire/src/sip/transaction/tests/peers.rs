//! A caller and phones, as plain as RFC 3261 lets them be.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::net::{Again, End, Net};
use crate::sip::kit::{self, Text};
use crate::sip::message::{Message, Method, Name, Start};

/// One reply that a caller has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) code: u16,
    pub(super) reason: String,
    /// The To tag: another one is another dialog.
    pub(super) tag: String,
}

/// Calls once.
#[derive(Debug)]
pub(super) struct Caller {
    request: Text,
    again: Option<Again>,
    hangs_up: Option<Instant>,
    /// Does not wait for a provisional as 9.1 asks for.
    hasty: bool,
    cancel: Option<Again>,
    pub(super) seen: Vec<Seen>,
    /// Replies to its CANCEL.
    pub(super) cancelled: Vec<String>,
    acks: u32,
}

impl Caller {
    pub(super) fn begin(
        method: &str,
        hangs_up: Option<Duration>,
        hasty: bool,
        net: &mut Net,
    ) -> Self {
        let request = kit::request(method);
        Self {
            again: Some(Again::begin(request.bytes(), net)),
            request,
            hangs_up: hangs_up.map(|after| net.now + after),
            hasty,
            cancel: None,
            seen: Vec::new(),
            cancelled: Vec::new(),
            acks: 0,
        }
    }

    /// The status of every reply, in order.
    pub(super) fn codes(&self) -> Vec<u16> {
        self.seen.iter().map(|seen| seen.code).collect()
    }

    fn has_final(&self) -> bool {
        self.seen.iter().any(|seen| seen.code >= 200)
    }

    fn may_hang_up(&self) -> bool {
        (self.hasty || !self.seen.is_empty()) && !self.has_final() && self.cancel.is_none()
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        let hangs_up = self.hangs_up.filter(|_| self.may_hang_up());
        let again = [&self.again, &self.cancel].into_iter().flatten().filter_map(Again::wake);
        again.chain(hangs_up).min()
    }

    pub(super) fn due(&mut self, net: &mut Net) {
        if self.may_hang_up() && self.hangs_up.take_if(|at| *at <= net.now).is_some() {
            let cancel = self.request.clone().method("CANCEL").without("Contact");
            self.cancel = Some(Again::begin(cancel.bytes(), net));
        }
        for again in [&mut self.again, &mut self.cancel].into_iter().flatten() {
            again.due(net);
        }
    }

    pub(super) fn receive(&mut self, reply: &Message, net: &mut Net) {
        let Start::Reply { code, reason } = reply.start() else {
            panic!("a caller is asked nothing");
        };
        let reason = String::from_utf8_lossy(reason).into_owned();
        if reply.cseq().method == Method::Cancel {
            self.cancel = None;
            return self.cancelled.push(format!("{code} {reason}"));
        }
        let is_invite = reply.cseq().method == Method::Invite;
        let tag = String::from_utf8_lossy(reply.to().tag().unwrap_or_default()).into_owned();
        if is_invite || code >= 200 {
            self.again = None;
        }
        if is_invite && code >= 200 {
            self.ack(reply, code, net);
        }
        self.seen.push(Seen { code, reason, tag });
    }

    fn ack(&mut self, reply: &Message, code: u16, net: &mut Net) {
        let mut ack = self.request.clone().method("ACK").without("Contact");
        ack = ack.set("To", &String::from_utf8_lossy(reply.to().text));
        if code < 300 {
            self.acks += 1;
            let contact = reply.addresses(Name::Contact).next().expect("a Contact").expect("one");
            ack = ack
                .uri(&String::from_utf8_lossy(contact.uri))
                .set("Via", &format!("SIP/2.0/UDP {};branch=z9hG4bKack{}", kit::CALLER, self.acks));
        }
        net.send(End::Proxy, ack.bytes());
    }
}

/// What a phone does with a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    /// It sends a provisional of 180 after so long.
    pub(super) rings: Option<Duration>,
    /// It answers after so long.
    pub(super) answers: Option<(Duration, u16)>,
    /// It answers a CANCEL, but not the INVITE with 487.
    pub(super) deaf: bool,
}

impl Plan {
    pub(super) fn rings(mut self, after: Duration) -> Self {
        self.rings = Some(after);
        self
    }

    pub(super) fn answers(mut self, after: Duration, code: u16) -> Self {
        self.answers = Some((after, code));
        self
    }

    pub(super) fn deaf(mut self) -> Self {
        self.deaf = true;
        self
    }
}

/// Answers requests by its plan. It takes all of one call for one.
#[derive(Debug)]
pub(super) struct Phone {
    number: usize,
    plan: Plan,
    call: Option<Bytes>,
    rings: Option<Instant>,
    answers: Option<(Instant, u16)>,
    last: Option<Bytes>,
    again: Option<Again>,
    /// Its final.
    pub(super) code: Option<u16>,
    /// The methods of what it has got; a CANCEL with its Reason.
    pub(super) got: Vec<String>,
}

impl Phone {
    pub(super) fn new(number: usize, plan: Plan) -> Self {
        Self {
            number,
            plan,
            call: None,
            rings: None,
            answers: None,
            last: None,
            again: None,
            code: None,
            got: Vec::new(),
        }
    }

    /// How often it has got what begins so.
    pub(super) fn count(&self, what: &str) -> usize {
        self.got.iter().filter(|got| got.starts_with(what)).count()
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        let again = self.again.as_ref().and_then(Again::wake);
        [self.rings, self.answers.map(|(at, _)| at), again].into_iter().flatten().min()
    }

    pub(super) fn due(&mut self, net: &mut Net) {
        if self.rings.take_if(|at| *at <= net.now).is_some() {
            let ringing = self.reply(180);
            net.send(End::Proxy, ringing.clone());
            self.last = Some(ringing);
        }
        if let Some((_, code)) = self.answers.take_if(|(at, _)| *at <= net.now) {
            self.answer(code, net);
        }
        if let Some(again) = &mut self.again {
            again.due(net);
        }
    }

    fn answer(&mut self, code: u16, net: &mut Net) {
        (self.rings, self.answers, self.code) = (None, None, Some(code));
        let last = self.reply(code);
        self.last = Some(last.clone());
        let call = kit::parse(self.call.clone().expect("a call"));
        if call.method() == Method::Invite {
            self.again = Some(Again::begin(last, net));
        } else {
            net.send(End::Proxy, last);
        }
    }

    fn reply(&self, code: u16) -> Bytes {
        let request = kit::parse(self.call.clone().expect("a call"));
        self.reply_to(&request, code)
    }

    fn reply_to(&self, request: &Message, code: u16) -> Bytes {
        let mut text = format!("SIP/2.0 {code} of {}", self.number);
        for header in request.headers() {
            let line = String::from_utf8_lossy(&request.bytes()[header.line.clone()]).into_owned();
            match header.name {
                Name::Via | Name::From | Name::CallId | Name::CSeq => {
                    text = format!("{text}\n{}", line.trim_end());
                }
                Name::To => text = format!("{text}\n{};tag=phone{}", line.trim_end(), self.number),
                _ => {}
            }
        }
        let challenge = match code {
            401 => format!("\nWWW-Authenticate: Digest realm=\"{}\"", self.number),
            407 => format!("\nProxy-Authenticate: Digest realm=\"{}\"", self.number),
            _ => String::new(),
        };
        let contact = format!("Contact: <sip:bob@127.0.0.1:{}>", 15_071 + self.number);
        Text::of(&format!("{text}\n{contact}{challenge}\nContent-Length: 0")).bytes()
    }

    pub(super) fn receive(&mut self, request: &Message, net: &mut Net) {
        let method = String::from_utf8_lossy(request.method().as_bytes()).into_owned();
        let reason = request.named(b"Reason").next();
        let reason = reason.map(|reason| String::from_utf8_lossy(reason.value).into_owned());
        self.got.push(reason.map_or_else(|| method.clone(), |reason| format!("{method} {reason}")));
        match request.method() {
            Method::Ack => self.again = None,
            Method::Cancel => {
                let is_known = self.call.is_some();
                let answer = self.reply_to(request, if is_known { 200 } else { 481 });
                net.send(End::Proxy, answer);
                if is_known && self.code.is_none() && !self.plan.deaf {
                    self.answer(487, net);
                }
            }
            _ if self.call.is_some() => {
                if let Some(last) = &self.last {
                    net.send(End::Proxy, last.clone());
                }
            }
            _ => {
                self.call = Some(request.bytes().clone());
                self.rings = self.plan.rings.map(|after| net.now + after);
                self.answers = self.plan.answers.map(|(after, code)| (net.now + after, code));
            }
        }
    }
}
