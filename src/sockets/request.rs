//! `lineway request` and `lineway send`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Peer, parts, run};
use crate::zmp::status::RecordKind;
use crate::zmp::{Context, Dealer, Record, RequestError};

/// How long a socket that has nothing more to do may take to write what it has.
const LINGER: Duration = Duration::from_secs(10);

/// What `lineway request` takes from the command line.
#[derive(Debug, Clone, clap::Args)]
pub struct RequestArgs {
    #[command(flatten)]
    peer: Peer,
    /// The parts of the request; - is standard input
    #[arg(value_name = "PART", required = true)]
    parts: Vec<String>,
    /// Milliseconds until the answer must be there, the connection included
    #[arg(long, value_name = "MS", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..))]
    timeout_ms: u32,
    /// One JSON document in place of the parts of the answer, a line each
    #[arg(long)]
    json: bool,
}

/// What `lineway send` takes from the command line.
#[derive(Debug, Clone, clap::Args)]
pub struct SendArgs {
    #[command(flatten)]
    peer: Peer,
    /// The parts of the record; - is standard input
    #[arg(value_name = "PART", required = true)]
    parts: Vec<String>,
    /// Milliseconds until the record must be on its way, the connection included
    #[arg(long, value_name = "MS", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..))]
    timeout_ms: u32,
}

/// Asks a ROUTER and prints its answer.
///
/// # Errors
/// The arguments are wrong, or what the system has no room for. A request that ends without a
/// reply is no error of this kind: it is told, and the exit code is 1.
pub fn request(args: &RequestArgs) -> anyhow::Result<ExitCode> {
    let record = parts::record(&args.parts)?;
    run(async |context| ask(args, record, context).await)
}

async fn ask(args: &RequestArgs, record: Record, context: Context) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let whole = Duration::from_millis(args.timeout_ms.into());
    let mut options = args.peer.options();
    // The limit below is the only one: two of one length would end in either order.
    options.send_timeout = None;
    options.linger = Some(Duration::ZERO);
    let dealer = context.dealer(options);
    args.peer.connect(&dealer).await?;
    // The timeout of a request begins when it is sent: what the connection took is part of ours.
    let asked = tokio::time::timeout(whole, dealer.request(record, Some(whole))).await;
    let (result, errno, error, parts) = match &asked {
        Ok(Ok(reply)) => ("ok", None, None, Some(reply)),
        Ok(Err(error)) => {
            let parts = match error {
                RequestError::Failed { parts, .. } => parts.as_ref(),
                RequestError::NotSent(_) => None,
            };
            (result_of(error), error.errno().name(), Some(error.to_string()), parts)
        }
        Err(_) => {
            let (result, errno, error) = late(&dealer);
            (result, Some(errno), Some(format!("{error} in {} ms", args.timeout_ms)), None)
        }
    };
    if args.json {
        let document = json!({
            "result": result,
            "errno": errno,
            "parts": parts::values(parts),
            "milliseconds": began.elapsed().as_micros() as f64 / 1000.0,
        });
        super::print(document.to_string().as_bytes())?;
    } else {
        if let Some(error) = &error {
            eprintln!("lineway: {}: {error}", args.peer.endpoint());
        }
        for part in parts.map_or(&[][..], Record::parts) {
            super::print(part)?;
        }
    }
    Ok(if error.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How far a request came that was not answered in time: result, errno, and for a person.
fn late(dealer: &Dealer) -> (&'static str, &'static str, &'static str) {
    if dealer.counters().sent.records[RecordKind::Request] > 0 {
        ("timed_out", "ETIMEDOUT", "no answer")
    } else if is_there(dealer) {
        ("backpressured", "EAGAIN", "the peer is there and took no request")
    } else {
        ("not_connected", "ENOTCONN", "no peer was there")
    }
}

fn is_there(dealer: &Dealer) -> bool {
    dealer.peers().iter().any(|peer| peer.ready)
}

fn result_of(error: &RequestError) -> &'static str {
    match error {
        RequestError::NotSent(error) => error.result().as_str(),
        RequestError::Failed { result, .. } => result.as_str(),
    }
}

/// Sends one record without asking for an answer.
///
/// # Errors
/// As [`request`].
pub fn send(args: &SendArgs) -> anyhow::Result<ExitCode> {
    let record = parts::record(&args.parts)?;
    run(async |context| {
        let mut options = args.peer.options();
        options.send_timeout = Some(Duration::from_millis(args.timeout_ms.into()));
        options.linger = Some(LINGER);
        let dealer = context.dealer(options);
        args.peer.connect(&dealer).await?;
        if let Err(error) = dealer.send(record).await {
            let endpoint = args.peer.endpoint();
            if is_there(&dealer) {
                eprintln!("lineway: {endpoint}: {error}");
            } else {
                eprintln!("lineway: {endpoint}: no peer was there in {} ms", args.timeout_ms);
            }
            return Ok(ExitCode::FAILURE);
        }
        // Over when the system has the bytes.
        dealer.close().await?;
        Ok(ExitCode::SUCCESS)
    })
}
