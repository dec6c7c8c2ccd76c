//! The two sides: processes from an entry to the echo.

use std::net::SocketAddr;

use anyhow::Context;
use clap::ValueEnum;

use crate::beside::{Nodes, Process, Ready, free_addresses, service, start_ready};

/// What can stand in place of the fisher pair, to tell what costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Instead {
    /// The plain chain again: what the method can not tell apart
    Plain,
    /// Two processes without the fisher: what the way through a second one costs
    Pair,
}

/// Running processes.
#[derive(Debug)]
pub(crate) struct Side {
    /// What is connected to here comes to the echo.
    pub(crate) entry: SocketAddr,
    services: Vec<Service>,
}

#[derive(Debug)]
struct Service {
    process: Process,
    _folder: tempfile::TempDir,
}

impl Side {
    /// One process that passes everything on.
    pub(crate) fn plain(echo: SocketAddr) -> anyhow::Result<Self> {
        let [entry, admin] = free_addresses()?;
        Ok(Self { entry, services: vec![Service::start(admin, entry, &[], echo)?] })
    }

    /// A process before another one, with so many candidates of each line between them.
    pub(crate) fn pair(echo: SocketAddr, tries: Option<u32>) -> anyhow::Result<Self> {
        let [entry, middle, admin, far_admin] = free_addresses()?;
        let client = tries.map(|tries| {
            ("ConnectionFisherClient", format!("simultaneous-tries-perline = {tries}"))
        });
        let server = tries.map(|_| ("ConnectionFisherServer", String::new()));
        let far = Service::start(far_admin, middle, server.as_slice(), echo)?;
        let near = Service::start(admin, entry, client.as_slice(), middle)?;
        Ok(Self { entry, services: vec![near, far] })
    }

    /// Seconds of CPU of all its processes since they started.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        self.services.iter().map(|service| service.process.cpu_seconds()).sum()
    }
}

impl Service {
    fn start(
        admin: SocketAddr,
        listen: SocketAddr,
        between: &[(&str, String)],
        connect: SocketAddr,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut nodes = Nodes::default();
        nodes.chain("line", listen, between, connect);
        let mut command = service(folder.path(), admin, &nodes)?;
        let (process, _) = start_ready(&mut command, Ready::Admin(admin)).context("lineway run")?;
        Ok(Self { process, _folder: folder })
    }
}
