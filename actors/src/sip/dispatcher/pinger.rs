//! The actor that asks the targets whether they live. One for each chain, on one worker; started
//! again after a panic, ended with its `Pinger`.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{AbortHandle, LocalBoxFuture, abortable, join_all, pending};
use futures_util::stream::FuturesUnordered;
use lineway_wire::sip::hop::Hop;
use lineway_wire::sip::locate::{Destination, Locate, LocateOptions, Progress, UNRESOLVABLE};
use lineway_wire::sip::own::{Own, Transport};
use lineway_wire::sip::probe::{Act, ProbeId};

use super::{LEFT_OUT, Sets, Target};
use crate::metrics::ActorKind;
use crate::sip::back::{SendError, Way};
use crate::sip::shared::SipShared;
use crate::sip::transport::{Sent, Transports};
use crate::spawn;
use crate::worker::Worker;

/// How long after a panic the actor is started again.
const AGAIN: Duration = Duration::from_millis(100);

/// The first probes are spread over this time, so that not all targets are asked in one moment.
const SPREAD: Duration = Duration::from_secs(1);

/// What the actor works with.
pub(in crate::sip) struct Site {
    /// Its worker.
    pub(in crate::sip) worker: Rc<Worker>,
    /// The name of the `SipRouter`, for logs.
    pub(in crate::sip) node: Arc<str>,
    /// What it can send by.
    pub(in crate::sip) own: Rc<Own>,
    /// What it sends by.
    pub(in crate::sip) transports: Rc<Transports>,
    /// Where the targets are.
    pub(in crate::sip) shared: Arc<SipShared>,
}

/// Ends the actor when it is dropped.
pub(in crate::sip) struct Pinger(Rc<Life>);

struct Life {
    over: Cell<bool>,
    work: RefCell<Option<AbortHandle>>,
}

impl Pinger {
    /// Starts the actor.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub(in crate::sip) fn start(site: Site) -> Self {
        let life = Rc::new(Life { over: Cell::new(false), work: RefCell::new(None) });
        launch(&Rc::new(site), &life);
        Self(life)
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        self.0.over.set(true);
        if let Some(work) = self.0.work.take() {
            work.abort();
        }
    }
}

/// The actor: its work is one future.
struct SipDispatcher {
    work: Option<LocalBoxFuture<'static, ()>>,
}

impl Actor for SipDispatcher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Some(work) = self.work.take() {
            ctx.spawn(work.into_actor(self).map(|(), _, ctx| ctx.stop()));
        }
    }
}

fn launch(site: &Rc<Site>, life: &Rc<Life>) {
    let (work, handle) = abortable(run(Rc::clone(site)));
    *life.work.borrow_mut() = Some(handle);
    let work: LocalBoxFuture<'static, ()> = Box::pin(async move {
        // Aborted it is over all the same.
        let _ = work.await;
    });
    let actors = site.worker.board.metrics.actors().clone();
    let again = actors.clone();
    let (site, life) = (Rc::clone(site), Rc::clone(life));
    let build = |_: &mut Context<SipDispatcher>| SipDispatcher { work: Some(work) };
    let _address = spawn::start(ActorKind::SipDispatcher, &actors, build, move |_| {
        tokio::task::spawn_local(async move {
            tokio::time::sleep(AGAIN).await;
            if !life.over.get() {
                again.kind(ActorKind::SipDispatcher).restarted();
                launch(&site, &life);
            }
        });
    });
}

/// Asks the targets that are in force, whichever these are.
async fn run(site: Rc<Site>) {
    let mut changes = site.shared.dispatcher.current.subscribe();
    loop {
        let sets = Arc::clone(&changes.borrow_and_update());
        let targets = sets.targets();
        let (begin, count) = (now(), u32::try_from(targets.len()).unwrap_or(u32::MAX).max(1));
        let step = sets.ping.unwrap_or_default().min(SPREAD) / count;
        let watching = (0..).zip(targets).map(|(place, target)| {
            let (site, sets) = (Rc::clone(&site), Arc::clone(&sets));
            async move {
                target.set_probe(sets.ping, begin + step * place, begin);
                match sets.ping {
                    Some(_) => site.probe(&sets, &target).await,
                    None => site.look_up(&sets, &target).await,
                }
            }
        });
        let mut watching: FuturesUnordered<_> = watching.collect();
        let forever = async {
            while watching.next().await.is_some() {}
            pending::<()>().await;
        };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = forever => {}
        }
    }
}

/// A probe that left.
struct Left {
    number: u32,
    way: Way,
    bytes: Bytes,
}

impl Site {
    /// Asks a target in its interval.
    async fn probe(&self, sets: &Sets, target: &Target) {
        let dispatcher = &self.shared.dispatcher;
        let mut left: Option<Left> = None;
        while let Some(at) = target.poll_timeout() {
            tokio::time::sleep_until(at.into()).await;
            while let Some(act) = dispatcher.due(target, now()) {
                let number = match act {
                    Act::Silent => continue,
                    Act::Ask(number) => number,
                    Act::Again(number) => {
                        match left.as_ref().filter(|left| left.number == number) {
                            Some(left) => {
                                self.again(left);
                                continue;
                            }
                            // Another one asked first, before the configuration changed.
                            None => number,
                        }
                    }
                };
                left = match self.ask(sets, target, number).await {
                    Ok(left) => Some(left),
                    Err(why) => {
                        let (node, target_uri) =
                            (&*self.node, String::from_utf8_lossy(target.uri()));
                        tracing::debug!(node, target = %target_uri, %why, "a target is not asked");
                        dispatcher.unsent(target, number, now());
                        None
                    }
                };
            }
        }
    }

    fn again(&self, left: &Left) {
        if left.way.transport == Transport::Udp
            && let Sent::Failed(error) = self.transports.send(&left.way, left.bytes.clone())
        {
            tracing::debug!(node = %self.node, %error, "a target is not asked again");
        }
    }

    /// Sends a probe.
    async fn ask(&self, sets: &Sets, target: &Target, number: u32) -> Result<Left, Why> {
        let to = self.found(sets, target).await.ok_or(Why::NoAddress)?;
        let socket = self.own.first(to.transport, to.address.ip());
        let socket = socket.ok_or(Why::NotSent(SendError::NoSocket))?;
        let id = ProbeId { asker: self.shared.dispatcher.asker, target: target.key, number };
        let mut bytes = Vec::with_capacity(512);
        id.write(target.uri(), socket, &mut bytes);
        let way = Way {
            socket: socket.id,
            transport: socket.transport,
            to: to.address,
            connection: None,
            may_connect: true,
            close_after: false,
        };
        let left = Left { number, way, bytes: bytes.into() };
        let sent = match self.transports.send(&way, left.bytes.clone()) {
            Sent::Done => Ok(()),
            Sent::Failed(error) => Err(error),
            Sent::Later(sent) => sent.await,
        };
        sent.map(|()| left).map_err(Why::NotSent)
    }

    /// Keeps up with where the name of a target leads, for who asks whether a source is one.
    async fn look_up(&self, sets: &Sets, target: &Target) {
        while super::written(&String::from_utf8_lossy(target.uri())).is_none() {
            self.found(sets, target).await;
            tokio::time::sleep(LEFT_OUT).await;
        }
    }

    /// Where a target is.
    async fn found(&self, sets: &Sets, target: &Target) -> Option<Destination> {
        let hop = Hop::of(target.uri()).ok()?;
        let options = LocateOptions::of(&self.own, true);
        let (mut locate, mut progress) = Locate::new(hop, options, 0).ok()?;
        let search = async {
            loop {
                let questions = match progress {
                    Progress::Found(found) => return Ok(found),
                    Progress::Ask(questions) => questions,
                };
                let names = Rc::clone(&self.worker.names.borrow());
                let answers = questions.iter().map(|question| names.records(question));
                progress = locate.answer(join_all(answers).await)?;
            }
        };
        let found = tokio::time::timeout(sets.resolve, search).await;
        let found = found.unwrap_or(Err(UNRESOLVABLE)).ok()?;
        target.is_found_at(found.iter().map(|to| to.address).collect::<Vec<SocketAddr>>());
        found.first().copied()
    }
}

/// Why a target is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error("its name leads nowhere")]
    NoAddress,
    #[error(transparent)]
    NotSent(SendError),
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
