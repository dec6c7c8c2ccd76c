//! `lineway serve`: a small ROUTER that prints what arrives and answers requests.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use super::{endpoint, parts, routing_id, run};
use crate::admin;
use crate::zmp::{Context, Received, Record, RoutingId, SocketOptions};

/// What `lineway serve` takes from the command line.
#[derive(Debug, Clone, clap::Args)]
pub struct ServeArgs {
    /// Where to listen, such as `tcp://127.0.0.1:5555`, `ipc:///run/socket` or `tcp://127.0.0.1:0`
    #[arg(value_name = "ENDPOINT", required = true, value_parser = endpoint)]
    endpoints: Vec<String>,
    /// A part of each answer, may be repeated; without it a request gets its own parts back
    #[arg(long, value_name = "PART")]
    reply: Vec<String>,
    /// End after so many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End with exit code 1 when nothing has come for so many milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout_ms: Option<u32>,
    /// The routing id of the socket: text, or hex:0011...
    #[arg(long, value_name = "ID", value_parser = routing_id)]
    routing_id: Option<RoutingId>,
    /// What a broker chooses it by, beside the weights of others; 0 = not at all
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    weight: u32,
    /// One JSON document a record in place of a line of text
    #[arg(long)]
    json: bool,
}

/// Serves until it is interrupted, or has served enough.
///
/// # Errors
/// An endpoint can not be bound.
pub fn serve(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let reply = match args.reply.as_slice() {
        [] => None,
        parts => Some(parts::record(parts)?),
    };
    run(async |context| answer(args, reply, context).await)
}

async fn answer(
    args: &ServeArgs,
    reply: Option<Record>,
    context: Context,
) -> anyhow::Result<ExitCode> {
    let mut options = SocketOptions::router();
    if let Some(id) = &args.routing_id {
        options.core.routing_id = id.clone();
    }
    options.receive_timeout = args.timeout_ms.map(|ms| Duration::from_millis(ms.into()));
    options.linger = Some(Duration::from_secs(10));
    let router = context.router(options);
    router.set_weight(args.weight)?;
    for endpoint in &args.endpoints {
        let real = router.bind(endpoint).await.with_context(|| endpoint.clone())?;
        eprintln!("listening on {real}");
    }
    let mut served = 0;
    while args.count.is_none_or(|count| served < count) {
        let Ok(Received { from, record, reply: owed }) = router.recv().await else {
            eprintln!("lineway: nothing came in time");
            return Ok(ExitCode::FAILURE);
        };
        tell(args.json, &from, &record, owed.is_some())?;
        if let Some(owed) = owed
            && let Err(error) = owed.reply(reply.clone().unwrap_or(record)).await
        {
            eprintln!("lineway: {}: {error}", admin::routing_id(from.as_bytes()));
        }
        served += 1;
    }
    router.close().await?;
    Ok(ExitCode::SUCCESS)
}

fn tell(as_json: bool, from: &RoutingId, record: &Record, asks: bool) -> anyhow::Result<()> {
    let kind = if asks { "request" } else { "data" };
    let from = admin::routing_id(from.as_bytes());
    let line = if as_json {
        json!({ "kind": kind, "from": from, "parts": parts::values(Some(record)) }).to_string()
    } else {
        let parts: Vec<_> = record.parts().iter().map(|part| parts::text(part)).collect();
        format!("{from} {kind}: {}", parts.join(" | "))
    };
    super::print(line.as_bytes())
}
