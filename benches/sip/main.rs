//! SIP beside Kamailio, in one run: `cargo bench --bench sip`; see `docs/performance.md`.
//!
//! `SIPp` plays the phones. Both proxies have the same dial plan, Kamailio in its own language, and
//! two workers for datagrams. CPU is that of all processes of a proxy.

#[allow(dead_code, unused_imports, reason = "each bench uses a part of it")]
#[path = "../beside/mod.rs"]
mod beside;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};

use beside::{Must, Process, Ready, Row, Sampling, in_turn};

const PLAN: &str = include_str!("plan.lua");
const KAMAILIO: &str = include_str!("kamailio.cfg");
const OPTIONS: &str = include_str!("options.xml");
const RINGING: &str = include_str!("ringing.xml");

/// Phones that ring beside the one that answers, in a fork.
const RING: usize = 2;

/// One call of so many may fail.
const MOST_FAILED: u64 = 10;

#[derive(Debug, Parser)]
#[command(name = "cargo bench --bench sip --")]
struct Args {
    /// What to measure [default: all]
    #[arg(value_enum)]
    parts: Vec<Part>,
    #[command(flatten)]
    sampling: Sampling,
    /// Calls each second
    #[arg(long, default_value_t = 300)]
    calls: u32,
    /// OPTIONS each second
    #[arg(long, default_value_t = 2000)]
    options: u32,
    /// Kamailio's program
    #[arg(long, default_value = "kamailio")]
    kamailio: String,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Calls that are forwarded without state: INVITE 180 200 ACK BYE 200
    Stateless,
    /// OPTIONS that are answered without state
    Options,
    /// The same calls, each request a transaction
    Stateful,
    /// Calls to three phones: one answers, two ring and are cancelled
    Fork,
}

impl Part {
    /// What both do with a request behind the checks: in Lua, and as Kamailio has it.
    const fn route(self) -> (&'static str, &'static str) {
        match self {
            Self::Stateless | Self::Options => (
                "    KSR.setdsturi(\"sip:CALLEE\")\n    KSR.forward()",
                "    $du = \"sip:CALLEE\";\n    forward();",
            ),
            Self::Stateful => (
                "    if KSR.tm.t_check_trans() == 0 then return end\n    \
                 KSR.setdsturi(\"sip:CALLEE\")\n    KSR.tm.t_relay()",
                "    t_check_trans();\n    $du = \"sip:CALLEE\";\n    t_relay();",
            ),
            Self::Fork => (
                "    if KSR.tm.t_check_trans() == 0 then return end\n    \
                 if KSR.is_INVITE() then\n        KSR.seturi(\"sip:a@CALLEE\")\n        \
                 KSR.corex.append_branch_uri(\"sip:b@RING0\")\n        \
                 KSR.corex.append_branch_uri(\"sip:c@RING1\")\n    \
                 else\n        KSR.setdsturi(\"sip:CALLEE\")\n    end\n    KSR.tm.t_relay()",
                "    t_check_trans();\n    if (is_method(\"INVITE\")) {\n        \
                 $ru = \"sip:a@CALLEE\";\n        append_branch(\"sip:b@RING0\");\n        \
                 append_branch(\"sip:c@RING1\");\n    } else {\n        \
                 $du = \"sip:CALLEE\";\n    }\n    t_relay();",
            ),
        }
    }
}

/// The phones behind a proxy.
struct Phones {
    callee: SocketAddr,
    ringing: [SocketAddr; RING],
}

impl Phones {
    fn new() -> anyhow::Result<Self> {
        Ok(Self { callee: free_port()?, ringing: [free_port()?, free_port()?] })
    }

    /// A plan with the addresses of these phones.
    fn plan(&self, text: &str, route: &str) -> String {
        let mut plan = text.replace("ROUTE", route).replace("CALLEE", &self.callee.to_string());
        for (at, phone) in self.ringing.iter().enumerate() {
            plan = plan.replace(&format!("RING{at}"), &phone.to_string());
        }
        plan
    }

    fn start(&self, part: Part, folder: &Path) -> anyhow::Result<Vec<Process>> {
        let mut phones = vec![phone_at(self.callee, folder, &["-sn", "uas"])?];
        if part == Part::Fork {
            let file = folder.join("ringing.xml");
            std::fs::write(&file, RINGING)?;
            for phone in self.ringing {
                phones.push(phone_at(phone, folder, &["-sf", "ringing.xml"])?);
            }
        }
        Ok(phones)
    }
}

/// A proxy that runs, with a callee behind it.
struct Side {
    proxy: Process,
    entry: SocketAddr,
    _phones: Vec<Process>,
    folder: tempfile::TempDir,
}

impl Drop for Side {
    fn drop(&mut self) {
        // Killed, Kamailio would leave its workers behind, at its address.
        self.proxy.end();
    }
}

impl Side {
    fn lineway(part: Part) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let (entry, phones) = (free_port()?, Phones::new()?);
        let [admin] = beside::free_addresses()?;
        let plan = folder.path().join("plan.lua");
        std::fs::write(&plan, phones.plan(PLAN, part.route().0))?;
        let text = format!(
            "[service]\nworkers = 2\n[log]\nlevel = \"warn\"\n[admin]\nlisten = \"{admin}\"\n\
             [[node]]\nname = \"sip\"\ntype = \"SipListener\"\nnext = \"router\"\n\
             settings = {{ listen = [\"udp:{entry}\"] }}\n\
             [[node]]\nname = \"router\"\ntype = \"SipRouter\"\n\
             settings = {{ script = \"{}\" }}\n",
            plan.display()
        );
        let file = folder.path().join("config.toml");
        std::fs::write(&file, text)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_lineway"));
        command.arg("run").arg("--config").arg(file);
        let (proxy, _) = beside::start_ready(&mut command, Ready::Admin(admin))?;
        let phones = phones.start(part, folder.path())?;
        Ok(Self { proxy, entry, _phones: phones, folder })
    }

    /// Nothing where Kamailio is not installed.
    fn kamailio(part: Part, program: &str) -> anyhow::Result<Option<Self>> {
        let there = Command::new(program).arg("-v").stdout(Stdio::null()).status();
        if !there.is_ok_and(|status| status.success()) {
            eprintln!(
                "{program} does not start, so that only Lineway is measured; `apt-get install kamailio` brings it"
            );
            return Ok(None);
        }
        let folder = tempfile::tempdir()?;
        let (entry, phones) = (free_port()?, Phones::new()?);
        let text = phones.plan(KAMAILIO, part.route().1).replace("LISTEN", &entry.to_string());
        let file = folder.path().join("kamailio.cfg");
        std::fs::write(&file, text)?;
        let mut command = Command::new(program);
        // In the foreground, and memory enough.
        command.args(["-DD", "-E", "-m", "64", "-M", "8", "-Y"]).arg(folder.path());
        command.arg("-f").arg(file).stdout(Stdio::null()).stderr(Stdio::null());
        let mut proxy = Process::start(&mut command)?;
        await_answer(entry, &mut proxy)?;
        let phones = phones.start(part, folder.path())?;
        Ok(Some(Self { proxy, entry, _phones: phones, folder }))
    }

    /// CPU µs for each of so many calls or requests, at so many each second.
    fn measure(&self, part: Part, rate: u32, seconds: f64) -> anyhow::Result<f64> {
        let count = (f64::from(rate) * seconds).ceil() as u64;
        // What the first ones cost once is no cost of a call.
        self.load(part, rate, u64::from(rate) / 4)?;
        let before = self.proxy.tree_cpu_seconds()?;
        self.load(part, rate, count)?;
        Ok((self.proxy.tree_cpu_seconds()? - before) * 1e6 / count as f64)
    }

    fn load(&self, part: Part, rate: u32, count: u64) -> anyhow::Result<()> {
        let mut command = Command::new("sipp");
        match part {
            Part::Stateless | Part::Stateful | Part::Fork => command.args(["-sn", "uac"]),
            Part::Options => {
                let file = self.folder.path().join("options.xml");
                std::fs::write(&file, OPTIONS)?;
                command.arg("-sf").arg(file)
            }
        };
        let port = free_port()?.port().to_string();
        command.args(["-i", "127.0.0.1", "-p", &port, "-r", &rate.to_string()]);
        command.args(["-m", &count.to_string(), "-l", "20000", "-nostdin"]);
        let output = command
            .arg(self.entry.to_string())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .context("can not start sipp; `apt-get install sip-tester` brings it")?;
        // 1 = calls failed. Datagrams that a proxy hands on in another order than they came in are
        // calls that fail here, and have had their CPU.
        let text = String::from_utf8_lossy(&output.stdout);
        let failed = failed_calls(&text).unwrap_or(count);
        if !matches!(output.status.code(), Some(0 | 1)) || failed * MOST_FAILED > count {
            bail!("sipp: {}, {failed} of {count} failed", output.status);
        }
        if failed > 0 {
            eprintln!("{failed} of {count} calls failed");
        }
        Ok(())
    }
}

/// How many calls failed, as sipp's last screen says.
fn failed_calls(screens: &str) -> Option<u64> {
    let line = screens.lines().rfind(|line| line.trim_start().starts_with("Failed call"))?;
    line.rsplit('|').next()?.trim().parse().ok()
}

/// A phone that plays this scenario.
fn phone_at(at: SocketAddr, folder: &Path, scenario: &[&str]) -> anyhow::Result<Process> {
    let mut command = Command::new("sipp");
    command.args(scenario);
    command.args(["-i", "127.0.0.1", "-p", &at.port().to_string(), "-nostdin"]);
    command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    Process::start(&mut command)
}

/// A port of the loopback that was free for datagrams a moment ago.
fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Waits until a proxy answers an OPTIONS.
fn await_answer(entry: SocketAddr, process: &mut Process) -> anyhow::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let own = socket.local_addr()?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let began = Instant::now();
    for number in 1.. {
        let ask = format!(
            "OPTIONS sip:{entry} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKb{number}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:b@{own}>;tag=1\r\nTo: <sip:{entry}>\r\n\
             Call-ID: b{number}\r\nCSeq: {number} OPTIONS\r\nContent-Length: 0\r\n\r\n"
        );
        socket.send_to(ask.as_bytes(), entry)?;
        if socket.recv(&mut [0; 2048]).is_ok() {
            break;
        }
        process.check()?;
        if began.elapsed() > Duration::from_secs(10) {
            bail!("no answer from {entry}");
        }
    }
    Ok(())
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    beside::end_with_signals()?;
    let parts = if args.parts.is_empty() { Part::value_variants() } else { &args.parts[..] };
    let mut rows: Vec<Row> = Vec::new();
    let mut failed = false;
    for part in parts {
        eprintln!("{part:?} ...");
        let (name, limit, rate) = match part {
            Part::Stateless => ("CPU µs for a call, without state", 1.5, args.calls),
            Part::Options => ("CPU µs for an OPTIONS that is answered", 1.3, args.options),
            Part::Stateful => ("CPU µs for a call, with transactions", 1.5, args.calls),
            Part::Fork => ("CPU µs for a call to three phones", 1.5, args.calls / 2),
        };
        let measured = in_turn(
            args.sampling.rounds,
            &[(name.to_owned(), Must::RatioAtMost(limit))],
            |at| match at {
                0 => Side::kamailio(*part, &args.kamailio),
                _ => Side::lineway(*part).map(Some),
            },
            |side| Ok(vec![side.measure(*part, rate, args.sampling.seconds)?]),
        );
        match measured {
            Ok(measured) => rows.extend(measured),
            Err(error) => {
                eprintln!("{part:?}: {error:#}");
                failed = true;
            }
        }
    }
    beside::print(&rows, args.sampling.json, ["Kamailio", "Lineway"])?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
