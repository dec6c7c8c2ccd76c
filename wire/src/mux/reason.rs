//! The closed sets of the mux: what its metrics, its log and its errors call things.

use crate::line::FinishReason;

/// What a frame is, with the value of its flags field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// A child begins (M15).
    Open = 0,
    /// A child is over (M18).
    Close = 1,
    /// The sender wants no more Data of this child (M21).
    FlowPause = 2,
    /// It wants Data again (M23); with a mark, it agrees to half-closes (M30).
    FlowResume = 3,
    /// Payload of a child (M02).
    Data = 4,
    /// One direction of a child is over (M30).
    Fin = 5,
}

impl FrameKind {
    /// Every kind, in the order of the metrics, which is that of the flags values.
    pub const ALL: [Self; 6] =
        [Self::Open, Self::Close, Self::FlowPause, Self::FlowResume, Self::Data, Self::Fin];

    /// The kind with this value in its flags field; `None` is dropped as an unknown flag (M05).
    pub fn of(flags: u8) -> Option<Self> {
        Self::ALL.get(usize::from(flags)).copied()
    }

    /// The word used as metric label and log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Close => "close",
            Self::FlowPause => "flow-pause",
            Self::FlowResume => "flow-resume",
            Self::Data => "data",
            Self::Fin => "fin",
        }
    }
}

/// Why a child is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChildEnd {
    /// Both directions ended with Fin (M30), or its own side ended in order and Close went out
    /// behind its Data (M18, M19, M31).
    Finished,
    /// Close came from the peer (M18).
    PeerClosed,
    /// What stands behind it could not be connected (M17).
    Refused,
    /// Its own side was reset, or had an error (M30, M31).
    Reset,
    /// Its queue stood at `child-buffer-limit` and drained nothing in time (M24).
    Overflow,
    /// The queues of its parent stood at `parent-buffer-limit`, none drained in time, and its own
    /// was the largest (M25).
    Stalled,
    /// Its client had ended its input, and no reply came within `half-close-timeout-ms` (M31).
    HalfCloseTimeout,
    /// Its client had ended its input, and too many such children stood on its worker (M31).
    HalfCloseLimit,
    /// Its parent's transport was lost (M20).
    ParentLost,
    /// Its parent could not be made (M14).
    ParentFailed,
    /// The service or the node stops, and the drain limit is over.
    Drain,
    /// `max-children` live on its parent: it got Close, and dialled nothing (M32).
    MaxChildren,
    /// An operator closed it.
    Admin,
    /// Another time limit of it was over, such as that of delivering what is left.
    Timeout,
    /// Its own line ended for another reason of its own, such as idleness (L08 says which).
    LineEnded,
    /// The actor of its line, or of its parent, panicked.
    Panic,
}

impl ChildEnd {
    /// Every reason, in the order of the metrics.
    pub const ALL: [Self; 16] = [
        Self::Finished,
        Self::PeerClosed,
        Self::Refused,
        Self::Reset,
        Self::Overflow,
        Self::Stalled,
        Self::HalfCloseTimeout,
        Self::HalfCloseLimit,
        Self::ParentLost,
        Self::ParentFailed,
        Self::Drain,
        Self::MaxChildren,
        Self::Admin,
        Self::Timeout,
        Self::LineEnded,
        Self::Panic,
    ];

    /// The word used as metric label and log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::PeerClosed => "peer-closed",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Overflow => "overflow",
            Self::Stalled => "stalled",
            Self::HalfCloseTimeout => "half-close-timeout",
            Self::HalfCloseLimit => "half-close-limit",
            Self::ParentLost => "parent-lost",
            Self::ParentFailed => "parent-failed",
            Self::Drain => "drain",
            Self::MaxChildren => "max-children",
            Self::Admin => "admin",
            Self::Timeout => "timeout",
            Self::LineEnded => "line-ended",
            Self::Panic => "panic",
        }
    }

    /// True when a child of a MuxClient can end so: what is refused behind the server comes as
    /// Close, and only a server has `max-children`.
    pub const fn on_client(self) -> bool {
        !matches!(self, Self::Refused | Self::MaxChildren)
    }

    /// True when a child of a MuxServer can end so: M14 and M31 are a client's.
    pub const fn on_server(self) -> bool {
        !matches!(self, Self::HalfCloseTimeout | Self::HalfCloseLimit | Self::ParentFailed)
    }

    /// The end of a child whose own line ended by itself for this reason (M18).
    pub const fn of(line: FinishReason) -> Self {
        match line {
            FinishReason::PeerFinished => Self::Finished,
            FinishReason::ConnectFailed => Self::Refused,
            FinishReason::Timeout => Self::Timeout,
            FinishReason::Idle | FinishReason::Overflow | FinishReason::ProtocolError => {
                Self::LineEnded
            }
            FinishReason::Drain => Self::Drain,
            FinishReason::Admin => Self::Admin,
            FinishReason::Panic => Self::Panic,
        }
    }

    /// What the child's own line is told when the mux ends it.
    pub const fn finish_reason(self) -> FinishReason {
        match self {
            Self::Finished
            | Self::PeerClosed
            | Self::Reset
            | Self::ParentLost
            | Self::LineEnded => FinishReason::PeerFinished,
            Self::Refused | Self::ParentFailed => FinishReason::ConnectFailed,
            Self::Overflow | Self::Stalled | Self::HalfCloseLimit | Self::MaxChildren => {
                FinishReason::Overflow
            }
            Self::HalfCloseTimeout | Self::Timeout => FinishReason::Timeout,
            Self::Drain => FinishReason::Drain,
            Self::Admin => FinishReason::Admin,
            Self::Panic => FinishReason::Panic,
        }
    }
}

/// Why a frame that came, or its payload, was dropped; the parent lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dropped {
    /// No child has its cid (M05).
    UnknownCid,
    /// Its flags value is none of the six (M05).
    UnknownFlag,
    /// Open for a child that lives (M05).
    OpenLiveCid,
    /// Its child is closing (M05).
    Closing,
    /// Data without payload (M04).
    EmptyData,
    /// Data behind the Fin of its direction (M30).
    AfterFin,
    /// Fin without agreement (M30).
    FinUnagreed,
    /// Payload on a frame other than Data: the frame holds, its payload is
    /// skipped (M03).
    PayloadOnControl,
}

impl Dropped {
    /// Every reason, in the order of the metrics.
    pub const ALL: [Self; 8] = [
        Self::UnknownCid,
        Self::UnknownFlag,
        Self::OpenLiveCid,
        Self::Closing,
        Self::EmptyData,
        Self::AfterFin,
        Self::FinUnagreed,
        Self::PayloadOnControl,
    ];

    /// The word used as metric label and log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownCid => "unknown-cid",
            Self::UnknownFlag => "unknown-flag",
            Self::OpenLiveCid => "open-live-cid",
            Self::Closing => "closing",
            Self::EmptyData => "empty-data",
            Self::AfterFin => "after-fin",
            Self::FinUnagreed => "fin-unagreed",
            Self::PayloadOnControl => "payload-on-control",
        }
    }
}

/// Why a parent's transport is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ParentPause {
    /// One child's queue stands at `child-buffer-limit` (M24).
    ChildBuffer,
    /// All queues together stand at `parent-buffer-limit` (M25).
    ParentBuffer,
    /// Too many control frames wait to be sent (M32).
    Control,
}

impl ParentPause {
    /// Every reason, in the order of the metrics.
    pub const ALL: [Self; 3] = [Self::ChildBuffer, Self::ParentBuffer, Self::Control];

    /// The word used as metric label, log field and admin field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChildBuffer => "child-buffer",
            Self::ParentBuffer => "parent-buffer",
            Self::Control => "control",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ChildEnd, Dropped, FrameKind, ParentPause};
    use crate::line::FinishReason;

    fn assert_words_and_places(all: impl IntoIterator<Item = (usize, &'static str)>) {
        let mut words = Vec::new();
        for (place, (value, word)) in all.into_iter().enumerate() {
            assert_eq!(value, place, "{word}");
            assert!(!words.contains(&word), "{word} stands twice");
            words.push(word);
        }
    }

    #[test]
    fn every_closed_set_has_a_word_of_its_own_for_each_and_its_place_in_all() {
        assert_words_and_places(FrameKind::ALL.map(|v| (v as usize, v.as_str())));
        assert_words_and_places(ChildEnd::ALL.map(|v| (v as usize, v.as_str())));
        assert_words_and_places(Dropped::ALL.map(|v| (v as usize, v.as_str())));
        assert_words_and_places(ParentPause::ALL.map(|v| (v as usize, v.as_str())));
    }

    #[test]
    fn mux_m05_a_frame_kind_reads_back_from_its_flags_value_and_others_are_unknown() {
        for kind in FrameKind::ALL {
            assert_eq!(FrameKind::of(kind as u8), Some(kind));
        }
        for flags in 6..=u8::MAX {
            assert_eq!(FrameKind::of(flags), None);
        }
    }

    #[test]
    fn line_l08_a_line_that_ends_its_child_is_called_what_it_would_be_told() {
        for reason in FinishReason::ALL {
            let end = ChildEnd::of(reason);
            let same = end == ChildEnd::LineEnded || end.finish_reason() == reason;
            assert!(same, "{reason} is {end:?}");
        }
    }

    #[test]
    fn each_side_of_a_mux_has_the_ends_that_the_other_can_not_have() {
        let only = |side: fn(ChildEnd) -> bool, other: fn(ChildEnd) -> bool| {
            let ends = ChildEnd::ALL.into_iter().filter(|end| side(*end) && !other(*end));
            ends.collect::<Vec<_>>()
        };
        let client = [ChildEnd::HalfCloseTimeout, ChildEnd::HalfCloseLimit, ChildEnd::ParentFailed];
        let server = [ChildEnd::Refused, ChildEnd::MaxChildren];
        assert_eq!(only(ChildEnd::on_client, ChildEnd::on_server), client);
        assert_eq!(only(ChildEnd::on_server, ChildEnd::on_client), server);
    }
}
