//! RouterSocket and DealerSocket as nodes of the service.

use std::net::SocketAddr;

use crate::common::Service;

/// Where a socket of the service listens.
#[track_caller]
pub(crate) fn at(service: &Service, node: &str) -> SocketAddr {
    service.at(node)
}
