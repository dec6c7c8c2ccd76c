//! Lines in the test kit: their neighbours are scripted, their time is paused.

mod budget;
mod dials;
mod ends;
mod property;
mod stages;
mod testers;
mod water;

use std::rc::Rc;
use std::time::Duration;

use lineway_wire::units::{ByteCount, Millis};

use super::Chain;
use crate::settings::{NodeSettings, SocketSettings, TcpConnectorSettings, TcpListenerSettings};
use crate::testkit::{Kit, bytes, settings};

const SECOND: Duration = Duration::from_secs(1);

/// A plain chain whose settings are changed first.
fn chain_with(
    kit: &Kit,
    change: impl FnOnce(&mut TcpListenerSettings, &mut TcpConnectorSettings),
) -> Rc<Chain> {
    let entry = settings::listener(([192, 0, 2, 9], 7000).into());
    let end = settings::connector(([198, 51, 100, 1], 80).into());
    let (NodeSettings::TcpListener(mut entry), NodeSettings::TcpConnector(mut end)) = (entry, end)
    else {
        unreachable!("they are of these types")
    };
    change(&mut entry, &mut end);
    kit.chain(vec![
        settings::node("in", NodeSettings::TcpListener(entry), Some("out")),
        settings::node("out", NodeSettings::TcpConnector(end), None),
    ])
}

fn marks(socket: &mut SocketSettings, high: u64, low: u64) {
    socket.write_high_water = ByteCount::new(high);
    socket.write_low_water = ByteCount::new(low);
}

const OFF: Millis = Millis::new(0);
