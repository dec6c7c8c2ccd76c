//! The start of a run: workers, sockets, names, admin interface.

use std::net::{IpAddr, TcpListener};
use std::rc::Rc;
use std::sync::{Arc, RwLock};
use std::time::Instant;

use actix_rt::Arbiter;
use anyhow::{Context as _, anyhow, bail};
use futures_util::future::join_all;
use lineway_actors::descriptors::Descriptors;
use lineway_actors::dns::{DnsError, Names, Resolver};
use lineway_actors::health::{Health, ProcessReason};
use lineway_actors::line::Testers;
use lineway_actors::metrics::Metrics;
use lineway_actors::net::KernelNetwork;
use lineway_actors::net::bind::BindError;
use lineway_actors::registry::Registry;
use lineway_actors::service::{Service, StartCause, StartError};
use lineway_actors::settings::{
    DnsSettings, DomainStrategy, Host, MessageSettings, NodeSettings, Plan,
};
use lineway_actors::socket::{Inproc, Total};
use lineway_actors::supervisor;
use lineway_actors::wire::dial::Families;
use lineway_actors::wire::zmp::endpoint::Endpoint;
use lineway_actors::worker::{Board, Worker, WorkerActor, WorkerHandle};

use super::{Running, ShownPlan, main_thread};
use crate::admin;
use crate::config::{Config, Loaded};

/// Starts everything, or nothing: what was bound is free again after an error.
pub(super) async fn start(loaded: Loaded) -> anyhow::Result<Running> {
    let begun = Instant::now();
    let Loaded { config, source } = loaded;
    warn(&config);
    let plan = Arc::new(config.plan.clone());
    let listen = config.admin.listen;
    let server = admin::Server::bind(listen).map_err(|cause| BindError {
        over: "TCP",
        address: listen,
        cause,
    });
    let workers = worker_count(&plan);
    let board = new_board(workers)?;
    let threads = start_workers(&board, workers, &plan.service.dns)?;
    let mut service = Service::new(board.clone(), threads, Arc::clone(&plan));
    let bindings = service.bind(&plan, &inherited_sockets()).await;
    let names = resolve_names(&plan).await;
    let (server, bindings) = match (server, bindings, names) {
        (Ok(server), Ok(bindings), Ok(())) => (server, bindings),
        (server, bindings, names) => {
            return Err(all_of(server.err(), bindings.err(), names.err()));
        }
    };
    let shown: ShownPlan = Arc::new(RwLock::new(Arc::clone(&plan)));
    let address = server.local_addr();
    let context = main_thread::admin_context(&board, &service, &shown);
    main_thread::start(Rc::new(server), context, &board);
    service.install(plan, bindings, true).await;
    board.health.process(ProcessReason::Starting, false);
    let ms = begun.elapsed().as_millis() as u64;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), %source, workers, admin = %address, ms, "ready");
    Ok(Running { service, board, config, source, shown })
}

/// Tells the operator what is right in a configuration, and yet worth a word.
pub(super) fn warn(config: &Config) {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
}

/// `workers`; 0 is one a core.
fn worker_count(plan: &Plan) -> u16 {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let count = if plan.service.workers == 0 { cores() } else { plan.service.workers };
    u16::try_from(count).unwrap_or(u16::MAX - 1).max(1)
}

fn new_board(workers: u16) -> anyhow::Result<Board> {
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
    let health = Health::new(workers, Instant::now());
    metrics.register(health.collector()).context("the readiness metrics")?;
    let total: Arc<Total> = Arc::default();
    metrics.watch_total(Arc::clone(&total));
    let registry = Registry::new();
    let supervisor = supervisor::start(registry.clone(), metrics.clone(), health.clone());
    Ok(Board {
        metrics,
        registry,
        health,
        descriptors: Descriptors::of_process(),
        testers: Testers::default(),
        total,
        inproc: Inproc::default(),
        supervisor,
    })
}

/// One thread with its own event loop for each worker. They end with the process.
fn start_workers(
    board: &Board,
    count: u16,
    dns: &DnsSettings,
) -> anyhow::Result<Vec<WorkerHandle>> {
    let (tell, told) = std::sync::mpsc::channel();
    for index in 0..count {
        let (board, dns, tell) = (board.clone(), dns.clone(), tell.clone());
        let started = Arbiter::new().spawn_fn(move || {
            let names = Rc::new(Resolver::new(&dns));
            let worker = Worker::start(index, board, Rc::new(KernelNetwork), names);
            // The other end waits for it.
            let _ = tell.send((index, WorkerActor::start(worker)));
        });
        if !started {
            bail!("the thread of worker {index} ended at once");
        }
    }
    drop(tell);
    let mut workers: Vec<_> = told.iter().take(usize::from(count)).collect();
    if workers.len() < usize::from(count) {
        bail!("a worker's thread ended at once");
    }
    workers.sort_by_key(|(index, _)| *index);
    Ok(workers.into_iter().map(|(_, addr)| addr).collect())
}

/// Sockets that the service manager opened (socket activation, T01).
fn inherited_sockets() -> Vec<TcpListener> {
    let mut sockets = listenfd::ListenFd::from_env();
    (0..sockets.len())
        .filter_map(|at| match sockets.take_tcp_listener(at) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(at, %error, "an inherited socket is no TCP listener");
                None
            }
        })
        .collect()
}

/// Looks every host name of a plan up once: one that does not resolve is an error of the start.
pub(super) async fn resolve_names(plan: &Plan) -> Result<(), Vec<StartError>> {
    let names = Resolver::new(&plan.service.dns);
    let asked = plan.nodes.iter().flat_map(|node| {
        if let Some(messages) = node.settings.messages() {
            return names_of_sockets(&node.name, messages);
        }
        let NodeSettings::TcpConnector(settings) = &node.settings else {
            return Vec::new();
        };
        let names_of = settings.targets.iter().filter_map(|target| match &target.host {
            Host::Name(name) => Some(Arc::clone(name)),
            Host::Ip(_) => None,
        });
        let wanted = Families::from(settings.domain_strategy);
        let setting = if settings.targets.len() > 1 { "addresses" } else { "address" };
        names_of.map(|name| (Arc::clone(&node.name), setting, name, wanted)).collect()
    });
    let answers = asked.map(|(node, setting, name, wanted)| {
        let mut lookup = names.lookup(&name, wanted);
        async move {
            let mut why = DnsError::NotFound;
            while let Some(answer) = lookup.next().await {
                match answer.result {
                    Ok(list) if !list.is_empty() => return None,
                    Ok(_) => {}
                    Err(error) => why = error,
                }
            }
            let cause = StartCause::Name { name, why };
            Some(StartError { node, setting, cause })
        }
    });
    let errors: Vec<_> = join_all(answers).await.into_iter().flatten().collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// A name to look up: whose it is, in which setting, and in which families of addresses.
type Asked = (Arc<str>, &'static str, Arc<str>, Families);

/// The host names among the endpoints of a message socket.
fn names_of_sockets(node: &Arc<str>, messages: &MessageSettings) -> Vec<Asked> {
    let both = [("bind", &messages.bind), ("connect", &messages.connect)];
    let names = both.into_iter().flat_map(|(setting, endpoints)| {
        endpoints.iter().filter_map(move |endpoint| match endpoint {
            Endpoint::Tcp { host, .. } if &**host != "*" && host.parse::<IpAddr>().is_err() => {
                Some((setting, Arc::from(host.trim_end_matches('.').to_ascii_lowercase())))
            }
            _ => None,
        })
    });
    let wanted = Families::from(DomainStrategy::PreferIpv6);
    names.map(|(setting, name)| (Arc::clone(node), setting, name, wanted)).collect()
}

/// All errors of a start, a line each.
fn all_of(
    admin: Option<BindError>,
    bindings: Option<Vec<StartError>>,
    names: Option<Vec<StartError>>,
) -> anyhow::Error {
    let admin = admin.map(|error| format!("[admin] listen: {error}"));
    let nodes = bindings.into_iter().chain(names).flatten().map(|error| error.to_string());
    let lines: Vec<_> = admin.into_iter().chain(nodes).collect();
    anyhow!(lines.join("\nlineway: "))
}
