//! The phone that calls.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use indicatif::ProgressBar;
use lineway_wire::sip::message::{Limits, Message, Method, Name, Start};
use tokio::time::{Instant, timeout_at};

use super::link::Link;
use super::{Args, Mode, Tally};

/// T1: how long until a request is sent again over UDP; doubles (RFC 3261 17.1.1.1).
const FIRST: Duration = Duration::from_millis(500);
/// T2: up to where that doubles.
const LONGEST: Duration = Duration::from_secs(4);

/// One operation under way.
struct Call {
    /// Its current request, as it was sent.
    request: String,
    method: Method<'static>,
    began: Instant,
    /// When the current request is given up.
    until: Instant,
    again: Instant,
    spacing: Duration,
    number: u32,
}

/// The phone.
pub(super) struct Caller<'a> {
    args: &'a Args,
    link: Link,
    uri: String,
    own: String,
    /// Makes names of this run differ from those of others.
    run: u32,
    calls: HashMap<u64, Call>,
    /// When something is to be looked at, and of which call.
    timers: BTreeSet<(Instant, u64)>,
    started: u64,
    tally: Tally,
}

impl<'a> Caller<'a> {
    pub(super) fn new(args: &'a Args, link: Link, target: SocketAddr) -> Self {
        let uri = args.uri.clone().unwrap_or_else(|| match args.mode {
            Mode::Options => format!("sip:{target}"),
            Mode::Call => format!("sip:load@{target}"),
        });
        let own = link.address().map_or_else(|_| "0.0.0.0".to_owned(), |own| own.to_string());
        let run = std::process::id();
        let (calls, timers) = (HashMap::new(), BTreeSet::new());
        Self { args, link, uri, own, run, calls, timers, started: 0, tally: Tally::default() }
    }

    /// Runs until the time or the count is over and every operation has ended.
    pub(super) async fn run(mut self, bar: &ProgressBar) -> anyhow::Result<(Duration, Tally)> {
        let began = Instant::now();
        let end = self.args.duration().map(|duration| began + duration);
        loop {
            let now = Instant::now();
            let more = self.started < self.args.count.unwrap_or(u64::MAX)
                && end.is_none_or(|end| now < end);
            let mut wake = now + Duration::from_millis(100);
            if more && self.calls.len() < self.args.outstanding as usize {
                let due = self.due(began);
                if due <= now {
                    self.begin(now).await?;
                    continue;
                }
                wake = wake.min(due);
            }
            if !more && self.calls.is_empty() {
                return Ok((began.elapsed(), self.tally));
            }
            if let Some((at, _)) = self.timers.first() {
                wake = wake.min(*at);
            }
            if let Ok(received) = timeout_at(wake, self.link.receive()).await {
                self.received(&received?).await?;
            }
            self.look_at_timers().await?;
            bar.set_position(match self.args.count {
                Some(_) => self.tally.operations,
                None => began.elapsed().as_millis() as u64,
            });
        }
    }

    /// When the next operation may begin.
    fn due(&self, began: Instant) -> Instant {
        match self.args.rate {
            Some(rate) => began + Duration::from_secs_f64(self.started as f64 / f64::from(rate)),
            None => began,
        }
    }

    async fn begin(&mut self, now: Instant) -> io::Result<()> {
        let id = self.started;
        self.started += 1;
        let method = match self.args.mode {
            Mode::Options => Method::Options,
            Mode::Call => Method::Invite,
        };
        let to = format!("<{}>", self.uri);
        let request = self.written(id, method, 1, &self.uri, &to, "");
        self.ask(id, request, method, 1, now, now).await
    }

    /// Sends the next request of an operation.
    async fn ask(
        &mut self,
        id: u64,
        request: String,
        method: Method<'static>,
        number: u32,
        began: Instant,
        now: Instant,
    ) -> io::Result<()> {
        self.link.send(request.as_bytes()).await?;
        let until = now + Duration::from_millis(self.args.timeout_ms);
        let again = match self.link {
            Link::Udp { .. } => until.min(now + FIRST),
            Link::Tcp { .. } => until,
        };
        self.timers.insert((again, id));
        let call = Call { request, method, began, until, again, spacing: FIRST, number };
        self.calls.insert(id, call);
        Ok(())
    }

    fn written(
        &self,
        id: u64,
        method: Method<'_>,
        number: u32,
        uri: &str,
        to: &str,
        routes: &str,
    ) -> String {
        let (own, run, by) = (&self.own, self.run, self.args.transport.word());
        let name = String::from_utf8_lossy(method.as_bytes());
        // The ACK of a 2xx is a transaction of its own (RFC 3261 13.2.2.4).
        let branch = format!("z9hG4bK{run:x}.{id:x}.{number:x}.{}", name.to_lowercase());
        let mut text = format!(
            "{name} {uri} SIP/2.0\r\nVia: SIP/2.0/{by} {own};branch={branch};rport\r\n\
             Max-Forwards: 70\r\n{routes}From: <sip:load@{own}>;tag={run:x}{id:x}\r\nTo: {to}\r\n\
             Call-ID: {run:x}.{id}@load\r\nCSeq: {number} {name}\r\n"
        );
        let transport = if by == "TCP" { ";transport=tcp" } else { "" };
        let _ = write!(text, "Contact: <sip:load@{own}{transport}>\r\nContent-Length: 0\r\n\r\n");
        text
    }

    async fn received(&mut self, bytes: &bytes::Bytes) -> io::Result<()> {
        let Ok(reply) = Message::parse(bytes.clone(), &Limits::default()) else { return Ok(()) };
        let Start::Reply { code, .. } = reply.start() else { return Ok(()) };
        let Some(id) = self.id_of(reply.call_id()) else { return Ok(()) };
        let Some(call) = self.calls.get(&id) else { return Ok(()) };
        let cseq = reply.cseq();
        if code < 200 || cseq.number != call.number || cseq.method != call.method {
            return Ok(());
        }
        let now = Instant::now();
        let Some(call) = self.calls.remove(&id) else { return Ok(()) };
        self.timers.remove(&(call.again, id));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if call.method == Method::Invite {
            let to = text(reply.to().text);
            if code >= 300 {
                // The same transaction, hop by hop (RFC 3261 17.1.1.3).
                let ack = self.written(id, Method::Invite, 1, &self.uri, &to, "");
                let ack = ack.replacen("INVITE ", "ACK ", 1).replacen("1 INVITE", "1 ACK", 1);
                self.link.send(ack.as_bytes()).await?;
                self.failed(code.to_string());
                return Ok(());
            }
            self.tally.latency.record(now - call.began);
            let target = reply.addresses(Name::Contact).flatten().next();
            let target = target.map_or_else(|| self.uri.clone(), |contact| text(contact.uri));
            let mut routes: Vec<_> = reply
                .addresses(Name::RecordRoute)
                .flatten()
                .map(|route| format!("Route: {}\r\n", text(route.text)))
                .collect();
            routes.reverse();
            let routes = routes.concat();
            let ack = self.written(id, Method::Ack, 1, &target, &to, &routes);
            self.link.send(ack.as_bytes()).await?;
            let bye = self.written(id, Method::Bye, 2, &target, &to, &routes);
            return self.ask(id, bye, Method::Bye, 2, call.began, now).await;
        }
        if code >= 300 {
            self.failed(code.to_string());
            return Ok(());
        }
        if call.method == Method::Options {
            self.tally.latency.record(now - call.began);
        }
        self.tally.operations += 1;
        Ok(())
    }

    fn id_of(&self, call_id: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(call_id).ok()?.strip_suffix("@load")?;
        let (run, id) = text.split_once('.')?;
        (u32::from_str_radix(run, 16).ok()? == self.run).then(|| id.parse().ok())?
    }

    fn failed(&mut self, why: String) {
        *self.tally.errors.entry(why).or_default() += 1;
    }

    async fn look_at_timers(&mut self) -> io::Result<()> {
        let now = Instant::now();
        while let Some((at, id)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            let Some(call) = self.calls.get_mut(&id) else { continue };
            if now >= call.until {
                self.calls.remove(&id);
                self.failed("timeout".to_owned());
                continue;
            }
            call.spacing = (call.spacing * 2).min(LONGEST);
            call.again = (now + call.spacing).min(call.until);
            self.timers.insert((call.again, id));
            self.tally.retransmissions += 1;
            let request = call.request.clone();
            self.link.send(request.as_bytes()).await?;
        }
        Ok(())
    }
}
