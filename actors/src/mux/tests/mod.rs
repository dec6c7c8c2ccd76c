//! The mux in the test kit: real lines, parents and children, scripted peers, paused time.

mod ends;
mod flow;
mod joining;
mod making;
mod opens;
mod pairs;
mod parents;
mod property;
mod server;

use std::rc::Rc;
use std::time::Duration;

use lineway_wire::mux::{FrameKind, HEADER_BYTES, Header};
use lineway_wire::units::{ByteCount, Millis};

use crate::line::Chain;
use crate::registry::LineId;
use crate::settings::{
    MuxClientSettings, MuxMode, MuxServerSettings, MuxSettings, NodePlan, NodeSettings,
};
use crate::testkit::{Kit, Peer, bytes, settings};

const SECOND: Duration = Duration::from_secs(1);

const MILLI: Duration = Duration::from_millis(1);

/// A listener `in` that has no idle time, so that a test sees the mux's own limits.
fn entry() -> NodePlan {
    let entry = settings::patient(settings::listener(([192, 0, 2, 9], 7000).into()));
    settings::node("in", entry, Some("mux"))
}

/// A connector `out` that has no idle time.
fn connector() -> NodePlan {
    let connector = settings::patient(settings::connector(([198, 51, 100, 1], 80).into()));
    settings::node("out", connector, None)
}

const fn fixed(per_worker: u32) -> MuxMode {
    MuxMode::FixedConnectionsCount { per_worker }
}

const fn counter(connection_capacity: u32) -> MuxMode {
    MuxMode::Counter { connection_capacity }
}

const fn timer(millis: u64) -> MuxMode {
    MuxMode::Timer { connection_duration: Millis::new(millis) }
}

/// A MuxClient `mux` of this mode, changed.
fn client_with(mode: MuxMode, change: impl FnOnce(&mut MuxClientSettings)) -> NodePlan {
    let mut client = MuxClientSettings::new(mode);
    change(&mut client);
    settings::node("mux", NodeSettings::MuxClient(client), Some("out"))
}

fn client(mode: MuxMode) -> NodePlan {
    client_with(mode, |_| {})
}

/// A MuxServer `demux`, changed.
fn server_with(change: impl FnOnce(&mut MuxServerSettings)) -> NodePlan {
    let mut server = MuxServerSettings::default();
    change(&mut server);
    settings::node("demux", NodeSettings::MuxServer(server), Some("out"))
}

fn server() -> NodePlan {
    server_with(|_| {})
}

/// So many bytes may wait for one child, and go on from this many.
const fn buffers(mux: &mut MuxSettings, limit: u64, resume: u64) {
    mux.child_buffer_limit = ByteCount::new(limit);
    mux.child_buffer_resume_threshold = ByteCount::new(resume);
}

/// A chain `in` -> `mux` -> `out`.
fn near(kit: &Kit, client: NodePlan) -> Rc<Chain> {
    kit.chain(vec![entry(), client, connector()])
}

/// A chain `in` -> `demux` -> `out`.
fn far(kit: &Kit, server: NodePlan) -> Rc<Chain> {
    kit.chain(vec![entry(), server, connector()])
}

/// The peer of a parent, which speaks frames.
struct Wire {
    peer: Peer,
    /// Came, and makes no whole frame.
    rest: Vec<u8>,
}

impl Wire {
    const fn of(peer: Peer) -> Self {
        Self { peer, rest: Vec::new() }
    }

    /// The peer of the parent that was dialled as this one.
    fn dialled(kit: &Kit, at: usize) -> Self {
        Self::of(kit.dials.peer(at))
    }

    /// Sends a control frame.
    fn send(&self, kind: FrameKind, cid: u32) {
        self.peer.offer(&Header::control(kind, cid).encode());
    }

    /// Sends Open with the mark of half-closes, or FlowResume with it.
    fn send_marked(&self, kind: FrameKind, cid: u32) {
        self.peer.offer(&Header::control(kind, cid).with_half_close(true).encode());
    }

    /// Sends Data, in frames as large as they may be.
    fn data(&self, cid: u32, payload: &[u8]) {
        for piece in payload.chunks(usize::from(u16::MAX)) {
            self.peer.offer(&data(cid, piece));
        }
    }

    /// The frames that came, such as `open+ 1`, `data 1 hello`, `close 1`; `+` is the mark.
    #[track_caller]
    fn frames(&mut self) -> Vec<String> {
        self.raw().iter().map(|(header, payload)| text(*header, payload)).collect()
    }

    /// The frames that came, each with its payload.
    fn raw(&mut self) -> Vec<(Header, Vec<u8>)> {
        self.rest.extend(self.peer.take());
        let mut frames = Vec::new();
        while let Some((head, rest)) = self.rest.split_first_chunk::<HEADER_BYTES>() {
            let header = Header::decode(*head);
            let length = usize::from(header.length);
            if rest.len() < length {
                break;
            }
            frames.push((header, rest[..length].to_vec()));
            self.rest.drain(..HEADER_BYTES + length);
        }
        frames
    }
}

fn data(cid: u32, payload: &[u8]) -> Vec<u8> {
    [&Header::data(cid, payload.len() as u16).encode(), payload].concat()
}

fn text(header: Header, payload: &[u8]) -> String {
    let kind = FrameKind::of(header.flags).map_or("unknown", FrameKind::as_str);
    let mark = if header.pad == 1 { "+" } else { "" };
    match str::from_utf8(payload) {
        Ok("") => format!("{kind}{mark} {}", header.cid),
        Ok(text) if text.len() < 40 && text.is_ascii() => {
            format!("{kind}{mark} {} {text}", header.cid)
        }
        _ => format!("{kind}{mark} {} of {}", header.cid, payload.len()),
    }
}

/// Opens so many lines, whose clients the test plays.
fn open(kit: &Kit, chain: &Rc<Chain>, count: usize) -> Vec<Peer> {
    (0..count).map(|_| kit.open(chain).1).collect()
}

/// So many lines through this MuxClient, and the peer of their one parent, which has heard of them.
async fn begun(kit: &Kit, client: NodePlan, count: usize) -> (Vec<Peer>, Wire) {
    let clients = open(kit, &near(kit, client), count);
    kit.quiet().await;
    let mut wire = Wire::dialled(kit, 0);
    wire.frames();
    (clients, wire)
}

/// Everybody ends what they send.
fn end_all(peers: &[Peer]) {
    for peer in peers {
        peer.end();
    }
}

/// An accepted parent, whose near end the test plays.
fn accept(kit: &Kit, chain: &Rc<Chain>) -> (LineId, Wire) {
    let (id, peer) = kit.open(chain);
    (id, Wire::of(peer))
}

/// The parents drain; nothing is left of anything.
async fn leave(kit: &Kit) {
    kit.quiet().await;
    kit.worker.drain_parents();
    kit.quiet().await;
    kit.assert_empty().await;
}

/// Asserts how many children of a mux node ended so.
#[track_caller]
fn ended(kit: &Kit, node: &str, reason: &str, wanted: u32) {
    let series = format!(r#"lineway_mux_children_closed_total{{node="{node}",reason="{reason}"}}"#);
    kit.assert_metric(&series, wanted);
}
