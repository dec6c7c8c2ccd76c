//! HTTP over a plain connection, and the metrics page.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

/// An answer of the admin interface.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Header names in lower case.
    pub headers: BTreeMap<String, String>,
    /// What follows the headers.
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    fn of(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(bytes)));
        let head = std::str::from_utf8(&bytes[..end]).expect("a head");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let header = |line: &str| {
            let (name, value) = line.split_once(':').expect("a header");
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let headers: BTreeMap<_, _> = lines.map(header).collect();
        let mut body = bytes[end + 4..].to_vec();
        if headers.get("transfer-encoding").is_some_and(|value| value == "chunked") {
            body = unchunk(&body);
        }
        Self { status: status.expect("a status"), headers, body }
    }
}

/// Puts the chunks of a chunked body together.
fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n").expect("a size");
        let size = std::str::from_utf8(&rest[..line]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        rest = &rest[line + 2..];
        if size == 0 {
            return whole;
        }
        whole.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}

/// One request on a connection of its own; `headers` end with a line break each.
#[track_caller]
pub fn ask(to: SocketAddr, method: &str, path: &str, headers: &str) -> Reply {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n{headers}\r\n");
    Reply::of(&exchange(to, request.as_bytes()))
}

/// Sends bytes, as many as are taken, and reads until the other side ends.
#[track_caller]
pub fn exchange(to: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(to).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    // A server may answer and end before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => {
            panic!("no whole answer: {error}")
        }
        _ => answer,
    }
}

/// The series of a metrics page and their values.
pub struct Scrape(pub BTreeMap<String, f64>);

impl Scrape {
    /// Reads the text format.
    pub fn of(page: &str) -> Self {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let series = lines.map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a sample");
            (series.to_owned(), value.parse().expect("a number"))
        });
        Self(series.collect())
    }

    /// The sum of all series of a name that have these labels.
    #[track_caller]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels: Vec<_> =
            labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let mine = |series: &str| {
            let (own, rest) = series.split_once('{').unwrap_or((series, ""));
            own == name && labels.iter().all(|label| rest.contains(label))
        };
        let found: Vec<_> = self.0.iter().filter(|(series, _)| mine(series)).collect();
        assert!(!found.is_empty(), "no series {name} with {labels:?}");
        found.iter().map(|(_, value)| **value).sum()
    }

    /// Whether a series has this label.
    pub fn has(&self, label: &str, value: &str) -> bool {
        let part = format!("{label}=\"{value}\"");
        self.0.keys().any(|series| series.contains(&part))
    }
}
