//! Every request ends once, whatever clients, workers and time do.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Client(u8),
    ClientLeaves(u8),
    ClientReads(u8, bool),
    Request(u8, bool),
    Worker(u8),
    WorkerLeaves(u8),
    WorkerReads(u8, bool),
    Answers(u8),
    Time(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => (0..4_u8).prop_map(Step::Client),
        1 => (0..4_u8).prop_map(Step::ClientLeaves),
        1 => (0..4_u8, any::<bool>()).prop_map(|(who, reads)| Step::ClientReads(who, reads)),
        8 => (0..4_u8, any::<bool>()).prop_map(|(who, data)| Step::Request(who, data)),
        1 => (0..3_u8).prop_map(Step::Worker),
        1 => (0..3_u8).prop_map(Step::WorkerLeaves),
        1 => (0..3_u8, any::<bool>()).prop_map(|(who, reads)| Step::WorkerReads(who, reads)),
        4 => (0..3_u8).prop_map(Step::Answers),
        1 => (0..700_u16).prop_map(Step::Time),
    ];
    proptest::collection::vec(step, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever happens: every request that was taken ends once, as a reply, an error reply or an
    /// abandoned one; every charge is given back; nothing is left.
    #[test]
    fn every_request_ends_once_and_nothing_is_left(steps in steps(), budget in 1..8_usize) {
        let settings = BrokerSettings { waiting_each: 500, ..BrokerSettings::default() };
        let mut world = World::with(settings, |router| router.send_hwm = 200, |dealer| {
            dealer.send_hwm = 300;
            dealer.request_timeout = ms(1_000);
            dealer.reservations = 5;
        });
        let (mut clients, mut workers) = ([false; 4], [false; 3]);
        let (mut sequence, mut data) = (0, 0);
        for step in steps {
            match step {
                Step::Client(who) if !clients[usize::from(who)] => {
                    clients[usize::from(who)] = true;
                    world.clients.join(world.now, &format!("c{who}"));
                }
                Step::ClientLeaves(who) if clients[usize::from(who)] => {
                    clients[usize::from(who)] = false;
                    world.clients.leave(world.now, &format!("c{who}"));
                }
                Step::ClientReads(who, reads) if clients[usize::from(who)] => {
                    world.clients.reads(&format!("c{who}"), reads);
                }
                Step::Request(who, true) if clients[usize::from(who)] => {
                    data += 1;
                    world.clients.send(world.now, &format!("c{who}"), Kind::Data, "data");
                }
                Step::Request(who, false) if clients[usize::from(who)] => {
                    sequence += 1;
                    world.clients.request(world.now, &format!("c{who}"), sequence, "request");
                }
                Step::Worker(who) if !workers[usize::from(who)] => {
                    workers[usize::from(who)] = true;
                    world.workers.join(world.now, &format!("w{who}"));
                }
                Step::WorkerLeaves(who) if workers[usize::from(who)] => {
                    workers[usize::from(who)] = false;
                    world.workers.leave(world.now, &format!("w{who}"));
                }
                Step::WorkerReads(who, reads) if workers[usize::from(who)] => {
                    world.workers.reads(&format!("w{who}"), reads);
                }
                Step::Answers(who) if workers[usize::from(who)] => {
                    world.answer(&format!("w{who}"), |_| vec![0; 90].into());
                }
                Step::Time(time) => world.now += ms(u64::from(time)),
                _ => {}
            }
            world.run_with(budget);
        }
        for (who, here) in clients.into_iter().enumerate() {
            if here {
                world.clients.reads(&format!("c{who}"), true);
            }
        }
        world.workers.join(world.now, "last");
        for _ in 0..40 {
            world.answer("last", |_| "reply".into());
            world.pass(ms(300));
        }
        let status = world.status();
        let counters = status.counters;
        let errors: u64 = counters.error_replies.iter().sum();
        prop_assert_eq!(counters.requests, sequence);
        prop_assert_eq!(counters.replies + errors + counters.replies_abandoned, sequence);
        // What a client left behind is dropped once its time is over.
        let left = counters.drops(DropReason::NoRoute);
        prop_assert_eq!(counters.data_to_workers + left, data);
        prop_assert_eq!(counters.data_dropped.iter().sum::<u64>(), left);
        prop_assert_eq!((status.held_requests, status.held_data, status.in_flight), (0, 0, 0));
        prop_assert_eq!((status.waiting_answers, status.waiting_charge), (0, 0));
        prop_assert_eq!(world.clients.core.queued(), 0);
        prop_assert!(!status.paused);
    }
}
