//! `lineway run`: start, signals, reload, drain, stop.

mod main_thread;
mod start;

use std::future::Future;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use actix_rt::System;
use anyhow::Context as _;
use lineway_actors::health::ProcessReason;
use lineway_actors::metrics::ReloadResult;
use lineway_actors::service::Service;
use lineway_actors::settings::Plan;
use lineway_actors::worker::Board;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{Config, LoadOptions, Loaded, Source};
use crate::log;

/// What the command line says about a run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// How the configuration was loaded; a reload does it the same way.
    pub load: LoadOptions,
}

/// The plan in force, as the admin interface shows it.
pub type ShownPlan = Arc<RwLock<Arc<Plan>>>;

/// Runs the service until it is told to stop, or until its testers are done.
///
/// # Errors
/// What stands in the way of the start: addresses, names, rights, threads.
pub fn run(loaded: Loaded, options: &RunOptions) -> anyhow::Result<ExitCode> {
    log::init(&loaded.config.log);
    System::new().block_on(start_and_serve(loaded, options))
}

/// SIGTERM and SIGINT stop, SIGHUP reloads. SIGPIPE is ignored: a write to a closed pipe is an
/// error of that write.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Stop,
    Reload,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next SIGTERM or SIGINT.
    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// The next of all signals.
    async fn next(&mut self) -> Asked {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.hangup.recv() => Asked::Reload,
        }
    }
}

async fn start_and_serve(loaded: Loaded, options: &RunOptions) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new().context("signals can not be handled")?;
    let running = tokio::select! {
        biased;
        () = signals.stop() => {
            tracing::info!("stopped before the start was over");
            return Ok(ExitCode::SUCCESS);
        }
        running = start::start(loaded) => running?,
    };
    running.serve(signals, options).await
}

/// A service that has started.
struct Running {
    service: Service,
    board: Board,
    config: Config,
    source: Source,
    shown: ShownPlan,
}

impl Running {
    async fn serve(
        mut self,
        mut signals: Signals,
        options: &RunOptions,
    ) -> anyhow::Result<ExitCode> {
        let testers = self.testers();
        tokio::pin!(testers);
        let tested = loop {
            tokio::select! {
                biased;
                asked = signals.next() => if asked == Asked::Stop {
                    break None;
                },
                right = &mut testers => break Some(right),
            }
            // Names may take their time, and a signal to stop does not wait for them.
            let prepared = tokio::select! {
                biased;
                () = signals.stop() => break None,
                prepared = self.prepare(options) => prepared,
            };
            if let Some(config) = prepared {
                self.take_over(config).await;
            }
        };
        let limit = match tested {
            None => self.service.plan().service.drain_timeout.duration(),
            // The lines that mattered are over.
            Some(_) => Duration::ZERO,
        };
        self.drain(&mut signals, limit).await;
        System::current().stop();
        Ok(if tested == Some(false) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Done when every tester line has reported, if one of their nodes ends the process then.
    fn testers(&self) -> impl Future<Output = bool> + 'static {
        let terminates = self.service.plan().nodes.iter().any(|node| node.settings.terminates());
        let testers = self.board.testers.clone();
        async move {
            if !terminates {
                std::future::pending::<()>().await;
            }
            let right = testers.all_reported().await;
            let (lines_right, lines_wrong) = testers.score();
            tracing::info!(lines_right, lines_wrong, "every tester line is done");
            right
        }
    }

    /// Takes no new lines, and waits for the others until the limit or a second signal.
    async fn drain(&mut self, signals: &mut Signals, limit: Duration) {
        self.board.health.process(ProcessReason::Draining, true);
        let lines = self.board.registry.len();
        tracing::info!(lines, limit_ms = limit.as_millis() as u64, "draining: no new lines");
        tokio::select! {
            biased;
            () = signals.stop() => tracing::warn!("a second signal: stopping at once"),
            ended = self.service.drain(limit) => {
                if ended > 0 {
                    tracing::warn!(lines = ended, "the drain limit is over, its lines were ended");
                }
            }
        }
        tracing::info!("stopped");
    }

    /// Reads the configuration again and looks whether it could start.
    async fn prepare(&self, options: &RunOptions) -> Option<Config> {
        let metrics = self.board.metrics.supervisor();
        let reject = |result, line: &dyn std::fmt::Display| {
            metrics.reloaded(result, SystemTime::now());
            tracing::error!("the configuration was not taken over, nothing changed: {line}");
        };
        match self.source.load(&options.load) {
            Err(problems) => {
                for line in problems.lines() {
                    reject(ReloadResult::Rejected, &line);
                }
                None
            }
            Ok(loaded) => match start::resolve_names(&loaded.config.plan).await {
                Err(errors) => {
                    for error in errors {
                        reject(ReloadResult::Failed, &error);
                    }
                    None
                }
                Ok(()) => Some(loaded.config),
            },
        }
    }

    /// Puts a configuration in force; with an error nothing changes.
    async fn take_over(&mut self, config: Config) {
        let plan = Arc::new(config.plan.clone());
        let changes = match self.service.reload(Arc::clone(&plan)).await {
            Ok(changes) => changes,
            Err(errors) => {
                for error in errors {
                    tracing::error!(
                        "the configuration was not taken over, nothing changed: {error}"
                    );
                }
                return;
            }
        };
        tracing::info!(%changes, "the configuration was taken over");
        start::warn(&config);
        if config.admin != self.config.admin {
            tracing::warn!("[admin] takes effect at the next start");
        }
        if config.log != self.config.log {
            tracing::warn!("[log] takes effect at the next start");
        }
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = plan;
        self.config = config;
        actix_rt::spawn(self.service.after_reload(&changes));
    }
}
