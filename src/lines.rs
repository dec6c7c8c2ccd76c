//! `lineway lines`: the live lines of a running service.

use std::net::SocketAddr;
use std::process::ExitCode;

/// Asks the admin interface at `admin` for the live lines and prints them.
///
/// # Errors
/// The service can not be reached, or its answer can not be read.
pub fn run(admin: SocketAddr, json: bool) -> anyhow::Result<ExitCode> {
    let _ = json;
    anyhow::bail!("{admin}: not built yet")
}
