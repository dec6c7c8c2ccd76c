//! A DEALER gives work to three ROUTERs by their weights, and takes up what a worker that leaves
//! did not finish.

use std::error::Error;

use lineway::zmp::{Context, RequestError, Router, SocketOptions};

const JOBS: usize = 60;

async fn worker(name: &'static str, router: Router, leaves_after: usize) -> (&'static str, usize) {
    let mut done = 0;
    while done < leaves_after
        && let Ok(job) = router.recv().await
    {
        let Some(reply) = job.reply else {
            continue;
        };
        if reply.reply(format!("done by {name}")).await.is_ok() {
            done += 1;
        }
    }
    // It is closed already where the pool has ended.
    let _ = router.close().await;
    (name, done)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let context = Context::new()?;
    let dealer = context.dealer(SocketOptions::dealer());
    let mut workers = Vec::new();
    let mut handles = Vec::new();
    for (name, weight, leaves_after) in
        [("light", 100, usize::MAX), ("heavy", 300, usize::MAX), ("short", 100, 5)]
    {
        let mut options = SocketOptions::router();
        // A worker that hears nothing for long is no worker that failed.
        options.receive_timeout = None;
        let router = context.router(options);
        router.set_weight(weight)?;
        let endpoint = router.bind("tcp://127.0.0.1:*").await?;
        dealer.connect(&endpoint).await?;
        handles.push(router.clone());
        workers.push(tokio::spawn(worker(name, router, leaves_after)));
    }

    let mut answered = 0;
    for job in 0..JOBS {
        // A request ends exactly once; one whose worker has left is for the pool to ask again.
        loop {
            match dealer.request(format!("job {job}"), None).await {
                Ok(_) => break answered += 1,
                Err(RequestError::Failed { result, .. }) => {
                    println!("job {job} is given out again: {}", result.as_str());
                }
                Err(RequestError::NotSent(error)) => return Err(error.into()),
            }
        }
    }
    println!("{answered} of {JOBS} jobs were done");

    for router in handles {
        // The one that left is closed already.
        let _ = router.close().await;
    }
    for worker in workers {
        let (name, done) = worker.await?;
        println!("{name}: {done}");
    }
    dealer.close().await?;
    Ok(())
}
