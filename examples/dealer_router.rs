//! A DEALER asks a ROUTER, first from tokio and then from a plain thread.

use std::error::Error;
use std::thread;
use std::time::Duration;

use lineway::zmp::{Context, Record, SocketOptions, block_on};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let context = Context::new()?;
    let router = context.router(SocketOptions::router());
    let endpoint = router.bind("tcp://127.0.0.1:*").await?;
    println!("the router listens at {endpoint}");

    // Any thread may hold a handle; this one has no runtime.
    let answering = thread::spawn(move || -> Result<u32, String> {
        let mut answered = 0;
        while answered < 3 {
            let request = block_on(router.recv()).map_err(|error| error.to_string())?;
            let Some(reply) = request.reply else {
                continue;
            };
            let mut parts = Record::new("you said");
            for part in request.record.into_parts() {
                parts.push(part);
            }
            block_on(reply.reply(parts)).map_err(|error| error.to_string())?;
            answered += 1;
        }
        // The reply has to leave before the handle goes; a close waits for that.
        block_on(router.close()).map_err(|error| error.to_string())?;
        Ok(answered)
    });

    let dealer = context.dealer(SocketOptions::dealer());
    dealer.connect(&endpoint).await?;
    for word in ["one", "two"] {
        let reply = dealer.request(word, Some(Duration::from_secs(5))).await?;
        println!("{word}: {reply:?}");
    }
    let other = dealer.clone();
    let reply = thread::spawn(move || block_on(other.request("three", None))).join();
    println!("three: {:?}", reply.map_err(|_| "the thread panicked")??);

    let answered = answering.join().map_err(|_| "the thread panicked")??;
    println!("{answered} questions were answered");
    dealer.close().await?;
    drop(dealer);
    context.join();
    Ok(())
}
