//! How a message leaves: its next hop, the addresses of that, the socket, and what came of it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, join_all};
use lineway_wire::sip::draft::{Draft, Failure};
use lineway_wire::sip::hop::{self, Hop, HopHost};
use lineway_wire::sip::locate::{Destination, Locate, LocateOptions, Progress, UNRESOLVABLE};
use lineway_wire::sip::own::{Own, Socket, Transport};
use lineway_wire::sip::reply::{self, ReplyDrop, ReplyHop, ReplyTo};
use lineway_wire::sip::{branch, forward};

use super::calls::hash;
use crate::metrics::SipRouterMetrics;
use crate::settings::SipRouterSettings;
use crate::sip::back::{SendError, Way};
use crate::sip::transaction::Entry;
use crate::sip::transport::{Sent, Transports};
use crate::worker::Worker;

/// What a next hop that can not be reached is answered with (R154).
pub(in crate::sip) const UNREACHABLE: Failure =
    Failure { code: 477, reason: "Unfortunately error on sending to next hop occurred" };

/// What a script is told of a request that could not be sent: the code where the next hop is not
/// known or not there (contract 9).
pub(in crate::sip) const fn result_of(failure: Failure) -> i64 {
    match failure.code {
        477 => -477,
        478 => -478,
        _ => -1,
    }
}

/// What came of sending a request on.
pub(in crate::sip) enum Outcome<T> {
    /// It left, or failed.
    Now(Result<T, Failure>),
    /// It takes time.
    Later(LocalBoxFuture<'static, Result<T, Failure>>),
}

/// The room for writing that is kept.
const MOST_SCRATCH: usize = 65_536;

/// A request that has left.
#[derive(Debug)]
pub(in crate::sip) struct Left {
    /// The way that it took.
    pub(in crate::sip) way: Way,
    /// What left.
    pub(in crate::sip) bytes: Bytes,
    /// With `dns-failover`: where else it can go, should nobody answer there (RFC 3263 4.3).
    pub(in crate::sip) elsewhere: Option<Box<Elsewhere>>,
}

/// Further addresses of a request.
#[derive(Debug)]
pub(in crate::sip) struct Elsewhere {
    draft: Draft,
    explicit: Option<Bytes>,
    to: VecDeque<Destination>,
    /// Servers that have not been asked for their addresses.
    locate: Option<Locate>,
}

impl Elsewhere {
    /// The same request to the next address, as another branch.
    pub(in crate::sip) fn going(self, index: u32, of: Rc<Entry>) -> Going {
        let Self { draft, explicit, to, locate } = self;
        Going { draft, explicit, index, of: Some(of), to: Some((to, locate)) }
    }
}

/// A request on its way out.
#[derive(Clone)]
pub(in crate::sip) struct Going {
    /// It.
    pub(in crate::sip) draft: Draft,
    /// Where to, if neither to `$du` nor to the Request-URI.
    pub(in crate::sip) explicit: Option<Bytes>,
    /// The index of its branch.
    pub(in crate::sip) index: u32,
    /// Its transaction: once the caller does not want it any more, what was not sent is not.
    pub(in crate::sip) of: Option<Rc<Entry>>,
    /// The addresses that are left, where they are known.
    pub(in crate::sip) to: Option<(VecDeque<Destination>, Option<Locate>)>,
}

impl Going {
    /// A request that goes on without state.
    pub(in crate::sip) const fn stateless(draft: Draft, explicit: Option<Bytes>) -> Self {
        Self { draft, explicit, index: 0, of: None, to: None }
    }

    fn is_cancelled(&self) -> bool {
        self.of.as_ref().is_some_and(|of| of.cancelled.get())
    }
}

impl Left {
    /// With the addresses that were not tried.
    fn or_elsewhere(
        mut self,
        going: Going,
        to: VecDeque<Destination>,
        locate: Option<Locate>,
    ) -> Self {
        if !to.is_empty() || locate.is_some() {
            let Going { draft, explicit, .. } = going;
            self.elsewhere = Some(Box::new(Elsewhere { draft, explicit, to, locate }));
        }
        self
    }
}

/// What a request that was cancelled before it left fails with.
pub(in crate::sip) const CANCELLED: Failure = Failure { code: 487, reason: "Request canceled" };

impl<T> Outcome<T> {
    /// What comes of it, however long that takes.
    pub(in crate::sip) async fn wait(self) -> Result<T, Failure> {
        match self {
            Self::Now(result) => result,
            Self::Later(sent) => sent.await,
        }
    }
}

/// What came of sending a reply on.
pub(in crate::sip) enum ReplyOutcome {
    /// It left, or failed; failures are counted.
    Now(Result<(), ReplyDrop>),
    /// It takes time.
    Later(LocalBoxFuture<'static, ()>),
}

/// The ways out of one worker's router.
pub(in crate::sip) struct Sending {
    pub(in crate::sip) worker: Rc<Worker>,
    pub(in crate::sip) own: Rc<Own>,
    pub(in crate::sip) transports: Rc<Transports>,
    pub(in crate::sip) metrics: Arc<SipRouterMetrics>,
    pub(in crate::sip) settings: Arc<SipRouterSettings>,
    /// What the own sockets can send to.
    pub(in crate::sip) locating: LocateOptions,
    /// Room for writing requests.
    pub(in crate::sip) scratch: Cell<Vec<u8>>,
}

impl Sending {
    /// Sends a request on without state (contract 1.2, 1.3).
    pub(super) fn request(self: &Rc<Self>, draft: &Draft, explicit: Option<&[u8]>) -> Outcome<()> {
        let found = self.locate(draft, explicit);
        let failover = self.settings.dns_failover;
        // Most go to one address: nothing is copied for it.
        if let Ok((_, Progress::Found(to))) = &found
            && let [first, more @ ..] = &to[..]
            && (more.is_empty() || !failover)
        {
            return match self.try_one(draft, 0, *first).0 {
                Sent::Done => {
                    self.forwarded(draft);
                    Outcome::Now(Ok(()))
                }
                Sent::Failed(error) => {
                    self.metrics.send_error(error);
                    Outcome::Now(Err(UNREACHABLE))
                }
                Sent::Later(sent) => {
                    let (this, draft) = (Rc::clone(self), draft.clone());
                    Outcome::Later(Box::pin(async move {
                        match sent.await {
                            Ok(()) => this.forwarded(&draft),
                            Err(error) => {
                                this.metrics.send_error(error);
                                return Err(UNREACHABLE);
                            }
                        }
                        Ok(())
                    }))
                }
            };
        }
        let going = Going::stateless(draft.clone(), explicit.map(Bytes::copy_from_slice));
        match self.go(going, found) {
            Outcome::Now(left) => Outcome::Now(left.map(drop)),
            Outcome::Later(left) => Outcome::Later(Box::pin(async move { left.await.map(drop) })),
        }
    }

    /// Sends the request of a branch.
    pub(in crate::sip) fn branch(self: &Rc<Self>, mut going: Going) -> Outcome<Left> {
        if let Some((to, locate)) = going.to.take() {
            return match locate {
                Some(locate) => {
                    let found = Progress::Found(to.into());
                    Outcome::Later(Rc::clone(self).search(going, locate, found).boxed_local())
                }
                None => self.try_each(going, to, None),
            };
        }
        let found = self.locate(&going.draft, going.explicit.as_deref());
        self.go(going, found)
    }

    fn locate(
        &self,
        draft: &Draft,
        explicit: Option<&[u8]>,
    ) -> Result<(Locate, Progress), Failure> {
        let hop = hop::next_hop(draft, explicit)?;
        // An address needs no choice.
        let named = matches!(hop.host, HopHost::Name(_));
        Locate::new(hop, self.locating, if named { seed(draft) } else { 0 })
    }

    fn go(
        self: &Rc<Self>,
        going: Going,
        found: Result<(Locate, Progress), Failure>,
    ) -> Outcome<Left> {
        match found {
            Err(failure) => {
                self.metrics.unresolved.inc();
                Outcome::Now(Err(failure))
            }
            Ok((_, Progress::Found(destinations))) => {
                self.try_each(going, destinations.into(), None)
            }
            Ok((locate, progress)) => {
                Outcome::Later(Rc::clone(self).search(going, locate, progress).boxed_local())
            }
        }
    }

    /// Looks for addresses, and tries them as they are found.
    async fn search(
        self: Rc<Self>,
        going: Going,
        mut locate: Locate,
        mut progress: Progress,
    ) -> Result<Left, Failure> {
        loop {
            let destinations = self.found(&mut locate, progress).await?;
            let tried = self.try_each(going.clone(), destinations.into(), Some(&locate));
            match tried.wait().await {
                Err(failure) if self.settings.dns_failover && !going.is_cancelled() => {
                    progress = locate.more().map_err(|_| failure)?;
                }
                result => return result,
            }
        }
    }

    /// Tries addresses in turn until the request has left by one; without `dns-failover` only the
    /// first.
    fn try_each(
        self: &Rc<Self>,
        going: Going,
        mut to: VecDeque<Destination>,
        locate: Option<&Locate>,
    ) -> Outcome<Left> {
        let failover = self.settings.dns_failover;
        let locate = locate.filter(|_| failover);
        if !failover {
            to.truncate(1);
        }
        while let Some(destination) = to.pop_front() {
            if going.is_cancelled() {
                return Outcome::Now(Err(CANCELLED));
            }
            match self.try_one(&going.draft, going.index, destination) {
                (Sent::Done, left) => {
                    self.forwarded(&going.draft);
                    let left = left.map(|left| left.or_elsewhere(going, to, locate.cloned()));
                    return Outcome::Now(left.ok_or(UNREACHABLE));
                }
                (Sent::Failed(error), _) => self.metrics.send_error(error),
                (Sent::Later(sent), left) => {
                    let (this, locate) = (Rc::clone(self), locate.cloned());
                    return Outcome::Later(Box::pin(async move {
                        match sent.await {
                            Ok(()) => {
                                this.forwarded(&going.draft);
                                let left = left.map(|left| left.or_elsewhere(going, to, locate));
                                return left.ok_or(UNREACHABLE);
                            }
                            Err(error) => this.metrics.send_error(error),
                        }
                        this.try_each(going, to, locate.as_ref()).wait().await
                    }));
                }
            }
        }
        Outcome::Now(Err(UNREACHABLE))
    }

    fn try_one(
        self: &Rc<Self>,
        draft: &Draft,
        index: u32,
        to: Destination,
    ) -> (Sent, Option<Left>) {
        let Some(mut socket) = self.socket(draft, to.transport, to.address.ip()) else {
            return (Sent::Failed(SendError::NoSocket), None);
        };
        let mut bytes = self.written(draft, socket, index);
        let mtu = self.settings.udp_mtu.get();
        if to.transport == Transport::Udp
            && mtu > 0
            && bytes.len() as u64 > mtu
            && let Some(stream) = self.socket(draft, Transport::Tcp, to.address.ip())
        {
            // RFC 3261 18.1.1: what is near the path's limit goes over a transport that cuts it.
            socket = stream;
            bytes = self.written(draft, stream, index);
        }
        let way = way(socket, to.address);
        (self.transports.send(&way, bytes.clone()), Some(Left { way, bytes, elsewhere: None }))
    }

    fn written(&self, draft: &Draft, socket: &Socket, index: u32) -> Bytes {
        let mut out = self.scratch.take();
        out.clear();
        forward::request(draft, &self.own, socket, index, &mut out);
        // What is kept for retransmission takes no more room than it needs.
        let bytes = Bytes::copy_from_slice(&out);
        if out.capacity() <= MOST_SCRATCH {
            self.scratch.set(out);
        }
        bytes
    }

    /// The socket that a message leaves by.
    fn socket(&self, draft: &Draft, transport: Transport, to: IpAddr) -> Option<&Socket> {
        self.own.outgoing(draft.force_socket, draft.received.socket, transport, to)
    }

    fn forwarded(&self, draft: &Draft) {
        self.metrics.forwarded(draft.message.method());
    }

    /// Asks what a search wants to know, until it has found something or `resolve-timeout-ms` is
    /// over.
    async fn found(
        &self,
        locate: &mut Locate,
        mut progress: Progress,
    ) -> Result<Vec<Destination>, Failure> {
        let search = async {
            loop {
                let questions = match progress {
                    Progress::Found(destinations) => return Ok(destinations),
                    Progress::Ask(questions) => questions,
                };
                let names = Rc::clone(&self.worker.names.borrow());
                let answers = questions.iter().map(|question| names.records(question));
                progress = locate.answer(join_all(answers).await)?;
            }
        };
        let limit = self.settings.resolve_timeout.duration();
        let found = tokio::time::timeout(limit, search).await.unwrap_or(Err(UNRESOLVABLE));
        if found.is_err() {
            self.metrics.unresolved.inc();
        }
        found
    }

    /// Sends a reply on without state (contract 1.6).
    pub(in crate::sip) fn reply(self: &Rc<Self>, draft: &Draft) -> ReplyOutcome {
        let hop = match reply::next_hop(draft) {
            Ok(hop) => hop,
            Err(why) => return ReplyOutcome::Now(Err(why)),
        };
        let (name, port) = match &hop.to {
            ReplyTo::Address(to) => {
                let to = Destination { transport: hop.transport, address: *to };
                let result = match self.reply_to(draft, &hop, to) {
                    Sent::Done => Ok(()),
                    Sent::Failed(error) => Err(error),
                    Sent::Later(sent) => {
                        let (this, draft) = (Rc::clone(self), draft.clone());
                        return ReplyOutcome::Later(Box::pin(async move {
                            this.reply_counted(&draft, sent.await);
                        }));
                    }
                };
                self.reply_counted(draft, result);
                return ReplyOutcome::Now(Ok(()));
            }
            ReplyTo::Name(name, port) => (name.clone(), *port),
        };
        let wanted = Hop { host: HopHost::Name(name), port, transport: Some(hop.transport) };
        let Ok((locate, progress)) = Locate::new(wanted, self.locating, 0) else {
            return ReplyOutcome::Now(Err(ReplyDrop::BadVia));
        };
        let search = Rc::clone(self).search_back(draft.clone(), hop, locate, progress);
        ReplyOutcome::Later(search.boxed_local())
    }

    /// RFC 3263 5: the servers of a sent-by, each in turn until one takes the reply.
    async fn search_back(
        self: Rc<Self>,
        draft: Draft,
        hop: ReplyHop,
        mut locate: Locate,
        mut progress: Progress,
    ) {
        loop {
            let Ok(found) = self.found(&mut locate, progress).await else { return };
            for to in found {
                let sent = match self.reply_to(&draft, &hop, to) {
                    Sent::Done => Ok(()),
                    Sent::Failed(error) => Err(error),
                    Sent::Later(sent) => sent.await,
                };
                if self.reply_counted(&draft, sent) {
                    return;
                }
            }
            match locate.more() {
                Ok(more) => progress = more,
                Err(_) => return,
            }
        }
    }

    fn reply_to(self: &Rc<Self>, draft: &Draft, hop: &ReplyHop, to: Destination) -> Sent {
        let Some(socket) = self.socket(draft, to.transport, to.address.ip()) else {
            return Sent::Failed(SendError::NoSocket);
        };
        let mut out = Vec::with_capacity(draft.message.bytes().len() + 64);
        reply::write(draft, &self.own, socket, &mut out);
        let way = Way {
            connection: hop.connection,
            may_connect: !draft.reply_no_connect,
            close_after: draft.reply_close,
            ..way(socket, to.address)
        };
        self.transports.send(&way, out.into())
    }

    /// Counts what came of a reply: whether it left.
    fn reply_counted(&self, draft: &Draft, sent: Result<(), SendError>) -> bool {
        match sent {
            Ok(()) => self.metrics.reply_forwarded(draft.message.status()),
            Err(error) => self.metrics.send_error(error),
        }
        sent.is_ok()
    }
}

fn way(socket: &Socket, to: std::net::SocketAddr) -> Way {
    Way {
        socket: socket.id,
        transport: socket.transport,
        to,
        connection: None,
        may_connect: true,
        close_after: false,
    }
}

/// The same for each copy of a request, its CANCEL and the ACK of its failure: they go where the
/// request went (RFC 3263 4.3).
fn seed(draft: &Draft) -> u64 {
    hash(&branch::of(draft, 0))
}
