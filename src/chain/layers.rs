//! What is put around the bytes has to be taken off again by the right node.

use std::collections::BTreeMap;

use super::{Bytes, Fault, Layer, Link};

/// A fault for each `next` at which something arrives that the node there can not read.
///
/// `follower` has the node after each node, as far as that link is right. Only what concerns a mux
/// is a fault: its frames with a node that is no mux's end, and a mux's end without frames. What
/// comes from a listener may be anything, and a connector carries anything.
pub(super) fn faults(links: &[Link<'_>], follower: &[Option<usize>]) -> Vec<Fault> {
    let mut wrong = BTreeMap::new();
    for from in 0..links.len() {
        if let Some((node, next)) = arrives(links, follower, from) {
            // Several nodes may send to the same place: one of them is named.
            wrong.entry(node).or_insert(Fault::WrongBytes { node, next, from });
        }
    }
    wrong.into_values().collect()
}

/// Where what `from` does to the bytes arrives at a node that can not read it: that node, and the
/// one before it. `None` when it is taken off, leaves the process, or another node is to blame.
fn arrives(links: &[Link<'_>], follower: &[Option<usize>], from: usize) -> Option<(usize, usize)> {
    let bytes = |node: usize| links[node].shape.map(|shape| shape.bytes);
    let frames = |node: usize| bytes(node) == Some(Bytes::Adds(Layer::Frames));
    if !matches!(bytes(from), Some(Bytes::Own | Bytes::Adds(_))) {
        return None;
    }
    // The nodes whose work is around the bytes here, the outermost last.
    let mut around = vec![from];
    let mut node = from;
    for _ in links {
        let next = follower[node]?;
        match bytes(next)? {
            Bytes::Any => {}
            Bytes::Own => {
                let outer = around.iter().rfind(|&&node| frames(node));
                return (outer == Some(&from)).then_some((node, next));
            }
            Bytes::Adds(_) => around.push(next),
            Bytes::Removes(layer) => {
                let last = *around.last()?;
                if bytes(last) == Some(Bytes::Adds(layer)) {
                    around.pop();
                } else if layer == Layer::Frames || frames(last) {
                    return (last == from).then_some((node, next));
                }
            }
        }
        node = next;
    }
    None
}
