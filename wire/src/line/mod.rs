//! What every line has in common (contract "lines", L01 to L09): why it ends, why it is paused,
//! when it is paused, and how the ends of its two directions follow each other.

mod ends;
mod idle;
mod pause;
mod reason;
mod water;

pub use ends::{EarlyEnd, Ends};
pub use idle::{Idle, IdleLimits};
pub use pause::{PauseReason, PauseReasons};
pub use reason::FinishReason;
pub use water::{Edge, Water, WaterMarks};

/// Where a payload travels (contract "lines": upstream is towards `next`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the previous node towards `next`: towards the server.
    Upstream,
    /// From `next` towards the previous node: towards the client.
    Downstream,
}

impl Direction {
    /// Both directions, upstream first.
    pub const ALL: [Self; 2] = [Self::Upstream, Self::Downstream];

    /// The word used as metric label, log field and admin field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Downstream => "downstream",
        }
    }

    /// The opposite direction.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::Upstream => Self::Downstream,
            Self::Downstream => Self::Upstream,
        }
    }
}

/// What sort of line it is; the `kind` label of the line metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineKind {
    /// A line that came from outside or from a tester.
    Main,
    /// A line that another line made.
    Child,
    /// A shared transport that carries many children.
    Parent,
}

impl LineKind {
    /// Every kind, in the order of the metrics.
    pub const ALL: [Self; 3] = [Self::Main, Self::Child, Self::Parent];

    /// The word used as metric label, log field and admin field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Child => "child",
            Self::Parent => "parent",
        }
    }
}
