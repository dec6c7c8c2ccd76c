//! `lineway lines`: the live lines of a running service, from its admin interface.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpStream;
use tokio::time::timeout;
use unicode_width::UnicodeWidthStr;

use tree::Row;

/// Lines that one request asks for.
const PAGE: usize = 10_000;
/// The longest answer that is read.
const MAX_ANSWER: usize = 64 * 1024 * 1024;
/// Children of one node that are listed for each parent on a terminal.
const CHILDREN: usize = 10;
const CONNECT_TIME: Duration = Duration::from_secs(5);
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Prints the live lines of the service whose admin interface is at `admin`. On a terminal only the
/// first children of each parent are listed, unless `all` are wanted.
///
/// # Errors
/// No service answers there, what answers is no Lineway, or the output can not be written.
pub fn run(admin: SocketAddr, json: bool, all: bool) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let pages = runtime.block_on(fetch(admin))?;
    let mut output = io::BufWriter::new(io::stdout().lock());
    let most = if all || !io::stdout().is_terminal() { usize::MAX } else { CHILDREN };
    let show = if json { Show::Json } else { Show::Table(most) };
    let printed = print(&pages, show, &mut output).and_then(|()| output.flush());
    match printed {
        // Whoever read our output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        printed => printed.map(|()| ExitCode::SUCCESS).context("could not print the lines"),
    }
}

/// How lines are printed.
#[derive(Clone, Copy)]
enum Show {
    /// As one JSON document.
    Json,
    /// As a table, with so many children of one node on each parent.
    Table(usize),
}

/// One page of `/api/lines`.
#[derive(Deserialize)]
pub(crate) struct Page {
    total: usize,
    next: Option<String>,
    pub(crate) lines: Vec<Box<RawValue>>,
}

/// What the table shows of a line.
#[derive(Deserialize)]
struct Line {
    id: String,
    kind: String,
    node: String,
    maker: Option<String>,
    #[serde(default)]
    parent: Option<String>,
    peer: Option<String>,
    age_seconds: f64,
    state: String,
    bytes: Both<u64>,
    queued: Both<u64>,
    paused: Both<Vec<String>>,
    #[serde(default)]
    mux: Vec<MuxSide>,
}

/// One side of the mux that a line is a parent of.
#[derive(Deserialize)]
struct MuxSide {
    side: String,
    node: String,
    mode: Option<String>,
    state: String,
    children: u64,
    children_paused: u64,
    queued: u64,
    reading_paused: Option<String>,
    cids: Option<Cids>,
}

#[derive(Deserialize)]
struct Cids {
    leased: u64,
    used: u64,
}

#[derive(Deserialize)]
struct Both<T> {
    upstream: T,
    downstream: T,
}

/// Every page, in order.
pub(crate) async fn fetch(admin: SocketAddr) -> anyhow::Result<Vec<Page>> {
    let none = || format!("no service answers at {admin}; is it running? --admin names another");
    let connecting = timeout(CONNECT_TIME, TcpStream::connect(admin)).await;
    let stream = connecting.with_context(none)?.with_context(none)?;
    let (mut client, connection) =
        http1::Builder::new().handshake(TokioIo::new(stream)).await.with_context(none)?;
    let talk = async {
        let mut pages: Vec<Page> = Vec::new();
        loop {
            let next = pages.last().map(|page| page.next.clone());
            let after = match next {
                None => String::new(),
                Some(Some(id)) => {
                    format!(
                        "&after={}",
                        form_urlencoded::byte_serialize(id.as_bytes()).collect::<String>()
                    )
                }
                Some(None) => return Ok(pages),
            };
            let request = Request::get(format!("/api/lines?limit={PAGE}{after}"))
                .header(HOST, admin.to_string())
                .body(Empty::<Bytes>::new())?;
            client.ready().await.with_context(none)?;
            let page = timeout(ANSWER_TIME, page(&mut client, request))
                .await
                .with_context(|| format!("the service at {admin} takes too long to answer"))?
                .with_context(|| format!("the service at {admin} gave no list of lines"))?;
            if page.lines.is_empty() && page.next.is_some() {
                bail!("the service at {admin} gave a page without lines that is not the last");
            }
            pages.push(page);
        }
    };
    tokio::pin!(connection, talk);
    tokio::select! {
        biased;
        pages = &mut talk => return pages,
        // The answer of a connection that ended may be there already.
        _ = &mut connection => {}
    }
    talk.await
}

async fn page(
    client: &mut http1::SendRequest<Empty<Bytes>>,
    request: Request<Empty<Bytes>>,
) -> anyhow::Result<Page> {
    let response = client.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let body = body.map_err(anyhow::Error::from_boxed)?.to_bytes();
    if status != StatusCode::OK {
        bail!("it answered {status}");
    }
    serde_json::from_slice(&body).context("it is no Lineway of this version")
}

fn print(pages: &[Page], show: Show, output: &mut impl Write) -> io::Result<()> {
    match show {
        Show::Json => print_json(pages, output),
        Show::Table(most) => print_table(pages, most, output),
    }
}

/// One document with the lines of all pages, as they were served.
fn print_json(pages: &[Page], output: &mut impl Write) -> io::Result<()> {
    let total: usize = pages.iter().map(|page| page.lines.len()).sum();
    write!(output, "{{\"total\":{total},\"next\":null,\"lines\":[")?;
    let mut comma = "";
    for line in pages.iter().flat_map(|page| &page.lines) {
        write!(output, "{comma}\n{line}")?;
        comma = ",";
    }
    output.write_all(if comma.is_empty() { b"]}\n" } else { b"\n]}\n" })
}

const HEADS: [&str; 10] =
    ["LINE", "KIND", "NODE", "PEER", "AGE", "STATE", "UPSTREAM", "DOWNSTREAM", "QUEUED", "PAUSED"];
/// Which columns are numbers.
const RIGHT: [bool; 10] = [false, false, false, false, true, false, true, true, true, false];

fn print_table(pages: &[Page], most: usize, output: &mut impl Write) -> io::Result<()> {
    let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let lines = pages.iter().flat_map(|page| &page.lines);
    let lines = lines.map(|line| serde_json::from_str(line.get()));
    let lines: Vec<Line> = lines.collect::<Result<_, _>>().map_err(wrong)?;
    if lines.is_empty() {
        return writeln!(output, "no open lines");
    }
    let rows = tree::of(&lines, most);
    let cells = rows.iter().map(|(mark, row)| match row {
        Row::Line(at, above) => Ok(cells(mark, &lines[*at], above.map(|above| &lines[above]))),
        Row::Side(at, side) => Err(format!("{mark}{}", words(&lines[*at].mux[*side]))),
        Row::More(more) => Err(format!("{mark}{more} more children; --all lists them")),
    });
    let cells: Vec<_> = cells.collect();
    let mut widths = HEADS.map(str::len);
    for row in cells.iter().flatten() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    print_row(&HEADS, &widths, output)?;
    for row in &cells {
        match row {
            Ok(cells) => print_row(&cells.each_ref().map(String::as_str), &widths, output)?,
            Err(words) => writeln!(output, "{words}")?,
        }
    }
    // Lines that were opened or closed between two pages are not in all of them.
    let total = pages.last().map_or(0, |page| page.total);
    if pages.len() > 1 && total != lines.len() {
        writeln!(output, "{} lines listed, {total} open at the end", lines.len())?;
    }
    Ok(())
}

fn print_row(cells: &[&str; 10], widths: &[usize; 10], output: &mut impl Write) -> io::Result<()> {
    let mut text = String::new();
    for ((cell, width), right) in cells.iter().zip(widths).zip(RIGHT) {
        if !text.is_empty() {
            text.push_str("  ");
        }
        let space = width.saturating_sub(cell.width());
        if right {
            text.extend(std::iter::repeat_n(' ', space));
        }
        text.push_str(cell);
        if !right {
            text.extend(std::iter::repeat_n(' ', space));
        }
    }
    writeln!(output, "{}", text.trim_end())
}

fn cells(mark: &str, line: &Line, above: Option<&Line>) -> [String; 10] {
    let queued = line.mux.iter().map(|side| side.queued);
    let queued = queued
        .fold(line.queued.upstream.saturating_add(line.queued.downstream), u64::saturating_add);
    let mut paused: Vec<String> = Vec::new();
    for (arrow, side, reasons) in
        [("up", "server", &line.paused.upstream), ("down", "client", &line.paused.downstream)]
    {
        // What a mux does not read is what goes to its children.
        let reading = line.mux.iter().filter(|mux| mux.side == side);
        let reading = reading.filter_map(|mux| mux.reading_paused.as_ref());
        let all: Vec<_> = reasons.iter().chain(reading).map(String::as_str).collect();
        if !all.is_empty() {
            paused.push(format!("{arrow}:{}", all.join("+")));
        }
    }
    // A parent under which it does not stand.
    let elsewhere = line.parent.as_ref().filter(|id| above.is_none_or(|above| above.id != **id));
    [
        format!("{mark}{}", printable(&line.id)),
        printable(&line.kind),
        printable(&line.node),
        match (&line.peer, elsewhere) {
            (Some(peer), _) => printable(peer),
            (None, Some(parent)) => format!("on {}", printable(parent)),
            (None, None) => "-".into(),
        },
        duration(line.age_seconds),
        printable(&line.state),
        bytes(line.bytes.upstream),
        bytes(line.bytes.downstream),
        if queued == 0 { "-".into() } else { bytes(queued) },
        if paused.is_empty() { "-".into() } else { printable(&paused.join(" ")) },
    ]
}

/// What one side of a mux has on its parent.
fn words(side: &MuxSide) -> String {
    let children = if side.children == 1 { "child" } else { "children" };
    let mut words = format!(
        "{} ({}): {} {children}",
        printable(&side.node),
        printable(&side.side),
        side.children
    );
    let mut add = |text: std::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = write!(words, ", {text}");
    };
    if side.children_paused > 0 {
        add(format_args!("{} paused", side.children_paused));
    }
    if side.queued > 0 {
        add(format_args!("{} queued", bytes(side.queued)));
    }
    add(format_args!("{}", printable(&side.state)));
    if let Some(mode) = &side.mode {
        add(format_args!("{}", printable(mode)));
    }
    if let Some(Cids { leased, used }) = side.cids {
        add(format_args!("{used} of {leased} leased cids used"));
    }
    words
}

/// A text that changes nothing on a terminal: neither colours nor the direction of writing.
fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}');
        if c.is_control() || turns {
            // Writing to a string does not fail.
            let _ = write!(safe, "{}", c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Three digits and a unit.
fn bytes(count: u64) -> String {
    if count < 1024 {
        return format!("{count} B");
    }
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut number = count as f64 / 1024.0;
    let mut unit = 0;
    while number >= 999.5 {
        number /= 1024.0;
        unit += 1;
    }
    let decimals = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
    format!("{number:.decimals$} {}", units[unit])
}

/// The two largest units of a time.
fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m{:02}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h{minutes:02}m"),
        (days, hours, _) => format!("{days}d{hours:02}h"),
    }
}

mod tree;

#[cfg(test)]
mod tests;
