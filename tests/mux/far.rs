//! The other side of a parent, frame by frame in the hands of the test.

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::common::PATIENCE;
use crate::common::peers::{careful, connect};

pub(crate) const OPEN: u8 = 0;
pub(crate) const CLOSE: u8 = 1;
pub(crate) const FLOW_PAUSE: u8 = 2;
pub(crate) const FLOW_RESUME: u8 = 3;
pub(crate) const DATA: u8 = 4;
pub(crate) const FIN: u8 = 5;

/// One frame, as it stands on the wire.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) flags: u8,
    pub(crate) pad: u8,
    pub(crate) cid: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let length = u16::try_from(self.payload.len()).expect("it fits into a frame");
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend([self.flags, self.pad]);
        bytes.extend(self.cid.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// The frame at the front, and what follows it; `None` when it is not whole.
    pub(crate) fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = bytes.split_first_chunk::<8>()?;
        let [l0, l1, flags, pad, cid @ ..] = *header;
        let (payload, rest) = rest.split_at_checked(u16::from_be_bytes([l0, l1]).into())?;
        let cid = u32::from_be_bytes(cid);
        Some((Self { flags, pad, cid, payload: payload.to_vec() }, rest))
    }

    /// All frames of a recording, and nothing else.
    pub(crate) fn all(mut bytes: &[u8]) -> Vec<Self> {
        let mut frames = Vec::new();
        while let Some((frame, rest)) = Self::split(bytes) {
            frames.push(frame);
            bytes = rest;
        }
        assert!(bytes.is_empty(), "whole frames");
        frames
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flags, pad, cid, payload } = self;
        let start = String::from_utf8_lossy(&payload[..payload.len().min(16)]);
        write!(f, "[flags {flags} pad {pad} cid {cid} length {} {start:?}]", payload.len())
    }
}

const fn control(flags: u8, cid: u32) -> Frame {
    Frame { flags, pad: 0, cid, payload: Vec::new() }
}

pub(crate) const fn open(cid: u32) -> Frame {
    control(OPEN, cid)
}

/// An Open that asks for half-closes (M30).
pub(crate) fn asking(cid: u32) -> Frame {
    Frame { pad: 1, ..control(OPEN, cid) }
}

/// The FlowResume that agrees to them.
pub(crate) fn answer(cid: u32) -> Frame {
    Frame { pad: 1, ..control(FLOW_RESUME, cid) }
}

pub(crate) const fn close(cid: u32) -> Frame {
    control(CLOSE, cid)
}

pub(crate) const fn flow_pause(cid: u32) -> Frame {
    control(FLOW_PAUSE, cid)
}

pub(crate) const fn flow_resume(cid: u32) -> Frame {
    control(FLOW_RESUME, cid)
}

pub(crate) const fn fin(cid: u32) -> Frame {
    control(FIN, cid)
}

pub(crate) fn data(cid: u32, payload: impl AsRef<[u8]>) -> Frame {
    Frame { payload: payload.as_ref().to_vec(), ..control(DATA, cid) }
}

/// Data in frames as a WaterWall peer cuts them.
pub(crate) fn pieces(cid: u32, payload: &[u8]) -> impl Iterator<Item = Frame> {
    payload.chunks(32 * 1024).map(move |piece| data(cid, piece))
}

/// One end of a parent. What comes is read all the time.
pub(crate) struct Peer {
    stream: TcpStream,
    frames: Receiver<Frame>,
}

impl Peer {
    /// A parent of the test's own, to a MuxServer.
    #[track_caller]
    pub(crate) fn connect(to: SocketAddr) -> Self {
        Self::on(connect(to))
    }

    /// The other end of this parent.
    #[track_caller]
    pub(crate) fn on(stream: TcpStream) -> Self {
        let mut from = careful(stream.try_clone().expect("a descriptor"));
        from.set_read_timeout(None).expect("an option");
        let (found, frames) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut piece = vec![0; 1 << 16];
            loop {
                match from.read(&mut piece) {
                    Ok(0) => return,
                    Ok(length) => bytes.extend(&piece[..length]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
                let mut rest = &bytes[..];
                while let Some((frame, after)) = Frame::split(rest) {
                    rest = after;
                    // Whoever dropped the receiver wants no more.
                    let _ = found.send(frame);
                }
                bytes = rest.to_vec();
            }
        });
        Self { stream, frames }
    }

    /// Sends frames in one write.
    #[track_caller]
    pub(crate) fn send(&mut self, frames: impl IntoIterator<Item = Frame>) {
        let bytes: Vec<u8> = frames.into_iter().flat_map(|frame| frame.bytes()).collect();
        self.send_bytes(&bytes);
    }

    #[track_caller]
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("it takes them");
    }

    /// The next frame.
    #[track_caller]
    pub(crate) fn frame(&self) -> Frame {
        self.frames.recv_timeout(PATIENCE).expect("a frame comes")
    }

    /// The next frame, if it comes so soon.
    #[track_caller]
    pub(crate) fn frame_within(&self, limit: Duration) -> Option<Frame> {
        match self.frames.recv_timeout(limit) {
            Ok(frame) => Some(frame),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the parent has ended"),
        }
    }

    /// The next frame, if it has come.
    pub(crate) fn next(&self) -> Option<Frame> {
        self.frames.try_recv().ok()
    }

    /// So many payload bytes of this child, and no other frame among them.
    #[track_caller]
    pub(crate) fn payload(&self, cid: u32, length: usize) -> Vec<u8> {
        let mut payload = Vec::new();
        while payload.len() < length {
            let frame = self.frame();
            assert_eq!((frame.flags, frame.cid), (DATA, cid), "{frame:?}");
            payload.extend(frame.payload);
        }
        payload
    }

    /// What comes is these frames.
    #[track_caller]
    pub(crate) fn expect(&self, frames: impl IntoIterator<Item = Frame>) {
        for frame in frames {
            assert_eq!(self.frame(), frame);
        }
    }

    /// True when the other end has ended the parent, and no frame is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.frames.recv_timeout(Duration::ZERO) == Err(RecvTimeoutError::Disconnected)
    }

    /// Waits for the end of the parent; no frame may come before.
    #[track_caller]
    pub(crate) fn ended(&self) {
        assert_eq!(self.frames.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
    }

    /// Ends the own direction.
    #[track_caller]
    pub(crate) fn finish(&self) {
        self.stream.shutdown(Shutdown::Write).expect("it is open");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The reading thread holds the connection as well.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
