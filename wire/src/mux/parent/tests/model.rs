//! A plain mux beside the real one: strings of bytes by child and direction, and what has ended.

use std::collections::BTreeMap;

use super::end::End;
use crate::mux::{FrameKind, HALF_CLOSE, HEADER_BYTES, Header, MOST_SENT};

/// What the wire looks like in one direction.
#[derive(Debug, Default)]
pub(super) struct Watch {
    children: BTreeMap<u32, Watched>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watched {
    opened: bool,
    any: bool,
    paused: bool,
    pub(super) fin: bool,
    pub(super) closed: bool,
}

impl Watch {
    /// Whole frames that a side sends.
    pub(super) fn sees(&mut self, is_server: bool, mut bytes: &[u8]) {
        while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
            let header = Header::decode(*header);
            bytes = &rest[usize::from(header.length)..];
            let kind = FrameKind::of(header.flags).expect("a known frame");
            let child = self.children.entry(header.cid).or_default();
            assert_ne!(header.cid, 0, "M07");
            assert!(!child.closed, "M18: {header:?} behind Close");
            let answer = kind == FrameKind::FlowResume && header.pad == HALF_CLOSE;
            match kind {
                FrameKind::Open => {
                    assert!(!is_server && !child.opened, "M07: {header:?}");
                    child.opened = true;
                }
                FrameKind::Close => child.closed = true,
                FrameKind::FlowResume if answer => {
                    assert!(is_server && !child.any, "M30: {header:?} is not the first");
                }
                FrameKind::FlowPause | FrameKind::FlowResume => {
                    let pauses = kind == FrameKind::FlowPause;
                    assert_ne!(std::mem::replace(&mut child.paused, pauses), pauses, "M21, M23");
                }
                FrameKind::Data => {
                    assert!(!child.fin, "M30: Data behind Fin");
                    assert!((1..=MOST_SENT).contains(&header.length.into()), "M02, M04");
                }
                FrameKind::Fin => assert!(!std::mem::replace(&mut child.fin, true), "M30: twice"),
            }
            assert!(kind == FrameKind::Data || header.length == 0, "M03");
            assert!(kind == FrameKind::Open || answer || header.pad == 0, "M03");
            assert!(is_server || child.opened, "M15: {header:?} before Open");
            child.any = true;
        }
    }

    pub(super) fn of(&self, cid: u32) -> Watched {
        self.children.get(&cid).copied().unwrap_or_default()
    }

    pub(super) fn cids(&self) -> impl Iterator<Item = u32> {
        self.children.keys().copied()
    }
}

/// One child, as its line sees it.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// What it sent.
    pub(super) paid: Vec<u8>,
    /// What it got.
    pub(super) got: Vec<u8>,
    pub(super) established: bool,
    /// It ended its input.
    pub(super) ended: bool,
    /// It was told that nothing follows.
    pub(super) input_ended: bool,
    /// It is gone or was told Finish.
    pub(super) over: bool,
    /// It ended in a way that loses nothing of what it sent.
    pub(super) graceful: bool,
    /// Its Finish, if it was told one.
    pub(super) finish: Option<String>,
}

/// All children of one side.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) children: BTreeMap<u64, Told>,
    /// Client's keys in the order of their Opens: the first has cid 1.
    pub(super) opened: Vec<u64>,
    pub(super) paid: usize,
    pub(super) delivered: usize,
    pub(super) lost: u64,
    sent: u64,
    received: u64,
}

impl Side {
    /// Children whose line has not ended.
    pub(super) fn live(&self) -> Vec<u64> {
        self.children.iter().filter(|(_, told)| !told.over).map(|(key, _)| *key).collect()
    }

    /// Takes what was delivered and told since the last step. Gives whether bytes were lost.
    pub(super) fn takes(&mut self, end: &mut End) -> bool {
        for (key, bytes) in std::mem::take(&mut end.got) {
            let told = self.children.entry(key.0).or_default();
            assert!(told.finish.is_none() && !told.input_ended, "behind the end of {key:?}");
            self.delivered += bytes.len();
            told.got.extend(bytes);
        }
        for event in end.told() {
            let mut words = event.split(' ');
            let (what, key) = (words.next().unwrap(), words.next().unwrap());
            let key = key.parse().unwrap();
            let told = self.children.entry(key).or_default();
            let last = what == "kept-no-more" || what == "est";
            assert!(!told.over || last, "{event} for a line that is over");
            match what {
                "opened" => told.established = true,
                "est" => {
                    assert!(!std::mem::replace(&mut told.established, true), "M15: Est twice");
                    self.opened.push(key);
                }
                "input-ended" => assert!(!std::mem::replace(&mut told.input_ended, true)),
                "finish" => {
                    told.over = true;
                    told.finish = Some(words.next().unwrap().to_owned());
                }
                _ => {}
            }
        }
        self.accounts(end)
    }

    /// Every byte is somewhere.
    fn accounts(&mut self, end: &mut End) -> bool {
        let counts = end.counts();
        let children = &end.parent.children;
        let unsent: usize = children.values().map(|child| child.out.len()).sum();
        self.sent += counts.sent_bytes;
        self.received += counts.received_bytes;
        self.lost += counts.lost_bytes;
        let came = self.paid as u64 + self.received;
        let held = (unsent + end.parent.queued() + self.delivered) as u64;
        assert_eq!(came, held + self.sent + self.lost, "bytes came from nowhere, or went there");
        counts.lost_bytes > 0
    }

    /// A line that is over is over in the parent, or there to send what is left.
    pub(super) fn agrees(&self, end: &End) {
        for (key, child) in &end.parent.children {
            let told = &self.children[&key.0];
            assert_eq!(told.over, child.left, "{key:?}");
        }
    }
}
