//! The nodes of one chain as a worker's lines use them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lineway_wire::line::{IdleLimits, WaterMarks};
use lineway_wire::weighted::Weighted;

use super::dialing::Dialing;
use super::end::End;
use super::stage::{Stage, Stages};
use super::tester::TesterServer;
use crate::fisher::{FisherServer, Race};
use crate::health::ConnectorHandle;
use crate::metrics::NodeMetrics;
use crate::net::ConnectOptions;
use crate::settings::{NodePlan, NodeSettings, SocketSettings, TcpConnectorSettings};
use crate::worker::{Board, Worker};

/// One node on one worker.
#[derive(Debug)]
pub struct Node {
    /// The node as configured.
    pub plan: Arc<NodePlan>,
    /// Its counters.
    pub metrics: Arc<NodeMetrics>,
    /// What it does.
    pub role: NodeRole,
}

/// What a node does, with what it keeps on this worker.
#[derive(Debug)]
pub enum NodeRole {
    /// A chain starts here.
    Entry,
    /// Connects to a server.
    Connector(Box<Connector>),
    /// Sends back what it gets.
    Echo,
    /// Lets candidates race to what follows.
    FisherClient {
        /// How many candidates each line has.
        tries: u32,
    },
    /// Proves itself to a fisher's client.
    FisherServer {
        /// How long the backend waits for a payload before it may speak first (S04b).
        server_first: Option<Duration>,
    },
    /// Answers a TesterClient.
    TesterServer {
        /// How many chunk sizes the test has.
        chunks: usize,
    },
}

/// A `TcpConnector` on one worker.
#[derive(Debug)]
pub struct Connector {
    /// Its settings.
    pub settings: TcpConnectorSettings,
    /// What its sockets have.
    pub options: ConnectOptions,
    /// Whether its connects succeed.
    pub health: ConnectorHandle,
    weighted: RefCell<Weighted>,
}

impl Connector {
    fn new(settings: &TcpConnectorSettings, health: ConnectorHandle) -> Self {
        Self {
            health,
            options: settings.into(),
            weighted: RefCell::new(Weighted::new(settings.targets.iter().map(|t| t.weight))),
            settings: settings.clone(),
        }
    }

    /// The index of the target whose turn it is, by weight.
    pub fn choose(&self) -> usize {
        self.weighted.borrow_mut().choose()
    }
}

impl Node {
    /// A node on one worker.
    pub fn new(plan: Arc<NodePlan>, board: &Board) -> Self {
        let metrics = board.metrics.node(&plan.name, plan.settings.type_name());
        let role = match &plan.settings {
            // A listener says of each of its sockets whether it serves.
            NodeSettings::TcpListener(_) => NodeRole::Entry,
            NodeSettings::TcpConnector(settings) => {
                let health = board.health.connector(&plan.name);
                NodeRole::Connector(Box::new(Connector::new(settings, health)))
            }
            other => {
                board.health.passive(&plan.name);
                match other {
                    NodeSettings::TesterServer(settings) => {
                        NodeRole::TesterServer { chunks: settings.chunk_count }
                    }
                    NodeSettings::EchoServer => NodeRole::Echo,
                    NodeSettings::ConnectionFisherClient(settings) => {
                        NodeRole::FisherClient { tries: settings.simultaneous_tries }
                    }
                    NodeSettings::ConnectionFisherServer(settings) => {
                        NodeRole::FisherServer { server_first: settings.server_first_delay.limit() }
                    }
                    _ => NodeRole::Entry,
                }
            }
        };
        Self { plan, metrics, role }
    }

    fn socket(&self) -> Option<&SocketSettings> {
        match &self.plan.settings {
            NodeSettings::TcpListener(settings) => Some(&settings.socket),
            NodeSettings::TcpConnector(settings) => Some(&settings.socket),
            _ => None,
        }
    }

    fn idle(&self) -> IdleLimits {
        match &self.plan.settings {
            NodeSettings::TcpListener(settings) => IdleLimits {
                initial: settings.initial_idle_timeout.limit(),
                active: settings.active_idle_timeout.limit(),
            },
            NodeSettings::TcpConnector(settings) => {
                let limit = settings.idle_timeout.limit();
                IdleLimits { initial: limit, active: limit }
            }
            _ => IdleLimits::default(),
        }
    }
}

/// The way of a line from the node that it enters to the node that ends its chain, on one worker.
#[derive(Debug)]
pub struct Chain {
    /// Where lines enter.
    pub entry: Rc<Node>,
    /// The nodes between, in order.
    pub middle: Vec<Rc<Node>>,
    /// The node that ends the chain, or the one whose candidates go on from here.
    pub end: Rc<Node>,
    /// The chain of those candidates, which begins with that node.
    pub onward: Option<Rc<Chain>>,
    /// Idle times that hold for its lines (T06).
    pub idle: IdleLimits,
    /// Water marks of the two queues, upstream and downstream (T04).
    pub marks: [WaterMarks; 2],
    /// How long queued bytes may take to leave after Finish (T05).
    pub linger: std::time::Duration,
    /// When a reload removed or changed a node of it: it takes no further line.
    pub retired: Cell<Option<Instant>>,
}

impl Chain {
    /// A chain of nodes in order; `None` without a node that ends it.
    pub fn new(nodes: &[Rc<Node>]) -> Option<Self> {
        let [entry, .., last] = nodes else {
            return None;
        };
        let races = |node: &Rc<Node>| matches!(node.role, NodeRole::FisherClient { .. });
        let race = nodes.iter().skip(1).position(races).map(|at| at + 1);
        let (own, onward) = match race {
            Some(at) => (&nodes[..=at], Some(Rc::new(Self::new(&nodes[at..])?))),
            None => (nodes, None),
        };
        let [_, middle @ .., end] = own else {
            return None;
        };
        let marks = |node: &Node| {
            node.socket().map_or_else(WaterMarks::default, |socket| {
                WaterMarks::new(socket.write_high_water.as_len(), socket.write_low_water.as_len())
            })
        };
        let linger = [entry, last]
            .into_iter()
            .filter_map(|node| node.socket())
            .map(|socket| socket.linger.duration())
            .max();
        Some(Self {
            idle: nodes.iter().fold(IdleLimits::default(), |limits, n| limits.shorter(n.idle())),
            // Upstream bytes wait for the far socket, downstream bytes for the near one.
            marks: [marks(last), marks(entry)],
            linger: linger.unwrap_or_default(),
            entry: Rc::clone(entry),
            middle: middle.to_vec(),
            end: Rc::clone(end),
            onward,
            retired: Cell::new(None),
        })
    }

    /// True when both go through the very same nodes.
    pub fn same_nodes(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.entry, &other.entry)
            && Rc::ptr_eq(&self.end, &other.end)
            && self.middle.len() == other.middle.len()
            && self.middle.iter().zip(&other.middle).all(|(a, b)| Rc::ptr_eq(a, b))
            && match (&self.onward, &other.onward) {
                (Some(a), Some(b)) => a.same_nodes(b),
                (None, None) => true,
                _ => false,
            }
    }

    /// The stages that the nodes between put on a line.
    pub fn stages(&self) -> Stages {
        let stage = |node: &Rc<Node>| match node.role {
            NodeRole::FisherServer { server_first } => {
                Some(Box::new(FisherServer::new(node, server_first)) as Box<dyn Stage>)
            }
            _ => None,
        };
        Stages::new(self.middle.iter().filter_map(stage).collect())
    }

    /// True for the way of a candidate: what it sends first is a probe.
    fn asks(&self) -> bool {
        matches!(self.entry.role, NodeRole::FisherClient { .. })
    }

    /// True when what a client sends first is answered at once: the probe of a candidate.
    pub fn answers(&self) -> bool {
        let first = self.middle.first().unwrap_or(&self.end);
        matches!(first.role, NodeRole::FisherServer { .. })
    }

    /// The far end of a new line.
    pub fn begin_far(&self, worker: &Rc<Worker>) -> End {
        match &self.end.role {
            NodeRole::Connector(connector) => {
                End::Dialing(Box::new(Dialing::new(worker, &self.end, connector, self.asks())))
            }
            NodeRole::FisherClient { tries } => match &self.onward {
                Some(onward) => End::Race(Box::new(Race::new(worker, &self.end, onward, *tries))),
                None => End::Waiting,
            },
            NodeRole::TesterServer { chunks } => {
                End::TesterServer(Box::new(TesterServer::new(*chunks)))
            }
            NodeRole::Echo | NodeRole::Entry | NodeRole::FisherServer { .. } => {
                End::Echo(Box::default())
            }
        }
    }
}
