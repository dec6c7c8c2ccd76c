//! One chain: a `RouterSocket`, what answers it, and the `DealerSocket` behind it if there is one.

use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::join;
use lineway_wire::zmp::broker::BrokerSettings;
use lineway_wire::zmp::core::FlowState;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use super::live::{Handle, Live};
use super::{Site, Spec};
use crate::settings::NodeSettings;
use crate::socket::Answering;
use crate::supervisor::Backoff;
use crate::worker::{Answer, AnswerWith};

/// How often the health of its sockets is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What a chain is told.
pub(super) enum Command {
    /// It has these parts from now on, once what it has taken is answered.
    Replace(Box<(Spec, Parts)>),
    /// It is over: what was taken is answered for so long.
    Stop(Duration, oneshot::Sender<()>),
}

/// Sockets that a chain gets.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) router: Option<Live>,
    pub(super) dealer: Option<Live>,
}

impl Parts {
    pub(super) fn each(&self) -> impl Iterator<Item = &Live> {
        [&self.router, &self.dealer].into_iter().flatten()
    }
}

/// Who keeps a chain.
pub(super) struct Keeper {
    site: Rc<Site>,
    spec: Spec,
    router: Live,
    dealer: Option<Live>,
    answering: Option<Answering>,
    backoff: Backoff,
    /// When the chain is made anew.
    due: Option<Instant>,
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Keeper {
    pub(super) fn new(site: &Rc<Site>, spec: Spec, router: Live, dealer: Option<Live>) -> Self {
        let (answering, backoff) = (None, Backoff::default());
        Self { site: Rc::clone(site), spec, router, dealer, answering, backoff, due: None }
    }

    /// Keeps the chain until it is told to stop; `begun` is told when it answers.
    pub(super) async fn run(
        mut self,
        mut told: mpsc::UnboundedReceiver<Command>,
        begun: oneshot::Sender<()>,
    ) {
        self.begin().await;
        let _ = begun.send(());
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.due.map(tokio::time::Instant::from_std);
            let answering = self.answering.as_mut();
            tokio::select! {
                biased;
                command = told.recv() => match command {
                    Some(Command::Replace(with)) => self.replace(with.0, with.1).await,
                    Some(Command::Stop(patience, done)) => {
                        self.stop(patience).await;
                        let _ = done.send(());
                        return;
                    }
                    None => return self.stop(Duration::ZERO).await,
                },
                () = ended(answering) => self.died(),
                () = until(due) => self.make_anew().await,
                _ = looks.tick() => {
                    for live in [Some(&mut self.router), self.dealer.as_mut()].into_iter().flatten() {
                        live.look(now()).await;
                    }
                }
            }
        }
    }

    /// Puts the sockets to work, and starts what answers.
    async fn begin(&mut self) {
        for live in [Some(&mut self.router), self.dealer.as_mut()].into_iter().flatten() {
            live.begin().await;
        }
        let Handle::Router(router) = self.router.handle() else { return };
        // Who answered before may have asked the clients to pause, and is gone.
        router.shared().with(|core| {
            if core.receive_flow_state().is_some() {
                core.set_receive_flow_state(now(), FlowState::Running);
            }
        });
        let with = match (self.dealer.as_ref().map(Live::handle), &self.spec.router.settings) {
            (Some(Handle::Dealer(dealer)), NodeSettings::RouterSocket(settings)) => {
                let data_envelope = settings.data_envelope;
                let settings = BrokerSettings { data_envelope, ..BrokerSettings::default() };
                AnswerWith::Broker(dealer.clone(), settings)
            }
            _ => AnswerWith::Echo,
        };
        let answer = Answer { router: router.clone(), with };
        match self.site.workers[self.router.worker()].send(answer).await {
            Ok(answering) => {
                self.router.answered(answering.reader());
                self.answering = Some(answering);
            }
            // Its worker is being started again.
            Err(_) => self.died(),
        }
    }

    /// What answers is gone, though nobody asked for it: it, or a socket of it, panicked. What it
    /// had taken can not be answered, so that the sockets are made anew as well.
    fn died(&mut self) {
        self.answering = None;
        let due = self.backoff.died(now());
        self.due = Some(due);
        let node = self.router.name();
        tracing::error!(%node, "the socket, or what answers it, is gone; it is started again");
        for live in [Some(&self.router), self.dealer.as_ref()].into_iter().flatten() {
            live.unwell("it is being started again");
        }
    }

    /// Makes the sockets again, on the same workers and addresses.
    async fn make_anew(&mut self) {
        self.due = None;
        let mut parts = Parts::default();
        for (node, part) in
            [(Some(&self.spec.router), &mut parts.router), (self.spec.dealer(), &mut parts.dealer)]
        {
            let Some(node) = node else { continue };
            match Live::prepare(&self.site, node, None, &[]).await {
                Ok(live) => *part = Some(live),
                Err(errors) => {
                    for error in errors {
                        tracing::error!("not started again: {error}");
                    }
                    self.due = Some(self.backoff.died(now()));
                    return;
                }
            }
        }
        for live in [Some(&self.router), self.dealer.as_ref()].into_iter().flatten() {
            live.restarted();
        }
        self.take(parts);
        self.begin().await;
    }

    /// Gives these parts the place of those before them.
    fn take(&mut self, parts: Parts) {
        if let Some(router) = parts.router {
            self.site.leave(std::mem::replace(&mut self.router, router));
        }
        let stays = self.spec.dealer().is_some() && parts.dealer.is_none();
        if !stays && let Some(dealer) = std::mem::replace(&mut self.dealer, parts.dealer) {
            self.site.leave(dealer);
        }
    }

    async fn replace(&mut self, spec: Spec, parts: Parts) {
        if parts.router.is_some() {
            self.router.unbind().await;
        }
        if parts.dealer.is_some()
            && let Some(dealer) = &mut self.dealer
        {
            dealer.unbind().await;
        }
        if let Some(mut answering) = self.answering.take() {
            answering.stop(self.site.patience.get()).await;
        }
        self.spec = spec;
        self.due = None;
        self.take(parts);
        self.begin().await;
    }

    async fn stop(mut self, patience: Duration) {
        self.router.unbind().await;
        if let Some(mut answering) = self.answering.take() {
            answering.stop(patience).await;
        }
        match self.dealer {
            Some(dealer) => drop(join(self.router.close(), dealer.close()).await),
            None => self.router.close().await,
        }
    }
}

/// Gives when what answers has ended; never where there is none.
async fn ended(answering: Option<&mut Answering>) {
    match answering {
        Some(answering) => drop(answering.ended().await),
        None => std::future::pending().await,
    }
}

async fn until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
