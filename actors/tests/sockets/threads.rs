//! Handles on threads that have no runtime, or another one (4.5, X-1).

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use lineway_actors::socket::{
    Dealer, Monitor, Poller, ReplyToken, Router, SocketOptions, Unstarted,
};
use lineway_actors::wire::zmp::outcome::Errno;

use crate::house::{COMPLETION, LONG, LOOPBACK, id, options, peers, run, text};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on a thread without a runtime.
fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn socket_handles_go_to_any_thread_and_so_do_their_futures() {
    const fn any_thread<T: Send + Sync + 'static>() {}
    const { any_thread::<Dealer>() };
    const { any_thread::<Router>() };
    const { any_thread::<Monitor>() };
    const { any_thread::<Poller>() };
    const { any_thread::<ReplyToken>() };
    const { any_thread::<Unstarted>() };
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        drop(is_send(dealer.send("x")));
        drop(is_send(dealer.request("x", None)));
        drop(is_send(dealer.recv()));
        drop(is_send(dealer.bind(LOOPBACK)));
        drop(is_send(dealer.close()));
        drop(is_send(router.recv()));
        drop(is_send(router.request(&id("R2"), "x", None)));
    });
}

/// What one thread sends.
const EACH: u64 = 2_000;

/// Runs the sockets here while a thread works with them.
async fn beside<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[test]
fn socket_d_a1_many_threads_send_and_receive_and_no_record_is_torn_or_lost() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        let got = beside(move || {
            let (sum, count) = (AtomicU64::new(0), AtomicU64::new(0));
            thread::scope(|scope| {
                for sender in 0..4_u64 {
                    let dealer = dealer.clone();
                    scope.spawn(move || {
                        for number in 0..EACH {
                            let value = (sender * EACH + number).to_be_bytes().to_vec();
                            let record = lineway_actors::wire::zmp::Record::from_parts([
                                value.clone().into(),
                                value.into(),
                            ]);
                            wait(dealer.send(record.unwrap())).unwrap();
                        }
                    });
                }
                for _ in 0..3 {
                    let (router, sum, count) = (router.clone(), &sum, &count);
                    scope.spawn(move || {
                        while count.fetch_add(1, Ordering::Relaxed) < 4 * EACH {
                            let record = wait(router.recv()).unwrap().record;
                            let [one, two] = record.parts() else { panic!("{record:?}") };
                            assert_eq!(one, two);
                            let value = u64::from_be_bytes(one.as_ref().try_into().unwrap());
                            sum.fetch_add(value, Ordering::Relaxed);
                        }
                    });
                }
            });
            sum.into_inner()
        })
        .await;
        let all = 4 * EACH;
        assert_eq!(got, all * (all - 1) / 2);
    });
}

#[test]
fn socket_d_p4_a_waiter_on_another_thread_is_woken_whoever_causes_it() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&dealer, 1).await;
        beside(move || {
            thread::scope(|scope| {
                let answering = router.clone();
                scope.spawn(move || {
                    for _ in 0..200 {
                        let request = wait(answering.recv()).unwrap();
                        wait(request.reply.unwrap().reply(request.record)).unwrap();
                    }
                });
                for number in 0..100 {
                    let reply = wait(dealer.request(format!("{number}"), Some(LONG))).unwrap();
                    assert_eq!(text(&reply), [format!("{number}")]);
                }
                let mut poller = dealer.poller(COMPLETION).unwrap();
                for number in 0..100 {
                    dealer.try_request("q", Some(LONG), number).unwrap();
                    assert_eq!(wait(poller.ready()), COMPLETION);
                    assert_eq!(dealer.try_completion().unwrap().context, number);
                }
            });
        })
        .await;
    });
}

#[test]
fn socket_d_n3_a_limit_of_time_holds_on_a_thread_without_a_runtime() {
    run(async |house| {
        let (dealer, unstarted) = Dealer::new(
            options(lineway_actors::wire::zmp::SocketKind::Dealer, "D1", |options| {
                options.send_timeout = Some(std::time::Duration::from_millis(30));
            }),
            Arc::clone(&house.env.total),
        );
        unstarted.start(&house.env);
        let error = beside(move || wait(dealer.send("x")).unwrap_err()).await;
        assert_eq!((error.number(), error.errno()), (1, Errno::EAGAIN));
    });
}

#[test]
fn socket_one_that_is_never_started_is_closed() {
    run(async |house| {
        let (dealer, unstarted) =
            Dealer::new(SocketOptions::dealer(), Arc::clone(&house.env.total));
        let waiting = thread::spawn({
            let dealer = dealer.clone();
            move || wait(dealer.send("x")).unwrap_err().errno()
        });
        drop(unstarted);
        assert_eq!(waiting.join().unwrap(), Errno::ESHUTDOWN);
        assert!(dealer.connect("inproc://x").await.is_err());
    });
}
