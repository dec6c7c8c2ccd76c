//! What may stand where in a chain, as data of each node type, and the checks that follow from it.
//!
//! A node type says which kind of traffic it takes from the node before it and which it gives to
//! `next`. Everything else follows: what takes nothing starts a chain, what gives nothing ends one,
//! and neighbours fit when what one gives is something that the other takes.
//!
//! Between the two ends of a mux or of a fisher pair the bytes are not those of the lines: what one
//! end puts around them the other one takes off, so nodes far from each other have to fit too.

mod layers;
mod tree;

pub use tree::{describe, tree};

use std::collections::HashMap;

use crate::suggest::nearest;

/// A kind of traffic that goes from one node to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Lines that carry bytes.
    Bytes,
    /// Records of DEALER and ROUTER sockets.
    Messages,
    /// SIP requests and their replies.
    Sip,
}

impl Traffic {
    /// The words for messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bytes => "byte streams",
            Self::Messages => "messages",
            Self::Sip => "SIP",
        }
    }
}

/// What the chain has to know of a node type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The name as written in the configuration.
    pub name: &'static str,
    /// What it takes from the nodes before it, each of them one kind; none starts a chain.
    pub takes: &'static [Traffic],
    /// What it gives to `next`; `None` ends a chain.
    pub gives: Option<Traffic>,
    /// What it does to the bytes that pass.
    pub bytes: Bytes,
    /// It works for one node alone: no two have it as their `next`.
    pub alone: bool,
}

/// What a node does to the bytes that pass it, as far as other nodes must fit to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// Nothing: brings them from outside, passes them on or carries them out, whatever they are.
    Any,
    /// Makes bytes of its own, or reads those that arrive.
    Own,
    /// Puts something around them.
    Adds(Layer),
    /// Takes off what another node put around them.
    Removes(Layer),
}

/// What a node puts around the bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The frames of a mux.
    Frames,
    /// The probe of a fisher.
    Probe,
}

impl Shape {
    const fn start(name: &'static str, bytes: Bytes) -> Self {
        Self { name, takes: &[], gives: Some(Traffic::Bytes), bytes, alone: false }
    }

    const fn inside(name: &'static str, bytes: Bytes) -> Self {
        Self { name, takes: &[Traffic::Bytes], gives: Some(Traffic::Bytes), bytes, alone: false }
    }

    const fn end(name: &'static str, bytes: Bytes) -> Self {
        Self { name, takes: &[Traffic::Bytes], gives: None, bytes, alone: false }
    }
}

/// `TcpListener`: starts a chain.
pub const TCP_LISTENER: Shape = Shape::start("TcpListener", Bytes::Any);
/// `TcpConnector`: ends a chain.
pub const TCP_CONNECTOR: Shape = Shape::end("TcpConnector", Bytes::Any);
/// `EchoServer`: ends a chain of lines, or one of records (B-6).
pub const ECHO_SERVER: Shape =
    Shape { takes: &[Traffic::Bytes, Traffic::Messages], ..Shape::end("EchoServer", Bytes::Own) };
/// `TesterClient`: starts a chain.
pub const TESTER_CLIENT: Shape = Shape::start("TesterClient", Bytes::Own);
/// `TesterServer`: ends a chain.
pub const TESTER_SERVER: Shape = Shape::end("TesterServer", Bytes::Own);
/// `ConnectionFisherClient`: stands inside a chain.
pub const FISHER_CLIENT: Shape = Shape::inside("ConnectionFisherClient", Bytes::Adds(Layer::Probe));
/// `ConnectionFisherServer`: stands inside a chain.
pub const FISHER_SERVER: Shape =
    Shape::inside("ConnectionFisherServer", Bytes::Removes(Layer::Probe));
/// `MuxClient`: stands inside a chain.
pub const MUX_CLIENT: Shape = Shape::inside("MuxClient", Bytes::Adds(Layer::Frames));
/// `MuxServer`: stands inside a chain.
pub const MUX_SERVER: Shape = Shape::inside("MuxServer", Bytes::Removes(Layer::Frames));

/// `RouterSocket`: starts a chain of records.
pub const ROUTER_SOCKET: Shape =
    Shape { gives: Some(Traffic::Messages), ..Shape::start("RouterSocket", Bytes::Any) };
/// `DealerSocket`: ends a chain of records. Its answers go to the clients of one socket.
pub const DEALER_SOCKET: Shape =
    Shape { takes: &[Traffic::Messages], alone: true, ..Shape::end("DealerSocket", Bytes::Any) };

/// `SipListener`: starts a chain of SIP messages.
pub const SIP_LISTENER: Shape =
    Shape { gives: Some(Traffic::Sip), ..Shape::start("SipListener", Bytes::Any) };
/// `SipRouter`: ends a chain of SIP messages. What it sends leaves by the sockets of one listener.
pub const SIP_ROUTER: Shape =
    Shape { takes: &[Traffic::Sip], alone: true, ..Shape::end("SipRouter", Bytes::Any) };

/// What a node says of its follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// Nothing.
    Nobody,
    /// This name.
    To(&'a str),
    /// Something that is no name.
    Unreadable,
}

/// A node as far as the chain is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// Its name, if it has a right one.
    pub name: Option<&'a str>,
    /// Its type, if that is known.
    pub shape: Option<&'a Shape>,
    /// What follows.
    pub next: Next<'a>,
}

/// What is wrong with a chain. Nodes are indices into the list that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The node gives traffic to nobody.
    MissingNext {
        /// The node without `next`.
        node: usize,
    },
    /// `next` names no node.
    UnknownNext {
        /// The node with the wrong `next`.
        node: usize,
        /// The node that was probably meant.
        near: Option<usize>,
    },
    /// The chain comes back to a node that it passed.
    Loop {
        /// The node whose `next` closes the loop.
        node: usize,
        /// The nodes of the loop in order; `node` is the last.
        nodes: Vec<usize>,
    },
    /// The node ends a chain, but has a `next`.
    NextOfEnd {
        /// The node that ends a chain.
        node: usize,
    },
    /// `next` is a node that starts a chain.
    NextIsStart {
        /// The node whose `next` it is.
        node: usize,
        /// The node that starts a chain.
        next: usize,
    },
    /// What the node gives is not what `next` takes.
    Misfit {
        /// The node that gives.
        node: usize,
        /// The node that takes.
        next: usize,
    },
    /// `next` works for one node alone, and has one.
    SecondBefore {
        /// The node whose `next` it is.
        node: usize,
        /// The node that works for one alone.
        next: usize,
        /// The node that it works for.
        first: usize,
    },
    /// `next` can not read what arrives there from a node further back.
    WrongBytes {
        /// The node whose `next` it is.
        node: usize,
        /// The node that can not read it.
        next: usize,
        /// The node that it comes from; may be `node` itself.
        from: usize,
    },
    /// The node must be some node's `next`, and is not.
    Unreached {
        /// The node that no chain leads to.
        node: usize,
    },
}

/// Checks how nodes are linked; at most one fault for each `next`.
pub fn check(links: &[Link<'_>]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut nodes: HashMap<&str, usize> = HashMap::new();
    for (node, name) in links.iter().enumerate().filter_map(|(n, link)| Some((n, link.name?))) {
        nodes.entry(name).or_insert(node);
    }
    let mut follower = vec![None; links.len()];
    let mut reached = vec![false; links.len()];
    // A `next` that leads nowhere may have been meant for any node: then none is called unreached.
    let mut open_end = false;

    for (node, link) in links.iter().enumerate() {
        match link.next {
            Next::Unreadable => open_end = true,
            Next::Nobody => {
                if link.shape.is_some_and(|shape| shape.gives.is_some()) {
                    faults.push(Fault::MissingNext { node });
                }
                open_end |= link.shape.is_none_or(|shape| shape.gives.is_some());
            }
            Next::To(name) => {
                follower[node] = nodes.get(name).copied();
                let leads_to = follower[node].or_else(|| {
                    let others = links.iter().filter_map(|link| link.name);
                    let others = others.filter(|other| link.name != Some(other));
                    let near = nearest(name, others).map(|name| nodes[name]);
                    faults.push(Fault::UnknownNext { node, near });
                    near
                });
                match leads_to {
                    Some(next) => reached[next] = true,
                    None => open_end = true,
                }
            }
        }
    }

    let loops = loops(&follower);
    let mut sound = follower.clone();
    let mut served: HashMap<usize, usize> = HashMap::new();
    for (node, next) in follower.iter().enumerate() {
        let Some(next) = *next else { continue };
        let (from, to) = (links[node].shape, links[next].shape);
        let fault = if let Some(nodes) = loops.iter().find(|nodes| nodes.last() == Some(&node)) {
            Fault::Loop { node, nodes: nodes.clone() }
        } else if from.is_some_and(|shape| shape.gives.is_none()) {
            Fault::NextOfEnd { node }
        } else if to.is_some_and(|shape| shape.takes.is_empty()) {
            Fault::NextIsStart { node, next }
        } else if let (Some(from), Some(to)) = (from, to)
            && from.gives.is_some_and(|gives| !to.takes.contains(&gives))
        {
            Fault::Misfit { node, next }
        } else if to.is_some_and(|shape| shape.alone)
            && let first = *served.entry(next).or_insert(node)
            && first != node
        {
            Fault::SecondBefore { node, next, first }
        } else {
            continue;
        };
        faults.push(fault);
        sound[node] = None;
    }
    faults.extend(layers::faults(links, &sound));

    let must_be_reached =
        |link: &Link<'_>| link.name.is_some() && link.shape.is_some_and(|s| !s.takes.is_empty());
    if !open_end {
        let unreached = (0..links.len()).filter(|&n| !reached[n] && must_be_reached(&links[n]));
        // Of two nodes with one name the second can not be reached; the name is the fault then.
        let first_of_name = |&n: &usize| links[n].name.is_some_and(|name| nodes[name] == n);
        faults.extend(unreached.filter(first_of_name).map(|node| Fault::Unreached { node }));
    }
    faults
}

/// Every loop, each once, as the nodes in order from the first that was met.
fn loops(follower: &[Option<usize>]) -> Vec<Vec<usize>> {
    // The walk in which a node was first met, counted from 1.
    let mut met = vec![0; follower.len()];
    let mut loops = Vec::new();
    for start in 0..follower.len() {
        let walk = start + 1;
        let mut path = Vec::new();
        let mut at = Some(start);
        while let Some(node) = at {
            if met[node] == walk {
                let first = path.iter().position(|&n| n == node).unwrap_or_default();
                loops.push(path.split_off(first));
                break;
            }
            if met[node] != 0 {
                break;
            }
            met[node] = walk;
            path.push(node);
            at = follower[node];
        }
    }
    loops
}

#[cfg(test)]
mod tests;
