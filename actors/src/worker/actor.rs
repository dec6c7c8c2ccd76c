//! The actor of one worker: what others ask of the thread as a whole.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use actix::dev::ToEnvelope;
use actix::prelude::*;
use lineway_wire::line::FinishReason;
use lineway_wire::zmp::broker::BrokerSettings;

use super::Worker;
use super::desk::Desk;
use crate::listener::LineLimit;
use crate::messages::{Attach, CidLeaseBatch, ExpiredBatch, StartAgain, WatchAgain};
use crate::metrics::ActorKind;
use crate::net::ListenKey;
use crate::registry::LineId;
use crate::settings::Plan;
use crate::sip::router::{RouterStart, SipHandle, SipRouter, StartFault};
use crate::socket::{Answering, Dealer, Router, Unstarted, broker, echo};
use crate::spawn;

/// How long after a panic the actor is started again.
const AGAIN: Duration = Duration::from_millis(100);

/// A listening socket that a worker gets.
#[derive(Debug)]
pub struct ListenAt {
    /// The address, as configured.
    pub key: ListenKey,
    /// The worker's own socket on it.
    pub socket: TcpListener,
}

/// Puts a plan in force on a worker: what did not change stays as it is.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Install {
    /// The whole plan.
    pub plan: Arc<Plan>,
    /// Sockets for addresses that the worker does not listen on yet.
    pub listen: Vec<ListenAt>,
    /// The lines of each node over all workers, for `max-lines`.
    pub limits: HashMap<Arc<str>, LineLimit>,
    /// Starts the lines of TesterClients: at the start of the service, not at a reload.
    pub start_testers: bool,
}

/// What the service asks of a worker.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "usize")]
pub enum Control {
    /// How many lines live here.
    CountLines,
    /// Takes no new line.
    StopListening,
    /// Ends every line.
    FinishLines(FinishReason),
    /// Ends the lines of chains that a reload removed or changed, up to that time: those of later
    /// reloads have theirs.
    FinishRetired(FinishReason, Instant),
    /// Ends one line; 1 if there is such a line.
    FinishLine(LineId, FinishReason),
}

/// Gives a message socket a place to live.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct HostSocket(pub Unstarted);

/// Starts a SIP chain on a worker.
#[derive(Debug, Message)]
#[rtype(result = "Result<SipHandle, StartFault>")]
pub struct HostSip(pub RouterStart);

/// Starts what answers a `RouterSocket`.
#[derive(Debug, Message)]
#[rtype(result = "Answering")]
pub struct Answer {
    /// The socket.
    pub router: Router,
    /// With what.
    pub with: AnswerWith,
}

/// What answers a `RouterSocket` (B-6).
#[derive(Clone, Debug)]
pub enum AnswerWith {
    /// An `EchoServer`.
    Echo,
    /// The workers of a `DealerSocket`.
    Broker(Dealer, BrokerSettings),
}

/// A worker as an actor.
pub struct WorkerActor {
    desk: Rc<RefCell<Desk>>,
}

/// Reaches the actor of a worker from any thread, also after it was started again.
#[derive(Clone)]
pub struct WorkerHandle {
    address: Arc<RwLock<Addr<WorkerActor>>>,
}

impl WorkerHandle {
    /// Sends a message and waits for the answer.
    pub fn send<M>(&self, message: M) -> Request<WorkerActor, M>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        WorkerActor: Handler<M>,
        Context<WorkerActor>: ToEnvelope<WorkerActor, M>,
    {
        self.address().send(message)
    }

    /// The actor as it is at the moment.
    pub fn address(&self) -> Addr<WorkerActor> {
        self.address.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl std::fmt::Debug for WorkerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WorkerHandle")
    }
}

impl WorkerActor {
    /// Starts the actor of a worker on this thread, and its supervision.
    pub fn start(worker: Rc<Worker>) -> WorkerHandle {
        Self::start_with(Rc::new(RefCell::new(Desk::new(worker))))
    }

    fn start_with(desk: Rc<RefCell<Desk>>) -> WorkerHandle {
        let (told, tell) = (Rc::new(RefCell::new(None::<WorkerHandle>)), Rc::clone(&desk));
        let address = Self::launch(tell, Rc::clone(&told));
        let handle = WorkerHandle { address: Arc::new(RwLock::new(address)) };
        *told.borrow_mut() = Some(handle.clone());
        handle
    }

    /// Starts the actor on what the one before it left behind.
    fn launch(desk: Rc<RefCell<Desk>>, handle: Rc<RefCell<Option<WorkerHandle>>>) -> Addr<Self> {
        let worker = Rc::clone(&desk.borrow().worker);
        let actors = worker.board.metrics.actors().clone();
        let own = Rc::clone(&desk);
        let again = actors.clone();
        let address = spawn::start(
            ActorKind::Worker,
            &actors,
            |_| Self { desk: own },
            move |_| {
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(AGAIN).await;
                    again.kind(ActorKind::Worker).restarted();
                    let address = Self::launch(desk, Rc::clone(&handle));
                    if let Some(handle) = &*handle.borrow() {
                        *handle.address.write().unwrap_or_else(PoisonError::into_inner) = address;
                    }
                });
            },
        );
        worker.board.supervisor.attach(Attach {
            worker: worker.index,
            expired: address.clone().recipient(),
            leases: address.clone().recipient(),
            again: address.clone().recipient(),
            restart: address.clone().recipient(),
        });
        // Those that were sent to the actor before and died with it.
        worker.lessees.find_lost();
        address
    }
}

impl std::fmt::Debug for WorkerActor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WorkerActor")
    }
}

impl Actor for WorkerActor {
    type Context = Context<Self>;
}

impl Handler<Install> for WorkerActor {
    type Result = ();

    fn handle(&mut self, install: Install, _: &mut Self::Context) {
        self.desk.borrow_mut().install(install);
    }
}

impl Handler<Control> for WorkerActor {
    type Result = usize;

    fn handle(&mut self, control: Control, _: &mut Self::Context) -> usize {
        self.desk.borrow_mut().control(control)
    }
}

impl Handler<HostSocket> for WorkerActor {
    type Result = ();

    fn handle(&mut self, HostSocket(socket): HostSocket, _: &mut Self::Context) {
        socket.start(&self.desk.borrow().worker.socket_env());
    }
}

impl Handler<HostSip> for WorkerActor {
    type Result = Result<SipHandle, StartFault>;

    fn handle(&mut self, HostSip(start): HostSip, _: &mut Self::Context) -> Self::Result {
        SipRouter::start(&self.desk.borrow().worker, start)
    }
}

impl Handler<Answer> for WorkerActor {
    type Result = MessageResult<Answer>;

    fn handle(&mut self, Answer { router, with }: Answer, _: &mut Self::Context) -> Self::Result {
        MessageResult(match with {
            AnswerWith::Echo => echo::start(&router),
            AnswerWith::Broker(dealer, settings) => broker::start(&router, &dealer, settings),
        })
    }
}

impl Handler<ExpiredBatch> for WorkerActor {
    type Result = ();

    fn handle(&mut self, batch: ExpiredBatch, _: &mut Self::Context) {
        for expired in batch.expired {
            self.desk.borrow().worker.expired(expired);
        }
    }
}

impl Handler<CidLeaseBatch> for WorkerActor {
    type Result = ();

    fn handle(&mut self, batch: CidLeaseBatch, _: &mut Self::Context) {
        for lease in batch.leases {
            self.desk.borrow().worker.leased(lease);
        }
    }
}

impl Handler<WatchAgain> for WorkerActor {
    type Result = ();

    fn handle(&mut self, _: WatchAgain, _: &mut Self::Context) {
        self.desk.borrow().worker.account();
    }
}

impl Handler<StartAgain> for WorkerActor {
    type Result = ();

    fn handle(&mut self, again: StartAgain, _: &mut Self::Context) {
        self.desk.borrow_mut().start_again(again);
    }
}

#[cfg(test)]
mod tests;
