//! One end of a child's line: its place on a parent.

use std::sync::Arc;
use std::task::{Context, Poll};

use actix::{Addr, Recipient};
use lineway_wire::line::{FinishReason, PauseReason, PauseReasons};
use lineway_wire::mux::{ChildEnd, ChildKey};
use lineway_wire::queue::ByteQueue;

use super::credit::{Batch, Coming, Joining, Link, Toward};
use super::parent::MuxParent;
use super::parents::ParentPlace;
use crate::line::EndError;
use crate::messages::{ChildSays, ChildWord, Face, ParentSays, ParentWord};
use crate::registry::LineId;

/// The place of one child on its parent.
pub struct Stream {
    key: ChildKey,
    face: Face,
    parent: Addr<MuxParent>,
    parent_line: LineId,
    link: Arc<Link>,
    /// A client's child is counted at its pool.
    _place: Option<ParentPlace>,
    /// Its parent waits for it to join.
    coming: Option<Coming>,
    inbox: ByteQueue,
    /// Its parent knows where to reach it.
    at_home: bool,
    up: bool,
    /// Nothing follows what is in the inbox.
    ended: bool,
    /// The parent has ended the child.
    closed: Option<ChildEnd>,
    paused: bool,
    /// Why the source of what goes to the parent is stopped.
    stopped: PauseReasons,
    /// How the line ends, for the parent.
    end: ChildEnd,
}

/// What a parent's word means for the line of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing but what its end gives.
    Nothing,
    /// The far side is up (M15).
    Est,
    /// The source of what goes to the parent is stopped for this reason.
    Pause(PauseReason),
    /// This reason is over.
    Resume(PauseReason),
    /// Nothing can go to the parent any more.
    Closed,
}

impl Stream {
    /// A child's place.
    pub fn new(
        key: ChildKey,
        face: Face,
        parent: Addr<MuxParent>,
        parent_line: LineId,
        link: Arc<Link>,
        place: Option<(ParentPlace, Coming)>,
    ) -> Self {
        let (place, coming) = place.unzip();
        Self {
            key,
            face,
            parent,
            parent_line,
            link,
            // What a server's child is for is there already.
            up: face == Face::Far,
            at_home: face == Face::Far,
            _place: place,
            coming,
            inbox: ByteQueue::default(),
            ended: false,
            closed: None,
            paused: false,
            stopped: PauseReasons::NONE,
            end: ChildEnd::Finished,
        }
    }

    /// The line of the parent.
    pub const fn parent_line(&self) -> LineId {
        self.parent_line
    }

    /// True once the child's Open is out (M15).
    pub const fn is_up(&self) -> bool {
        self.up
    }

    /// Bytes that went to the parent and are not with the transport yet.
    pub fn unsent(&self) -> usize {
        self.link.under_way(Toward::Parent)
    }

    /// Why the source of what goes to the parent is stopped (M26, M27).
    pub const fn stopped(&self) -> PauseReasons {
        self.stopped
    }

    /// Why the parent has ended the child, if it has.
    pub fn closed(&self) -> Option<FinishReason> {
        self.closed.map(ChildEnd::finish_reason)
    }

    /// True until its parent knows where to reach it.
    pub const fn is_homeless(&self) -> bool {
        !self.at_home
    }

    /// What the parent says goes to this actor. With the first home, the child joins (M15).
    pub fn set_home(&mut self, home: Recipient<ParentSays>) {
        self.link.set_home(home);
        if !std::mem::replace(&mut self.at_home, true) {
            let joining = Joining::new(Arc::clone(&self.link), self.coming.take());
            self.say(ChildWord::Join(joining));
            if self.paused {
                self.say(ChildWord::Pause);
            }
        }
    }

    /// True if this is meant for it.
    pub fn is_meant(&self, says: &ParentSays) -> bool {
        self.key == says.key && self.face == says.face
    }

    fn say(&self, says: ChildWord) {
        self.parent.do_send(ChildSays { key: self.key, face: self.face, says });
    }

    /// The parent says something.
    pub fn hear(&mut self, says: ParentWord) -> Heard {
        match says {
            ParentWord::Est(line) => {
                self.parent_line = line.unwrap_or(self.parent_line);
                self.up = true;
                Heard::Est
            }
            ParentWord::Payload(batch) => {
                batch.take().move_to(&mut self.inbox);
                Heard::Nothing
            }
            ParentWord::Pause(reason) => {
                self.stopped.pause(reason);
                Heard::Pause(reason)
            }
            ParentWord::Resume(reason) => {
                self.stopped.resume(reason);
                Heard::Resume(reason)
            }
            ParentWord::InputEnded => {
                self.ended = true;
                Heard::Nothing
            }
            ParentWord::Finish(end) => {
                self.ended = true;
                self.closed = Some(end);
                Heard::Closed
            }
        }
    }

    /// Takes what the parent has delivered.
    pub fn poll_read(&mut self, queue: &mut ByteQueue) -> Poll<usize> {
        let (taken, buffers) = (self.inbox.len(), self.inbox.buffers());
        if taken == 0 {
            return if self.ended { Poll::Ready(0) } else { Poll::Pending };
        }
        self.inbox.move_to(queue);
        self.link.give_back(Toward::Child, taken, buffers);
        Poll::Ready(taken)
    }

    /// Sends what waits to the parent, as far as there is credit.
    pub fn poll_write(
        &mut self,
        cx: &Context<'_>,
        queue: &mut ByteQueue,
    ) -> Poll<Result<usize, EndError>> {
        if self.closed.is_some() {
            return Poll::Ready(Err(EndError::Broken(std::io::ErrorKind::BrokenPipe.into())));
        }
        let room = if self.at_home { self.link.room(Toward::Parent) } else { 0 };
        if room == 0 {
            self.link.wait(cx.waker());
            return Poll::Pending;
        }
        let mut payload = ByteQueue::default();
        // Whole buffers: the last may go over the mark.
        while payload.len() < room
            && let Some(buffer) = queue.pop()
        {
            payload.push(buffer);
        }
        let sent = payload.len();
        if sent > 0 {
            self.say(ChildWord::Payload(Batch::new(&self.link, Toward::Parent, payload)));
        }
        Poll::Ready(Ok(sent))
    }

    /// The other end of the line has ended its input (M30, M31).
    pub fn end(&mut self) {
        if self.closed.is_none() && self.end == ChildEnd::Finished {
            self.say(ChildWord::InputEnded);
        }
    }

    /// The other end of the line broke: a reset is Close, never Fin (M30).
    pub fn other_end_broke(&mut self) {
        if self.end == ChildEnd::Finished {
            self.end = ChildEnd::Reset;
        }
    }

    /// The line takes no more payload at the moment, or it does again (M21, M23).
    pub fn pause(&mut self, paused: bool) {
        let changes = std::mem::replace(&mut self.paused, paused) != paused;
        if changes && self.at_home && !self.ended {
            self.say(if paused { ChildWord::Pause } else { ChildWord::Resume });
        }
    }

    /// The line is over for this reason.
    pub fn given_up(&mut self, reason: FinishReason) {
        if reason != FinishReason::PeerFinished {
            self.end = ChildEnd::of(reason);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let (held, buffers) = (self.inbox.len(), self.inbox.buffers());
        if held > 0 {
            self.link.give_back(Toward::Child, held, buffers);
        }
        if self.closed.is_none() && self.at_home {
            self.say(ChildWord::Gone(self.end));
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("key", &self.key)
            .field("face", &self.face)
            .field("up", &self.up)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
