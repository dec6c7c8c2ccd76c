//! The nodes of one chain as a worker's lines use them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lineway_wire::line::{IdleLimits, WaterMarks};
use lineway_wire::mux::Limits;
use lineway_wire::weighted::Weighted;

use super::dialing::Dialing;
use super::end::End;
use super::stage::{Stage, Stages};
use super::tester::TesterServer;
use crate::fisher::{FisherServer, Race};
use crate::health::ConnectorHandle;
use crate::metrics::NodeMetrics;
use crate::mux::{Mux, Parents};
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
    /// Carries its lines as children of few parents.
    MuxClient(Rc<Parents>),
    /// Makes lines of the children that the peer of a parent opens.
    MuxServer {
        /// What each parent may hold.
        limits: Limits,
        /// `max-children` (M32).
        most: usize,
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

impl NodeRole {
    /// True for the nodes between which bytes of children are frames.
    const fn is_mux(&self) -> bool {
        matches!(self, Self::MuxClient(_) | Self::MuxServer { .. })
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
                    NodeSettings::MuxClient(settings) => {
                        NodeRole::MuxClient(Rc::new(Parents::new(settings)))
                    }
                    NodeSettings::MuxServer(settings) => NodeRole::MuxServer {
                        limits: settings.mux.limits(),
                        most: settings.max_children as usize,
                    },
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
    /// Its lines are parents, at either end.
    pub is_parent: bool,
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
        // A line ends where it becomes the child of a parent, or the parent of children.
        let mux = nodes.iter().skip(1).position(|node| node.role.is_mux()).map(|at| at + 1);
        let within = &nodes[..mux.map_or(nodes.len(), |at| at + 1)];
        let [entry, .., last] = within else {
            return None;
        };
        let races = |node: &Rc<Node>| matches!(node.role, NodeRole::FisherClient { .. });
        let race = within.iter().skip(1).position(races).map(|at| at + 1);
        let (own, onward) = match race.or(mux) {
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
        let is_parent = matches!(entry.role, NodeRole::MuxClient(_))
            || matches!(last.role, NodeRole::MuxServer { .. });
        // T06: a parent has keepalive instead.
        let idles = if is_parent { &[] } else { within };
        Some(Self {
            is_parent,
            idle: idles.iter().fold(IdleLimits::default(), |limits, n| limits.shorter(n.idle())),
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

    /// True when its lines go on in this way, themselves or as children.
    pub fn leads_through(&self, way: &Self) -> bool {
        let onward = self.onward.as_ref();
        onward.is_some_and(|onward| onward.same_nodes(way) || onward.leads_through(way))
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

    /// Descriptors of a line with an accepted connection: one more where it connects to another.
    pub fn descriptors(&self) -> u16 {
        if self.end.role.is_mux() { 1 } else { 2 }
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
            NodeRole::MuxClient(parents) => match &self.onward {
                Some(way) => End::Stream(Box::new(parents.join(worker, &self.end, way))),
                None => End::Waiting,
            },
            NodeRole::MuxServer { limits, most } => match &self.onward {
                Some(way) => {
                    End::Mux(Box::new(Mux::server(worker, &self.end, *limits, *most, way)))
                }
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
