//! `SIPp` as a child process that plays a scenario, `sip/caller` for `tests/sip/scenarios/caller.xml`;
//! what is behind a colon stands for its `CODE`.

#![allow(dead_code, reason = "each binary uses a part of it")]

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

/// Where sipp is to be had.
pub(crate) fn has_sipp() -> bool {
    match Command::new("sipp").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound && std::env::var_os("CI").is_none() => {
            eprintln!("skipped: sipp is not there (apt-get install sip-tester)");
            false
        }
        Err(error) => panic!("sipp: {error} (apt-get install sip-tester)"),
    }
}

/// One play at a time: each has several programs that want the processors, and a datagram that waits
/// too long is one that is lost.
pub(crate) fn stage_door() -> MutexGuard<'static, ()> {
    static DOOR: Mutex<()> = Mutex::new(());
    // What a failed test leaves is no harm.
    DOOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port that is free for both transports.
pub(crate) fn free_port() -> u16 {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let at = udp.local_addr().expect("an address");
        if TcpListener::bind(at).is_ok() {
            return at.port();
        }
    }
}

/// Whether somebody has this port of 127.0.0.1. Asked without taking it, which could be at the moment
/// at which sipp wants it.
pub(crate) fn is_taken(tcp: bool, port: u16) -> bool {
    let table = if tcp { "/proc/net/tcp" } else { "/proc/net/udp" };
    let table = fs::read_to_string(table).expect("a table of sockets");
    let local = format!(" 0100007F:{port:04X} 00000000:0000 ");
    table.lines().any(|line| line.contains(&local))
}

/// A running sipp.
pub(crate) struct Player {
    child: Child,
    name: &'static str,
    folder: TempDir,
}

impl Player {
    pub(crate) fn start(name: &'static str, port: u16, calls: u32, more: &[&str]) -> Self {
        Self::losing(None, name, port, calls, more)
    }

    /// One that loses so many percent of what it sends again by itself. (sipp takes an ACK that comes
    /// late, behind the BYE, for the end of the call.)
    pub(crate) fn losing(
        lost: Option<u32>,
        name: &'static str,
        port: u16,
        calls: u32,
        more: &[&str],
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (of, file) = name.split_once('/').expect("a folder of tests and a name");
        let (file, code) = file.split_once(':').unwrap_or((file, ""));
        let scenario = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join(format!("tests/{of}/scenarios/{file}.xml"));
        let text = fs::read_to_string(&scenario).expect("a scenario").replace("CODE", code);
        let text = match lost {
            // And is there as long as it may be asked again.
            Some(percent) => text
                .replace("<send retrans", &format!("<send lost=\"{percent}\" retrans"))
                .replace("<timewait milliseconds=\"2000\"", "<timewait milliseconds=\"20000\""),
            // Copies on a busy machine, that nobody needs, make it busier.
            None => text.replace("retrans=\"500\"", "retrans=\"3000\""),
        };
        let scenario = folder.path().join("scenario.xml");
        fs::write(&scenario, text).expect("it is written");
        let mut command = Command::new("sipp");
        command
            .arg("-sf")
            .arg(scenario)
            .args(["-i", "127.0.0.1", "-p", &port.to_string(), "-m", &calls.to_string()])
            .args(["-nostdin", "-timeout", "90s", "-timeout_error", "-trace_err", "-error_file"])
            .arg(folder.path().join("errors"))
            .args(more)
            .stdin(Stdio::null())
            .stdout(File::create(folder.path().join("told")).expect("a file"))
            .stderr(Stdio::null());
        Self { child: command.spawn().expect("sipp starts"), name, folder }
    }

    /// It ends, and no call failed.
    #[track_caller]
    pub(crate) fn succeeds(mut self) {
        let status = self.child.wait().expect("it is a child");
        let read = |file: &str| fs::read(self.folder.path().join(file)).unwrap_or_default();
        let told = String::from_utf8_lossy(&read("told")).into_owned();
        let end = told.len().saturating_sub(6000);
        let told = told.get(end..).unwrap_or_default();
        let errors = String::from_utf8_lossy(&read("errors")).into_owned();
        let errors: String = errors.chars().take(6000).collect();
        assert!(status.success(), "{}: {status}\n{told}\n{errors}", self.name);
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // It may be over.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
