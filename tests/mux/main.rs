//! MuxClient and MuxServer over real sockets.

#[path = "../common/mod.rs"]
mod common;

mod client;
mod far;
mod golden;
mod pair;
mod parents;
mod server;
mod shared;
mod stall;

use std::net::SocketAddr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use common::{Service, connector, end, listener};

/// A MuxClient; `more` are its settings besides the mode, each with a comma.
fn mux_client(next: &str, mode: &str, more: &str) -> String {
    format!(
        "[[node]]\nname = \"mux\"\ntype = \"MuxClient\"\nnext = \"{next}\"\n\
         settings = {{ {more} {mode} }}\n"
    )
}

/// A mode in which one parent takes so many children.
fn counter(capacity: u32) -> String {
    format!("mode = \"counter\", connection-capacity = {capacity}")
}

/// A mode with so many parents for each worker.
fn fixed(parents: u32) -> String {
    format!("mode = \"fixed-connections-count\", per-worker-connections-count = {parents}")
}

/// A mode in which a parent takes children for so long.
fn timer(milliseconds: u32) -> String {
    format!("mode = \"timer\", connection-duration = {milliseconds}")
}

/// A MuxServer with these settings, each with a comma.
fn mux_server(next: &str, more: &str) -> String {
    format!(
        "[[node]]\nname = \"demux\"\ntype = \"MuxServer\"\nnext = \"{next}\"\n\
         settings = {{ {more} }}\n"
    )
}

/// A ConnectionFisherClient with so many candidates.
fn fisher(name: &str, next: &str, tries: u32) -> String {
    format!(
        "[[node]]\nname = \"{name}\"\ntype = \"ConnectionFisherClient\"\nnext = \"{next}\"\n\
         settings = {{ simultaneous-tries-perline = {tries} }}\n"
    )
}

/// A ConnectionFisherServer.
fn fisher_server(name: &str, next: &str) -> String {
    end(name, "ConnectionFisherServer") + &format!("next = \"{next}\"\n")
}

/// One worker, so that there is one pool of parents.
const ONE_WORKER: &str = "[service]\nworkers = 1\n";

/// Listener `in` before a client `mux`. A slow test is no idle client.
fn client_listener() -> String {
    listener("in", "mux", "initial-idle-timeout-ms = 0,")
}

/// Listener `in`, client `mux`, connector `out`, on one worker.
fn client_to(far: SocketAddr, mode: &str, more: &str) -> Service {
    let nodes = client_listener() + &mux_client("out", mode, more);
    Service::start(&(ONE_WORKER.to_owned() + &nodes + &connector("out", far, "")))
}

/// Listener `in`, server `demux`, connector `out`, on one worker.
fn server_to(backend: SocketAddr, more: &str) -> Service {
    let nodes = listener("in", "demux", "") + &mux_server("out", more);
    Service::start(&(ONE_WORKER.to_owned() + &nodes + &connector("out", backend, "")))
}

/// Waits for so many children of a node that were closed for this reason.
#[track_caller]
fn closed(service: &Service, node: &str, reason: &str, count: u32) {
    let labels = [("node", node), ("reason", reason)];
    service.until_metric("lineway_mux_children_closed_total", &labels, f64::from(count));
}

/// Waits until no child, no line of one, and no byte of one is left.
#[track_caller]
fn no_child_left(service: &Service) {
    no_line_left_but(service, 0.0);
}

/// The same where so many lines stand besides the parents; less than none where both ends of a
/// parent are one line.
#[track_caller]
fn no_line_left_but(service: &Service, others: f64) {
    for metric in ["lineway_mux_children_open", "lineway_mux_queued_bytes", "lineway_queued_bytes"]
    {
        service.until_metric(metric, &[], 0.0);
    }
    let parents = service.metric("lineway_mux_parents_open", &[]);
    service.until_metric("lineway_lines_open", &[], parents + others);
    let panics = service.metric("lineway_actor_panics_total", &[]);
    assert!(panics.total_cmp(&0.0).is_eq(), "{panics} panics");
    let actors = parents + others.min(0.0);
    service.until_metric("lineway_actors_alive", &[("kind", "mux-parent")], actors);
    service.until_metric("lineway_mux_children_paused", &[], 0.0);
}

/// Waits until so many parents of a node live.
#[track_caller]
fn parents(service: &Service, node: &str, count: u32) {
    service.until_metric("lineway_mux_parents_open", &[("node", node)], f64::from(count));
}

/// Lets the test itself have as many descriptors as the system allows: the usual limit is 1,024.
fn many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("it may");
}

/// Bytes that do not repeat soon, others for each seed.
fn pattern(seed: u32, length: usize) -> Vec<u8> {
    let word = |at: u64| {
        let mixed = (at ^ u64::from(seed) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ mixed >> 29).to_le_bytes()
    };
    let mut bytes = Vec::with_capacity(length + 8);
    for at in 0..=length as u64 / 8 {
        bytes.extend_from_slice(&word(at));
    }
    bytes.truncate(length);
    bytes
}
