//! The command line.
//!
//! Exit codes: 0 orderly end, 1 failure while running, 2 wrong configuration or usage.

use std::io::{self, IsTerminal as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::chain;
use crate::config::{self, LoadOptions, Loaded, Problems};
use crate::run::{self, RunOptions};
use crate::sockets;

/// Exit code of a wrong configuration; clap uses the same for wrong usage.
const WRONG: u8 = 2;

/// Environment variable that takes the place of the configured log level.
const LOG_VARIABLE: &str = "LINEWAY_LOG";

/// Forwards byte streams, messages and SIP through chains of nodes.
///
/// Without a command the service runs, as with `run`.
#[derive(Debug, Parser)]
#[command(name = "lineway", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service until it is told to stop.
    ///
    /// SIGTERM and SIGINT drain, a second one stops at once, SIGHUP reads the configuration again.
    Run(ConfigArgs),
    /// Read and check the configuration, and print its chains. Binds nothing.
    Check(ConfigArgs),
    /// Ask a ROUTER, and print its answer.
    ///
    /// The parts of the answer go to standard output, a line each. Exit code 0 with an answer, 1
    /// without one: nobody was there, took the request or answered in time, or the answer is an
    /// error. `--json` tells which.
    Request(sockets::RequestArgs),
    /// Send one record to a ROUTER or DEALER, and wait until it is on its way.
    Send(sockets::SendArgs),
    /// Be a small ROUTER: print what arrives and answer requests.
    Serve(sockets::ServeArgs),
    /// List the live lines of a running service.
    Lines(LinesArgs),
    /// Put load on a service, or be the peer behind it.
    Load {
        /// Which kind of load.
        #[command(subcommand)]
        kind: Load,
    },
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: Shell,
    },
    /// Print the manual page.
    Man {
        /// The page of this command.
        command: Option<String>,
    },
}

/// Kinds of load.
#[derive(Debug, Subcommand)]
enum Load {
    /// TCP: streams, connects, pings or idle connections.
    Tcp(crate::load::tcp::Args),
    /// ZMP: requests or records to a ROUTER.
    Zmp(crate::load::zmp::Args),
    /// SIP: calls through a proxy, or OPTIONS.
    Sip(crate::load::sip::Args),
}

/// Which configuration.
#[derive(Args, Clone, Debug, Default)]
struct ConfigArgs {
    /// The configuration; without it config.toml of the current folder, else the built-in one.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Let listeners have port 0: the system chooses a free port, the log tells which.
    #[arg(long)]
    allow_port_zero: bool,
}

#[derive(Args, Debug)]
struct LinesArgs {
    /// One JSON document in place of a table.
    #[arg(long)]
    json: bool,
    /// Every child of every parent. Without it, on a terminal, the first ten of each node.
    #[arg(long)]
    all: bool,
    /// The service's admin interface; without it the address that the configuration gives.
    #[arg(long, value_name = "IP:PORT")]
    admin: Option<SocketAddr>,
    #[command(flatten)]
    config: ConfigArgs,
}

impl ConfigArgs {
    /// The options of a command, with those that stand before it.
    fn after(self, before: Self) -> Self {
        Self {
            config: self.config.or(before.config),
            allow_port_zero: self.allow_port_zero || before.allow_port_zero,
        }
    }

    fn options(&self) -> LoadOptions {
        // Unset and empty are the same, as for other programs' variables of this kind.
        let log = std::env::var_os(LOG_VARIABLE).filter(|value| !value.is_empty());
        LoadOptions { allow_port_zero: self.allow_port_zero, log }
    }

    fn load(&self) -> Result<(Loaded, LoadOptions), Problems> {
        let options = self.options();
        let loaded = config::load(self.config.as_deref(), &options)?;
        Ok((loaded, options))
    }
}

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to tell when this fails.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(WRONG));
        }
    };
    match cli.command {
        None => start(&cli.config),
        Some(Command::Run(args)) => start(&args.after(cli.config)),
        Some(Command::Check(args)) => check(&args.after(cli.config)),
        Some(Command::Lines(args)) => lines(args, cli.config),
        Some(Command::Request(args)) => finish(sockets::request(&args)),
        Some(Command::Send(args)) => finish(sockets::send(&args)),
        Some(Command::Serve(args)) => finish(sockets::serve(&args)),
        Some(Command::Load { kind: Load::Tcp(args) }) => finish(crate::load::tcp::run(&args)),
        Some(Command::Load { kind: Load::Zmp(args) }) => finish(crate::load::zmp::run(&args)),
        Some(Command::Load { kind: Load::Sip(args) }) => finish(crate::load::sip::run(&args)),
        Some(Command::Completions { shell }) => completions(shell),
        Some(Command::Man { command }) => manual(command.as_deref()),
    }
}

fn start(args: &ConfigArgs) -> ExitCode {
    let (loaded, load) = match args.load() {
        Ok(loaded) => loaded,
        Err(problems) => return wrong(&problems),
    };
    finish(run::run(loaded, &RunOptions { load }))
}

fn lines(args: LinesArgs, before: ConfigArgs) -> ExitCode {
    let admin = match args.admin {
        Some(address) => address,
        None => match args.config.after(before).load() {
            Ok((loaded, _)) => loaded.config.admin.listen,
            Err(problems) => return wrong(&problems),
        },
    };
    if admin.port() == 0 {
        let _ = writeln!(io::stderr(), "lineway: the log of the service tells its port: --admin");
        return ExitCode::from(WRONG);
    }
    finish(crate::lines::run(reachable(admin), args.json, args.all))
}

/// Where a client reaches a server that listens on an address.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// The exit code of a command; says why it failed.
fn finish(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "lineway: {error:#}");
        ExitCode::FAILURE
    })
}

fn check(args: &ConfigArgs) -> ExitCode {
    match args.load() {
        Ok((loaded, _)) => {
            for warning in &loaded.config.warnings {
                let _ = writeln!(io::stderr(), "warning: {warning}");
            }
            print(&format!("{}: ok\n{}", loaded.source, chain::tree(&loaded.config.plan)))
        }
        Err(problems) => wrong(&problems),
    }
}

fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "lineway", &mut script);
    print(&String::from_utf8_lossy(&script))
}

fn manual(name: Option<&str>) -> ExitCode {
    let mut command = Cli::command();
    command.build();
    if let Some(name) = name {
        let Some(found) = command.find_subcommand(name) else {
            let _ = writeln!(io::stderr(), "lineway: {name:?} is no command of lineway");
            return ExitCode::from(WRONG);
        };
        command = found.clone().display_name(format!("lineway-{name}"));
    }
    let mut page = Vec::new();
    match clap_mangen::Man::new(command).render(&mut page) {
        Ok(()) => print(&String::from_utf8_lossy(&page)),
        Err(error) => {
            let _ = writeln!(io::stderr(), "lineway: {error}");
            ExitCode::FAILURE
        }
    }
}

fn wrong(problems: &Problems) -> ExitCode {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let styled = io::stderr().is_terminal() && !plain;
    let _ = io::stderr().write_all(problems.render(styled).as_bytes());
    ExitCode::from(WRONG)
}

/// Writes to standard output. A reader that went away (`| head`) ends the output quietly; what
/// else keeps the text from its reader is a failure.
fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "lineway: standard output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::{Cli, Command};
    use clap::{CommandFactory as _, Parser as _};

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_service_on_all_addresses_is_reached_on_loopback() {
        for (listen, reached) in [
            ("0.0.0.0:9600", "127.0.0.1:9600"),
            ("[::]:9600", "[::1]:9600"),
            ("192.0.2.1:9600", "192.0.2.1:9600"),
        ] {
            assert_eq!(super::reachable(listen.parse().unwrap()).to_string(), reached);
        }
    }

    #[test]
    fn options_stand_before_or_after_the_command() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap();
        let cli = parse("lineway --config a.toml --allow-port-zero check");
        let Some(Command::Check(args)) = cli.command else { panic!("check") };
        let args = args.after(cli.config);
        assert_eq!(args.config.as_deref(), Some("a.toml".as_ref()));
        assert!(args.allow_port_zero);
        let cli = parse("lineway --config a.toml run --config b.toml");
        let Some(Command::Run(args)) = cli.command else { panic!("run") };
        assert_eq!(args.after(cli.config).config.as_deref(), Some("b.toml".as_ref()));
        assert!(parse("lineway").command.is_none());
    }
}
