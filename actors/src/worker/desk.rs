//! What a worker has: its nodes, chains and listening sockets, as the plan in force wants them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;

use super::actor::{Control, Install, ListenAt};
use super::{Worker, timers};
use crate::line::{Chain, Node, NodeRole};
use crate::listener::{LineLimit, Listener, Serving, ServingSlot, SharedAcceptor};
use crate::messages::{Died, Retire, ServeAnew, StartAgain};
use crate::metrics::ActorKind;
use crate::net::{Acceptor, ListenKey, ListenOptions, bind};
use crate::settings::{NodePlan, NodeSettings, Plan};
use crate::spawn;

struct Listening {
    acceptor: SharedAcceptor,
    slot: ServingSlot,
    addr: Addr<Listener>,
}

/// The belongings of a worker; they outlive a panic of its actor.
pub(super) struct Desk {
    pub(super) worker: Rc<Worker>,
    nodes: HashMap<Arc<str>, Rc<Node>>,
    chains: HashMap<Arc<str>, Rc<Chain>>,
    limits: HashMap<Arc<str>, LineLimit>,
    listening: HashMap<ListenKey, Listening>,
}

impl Desk {
    pub(super) fn new(worker: Rc<Worker>) -> Self {
        Self {
            worker,
            nodes: HashMap::new(),
            chains: HashMap::new(),
            limits: HashMap::new(),
            listening: HashMap::new(),
        }
    }

    /// Puts a plan in force.
    pub(super) fn install(&mut self, install: Install) {
        self.limits = install.limits;
        self.worker.drain_timeout.set(install.plan.service.drain_timeout.duration());
        let before: Vec<_> = self.nodes.values().cloned().collect();
        self.build_nodes(&install.plan);
        self.build_chains(&install.plan);
        self.retire_parents(&before);
        self.settle_listeners(&install.plan);
        self.listen(&install.plan, install.listen);
        if install.start_testers {
            self.start_testers();
        }
    }

    /// Does what the service asks; gives how many lines that touches.
    pub(super) fn control(&mut self, control: Control) -> usize {
        match control {
            Control::CountLines => self.worker.line_count(),
            Control::StopListening => {
                for (_, listening) in self.listening.drain() {
                    listening.addr.do_send(Retire { accept_waiting: false });
                }
                self.worker.drain_parents();
                self.worker.line_count()
            }
            Control::FinishLines(reason) => self.worker.finish_lines(reason, |_| true),
            Control::FinishRetired(reason, by) => {
                let due = |chain: &Chain| chain.retired.get().is_some_and(|at| at <= by);
                self.worker.finish_lines(reason, due)
            }
            Control::FinishLine(id, reason) => usize::from(self.worker.finish_line(id, reason)),
        }
    }

    /// Starts a listener again that ended by a panic; its socket is still there. One that lives is
    /// left alone: the name may have been that of another one when it died.
    pub(super) fn start_again(&mut self, again: StartAgain) {
        let index = self.worker.index;
        let is_meant = |listening: &Listening| {
            !listening.addr.connected() && listening.slot.borrow().name(index) == again.actor
        };
        let found = self.listening.iter().find(|(_, listening)| is_meant(listening));
        let Some((key, listening)) = found else { return };
        let (key, addr) = (key.clone(), self.start_listener(&listening.slot, &listening.acceptor));
        self.listening.entry(key).and_modify(|listening| listening.addr = addr);
    }

    /// The nodes of the plan; those that did not change are kept with all that they know.
    pub(super) fn build_nodes(&mut self, plan: &Plan) {
        let board = &self.worker.board;
        let build = |node: &NodePlan| {
            let same = |kept: &&Rc<Node>| *kept.plan == *node;
            let kept = self.nodes.get(&node.name).filter(same).cloned();
            kept.unwrap_or_else(|| Rc::new(Node::new(Arc::new(node.clone()), board)))
        };
        let nodes = plan.nodes.iter();
        self.nodes = nodes.map(|node| (Arc::clone(&node.name), build(node))).collect();
    }

    /// The chains of the plan; one that goes through the same nodes is kept, others are retired.
    pub(super) fn build_chains(&mut self, plan: &Plan) {
        let mut chains = HashMap::new();
        for entry in &plan.nodes {
            let path = self.path(&entry.name);
            let Some(built) = Chain::new(&path).filter(|_| entry.settings.is_entry()) else {
                continue;
            };
            let kept = self.chains.remove(&entry.name).filter(|kept| kept.same_nodes(&built));
            chains.insert(Arc::clone(&entry.name), kept.unwrap_or_else(|| Rc::new(built)));
        }
        let kept: Vec<_> = chains.values().map(Rc::as_ptr).collect();
        for listening in self.listening.values() {
            let chain = &listening.slot.borrow().chain;
            if !kept.contains(&Rc::as_ptr(chain)) {
                chain.retired.set(Some(timers::now()));
            }
        }
        self.chains = chains;
    }

    /// Parents whose way, or whose node, is not in the plan take no further child.
    fn retire_parents(&self, before: &[Rc<Node>]) {
        let planned = |way: &Chain| self.chains.values().any(|chain| chain.leads_through(way));
        for node in before {
            if let NodeRole::MuxClient(parents) = &node.role {
                if self.nodes.values().any(|kept| Rc::ptr_eq(kept, node)) {
                    parents.retire(planned);
                } else {
                    parents.retire_for_good();
                }
            }
        }
    }

    fn path(&self, entry: &Arc<str>) -> Vec<Rc<Node>> {
        let mut path = Vec::new();
        let mut next = Some(entry);
        // The plan has no loops; the count is a second lock on that door.
        while let Some(node) = next.and_then(|name| self.nodes.get(name))
            && path.len() <= self.nodes.len()
        {
            next = node.plan.next.as_ref();
            path.push(Rc::clone(node));
        }
        path
    }

    fn listen(&mut self, plan: &Plan, listen: Vec<ListenAt>) {
        for ListenAt { key, socket } in listen {
            match tokio::net::TcpListener::from_std(socket) {
                Ok(socket) => self.accept_on(plan, key, Acceptor::Tcp(socket)),
                Err(error) => tracing::error!(address = %key, %error, "the socket is of no use"),
            }
        }
    }

    /// Accepts lines of the node that has this address.
    pub(super) fn accept_on(&mut self, plan: &Plan, key: ListenKey, acceptor: Acceptor) {
        let Some(serving) = self.serving_at(plan, &key) else {
            return;
        };
        let slot = Rc::new(RefCell::new(serving));
        let acceptor = Rc::new(RefCell::new(acceptor));
        let addr = self.start_listener(&slot, &acceptor);
        self.listening.insert(key, Listening { acceptor, slot, addr });
    }

    /// What a listener at this address works for.
    fn serving_at(&self, plan: &Plan, key: &ListenKey) -> Option<Serving> {
        plan.nodes.iter().find_map(|node| {
            let place = node.listen_keys().position(|other| other == *key)?;
            let limit = self.limits.get(&node.name).cloned().unwrap_or_default();
            let chain = self.chains.get(&node.name)?.clone();
            Some(Serving { chain, place: u32::try_from(place).ok()?, limit })
        })
    }

    fn start_listener(&self, slot: &ServingSlot, acceptor: &SharedAcceptor) -> Addr<Listener> {
        let listener = Listener::new(&self.worker, Rc::clone(slot), Rc::clone(acceptor));
        let (slot, worker) = (Rc::clone(slot), self.worker.index);
        let supervisor = self.worker.board.supervisor.clone();
        spawn::start(
            ActorKind::Listener,
            self.worker.board.metrics.actors(),
            |_| listener,
            // The name of the moment: a reload may have moved the address to another node.
            move |_| supervisor.died(Died { actor: slot.borrow().name(worker) }),
        )
    }

    /// Listeners whose node or address is not in the plan accept what waits and close; the others
    /// serve their chain as it is in the plan.
    fn settle_listeners(&mut self, plan: &Plan) {
        let mut listening = std::mem::take(&mut self.listening);
        listening.retain(|key, listening| {
            let Some(serving) = self.serving_at(plan, key) else {
                listening.addr.do_send(Retire { accept_waiting: true });
                return false;
            };
            if !Rc::ptr_eq(&serving.chain, &listening.slot.borrow().chain) {
                if let NodeSettings::TcpListener(settings) = &serving.chain.entry.plan.settings
                    && let Acceptor::Tcp(socket) = &*listening.acceptor.borrow()
                    && let Err(error) = bind::reapply(socket, &ListenOptions::from(settings))
                {
                    tracing::warn!(address = %key, %error, "an option of the listening socket stays as it was");
                }
                self.hand_over(listening, serving);
            }
            true
        });
        self.listening = listening;
    }

    /// Gives a listener something else to work for.
    fn hand_over(&self, listening: &Listening, serving: Serving) {
        let name = serving.name(self.worker.index);
        let before = listening.slot.replace(serving).name(self.worker.index);
        if listening.addr.connected() {
            listening.addr.do_send(ServeAnew);
        } else if name != before {
            if let Some(node) = &name.node {
                // Until it runs again, the node that it is to work for can not serve.
                drop(self.worker.board.health.node(node, name.worker, name.place));
            }
            // It is to be started again by a name that it does not have any more.
            self.worker.board.supervisor.died(Died { actor: name });
        }
    }

    fn start_testers(&self) {
        for chain in self.chains.values() {
            let NodeSettings::TesterClient(settings) = &chain.entry.plan.settings else {
                continue;
            };
            for line in 0..settings.lines {
                self.worker.open_tester_line(chain, settings, line);
            }
        }
    }
}
