//! ConnectionFisherClient and ConnectionFisherServer over real sockets.

#[path = "../common/mod.rs"]
mod common;

mod client;
mod far;
mod golden;
mod pair;
mod server;

use std::net::SocketAddr;

use common::{Service, connector, listener, until};

/// A `ConnectionFisherClient` with so many candidates a line.
fn fisher(name: &str, next: &str, tries: u32) -> String {
    format!(
        "[[node]]\nname = \"{name}\"\ntype = \"ConnectionFisherClient\"\nnext = \"{next}\"\n\
         settings = {{ simultaneous-tries-perline = {tries} }}\n"
    )
}

/// Listener `in`, fisher `race`, connector `out`.
fn client_to(far: SocketAddr, tries: u32) -> Service {
    let nodes = listener("in", "race", "") + &fisher("race", "out", tries);
    Service::start(&(nodes + &connector("out", far, "")))
}

/// A `ConnectionFisherServer` with this `server-first-delay-ms`.
fn fisher_server(name: &str, next: &str, delay: u32) -> String {
    format!(
        "[[node]]\nname = \"{name}\"\ntype = \"ConnectionFisherServer\"\nnext = \"{next}\"\n\
         settings = {{ server-first-delay-ms = {delay} }}\n"
    )
}

/// Listener `in`, fisher's server `fs`, connector `out`.
fn server_to(backend: SocketAddr, delay: u32) -> Service {
    let nodes = listener("in", "fs", "") + &fisher_server("fs", "out", delay);
    Service::start(&(nodes + &connector("out", backend, "")))
}

/// Waits for so many candidates that did not win for this reason.
#[track_caller]
fn lost(service: &Service, reason: &str, count: u32) {
    let labels = [("node", "race"), ("reason", reason)];
    service.until_metric("lineway_fisher_lost_total", &labels, f64::from(count));
}

/// Waits for so many selections with this outcome.
#[track_caller]
fn selected(service: &Service, outcome: &str, count: u32) {
    let labels = [("node", "race"), ("result", outcome)];
    service.until_metric("lineway_fisher_selections_total", &labels, f64::from(count));
}

/// Waits until no line, no actor of a line, no queued byte and no deadline is left.
#[track_caller]
fn nothing_left(service: &Service) {
    service.until_metric("lineway_lines_open", &[], 0.0);
    service.until_metric("lineway_queued_bytes", &[], 0.0);
    for kind in ["main-line", "child-line"] {
        service.until_metric("lineway_actors_alive", &[("kind", kind)], 0.0);
    }
    service.until_metric("lineway_deadlines_pending", &[("kind", "selection")], 0.0);
    until("an empty list of lines", || service.json("/api/lines")["total"] == 0);
}
