//! DEALER and ROUTER beside those of libzmq, in one run: `cargo bench --bench zmp`; see
//! `docs/performance.md`.
//!
//! Every socket is in a process of its own: libzmq's are those of `libzmq.c`, ours are this program
//! in another role.

#[allow(dead_code, unused_imports, reason = "each bench uses a part of it")]
#[path = "../beside/mod.rs"]
mod beside;
mod roles;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};

use beside::{Must, Row, Sampling, in_turn};

#[derive(Debug, Parser)]
#[command(name = "cargo bench --bench zmp --")]
struct Args {
    /// What to measure [default: all]
    #[arg(value_enum)]
    parts: Vec<Part>,
    #[command(flatten)]
    sampling: Sampling,
    /// Our own sockets in place of libzmq's: what the method can not tell apart
    #[arg(long)]
    twice: bool,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Records each second from a DEALER to a ROUTER
    Records,
    /// Round trips each second with 100 under way
    Requests,
    /// Round trip of one at a time
    Ping,
}

/// Takes the figures of a program's sockets, for so many seconds.
type Figures = Box<dyn Fn(&Program, f64) -> anyhow::Result<Vec<f64>>>;

/// One row, or two that are measured together.
struct Measure {
    rows: Vec<(String, Must)>,
    figures: Figures,
}

impl Part {
    fn measures(self) -> Vec<Measure> {
        match self {
            Self::Records => {
                let sizes = [(64, "64 B", 0.5), (1024, "1 KiB", 0.9), (65536, "64 KiB", 1.0)];
                sizes.map(|(size, name, least)| records(size, name, least)).into()
            }
            Self::Requests => vec![Measure {
                rows: vec![
                    (
                        "round trips each second, 64 B, 100 under way".into(),
                        Must::RatioAtLeast(0.3),
                    ),
                    ("CPU µs for each of them, both processes".into(), Must::Nothing),
                ],
                figures: Box::new(|program, seconds| {
                    let [rate, _, cpu] = ask(program, seconds, 100)?;
                    Ok(vec![rate, cpu])
                }),
            }],
            Self::Ping => vec![Measure {
                rows: vec![
                    ("round trip of 64 B, one under way, p50, µs".into(), Must::RatioAtMost(1.2)),
                    ("CPU µs for each of them, both processes".into(), Must::Nothing),
                ],
                figures: Box::new(|program, seconds| {
                    let [_, p50, cpu] = ask(program, seconds, 1)?;
                    Ok(vec![p50, cpu])
                }),
            }],
        }
    }
}

fn records(size: usize, name: &str, least: f64) -> Measure {
    Measure {
        rows: vec![
            (format!("records of {name} each second"), Must::RatioAtLeast(least)),
            ("CPU µs for each of them, both processes".into(), Must::Nothing),
        ],
        figures: Box::new(move |program, seconds| {
            let mut sink = program.listen("sink")?;
            let source = program.run("source", &sink.endpoint, size, seconds, &[])?;
            let figures = sink.figures()?;
            let [count, time, cpu] = figures[..] else { bail!("sink printed {figures:?}") };
            Ok(vec![count / time, (cpu + source[0]) * 1e6 / count])
        }),
    }
}

/// Round trips each second, their median in µs, and CPU µs for each.
fn ask(program: &Program, seconds: f64, under_way: usize) -> anyhow::Result<[f64; 3]> {
    let echo = program.listen("echo")?;
    let figures = program.run("ask", &echo.endpoint, 64, seconds, &[under_way.to_string()])?;
    let [count, time, p50, cpu] = figures[..] else { bail!("ask printed {figures:?}") };
    let all = cpu + echo.cpu_seconds()?;
    Ok([count / time, p50, all * 1e6 / count])
}

/// Whose sockets.
#[derive(Clone, Debug)]
struct Program {
    path: PathBuf,
    first: Option<&'static str>,
}

impl Program {
    fn ours() -> anyhow::Result<Self> {
        Ok(Self { path: std::env::current_exe()?, first: Some(roles::ROLE) })
    }

    /// Builds libzmq's side; nothing where that can not be done here.
    fn libzmq(folder: &Path) -> Option<Self> {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/zmp/libzmq.c");
        let path = folder.join("libzmq");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-o"]).arg(&path).args([source, "-lzmq"]);
        let built = cc.output().is_ok_and(|output| output.status.success());
        if !built {
            eprintln!(
                "libzmq's side can not be built, ours is measured alone: apt-get install gcc libzmq3-dev"
            );
        }
        built.then_some(Self { path, first: None })
    }

    fn command(&self, role: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.args(self.first).arg(role).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    /// A role that listens.
    fn listen(&self, role: &str) -> anyhow::Result<Listening> {
        let mut child = self.command(role).spawn().context("can not start it")?;
        let output = child.stdout.take().context("no output")?;
        let mut output = BufReader::new(output);
        let mut endpoint = String::new();
        output.read_line(&mut endpoint)?;
        Ok(Listening { child, output, endpoint: endpoint.trim().to_owned() })
    }

    /// A role that ends by itself; the figures of its line.
    fn run(
        &self,
        role: &str,
        endpoint: &str,
        size: usize,
        seconds: f64,
        more: &[String],
    ) -> anyhow::Result<Vec<f64>> {
        let millis = format!("{:.0}", seconds * 1e3);
        let mut command = self.command(role);
        let output = command.args([endpoint, &size.to_string(), &millis]).args(more).output()?;
        if !output.status.success() {
            bail!("{role}: {}", output.status);
        }
        figures(&String::from_utf8_lossy(&output.stdout))
    }
}

/// A process that listens; it ends with this.
struct Listening {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    endpoint: String,
}

impl Listening {
    fn figures(&mut self) -> anyhow::Result<Vec<f64>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        figures(&line)
    }

    fn cpu_seconds(&self) -> anyhow::Result<f64> {
        beside::cpu_seconds_of(self.child.id())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn figures(line: &str) -> anyhow::Result<Vec<f64>> {
    let all: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
    all.with_context(|| format!("no figures: {line:?}"))
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == roles::ROLE) {
        roles::play(&arguments[1..])?;
        return Ok(ExitCode::SUCCESS);
    }
    let args = Args::parse();
    beside::end_with_signals()?;
    let folder = tempfile::tempdir()?;
    let ours = Program::ours()?;
    let peer = if args.twice { Some(ours.clone()) } else { Program::libzmq(folder.path()) };
    let parts = if args.parts.is_empty() { Part::value_variants() } else { &args.parts[..] };
    let mut rows: Vec<Row> = Vec::new();
    let mut failed = false;
    for part in parts {
        eprintln!("{part:?} ...");
        for measure in part.measures() {
            let side = |at| Ok(if at == 0 { peer.clone() } else { Some(ours.clone()) });
            let figures = |program: &Program| (measure.figures)(program, args.sampling.seconds);
            match in_turn(args.sampling.rounds, &measure.rows, side, figures) {
                Ok(measured) => rows.extend(measured),
                Err(error) => {
                    eprintln!("{part:?}: {error:#}");
                    failed = true;
                }
            }
        }
    }
    let peer = if args.twice { "Lineway" } else { "libzmq" };
    beside::print(&rows, args.sampling.json, [peer, "Lineway"])?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
