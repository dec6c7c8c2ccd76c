//! The fisher in the test kit: real main lines and candidates, scripted far sides, paused time.

mod choice;
mod ends;
mod pairs;
mod property;
mod queue;
mod server;

use std::rc::Rc;
use std::time::Duration;

use lineway_wire::units::Millis;

use crate::line::Chain;
use crate::registry::LineId;
use crate::settings::{FisherClientSettings, FisherServerSettings, NodePlan, NodeSettings};
use crate::testkit::{Kit, Peer, bytes, settings};

const SECOND: Duration = Duration::from_secs(1);

const PROBE: &[u8] = b"FISH?";
const PROOF: &[u8] = b"FISH!";

/// A listener `in` that has no idle time, so that a test sees the fisher's own limits.
fn entry() -> NodePlan {
    let entry = settings::patient(settings::listener(([192, 0, 2, 9], 7000).into()));
    settings::node("in", entry, Some("fish"))
}

fn client(name: &str, tries: u32, next: &str) -> NodePlan {
    let client = FisherClientSettings { simultaneous_tries: tries };
    settings::node(name, NodeSettings::ConnectionFisherClient(client), Some(next))
}

/// A server that waits so many milliseconds for a payload.
fn server(name: &str, delay: u64, next: &str) -> NodePlan {
    let server = FisherServerSettings { server_first_delay: Millis::new(delay) };
    settings::node(name, NodeSettings::ConnectionFisherServer(server), Some(next))
}

fn connector() -> NodePlan {
    settings::node("out", settings::connector(([198, 51, 100, 1], 80).into()), None)
}

/// A chain `in` -> `fish` -> `out` whose lines have so many candidates.
fn fisher(kit: &Kit, tries: u32) -> Rc<Chain> {
    kit.chain(vec![entry(), client("fish", tries, "out"), connector()])
}

/// An open line whose candidates are all up and have sent their probe.
async fn cast(kit: &Kit, tries: u32) -> (LineId, Peer, Vec<Peer>) {
    let before = kit.dials.len();
    let (id, client) = kit.open(&fisher(kit, tries));
    kit.reported().await;
    let peers: Vec<_> = (before..kit.dials.len()).map(|at| kit.dials.peer(at)).collect();
    assert_eq!(peers.len(), tries as usize);
    for peer in &peers {
        assert_eq!(peer.take(), PROBE);
    }
    (id, client, peers)
}

/// Asserts how many candidates of `fish` were lost for this reason.
#[track_caller]
fn lost(kit: &Kit, reason: &str, wanted: u32) {
    kit.assert_metric(
        &format!(r#"lineway_fisher_lost_total{{node="fish",reason="{reason}"}}"#),
        wanted,
    );
}

/// Asserts how many selections of `fish` had this outcome.
#[track_caller]
fn outcome(kit: &Kit, outcome: &str, wanted: u32) {
    let series = format!(r#"lineway_fisher_selections_total{{node="fish",result="{outcome}"}}"#);
    kit.assert_metric(&series, wanted);
}

const WATCHED: &str = r#"lineway_deadlines_pending{kind="selection"}"#;
const QUEUED: &str = r#"lineway_fisher_queued_bytes{node="fish"}"#;
