//! The load: a process of its own.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, bail};

/// Connections of the load that connects: enough to keep two cores busy. With fewer, cores wait for
/// each other, and the rate says more about who was woken where than about the work of a proxy.
pub(crate) const CONNECTING: &str = "16";

/// Runs a load and returns its report; a load with errors measures nothing.
pub(crate) fn load(target: SocketAddr, options: &[&str]) -> anyhow::Result<serde_json::Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_lineway"))
        .args(["load", "tcp", &target.to_string(), "--json", "--quiet"])
        .args(options)
        .output()
        .context("can not start the load")?;
    if !output.status.success() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        bail!("the load failed: {}{}", text(&output.stdout), text(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A figure of a report.
fn number(report: &serde_json::Value, name: &str) -> anyhow::Result<f64> {
    report[name].as_f64().with_context(|| format!("the load reports no {name}"))
}

/// Sends over 8 connections at once into a sink, for so long. Gives the Gbit/s, and the seconds of CPU
/// that `cpu` counts for each GiB.
pub(crate) fn streams(
    target: SocketAddr,
    seconds: f64,
    cpu: impl Fn() -> anyhow::Result<f64>,
) -> anyhow::Result<[f64; 2]> {
    let duration = millis(seconds);
    let options = ["--mode", "stream", "--connections", "8", "--duration-ms", &duration];
    let before = cpu()?;
    let report = load(target, &options)?;
    let spent = cpu()? - before;
    let gib = number(&report, "sent_bytes")? / f64::from(1 << 30);
    Ok([number(&report, "sent_gbit_per_second")?, spent / gib])
}

/// Connects, sends a byte, waits for its echo and closes, for so long. Gives how often it did each
/// second, and the CPU that `cpu` counts for one of them in µs.
pub(crate) fn connects(
    target: SocketAddr,
    seconds: f64,
    cpu: impl Fn() -> anyhow::Result<f64>,
) -> anyhow::Result<[f64; 2]> {
    let duration = millis(seconds);
    let options = ["--mode", "connect", "--connections", CONNECTING, "--duration-ms", &duration];
    let before = cpu()?;
    let report = load(target, &options)?;
    let spent = cpu()? - before;
    Ok([number(&report, "per_second")?, spent * 1e6 / number(&report, "operations")?])
}

/// The median round trip of 64 bytes over one connection, in µs.
pub(crate) fn ping_p50(target: SocketAddr, seconds: f64) -> anyhow::Result<f64> {
    let duration = millis(seconds);
    let report = load(target, &["--mode", "ping", "--size", "64", "--duration-ms", &duration])?;
    number(&report["latency_us"], "p50")
}

/// How the load is told a duration.
fn millis(seconds: f64) -> String {
    (seconds * 1e3).round().to_string()
}
