//! temp
use lineway_actors::*;
use lineway_actors::{testkit::settings as t, worker::*};
use std::rc::Rc;
use std::sync::Arc;
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut nodes = vec![];
    for (i, p) in a[1..].chunks(2).enumerate() {
        let mut l = t::listener(p[0].parse().unwrap());
        if let settings::NodeSettings::TcpListener(l) = &mut l {
            l.initial_idle_timeout = lineway_wire::units::Millis::new(0);
        }
        nodes.push(t::node(&format!("in{i}"), l, Some(&format!("out{i}"))));
        nodes.push(t::node(
            &format!("out{i}"),
            t::connector(p[1].parse().unwrap()),
            None,
        ));
    }
    let plan = Arc::new(t::plan(nodes));
    let metrics = metrics::Metrics::new("0");
    let board = Board {
        metrics,
        registry: registry::Registry::new(),
        health: Default::default(),
        descriptors: descriptors::Descriptors::of_process(),
        testers: Default::default(),
        supervisor: Default::default(),
    };
    let sys = actix_rt::System::new();
    let mut socks: Vec<Vec<ListenAt>> = vec![vec![], vec![]];
    let mut holds = vec![];
    for n in &plan.nodes {
        if let settings::NodeSettings::TcpListener(s) = &n.settings {
            for at in n.listen_addresses() {
                let b = net::bind::listen(at, &net::ListenOptions::from(s), 2).unwrap();
                for (i, socket) in b.sockets.into_iter().enumerate() {
                    socks[i].push(ListenAt {
                        node: n.name.clone(),
                        address: at,
                        socket,
                    });
                }
                holds.push(b.hold);
            }
        }
    }
    for (i, listen) in socks.into_iter().enumerate() {
        let arb = actix_rt::Arbiter::new();
        let board = board.clone();
        let plan = plan.clone();
        arb.spawn_fn(move || {
            let w = Worker::start(i as u16, board, Rc::new(net::KernelNetwork), Rc::new(()));
            let addr = WorkerActor::start(w);
            addr.do_send(Install {
                plan,
                listen,
                limits: Default::default(),
                start_testers: true,
            });
        });
        std::mem::forget(arb);
    }
    sys.block_on(std::future::pending::<()>());
}
