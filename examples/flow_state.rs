//! A receiver asks its sender to pause, and to go on; the sender waits for its token meanwhile.

use std::error::Error;

use lineway::zmp::monitor::{self, EventKind};
use lineway::zmp::{Context, FlowState, SocketOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let context = Context::new()?;
    let receiver = context.router(SocketOptions::router());
    let sender = context.dealer(SocketOptions::dealer());
    let mut events = sender.monitor(monitor::ALL_EVENTS)?;

    let endpoint = receiver.bind("inproc://flow").await?;
    sender.connect(&endpoint).await?;
    sender.send("before the pause").await?;
    println!("received {:?}", receiver.recv().await?.record);

    receiver.set_receive_flow_state(FlowState::Paused)?;
    while let Some(event) = events.next().await
        && event.kind != EventKind::SendFlowPaused
    {}
    let refused = sender.try_send("during the pause", 1).expect_err("the only peer is paused");
    println!("refused: {refused}");
    let token = refused.token().expect("a refused record has a wait token");

    receiver.set_receive_flow_state(FlowState::Running)?;
    sender.writable(token).await?;
    sender.send(refused.into_record()).await?;
    println!("received {:?}", receiver.recv().await?.record);

    sender.close().await?;
    receiver.close().await?;
    while let Some(event) = events.next().await {
        println!("and then: {}", event.kind.as_str());
    }
    Ok(())
}
